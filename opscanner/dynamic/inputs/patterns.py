"""Values laid along the axis that an operator sums over, and what strategies yield."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from opscanner.dynamic.inputs.fitting import Arrays, Case
from opscanner.precision.formats import FORMATS
from opscanner.precision.layout import layout_of

#: Kinds that move, compare, make or solve: a pattern along an axis tells nothing of them.
_WITHOUT_SUMS = frozenset(
    {
        *("shape", "shape gradient", "creation", "random", "cast", "search", "selection", "complex"),
        *("linear algebra", "linear algebra gradient", "unary", "unary gradient", "binary", "binary gradient"),
        *("ternary", "n-ary", "elementwise", "optimizer", "quantization", "quantization gradient"),
    }
)


#: The largest value fed to sums in formats that reach as far as float32: 2**15 products of two such values add up to
#: less than 2**127, so that accumulators in float32 do not overflow. Nobody accumulates bfloat16 or float32 in float64.
_FITS_FLOAT32 = 2.0**56


class Draft(NamedTuple):
    """A batch before it has a name: its inputs, what they are there to show, their layout."""

    inputs: Arrays
    why: str
    layout: str = "contiguous"


def sums(case: Case) -> bool:
    """True for operators that add up, multiply up or normalize along an axis, as far as their kind says."""
    if case.flat or case.operator.elementwise or not case.slots:
        return False
    return (
        case.operator.kind not in _WITHOUT_SUMS
        or (case.growth is not None and bool(case.growth.repeated))
        or (case.operator.kind == "shape gradient" and case.growth is not None)
    )


def is_wide(format_: str) -> bool:
    """True for formats whose largest values a float32 accumulator cannot add or square: bfloat16, float32, float64."""
    return layout_of(format_).emax >= FORMATS["float32"].emax


def largest_fed(case: Case) -> float:
    """The format's largest value, or less where an operator sums; strategy ``end_of_range`` alone goes beyond."""
    return _FITS_FLOAT32 if is_wide(case.format_) and sums(case) else layout_of(case.format_).largest


def along(case: Case, pattern: Callable[[int], np.ndarray], wanted: int, every: bool = False) -> Iterator[Arrays]:
    """Inputs with a pattern along the growing axis, about ``wanted`` long, in one input after the other.

    The other inputs hold :meth:`~opscanner.dynamic.inputs.fitting.Case.simple` values: the sum of products is then the
    sum of the pattern. Inputs outside of the domain are left out.

    Parameters
    ----------
    pattern : callable
        The values for a length.
    every : bool
        The pattern in all inputs together alone.
    """
    length = case.length(wanted)
    places = {slot: _axes(case, slot) for slot in case.slots}
    laid = tuple(slot for slot in case.slots if places[slot])
    for chosen in (laid,) if every else _choices(case, laid):
        values = {}
        for slot in case.slots:
            shape = case.shape(slot, length)
            values[slot] = lay(pattern, shape, places[slot]) if slot in chosen else np.full(shape, case.simple(slot))
        if (arrays := case.shaped(values, length, strict=True)) is not None:
            yield arrays


def lay(pattern: Callable[[int], np.ndarray], shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    """The pattern along a block of axes, the same for every place of the others.

    >>> lay(np.arange, (2, 3), (1,)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    block = tuple(size if axis in axes else 1 for axis, size in enumerate(shape))
    result: np.ndarray = np.broadcast_to(pattern(int(np.prod(block))).reshape(block), shape)
    return result


def filled(case: Case, make: Callable[[int], np.ndarray], wanted: int | None = None) -> Arrays | None:
    """Inputs that hold made values everywhere, those outside of the domain replaced."""
    length = None if wanted is None else case.length(wanted)
    values = {}
    for slot in case.slots:
        shape = case.shape(slot, length)
        values[slot] = make(int(np.prod(shape))).reshape(shape)
    return case.shaped(values, length)


def _axes(case: Case, slot: str) -> tuple[int, ...]:
    """Axes of a slot that grow; without growth all but the first."""
    shape = case.shape(slot, None)
    if case.growth is not None:
        return tuple(axis for axis, size in enumerate(shape) if size == case.growth.size)
    return tuple(range(min(1, len(shape) - 1), len(shape))) if shape else ()


def _choices(case: Case, laid: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The first input, the last (an upstream gradient), all together."""
    last = (laid[-1:],) if case.operator.direction == "backward" else ()
    return tuple(dict.fromkeys((laid[:1], *last, laid)))
