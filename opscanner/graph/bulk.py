"""Writes many rows with few function calls: plain tuples, statements compiled once, ids given out here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Table, func, select

from opscanner.graph import schema

Row = tuple[Any, ...]

#: In an order in which every row's references are already there. Tables of one row a scan or less are not among them.
BULK_TABLES = (
    schema.source_file,
    schema.function,
    schema.cast_site,
    schema.arithmetic_site,
    schema.function_instance,
    schema.node,
    schema.edge,
    schema.call_site,
    schema.translation_unit,
    schema.unit_instance,
    schema.diagnostic,
    schema.missing_header,
    schema.dropped_argument,
    schema.dependency,
)


class BulkInsert:
    """An INSERT for whole rows of one table, values in the order of its columns."""

    def __init__(self, table: Table, dialect: Dialect) -> None:
        self.columns = [column.name for column in table.columns]
        compiled = table.insert().compile(dialect=dialect, column_keys=self.columns)
        self.statement = str(compiled)
        self.positional = bool(compiled.positional)
        assert not self.positional or list(compiled.positiontup or ()) == self.columns

    def write(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Inserts all rows; nothing happens when there are none."""
        if not rows:
            return
        if self.positional:
            connection.exec_driver_sql(self.statement, list(rows))
        else:
            connection.exec_driver_sql(self.statement, [dict(zip(self.columns, row, strict=True)) for row in rows])


class Ids:
    """Gives out the ids of one table, from above the largest that it holds."""

    def __init__(self, largest: int) -> None:
        self.next = largest + 1

    def take(self, count: int = 1) -> int:
        """The first of ``count`` fresh ids that follow one another."""
        first = self.next
        self.next += count
        return first


def largest_ids(connection: Connection, tables: Iterable[Table]) -> dict[str, Ids]:
    """Id counters of the tables, by name."""
    found: dict[str, Ids] = {}
    for table in tables:
        if "id" in table.columns:
            found[table.name] = Ids(connection.execute(select(func.max(table.c.id))).scalar() or 0)
    return found
