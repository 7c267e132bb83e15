"""The same values in other shapes and other places: kernels choose their path by size, stride, alignment and rank."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opscanner.dynamic.inputs.fitting import Arrays, Case
from opscanner.dynamic.inputs.patterns import Draft
from opscanner.dynamic.inputs.values import boundary_values, every_value, inside, listable, stratified
from opscanner.precision.rounding import round_to_format

#: What single values are taken from: neither powers of two nor round in any format, small, large, negative.
_PROBES = (0.1, 1 / 3, -0.7, 2.718281828, 560.0, -3e-3, 0.9, 1.1, 17.3, 1e-4, -12.5, 3.0)
#: Operators that have a result for no terms; a largest value or an index of no terms is refused.
_DEFINED_FOR_NONE = frozenset({"sum", "mean", "nansum", "cumsum", "l2_loss"})
#: Along the growing axis: odd, past a vector of 64 bytes of any format, quick.
_ODD = 131


def strided(case: Case) -> Iterator[Draft]:
    """Every second element of a longer array: the path of a kernel without vectors."""
    yield from _laid(case, "strided", 1)


def transposed(case: Case) -> Iterator[Draft]:
    """The last two axes swapped in memory."""
    yield from _laid(case, "transposed", 2)


def offset(case: Case) -> Iterator[Draft]:
    """Arrays that begin off the alignment of vectors."""
    yield from _laid(case, "offset", 1)


def channels_last(case: Case) -> Iterator[Draft]:
    """Images with their channels innermost in memory."""
    yield from _laid(case, "channels_last", 4)


def zero_dim(case: Case) -> Iterator[Draft]:
    """Arrays without axes: their kernel may compute in another format."""
    for arrays in _single(case):
        yield Draft({name: array.reshape(()) for name, array in arrays.items()}, "one value, no axes", "zero_dim")


def one_element(case: Case) -> Iterator[Draft]:
    """Arrays of one element: the values of ``zero_dim``."""
    for arrays in _single(case):
        yield Draft(arrays, "one value")


def odd_tail(case: Case) -> Iterator[Draft]:
    """Sizes round the widths of vectors: the first values are the same in all of them, so that results must be."""
    most = max(case.size.tails)
    if case.flat and case.slots:
        whole = case.list_of(_probes(case, most)) or {}
        for count in case.size.tails if whole else ():
            first = {name: array[..., :count] if array.shape else array for name, array in whole.items()}
            yield Draft(first, f"the first {count} of {most} values")
    elif case.growth is not None and case.growth.free:
        for count in case.size.tails:
            if (arrays := case.shaped({}, count)) is not None:
                yield Draft(arrays, f"{count} terms along the axis")


def empty(case: Case) -> Iterator[Draft]:
    """No element at all: a result without elements, or that of no term (0 for a sum)."""
    if case.flat and case.slots:
        arrays = case.list_of({slot: np.zeros(0) for slot in case.slots})
        if arrays is not None:
            yield Draft(arrays, "no elements")
    elif case.growth is not None and case.growth.free and case.operator.id in _DEFINED_FOR_NONE:
        arrays = case.shaped({}, 0)
        if arrays is not None:
            yield Draft(arrays, "no terms along the axis")


def _laid(case: Case, layout: str, rank: int) -> Iterator[Draft]:
    """Values in a layout, in arrays of at least that many axes; every value of the format where there is one input."""
    ranks = [len(item.shape) for item in case.operator.inputs if item.kind in ("float", "complex")]
    if layout == "channels_last" and max(ranks, default=0) < rank:
        return
    if case.flat and case.slots:
        if len(case.slots) == 1 and listable(case.format_):
            lists = {case.slots[0]: every_value(case.format_)}
            why = f"every value of {case.format_}"
        else:
            lists = {slot: _mixed(case, min(case.size.samples, 20_000)) for slot in case.slots}
            why = "exponents spread evenly, and boundary values"
        arrays = case.list_of(lists, lambda count: _shape(count, rank))
        if arrays is not None:
            yield Draft(arrays, f"{why}, {layout.replace('_', ' ')}", layout)
        return
    if not case.slots or max(ranks, default=0) < rank:
        return
    length = case.length(_ODD)
    if (arrays := case.shaped({}, length)) is not None:
        yield Draft(arrays, f"values of the row's ranges, {layout.replace('_', ' ')}", layout)


def _shape(count: int, rank: int) -> tuple[int, ...]:
    """A shape of that many axes for about ``count`` values: odd sizes, in which no two axes are equal."""
    match rank:
        case 1:
            return (count,)
        case 2:
            rows = max(1, int(np.sqrt(count)) | 1)
            return (rows, max(1, -(-count // rows)))
    rows = max(1, int(np.sqrt(count / 10)) | 1)
    return (2, 5, rows, max(1, -(-count // (10 * rows))))


def _single(case: Case) -> Iterator[Arrays]:
    """Inputs of one element each, of the values that the domain allows."""
    if not case.flat or not case.slots:
        return
    # More than asked: the domain may refuse some.
    left = case.size.probes
    for number in range(len(_PROBES)):
        values = {
            slot: round_to_format(np.array([_PROBES[(number + 5 * place) % len(_PROBES)]]), case.format_)
            for place, slot in enumerate(case.slots)
        }
        if left and (arrays := case.list_of(values, lambda count: (count,))) is not None:
            left -= 1
            yield arrays


def _probes(case: Case, count: int) -> dict[str, np.ndarray]:
    """Lists that begin with the single values; in the row's range behind them, more than asked: a domain takes some."""
    found = {}
    for place, slot in enumerate(case.slots):
        first = inside(np.roll(_PROBES, -5 * place), case.format_)
        rest = case.typical(slot, (4 * count,))
        found[slot] = np.concatenate([first, rest])
    return found


def _mixed(case: Case, count: int) -> np.ndarray:
    spread = stratified(case.generator, count // 2, case.format_)
    listed = case.generator.choice(boundary_values(case.format_), count - count // 2)
    mixed: np.ndarray = np.concatenate([spread, listed])
    result: np.ndarray = case.generator.permutation(mixed)
    return result
