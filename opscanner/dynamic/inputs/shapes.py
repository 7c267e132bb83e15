"""Which axis of an operator's inputs may be longer than its row in the table says, and what must grow with it.

Axes of equal size in one row are taken for the same axis, in every input. A size may change only where nothing holds
it: neither call names it, no expression of the inputs is written for it, and operators of the kind work for any size.
Of index lists only those that already name a slot twice may be repeated: elsewhere two writes to one slot have no
defined result. Lengths are multiples of the size in the row, so that divisions (groups, windows) come out even, unless
:attr:`Growth.free`.

``opscanner/operators/inputs.py`` decides likewise for the recipes of ``testlist``, which grow the longest axis alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from opscanner.operators.catalog import Operator
from opscanner.operators.pairs import PairInput

#: Kinds of operators that work for any length of their axes, in which no window, block or group sits.
_FREE = frozenset(
    {
        *("reduction", "reduction gradient", "scan", "scan gradient", "softmax", "softmax gradient", "loss"),
        *("loss gradient", "matmul", "matmul gradient", "attention", "attention gradient"),
    }
)
#: Kinds that work for multiples of their row's sizes.
_MULTIPLES = frozenset(
    {
        *("normalization", "normalization gradient", "convolution", "pooling", "fft", "search", "selection"),
    }
)
#: Kinds of which only rows with an index for every element along the axis grow: sums into slots.
_INDEXED = frozenset({"segment", "shape", "shape gradient", "embedding", "embedding gradient", "sparse"})
#: Kinds in images of which the summed axes are the last two, which have one size.
_SPATIAL = frozenset({"normalization", "normalization gradient", "pooling", "image_processing", "convolution"})


@dataclass(frozen=True)
class Growth:
    """An axis that may have another length.

    Parameters
    ----------
    size : int
        Its size in the operator's row.
    axes : int
        How often one input has it: a block of that many equal axes grows together.
    repeated : tuple of str
        Index lists (expressions) that are repeated along it.
    free : bool
        True when any length will do, 1 included; False for multiples of ``size``.
    """

    size: int
    axes: int
    repeated: tuple[str, ...]
    free: bool

    def length(self, wanted: int) -> int:
        """The length of each axis that makes the whole block about ``wanted`` long."""
        each = math.ceil(math.pow(wanted, 1 / self.axes) - 1e-9)
        return each if self.free else max(1, math.ceil(each / self.size)) * self.size


def find_growth(operator: Operator, sample: Mapping[str, np.ndarray]) -> Growth | None:
    """The axis of an operator that may grow and that its results depend on most; None where none may.

    Parameters
    ----------
    sample : mapping
        Inputs in the shapes of the operator's row: the expressions' values are looked at.
    """
    kind, calls = operator.kind, " ".join(operator.calls.values())
    # A transposed convolution states its output's shape; images are resized to a stated one, unless they are averaged.
    # The heads of attention divide an axis by numbers that its size does not show.
    known = kind in _FREE | _MULTIPLES | _INDEXED or (kind == "image_processing" and "mean(" in calls)
    if not known or "Backprop" in calls or "multi_head" in calls:
        return None
    shapes = [item.shape for item in operator.inputs if item.kind in ("float", "complex")]
    sizes = {size for shape in shapes for size in shape if size > 1}
    spatial = kind in _SPATIAL and any(len(shape) > 3 for shape in shapes)

    def first(size: int) -> tuple[bool, int]:
        return not (spatial and any(shape.count(size) > 1 for shape in shapes)), -size

    # The longest axis is the one that a row was written to sum along: if it may not grow, another would show nothing.
    candidates = sorted(sizes, key=first)[: None if kind in _INDEXED else 1]
    found = (_growth(operator, size, sample) for size in candidates)
    return next((growth for growth in found if growth is not None), None)


def grown_shape(item: PairInput, growth: Growth | None, length: int | None) -> tuple[int, ...]:
    """The shape of an input when the growing axis is ``length`` long; its own where nothing grows."""
    if growth is None or length is None:
        return item.shape
    return tuple(length if size == growth.size else size for size in item.shape)


def grown_expression(item: PairInput, growth: Growth | None, length: int | None) -> str:
    """The expression of an input, its index list repeated to ``length`` in ascending order, so that segments hold."""
    if growth is None or length is None or item.name not in growth.repeated:
        return item.expression
    whole = f"np.arange({growth.size})"
    if whole in item.expression:
        return item.expression.replace(whole, f"np.sort(np.resize({whole}, {length}))")
    return f"np.sort(np.resize({item.expression}, {length}))"


def _growth(operator: Operator, size: int, sample: Mapping[str, np.ndarray]) -> Growth | None:
    texts = (*operator.calls.values(), operator.reference)
    if _names(size, texts) or _names_product(size, texts, operator.inputs):
        return None
    indices = _indices(operator, size, sample)
    if indices is None:
        return None
    repeated, indexed = indices
    if operator.kind in _INDEXED and not indexed:
        return None
    axes = max(item.shape.count(size) for item in operator.inputs)
    whole_numbers = any(sample[item.name].dtype.kind in "iu" for item in operator.inputs)
    return Growth(size, axes, repeated, operator.kind in _FREE and not whole_numbers)


def _indices(operator: Operator, size: int, sample: Mapping[str, np.ndarray]) -> tuple[tuple[str, ...], bool] | None:
    """Index lists to be repeated along the size, and whether any index runs along it; None where something holds it."""
    repeated: list[str] = []
    followers: set[str] = set()
    indexed = False
    for item in operator.inputs:
        value = sample[item.name]
        if item.kind != "expression":
            indexed |= value.dtype.kind in "iu" and value.shape == (size,)
            continue
        if value.dtype.kind not in "iu":
            if _names(size, (item.expression,)):
                return None
            continue
        if any(re.search(rf"\b{name}\b", item.expression) for name in (*repeated, *followers)):
            followers.add(item.name)
        elif not _repeatable(item, value, size):
            return None
        else:
            repeated.append(item.name)
            indexed = True
    return tuple(repeated), indexed


def _repeatable(item: PairInput, value: np.ndarray, size: int) -> bool:
    """True for a list of ``size`` indices that names a slot twice and holds its size at most as ``np.arange(size)``."""
    if value.shape != (size,) or np.unique(value).size == value.size:
        return False
    rest = item.expression.replace(f"np.arange({size})", "")
    return rest.startswith("np.array([") or not _names(size, (rest,))


def _names(size: int, texts: Iterable[str]) -> bool:
    """True when a text holds the size as a number of its own: arrays of another size would not fit."""
    return any(re.search(rf"(?<![\w.]){size}(?![\w.])", text) for text in texts)


def _names_product(size: int, texts: Iterable[str], inputs: Iterable[PairInput]) -> bool:
    """True when a text holds the size times that of another axis: two axes are made one there."""
    others = {other for item in inputs for other in item.shape if other > 1}
    numbers = {int(number) for text in texts for number in re.findall(r"(?<![\w.])\d+(?![\w.])", text)}
    return bool(numbers & {size * other for other in others})
