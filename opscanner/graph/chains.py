"""Def-use chains through a cast: backward to where its value comes from, forward to where it goes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, case, select

from opscanner.graph import schema
from opscanner.graph.prune import chunks
from opscanner.ir import EdgeKind
from opscanner.results import CastRow, Chain, ChainStep

#: A comparison that decides about a value is not where the value comes from.
_NOT_VALUE = EdgeKind.CONTROL.value


_RETURN = EdgeKind.RETURN.value
_INTO_CALLEE = (EdgeKind.ARGUMENT.value, EdgeKind.LAUNCH.value)
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
    one that begins inside a function leaves it to every caller. It stops at ``depth`` edges or ``steps`` nodes each
    way, and where it stopped, a step says so (``more``).
    """
    chains = []
    for node_id, instance_id, bindings in _cast_nodes(connection, cast.id)[:instances]:
        start = _Place(node_id, instance_id, ())
        backward = _walk(connection, start, "backward", depth, steps)
        forward = _walk(connection, start, "forward", depth, steps)
        details = _details(connection, {visit.node for visit in (*backward, *forward)})
        chains.append(
            Chain(
                cast,
                node_id,
                bindings,
                tuple(_step(visit, details) for visit in backward),
                tuple(_step(visit, details) for visit in forward),
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
    """Visits in breadth-first order; ``parent`` is an index into them, -1 for the start itself."""
    visits: list[_Visit] = []
    seen = {start}
    frontier: list[tuple[_Place, int]] = [(start, -1)]
    for level in range(1, depth + 2):
        flows = _flows(connection, sorted({place.node for place, _ in frontier}), way)
        reached: list[tuple[_Place, int]] = []
        for place, index in frontier:
            crossed = [(_cross(place, flow, way), flow.kind) for flow in flows.get(place.node, [])]
            onward = [(there, kind) for there, kind in crossed if there is not None]
            if onward and (level > depth or len(visits) >= steps):
                if index >= 0:
                    visits[index] = visits[index]._replace(more=True)
                continue
            for there, kind in onward:
                again = there in seen
                seen.add(there)
                visits.append(_Visit(there.node, index, level, kind, again, more=False))
                if not again:
                    reached.append((there, len(visits) - 1))
        frontier = reached
        if not frontier:
            break
    return visits


def _cross(place: _Place, flow: _Flow, way: _Way) -> _Place | None:
    """Where a flow leads, with the callers to go back to; None when it leaves a function to another caller."""
    into, out = ((_RETURN,), _INTO_CALLEE) if way == "backward" else (_INTO_CALLEE, (_RETURN,))
    callers = place.callers
    if flow.kind in into:
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
            select(near, far, edge.kind, node.instance_id)
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
                node.line,
                node.column,
                node.constant,
                node.text,
            )
            .join(schema.function_instance, instance.id == node.instance_id)
            .join(schema.function, schema.function.c.id == instance.function_id)
            .join(schema.source_file, schema.source_file.c.id == node.file_id)
            .outerjoin(cast, cast.c.id == node.cast_site_id)
            .where(node.id.in_(chunk))
        )
        details.update((row[0], row[1:]) for row in rows)
    return details


def _step(visit: _Visit, details: dict[int, Any]) -> ChainStep:
    kind, operation, format_, from_format, function, bindings, file, line, column, constant, text = details[visit.node]
    return ChainStep(
        node=visit.node,
        parent=visit.parent,
        depth=visit.depth,
        edge=visit.edge,
        kind=kind,
        operation=operation,
        format=format_,
        from_format=from_format or "",
        function=function,
        bindings=bindings,
        file=file,
        line=line,
        column=column,
        constant=bool(constant),
        text=text,
        again=visit.again,
        more=visit.more,
    )
