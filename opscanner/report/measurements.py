"""Measurements as rows: the worst of an operator in a line, or a line a strategy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from opscanner.measurements import Measurement, Status, Verdict
from opscanner.precision.formats import FORMATS

COLUMNS = (
    "operator", "framework", "format", "worst inputs", "max ULP", "mean", "50/90/99/99.9 %", "> 1 ULP", "of",
    "upcast", "max abs", "max rel", "nan/inf/sign/flush", "fed", "at", "expected", "got", "verdict",
)  # fmt: skip

#: Columns of the CSV, which ``Measurement.from_texts`` reads again; the last one follows from the expression.
FIELDS = (*(one.name for one in fields(Measurement)), "composite")

_ORDER = list(Verdict)


def worst_rows(measured: Iterable[Measurement]) -> list[Measurement]:
    """The worst measurement of each operator, framework, format and device, in order of first appearance.

    Counts stay those of that one measurement. What did not run stands only where nothing ran.
    """
    found: dict[tuple[str, ...], Measurement] = {}
    for one in measured:
        key = (one.operator, one.framework, one.version, one.format, one.device)
        if key not in found or badness(one) < badness(found[key]):
            found[key] = one
    return list(found.values())


def badness(one: Measurement) -> tuple[int, float]:
    """Sorts the worst first: by verdict, then by the largest error."""
    ended = one.status not in (Status.RAN, Status.UNSUPPORTED)
    return (-1 if ended else _ORDER.index(one.verdict), -one.max_ulp)


def rows(measured: Iterable[Measurement]) -> Iterable[Sequence[Any]]:
    """Cells of :data:`COLUMNS`."""
    for one in measured:
        if one.status is not Status.RAN:
            yield (one.operator, one.framework, one.format, one.strategy, *[""] * 13, one.status.value)
            continue
        if one.verdict is Verdict.EMPTY:
            yield (one.operator, one.framework, one.format, one.strategy, *[""] * 13, one.verdict.value)
            continue
        strategy = one.strategy if one.layout == "contiguous" else f"{one.strategy}, {one.layout}"
        yield (
            one.operator,
            one.framework,
            one.format,
            strategy,
            rounded(one.max_ulp),
            rounded(one.mean_ulp),
            "/".join(f"{value:.3g}" for value in one.quantiles_ulp),
            one.over_1_ulp,
            one.count,
            "" if one.upcast_max_ulp is None else rounded(one.upcast_max_ulp),
            rounded(one.max_absolute_error),
            rounded(one.max_relative_error),
            "/".join(
                map(str, (one.nan_mismatches, one.infinity_mismatches, one.sign_mismatches, one.flushed_subnormals))
            ),
            "/".join(f"{share:.0%}" for share in one.coverage.values()),
            _place(one),
            _told_apart(one.worst_expected, one.format),
            _told_apart(one.worst_got, one.format),
            f"{one.verdict.value}, composite" if one.composite else one.verdict.value,
        )


def texts(measured: Iterable[Measurement]) -> Iterable[Sequence[str]]:
    """Cells of :data:`FIELDS`."""
    return ((*one.as_texts().values(), str(one.composite)) for one in measured)


def rounded(value: float) -> float:
    """Three digits: an error has no more to say."""
    return float(f"{value:.3g}")


def _place(one: Measurement) -> str:
    if one.worst_inputs:
        return ", ".join(f"{name}={_told_apart(value, one.format)}" for name, value in one.worst_inputs.items())
    return f"[{one.worst_index}]" if one.worst_index >= 0 else ""


def _told_apart(value: float, format_: str) -> str:
    """A value with so many digits that no other one of its format reads the same: 6 do in 16 bit, float32 needs 9."""
    digits = math.ceil(1 + FORMATS[format_].precision * math.log10(2)) if format_ in FORMATS else 17
    return f"{value:.{max(6, digits)}g}"
