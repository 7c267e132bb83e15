"""What serves the operators of a scan on one device, as plain rows: functions, instances, nodes and findings.

Loaded at once, because a comparison asks for hundreds of operators that share functions.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from opscanner.errors import UsageError
from opscanner.graph import schema
from opscanner.graph.call_graph import ScanRow
from opscanner.graph.filters import check_framework
from opscanner.graph.schema_conclusions import attributed_instance, attribution, finding, operator, registration
from opscanner.ir import CudaPass


class ServedBy(NamedTuple):
    """A function attributed to an operator; ``certain`` when clang's calls lead there all the way.

    ``instances`` are those of its instances that serve the operator: a template serves many by its arguments.
    """

    function: int
    distance: int
    certain: bool
    instances: frozenset[int]


class ServingFunction(NamedTuple):
    """A function as written."""

    id: int
    name: str
    file: str
    line: int


class ServingInstance(NamedTuple):
    """One of its bodies, for one binding of formats, that runs on the device."""

    id: int
    function: int
    bindings: str


class ServingNode(NamedTuple):
    """A floating-point operation of such a body; ``accumulator`` is empty for what is no reduction or atomic."""

    id: int
    instance: int
    kind: str
    operation: str
    format: str
    from_format: str
    accumulator: str
    constant: bool
    file: str
    line: int
    cast: int | None
    arithmetic: int | None


class ServingFinding(NamedTuple):
    """What a rule found at the place of a cast or of an operation; ``chain`` are nodes in the order the value flows."""

    id: int
    pattern: str
    file: str
    line: int
    function: str
    from_format: str
    confidence: str
    cast: int | None
    arithmetic: int | None
    chain: tuple[int, ...]
    message: str


@dataclass(slots=True)
class ServingGraph:
    """All that serves the operators of a scan on a device.

    Parameters
    ----------
    declared : set of str
        Every operator of the scan.
    registered : dict of str to set of str
        By operator with a registration for the device, the formats that its registrations name (none: not said).
    serving : dict of str to list of ServedBy
        By operator, nearest function first.
    callees : dict of int to list of int
        By instance; callees that serve no operator are left out.
    """

    scan: ScanRow
    device: str
    declared: set[str] = field(default_factory=set)
    registered: dict[str, set[str]] = field(default_factory=dict)
    serving: dict[str, list[ServedBy]] = field(default_factory=dict)
    functions: dict[int, ServingFunction] = field(default_factory=dict)
    instances: dict[int, list[ServingInstance]] = field(default_factory=dict)
    nodes: dict[int, list[ServingNode]] = field(default_factory=dict)
    callees: dict[int, list[int]] = field(default_factory=dict)
    findings: dict[tuple[int | None, int | None], list[ServingFinding]] = field(default_factory=dict)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def choose_scan(connection: Connection, wanted: str) -> ScanRow:
    """The scan that ``pytorch``, ``pytorch@2.6.0`` or ``pytorch@2.6`` names: of several versions the newest.

    Raises
    ------
    UsageError
        When no scan, or more than one, is meant.
    """
    name, _, version = wanted.partition("@")
    table = schema.scan.c
    rows = connection.execute(
        select(table.id, table.framework, table.version, table.root).where(table.framework == name).order_by(table.id)
    )
    found = [ScanRow(*row) for row in rows]
    exact = [scan for scan in found if not version or scan.version == version]
    meant = exact or [scan for scan in found if scan.version.startswith(version)]
    if len(meant) > 1:
        newest = max(_numbers(scan.version) for scan in meant)
        meant = [scan for scan in meant if _numbers(scan.version) == newest]
    if len(meant) == 1:
        return meant[0]
    if meant:
        names = ", ".join(f"{scan.framework}@{scan.version} of {scan.root}" for scan in meant)
        raise UsageError(f"{wanted} may be {names}", "name the version: " + f"{name}@{meant[-1].version}")
    raise _no_scan(connection, wanted, found)


def _no_scan(connection: Connection, wanted: str, found: list[ScanRow]) -> UsageError:
    """Why a word names no scan, and what does; ``found`` are the scans of its framework."""
    table = schema.scan.c
    name, _, version = wanted.partition("@")
    if not found:
        check_framework(name)
        held = connection.execute(select(table.framework, table.version, table.root).order_by(table.id)).all()
        names = ", ".join(f"{row[0]}@{row[1]}" if row[1] else f"{row[2]} (no framework's sources)" for row in held)
        return UsageError(f"the database holds no scan of {wanted}, but {names or 'none at all'}", _SCAN_FIRST)
    versions = [f"{name}@{one.version}" for one in found]
    near = max(found, key=lambda one: (_shared_numbers(one.version, version), _numbers(one.version)))
    return UsageError(
        f"the database holds no scan of {wanted}, but {', '.join(versions)} (versions as the sources state them)",
        f"{name}@{near.version}, or another of these or its beginning; {name} alone is the newest",
    )


_SCAN_FIRST = "opscanner scan ROOT --db ..., with ROOT a checkout of PyTorch or TensorFlow"


def _shared_numbers(one: str, other: str) -> int:
    """How many numbers two versions begin with in common."""
    pairs = zip(_numbers(one), _numbers(other), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def newest_scans(connection: Connection) -> list[ScanRow]:
    """The newest scan of PyTorch and that of TensorFlow, those that there are.

    Raises
    ------
    UsageError
        When there is none.
    """
    table = schema.scan.c
    held = set(connection.execute(select(table.framework)).scalars())
    names = [name for name in ("pytorch", "tensorflow") if name in held]
    if not names:
        raise UsageError(
            "the database holds no scan of a framework, so that there are no operators: "
            + (", ".join(connection.execute(select(table.root)).scalars()) or "it is empty"),
            _SCAN_FIRST,
        )
    return [choose_scan(connection, name) for name in names]


def refuse_without_operators(graph: ServingGraph) -> None:
    """Refuses a scan of which no operators are concluded.

    Raises
    ------
    UsageError
        Names the scan.
    """
    if not graph.declared:
        scan = graph.scan
        raise UsageError(
            f"the scan of {' '.join(filter(None, (scan.framework, scan.version)))} ({scan.root}) holds no operators",
            "opscanner operators --conclude, for checkouts of PyTorch and TensorFlow",
        )


def load_serving(connection: Connection, scan: ScanRow, device: str) -> ServingGraph:
    """Everything that serves operators of a scan on ``cuda`` or ``cpu``.

    For CUDA that are bodies that device code reaches, and expressions that a host function gives to the GPU; for the
    CPU bodies that units instantiate which are no CUDA files.
    """
    graph = ServingGraph(scan, device)
    _load_operators(connection, graph)
    served = (
        select(attribution.c.function_id)
        .join(operator, operator.c.id == attribution.c.operator_id)
        .where(operator.c.scan_id == scan.id, attribution.c.device == device)
        .distinct()
    )
    function, file = schema.function.c, schema.source_file.c
    for row in connection.execute(
        select(function.id, function.name, file.path, function.line)
        .join_from(schema.function, schema.source_file, file.id == function.file_id)
        .where(function.id.in_(served))
    ):
        graph.functions[row[0]] = ServingFunction(*row)
    _load_nodes(connection, graph, served)
    instances = _load_instances(connection, graph, served)
    call = schema.call_site.c
    callees: dict[int, set[int]] = defaultdict(set)
    for caller, callee in connection.execute(
        select(call.caller_id, call.callee_id)
        .join(schema.function_instance, schema.function_instance.c.id == call.caller_id)
        .where(call.callee_id.is_not(None), schema.function_instance.c.function_id.in_(served))
    ):
        if caller in instances and callee in instances:
            callees[caller].add(callee)
    graph.callees = {caller: sorted(found) for caller, found in callees.items()}
    _load_findings(connection, graph, served)
    return graph


def _load_operators(connection: Connection, graph: ServingGraph) -> None:
    rows = connection.execute(select(operator.c.id, operator.c.name).where(operator.c.scan_id == graph.scan.id))
    names: dict[int, str] = {row.id: row.name for row in rows}
    graph.declared = set(names.values())
    for id_, formats in connection.execute(
        select(registration.c.operator_id, registration.c.formats).where(
            registration.c.device.in_((graph.device, "any"))
        )
    ):
        if id_ in names:
            graph.registered.setdefault(names[id_], set()).update(filter(None, formats.split(",")))
    found: dict[str, list[ServedBy]] = defaultdict(list)
    rows = connection.execute(
        select(attributed_instance.c.attribution_id, attributed_instance.c.instance_id)
        .join(attribution, attribution.c.id == attributed_instance.c.attribution_id)
        .where(attribution.c.device == graph.device)
    )
    instances: dict[int, set[int]] = defaultdict(set)
    for attribution_id, instance_id in rows:
        instances[attribution_id].add(instance_id)
    for number, id_, function_id, distance, confidence in connection.execute(
        select(
            attribution.c.id, attribution.c.operator_id, attribution.c.function_id, attribution.c.distance,
            attribution.c.confidence,
        ).where(attribution.c.device == graph.device)
    ):  # fmt: skip
        if id_ in names:
            serving = frozenset(instances[number])
            found[names[id_]].append(ServedBy(function_id, distance, confidence == "certain", serving))
    graph.serving = {name: sorted(rows, key=lambda row: (row.distance, row.function)) for name, rows in found.items()}


def _load_instances(connection: Connection, graph: ServingGraph, served: Select[Any]) -> set[int]:
    instance = schema.function_instance.c
    query = select(instance.id, instance.function_id, instance.bindings, instance.device_reached).where(
        instance.function_id.in_(served)
    )
    on_cpu: set[int] = set()
    if graph.device == "cpu":
        unit = schema.translation_unit.c
        on_cpu = set(
            connection.execute(
                select(schema.unit_instance.c.instance_id)
                .join(schema.translation_unit, unit.id == schema.unit_instance.c.unit_id)
                .where(unit.scan_id == graph.scan.id, unit.cuda_pass == CudaPass.NONE.value)
            ).scalars()
        )
    kept: set[int] = set()
    by_function: dict[int, list[ServingInstance]] = defaultdict(list)
    for id_, function_id, bindings, device_reached in connection.execute(query.order_by(instance.id)):
        runs = id_ in on_cpu if graph.device == "cpu" else bool(device_reached) or id_ in graph.nodes
        if runs:
            by_function[function_id].append(ServingInstance(id_, function_id, bindings))
            kept.add(id_)
        else:
            graph.nodes.pop(id_, None)
    graph.instances = dict(by_function)
    return kept


def _load_nodes(connection: Connection, graph: ServingGraph, served: Select[Any]) -> None:
    """Nodes that run on the device; in host functions those alone that a GPU runs (or, for the CPU, does not)."""
    instance, node, cast, site = (
        schema.function_instance.c, schema.node.c, schema.cast_site.c, schema.arithmetic_site.c,
    )  # fmt: skip
    paths = {row[0]: row[1] for row in connection.execute(select(schema.source_file.c.id, schema.source_file.c.path))}
    query = (
        select(
            node.id, node.instance_id, node.kind, node.operation, node.format, cast.from_format, site.accumulator,
            node.constant, node.file_id, node.line, node.cast_site_id, node.arithmetic_site_id, node.on_device,
            instance.device_reached,
        )
        .join_from(schema.node, schema.function_instance, instance.id == node.instance_id)
        .outerjoin(schema.cast_site, cast.id == node.cast_site_id)
        .outerjoin(schema.arithmetic_site, site.id == node.arithmetic_site_id)
        .where(instance.function_id.in_(served), node.reached)
        .order_by(node.id)
    )  # fmt: skip
    nodes: dict[int, list[ServingNode]] = defaultdict(list)
    for row in connection.execute(query):
        on_device, device_reached = row[12:]
        if graph.device == "cuda" and not (on_device or device_reached):
            continue
        nodes[row[1]].append(ServingNode(*row[:5], row[5] or "", row[6] or "", bool(row[7]), paths[row[8]], *row[9:12]))
    graph.nodes = dict(nodes)


def _load_findings(connection: Connection, graph: ServingGraph, served: Select[Any]) -> None:
    file, function = schema.source_file.c, schema.function.c
    query = (
        select(
            finding.c.id, finding.c.pattern, file.path, finding.c.line, function.name, finding.c.from_format,
            finding.c.confidence, finding.c.cast_site_id, finding.c.arithmetic_site_id, finding.c.chain,
            finding.c.message,
        )
        .join(schema.source_file, file.id == finding.c.file_id)
        .join(schema.function, function.id == finding.c.function_id)
        .where(finding.c.function_id.in_(served))
        .order_by(finding.c.id)
    )  # fmt: skip
    found: dict[tuple[int | None, int | None], list[ServingFinding]] = defaultdict(list)
    for row in connection.execute(query):
        chain = tuple(int(step) for step in row[9].split(",") if step)
        found[row[7], row[8]].append(ServingFinding(*row[:9], chain, row[10]))
    graph.findings = dict(found)
