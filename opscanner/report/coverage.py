"""How much of a source tree was seen, as the table that ends a scan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from opscanner.results import Coverage

#: Lines of missing headers and reasons; the rest is counted.
_LISTED = 12


def render(rows: Iterable[Coverage], stream: IO[str]) -> None:
    """Writes one block a scan."""
    for number, report in enumerate(rows):
        if number:
            stream.write("\n")
        _block(report, stream)


def _block(report: Coverage, stream: IO[str]) -> None:
    title = " ".join(filter(None, (report.framework, report.version, report.root)))
    stream.write(title + ("" if report.finished else "  (not finished: the same scan goes on where it stopped)") + "\n")
    ok, errors, skipped = (report.statuses.get(name, 0) for name in ("ok", "errors", "skipped"))
    whole = report.functions - report.functions_with_error
    lines = [
        ("translation units", f"{report.units:,}", f"{ok:,} ok, {errors:,} with errors, {skipped:,} skipped"),
        ("function instances", f"{report.functions:,}", f"{_share(whole, report.functions)} seen whole"),
        (
            "reached by device code",
            f"{report.device_functions:,}",
            _device(report),
        ),
        ("nodes, edges", f"{report.nodes:,}", f"{report.edges:,} edges"),
        ("cast sites", f"{report.cast_sites:,}", f"{report.constant_cast_sites:,} of constants"),
        ("arithmetic sites", f"{report.arithmetic_sites:,}", ""),
        (
            "CPU seconds",
            f"{report.parse_cpu_s + report.walk_cpu_s:,.0f}",
            f"{report.parse_cpu_s:,.0f} parsing, {report.walk_cpu_s:,.0f} walking; "
            f"a worker's peak memory {report.peak_rss_mib:,.0f} MiB",
        ),
    ]
    width = max(len(value) for _, value, _ in lines)
    for name, value, note in lines:
        stream.write(f"  {name:<24}{value:>{width}}  {note}".rstrip() + "\n")
    _counted("headers not found, and the units that include them", report.missing_headers, stream)
    _counted("reasons for skipping", report.reasons, stream)


def _device(report: Coverage) -> str:
    """What is wrong with device code; where no function is device code, nothing can be."""
    if not report.device_functions and not report.units_with_device_error:
        return "no device code was seen"
    return (
        f"{report.device_functions_with_error:,} with an error inside; "
        f"{_share(report.units - report.units_with_device_error, report.units)} of the units have none"
    )


def _share(part: int, total: int) -> str:
    """A percentage that says 100 % only when it is all."""
    if not total or part == total:
        return "100 %" if total else "none"
    return f"{min(99.99, 100 * part / total):.2f} %"


def _counted(title: str, counts: object, stream: IO[str]) -> None:
    assert isinstance(counts, dict)
    if not counts:
        return
    stream.write(f"  {title}:\n")
    for name, count in list(counts.items())[:_LISTED]:
        stream.write(f"    {count:>6,}  {name}\n")
    if len(counts) > _LISTED:
        stream.write(f"    and {len(counts) - _LISTED} more\n")
