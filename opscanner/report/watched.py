"""What a watch found, as rows: the worst sites first, and each alert in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opscanner.watched import Direction, Site, WatchReport

COLUMNS = (
    "module", "operator", "pass", "formats", "calls", "checked", "ULP of largest", "ULP", "rel. error >=",
    "nan/inf", "alerts", "at",
)  # fmt: skip


def rows(sites: Iterable[Site]) -> Iterator[Sequence[Any]]:
    """Cells of :data:`COLUMNS`."""
    for site in sites:
        number = f" #{site.number}" if site.number > 1 else ""
        yield (
            site.module,
            f"{site.operator}{number}",
            site.direction.value,
            " ".join(site.formats),
            site.count,
            site.checked,
            f"{site.max_scaled_ulp:.3g}",
            f"{site.max_ulp:.3g}",
            f"{site.max_relative_error:.2g}",
            f"{site.nan_mismatches}/{site.infinity_mismatches}",
            site.alerts,
            site.location,
        )


def alert_lines(report: WatchReport) -> Iterator[str]:
    """A line or two for each site with alerts, in the order in which they failed first, and the report's notes."""
    for site in report.failing:
        first = site.first_alert
        assert first is not None
        back = ", backward" if site.direction is Direction.BACKWARD else ""
        where = f" at {site.location}" if site.location else back
        yield f"{site.module or '(outside of modules)'}: {site.operator}{where}: {first.kind.value}: {first.message}"
        yield f"  first in step {first.step}, call {first.call} of the site; {site.alerts} alerts" + (
            f"; inputs in {first.saved}" if first.saved else ""
        )
    for note in report.notes:
        yield f"note: {note}"
