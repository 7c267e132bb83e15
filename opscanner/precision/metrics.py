"""What the errors of many results come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscanner.errors import UsageError
from opscanner.precision.rounding import round_to_format, split_number
from opscanner.precision.ulp import Mismatch, mismatch_classes, ulp_error, ulp_of

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
    high, rest = split_number(reference, low)
    results, _ = split_number(got)
    try:
        results, high = np.broadcast_arrays(results, high)
        rest = None if rest is None else np.broadcast_to(rest, high.shape)
        skipped = np.zeros(high.shape, dtype=bool)
        skipped |= False if undecided is None else np.asarray(undecided, dtype=bool)
    except ValueError as error:
        raise UsageError(f"results, references and what is undecided differ in shape: {error}") from None
    errors = ulp_error(results, high, format_, rest)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        scaled = _scaled_errors(errors, high, rest, skipped, format_)
        absolute, relative = _plain_errors(results, high, rest)
    kept = ~skipped
    flags = mismatch_classes(results, high, format_, rest)[kept]
    compared = errors[kept]
    worst = _worst(errors.reshape(-1), skipped.reshape(-1))
    at = slice(worst, worst + 1)
    expected = round_to_format(high.reshape(-1)[at], format_, None if rest is None else rest.reshape(-1)[at])
    return ErrorSummary(
        count=compared.size,
        max_ulp=_largest(compared),
        mean_ulp=_mean(compared),
        quantiles_ulp=_quantiles(compared),
        over_1_ulp=int(np.count_nonzero(~(compared <= 1.0))),
        max_absolute_error=_largest(absolute[kept]),
        max_relative_error=_largest(relative[kept]),
        max_scaled_ulp=_largest(scaled[kept]),
        nan_mismatches=_count(flags, Mismatch.NAN),
        infinity_mismatches=_count(flags, Mismatch.INFINITY),
        sign_mismatches=_count(flags, Mismatch.SIGN),
        flushed_subnormals=_count(flags, Mismatch.FLUSHED),
        undecided=int(np.count_nonzero(skipped)),
        worst_index=worst,
        worst_expected=float(expected[0]) if worst >= 0 else float("nan"),
        worst_got=float(results.reshape(-1)[worst]) if worst >= 0 else float("nan"),
        zero_sign_mismatches=_count(flags, Mismatch.ZERO_SIGN),
        class_mismatches=int(np.count_nonzero(np.isnan(compared))),
    )


def _scaled_errors(
    errors: np.ndarray, high: np.ndarray, rest: np.ndarray | None, skipped: np.ndarray, format_: str
) -> np.ndarray:
    """The errors in ULP of each row's largest finite reference."""
    if not high.size:
        return errors
    magnitude = np.where(np.isfinite(high) & ~skipped, np.abs(high), 0.0)
    scale = magnitude.max(axis=-1, keepdims=True) if magnitude.ndim else magnitude
    answer: np.ndarray = np.asarray(errors * (ulp_of(high, format_, rest) / ulp_of(scale, format_)))
    return answer


def _plain_errors(got: np.ndarray, high: np.ndarray, rest: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Absolute and relative errors, NaN where one of the two is no finite number or the relative one has no meaning."""
    absolute = np.abs(got - high if rest is None else (got - high) - rest)
    absolute = np.where(np.isfinite(got) & np.isfinite(high), absolute, np.nan)
    return absolute, np.where(high == 0, np.nan, absolute / np.abs(high))


def _worst(errors: np.ndarray, skipped: np.ndarray) -> int:
    """Flat index of the worst element that is not left out, the first of equals; -1 for none."""
    ranks = np.where(skipped, -1.0, np.where(np.isnan(errors), np.inf, errors))
    worst = int(np.argmax(ranks)) if ranks.size else -1
    return worst if worst >= 0 and not skipped[worst] else -1


def _largest(values: np.ndarray) -> float:
    """The largest that is a number; NaN when none is."""
    numbers = values[~np.isnan(values)]
    return float(numbers.max()) if numbers.size else float("nan")


def _mean(values: np.ndarray) -> float:
    numbers = values[~np.isnan(values)]
    with np.errstate(under="ignore"):
        # Divided first: the largest counts of float64 would sum to infinity.
        return float(np.sum(numbers / numbers.size)) if numbers.size else float("nan")


def _quantiles(errors: np.ndarray) -> dict[float, float]:
    """By counting: the smallest error that at least the share reaches down from (numpy's ``inverted_cdf``)."""
    if not errors.size:
        return dict.fromkeys(QUANTILES, float("nan"))
    ranks = [max(int(np.ceil(share * errors.size)) - 1, 0) for share in QUANTILES]
    ordered = np.partition(np.where(np.isnan(errors), np.inf, errors), ranks)
    return {share: float(ordered[rank]) for share, rank in zip(QUANTILES, ranks, strict=True)}


def _count(flags: np.ndarray, kind: Mismatch) -> int:
    return int(np.count_nonzero(flags & np.uint8(kind)))
