"""What a writer keeps in memory of one scan, so that it need not ask the database row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, select

from opscanner.graph import schema


class StoredInstance:
    """A function instance that the database has."""

    __slots__ = (
        "casts",
        "device",
        "digest",
        "first_node",
        "id",
        "key",
        "nodes",
        "parameters",
        "returns",
        "run",
    )

    def __init__(
        self, id_: int, key: str, run: int, digest: str, device: bool, first_node: int, nodes: int, casts: int
    ) -> None:
        self.id = id_
        self.key = key
        self.run = run
        self.digest = digest
        self.device = device
        self.first_node = first_node
        self.nodes = nodes
        self.casts = casts
        #: As in FunctionInstance: positions of nodes, counted from ``first_node``. None until someone calls it.
        self.parameters: tuple[int, ...] | None = None
        self.returns: tuple[int, ...] | None = None


class StoredSite:
    """A cast or arithmetic site with the marks that later instances may change."""

    __slots__ = ("constant", "device", "id", "key", "reached")

    def __init__(self, id_: int, key: tuple[Any, ...], constant: bool, reached: bool, device: bool) -> None:
        self.id = id_
        self.key = key
        self.constant = constant
        self.reached = reached
        self.device = device


@dataclass
class SiteTable:
    """The sites of one kind, by what makes them one, and by id."""

    table: Table
    key_columns: tuple[str, ...]
    by_key: dict[tuple[Any, ...], StoredSite] = field(default_factory=dict)
    by_id: dict[int, StoredSite] = field(default_factory=dict)

    def add(self, site: StoredSite) -> None:
        """Remembers a site."""
        self.by_key[site.key] = site
        self.by_id[site.id] = site

    def drop(self, site_id: int) -> None:
        """Forgets a site."""
        site = self.by_id.pop(site_id, None)
        if site is not None:
            self.by_key.pop(site.key, None)

    def load(self, connection: Connection, scan_id: int) -> None:
        """Reads the sites of a scan."""
        columns = self.table.c
        wanted = [columns[name] for name in ("id", "constant", "reached", "device", *self.key_columns)]
        for id_, constant, reached, device, *key in connection.execute(
            select(*wanted).where(columns.scan_id == scan_id)
        ):
            self.add(StoredSite(id_, tuple(key), constant, reached, device))


def _cast_sites() -> SiteTable:
    key = ("file_id", "line", "column", "function_id", "from_format", "to_format", "form")
    return SiteTable(schema.cast_site, key)


def _arithmetic_sites() -> SiteTable:
    key = (
        "file_id", "line", "column", "function_id", "kind", "operation", "category", "format", "accumulator",
    )  # fmt: skip
    return SiteTable(schema.arithmetic_site, key)


@dataclass
class ScanMemory:
    """Ids of everything that units share, by what makes it one."""

    root: str
    files: dict[str, int] = field(default_factory=dict)
    #: Sizes as the database has them, in bytes, by path; and the paths whose size this writer looked up.
    sizes: dict[str, int | None] = field(default_factory=dict)
    sized: set[str] = field(default_factory=set)
    functions: dict[tuple[str, int, int, int], int] = field(default_factory=dict)
    instances: dict[str, StoredInstance] = field(default_factory=dict)
    casts: SiteTable = field(default_factory=_cast_sites)
    arithmetic: SiteTable = field(default_factory=_arithmetic_sites)
    #: Keys of instances that are called but that no unit has brought yet.
    awaited: set[str] = field(default_factory=set)


def load_memory(connection: Connection, scan_id: int) -> ScanMemory:
    """Reads what the database holds of a scan."""
    memory = ScanMemory(connection.execute(select(schema.scan.c.root).where(schema.scan.c.id == scan_id)).scalar_one())
    file, function, instance, call = (
        schema.source_file.c,
        schema.function.c,
        schema.function_instance.c,
        schema.call_site.c,
    )
    for path, id_, size in connection.execute(select(file.path, file.id, file.size).where(file.scan_id == scan_id)):
        memory.files[path], memory.sizes[path] = id_, size
    for id_, *place in connection.execute(
        select(function.id, function.name, function.file_id, function.line, function.column).where(
            function.scan_id == scan_id
        )
    ):
        memory.functions[(place[0], place[1], place[2], place[3])] = id_
    for id_, key, run, digest, device, first_node, nodes, casts in connection.execute(
        select(
            instance.id,
            instance.key,
            instance.run,
            instance.digest,
            instance.device_reached,
            instance.first_node,
            instance.nodes,
            instance.casts,
        ).where(instance.scan_id == scan_id)
    ):
        memory.instances[key] = StoredInstance(id_, key, run, digest, device, first_node, nodes, casts)
    memory.casts.load(connection, scan_id)
    memory.arithmetic.load(connection, scan_id)
    memory.awaited.update(
        connection.execute(
            select(call.callee_key)
            .join(schema.function_instance, instance.id == call.caller_id)
            .where(call.callee_key.is_not(None), instance.scan_id == scan_id)
            .distinct()
        ).scalars()
    )
    return memory
