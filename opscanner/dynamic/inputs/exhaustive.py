"""Every value of a format, and every pair of exponents: elementwise operators alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscanner.dynamic.inputs.fitting import Case
from opscanner.dynamic.inputs.patterns import Draft
from opscanner.dynamic.inputs.values import every_value, exponent_grid, listable
from opscanner.precision.layout import layout_of

#: Values of a format of which all pairs are still few.
_FEW = 256


def exhaustive(case: Case) -> Iterator[Draft]:
    """All values for one input; for a gradient all values of the input, with few of the upstream gradient."""
    if not case.flat or not listable(case.format_):
        return
    values = every_value(case.format_)
    free = tuple(slot for slot in case.slots if slot != "dy")
    if case.slots and len(case.slots) == 1:
        yield from _drafts(case, {case.slots[0]: values}, f"every value of {case.format_}")
    elif case.slots == (*free, "dy") and len(free) == 1:
        for upstream in (1.0, -1.0):
            dy = np.full(values.shape, upstream)
            yield from _drafts(case, {free[0]: values, "dy": dy}, f"every value of {case.format_}, dy = {upstream:g}")
        dy = case.typical("dy", values.shape)
        yield from _drafts(case, {free[0]: values, "dy": dy}, f"every value of {case.format_}, random dy")
    elif len(case.slots) == 2 and values.size <= _FEW:
        pairs = _product(values, case.slots)
        yield from _drafts(case, pairs, f"every pair of values of {case.format_}")


def exponent_pairs(case: Case) -> Iterator[Draft]:
    """All pairs (triples of fewer) of exponents, with the mantissas 0, 1 and all ones, both signs, and the specials.

    Where that is too many the values are paired at random.
    """
    count = len(case.slots)
    if not case.flat or count < 2:
        return
    most = case.size.exponents
    limit = exponent_grid(case.format_, most).size ** 2
    while most > 3 and exponent_grid(case.format_, most).size ** count > limit:
        most -= 1
    grid = exponent_grid(case.format_, most)
    if grid.size**count <= limit:
        lists, how = _product(grid, case.slots), "each with each"
    else:
        grid = exponent_grid(case.format_, case.size.exponents)
        lists = {slot: case.generator.choice(grid, limit // count) for slot in case.slots}
        most, how = case.size.exponents, "at random"
    why = f"both signs, boundary mantissas and {_number(case.format_, most)} exponents of each input, {how}"
    yield from _drafts(case, lists, why)


def _product(values: np.ndarray, slots: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Lists of all tuples of the values."""
    index = np.indices((values.size,) * len(slots)).reshape(len(slots), -1)
    return {slot: values[places] for slot, places in zip(slots, index, strict=True)}


def _number(format_: str, most: int) -> int:
    layout = layout_of(format_)
    return min(most, layout.emax - layout.emin + 1)


def _drafts(case: Case, values: dict[str, np.ndarray], why: str) -> Iterator[Draft]:
    arrays = case.list_of(values)
    if arrays is not None:
        yield Draft(arrays, why)
