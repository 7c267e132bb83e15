"""What rules found in a scan: written as a whole, read as rows and as counts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, case, column, delete, func, select, table

from opscanner.errors import UsageError
from opscanner.graph import schema, views_findings
from opscanner.graph.bulk import BulkInsert, Row, largest_ids
from opscanner.graph.operator_queries import functions_serving
from opscanner.graph.queries import matches
from opscanner.graph.schema_conclusions import finding
from opscanner.results import FindingRow, PatternCount

#: Casts that no pattern was found at, under a name that no rule has.
UNCATEGORIZED = "uncategorized"


def replace_findings(
    connection: Connection, scan_id: int, rows: Iterable[Row], patterns: Collection[str] | None = None
) -> None:
    """Writes a scan's findings in the place of those that it has, or of those of some patterns.

    Parameters
    ----------
    rows : iterable of tuple
        Values in the order of the table's columns from ``pattern`` on.
    """
    former = delete(finding).where(finding.c.scan_id == scan_id)
    if patterns is not None:
        former = former.where(finding.c.pattern.in_(patterns))
    connection.execute(former)
    ids = largest_ids(connection, (finding,))[finding.name]
    BulkInsert(finding, connection.dialect).write(connection, [(ids.take(), scan_id, *row) for row in rows])


def site_places(connection: Connection, scan_id: int) -> tuple[dict[int, Row], dict[int, Row]]:
    """(file, line, column, function) as ids, of each cast site and of each arithmetic site of a scan."""
    found = []
    for site in (schema.cast_site, schema.arithmetic_site):
        rows = connection.execute(
            select(site.c.id, site.c.file_id, site.c.line, site.c.column, site.c.function_id).where(
                site.c.scan_id == scan_id
            )
        )
        found.append({row[0]: tuple(row[1:]) for row in rows})
    return found[0], found[1]


def find_findings(
    connection: Connection,
    *,
    pattern: str | None = None,
    operator: str | None = None,
    file: str | None = None,
    function: str | None = None,
    framework: str | None = None,
    confidence: str | None = None,
) -> list[FindingRow]:
    """Findings in the order of their places; filters as for casts.

    Raises
    ------
    UsageError
        When an operator is asked for and none of that name is known.
    """
    view = table(views_findings.FINDINGS.name, *(column(name) for name in views_findings.FINDINGS.columns))
    names = ["pass" if name == "reached_from" else name for name in FindingRow._fields]
    query = select(*(view.c[name] for name in names))
    for name, value in (("pattern", pattern), ("confidence", confidence), ("framework", framework)):
        if value is not None:
            query = query.where(view.c[name] == value)
    serving = None if operator is None else _serving(connection, operator)
    rows = [FindingRow(*row)._replace(is_primary=bool(row.is_primary)) for row in connection.execute(query)]
    return sorted(
        (
            row
            for row in rows
            if (file is None or matches(row.file, file))
            and (function is None or row.function == function or row.function.endswith(f"::{function}"))
            and (serving is None or row.function in serving)
        ),
        key=lambda row: (row.framework, row.version, row.file, row.line, row.column, row.pattern, row.id),
    )


def _serving(connection: Connection, name: str) -> set[str]:
    """Qualified names of the functions that serve an operator, those of operators that it calls too."""
    serving = functions_serving(connection, name)
    rows = connection.execute(select(schema.function.c.id, schema.function.c.name))
    found = {function for id_, function in rows if id_ in serving}
    if not found:
        raise UsageError(f"no function is attributed to an operator {name}", "opscanner operators lists them")
    return found


def count_findings(connection: Connection) -> dict[str, int]:
    """Number of findings of each pattern that has any."""
    rows = connection.execute(select(finding.c.pattern, func.count()).group_by(finding.c.pattern))
    return {row[0]: row[1] for row in rows}


def patterns_of_sites(connection: Connection, *, casts: bool) -> dict[int, tuple[str, ...]]:
    """Patterns found at each cast site, or at each arithmetic site, the primary one first."""
    site = finding.c.cast_site_id if casts else finding.c.arithmetic_site_id
    found: defaultdict[int, list[str]] = defaultdict(list)
    rows = connection.execute(
        select(site, finding.c.pattern)
        .where(site.is_not(None))
        .order_by(site, finding.c.is_primary.desc(), finding.c.pattern)
    )
    for id_, pattern in rows:
        found[id_].append(pattern)
    return {id_: tuple(patterns) for id_, patterns in found.items()}


def count_patterns(connection: Connection, scan_ids: Sequence[int]) -> list[PatternCount]:
    """One row a scan and pattern that was found, and one for casts of floats without any."""
    found = []
    for scan_id in scan_ids:
        scan = connection.execute(
            select(schema.scan.c.framework, schema.scan.c.version).where(schema.scan.c.id == scan_id)
        ).one()
        found += [PatternCount(*scan, *counts) for counts in _counted(connection, scan_id)]
    return found


def _counted(connection: Connection, scan_id: int) -> list[tuple[Any, ...]]:
    def total(condition: Any) -> Any:
        return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)

    c = finding.c
    formats: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pattern, before, after, count in connection.execute(
        select(c.pattern, c.from_format, c.to_format, func.count())
        .where(c.scan_id == scan_id)
        .group_by(c.pattern, c.from_format, c.to_format)
    ):
        formats[pattern][before if before == after else f"{before}->{after}"] += count
    rows = connection.execute(
        select(
            c.pattern, func.count(), total(c.is_primary), total(c.confidence == "high"),
            total(c.confidence == "medium"), total(c.confidence == "low"), total(c.device),
        )
        .where(c.scan_id == scan_id)
        .group_by(c.pattern)
        .order_by(c.pattern)
    )  # fmt: skip
    counts = [(*row, dict(formats[row[0]].most_common())) for row in rows]
    site = schema.cast_site.c
    alone: Counter[str] = Counter()
    device = 0
    for before, after, reached_by_device in connection.execute(
        select(site.from_format, site.to_format, site.device).where(
            and_(site.scan_id == scan_id, site.direction.in_(("widen", "narrow")), site.reached, ~site.constant),
            ~select(c.id).where(c.cast_site_id == site.id).exists(),
        )
    ):
        alone[f"{before}->{after}"] += 1
        device += bool(reached_by_device)
    total_alone = sum(alone.values())
    counts.append((UNCATEGORIZED, total_alone, total_alone, 0, 0, 0, device, dict(alone.most_common())))
    return counts
