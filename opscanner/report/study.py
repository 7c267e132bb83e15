"""The study's experiment as rows: one a framework's operator and format, with what the study published beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from opscanner.report.measurements import rounded

if TYPE_CHECKING:
    from opscanner.dynamic.study import StudyRow
    from opscanner.dynamic.study_strategies import StrategyRow

#: For people. The absolute error is the median over the seeds, with its range; ULP and relative errors are the largest,
#: the mean error the median, of what a seed gives.
COLUMNS = (
    "operator", "framework", "format", "max abs", "over seeds", "published", "to wider", "over seeds", "published",
    "max ULP", "row's ULP", "mean ULP", "max rel", "> 1 ULP", "of", "nan/inf", "note",
)  # fmt: skip

STRATEGY_COLUMNS = (
    "operator", "framework", "format", "strategy", "tensors", "max ULP", "row's ULP", "max abs", "nan/inf", "> 1 ULP",
    "at", "expected", "got",
)  # fmt: skip

_SPREADS = (
    "max_absolute_error", "wider_difference", "max_relative_error", "max_ulp", "mean_ulp", "max_scaled_ulp",
)  # fmt: skip
_COUNTS = ("count", "over_1_ulp", "class_mismatches", "undecided")

#: For files: every figure's range over the seeds.
CSV_COLUMNS = (
    "operator", "direction", "framework", "versions", "device", "format", "setting", "tensors", "seeds",
    *(f"{figure}_{which}" for figure in _SPREADS for which in ("low", "median", "high")),
    *_COUNTS,
    "published_difference", "published_absolute_error", "published_relative_error", "difference_reappears",
    "absolute_error_reappears", "relative_error_reappears", "alone", "differ_alone", "alone_max_absolute_error", "note",
)  # fmt: skip

_STRATEGY_SPREADS = ("max_ulp", "max_scaled_ulp", "max_absolute_error")

STRATEGY_CSV_COLUMNS = (
    "operator", "direction", "framework", "versions", "device", "format", "strategy", "budget", "seeds", "tensors",
    *(f"{figure}_{which}" for figure in _STRATEGY_SPREADS for which in ("low", "median", "high")),
    *_COUNTS, "worst_inputs", "worst_expected", "worst_got",
)  # fmt: skip

#: The issue gives five decimals, the study's files all digits.
_DECIMALS, _DIGITS = 0.5e-5, 1e-6


def reappears(published: float | None, values: Sequence[float], absolute: float, relative: float) -> str:
    """Whether a published figure is among the values: ``in 3 of 10``; else ``within``, ``above`` or ``below`` them.

    >>> reappears(0.25, [0.25, 0.3], 1e-5, 0), reappears(0.27, [0.25, 0.3], 1e-5, 0), reappears(None, [1.0], 0, 0)
    ('in 1 of 2', 'within', '')
    """
    if published is None:
        return ""
    same = sum(math.isclose(value, published, rel_tol=relative, abs_tol=absolute) for value in values)
    if same:
        return f"in {same} of {len(values)}"
    if published < min(values):
        return "below"
    return "above" if published > max(values) else "within"


def difference_reappears(row: StudyRow) -> str:
    """Of the issue's figure."""
    values = [one.wider_difference for one in row.measurements]
    return reappears(row.published.difference, values, 1.01 * _DECIMALS, 0.0)


def absolute_error_reappears(row: StudyRow) -> str:
    """Of the figure in the study's files."""
    values = [one.max_absolute_error for one in row.measurements]
    return reappears(row.published.absolute_error, values, 0.0, _DIGITS)


def relative_error_reappears(row: StudyRow) -> str:
    """Of the figure in the study's files."""
    values = [one.max_relative_error for one in row.measurements]
    return reappears(row.published.relative_error, values, 0.0, _DIGITS)


def notes(found: Iterable[StudyRow]) -> dict[str, int]:
    """The notes of all rows, numbered from 1 in order of first appearance."""
    return {note: number for number, note in enumerate(dict.fromkeys(row.note for row in found if row.note), 1)}


def rows(found: Sequence[StudyRow]) -> Iterator[Sequence[Any]]:
    """Cells of :data:`COLUMNS`."""
    numbers = notes(found)
    for row in found:
        absolute, wider = row.spread("max_absolute_error"), row.spread("wider_difference")
        yield (
            row.operator,
            row.framework,
            row.format,
            absolute.median,
            f"{absolute.low:.4g}..{absolute.high:.4g}",
            row.published.absolute_error,
            wider.median,
            f"{wider.low:.4g}..{wider.high:.4g}",
            row.published.difference,
            rounded(row.spread("max_ulp").high),
            rounded(row.spread("max_scaled_ulp").high),
            rounded(row.spread("mean_ulp").median),
            rounded(row.spread("max_relative_error").high),
            row.total("over_1_ulp"),
            row.total("count"),
            row.total("class_mismatches"),
            f"[{numbers[row.note]}]" if row.note else "",
        )


def remarks(found: Sequence[StudyRow]) -> Iterator[str]:
    """Lines below the table: its notes, which published figures appear again, and what the batch changes."""
    for note, number in notes(found).items():
        yield f"[{number}] {note}"
    for words, answer in (
        ("largest differences of the issue", difference_reappears),
        ("largest errors of the study's files", absolute_error_reappears),
        ("largest relative errors of the study's files", relative_error_reappears),
    ):
        answers = [(row, answer(row)) for row in found if answer(row)]
        if answers:
            again = sum(text.startswith("in ") for _, text in answers)
            within = sum(text == "within" for _, text in answers)
            outside = [f"{row.operator} of {row.framework}" for row, text in answers if text in ("above", "below")]
            yield (
                f"{words}: {again} of {len(answers)} appear again to the digit, {within} lie within the seeds' range"
                + (f"; outside of it: {', '.join(outside)}" if outside else "")
            )
    for row in found:
        if row.differ_alone:
            yield (
                f"{row.operator} of {row.framework} in {row.format}: {row.differ_alone} elements of {row.alone} "
                "tensors come out otherwise when each tensor is a call of its own (largest error "
                f"{row.alone_max_absolute_error:.6g})"
            )


def csv_rows(found: Iterable[StudyRow]) -> Iterator[Sequence[Any]]:
    """Cells of :data:`CSV_COLUMNS`."""
    for row in found:
        yield (
            row.operator,
            row.direction,
            row.framework,
            _versions(row),
            row.device,
            row.format,
            row.setting,
            row.tensors,
            len(row.measurements),
            *(value for figure in _SPREADS for value in vars(row.spread(figure)).values()),
            *(row.total(count) for count in _COUNTS),
            row.published.difference,
            row.published.absolute_error,
            row.published.relative_error,
            difference_reappears(row),
            absolute_error_reappears(row),
            relative_error_reappears(row),
            row.alone,
            row.differ_alone,
            row.alone_max_absolute_error,
            row.note,
        )


def strategy_rows(found: Iterable[StrategyRow]) -> Iterator[Sequence[Any]]:
    """Cells of :data:`STRATEGY_COLUMNS`: the largest errors over the seeds, and where the largest is."""
    for row in found:
        worst = _worst(row)
        yield (
            row.operator,
            row.framework,
            row.format,
            row.strategy,
            row.total("tensors"),
            rounded(row.spread("max_ulp").high),
            rounded(row.spread("max_scaled_ulp").high),
            rounded(row.spread("max_absolute_error").high),
            row.total("class_mismatches"),
            row.total("over_1_ulp"),
            _place(worst.worst_inputs),
            worst.worst_expected,
            worst.worst_got,
        )


def strategy_csv_rows(found: Iterable[StrategyRow]) -> Iterator[Sequence[Any]]:
    """Cells of :data:`STRATEGY_CSV_COLUMNS`."""
    for row in found:
        worst = _worst(row)
        yield (
            row.operator,
            row.direction,
            row.framework,
            _versions(row),
            row.device,
            row.format,
            row.strategy,
            row.budget,
            len(row.measurements),
            row.total("tensors"),
            *(value for figure in _STRATEGY_SPREADS for value in vars(row.spread(figure)).values()),
            *(row.total(count) for count in _COUNTS),
            _place(worst.worst_inputs),
            worst.worst_expected,
            worst.worst_got,
        )


def _worst(row: StrategyRow) -> Any:
    """The seed with a class mismatch in view, else with the largest error."""
    return max(
        row.measurements,
        key=lambda one: (one.class_mismatches > 0, -math.inf if one.max_ulp != one.max_ulp else one.max_ulp),
    )


def _versions(row: StudyRow | StrategyRow) -> str:
    return " ".join(f"{name} {version}" for name, version in row.versions.items())


def _place(inputs: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        return f"[{', '.join(map(text, value))}]" if isinstance(value, list) else f"{value:.6g}"

    return ", ".join(f"{name}={text(value)}" for name, value in inputs.items())
