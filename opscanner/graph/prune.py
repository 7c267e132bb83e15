"""Takes away what no unit holds any more, and keeps the marks of the sites true."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from sqlalchemy import Connection, Table, bindparam, case, delete, func, select, update

from opscanner.graph import schema
from opscanner.graph.memory import ScanMemory, SiteTable, StoredInstance

T = TypeVar("T")
#: Ids in one statement; SQLite before 3.32 takes 999 parameters.
_CHUNK = 500


def chunks(items: Sequence[T], size: int = _CHUNK) -> Iterator[list[T]]:
    """Slices of at most ``size`` items."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


class Pruner:
    """Deletes within one transaction, and remembers which sites to look at again when everything is written."""

    def __init__(self, connection: Connection, memory: ScanMemory, scan_id: int, run: int) -> None:
        self.connection = connection
        self.memory = memory
        self.scan_id = scan_id
        self.run = run
        self._cast_ids: set[int] = set()
        self._arithmetic_ids: set[int] = set()

    def release(self, held: dict[int, bool], now: dict[int, bool]) -> None:
        """Looks at the instances that a unit held and no longer holds, or no longer reaches from device code.

        An instance that this very run brought stays for now: a later unit of the same worker may refer to its body
        without bringing it again. ``sweep`` takes it at the end.
        """
        lost = [id_ for id_, device in held.items() if device and not now.get(id_, False)]
        gone = self._unheld([id_ for id_ in held if id_ not in now], before_run=self.run)
        self._delete_instances(gone)
        self._recheck_device([id_ for id_ in lost if id_ not in gone])

    def sweep(self, *, names: bool) -> None:
        """Deletes every instance of the scan that no unit holds and, with ``names``, functions and files unnamed."""
        ids = self.connection.execute(
            select(schema.function_instance.c.id).where(schema.function_instance.c.scan_id == self.scan_id)
        ).scalars()
        self._delete_instances(self._unheld(list(ids), before_run=None))
        self.finish()
        if names:
            self._sweep_names()

    def _unheld(self, ids: list[int], before_run: int | None) -> set[int]:
        instance, held = schema.function_instance.c, schema.unit_instance.c
        found: set[int] = set()
        for chunk in chunks(ids):
            wanted = select(instance.id).where(
                instance.id.in_(chunk), ~select(held.unit_id).where(held.instance_id == instance.id).exists()
            )
            if before_run is not None:
                wanted = wanted.where(instance.run < before_run)
            found.update(self.connection.execute(wanted).scalars())
        return found

    def _recheck_device(self, ids: list[int]) -> None:
        held = schema.unit_instance.c
        still: set[int] = set()
        for chunk in chunks(ids):
            still.update(
                self.connection.execute(
                    select(held.instance_id).where(held.instance_id.in_(chunk), held.device_reached)
                ).scalars()
            )
        self.mark_device([id_ for id_ in ids if id_ not in still], False)

    def mark_device(self, ids: list[int], device: bool) -> None:
        """Sets whether device code reaches the instances; their sites follow in ``finish``."""
        instance, node = schema.function_instance.c, schema.node.c
        for chunk in chunks(ids):
            self.connection.execute(
                update(schema.function_instance).where(instance.id.in_(chunk)).values(device_reached=device)
            )
            self._remember(node.instance_id.in_(chunk))
        if not device:
            lost = set(ids)
            for stored in self.memory.instances.values():
                if stored.id in lost:
                    stored.device = False

    def _remember(self, which_nodes: object) -> None:
        node = schema.node.c
        for column, ids in (
            (node.cast_site_id, self._cast_ids),
            (node.arithmetic_site_id, self._arithmetic_ids),
        ):
            ids.update(
                self.connection.execute(
                    select(column).where(which_nodes, column.is_not(None)).distinct()  # type: ignore[arg-type]
                ).scalars()
            )

    def clear_body(self, stored: StoredInstance) -> None:
        """Deletes the nodes, edges and calls of an instance, whose row stays."""
        last = stored.first_node + stored.nodes - 1
        node, edge, call = schema.node.c, schema.edge.c, schema.call_site.c
        self._remember(node.instance_id == stored.id)
        self.connection.execute(delete(schema.edge).where(edge.source_id.between(stored.first_node, last)))
        self.connection.execute(delete(schema.edge).where(edge.target_id.between(stored.first_node, last)))
        self.connection.execute(delete(schema.node).where(node.instance_id == stored.id))
        self.connection.execute(delete(schema.call_site).where(call.caller_id == stored.id))

    def _delete_instances(self, ids: set[int]) -> None:
        if not ids:
            return
        call = schema.call_site.c
        for stored in [stored for stored in self.memory.instances.values() if stored.id in ids]:
            self.clear_body(stored)
            # Callers that stay wait for the callee again: another unit may bring it back.
            waiting = self.connection.execute(
                update(schema.call_site)
                .where(call.callee_id == stored.id)
                .values(callee_id=None, callee_key=stored.key)
            )
            if waiting.rowcount:
                self.memory.awaited.add(stored.key)
            del self.memory.instances[stored.key]
        for chunk in chunks(sorted(ids)):
            self.connection.execute(delete(schema.function_instance).where(schema.function_instance.c.id.in_(chunk)))

    def finish(self) -> None:
        """Deletes the remembered sites that have no node left; makes the marks of the others true."""
        self._refresh(self.memory.casts, "cast_site_id", self._cast_ids)
        self._refresh(self.memory.arithmetic, "arithmetic_site_id", self._arithmetic_ids)
        self._cast_ids, self._arithmetic_ids = set(), set()

    def _refresh(self, sites: SiteTable, column_name: str, ids: Iterable[int]) -> None:
        node, instance, table = schema.node.c, schema.function_instance.c, sites.table
        column = node[column_name]
        for chunk in chunks(sorted(ids)):
            rows = self.connection.execute(
                select(
                    column,
                    func.min(case((node.constant, 1), else_=0)),
                    func.max(case((node.reached, 1), else_=0)),
                    func.max(case((node.reached & (instance.device_reached | node.on_device), 1), else_=0)),
                )
                .join(schema.function_instance, instance.id == node.instance_id)
                .where(column.in_(chunk))
                .group_by(column)
            ).all()
            changed = []
            for site_id, *marks in rows:
                constant, reached, device = (bool(mark) for mark in marks)
                site = sites.by_id[site_id]
                if (site.constant, site.reached, site.device) != (constant, reached, device):
                    site.constant, site.reached, site.device = constant, reached, device
                    changed.append({"site": site_id, "constant": constant, "reached": reached, "device": device})
            if changed:
                self.connection.execute(update(table).where(table.c.id == bindparam("site")), changed)
            orphans = set(chunk) - {row[0] for row in rows}
            for site_id in orphans:
                sites.drop(site_id)
            if orphans:
                self.connection.execute(delete(table).where(table.c.id.in_(sorted(orphans))))

    def _sweep_names(self) -> None:
        function, instance, file = schema.function.c, schema.function_instance.c, schema.source_file.c
        unused = select(function.id).where(
            function.scan_id == self.scan_id,
            ~select(instance.id).where(instance.function_id == function.id).exists(),
        )
        gone = set(self.connection.execute(unused).scalars())
        self._delete_ids(schema.function, gone)
        self.memory.functions = {key: id_ for key, id_ in self.memory.functions.items() if id_ not in gone}
        unnamed = (
            set(self.connection.execute(select(file.id).where(file.scan_id == self.scan_id)).scalars())
            - self._named_files()
        )
        self._delete_ids(schema.source_file, unnamed)
        self.memory.files = {path: id_ for path, id_ in self.memory.files.items() if id_ not in unnamed}

    def _named_files(self) -> set[int]:
        named: set[int] = set()
        for table in schema.metadata.tables.values():
            for name in ("file_id", "macro_file_id"):
                if name in table.columns:
                    named.update(
                        id_ for id_ in self.connection.execute(select(table.c[name]).distinct()).scalars() if id_
                    )
        return named

    def _delete_ids(self, table: Table, ids: set[int]) -> None:
        for chunk in chunks(sorted(ids)):
            self.connection.execute(delete(table).where(table.c.id.in_(chunk)))
