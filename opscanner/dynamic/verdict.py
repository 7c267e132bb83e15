"""What is said of a result: judged against a reference and against the same call in the next wider format.

Nothing here is a tolerance picked by hand. A result may err as much as its class's budget (``data/ulp_budgets.csv``
says where each comes from). Beyond that, the call in the next wider format, rounded once, tells whose fault it is:
where that is within the budget, or at least twice as near, the operator lost what was to be had (``BEYOND_UPCAST``);
where it is as far off, an elementwise operator has a wrong formula (``BEYOND_BUDGET``), and any other one an
ill-conditioned input (``INHERENT``). So has a sum whose error is no larger than adding up its terms in float32 must be
allowed, whatever the wider format's luck was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opscanner.dynamic.budgets import Budget
from opscanner.measurements import Verdict
from opscanner.precision.formats import FORMATS
from opscanner.precision.metrics import ErrorSummary, summarize_errors
from opscanner.precision.ulp import Mismatch, mismatch_classes, ulp_error, ulp_of

if TYPE_CHECKING:
    from opscanner.dynamic.oracle.magnitudes import Terms
    from opscanner.dynamic.oracle.oracle import Reference

#: The next wider format that is computed in: what a careful kernel widens to.
WIDER = {
    "float8_e4m3fn": "float32", "float8_e5m2": "float32", "float16": "float32", "bfloat16": "float32",
    "float32": "float64",
}  # fmt: skip

#: What sums are added up in, in any narrower format too.
_ACCUMULATOR = FORMATS["float32"]

#: Roundings of a sum of n products beside its n: of two factors before and behind it.
_FACTORS = 2

#: An error of so many times ``sqrt(n) u sum |terms|`` has a probability below ``2 n exp(-32)`` (Higham, Mary, A new
#: approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019, theorem 3.1).
_UNLIKELY = 8.0

#: With fewer decided elements than this share of all, nothing is said.
_ENOUGH_DECIDED = 0.5


@dataclass(frozen=True)
class Judgement:
    """A verdict on one output, with the numbers that it stands on.

    Parameters
    ----------
    faulty : numpy.ndarray
        Flat positions of the elements that speak for the verdict, the worst first.
    excess : numpy.ndarray
        What a search climbs on, as :func:`excess_ulp` gives it.
    upcast_max_ulp : float or None
        None where the wider format did not run.
    """

    verdict: Verdict
    errors: ErrorSummary
    beyond_upcast: int
    upcast_max_ulp: float | None
    faulty: np.ndarray
    excess: np.ndarray


@dataclass(frozen=True)
class _Weighed:
    """Elements by what is to be said of them; flat arrays."""

    error: np.ndarray
    decided: np.ndarray
    severe: np.ndarray
    beyond: np.ndarray
    wrong_formula: np.ndarray
    flushed: np.ndarray
    lost: np.ndarray
    over: np.ndarray
    upcast_max_ulp: float | None

    def excess(self, budget: Budget) -> np.ndarray:
        found = np.where(self.beyond | (self.error <= budget.ulp), self.error, 0.0)
        found = np.where(self.severe, np.inf, found)
        result: np.ndarray = np.where(self.decided, found, np.nan)
        return result


def judge(
    got: np.ndarray,
    reference: Reference,
    upcast: np.ndarray | None,
    format_: str,
    budget: Budget,
    *,
    elementwise: bool,
    terms: float = 1.0,
    flushed_reference: Reference | None = None,
    sum_of: Callable[[], Terms | None] = lambda: None,
    scale: np.ndarray | None = None,
) -> Judgement:
    """The verdict on ``got``, values of ``format_``.

    Parameters
    ----------
    upcast : numpy.ndarray or None
        The result of the same call in the next wider format, already rounded once to ``format_``.
    elementwise : bool
        False for operators whose results have a row's scale: there an error that is within the budget in ULP of the
        row's largest result is only lost near zero.
    terms : float
        Input elements for each output element: so many flushed subnormals an output may lack.
    flushed_reference : Reference or None
        The exact result for inputs whose subnormals are taken as zero.
    sum_of : callable
        Gives the terms of the output, where it is a sum; called when there is an error to be explained.
    scale : numpy.ndarray or None
        The largest intermediate result of each element, where that is not the row's largest result: an error within
        the budget in its ULP is lost near zero.
    """
    errors = summarize_errors(got, reference.values, format_, low=reference.low, undecided=reference.undecided)
    weighed = _weigh(
        got,
        reference,
        upcast,
        format_,
        budget,
        elementwise=elementwise,
        terms=terms,
        flushed_reference=flushed_reference,
        sum_of=sum_of,
        scale=scale,
    )
    error = weighed.error
    groups = (
        (Verdict.CLASS_MISMATCH, weighed.severe),
        (Verdict.BEYOND_UPCAST, weighed.beyond),
        (Verdict.BEYOND_BUDGET, weighed.wrong_formula),
        (Verdict.FLUSHED, weighed.flushed),
        (Verdict.NEAR_ZERO, weighed.lost),
        (Verdict.INHERENT, weighed.over),
    )
    verdict, faulty = _worst(groups, weighed.decided, error)
    order = np.argsort(-np.where(np.isnan(error[faulty]), np.inf, error[faulty]), kind="stable")
    return Judgement(
        verdict, errors, int(weighed.beyond.sum()), weighed.upcast_max_ulp, faulty[order], weighed.excess(budget)
    )


def excess_ulp(
    got: np.ndarray,
    reference: Reference,
    upcast: np.ndarray | None,
    format_: str,
    budget: Budget,
    *,
    elementwise: bool,
    terms: float = 1.0,
    flushed_reference: Reference | None = None,
    sum_of: Callable[[], Terms | None] = lambda: None,
    scale: np.ndarray | None = None,
) -> np.ndarray:
    """What a search for faults makes large, for each element of ``got`` (flat); parameters as :func:`judge`'s.

    The error in ULP where it is within the budget, or the next wider format has it right; 0 where it is excused
    (flushed, lost near zero) or shared by the wider format (a search would find nothing but terms that cancel);
    infinity for a NaN or infinity that nothing excuses; NaN where the reference is undecided.
    """
    weighed = _weigh(
        got,
        reference,
        upcast,
        format_,
        budget,
        elementwise=elementwise,
        terms=terms,
        flushed_reference=flushed_reference,
        sum_of=sum_of,
        scale=scale,
    )
    return weighed.excess(budget)


def _weigh(
    got: np.ndarray,
    reference: Reference,
    upcast: np.ndarray | None,
    format_: str,
    budget: Budget,
    *,
    elementwise: bool,
    terms: float,
    flushed_reference: Reference | None,
    sum_of: Callable[[], Terms | None],
    scale: np.ndarray | None,
) -> _Weighed:
    decided = ~np.asarray(reference.undecided, bool).ravel()
    error = ulp_error(got, reference.values, format_, low=reference.low).ravel()
    kinds = mismatch_classes(got, reference.values, format_).ravel() & (Mismatch.NAN | Mismatch.INFINITY)
    flushed = _flushed(got, reference.values, format_, terms)
    if flushed_reference is not None:
        flushed |= _right_for_zeros(got, flushed_reference, format_, budget)
    severe = decided & (kinds != 0) & ~flushed
    upcast_right: np.ndarray = np.ones(error.size, bool)
    upcast_max = None
    if upcast is not None:
        upcast_error = ulp_error(upcast, reference.values, format_, low=reference.low).ravel()
        upcast_kinds = mismatch_classes(upcast, reference.values, format_).ravel()
        measured = upcast_error[decided & ~np.isnan(upcast_error)]
        upcast_max = float(measured.max()) if measured.size else 0.0
        # A mismatch that the wider format shares is the formula's, or the input's own.
        severe &= (upcast_kinds & (Mismatch.NAN | Mismatch.INFINITY)) == 0
        upcast_right = upcast_error <= budget.ulp
        nearer = 2 * upcast_error < error
    over = decided & ~severe & ~(error <= budget.ulp)
    ill: np.ndarray = np.zeros(error.size, bool)
    sums = sum_of() if (over | severe).any() else None
    if upcast is not None:  # of a sum, its terms tell luck from care; else a wider run must itself be good
        luck_told = elementwise or sums is not None
        near_enough = luck_told or ~_visible(upcast_error, reference.values, format_, budget, scale)
        upcast_right |= nearer & near_enough
    if sums is not None:
        ill, overflowed = _ill_conditioned(got, reference.values, format_, budget, sums, elementwise=elementwise)
        over |= severe & overflowed
        severe &= ~overflowed
        ill |= overflowed
    lost = over & upcast_right & ~ill
    flushed &= over
    visible = np.ones(over.size, bool) if elementwise else _visible(error, reference.values, format_, budget, scale)
    return _Weighed(
        error=error,
        decided=decided,
        severe=severe,
        beyond=lost & visible & ~flushed,
        wrong_formula=over & ~lost & ~ill & ~flushed & elementwise,
        flushed=flushed,
        lost=lost,
        over=over,
        upcast_max_ulp=upcast_max,
    )


def _flushed(got: np.ndarray, reference: np.ndarray, format_: str, terms: float) -> np.ndarray:
    """Where taking or giving float32's subnormals as zero explains the error: ``terms`` of them at the most.

    Processors flush in float32 alone, so that only formats of its exponent range are concerned.
    """
    smallest = FORMATS["float32"].emin
    if FORMATS[format_].emin != smallest:
        return np.zeros(np.size(got), bool)
    with np.errstate(invalid="ignore"):
        explained: np.ndarray = np.abs(got - reference).ravel() <= max(terms, 1.0) * 2.0**smallest
    return explained


def _right_for_zeros(got: np.ndarray, reference: Reference, format_: str, budget: Budget) -> np.ndarray:
    """Where a result is right for inputs whose subnormals are zeros: within the budget, or NaN as it should be.

    A subnormal that is handed on unseen (the sign of x is x where it compares equal to 0) counts as the zero that it is
    taken for.
    """
    zeroed = np.where(np.abs(got) < 2.0 ** FORMATS[format_].emin, 0.0, got)
    error = ulp_error(got, reference.values, format_, low=reference.low).ravel()
    as_zero = ulp_error(zeroed, reference.values, format_, low=reference.low).ravel()
    right: np.ndarray = ((error <= budget.ulp) | (as_zero <= budget.ulp)) & ~np.asarray(
        reference.undecided, bool
    ).ravel()
    return right


def _ill_conditioned(
    got: np.ndarray, reference: np.ndarray, format_: str, budget: Budget, terms: Terms, *, elementwise: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Where a float32 sum of the terms may err as much beside the budget; and where it may overflow on the way.

    In float32 itself the budget, which is that of pairwise summation, is taken in ULP of what the terms add up to;
    there an elementwise operator has no terms enough to be excused.
    """
    magnitude, values = terms.magnitude.ravel(), np.asarray(reference, float).ravel()
    largest = 2.0 ** (_ACCUMULATOR.emax + 1) - 2.0 ** (_ACCUMULATOR.emax + 1 - _ACCUMULATOR.precision)
    # Two terms that overflow leave no choice of what is right; further ones may bring them back.
    overflowed = np.isfinite(magnitude) & (magnitude > largest) & (terms.count.ravel() > _FACTORS)
    if FORMATS[format_].precision >= _ACCUMULATOR.precision:
        allowed = np.zeros(values.size) if elementwise else budget.ulp * ulp_of(magnitude, format_)
    else:
        count: np.ndarray = terms.count.ravel() + _FACTORS
        roundings = np.minimum(count, _UNLIKELY * np.sqrt(count))
        allowed = roundings * magnitude * 2.0**-_ACCUMULATOR.precision + budget.ulp * ulp_of(values, format_)
    with np.errstate(invalid="ignore"):
        ill: np.ndarray = np.isfinite(magnitude) & (np.abs(np.asarray(got, float).ravel() - values) <= allowed)
    return ill, overflowed


def _visible(
    error: np.ndarray, reference: np.ndarray, format_: str, budget: Budget, scale: np.ndarray | None
) -> np.ndarray:
    """Where the error is over the budget in ULP of the largest finite reference of its row (the last axis), too.

    Of the largest of ``scale`` where that is larger.
    """
    values = np.atleast_1d(np.asarray(reference, float))
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    if scale is not None:
        finite = np.maximum(finite, np.where(np.isfinite(scale), np.abs(scale), 0.0).reshape(values.shape))
    largest = np.broadcast_to(finite.max(axis=-1, keepdims=True, initial=0.0), values.shape)
    # An intermediate result may be beyond the format, as the exponents of its ULP are not.
    unbounded = np.where(largest > 0, np.ldexp(1.0, np.frexp(largest)[1] - FORMATS[format_].precision), 0.0)
    unit = np.maximum(ulp_of(largest, format_), unbounded)
    scaled = error * (ulp_of(values, format_) / unit).ravel()
    visible: np.ndarray = ~(scaled <= budget.ulp)
    return visible


def _worst(
    groups: Iterable[tuple[Verdict, np.ndarray]], decided: np.ndarray, error: np.ndarray
) -> tuple[Verdict, np.ndarray]:
    if not decided.size:
        return Verdict.EMPTY, np.flatnonzero(decided)
    if decided.sum() < _ENOUGH_DECIDED * decided.size:
        return Verdict.UNDECIDED, np.flatnonzero(~decided)
    for verdict, elements in groups:
        if elements.any():
            return verdict, np.flatnonzero(elements)
    half = np.flatnonzero(decided & ~(error <= 0.5))
    return (Verdict.WITHIN_BUDGET, half) if half.size else (Verdict.CORRECT, half)
