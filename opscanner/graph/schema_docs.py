"""The schema as a text: tables, views and columns, from the comments that they carry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Table

from opscanner.errors import UsageError
from opscanner.graph.schema import SCHEMA_VERSION, metadata
from opscanner.graph.views import VIEWS

#: Columns: name, type, text.
_Entry = tuple[str, str, list[tuple[str, str, str]]]

INTRODUCTION = f"""# The schema of the database

Schema version {SCHEMA_VERSION}. This page is made from `opscanner/graph/schema.py` and `opscanner/graph/views.py`:
`opscanner schema --markdown > docs/schema.md`. `opscanner schema NAME ...` prints the same in a terminal.

Ask the views; they hold words, and filters on their columns use indexes. The tables below them hold the same with ids.
Booleans are 0 and 1 in SQLite, and real booleans in PostgreSQL: `WHERE NOT constant` works in both. In PostgreSQL
write `"column"` with its quotes.

Tables and views of what was measured (`campaign`, `measurement`, `fault` ...; `measurements`, `faults`) stand beside
the graph. A database of an earlier opscanner gets them when `opscanner test` first writes to it.
"""


def entries() -> dict[str, _Entry]:
    """Views first, then tables; each with its kind, its text and its columns."""
    found: dict[str, _Entry] = {}
    for view in VIEWS:
        found[view.name] = ("view", view.comment, [(name, "", text) for name, text in view.columns.items()])
    for table in metadata.sorted_tables:
        found[table.name] = ("table", table.comment or "", list(_columns(table)))
    return found


def _columns(table: Table) -> Iterable[tuple[str, str, str]]:
    for column in table.columns:
        marks = ["key"] if column.primary_key else []
        marks += [f"-> {key.target_fullname}" for key in column.foreign_keys]
        yield column.name, " ".join([str(column.type).lower(), *marks]), column.comment or ""


def markdown() -> str:
    """The documentation page."""
    parts = [INTRODUCTION]
    for kind in ("view", "table"):
        parts.append(f"## {kind.capitalize()}s\n")
        for name, (its_kind, text, columns) in entries().items():
            if its_kind != kind:
                continue
            parts.append(f"### `{name}`\n\n{text}\n")
            head = ["| column | meaning |", "| --- | --- |"]
            rows = [f"| `{column}` | {meaning} |" for column, _, meaning in columns]
            if kind == "table":
                head = ["| column | type | meaning |", "| --- | --- | --- |"]
                rows = [f"| `{column}` | {type_} | {meaning} |" for column, type_, meaning in columns]
            parts.append("\n".join([*head, *rows]) + "\n")
    return "\n".join(parts)


def text(names: Sequence[str] = ()) -> str:
    """For a terminal: everything, or only the tables and views named.

    Raises
    ------
    UsageError
        When there is no table or view of a name.
    """
    known = entries()
    for name in names:
        if name not in known:
            raise UsageError(f"there is no table or view {name}", f"one of {', '.join(known)}")
    blocks = []
    for name in names or known:
        kind, comment, columns = known[name]
        width = max(len(column) for column, _, _ in columns)
        lines = [f"  {column:<{width}}  {meaning}" for column, _, meaning in columns]
        blocks.append("\n".join([f"{name} ({kind}): {comment}", *lines]))
    return "\n\n".join(blocks) + "\n"
