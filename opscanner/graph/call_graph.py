"""The call graph of a scan as plain lists, for conclusions that walk all of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, select

from opscanner.graph import schema


class ScanRow(NamedTuple):
    """A scan whose conclusions are wanted."""

    id: int
    framework: str
    version: str
    root: str


class FunctionRow(NamedTuple):
    """A function as written."""

    id: int
    name: str
    file: str
    line: int


class InstanceRow(NamedTuple):
    """A function body for one binding of formats."""

    id: int
    function: int
    bindings: str
    device_reached: bool


@dataclass(slots=True)
class CallGraph:
    """Functions, their instances and who calls whom.

    Parameters
    ----------
    functions : dict of int to FunctionRow
    instances : dict of int to InstanceRow
    callees : dict of int to list of (int, int)
        By caller's instance: callee's instance and the line of the call, each callee once.
    telling : set of int
        Functions that hold a cast or an operation, or are kernels.
    only_cuda : set of int
        Instances that CUDA files alone instantiate.
    usr : dict of int to str
        By instance, clang's symbol, which spells template arguments of classes; empty unless asked for.
    """

    functions: dict[int, FunctionRow] = field(default_factory=dict)
    instances: dict[int, InstanceRow] = field(default_factory=dict)
    callees: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    telling: set[int] = field(default_factory=set)
    only_cuda: set[int] = field(default_factory=set)
    usr: dict[int, str] = field(default_factory=dict)


def scans(connection: Connection) -> list[ScanRow]:
    """The scans of a database."""
    table = schema.scan.c
    rows = connection.execute(select(table.id, table.framework, table.version, table.root).order_by(table.id))
    return [ScanRow(*row) for row in rows]


def load(connection: Connection, scan_id: int, *, with_usr: bool = False) -> CallGraph:
    """The call graph of one scan."""
    graph = CallGraph()
    function, file, instance = schema.function.c, schema.source_file.c, schema.function_instance.c
    for row in connection.execute(
        select(function.id, function.name, file.path, function.line)
        .join_from(schema.function, schema.source_file, file.id == function.file_id)
        .where(function.scan_id == scan_id)
    ):
        graph.functions[row[0]] = FunctionRow(*row)
    for id_, function_id, bindings, device, kernel in connection.execute(
        select(instance.id, instance.function_id, instance.bindings, instance.device_reached, instance.is_kernel).where(
            instance.scan_id == scan_id
        )
    ):
        graph.instances[id_] = InstanceRow(id_, function_id, bindings, bool(device))
        if kernel:
            graph.telling.add(function_id)
    for site in (schema.cast_site.c, schema.arithmetic_site.c):
        found = connection.execute(select(site.function_id).where(site.scan_id == scan_id).distinct())
        graph.telling.update(found.scalars())
    _load_calls(connection, graph)
    unit = schema.translation_unit.c
    if with_usr:
        symbols = connection.execute(select(instance.id, instance.usr).where(instance.scan_id == scan_id))
        graph.usr = {row.id: row.usr for row in symbols}
    plain = connection.execute(
        select(schema.unit_instance.c.instance_id)
        .join(schema.translation_unit, unit.id == schema.unit_instance.c.unit_id)
        .where(unit.scan_id == scan_id, unit.cuda_pass.in_(("none",)))
        .distinct()
    )
    graph.only_cuda = graph.instances.keys() - set(plain.scalars())
    return graph


def _load_calls(connection: Connection, graph: CallGraph) -> None:
    call = schema.call_site.c
    seen: dict[int, dict[int, int]] = defaultdict(dict)
    instances = graph.instances
    for caller, callee, line in connection.execute(
        select(call.caller_id, call.callee_id, call.line).where(call.callee_id.is_not(None))
    ):
        if caller in instances:
            seen[caller].setdefault(callee, line)
    graph.callees = {caller: list(callees.items()) for caller, callees in seen.items()}
