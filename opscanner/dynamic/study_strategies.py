"""What each way of choosing inputs finds in the study's operators, at the same number of tensors.

Random numbers and Predoo's guided strategy are what the study used; the others are this project's. Every strategy is
given the same budget of tensors, but for the exhaustive one, which feeds each value once and needs 13,108 of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscanner.dynamic.inputs.batch import Batch
from opscanner.dynamic.inputs.domain import allowed_places
from opscanner.dynamic.inputs.values import boundary_values, every_value, listable, stratified
from opscanner.dynamic.search import Budget, climb
from opscanner.dynamic.study import (
    Arrays,
    Spread,
    check_formats,
    choose_operators,
    draw_tensors,
    prepared_runners,
    reference_of,
    run_operator,
    spread_of,
    worst_inputs,
)
from opscanner.dynamic.study_operators import StudyOperator
from opscanner.errors import UsageError
from opscanner.operators.catalog import Operator
from opscanner.operators.pairs import parse_inputs
from opscanner.precision.metrics import ErrorSummary, summarize_errors
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_error

#: Tensors of one call.
_CHUNK = 4096

#: Predoo's constants (Zhang et al., ISSTA 2021; experiment/Heuristic_based of https://github.com/predoodl/predoo): of
#: 20,000 tensors 3,000 are random; each whose error is above the threshold comes back three times, a constant added.
_PREDOO_CORPUS, _PREDOO_THRESHOLD, _PREDOO_STEPS = 3 / 20, 2e-4, (1e-4, 1e-6, 1e-8)

#: Of hill climbing: share of the budget that looks for a start; tensors that climb together where the operator works
#: along them; places that do where it works element by element (as :func:`~opscanner.dynamic.search.climb` has them).
_START, _TOGETHER, _PLACES = 0.5, 64, 2048


@dataclass(frozen=True)
class StrategyMeasurement:
    """What one strategy found in one operator of one framework and format, with one seed.

    Parameters
    ----------
    tensors : int
        How many it ran; fewer than the budget where it had no more to try.
    max_ulp, max_absolute_error, max_scaled_ulp, over_1_ulp, class_mismatches, undecided
        Against exact results, as in :class:`~opscanner.precision.metrics.ErrorSummary`; NaN when nothing was compared.
    worst_inputs : dict
        At the largest error in ULP.
    """

    seed: int
    tensors: int
    count: int
    elapsed_s: float
    max_ulp: float
    max_absolute_error: float
    max_scaled_ulp: float
    over_1_ulp: int
    class_mismatches: int
    undecided: int
    worst_inputs: dict[str, Any]
    worst_expected: float
    worst_got: float


@dataclass(frozen=True)
class StrategyRow:
    """One strategy on one operator of one framework in one format, over all seeds; ``budget`` in tensors."""

    operator: str
    direction: str
    framework: str
    versions: dict[str, str]
    device: str
    format: str
    strategy: str
    budget: int
    measurements: tuple[StrategyMeasurement, ...] = field(repr=False)

    def spread(self, figure: str) -> Spread:
        """The spread of a number of :class:`StrategyMeasurement` over the seeds."""
        return spread_of(self.measurements, figure)

    def total(self, figure: str) -> int:
        """The sum of a count of :class:`StrategyMeasurement` over the seeds."""
        return sum(int(getattr(one, figure)) for one in self.measurements)

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner study --strategies --format json`` prints."""
        return {**vars(self), "measurements": [dict(vars(one)) for one in self.measurements]}


def run_strategies(
    *,
    tensors: int = 20000,
    seeds: Sequence[int] = (0, 1, 2),
    formats: Sequence[str] = ("bfloat16",),
    frameworks: Sequence[str] = ("tensorflow", "pytorch"),
    operators: Sequence[str] = (),
    strategies: Sequence[str] = (),
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> list[StrategyRow]:
    """Rows: operator by operator, format by format, framework by framework, strategy by strategy; honest settings.

    Parameters
    ----------
    tensors : int
        The budget of each strategy and seed; a tensor has five elements.
    strategies : sequence of str
        Names of :data:`STRATEGIES`; all that apply by default. Every value is fed in 16-bit formats only, to operators
        that work element by element on one input and an upstream gradient at most.

    Raises
    ------
    UsageError
        For a strategy, format, framework or operator that the study does not know, a framework that is not installed,
        or when there is no tensor or seed.
    """
    chosen = choose_operators(operators, as_published=False)
    check_formats(formats)
    if strange := [name for name in strategies if name not in STRATEGIES]:
        raise UsageError(f"{strange[0]!r} is no strategy of the study", f"one of {', '.join(STRATEGIES)}")
    if tensors < 1 or not seeds:
        raise UsageError("a strategy needs at least one tensor and one seed", "--tensors 20000 --seeds 3")
    runners = prepared_runners(frameworks)
    rows = []
    for format_ in dict.fromkeys(formats):
        for operator in chosen:
            progress(f"{operator.id} in {format_}")
            for framework, runner in runners.items():
                for name in strategies or STRATEGIES:
                    if name == "exhaustive" and not _can_be_exhausted(operator, format_):
                        continue
                    measured = [
                        _measure(_Trials(operator, framework, format_, device, tensors, seed), name)
                        for seed in dict.fromkeys(seeds)
                    ]
                    rows.append(
                        StrategyRow(
                            operator=operator.id,
                            direction=operator.direction,
                            framework=framework,
                            versions=runner.versions(),
                            device=device,
                            format=format_,
                            strategy=name,
                            budget=tensors,
                            measurements=tuple(measured),
                        )
                    )
    return rows


def _measure(trials: _Trials, strategy: str) -> StrategyMeasurement:
    started = time.monotonic()
    STRATEGIES[strategy](trials)
    return trials.found(time.monotonic() - started)


class _Trials:
    """Runs tensors within a budget, and remembers the worst of them."""

    def __init__(
        self,
        operator: StudyOperator,
        framework: str,
        format_: str,
        device: str,
        budget: int,
        seed: int,
    ) -> None:
        self.operator, self.format, self.seed = operator, format_, seed
        self.left, self.budget = budget, budget
        self.generator = np.random.default_rng([seed, 1])
        self.reference = operator.references[framework]
        self._framework, self._device = framework, device
        self._summaries: list[tuple[ErrorSummary, dict[str, Any]]] = []
        self._tensors = 0

    def run(self, tensors: Arrays, unlimited: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The absolute error of each element and that in ULP; as many tensors as are left, NaN for the rest.

        NaN too where an error is no number. Values outside of the operator's domain are replaced by 1.
        """
        allowed = allowed_places(self.operator.domain, tensors, tensors["x"].shape)
        fitting = {name: np.where(allowed, array, 1.0) for name, array in tensors.items()}
        count = len(fitting["x"]) if unlimited else min(self.left, len(fitting["x"]))
        absolute, ulp = (np.full(fitting["x"].shape, np.nan) for _ in range(2))
        for start in range(0, count, _CHUNK):
            part = slice(start, min(start + _CHUNK, count))
            absolute[part], ulp[part] = self._run_chunk({name: array[part] for name, array in fitting.items()})
        self.left -= min(count, self.left)
        return absolute, ulp

    def _run_chunk(self, inputs: Arrays) -> tuple[np.ndarray, np.ndarray]:
        got = run_operator(self.operator, self._framework, inputs, self.format, self._device)
        reference = reference_of(self.reference, inputs, self.format, self.operator.elementwise)
        summary = summarize_errors(got, reference.values, self.format, reference.low, reference.undecided)
        self._summaries.append((summary, worst_inputs(summary, inputs, self.operator.elementwise)))
        self._tensors += len(got)
        with np.errstate(all="ignore"):
            absolute = np.abs(got - reference.values - reference.low)
            ulp = ulp_error(got, reference.values, self.format, reference.low)
        kept = np.isfinite(ulp) & ~reference.undecided
        return np.where(kept & np.isfinite(absolute), absolute, np.nan), np.where(kept, ulp, np.nan)

    def as_row(self) -> Operator:
        """The operator as a row of the catalog."""
        one = self.operator
        text = "; ".join(f"{name}: float ({_TOGETHER}, {one.width}) in [-50, 50]" for name in one.inputs)
        return Operator(
            f"study.{one.id}", one.direction, "study", "activation", parse_inputs(text), {}, self.reference,
            one.elementwise, one.domain,
        )  # fmt: skip

    def random(self, count: int) -> dict[str, np.ndarray]:
        """Tensors of the study: the same as those of :func:`~opscanner.dynamic.study.run_study` for the seed."""
        return draw_tensors(self.operator, self.format, count, self.seed)

    def shaped(self, make: Callable[[int], np.ndarray], count: int) -> dict[str, np.ndarray]:
        """Tensors of values that ``make`` gives for a number of them."""
        width = self.operator.width
        return {name: make(count * width).reshape(count, width) for name in self.operator.inputs}

    def found(self, elapsed_s: float) -> StrategyMeasurement:
        summaries = [one for one, _ in self._summaries]

        def largest(figure: str) -> float:
            return float(np.fmax.reduce([getattr(one, figure) for one in summaries], initial=np.nan))

        order = [-np.inf if np.isnan(one.max_ulp) else one.max_ulp for one in summaries]
        worst, inputs = self._summaries[int(np.argmax(order))]
        return StrategyMeasurement(
            seed=self.seed,
            tensors=self._tensors,
            count=sum(one.count for one in summaries),
            elapsed_s=elapsed_s,
            max_ulp=largest("max_ulp"),
            max_absolute_error=largest("max_absolute_error"),
            max_scaled_ulp=largest("max_scaled_ulp"),
            over_1_ulp=sum(one.over_1_ulp for one in summaries),
            class_mismatches=sum(one.class_mismatches for one in summaries),
            undecided=sum(one.undecided for one in summaries),
            worst_inputs=inputs,
            worst_expected=worst.worst_expected,
            worst_got=worst.worst_got,
        )


def _random(trials: _Trials) -> None:
    """Normal numbers times 10: the study's."""
    trials.run(trials.random(trials.left))


def _predoo(trials: _Trials) -> None:
    """Predoo's queue: what is above the threshold comes back at its end, three times, with a constant added.

    Tensors stay float64 in the queue and are rounded to the format when they are run, as there. That a whole batch is
    taken from the front changes nothing: children only go to the end.
    """
    queue = trials.random(max(1, round(trials.left * _PREDOO_CORPUS)))
    while trials.left and len(queue["x"]):
        count = min(trials.left, len(queue["x"]), _CHUNK)
        batch = {name: array[:count] for name, array in queue.items()}
        absolute, _ = trials.run({name: round_to_format(array, trials.format) for name, array in batch.items()})
        again = (absolute > _PREDOO_THRESHOLD).any(axis=-1)
        queue = {
            name: np.concatenate(
                [
                    queue[name][count:],
                    np.stack([array[again] + by for by in _PREDOO_STEPS], axis=1).reshape(-1, array.shape[1]),
                ]
            )
            for name, array in batch.items()
        }


def _boundary(trials: _Trials) -> None:
    """Values where kernels change formulas and formats end: each once, or at random where there are pairs of them."""
    trials.run(_boundary_tensors(trials, trials.left))


def _boundary_tensors(trials: _Trials, most: int) -> dict[str, np.ndarray]:
    values = boundary_values(trials.format)
    if trials.operator.elementwise and len(trials.operator.inputs) == 1:
        return {"x": _packed(values, trials.operator.width)[:most]}
    return trials.shaped(lambda count: trials.generator.choice(values, count), most)


def _stratified(trials: _Trials) -> None:
    """Random values whose exponents are spread evenly over the format."""
    trials.run(trials.shaped(lambda count: stratified(trials.generator, count, trials.format), trials.left))


def _exhaustive(trials: _Trials) -> None:
    """Every value of the format, whatever the budget; an upstream gradient gets normal numbers times 10."""
    x = _packed(every_value(trials.format), trials.operator.width)
    second = trials.random(len(x))
    trials.run({name: x if name == "x" else second[name] for name in trials.operator.inputs}, unlimited=True)


def _can_be_exhausted(operator: StudyOperator, format_: str) -> bool:
    return operator.elementwise and operator.inputs in (("x",), ("x", "dy")) and listable(format_)


def _hill(trials: _Trials) -> None:
    """:func:`~opscanner.dynamic.search.climb` on the error in ULP; half of the budget looks for a start."""
    operator = trials.operator
    share = max(1, int(trials.left * _START / 3))
    starts = (
        _boundary_tensors(trials, share),
        trials.shaped(lambda count: stratified(trials.generator, count, trials.format), share),
        trials.random(share),
    )

    def of_places(arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        places = arrays["x"].size
        _, ulp = trials.run({name: _packed(array.reshape(-1), operator.width) for name, array in arrays.items()})
        return ulp.reshape(-1)[:places]

    def of_all(arrays: Mapping[str, np.ndarray]) -> float:
        return float(np.fmax.reduce(trials.run(arrays)[1], axis=None))

    together = math.ceil(_PLACES / operator.width) if operator.elementwise else _TOGETHER
    batches = [
        Batch("start", {name: array[at : at + size] for name, array in tensors.items()}, "contiguous", "", trials.seed)
        for tensors in starts
        for size in (len(tensors["x"]) if operator.elementwise else _TOGETHER,)
        for at in range(0, len(tensors["x"]), size)
    ]
    looked = sum(len(tensors["x"]) for tensors in starts)
    calls = len(batches) + math.ceil(max(0, trials.left - looked) / together)
    climb(
        trials.as_row(),
        trials.format,
        of_places if operator.elementwise else of_all,
        batches,
        Budget(evaluations=calls),
        trials.seed,
    )


def _packed(values: np.ndarray, width: int) -> np.ndarray:
    """A list as tensors; the last is filled up with 1."""
    rest = -len(values) % width
    packed: np.ndarray = np.concatenate([values, np.ones(rest)]).reshape(-1, width)
    return packed


#: Name to what runs it, the study's own first.
STRATEGIES: dict[str, Callable[[_Trials], None]] = {
    "random": _random,
    "predoo": _predoo,
    "boundary": _boundary,
    "stratified": _stratified,
    "hill climbing": _hill,
    "exhaustive": _exhaustive,
}
