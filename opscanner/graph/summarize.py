"""Copies the facts of finished scans into one small database: places, formats, operators, findings, their graph.

A summary has the tables and views of any other database, so that every question is asked the same way. What it leaves
out is what takes the room: the graph (nodes, edges, calls) of functions that serve no operator, what identifies an
instance to a scan that goes on, and what clang said. It holds no source text, as no database does, and no path of the
machine that made it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, String, Table, func, or_, select

from opscanner.errors import DatabaseError, UsageError
from opscanner.graph import connect, schema
from opscanner.graph import schema_conclusions as conclusions
from opscanner.graph.bulk import BulkInsert
from opscanner.graph.queries import reading
from opscanner.graph.schema_trials import TRIALS
from opscanner.results import SummarizedScan

_MARK = "summary"
#: An absolute path inside a text: clang names lambdas and unnamed structs by their place.
_ABSOLUTE = re.compile(r"(?<![\w.*/)\]>}])/(?:[\w.+@~-]+/)+[\w.+@~-]+")
#: Where the part of a path begins that is the same on every machine.
_SHARED_PART = re.compile(r".*/(?:(?:site|dist)-packages|include)/")


class _Kept:
    """A table of a summary, with the positions of its columns.

    Parameters
    ----------
    key : tuple of str
        Columns that tell whether a row of another database is the same row; empty where that is told otherwise.
    empty : dict
        What columns hold instead that a summary does without.
    either, both : tuple of str
        Marks that hold for the row when they hold in one database, or in all.
    """

    def __init__(
        self,
        table: Table,
        key: tuple[str, ...],
        empty: dict[str, Any] | None = None,
        *,
        either: tuple[str, ...] = (),
        both: tuple[str, ...] = (),
    ) -> None:
        names = table.columns.keys()
        position = {name: index for index, name in enumerate(names)}
        self.table, self.name, self.has_id = table, table.name, names[0] == "id"
        self.empty = {position[name]: value for name, value in (empty or {}).items()}
        self.key = [position[name] for name in key]
        self.either = [position[name] for name in either]
        self.both = [position[name] for name in both]
        rest = [(index, column) for index, column in enumerate(table.columns) if index not in self.empty]
        #: (position, table) of what refers to another row.
        self.references = [(index, ref.column.table.name) for index, column in rest for ref in column.foreign_keys]
        self.texts = [index for index, column in rest if isinstance(column.type, String)]


_PLACE = ("file_id", "line", "column", "function_id")
_INSTANCE = {"key": "", "usr": "", "signature": "", "digest": "", "first_node": 0, "run": 1}
#: Each behind those that its rows refer to.
KEPT = (
    _Kept(schema.source_file, ("path",)),
    _Kept(schema.function, ("name", "file_id", "line", "column")),
    _Kept(
        schema.cast_site,
        (*_PLACE, "from_format", "to_format", "form"),
        either=("reached", "device"),
        both=("constant",),
    ),
    _Kept(
        schema.arithmetic_site,
        (*_PLACE, "kind", "operation", "category", "format", "accumulator"),
        either=("reached", "device"),
        both=("constant",),
    ),
    _Kept(schema.function_instance, ("key",), _INSTANCE, either=("device_reached", "has_error")),
    _Kept(schema.translation_unit, ("file_id", "cuda_pass", "configuration"), {"arguments_hash": "", "run": 1}),
    _Kept(schema.unit_instance, ("unit_id", "instance_id")),
    _Kept(schema.node, ()),
    _Kept(schema.edge, ("source_id", "target_id", "kind")),
    _Kept(schema.call_site, ("caller_id", "callee_id", "node", "arguments", "kind", "line")),
    _Kept(schema.missing_header, ("unit_id", "header")),
    _Kept(schema.dependency, ("unit_id", "file_id")),
    _Kept(conclusions.operator, ("name",)),
    _Kept(conclusions.registration, ("operator_id", "kind", "device", "formats", "target", "file_id", "line")),
    _Kept(conclusions.attribution, ("operator_id", "function_id", "device")),
    _Kept(conclusions.attributed_instance, ("attribution_id", "instance_id")),
    _Kept(conclusions.attributed_cast, ("attribution_id", "cast_site_id")),
    _Kept(conclusions.attributed_arithmetic, ("attribution_id", "arithmetic_site_id")),
    _Kept(conclusions.delegation, ("operator_id", "target_id")),
    _Kept(conclusions.shared_function, ("function_id",)),
    _Kept(conclusions.finding, ()),
)
#: What makes a database large, and what only a scan that goes on needs.
LEFT_OUT = (schema.diagnostic, schema.dropped_argument, *TRIALS)
#: In the order of SummarizedScan's counts.
_COUNTED = (
    "translation_unit", "function", "cast_site", "arithmetic_site", "operator", "attribution", "finding",
)  # fmt: skip
Row = list[Any]


class _Merged:
    """One scan of the summary: the rows of one database, or of several that scanned parts of one source tree."""

    def __init__(self, scan_id: int, root: str, taken: Counter[str]) -> None:
        self.scan_id = scan_id
        self.root = root
        self.rows: dict[str, list[Row]] = {kept.name: [] for kept in KEPT}
        self._taken = taken
        self._known: dict[str, dict[bytes, Row]] = {kept.name: {} for kept in KEPT}

    def add(self, connection: Connection, scan_id: int) -> None:
        """Adds the rows of a scan in a database."""
        ids: dict[str, dict[int, int]] = {"scan": {scan_id: self.scan_id}}
        # A place that an earlier database judged keeps its findings: one of them gives it its category.
        judged = {_sites(row) for row in self.rows["finding"]}
        places: Counter[int] = Counter()
        for kept in KEPT:
            ids[kept.name] = {}
            for found in _rows_of(connection, kept.table, scan_id):
                row = list(found)
                for index, target in kept.references:
                    if row[index] is not None:
                        # Only nodes can be missing: those of functions that serve no operator.
                        row[index] = ids[target].get(row[index], 0) if target == "node" else ids[target][row[index]]
                for index in kept.texts:
                    if row[index] and "/" in row[index]:
                        row[index] = neutral(row[index], self.root)
                if kept.table is schema.node:
                    # A node is known by its place in the body: nodes come in the order of their ids.
                    instance = row[_INSTANCE_OF_NODE]
                    self._add_row(kept, row, ids[kept.name], _digest([instance, places[instance]]))
                    places[instance] += 1
                elif kept.table is not conclusions.finding:
                    key = _digest([row[index] for index in kept.key])
                    self._add_row(kept, row, ids[kept.name], key)
                elif _sites(row) not in judged:
                    row[_CHAIN] = ",".join(str(ids["node"][int(id_)]) for id_ in _chain(row) if int(id_) in ids["node"])
                    self._add_row(kept, row, ids[kept.name], b"")

    def _add_row(self, kept: _Kept, row: Row, ids: dict[int, int], digest: bytes) -> None:
        known = self._known[kept.name].get(digest) if digest else None
        if known is None:
            old = row[0]
            for index, value in kept.empty.items():
                row[index] = value
            if kept.has_id:
                self._taken[kept.name] += 1
                ids[old] = row[0] = self._taken[kept.name]
            if digest:
                self._known[kept.name][digest] = row
            self.rows[kept.name].append(row)
            return
        if kept.has_id:
            ids[row[0]] = known[0]
        for index in kept.either:
            known[index] = known[index] or row[index]
        for index in kept.both:
            known[index] = known[index] and row[index]


_FINDING = conclusions.finding.columns.keys()
_CAST, _OPERATION = _FINDING.index("cast_site_id"), _FINDING.index("arithmetic_site_id")
_CHAIN = _FINDING.index("chain")
_INSTANCE_OF_NODE = schema.node.columns.keys().index("instance_id")


def _chain(row: Row) -> list[str]:
    """Ids of the nodes that a finding's rule followed."""
    return [id_ for id_ in row[_CHAIN].split(",") if id_]


def _sites(row: Row) -> tuple[Any, Any]:
    """Ids of the cast site and the arithmetic site that a finding is about; one of them is None."""
    return row[_CAST], row[_OPERATION]


def _digest(values: list[Any]) -> bytes:
    return hashlib.blake2b(repr(values).encode(), digest_size=16).digest()


def _rows_of(connection: Connection, table: Table, scan_id: int) -> Iterator[Sequence[Any]]:
    """The rows of a table that belong to a scan, in the order of their keys."""
    unit, operator = schema.translation_unit.c, conclusions.operator.c
    units, operators = (
        select(unit.id).where(unit.scan_id == scan_id),
        select(operator.id).where(operator.scan_id == scan_id),
    )
    query: Any = select(table).order_by(*table.primary_key.columns)
    attribution, instance = conclusions.attribution.c, schema.function_instance.c
    mine = attribution.operator_id.in_(operators)
    serving = select(instance.id).where(instance.function_id.in_(select(attribution.function_id).where(mine)))
    if "scan_id" in table.c:
        query = query.where(table.c.scan_id == scan_id)
    elif table is schema.unit_instance:
        # Beside those of functions that serve operators one that device code reaches: coverage asks for one.
        first = (
            select(func.min(table.c.instance_id))
            .where(table.c.unit_id.in_(units), table.c.device_reached)
            .group_by(table.c.unit_id)
        )
        wanted = or_(table.c.instance_id.in_(serving), table.c.instance_id.in_(first))
        query = query.where(table.c.unit_id.in_(units), wanted)
    elif "unit_id" in table.c:
        query = query.where(table.c.unit_id.in_(units))
    elif "operator_id" in table.c:
        query = query.where(table.c.operator_id.in_(operators))
    elif table is schema.node:
        query = query.where(table.c.instance_id.in_(serving))
    elif table is schema.edge:
        ends = (schema.node.alias("source"), schema.node.alias("target"))
        for end, column in zip(ends, (table.c.source_id, table.c.target_id), strict=True):
            query = query.join(end, end.c.id == column).where(end.c.instance_id.in_(serving))
    elif table is schema.call_site:
        query = query.where(table.c.caller_id.in_(serving), table.c.callee_id.in_(serving))
    else:
        query = query.where(table.c.attribution_id.in_(select(attribution.id).where(mine)))
    return iter(connection.execute(query))


def neutral(text: str, root: str) -> str:
    """A text without the paths of the machine that scanned.

    Paths below the scan's root become relative to it; of others the part stays that every machine has.

    >>> neutral("f(lambda at /home/me/pytorch/aten/A.cu:7:3)", "/home/me/pytorch")
    'f(lambda at aten/A.cu:7:3)'
    >>> neutral("/home/me/venv/lib/python3.12/site-packages/nvidia/x.h", "/home/me/pytorch")
    '/.../nvidia/x.h'
    >>> neutral("/usr/include/math.h", "/home/me/pytorch"), neutral("a / b", "/home/me/pytorch")
    ('/usr/include/math.h', 'a / b')
    """
    return _ABSOLUTE.sub(lambda found: _without_machine(found[0]), text.replace(f"{root.rstrip('/')}/", ""))


def _without_machine(path: str) -> str:
    if path.startswith(("/usr/include/", "/usr/lib/", "/usr/local/cuda", "/.../")):
        return path
    shared = _SHARED_PART.match(path)
    return f"/.../{path[shared.end() :] if shared else path.rpartition('/')[2]}"


def summarize(databases: Sequence[str], target: Path) -> list[SummarizedScan]:
    """Writes a summary of every scan of the databases into a new file; gives what it holds.

    Scans of one source tree (framework, version and root) in several databases become one scan, which holds the units
    of them all. Where two of them saw the same place, it is in the summary once: device code reaches it when it does in
    one of them, and the findings are those of the database that was named first.

    Raises
    ------
    DatabaseError
        When a database cannot be read, or the summary not be written.
    UsageError
        When a scan is not finished, or a database is a summary itself.
    """
    found = _scans(databases)
    url = connect.database_url(str(target))
    engine = connect.open_engine(url, write=True)
    try:
        connect.prepare(engine)
        inserts = [(kept.name, BulkInsert(kept.table, engine.dialect)) for kept in KEPT]
        taken: Counter[str] = Counter()
        scans = []
        roots = _neutral_roots([key for key, _ in found])
        for number, ((key, sources), root) in enumerate(zip(found, roots, strict=True), start=1):
            merged = _Merged(number, key[2], taken)
            for database, scan_id in sources:
                with reading(database) as connection:
                    merged.add(connection, scan_id)
            with engine.begin() as connection:
                connection.execute(schema.scan.insert().values(_scan_row(number, key, root, sources)))
                for name, insert in inserts:
                    insert.write(connection, [tuple(row) for row in merged.rows[name]])
            counts = {name: len(rows) for name, rows in merged.rows.items()}
            scans.append(SummarizedScan(key[0], key[1], root, *(counts[name] for name in _COUNTED)))
    finally:
        engine.dispose()
    _settle(target)
    return scans


_Key = tuple[str, str, str]


def _scans(databases: Sequence[str]) -> list[tuple[_Key, list[tuple[str, int]]]]:
    """Source trees in the order of the databases, each with the (database, scan) that saw it."""
    found: dict[_Key, list[tuple[str, int]]] = defaultdict(list)
    for database in databases:
        with reading(database) as connection:
            refuse_summary(connection, "summaries are made of scans")
            for row in connection.execute(select(schema.scan).order_by(schema.scan.c.id)):
                if row.finished is None:
                    raise UsageError(
                        f"{database}: the scan of {row.framework} {row.version} is not finished",
                        "the command that began it goes on where it stopped",
                    )
                found[row.framework, row.version, row.root].append((database, row.id))
    if not found:
        raise DatabaseError(f"no scan in {', '.join(databases)}", "opscanner scan ROOT")
    return list(found.items())


def _neutral_roots(keys: Sequence[_Key]) -> list[str]:
    """``pytorch-2.6.0`` for each source tree; for sources of no framework the folder's name."""
    roots: list[str] = []
    for framework, version, root in keys:
        name = f"{framework}-{version}" if version else os.path.basename(root.rstrip("/")) or framework
        same = sum(1 for known in roots if known == name or known.startswith(f"{name} ("))
        roots.append(f"{name} ({same + 1})" if same else name)
    return roots


def _scan_row(number: int, key: _Key, root: str, sources: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """The row of a scan that was made of one or several; its options say which units each was asked for."""
    rows, options = [], []
    for database, scan_id in sources:
        with reading(database) as connection:
            rows.append(connection.execute(select(schema.scan).where(schema.scan.c.id == scan_id)).one())
    for row in rows:
        asked = json.loads(row.options)
        options.append({name: asked[name] for name in ("only", "passes") if name in asked})
    return {
        "id": number,
        "framework": key[0],
        "version": key[1],
        "root": root,
        "run": 1,
        "options": json.dumps({_MARK: options}, sort_keys=True),
        "tool_versions": rows[-1].tool_versions,
        "started": min(row.started for row in rows),
        "finished": max(row.finished for row in rows),
    }


def _settle(target: Path) -> None:
    """Statistics for the planner, no free pages, no log beside the file."""
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode=DELETE", "PRAGMA analysis_limit=0", "ANALYZE", "VACUUM"):
            connection.execute(statement)


def is_summary(connection: Connection) -> bool:
    """True for a database that :func:`summarize` wrote."""
    return any(_MARK in json.loads(text) for text in connection.execute(select(schema.scan.c.options)).scalars())


def refuse_summary(connection: Connection, why: str) -> None:
    """Says clearly that a summary cannot serve.

    Raises
    ------
    UsageError
        When the database is a summary.
    """
    if is_summary(connection):
        raise UsageError(f"this database is a summary: {why}", "opscanner scan ROOT --db FILE")


def refuse_without_graph(connection: Connection, cast_ids: Sequence[int]) -> None:
    """Says clearly that a summary holds no chains through casts of functions that serve no operator.

    Raises
    ------
    UsageError
        When the database is a summary, and none of the casts has a node in it.
    """
    node = schema.node.c
    if connection.execute(select(node.id).where(node.cast_site_id.in_(cast_ids[:500])).limit(1)).first() is None:
        refuse_summary(connection, "it holds no chains here, but those of functions that serve operators alone")
