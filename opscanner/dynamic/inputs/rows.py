"""Rows that softmax, losses and normalizations are sensitive to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from opscanner.dynamic.inputs.fitting import Case
from opscanner.dynamic.inputs.patterns import Draft, along, largest_fed, sums
from opscanner.dynamic.inputs.values import inside
from opscanner.precision.rounding import step

_LOGITS = frozenset({"softmax", "softmax gradient", "loss", "loss gradient", "attention", "attention gradient"})
_VARIANCES = frozenset({"normalization", "normalization gradient", "reduction", "reduction gradient", "loss"})


def dominant_logit(case: Case) -> Iterator[Draft]:
    """One logit far above the others: its probability is 1 less what is to be measured; and shifts of all of them."""
    if case.operator.kind not in _LOGITS and not case.operator.id.startswith(("softmax", "log")):
        return
    largest = largest_fed(case)
    for gap in (5.0, 10.0, 16.0, 20.0, 88.0, 104.0, largest / 4):
        held = float(inside(np.array(gap), case.format_))
        yield from _rows(case, partial(_one_apart, 0.0, held), f"one logit of {held:g}, the others 0")
        yield from _rows(case, partial(_one_apart, -held, 0.0), f"one logit of 0, the others -{held:g}")
    for shift in (1e3, largest / 2):
        yield from _rows(
            case, partial(_noisy, case, shift, 4), f"logits near {shift:g}, a few units in the last place apart"
        )


def constant_rows(case: Case) -> Iterator[Draft]:
    """Equal values, and values one unit in the last place apart, with a large mean: their variance cancels."""
    if case.operator.kind not in _VARIANCES:
        return
    for value in (0.1, 1e3, 1e4):
        yield from _rows(case, partial(_noisy, case, value, 0), f"{value:g} throughout: the variance is 0")
        yield from _rows(
            case, partial(_noisy, case, value, 1), f"near {value:g}, at most a unit in the last place apart"
        )


def rows_of_one(case: Case) -> Iterator[Draft]:
    """A single term along the axis that is summed."""
    if not sums(case) or case.growth is None or not case.growth.free:
        return
    for value in (-0.7, largest_fed(case)):
        held = float(inside(np.array(value), case.format_))
        for arrays in along(case, partial(_one_apart, held, held), 1, every=True):
            yield Draft(arrays, f"one term, {held:g}")


def _rows(case: Case, pattern: partial[np.ndarray], why: str) -> Iterator[Draft]:
    if not sums(case):
        return
    for arrays in along(case, pattern, min(256, case.size.many)):
        yield Draft(arrays, why)


def _one_apart(low: float, high: float, count: int) -> np.ndarray:
    line: np.ndarray = np.full(count, low)
    line[count // 2 : count // 2 + 1] = high
    return line


def _noisy(case: Case, value: float, units: int, count: int) -> np.ndarray:
    moves = case.generator.integers(-units, units, count, endpoint=True)
    return step(inside(np.full(count, value), case.format_), moves, case.format_)
