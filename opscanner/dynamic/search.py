"""Guided search: inputs on which an objective, as a rule the error in ULP, is as large as a budget lets one find.

:func:`climb` moves as formats do: by units in the last place, exponents, signs, and copies of boundary values.
:func:`predoo` is the baseline: guided by the absolute error, moved by a constant, as Predoo does (X. Zhang et al.,
Predoo: Precision Testing of Deep Learning Operators, ISSTA 2021); a constant like 1e-8 changes no 16-bit value near 1.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opscanner.dynamic.inputs.batch import Batch
from opscanner.dynamic.inputs.derive import inside_domain, with_values
from opscanner.dynamic.inputs.fitting import Arrays, make_case
from opscanner.dynamic.inputs.values import boundary_values, inside, stratified
from opscanner.errors import UsageError
from opscanner.operators.catalog import Operator
from opscanner.precision.rounding import step

#: What is made as large as possible. For inputs of one shape, elementwise: an array of that many places; else, and for
#: any operator if it likes, one number. NaN counts as nothing found.
Objective = Callable[[Mapping[str, np.ndarray]], "np.ndarray | float"]

#: Places that climb side by side in an elementwise operator.
POPULATION = 2048
#: After so many rounds the lower half starts again from the upper.
_RESTART = 8


@dataclass(frozen=True)
class Budget:
    """When a search ends: after seconds, after calls of the objective, or after whichever comes first."""

    seconds: float | None = None
    evaluations: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.evaluations is None:
            raise UsageError("a search without budget never ends", "give seconds or evaluations")


@dataclass(frozen=True)
class Found:
    """The best of a search.

    Parameters
    ----------
    inputs : dict of str to ndarray
        All inputs of the operator; of an elementwise one a single place.
    whole : dict of str to ndarray
        All places of the call that it was found in.
    score : float
        The objective there; -inf when nothing could be evaluated.
    evaluations : int
        Calls of the objective.
    history : tuple of (int, float)
        Calls and score whenever it rose.
    """

    inputs: Arrays
    whole: Arrays
    score: float
    evaluations: int
    history: tuple[tuple[int, float], ...]


def climb(
    operator: Operator, format_: str, objective: Objective, seeds: Sequence[Batch], budget: Budget, seed: int = 0
) -> Found:
    """Hill climbing from batches, the worst first, to inputs whose objective is larger.

    The same arguments and a budget of evaluations give the same result.
    """
    return _Search(operator, format_, objective, budget, seed, _moved).run(seeds)


def predoo(
    operator: Operator,
    format_: str,
    objective: Objective,
    seeds: Sequence[Batch],
    budget: Budget,
    seed: int = 0,
    constant: float = 1e-8,
) -> Found:
    """The baseline at the same budget: every move adds or takes away one constant; hand it the absolute error."""

    def moved(generator: np.random.Generator, values: np.ndarray, format_: str) -> np.ndarray:
        return inside(values + constant * generator.choice([-1.0, 0.0, 1.0], values.shape), format_)

    return _Search(operator, format_, objective, budget, seed, moved).run(seeds)


Move = Callable[[np.random.Generator, np.ndarray, str], np.ndarray]


class _Search:
    def __init__(
        self, operator: Operator, format_: str, objective: Objective, budget: Budget, seed: int, move: Move
    ) -> None:
        case = make_case(operator, format_, "search", seed, "small")
        self._operator, self._format, self._objective, self._budget = operator, format_, objective, budget
        self._flat, self._random, self._move = case.flat, case.generator, move
        self._names = tuple(item.name for item in operator.float_inputs)
        self._started = time.monotonic()
        self._evaluations = 0
        self._best: Arrays = {}
        self._whole: Arrays = {}
        self._score = -np.inf
        self._history: list[tuple[int, float]] = []

    def run(self, seeds: Sequence[Batch]) -> Found:
        if seeds and self._names:
            if self._flat:
                self._climb_places(seeds)
            else:
                self._climb_arrays(seeds)
        return Found(self._best, self._whole, float(self._score), self._evaluations, tuple(self._history))

    def _left(self) -> bool:
        if self._budget.evaluations is not None and self._evaluations >= self._budget.evaluations:
            return False
        return self._budget.seconds is None or time.monotonic() - self._started < self._budget.seconds

    def _evaluate(self, arrays: Arrays, places: int | None) -> np.ndarray:
        """Scores of the places, or of the arrays as a whole; the best is kept."""
        self._evaluations += 1
        scores: np.ndarray = np.asarray(self._objective(arrays), float).ravel()
        scores = np.where(np.isnan(scores), -np.inf, scores)
        by_place = places is not None and scores.size == places
        if not by_place:
            scores = np.full(places or 1, scores.max(initial=-np.inf))
        top = int(np.argmax(scores))
        if scores[top] > self._score:
            self._score = float(scores[top])
            self._whole = arrays
            one = slice(top, top + 1)
            self._best = {
                name: array.ravel()[one].copy() if by_place and array.shape else array.copy()
                for name, array in arrays.items()
            }
            self._history.append((self._evaluations, self._score))
        return scores

    def _climb_places(self, seeds: Sequence[Batch]) -> None:
        """Elementwise: every place of a population climbs by itself."""
        current = self._population(seeds)
        scores = self._evaluate(current, POPULATION)
        rounds = 0
        while self._left():
            values = {name: self._move(self._random, current[name], self._format) for name in self._names}
            child = with_values(self._operator, self._format, current, values)
            if child is None:
                continue
            allowed = inside_domain(self._operator, child, (POPULATION,))
            child = _mixed(allowed, child, current)
            found = self._evaluate(child, POPULATION)
            better = found >= scores
            current, scores = _mixed(better, child, current), np.where(better, found, scores)
            rounds += 1
            if rounds % _RESTART == 0:
                order = np.argsort(-scores, kind="stable")
                half = POPULATION // 2
                source = np.concatenate([order[:half], self._random.permutation(order[:half])])
                current = {name: array[source] if array.shape else array for name, array in current.items()}
                scores = scores[source]

    def _population(self, seeds: Sequence[Batch]) -> Arrays:
        """Places of the seeds, the highest objective first, repeated if they are few."""
        usable = [one.inputs for one in seeds if one.inputs[self._names[0]].size]
        pools: list[Arrays] = []
        for inputs in usable:
            count = inputs[self._names[0]].size
            flat = {name: array.ravel() if array.shape else array for name, array in inputs.items()}
            if not self._left():
                break
            scores = self._evaluate(flat, count)
            worst = np.argsort(-scores, kind="stable")[: max(1, POPULATION // len(usable))]
            pools.append({name: array[worst] if array.shape else array for name, array in flat.items()})
        joined = {
            name: np.concatenate([pool[name] for pool in pools]) if pools[0][name].shape else pools[0][name]
            for name in pools[0]
        }
        return {name: np.resize(array, POPULATION) if array.shape else array for name, array in joined.items()}

    def _climb_arrays(self, seeds: Sequence[Batch]) -> None:
        """Other operators: the best arrays climb as a whole, some of their values at a time."""
        usable = []
        for batch in seeds:
            if self._left():
                usable.append((float(self._evaluate(batch.inputs, None)[0]), batch.inputs))
        usable.sort(key=lambda one: -one[0])
        turn = 0
        while usable and self._left():
            kept = usable[:4]
            score, current = kept[turn % len(kept)]
            values = {name: self._some_moved(current[name]) for name in self._names}
            child = with_values(self._operator, self._format, current, values)
            if child is not None and bool(inside_domain(self._operator, child).all()):
                found = float(self._evaluate(child, None)[0])
                if found >= score:
                    usable[turn % len(kept)] = (found, child)
            else:
                self._evaluations += 1  # a refusal costs, too: else a narrow domain never ends
            turn += 1

    def _some_moved(self, values: np.ndarray) -> np.ndarray:
        share = self._random.choice([0.02, 0.2, 1.0])
        chosen = self._random.random(values.shape) < share
        result: np.ndarray = np.where(chosen, self._move(self._random, values, self._format), values)
        return result


_boundary_values = functools.cache(boundary_values)  # a list that takes longer to make than all else in a move


def _moved(generator: np.random.Generator, values: np.ndarray, format_: str) -> np.ndarray:
    """Each value moved in one of six ways, or left alone."""
    shape = values.shape
    units = generator.choice([-1, 1], shape) * 2 ** generator.integers(0, 7, shape)
    powers = generator.choice([-1, 1], shape) * generator.integers(1, 5, shape)
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = np.where(np.isfinite(values), np.ldexp(values, powers), values)
    ways = [
        values,
        step(values, generator.choice([-1, 1], shape), format_),
        step(values, units, format_),
        inside(np.where(np.isnan(shifted), 1.0, shifted), format_),
        -values,
        generator.choice(_boundary_values(format_), shape),
        stratified(generator, int(np.prod(shape)), format_).reshape(shape),
    ]
    chosen = generator.choice(len(ways), shape, p=[0.2, 0.2, 0.25, 0.15, 0.05, 0.1, 0.05])
    moved: np.ndarray = np.choose(chosen, ways)
    return moved


def _mixed(where: np.ndarray, first: Arrays, second: Arrays) -> Arrays:
    """Places of the first where it says so, of the second elsewhere."""
    return {name: np.where(where, array, second[name]) if array.shape else array for name, array in first.items()}
