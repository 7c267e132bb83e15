"""Guided search in a test: from the batches that an operator took worst to inputs that it takes worse.

What is climbed on is the error in ULP as far as the next wider format does not make it
(:func:`opscanner.dynamic.verdict.excess_ulp`): the flushed, the undecided and the ill-conditioned draw no search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opscanner.dynamic.batch_trial import BatchTrial, Plan
from opscanner.dynamic.inputs import Batch
from opscanner.dynamic.inputs.fitting import Arrays, make_case
from opscanner.dynamic.inputs.patterns import largest_fed
from opscanner.dynamic.inputs.values import every_value, listable
from opscanner.dynamic.search import POPULATION, Budget, Found, climb
from opscanner.errors import OpscannerError
from opscanner.operators.catalog import Operator

#: The id of the search among input strategies.
SEARCH = "search"

#: Strategies whose batches a search starts from: values that find things, lying as they come.
STARTS = (
    "exhaustive", "boundary", "exponent_pairs", "stratified", "random", "ones", "one_and_crumbs", "cancellation",
    "alternating", "geometric", "ties", "dominant_logit", "constant_rows",
)  # fmt: skip

#: Places that a batch gives to the start of an elementwise operator, the worst of it.
_PLACES = 256
#: Batches that another operator starts from, and the most values in one: each call of the search costs as much.
_BATCHES, _LARGEST = 3, 1 << 12
#: Pairs of so few values are all fed.
_FEW = 256


def is_searched(operator: Operator, format_: str) -> bool:
    """True where a search may find more: the operator has a reference, and is not fed all there is."""
    if not operator.reference or not operator.float_inputs or operator.kind == "random":
        return False
    if any(item.kind == "complex" for item in operator.inputs):
        return False
    case = make_case(operator, format_, SEARCH, 0, "small")
    if not case.flat or not listable(format_):
        return True
    if len(case.slots) == 1:
        return False
    return not (len(case.slots) == 2 and "dy" not in case.slots and every_value(format_).size <= _FEW)


@dataclass(frozen=True)
class _Start:
    """A batch, and what its places score; of other operators the one score that it has."""

    batch: Batch
    scores: np.ndarray


class Search:
    """The search of one operator in one format: fed with batches that were measured, then run in each framework.

    What it finds depends on operator, format, framework, seed and size of the inputs alone, not on which other
    strategies were asked for: it always starts from those of :data:`STARTS`.
    """

    def __init__(self, operator: Operator, format_: str, plan: Plan) -> None:
        self._operator, self._format, self._plan = operator, format_, plan
        case = make_case(operator, format_, SEARCH, plan.seed, plan.size)
        self._flat, self._largest = case.flat, largest_fed(case)
        self._starts: dict[str, list[_Start]] = {}
        self._mismatch: set[str] = set()

    def takes(self, batch: Batch) -> bool:
        """True for a batch that a search may start from."""
        plain = batch.strategy in STARTS and batch.layout == "contiguous"
        return plain and (self._flat or batch.elements <= _LARGEST)

    def take(self, batch: Batch, excess: Mapping[str, Sequence[np.ndarray]]) -> None:
        """Notes a batch, with what each framework made of it (:attr:`BatchTrial.excess`)."""
        if not self.takes(batch):
            return
        for framework, outputs in excess.items():
            if any(np.isinf(one).any() for one in outputs):
                self._mismatch.add(framework)
            scores = self._scores(outputs, self._places(batch.inputs))
            if not scores.size:
                continue
            starts = self._starts.setdefault(framework, [])
            if self._flat:
                worst = np.argsort(-scores, kind="stable")[:_PLACES]
                inputs = {name: array.ravel()[worst] if array.shape else array for name, array in batch.inputs.items()}
                starts.append(_Start(replace(batch, inputs=inputs), scores[worst]))
            else:
                starts.append(_Start(batch, scores))
                starts.sort(key=_worst_first)
                del starts[_BATCHES:]

    def run(self, framework: str) -> Batch | None:
        """The worst inputs found, as a batch; None without anything to start from, or any error at all.

        Of an elementwise operator they are the worst places of the worst call, repeated until there are 256.
        Its ``number`` is the call of the search that found it: a search of as many calls finds it again.
        """
        starts = sorted(self._starts.get(framework, ()), key=_worst_first)
        if not starts or float(starts[0].scores.max()) <= 0.0:  # what only moves data has no slope to climb
            return None
        found = climb(
            self._operator,
            self._format,
            lambda arrays: self._objective(framework, arrays),
            [_joined(starts)] if self._flat else [start.batch for start in starts],
            Budget(evaluations=self._plan.evaluations),
            self._plan.seed,
        )
        return self._batch(framework, found, starts) if found.history else None

    def _batch(self, framework: str, found: Found, starts: Sequence[_Start]) -> Batch:
        number = found.history[-1][0]
        names = ", ".join(dict.fromkeys(start.batch.strategy for start in starts))
        why = f"call {number} of {found.evaluations} of a search for larger errors, from the worst of {names}"
        inputs = self._worst_places(framework, found) if self._flat else found.whole
        return Batch(SEARCH, inputs, "contiguous", why, self._plan.seed, number)

    def _worst_places(self, framework: str, found: Found) -> Arrays:
        """Places of a call that score at least half as much as the best; many, for kernels that work on vectors."""
        scores = np.asarray(self._objective(framework, found.whole))
        worst = np.argsort(-scores, kind="stable")[: max(1, int((scores >= found.score / 2).sum()))]
        chosen: np.ndarray = np.resize(worst[:_PLACES], _PLACES)
        return {name: array[chosen] if array.shape else array for name, array in found.whole.items()}

    def _objective(self, framework: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray | float:
        if not self._flat and self._too_large(arrays):
            return np.nan
        batch = Batch(SEARCH, dict(arrays), "contiguous", "", self._plan.seed)
        try:
            outputs = BatchTrial(self._operator, self._format, self._plan, batch, quickly=True).excess_in(framework)
        except OpscannerError:  # the reference refuses such values: nothing is found there
            return np.nan
        if framework in self._mismatch:  # one is known: look for large errors
            outputs = [np.where(np.isinf(one), np.nan, one) for one in outputs]
        scores = self._scores(outputs, self._places(batch.inputs))
        return scores if scores.size else np.nan

    def _too_large(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """True for values whose sum a float32 accumulator cannot hold, of an operator that sums."""
        values = (arrays[item.name] for item in self._operator.float_inputs)
        return any(bool((np.isfinite(one) & (np.abs(one) > self._largest)).any()) for one in values)

    def _places(self, inputs: Arrays) -> int:
        return int(inputs[self._operator.float_inputs[0].name].size)

    def _scores(self, outputs: Sequence[np.ndarray], places: int) -> np.ndarray:
        """The worst of all outputs, at each place or, of other operators, anywhere; none if there are none."""
        known = [np.where(np.isnan(one), -np.inf, one) for one in outputs if one.size]
        if self._flat:
            same = bool(known) and all(one.size == places for one in known)
            worst: np.ndarray = np.maximum.reduce(known) if same else np.zeros(0)
            return worst
        return np.array([float(one.max()) for one in known]).max(keepdims=True) if known else np.zeros(0)


def _joined(starts: Sequence[_Start]) -> Batch:
    """The worst places of several batches as one."""
    scores = np.concatenate([start.scores for start in starts])
    worst = np.argsort(-scores, kind="stable")[:POPULATION]
    inputs = {
        name: np.concatenate([start.batch.inputs[name] for start in starts])[worst] if array.shape else array
        for name, array in starts[0].batch.inputs.items()
    }
    return replace(starts[0].batch, inputs=inputs)


def _worst_first(start: _Start) -> tuple[float, int, int]:
    return -float(start.scores.max()), STARTS.index(start.batch.strategy), start.batch.number
