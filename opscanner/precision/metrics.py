"""What the errors of many results come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscanner.errors import UsageError
from opscanner.precision.layout import CHUNK, chunks, layout_of
from opscanner.precision.rounding import round_to_format, split_number
from opscanner.precision.ulp import Mismatch, mismatch_classes, ulp_error, ulp_of

NAN = float("nan")
QUANTILES = (0.5, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class ErrorSummary:
    """The errors of results against their references, in ULP of the format under test.

    A *class mismatch* is an element whose error is no number: NaN on one side, or opposite infinities. It is in no
    maximum and no mean, it is above every quantile, and it is the worst element. Where there was nothing to compare,
    maxima and means are NaN: ``error <= limit`` is false then, as it is for every NaN.

    Parameters
    ----------
    count : int
        Elements compared; those undecided are not among them.
    max_ulp, mean_ulp : float
        Over the elements whose error is a number.
    quantiles_ulp : dict of float to float
        For each share, the smallest error that this share of the elements does not exceed; infinity for mismatches.
    over_1_ulp : int
        Elements whose error is not at most 1 ULP, class mismatches among them.
    max_absolute_error, max_relative_error : float
        Over pairs of finite numbers; the relative one without references that are 0.
    max_scaled_ulp : float
        In ULP of the largest finite reference of the element's row (along the last axis): what remains of errors at
        results next to zero.
    nan_mismatches, infinity_mismatches, sign_mismatches, flushed_subnormals, zero_sign_mismatches : int
        Elements by :class:`~opscanner.precision.ulp.Mismatch`.
    class_mismatches : int
        Elements whose error is NaN; most are also counted by kind.
    undecided : int
        Elements left out because their reference is not known well enough.
    worst_index : int
        Flat index of the first class mismatch, or else of the first largest error; -1 when nothing was compared.
    worst_expected, worst_got : float
        There: the reference rounded to the format, and the result; NaN when nothing was compared.
    """

    count: int
    max_ulp: float
    mean_ulp: float
    quantiles_ulp: dict[float, float]
    over_1_ulp: int
    max_absolute_error: float
    max_relative_error: float
    max_scaled_ulp: float
    nan_mismatches: int
    infinity_mismatches: int
    sign_mismatches: int
    flushed_subnormals: int
    undecided: int
    worst_index: int
    worst_expected: float
    worst_got: float
    zero_sign_mismatches: int
    class_mismatches: int

    def within(self, limit_ulp: float) -> bool:
        """True when every element compared is of the right class and at most that far off; False when none was."""
        return self.class_mismatches == 0 and self.max_ulp <= limit_ulp


def summarize_errors(got: Any, reference: Any, format_: str, low: Any = None, undecided: Any = None) -> ErrorSummary:
    """The errors of results against references, summarized.

    Parameters
    ----------
    got, reference, format_, low
        As for :func:`~opscanner.precision.ulp.ulp_error`; rows lie along the last axis.
    undecided : array_like of bool, optional
        True for the elements to leave out.

    >>> summary = summarize_errors([1.0, 2.0, float("nan")], [1.0, 2.001953125, 3.0], "float16")
    >>> summary.max_ulp, summary.nan_mismatches, summary.worst_index, summary.within(1)
    (1.0, 1, 2, False)
    """
    results, high, rest, kept = _as_rows(got, reference, low, undecided)
    errors: np.ndarray = np.empty(high.shape)
    tally = _Tally(format_)
    block_rows = max(1, CHUNK // high.shape[1])
    with np.errstate(all="ignore"):
        for start in range(0, high.shape[0], block_rows):
            rows = slice(start, start + block_rows)
            unit = _row_units(high[rows], None if kept is None else kept[rows], format_)
            for columns in chunks(high.shape[1]):
                block = rows, columns
                block_rest = None if rest is None else rest[block]
                block_kept = None if kept is None else kept[block]
                errors[block] = ulp_error(results[block], high[block], format_, block_rest)
                tally.add(results[block], high[block], block_rest, block_kept, errors[block], unit)
    compared = errors.reshape(-1) if kept is None else errors[kept]
    numbers = compared if tally.class_mismatches == 0 else compared[~np.isnan(compared)]
    worst = _worst(errors.reshape(-1), None if kept is None else kept.reshape(-1))
    at = slice(worst, worst + 1) if worst >= 0 else slice(0, 0)
    expected = round_to_format(high.reshape(-1)[at], format_, None if rest is None else rest.reshape(-1)[at])
    return ErrorSummary(
        count=compared.size,
        max_ulp=float(numbers.max()) if numbers.size else NAN,
        mean_ulp=_mean(numbers),
        quantiles_ulp=_quantiles(compared),
        over_1_ulp=compared.size - int(np.count_nonzero(compared <= 1.0)),
        max_absolute_error=tally.max_absolute,
        max_relative_error=tally.max_relative,
        max_scaled_ulp=tally.max_scaled,
        nan_mismatches=tally.kinds[Mismatch.NAN],
        infinity_mismatches=tally.kinds[Mismatch.INFINITY],
        sign_mismatches=tally.kinds[Mismatch.SIGN],
        flushed_subnormals=tally.kinds[Mismatch.FLUSHED],
        undecided=high.size - compared.size,
        worst_index=worst,
        worst_expected=float(expected[0]) if worst >= 0 else NAN,
        worst_got=float(results.reshape(-1)[worst]) if worst >= 0 else NAN,
        zero_sign_mismatches=tally.kinds[Mismatch.ZERO_SIGN],
        class_mismatches=tally.class_mismatches,
    )


def _as_rows(
    got: Any, reference: Any, low: Any, undecided: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Results, references, their low part and what is kept, as rows of one shape; None for no low part, and for all."""
    high, rest = split_number(reference, low)
    results, _ = split_number(got)
    try:
        results, high = np.broadcast_arrays(results, high)
        columns = high.shape[-1] if high.ndim and high.size else 1
        shape = (high.size // columns, columns)
        rest = None if rest is None else np.broadcast_to(rest, high.shape).reshape(shape)
        kept = None
        if undecided is not None and np.any(undecided):
            kept = ~np.broadcast_to(np.asarray(undecided, dtype=bool), high.shape).reshape(shape)
        elif undecided is not None:
            np.broadcast_to(undecided, high.shape)
    except ValueError as error:
        raise UsageError(f"results, references and what is undecided differ in shape: {error}") from None
    return results.reshape(shape), high.reshape(shape), rest, kept


def _row_units(high: np.ndarray, kept: np.ndarray | None, format_: str) -> np.ndarray:
    """The ULP of each row's largest finite reference, as a column."""
    largest = np.maximum(high.max(axis=-1, keepdims=True), -high.min(axis=-1, keepdims=True))
    if kept is not None or not np.isfinite(largest).all():
        counted = np.isfinite(high) if kept is None else np.isfinite(high) & kept
        largest = np.where(counted, np.abs(high), 0.0).max(axis=-1, keepdims=True)
    return ulp_of(largest, format_)


class _Tally:
    """What is counted and compared a block of rows at a time, while the block is in cache."""

    def __init__(self, format_: str) -> None:
        self.layout = layout_of(format_)
        self.max_absolute = self.max_relative = self.max_scaled = NAN
        self.class_mismatches = 0
        self.kinds = dict.fromkeys(Mismatch, 0)

    def add(
        self,
        got: np.ndarray,
        high: np.ndarray,
        rest: np.ndarray | None,
        kept: np.ndarray | None,
        errors: np.ndarray,
        unit: np.ndarray,
    ) -> None:
        """Add one block, with its errors in ULP and the unit of each of its rows."""
        absolute: np.ndarray = got - high
        if rest is not None:
            absolute -= rest
        np.abs(absolute, out=absolute)
        magnitude: np.ndarray = np.abs(high)
        # Same sign, no zero, no NaN, nothing near infinity: these can differ in no kind.
        candidates = ~((got * high > 0) & (magnitude <= self.layout.largest) & (absolute < np.inf))
        if kept is not None:
            candidates &= kept
            absolute[~kept] = NAN
            magnitude[~kept] = 0.0
        if candidates.any():
            absolute[candidates & ~(np.isfinite(got) & np.isfinite(high))] = NAN
            self._add_kinds(got, high, rest, errors, candidates)
        self.max_absolute = float(np.fmax(self.max_absolute, np.fmax.reduce(absolute, axis=None)))
        plain = absolute
        if candidates.any():
            # Beyond the largest the error is what ulp_error says, in the row's unit.
            at = candidates & (np.isnan(absolute) | (magnitude > self.layout.largest)) & ~np.isnan(errors)
            plain = np.where(at, NAN, absolute)
            low = None if rest is None else rest[at]
            scaled = errors[at] * (ulp_of(high[at], self.layout.name, low) / np.broadcast_to(unit, at.shape)[at])
            self.max_scaled = float(np.fmax(self.max_scaled, np.fmax.reduce(scaled, initial=NAN)))
        of_row = np.fmax.reduce(plain, axis=-1, keepdims=True)
        self.max_scaled = float(np.fmax(self.max_scaled, np.fmax.reduce(of_row / unit, axis=None)))
        np.divide(absolute, magnitude, out=absolute)
        absolute[magnitude == 0] = NAN
        self.max_relative = float(np.fmax(self.max_relative, np.fmax.reduce(absolute, axis=None)))

    def _add_kinds(
        self, got: np.ndarray, high: np.ndarray, rest: np.ndarray | None, errors: np.ndarray, at: np.ndarray
    ) -> None:
        self.class_mismatches += int(np.count_nonzero(np.isnan(errors[at])))
        flags = mismatch_classes(got[at], high[at], self.layout.name, None if rest is None else rest[at])
        for kind in self.kinds:
            self.kinds[kind] += int(np.count_nonzero(flags & np.uint8(kind)))


def _worst(errors: np.ndarray, kept: np.ndarray | None) -> int:
    """Flat index of the worst element that is not left out, the first of equals; -1 for none."""
    if kept is not None:
        errors = np.where(kept, errors, -1.0)
        if not kept.any():
            return -1
    # argmax takes the first NaN for the largest.
    return int(np.argmax(errors)) if errors.size else -1


def _mean(numbers: np.ndarray) -> float:
    with np.errstate(under="ignore", over="ignore"):
        mean = float(np.mean(numbers)) if numbers.size else NAN
        # The largest counts of float64 sum to infinity: divide first.
        return float(np.sum(numbers / numbers.size)) if mean == np.inf else mean


def _quantiles(errors: np.ndarray) -> dict[float, float]:
    """By counting: the smallest error that at least the share reaches down from (numpy's ``inverted_cdf``)."""
    if not errors.size:
        return dict.fromkeys(QUANTILES, NAN)
    ranks = [max(int(np.ceil(share * errors.size)) - 1, 0) for share in QUANTILES]
    ordered = np.partition(np.where(np.isnan(errors), np.inf, errors), ranks)
    return {share: float(ordered[rank]) for share, rank in zip(QUANTILES, ranks, strict=True)}
