"""How far two results that a law joins may lie apart, and what is said where they lie further.

Nothing here is picked by hand. A careful implementation computes in float32 and errs there by at most the budget of
its class (``data/ulp_budgets.csv``), E ULP of float32, then rounds once to a format of p bits. Two such results of one
value are E * 2**(p - 24) + 1/2 ULP of the format from it at the most, each. So they are at most
``floor(1 + 2 E 2**(p - 24))`` representable values apart, which is 1 for all classes but the loose ones. They differ at
all only where a rounding boundary lies between the two float32 results, 2 E of 2**(24 - p) places: that is the share
of elements that may differ (float16 0.1 %, bfloat16 0.01 % of an elementary function's), and three standard deviations
of a count of that mean. Single operations, moves and choices (class ``exact``), and sums of which float32 holds every
part, have one result.

In float32 and float64, whose next wider format nobody needs to compute in, each result may err by its class's budget.

What breaks this is looked at once more in the next wider format, rounded once to the format. What is broken there as
well is not the format's doing: ``BEYOND_BUDGET`` for elementwise operators (another formula), ``INHERENT`` for others
(the input's condition). Anything else is ``BEYOND_UPCAST``, or ``CLASS_MISMATCH`` where NaN or infinity stands against
a number. Differences of a sum that are within the bound in ULP of the largest of its row are ``NEAR_ZERO``, those that
flushing float32's subnormals explains ``FLUSHED``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opscanner.dynamic.budgets import Budget
from opscanner.measurements import Verdict
from opscanner.precision.formats import FORMATS
from opscanner.precision.layout import layout_of
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_distance, ulp_of

_FLOAT32_PRECISION = 24
_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Tolerance:
    """How far apart results may lie: ``ulp`` representable values, in at most ``share`` of the elements.

    ``spread_ulp`` is how far apart they may lie before they are rounded.
    """

    ulp: float
    share: float
    spread_ulp: float = 0.0

    def allowed(self, count: int) -> int:
        """Of so many elements how many may differ."""
        mean = self.share * count
        return count if self.share >= 1 else (max(1, math.floor(mean + 3 * math.sqrt(mean))) if mean else 0)


@dataclass(frozen=True)
class Comparison:
    """Two results of one output, side by side, flat.

    Parameters
    ----------
    distance : numpy.ndarray
        In representable values, or in ULP of the largest value of the expectation where that is made of rounded
        results; NaN where one side is NaN, or infinite beyond the tolerance.
    broken : numpy.ndarray
        True where the law is broken.
    """

    got: np.ndarray
    expected: np.ndarray
    distance: np.ndarray
    broken: np.ndarray
    near_zero: np.ndarray
    flushed: np.ndarray
    zero_signs: int

    @property
    def severe(self) -> np.ndarray:
        """Where NaN or infinity stands against a number."""
        kinds = (np.isnan(self.got) != np.isnan(self.expected)) | (np.isinf(self.got) != np.isinf(self.expected))
        result: np.ndarray = self.broken & kinds
        return result


def tolerance_for(budget: Budget, float32: Budget, format_: str, *, exact: bool, elementwise: bool) -> Tolerance:
    """What two careful implementations may differ by; ``float32`` is the budget of the same class in float32."""
    if exact or float32.operator_class == "exact":
        return Tolerance(0.0, 0.0)
    precision = FORMATS[format_].precision
    if precision >= _FLOAT32_PRECISION:
        return Tolerance(2 * budget.ulp, 1.0, 2 * budget.ulp)
    spread = 2 * float32.ulp * 2.0 ** (precision - _FLOAT32_PRECISION)
    return Tolerance(math.floor(1 + spread), min(1.0, spread) if elementwise else 1.0, spread)


def compare(
    got: np.ndarray,
    expected: np.ndarray,
    format_: str,
    tolerance: Tolerance,
    *,
    slack_ulp: float = 0.0,
    scale: np.ndarray | None = None,
    by_row: bool = False,
    terms: float = 1.0,
    flushable: np.ndarray | None = None,
) -> Comparison:
    """Compares two results of one shape; where the expectation is no value of the format there is nothing to compare.

    Parameters
    ----------
    slack_ulp, scale : float, numpy.ndarray
        See :class:`~opscanner.dynamic.laws.law.Claim`; the scale is the largest value that went into the expectation.
    by_row : bool
        Sums: what is within the tolerance in ULP of the largest value of the row (the last axis) is near zero only.
    terms : float
        Input elements for each output element: so many flushed subnormals may be missing.
    flushable : numpy.ndarray, optional
        Flat; True where an input is subnormal: taken for zero it explains whatever comes.
    """
    largest = np.maximum(np.abs(got), np.abs(expected)) if scale is None else np.maximum(scale, np.abs(expected))
    row = _of_rows(largest) if by_row else largest
    got, expected, row = got.ravel(), expected.ravel(), row.ravel()
    with np.errstate(all="ignore"):
        if slack_ulp:
            distance = np.abs(got - expected) / ulp_of(np.maximum(np.abs(got), largest.ravel()), format_)
            distance[np.isnan(got) & np.isnan(expected) | (got == expected)] = 0.0
            bound, allowed = slack_ulp + tolerance.spread_ulp, got.size
        else:
            steps = ulp_distance(got, expected, format_)
            distance = np.where(steps == _FAR, np.nan, steps.astype(float))
            bound, allowed = tolerance.ulp, tolerance.allowed(got.size)
        scaled = np.abs(got - expected) / ulp_of(row, format_)
    beyond = ~(distance <= bound)
    differing = ~(distance == 0)
    explained = _flushing_explains(got, expected, format_, terms)
    flushed = differing & (explained if flushable is None else explained | flushable)
    near_zero = beyond & ~flushed & (scaled <= bound) & (by_row and bound > 0)
    broken = beyond & ~near_zero & ~flushed
    if not broken.any() and (differing & ~flushed).sum() > allowed:
        broken = differing & ~flushed
    zeros = (got == 0) & (expected == 0) & (np.signbit(got) != np.signbit(expected))
    return Comparison(got, expected, distance, broken, near_zero, flushed, int(zeros.sum()))


def verdict_of(comparison: Comparison, wider: Comparison | None, *, elementwise: bool) -> tuple[Verdict, np.ndarray]:
    """What is said, and the flat places that speak for it; ``wider`` is the same in the next wider format."""
    broken = comparison.broken
    if broken.any():
        own = broken & ~wider.broken if wider is not None and wider.broken.shape == broken.shape else broken
        severe = own & comparison.severe
        if severe.any():
            return Verdict.CLASS_MISMATCH, np.flatnonzero(severe)
        if own.any():
            return Verdict.BEYOND_UPCAST, np.flatnonzero(own)
        return (Verdict.BEYOND_BUDGET if elementwise else Verdict.INHERENT), np.flatnonzero(broken)
    if comparison.near_zero.any():
        return Verdict.NEAR_ZERO, np.flatnonzero(comparison.near_zero)
    if comparison.flushed.any():
        return Verdict.FLUSHED, np.flatnonzero(comparison.flushed)
    differing = np.flatnonzero(~(comparison.distance == 0))
    return (Verdict.WITHIN_BUDGET if differing.size else Verdict.CORRECT), differing


def holdable(expected: np.ndarray, first: np.ndarray, format_: str) -> np.ndarray:
    """Where an expectation that was computed from a result is exact: a value of the format, both free of subnormals."""
    smallest = layout_of(format_).smallest_normal
    with np.errstate(all="ignore"):
        kept = round_to_format(expected, format_) == expected
        for value in (expected, first):
            kept = kept & ((np.abs(value) >= smallest) | (value == 0)) & np.isfinite(value)
    result: np.ndarray = kept | np.isnan(expected) & np.isnan(first)
    return result


def _of_rows(magnitude: np.ndarray) -> np.ndarray:
    """The largest finite magnitude of the row, for each element."""
    if not magnitude.ndim or not magnitude.size:
        return magnitude
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    rows: np.ndarray = np.empty(magnitude.shape)
    rows[...] = finite.max(axis=-1, keepdims=True)
    return rows


def _flushing_explains(got: np.ndarray, expected: np.ndarray, format_: str, terms: float) -> np.ndarray:
    """Processors flush float32's subnormals alone: only formats of its exponent range are concerned."""
    smallest = FORMATS["float32"].emin
    if FORMATS[format_].emin != smallest:
        none: np.ndarray = np.zeros(got.shape, bool)
        return none
    with np.errstate(invalid="ignore"):
        result: np.ndarray = np.abs(got - expected) <= max(terms, 1.0) * float(np.ldexp(1.0, smallest))
    return result
