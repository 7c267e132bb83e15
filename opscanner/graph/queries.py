"""Rows of the views, filtered: what the commands ask for."""

from __future__ import annotations

import contextlib
import fnmatch
from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Select, TableClause, case, column, func, or_, select, table
from sqlalchemy.exc import SQLAlchemyError

from opscanner.errors import DatabaseError, UsageError
from opscanner.graph import connect, schema, views
from opscanner.graph.view import View
from opscanner.results import ArithmeticRow, CastRow, Coverage, UnitRow


@contextlib.contextmanager
def reading(database: str) -> Iterator[Connection]:
    """A connection to a database that holds a graph; it is never written to.

    Raises
    ------
    DatabaseError
        When there is no database, it is empty, something else, or of another schema version.
    """
    url = connect.database_url(database)
    engine = connect.open_engine(url, write=False)
    connect.check(engine)
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        raise connect.explain(error, url) from error
    finally:
        engine.dispose()


def _view(view: View) -> TableClause:
    return table(view.name, *(column(name) for name in view.columns))


def matches(path: str, pattern: str) -> bool:
    """True when a glob matches a whole relative path or its end; ``*`` crosses folders.

    >>> matches("aten/src/SoftMax.cu", "SoftMax.cu"), matches("aten/src/SoftMax.cu", "aten/*.cu")
    (True, True)
    """
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"*/{pattern}")


def _with_file(connection: Connection, query: Select[Any], view: TableClause, pattern: str | None) -> Select[Any]:
    """The query for files that match the glob. Python matches, so that every database means the same by it."""
    if not pattern:
        return query
    path = schema.source_file.c.path
    paths = [known for known in connection.execute(select(path).distinct()).scalars() if matches(known, pattern)]
    return query.where(view.c.file.in_(paths))


def _filter(query: Select[Any], view: TableClause, values: dict[str, str | None]) -> Select[Any]:
    for name, value in values.items():
        if value is not None:
            query = query.where(view.c[name] == value)
    return query


def _with_function(query: Select[Any], view: TableClause, name: str | None) -> Select[Any]:
    """A qualified name, or its last parts: ``softmax_warp_forward`` finds ``at::native::softmax_warp_forward``."""
    if name is None:
        return query
    known = schema.function.c.name
    named = select(known).where(or_(known == name, known.like(f"%::{_escaped(name)}", escape="\\")))
    return query.where(view.c.function.in_(named))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def find_casts(
    connection: Connection,
    *,
    file: str | None = None,
    from_format: str | None = None,
    to_format: str | None = None,
    function: str | None = None,
    framework: str | None = None,
    cast_id: int | None = None,
    line: int | None = None,
) -> list[CastRow]:
    """Cast sites in the order of their places."""
    view = _view(views.CASTS)
    names = [name for name in CastRow._fields if name not in ("operators", "patterns")]
    names[names.index("reached_from")] = "pass"
    query = select(*(view.c[name] for name in names))
    values = {"from_format": from_format, "to_format": to_format, "framework": framework}
    query = _with_function(_filter(query, view, values), view, function)
    query = _with_file(connection, query, view, file)
    if cast_id is not None:
        query = query.where(view.c.id == cast_id)
    if line is not None:
        query = query.where(view.c.line == line)
    rows = [CastRow(*row)._replace(constant=bool(row.constant)) for row in connection.execute(query)]
    # Sorted here: asked for an order, SQLite would walk the files' index instead of the filter's.
    return sorted(rows, key=lambda row: (row.framework, row.version, row.file, row.line, row.column, row.id))


def find_arithmetic(
    connection: Connection,
    *,
    file: str | None = None,
    format_: str | None = None,
    accumulator: str | None = None,
    category: str | None = None,
    operation: str | None = None,
    function: str | None = None,
    framework: str | None = None,
) -> list[ArithmeticRow]:
    """Places of arithmetic in their order."""
    view = _view(views.ARITHMETIC)
    names = [name for name in ArithmeticRow._fields if name not in ("operators", "patterns")]
    names[names.index("reached_from")] = "pass"
    query = select(*(view.c[name] for name in names))
    values = {
        "format": format_,
        "accumulator": accumulator,
        "category": category,
        "operation": operation,
        "framework": framework,
    }
    query = _with_function(_filter(query, view, values), view, function)
    query = _with_file(connection, query, view, file)
    rows = [ArithmeticRow(*row)._replace(constant=bool(row.constant)) for row in connection.execute(query)]
    return sorted(rows, key=lambda row: (row.framework, row.version, row.file, row.line, row.column, row.id))


def find_cast(connection: Connection, name: str) -> list[CastRow]:
    """The casts that ``CAST`` on the command line means: an id, or ``file:line`` (a name or the end of a path).

    Raises
    ------
    UsageError
        When no cast is meant.
    """
    if name.isdecimal():
        # Longer numbers overflow the databases' integers, and nobody has so many casts.
        found = find_casts(connection, cast_id=int(name)) if len(name) <= 18 else []
        if not found:
            raise UsageError(f"there is no cast {name}", "opscanner casts prints the ids")
        return found
    file, separator, line = name.rpartition(":")
    if not separator or not line.isdecimal() or len(line) > 9:
        raise UsageError(f"{name!r} is neither a cast's id nor FILE:LINE", "opscanner casts --format table")
    found = find_casts(connection, file=file, line=int(line))
    if not found:
        lines = sorted({row.line for row in find_casts(connection, file=file)}, key=lambda at: abs(at - int(line)))
        near = "lines that have one: " + ", ".join(map(str, lines[:5])) if lines else f"no cast in a file {file}"
        raise UsageError(f"there is no cast at {name}", near)
    return found


def find_units(connection: Connection, status: str | None = None) -> list[UnitRow]:
    """Translation units in the order of their files."""
    view = _view(views.UNITS)
    query = _filter(select(*(view.c[name] for name in UnitRow._fields)), view, {"status": status})
    return sorted(UnitRow(*row) for row in connection.execute(query))


def coverage(connection: Connection, scan_id: int | None = None) -> list[Coverage]:
    """One report a scan, in the order the scans were first begun."""
    scan = schema.scan.c
    query = select(scan.id, scan.framework, scan.version, scan.root, scan.finished).order_by(scan.id)
    if scan_id is not None:
        query = query.where(scan.id == scan_id)
    rows = connection.execute(query).all()
    if not rows:
        raise DatabaseError("the database holds no scan", "opscanner scan ROOT")
    return [
        Coverage(framework, version, root, finished is not None, **_counts(connection, id_))
        for id_, framework, version, root, finished in rows
    ]


def _counts(connection: Connection, scan_id: int) -> dict[str, Any]:
    unit, instance, cast = schema.translation_unit.c, schema.function_instance.c, schema.cast_site.c
    mine = unit.scan_id == scan_id
    header = schema.missing_header

    def total(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

    bad = instance.has_error
    functions = connection.execute(
        select(
            func.count(),
            total(bad),
            total(instance.device_reached),
            total(bad & instance.device_reached),
            func.coalesce(func.sum(instance.nodes), 0),
        ).where(instance.scan_id == scan_id)
    ).one()
    reaches = schema.unit_instance.c
    reached = select(reaches.unit_id).where(reaches.unit_id == unit.id, reaches.device_reached)
    # A unit whose headers are missing may have no device code left that could hold an error.
    with_errors, reached_any = unit.status == "errors", reached.correlate(schema.translation_unit).exists()
    nothing = with_errors & unit.cuda_pass.in_(("device",)) & ~reached_any
    empty = with_errors & unit.cuda_pass.in_(("none",)) & (unit.functions == 0)
    times = connection.execute(
        select(
            total((unit.device_functions_with_error > 0) | nothing | empty),
            func.coalesce(func.sum(unit.missing_bodies), 0),
            func.coalesce(func.sum(unit.parse_cpu_s), 0.0),
            func.coalesce(func.sum(unit.walk_cpu_s), 0.0),
            func.coalesce(func.max(unit.peak_rss_mib), 0.0),
        ).where(mine)
    ).one()
    casts = connection.execute(select(func.count(), total(cast.constant)).where(cast.scan_id == scan_id)).one()
    statuses = connection.execute(select(unit.status, func.count()).where(mine).group_by(unit.status)).all()
    headers = connection.execute(
        select(header.c.header, func.count())
        .join(schema.translation_unit, unit.id == header.c.unit_id)
        .where(mine)
        .group_by(header.c.header)
    ).all()
    reasons = connection.execute(
        select(unit.reason, func.count()).where(mine, unit.reason != "").group_by(unit.reason)
    ).all()
    edges = connection.execute(
        select(func.count())
        .select_from(schema.edge)
        .join(schema.node, schema.node.c.id == schema.edge.c.source_id)
        .join(schema.function_instance, instance.id == schema.node.c.instance_id)
        .where(instance.scan_id == scan_id)
    ).scalar_one()
    sites = schema.arithmetic_site.c
    return {
        "statuses": {row[0]: row[1] for row in statuses},
        "functions": functions[0],
        "functions_with_error": functions[1],
        "device_functions": functions[2],
        "device_functions_with_error": functions[3],
        "nodes": functions[4],
        "edges": edges,
        "units_with_device_error": times[0],
        "missing_bodies": times[1],
        "parse_cpu_s": times[2],
        "walk_cpu_s": times[3],
        "peak_rss_mib": times[4],
        "cast_sites": casts[0],
        "constant_cast_sites": casts[1],
        "arithmetic_sites": connection.execute(select(func.count()).where(sites.scan_id == scan_id)).scalar_one(),
        "missing_headers": dict(Counter({row[0]: row[1] for row in headers}).most_common()),
        "reasons": dict(Counter({row[0]: row[1] for row in reasons}).most_common()),
    }
