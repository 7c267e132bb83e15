"""Writes one translation unit inside one transaction: replaces what an earlier scan of it left, shares the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from opscanner.graph import schema
from opscanner.graph.bodies import RowBuilder, digest
from opscanner.graph.bulk import BULK_TABLES, BulkInsert, Ids, Row
from opscanner.graph.memory import ScanMemory, StoredInstance
from opscanner.graph.prune import Pruner, chunks
from opscanner.ir import FunctionInstance, UnitReach, UnitResult

_UNIT_CHILDREN = (
    schema.diagnostic, schema.missing_header, schema.dropped_argument, schema.dependency, schema.unit_instance,
)  # fmt: skip


class UnitWriter:
    """One use: one unit."""

    def __init__(
        self,
        connection: Connection,
        inserts: dict[str, BulkInsert],
        ids: dict[str, Ids],
        memory: ScanMemory,
        scan_id: int,
        run: int,
    ) -> None:
        self.connection = connection
        self.inserts = inserts
        self.memory = memory
        self.scan_id = scan_id
        self.run = run
        self.builder = RowBuilder(memory, ids, scan_id, run)
        self.pruner = Pruner(connection, memory, scan_id, run)
        self.rewritten: list[StoredInstance] = []
        self.fresh: list[StoredInstance] = []
        self.kept: list[int] = []

    def write(self, unit: UnitResult) -> int:
        """Writes the unit; gives its id."""
        unit_id, held = self._clear(unit)
        reach = {reached.key: reached for reached in unit.reach}
        for instance in unit.instances:
            if instance.key not in reach:
                reach[instance.key] = UnitReach(instance.key, instance.is_kernel, instance.has_error)
        bodies = [pair for instance in unit.instances if (pair := self._body(instance, reach)) is not None]
        for stored, instance in bodies:
            self._calls(stored, instance)
        self._relink()
        missing = self._unit_rows(unit_id, unit, reach)
        self._unit_row(unit_id, unit, reach, missing)
        self._flush()
        self._device_marks(reach)
        self.pruner.release(held, {self.memory.instances[key].id: r.device for key, r in reach.items()
                                   if key in self.memory.instances})  # fmt: skip
        self.pruner.finish()
        return unit_id

    def _clear(self, unit: UnitResult) -> tuple[int, dict[int, bool]]:
        """Id of the unit, and the instances (device-reached or not) that its earlier scan held."""
        table = schema.translation_unit
        file_id = self.builder.file(unit.file)
        unit_id = self.connection.execute(
            select(table.c.id).where(
                table.c.scan_id == self.scan_id,
                table.c.file_id == file_id,
                table.c.cuda_pass == unit.cuda_pass.value,
                table.c.configuration == unit.configuration,
            )
        ).scalar()
        if unit_id is None:
            return self.builder.ids["translation_unit"].take(), {}
        return unit_id, clear_unit(self.connection, unit_id)

    def _body(
        self, instance: FunctionInstance, reach: dict[str, UnitReach]
    ) -> tuple[StoredInstance, FunctionInstance] | None:
        """Rows of a body that is new or has changed since an earlier run; None when the database has it."""
        builder = self.builder
        stored = self.memory.instances.get(instance.key)
        if stored is not None and stored.run == self.run:
            return None
        device = reach[instance.key].device or (stored is not None and stored.device)
        function_id = builder.function(instance.name, instance.file, instance.line, instance.column)
        payloads = builder.payloads(instance, function_id, device)
        hashed = digest(instance, payloads)
        if stored is not None and stored.digest == hashed:
            stored.run = self.run
            self.kept.append(stored.id)
            return None
        casts = sum(1 for payload in payloads if payload[0] == "cast")
        first_node = builder.ids["node"].take(len(payloads))
        if stored is None:
            instance_id = builder.ids["function_instance"].take()
            stored = StoredInstance(
                instance_id, instance.key, self.run, hashed, device, first_node, len(payloads), casts
            )
            self.memory.instances[instance.key] = stored
            self.fresh.append(stored)
        else:
            self.pruner.clear_body(stored)
            stored.run, stored.digest, stored.first_node = self.run, hashed, first_node
            stored.nodes, stored.casts = len(payloads), casts
            self.rewritten.append(stored)
        builder.body(stored, instance, payloads)
        builder.rows["function_instance"].append(
            (
                stored.id, self.scan_id, function_id, instance.key, instance.usr, instance.bindings,
                instance.signature, instance.is_kernel, instance.is_device, instance.is_host, instance.is_lambda,
                device, instance.has_error, first_node, stored.nodes, casts, self.run, hashed,
            )
        )  # fmt: skip
        return stored, instance

    def _calls(self, caller: StoredInstance, instance: FunctionInstance) -> None:
        for call in instance.calls:
            self.builder.call(caller, call)
            callee = self.memory.instances.get(call.callee)
            if callee is not None:
                self._read_ends(callee)
                self.builder.link(caller.first_node, call.node, call.arguments, call.kind._value_, callee)

    def _read_ends(self, instance: StoredInstance) -> None:
        """Where values enter and leave an instance that an earlier session wrote; asked for once."""
        if instance.parameters is not None and instance.returns is not None:
            return
        node = schema.node.c
        rows = self.connection.execute(
            select(node.id, node.position, node.kind).where(
                node.instance_id == instance.id, (node.position.is_not(None)) | (node.kind == "return")
            )
        ).all()
        by_position = {position: id_ - instance.first_node for id_, position, _ in rows if position is not None}
        instance.parameters = tuple(
            by_position.get(position, -1) for position in range(max(by_position, default=-1) + 1)
        )
        instance.returns = tuple(id_ - instance.first_node for id_, _, kind in rows if kind == "return")

    def _relink(self) -> None:
        """Edges of stored calls whose callee this unit brought or rewrote."""
        call, instance = schema.call_site.c, schema.function_instance.c
        new_callers = {stored.id for stored in (*self.fresh, *self.rewritten)}
        awaited = [stored for stored in self.fresh if stored.key in self.memory.awaited]
        wanted = select(call.id, call.caller_id, call.node, call.arguments, call.kind, instance.first_node).join(
            schema.function_instance, instance.id == call.caller_id
        )
        for stored in (*awaited, *self.rewritten):
            waits = (call.callee_key == stored.key) & (instance.scan_id == self.scan_id)
            rows = self.connection.execute(wanted.where(waits if stored in awaited else call.callee_id == stored.id))
            for call_id, caller_id, node, arguments, kind, first_node in rows.all():
                if stored in awaited:
                    self.connection.execute(
                        update(schema.call_site).where(call.id == call_id).values(callee_id=stored.id, callee_key=None)
                    )
                if caller_id not in new_callers:
                    self._read_ends(stored)
                    self.builder.link(first_node, node, parse_arguments(arguments), kind, stored)
            self.memory.awaited.discard(stored.key)

    def _unit_rows(self, unit_id: int, unit: UnitResult, reach: dict[str, UnitReach]) -> int:
        """Rows of what hangs on the unit; gives the number of instances whose body nobody brought."""
        builder, rows, instances = self.builder, self.builder.rows, self.memory.instances
        known = [(instances[key].id, reached) for key, reached in reach.items() if key in instances]
        rows["unit_instance"] = [(unit_id, id_, reached.device, reached.has_error) for id_, reached in known]
        rows["missing_header"] = [(unit_id, header[:700]) for header in dict.fromkeys(unit.missing_headers)]
        rows["dependency"] = [(unit_id, builder.file(path)) for path in dict.fromkeys(unit.dependencies)]
        first = builder.ids["dropped_argument"].take(len(unit.dropped_arguments))
        rows["dropped_argument"] = [
            (id_, unit_id, argument, reason) for id_, (argument, reason) in enumerate(unit.dropped_arguments, first)
        ]
        first = builder.ids["diagnostic"].take(len(unit.diagnostics))
        rows["diagnostic"] = [
            (
                id_,
                unit_id,
                d.severity,
                d.category,
                builder.file(d.file) if d.file else None,
                d.line,
                d.message,
                d.count,
            )
            for id_, d in enumerate(unit.diagnostics, first)
        ]
        return len(reach) - len(known)

    def _unit_row(self, unit_id: int, unit: UnitResult, reach: dict[str, UnitReach], missing: int) -> None:
        held = [stored for key in reach if (stored := self.memory.instances.get(key)) is not None]
        errors = sum(d.count for d in unit.diagnostics if d.severity in ("error", "fatal"))
        self.builder.rows["translation_unit"] = [
            (
                unit_id, self.scan_id, self.builder.file(unit.file), unit.cuda_pass.value, unit.configuration,
                unit.arguments_hash, self.run, unit.status.value, unit.reason, errors, unit.functions,
                unit.functions_with_error, unit.device_functions_with_error, sum(s.nodes for s in held),
                sum(s.casts for s in held), missing, unit.cursors, unit.parse_cpu_s, unit.walk_cpu_s,
                unit.peak_rss_mib,
            )
        ]  # fmt: skip

    def _flush(self) -> None:
        rows = self.builder.finish()
        instance = schema.function_instance
        rewritten = {stored.id for stored in self.rewritten}
        for table in BULK_TABLES:
            if table is instance and rewritten:
                _rewrite_instances(self.connection, [row for row in rows[table.name] if row[0] in rewritten])
                rows[table.name] = [row for row in rows[table.name] if row[0] not in rewritten]
            self.inserts[table.name].write(self.connection, rows[table.name])
        for chunk in chunks(self.kept):
            self.connection.execute(update(instance).where(instance.c.id.in_(chunk)).values(run=self.run))
        if self.builder.changed_sizes:
            file = schema.source_file
            self.connection.execute(
                update(file).where(file.c.id == bindparam("file")).values(size=bindparam("bytes")),
                [{"file": id_, "bytes": size} for id_, size in self.builder.changed_sizes.items()],
            )
        for sites, changed in (
            (schema.cast_site, self.builder.changed_casts),
            (schema.arithmetic_site, self.builder.changed_arithmetic),
        ):
            if changed:
                self.connection.execute(
                    update(sites).where(sites.c.id == bindparam("site")),
                    [
                        {"site": s.id, "constant": s.constant, "reached": s.reached, "device": s.device}
                        for s in changed.values()
                    ],
                )

    def _device_marks(self, reach: dict[str, UnitReach]) -> None:
        """Instances that device code reaches in this unit for the first time."""
        gained = []
        for key, reached in reach.items():
            stored = self.memory.instances.get(key)
            if stored is not None and reached.device and not stored.device:
                stored.device = True
                gained.append(stored.id)
        if gained:
            self.pruner.mark_device(gained, True)


def parse_arguments(text: str) -> list[tuple[int, int]]:
    """The pairs of a call's ``arguments`` column.

    >>> parse_arguments("3:0,5:1")
    [(3, 0), (5, 1)]
    """
    pairs = (pair.split(":") for pair in text.split(",") if pair)
    return [(int(node), int(position)) for node, position in pairs]


def clear_unit(connection: Connection, unit_id: int) -> dict[int, bool]:
    """Deletes a unit and what hangs on it; gives the instances it held, with whether device code reached them."""
    held = schema.unit_instance.c
    rows = connection.execute(select(held.instance_id, held.device_reached).where(held.unit_id == unit_id)).all()
    for table in _UNIT_CHILDREN:
        connection.execute(table.delete().where(table.c.unit_id == unit_id))
    unit = schema.translation_unit
    connection.execute(unit.delete().where(unit.c.id == unit_id))
    return {row[0]: row[1] for row in rows}


def _rewrite_instances(connection: Connection, rows: Iterable[Row]) -> None:
    table = schema.function_instance
    names = [column.name for column in table.columns][1:]
    values: list[dict[str, Any]] = [{"instance": row[0], **dict(zip(names, row[1:], strict=True))} for row in rows]
    for chunk in chunks(values, 500):
        connection.execute(update(table).where(table.c.id == bindparam("instance")), chunk)
