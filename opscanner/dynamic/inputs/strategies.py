"""The table of input strategies, and the batches that they give for an operator in a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from opscanner.dynamic.inputs import exhaustive, layouts, rows, spread, sums
from opscanner.dynamic.inputs.batch import Batch
from opscanner.dynamic.inputs.fitting import Case, make_case
from opscanner.dynamic.inputs.patterns import Draft
from opscanner.errors import UsageError
from opscanner.operators.catalog import Operator


@dataclass(frozen=True)
class Strategy:
    """One way to choose inputs.

    Parameters
    ----------
    id : str
    finds : str
        The kind of fault that it is there to find.
    source : str
        Where the idea, or the fault that asked for it, is from.
    make : callable
        Its batches for a case; none where it does not apply.
    """

    id: str
    finds: str
    source: str
    make: Callable[[Case], Iterator[Draft]]


_HIGHAM = "N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002"

#: In the order in which they run: what finds most for its time comes first; random numbers, the baseline, after it.
STRATEGIES: tuple[Strategy, ...] = (
    Strategy(
        "exhaustive", "any error of an operator of one input, at its place",
        "16-bit formats have 65,536 values; the wrong ones of tensorflow#67440 lie near 0", exhaustive.exhaustive,
    ),
    Strategy(
        "boundary", "branches and cut-offs of kernels, overflow, signs of zero",
        "branches of fdlibm, Cephes, Eigen, torch's Math.h, by their constants", spread.boundary,
    ),
    Strategy(
        "exponent_pairs", "overflow, underflow and absorption between two inputs",
        "all exponents with boundary mantissas, as in TestFloat's argument lists (J. R. Hauser)",
        exhaustive.exponent_pairs,
    ),
    Strategy(
        "stratified", "errors at magnitudes that uniform and normal numbers do not reach",
        "stratified sampling over binary exponents, as Herbie samples", spread.stratified_values,
    ),
    Strategy("random", "errors in the middle of the range: the baseline", "bfloat16(randn) * 10: tensorflow#67440",
             spread.random_values),
    Strategy("ones", "sums that stall in the storage format", "tensorflow#115731 (cumsum of ones)", sums.ones),
    Strategy("one_and_crumbs", "sums in the storage format, and their order", "tensorflow#27544 (add_n); "
             f"{_HIGHAM}, 4.2", sums.one_and_crumbs),
    Strategy("large_mean", "sums that overflow where the mean does not", "tensorflow#123299 (reduce_mean of 1e4)",
             sums.large_mean),
    Strategy("squares_overflow", "squares that overflow or vanish under a root", f"{_HIGHAM}, 27.8 (norms)",
             sums.squares),
    Strategy("cancellation", "what is lost where terms cancel", f"{_HIGHAM}, 1.7 and 4.1", sums.cancellation),
    Strategy("alternating", "small terms lost beside large ones that cancel", f"{_HIGHAM}, 4.1", sums.alternating),
    Strategy("geometric", "the order of a sum", f"{_HIGHAM}, 4.2", sums.geometric),
    Strategy("large_n", "more terms than float16 can count", "logsumexp of 70,000 zeros in float16 is infinite",
             sums.large_n),
    Strategy("ties", "double rounding, and ties that do not go to even", "IEEE 754-2019, 4.3.1; S. A. Figueroa, "
             "When is double rounding innocuous?, SIGNUM Newsletter 30 (1995)", spread.ties),
    Strategy("subnormal", "flushing to zero", "TensorFlow's CPU threads flush subnormals", spread.subnormal),
    Strategy("dominant_logit", "probabilities next to 0 and 1", "P. Blanchard, D. J. Higham, N. J. Higham, Accurately "
             "computing the log-sum-exp and softmax functions, IMA J. Numer. Anal. 41 (2021)", rows.dominant_logit),
    Strategy("constant_rows", "variances by a formula that cancels", f"{_HIGHAM}, 1.9", rows.constant_rows),
    Strategy("rows_of_one", "sums of one term", "boundary of the number of terms", rows.rows_of_one),
    Strategy("strided", "another path for strided arrays", "rsqrt of strided float16 rounds twice", layouts.strided),
    Strategy("transposed", "another path for transposed arrays", "as strided", layouts.transposed),
    Strategy("channels_last", "another path for channels-last images", "as strided", layouts.channels_last),
    Strategy("offset", "another path for unaligned arrays", "as strided", layouts.offset),
    Strategy("zero_dim", "another format for arrays without axes", "scalars take part in type promotion otherwise",
             layouts.zero_dim),
    Strategy("one_element", "another path for one element", "pytorch#193754 (floor_divide)", layouts.one_element),
    Strategy("odd_tail", "another path behind the last whole vector", "pytorch#193754 (floor_divide)",
             layouts.odd_tail),
    Strategy("empty", "results of no terms, refusals of empty arrays", "boundary of the number of elements",
             layouts.empty),
)  # fmt: skip

#: Run when they are asked for by name alone: what they find is no fault of an operator that accumulates in float32.
FURTHER_STRATEGIES: tuple[Strategy, ...] = (
    Strategy("end_of_range", "overflow of accumulators that reach no further than the format",
             f"{_HIGHAM}, 27.8 (norms)", sums.end_of_range),
)  # fmt: skip

_BY_ID = {strategy.id: strategy for strategy in (*STRATEGIES, *FURTHER_STRATEGIES)}


def generate(
    operator: Operator, format_: str, strategies: Iterable[str] | None = None, seed: int = 0, size: str = "default"
) -> Iterator[Batch]:
    """Batches of inputs for an operator in a format, strategy by strategy.

    The same arguments give the same batches, whatever ran before: random numbers are drawn from the SHA-256 of seed,
    operator, format and strategy.

    Parameters
    ----------
    strategies : iterable of str, optional
        Ids of :data:`STRATEGIES` or :data:`FURTHER_STRATEGIES`, in the order wanted; all of the former otherwise.
    size : str
        ``small``, ``default`` or ``large`` (:data:`~opscanner.dynamic.inputs.batch.SIZES`).

    Raises
    ------
    UsageError
        For a strategy that does not exist.
    """
    for name in (one.id for one in STRATEGIES) if strategies is None else strategies:
        if name not in _BY_ID:
            raise UsageError(f"no input strategy is called {name!r}", f"one of {', '.join(_BY_ID)}")
        case = make_case(operator, format_, name, seed, size)
        seen: set[str] = set()
        for draft in _BY_ID[name].make(case):
            batch = Batch(name, draft.inputs, draft.layout, draft.why, seed, len(seen))
            if (digest := batch.digest()) not in seen:
                seen.add(digest)
                yield batch
