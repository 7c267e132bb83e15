"""Arrays in any of the three arithmetics (float64, longdouble, balls): what reference functions need beside arithmetic.

Choices (which element is largest, which index) are made on values and are constants to a derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.tracer import getval

from opscanner.dynamic.oracle.balls import to_balls

Array = Any


def fixed(x: Array) -> Array:
    """The values of ``x``, constant to a derivative."""
    while getval(x) is not x:
        x = getval(x)
    return x


def filled(shape: int | Sequence[int], value: float, like: Array) -> Array:
    """An array of one value in the arithmetic of ``like``."""
    values = np.asarray(fixed(like))
    if values.dtype != object:
        return np.full(shape, value, dtype=values.dtype if values.dtype.kind == "f" else np.float64)
    return np.asarray(to_balls(np.full(shape, value)))


def zeros(shape: int | Sequence[int], like: Array) -> Array:
    """Zeros in the arithmetic of ``like``."""
    return filled(shape, 0.0, like)


def where(condition: Array, x: Array, y: Array) -> Array:
    """``x`` where the condition holds, else ``y``; plain numbers are brought into the other's arithmetic."""
    if isinstance(x, (int, float)):
        x = filled((), x, y)
    if isinstance(y, (int, float)):
        y = filled((), y, x)
    return anp.where(np.asarray(fixed(condition), dtype=bool), x, y)


def largest_index(x: Array, axis: int = -1) -> Array:
    """The index of the first largest element along an axis; of the first NaN where there is one."""
    values = fixed(x)
    if values.dtype == object:
        values = values.astype(float)
    return np.asarray(np.argmax(values, axis=axis))


def largest(x: Array, axis: int = -1) -> Array:
    """True at the first largest element along an axis, False elsewhere."""
    values = np.asarray(fixed(x))
    places = np.expand_dims(largest_index(x, axis), axis)
    shape = [1] * values.ndim
    shape[axis] = -1
    return np.asarray(np.arange(values.shape[axis]).reshape(shape) == places)


def signs(x: Array) -> Array:
    """-1, 0 or 1 as ``x`` is below, at or above 0; 0 for NaN. A constant to a derivative."""
    values = np.asarray(fixed(x))
    return np.asarray(values > 0, dtype=bool).astype(np.int64) - np.asarray(values < 0, dtype=bool).astype(np.int64)


def absolute(x: Array) -> Array:
    """The magnitude; its derivative at 0 is 0, as in both frameworks."""
    return x * signs(x)


def padded(x: Array, widths: Sequence[tuple[int, int]], value: float = 0.0) -> Array:
    """``x`` with ``value`` around it, ``(before, after)`` for each dimension; negative widths cut."""
    for axis, (before, after) in enumerate(widths):
        if before < 0 or after < 0:
            kept = slice(max(-before, 0), x.shape[axis] - max(-after, 0))
            x = x[(slice(None),) * axis + (kept,)]
        sides = []
        for width in (before, after):
            shape = list(x.shape)
            shape[axis] = max(width, 0)
            sides.append(filled(shape, value, x))
        if before > 0 or after > 0:
            x = anp.concatenate([sides[0], x, sides[1]], axis=axis)
    return x


def axes_of(x: Array, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that ``axis`` means, counted from 0."""
    rank = len(np.shape(fixed(x)))
    if axis is None:
        return tuple(range(rank))
    chosen = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(one % rank for one in chosen)


def count_of(x: Array, axis: int | Sequence[int] | None) -> int:
    """How many elements a reduction over ``axis`` takes in."""
    shape = np.shape(fixed(x))
    count = 1
    for one in axes_of(x, axis):
        count *= shape[one]
    return count


def last(x: Array, axis: int | Sequence[int] | None) -> Array:
    """``x`` with the dimensions of ``axis`` moved to the end and made one."""
    chosen = axes_of(x, axis)
    kept = [one for one in range(len(x.shape)) if one not in chosen]
    shape = [x.shape[one] for one in kept]
    return anp.reshape(anp.transpose(x, (*kept, *chosen)), (*shape, -1))


def taken(x: Array, places: np.ndarray, axis: int) -> Array:
    """The slices of ``x`` at ``places`` along an axis."""
    return x[(slice(None),) * (axis % x.ndim) + (places,)]
