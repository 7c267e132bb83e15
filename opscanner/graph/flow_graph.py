"""A scan's graph as plain lists, for who walks all of it: columns of nodes, and who uses whose value.

Nodes are numbered from 0 in the order of their ids; a node's facts stand at its number in each list. This takes some
500 bytes a node, so that a whole framework fits where networkx's dictionaries would not, and loads in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, select

from opscanner.graph import schema
from opscanner.graph.schema_conclusions import attribution, operator

#: (the other node, kind of the edge)
Flow = tuple[int, str]
_NONE: list[Flow] = []


class InstanceFacts(NamedTuple):
    """What is known of a function instance; ``device`` when a device function reaches it."""

    id: int
    function_id: int
    function: str
    file: str
    bindings: str
    signature: str
    is_kernel: bool
    is_device: bool
    is_lambda: bool
    device: bool
    has_error: bool


class CastFacts(NamedTuple):
    """A cast's formats and form; ``written_type`` is the target as the author wrote it."""

    id: int
    from_format: str
    to_format: str
    direction: str
    form: str
    written_type: str


class OperationFacts(NamedTuple):
    """Where something is computed: the site that its nodes share."""

    id: int
    category: str
    accumulator: str


@dataclass(slots=True)
class FlowGraph:
    """The nodes of one scan with the edges between them.

    ``successors[n]`` are the flows out of node ``n``, ``predecessors[n]`` those into it. ``cast[n]`` is None for nodes
    that are no casts, ``computed[n]`` for nodes that compute nothing. Edges go across functions too: arguments,
    captures, launches, returns.
    """

    scan_id: int
    framework: str
    ids: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    operation: list[str] = field(default_factory=list)
    format: list[str] = field(default_factory=list)
    lanes: list[int] = field(default_factory=list)
    constant: list[bool] = field(default_factory=list)
    reached: list[bool] = field(default_factory=list)
    file: list[int] = field(default_factory=list)
    line: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    #: Nodes that a GPU runs although a host function states them: layers of Eigen's expressions.
    on_device: set[int] = field(default_factory=set)
    #: Where values enter a function: position of the parameter, by node.
    position: dict[int, int] = field(default_factory=dict)
    instance: list[InstanceFacts] = field(default_factory=list)
    cast: list[CastFacts | None] = field(default_factory=list)
    computed: list[OperationFacts | None] = field(default_factory=list)
    successors: list[list[Flow]] = field(default_factory=list)
    predecessors: list[list[Flow]] = field(default_factory=list)
    paths: dict[int, str] = field(default_factory=dict)
    #: Ids of the function instances in which something is computed, compared or chosen.
    computing: set[int] = field(default_factory=set)
    #: Groups of operators (activation, optimizer ...) that a function serves, by its id; empty when nobody attributed.
    groups: dict[int, frozenset[str]] = field(default_factory=dict)
    #: Words behind nodes, for who asks again (see patterns.evidence).
    memo: dict[int, frozenset[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def place(self, node: int) -> str:
        """``file:line:column`` of a node."""
        return f"{self.paths[self.file[node]]}:{self.line[node]}:{self.column[node]}"


def load_flow_graph(connection: Connection, scan_id: int) -> FlowGraph:
    """Everything that a scan's functions compute, as lists."""
    framework = connection.execute(select(schema.scan.c.framework).where(schema.scan.c.id == scan_id)).scalar_one()
    graph = FlowGraph(scan_id, framework)
    file = schema.source_file.c
    rows = connection.execute(select(file.id, file.path).where(file.scan_id == scan_id))
    graph.paths = {row[0]: row[1] for row in rows}
    graph.groups = _groups(connection, scan_id)
    index = _load_nodes(connection, graph)
    _load_edges(connection, graph, index)
    return graph


def _groups(connection: Connection, scan_id: int) -> dict[int, frozenset[str]]:
    rows = connection.execute(
        select(attribution.c.function_id, operator.c.module_group)
        .join(operator, operator.c.id == attribution.c.operator_id)
        .where(operator.c.scan_id == scan_id)
        .distinct()
    )
    found: dict[int, set[str]] = {}
    for function_id, group in rows:
        found.setdefault(function_id, set()).add(group)
    return {function_id: frozenset(groups) for function_id, groups in found.items()}


def _instances(connection: Connection, graph: FlowGraph) -> dict[int, InstanceFacts]:
    instance, function = schema.function_instance.c, schema.function
    rows = connection.execute(
        select(
            instance.id, instance.function_id, function.c.name, function.c.file_id, instance.bindings,
            instance.signature, instance.is_kernel, instance.is_device, instance.is_lambda, instance.device_reached,
            instance.has_error,
        )
        .join(function, function.c.id == instance.function_id)
        .where(instance.scan_id == graph.scan_id)
    )  # fmt: skip
    paths = graph.paths
    return {row[0]: InstanceFacts(*row[:3], paths.get(row[3], ""), *row[4:6], *map(bool, row[6:])) for row in rows}


def _casts(connection: Connection, scan_id: int) -> dict[int, CastFacts]:
    cast = schema.cast_site.c
    rows = connection.execute(
        select(cast.id, cast.from_format, cast.to_format, cast.direction, cast.form, cast.written_type).where(
            cast.scan_id == scan_id
        )
    )
    return {row[0]: CastFacts(row[0], row[1], row[2], row[3] or "", row[4], row[5]) for row in rows}


def _operations(connection: Connection, scan_id: int) -> dict[int, OperationFacts]:
    site = schema.arithmetic_site.c
    rows = connection.execute(select(site.id, site.category, site.accumulator).where(site.scan_id == scan_id))
    return {row[0]: OperationFacts(*row) for row in rows}


def _load_nodes(connection: Connection, graph: FlowGraph) -> dict[int, int]:
    instances = _instances(connection, graph)
    casts, operations = _casts(connection, graph.scan_id), _operations(connection, graph.scan_id)
    node = schema.node.c
    # Words repeat a hundred thousand times: one object each.
    words: dict[str, str] = {}
    keep = words.setdefault
    index: dict[int, int] = {}
    rows = connection.execute(
        select(
            node.id, node.instance_id, node.kind, node.operation, node.format, node.lanes, node.constant,
            node.reached, node.on_device, node.file_id, node.line, node.column, node.position, node.cast_site_id,
            node.arithmetic_site_id,
        ).order_by(node.id)
    )  # fmt: skip
    for row in rows:
        id_, owner, kind, operation, format_, lanes, constant, reached, on_gpu, file, line, column, position, *sites = (
            row
        )
        cast, computed = sites
        facts = instances.get(owner)
        if facts is None:
            continue  # another scan's
        index[id_] = len(graph.ids)
        if position is not None:
            graph.position[len(graph.ids)] = position
        graph.ids.append(id_)
        graph.instance.append(facts)
        graph.kind.append(keep(kind, kind))
        graph.operation.append(keep(operation, operation))
        graph.format.append(keep(format_, format_))
        graph.lanes.append(lanes)
        graph.constant.append(bool(constant))
        graph.reached.append(bool(reached))
        if on_gpu:
            graph.on_device.add(len(graph.reached) - 1)
        graph.file.append(file)
        graph.line.append(line)
        graph.column.append(column)
        graph.cast.append(None if cast is None else casts[cast])
        graph.computed.append(None if computed is None else operations[computed])
        if computed is not None:
            graph.computing.add(owner)
    return index


def _load_edges(connection: Connection, graph: FlowGraph, index: dict[int, int]) -> None:
    # One shared empty list stands for the many nodes that nothing flows into, or out of.
    graph.successors = [_NONE] * len(graph)
    graph.predecessors = [_NONE] * len(graph)
    successors, predecessors = graph.successors, graph.predecessors
    words: dict[str, str] = {}
    edge = schema.edge.c
    rows = connection.execute(
        select(edge.source_id, edge.target_id, edge.kind).order_by(edge.source_id, edge.target_id, edge.kind)
    )
    for source_id, target_id, kind in rows:
        source, target = index.get(source_id), index.get(target_id)
        if source is None or target is None:
            continue
        word = words.setdefault(kind, kind)
        if successors[source] is _NONE:
            successors[source] = []
        successors[source].append((target, word))
        if predecessors[target] is _NONE:
            predecessors[target] = []
        predecessors[target].append((source, word))


def scan_ids(connection: Connection, framework: str | None = None) -> Sequence[int]:
    """Scans in a database, all or one framework's, in the order they were first begun."""
    scan = schema.scan.c
    query = select(scan.id).order_by(scan.id)
    if framework is not None:
        query = query.where(scan.framework == framework)
    return connection.execute(query).scalars().all()
