"""Def-use chains through a cast: backward to where its value comes from, forward to where it goes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, case, select

from opscanner.graph import schema
from opscanner.graph.prune import chunks
from opscanner.ir import EdgeKind
from opscanner.results import PASSING_ON, CastRow, Chain, ChainStep

#: A comparison that decides about a value is not where the value comes from.
_NOT_VALUE = EdgeKind.CONTROL.value


_RETURN, _CAPTURE = EdgeKind.RETURN.value, EdgeKind.CAPTURE.value
_INTO_CALLEE = (EdgeKind.ARGUMENT.value, EdgeKind.LAUNCH.value)
_BETWEEN_FUNCTIONS = (*_INTO_CALLEE, _RETURN, _CAPTURE)
#: Bounds the visits of a walk by its operations: there are more steps that only hand a value on.
_VISITS_A_STEP = 20
_Way = Literal["backward", "forward"]


class _Place(NamedTuple):
    """A node, reached through calls: instances to go back to, the innermost last."""

    node: int
    instance: int
    callers: tuple[int, ...]


class _Flow(NamedTuple):
    node: int
    kind: str
    instance: int
    node_kind: str


class _Visit(NamedTuple):
    node: int
    parent: int
    depth: int
    edge: str
    again: bool
    more: bool


def trace(
    connection: Connection, cast: CastRow, *, depth: int = 12, steps: int = 200, instances: int = 1
) -> list[Chain]:
    """Chains of a cast site, one for each of its function instances up to ``instances``.

    Instances that device code reaches come first, then those outside of branches that constants rule out. The walk is
    breadth first and crosses calls both ways. A chain that enters a function from a call leaves it to the same caller;
    one that begins inside a function leaves it to every caller. It stops after ``depth`` operations in a row or
    ``steps`` in all each way, and where it stopped, a step says so (``more``).
    """
    chains = []
    root = connection.execute(
        select(schema.scan.c.root)
        .join(schema.cast_site, schema.cast_site.c.scan_id == schema.scan.c.id)
        .where(schema.cast_site.c.id == cast.id)
    ).scalar_one()
    for node_id, instance_id, bindings in _cast_nodes(connection, cast.id)[:instances]:
        start = _Place(node_id, instance_id, ())
        backward = _walk(connection, start, "backward", depth, steps)
        forward = _walk(connection, start, "forward", depth, steps)
        details = _details(connection, {node_id, *(visit.node for visit in (*backward, *forward))})
        chains.append(
            Chain(
                cast,
                node_id,
                bindings,
                tuple(_step(visit, details) for visit in backward),
                tuple(_step(visit, details) for visit in forward),
                root,
                {row.path: row.size for row in details.values()},
            )
        )
    return chains


def _cast_nodes(connection: Connection, cast_id: int) -> list[tuple[int, int, str]]:
    """One node of each instance with its instance and bindings, the most telling instances first."""
    node, instance = schema.node.c, schema.function_instance.c
    rank = case((instance.device_reached & node.reached, 0), (node.reached, 1), else_=2)
    rows = connection.execute(
        select(node.id, node.instance_id, instance.bindings)
        .join(schema.function_instance, instance.id == node.instance_id)
        .where(node.cast_site_id == cast_id)
        .order_by(rank, node.id)
    )
    first: dict[int, tuple[int, int, str]] = {}
    for node_id, instance_id, bindings in rows:
        first.setdefault(instance_id, (node_id, instance_id, bindings))
    return list(first.values())


def _walk(connection: Connection, start: _Place, way: _Way, depth: int, steps: int) -> list[_Visit]:
    """Visits, nearest first; ``parent`` is an index into them, -1 for the start itself.

    Near is what few operations and few calls part from the start; only the operations count against the bounds, so
    that a value that is handed on from wrapper to wrapper is followed to where something happens to it.
    """
    visits: list[_Visit] = []
    operations = 0
    seen = {start}
    # Places with their visit and the operations before them.
    frontier: list[tuple[_Place, int, int]] = [(start, -1, 0)]
    beyond: list[tuple[_Place, int, int]] = []
    while frontier:
        flows = _flows(connection, sorted({place.node for place, _, _ in frontier}), way)
        reached: list[tuple[_Place, int, int]] = []
        for place, index, before in frontier:
            onward = [
                (there, flow) for flow in flows.get(place.node, []) if (there := _cross(place, flow, way)) is not None
            ]
            full = before >= depth or operations >= steps or len(visits) >= _VISITS_A_STEP * steps
            if onward and full:
                if index >= 0:
                    visits[index] = visits[index]._replace(more=True)
                continue
            for there, flow in onward:
                again = there in seen
                seen.add(there)
                operates = flow.node_kind not in PASSING_ON
                visits.append(_Visit(there.node, index, before + operates, flow.kind, again, more=False))
                if not again:
                    operations += operates
                    farther = operates or flow.kind in _BETWEEN_FUNCTIONS
                    (beyond if farther else reached).append((there, len(visits) - 1, before + operates))
        frontier = reached
        if not frontier:
            frontier, beyond = beyond, []
    return visits


def _cross(place: _Place, flow: _Flow, way: _Way) -> _Place | None:
    """Where a flow leads, with the callers to go back to; None when it leaves a function to another caller."""
    into, out = ((_RETURN,), _INTO_CALLEE) if way == "backward" else (_INTO_CALLEE, (_RETURN,))
    callers = place.callers
    if flow.kind == _CAPTURE:
        # Who creates a lambda is not who calls it: from here on every caller is possible.
        callers = ()
    elif flow.kind in into:
        callers = (*callers, place.instance)
    elif flow.kind in out and callers:
        if callers[-1] != flow.instance:
            return None
        callers = callers[:-1]
    return _Place(flow.node, flow.instance, callers)


def _flows(connection: Connection, nodes: list[int], way: _Way) -> dict[int, list[_Flow]]:
    """What flows into each node, or out of it."""
    edge, node = schema.edge.c, schema.node.c
    near, far = (edge.target_id, edge.source_id) if way == "backward" else (edge.source_id, edge.target_id)
    found: dict[int, list[_Flow]] = {}
    for chunk in chunks(nodes):
        rows = connection.execute(
            select(near, far, edge.kind, node.instance_id, node.kind)
            .join(schema.node, node.id == far)
            .where(near.in_(chunk), edge.kind != _NOT_VALUE)
            .order_by(near, far)
        )
        for here, *flow in rows:
            found.setdefault(here, []).append(_Flow(*flow))
    return found


def _details(connection: Connection, ids: set[int]) -> dict[int, Any]:
    node, instance, cast = schema.node.c, schema.function_instance.c, schema.cast_site
    details: dict[int, Any] = {}
    for chunk in chunks(sorted(ids)):
        rows = connection.execute(
            select(
                node.id,
                node.kind,
                node.operation,
                node.format,
                cast.c.from_format,
                schema.function.c.name,
                instance.bindings,
                schema.source_file.c.path,
                schema.source_file.c.size,
                node.line,
                node.column,
                node.constant,
            )
            .join(schema.function_instance, instance.id == node.instance_id)
            .join(schema.function, schema.function.c.id == instance.function_id)
            .join(schema.source_file, schema.source_file.c.id == node.file_id)
            .outerjoin(cast, cast.c.id == node.cast_site_id)
            .where(node.id.in_(chunk))
        )
        details.update((row.id, row) for row in rows)
    return details


def _step(visit: _Visit, details: dict[int, Any]) -> ChainStep:
    row = details[visit.node]
    return ChainStep(
        node=visit.node,
        parent=visit.parent,
        depth=visit.depth,
        edge=visit.edge,
        kind=row.kind,
        operation=row.operation,
        format=row.format,
        from_format=row.from_format or "",
        function=row.name,
        bindings=row.bindings,
        file=row.path,
        line=row.line,
        column=row.column,
        constant=bool(row.constant),
        again=visit.again,
        more=visit.more,
    )
