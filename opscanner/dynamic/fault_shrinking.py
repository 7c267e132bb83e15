"""The inputs of a measurement cut down to the smallest that still fail in the same way.

Bounded by a number of trials, never by the clock: the same measurement gives the same inputs on any machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import numpy as np

from opscanner.dynamic.fault_probe import Judged, Probe, class_of, error_of, errors_of
from opscanner.dynamic.measure import budget_of
from opscanner.dynamic.minimize import minimize

#: The most trials that making one measurement small takes; large inputs count as several (see ``minimize``).
TRIALS = 250
#: Of an elementwise operator's error this part is kept; of any other's so many times the budget.
_KEPT_PART, _KEPT_BUDGETS = 4.0, 4.0
_SIMPLE_PLACES = 8


def make_small(
    probe: Probe, inputs: dict[str, np.ndarray], judged: Judged, trials: int = TRIALS, shapes_kept: bool = False
) -> tuple[dict[str, np.ndarray], str]:
    """The inputs made small and simple, and the layout that still fails: contiguous where that does.

    The verdict stays what it was, the worst element stays NaN, infinite or finite, and of a finite error a part is
    kept, so that the fault does not end as one that is hardly there.

    Parameters
    ----------
    judged : Judged
        What was said of the inputs as they come.
    shapes_kept : bool
        Nothing is cut.
    """
    one, layout = probe.one, probe.one.layout
    largest = error_of(judged)
    budget = budget_of(probe.operator, one.format).ulp
    floor = min(largest, largest / _KEPT_PART if probe.operator.elementwise else _KEPT_BUDGETS * budget)
    kind = class_of(judged)

    def fails(tried: Mapping[str, np.ndarray], where: str) -> bool:
        again = probe.judged(tried, where)
        if again is None or again.judgement.verdict is not one.verdict or class_of(again) != kind:
            return False
        return not error_of(again) < floor  # NaN, the error of a class mismatch, is a failure

    if layout != "contiguous" and fails(inputs, "contiguous"):
        layout = "contiguous"
    if not shapes_kept:
        inputs = _cut(probe, inputs, judged, floor, lambda tried: fails(tried, layout))
    small = minimize(
        inputs, lambda tried: fails(tried, layout), one.format, probe.operator, trials, shapes_kept=shapes_kept
    )
    return small, layout


def _cut(
    probe: Probe,
    inputs: dict[str, np.ndarray],
    judged: Judged,
    floor: float,
    fails: Callable[[Mapping[str, np.ndarray]], bool],
) -> dict[str, np.ndarray]:
    """One wrong element's inputs alone where that still fails, else the inputs cut to its place along some axes."""
    if not probe.operator.elementwise:
        return _row_alone(inputs, judged, fails)
    for place in _simple_places(inputs, judged, floor):
        single = _at(inputs, place, judged.reference.values.shape)
        if single is not None and fails(single):
            return single
    return inputs


def _row_alone(
    inputs: dict[str, np.ndarray], judged: Judged, fails: Callable[[Mapping[str, np.ndarray]], bool]
) -> dict[str, np.ndarray]:
    """The inputs cut to the wrong element's place along axes of the output, where that still fails."""
    shape = judged.reference.values.shape
    places = np.unravel_index(int(judged.judgement.faulty[0]), shape) if shape else ()
    for size, place in zip(shape, places, strict=True):
        axes = [(name, axis) for name, array in inputs.items() for axis, n in enumerate(array.shape) if n == size > 1]
        cut = dict(inputs)
        for name, axis in axes:
            cut[name] = np.take(cut[name], [int(place)], axis)
        with contextlib.suppress(Exception):  # what a trial raises is its result, as in minimize
            inputs = cut if axes and fails(cut) else inputs
    return inputs


def _simple_places(inputs: Mapping[str, np.ndarray], judged: Judged, floor: float) -> list[int]:
    """A few of the wrong elements with a large error: those whose inputs are written shortest, first."""
    faulty = judged.judgement.faulty
    errors = errors_of(judged).ravel()[faulty]
    large = faulty[np.isnan(errors) | (errors >= floor)][:2000]
    shape = judged.reference.values.shape

    def length(place: int) -> int:
        single = _at(inputs, place, shape) or {}
        return sum(len(repr(value)) for array in single.values() for value in array.ravel().tolist())

    return sorted((int(place) for place in large), key=length)[:_SIMPLE_PLACES]


def _at(inputs: Mapping[str, np.ndarray], place: int, shape: tuple[int, ...]) -> dict[str, np.ndarray] | None:
    """The inputs of one element of an elementwise operator; None when they have several shapes."""
    if any(array.shape not in ((), shape) for array in inputs.values()):
        return None
    return {
        name: array.ravel()[place : place + 1].reshape((1,) * array.ndim) if array.shape else array
        for name, array in inputs.items()
    }
