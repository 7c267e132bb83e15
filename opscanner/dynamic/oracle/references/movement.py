"""Moves, choices and searches: what only places values or counts them, so that the reference is the move itself."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.balls import to_balls
from opscanner.dynamic.oracle.references.arrays import Array, filled, fixed, padded, taken, where, zeros
from opscanner.precision.rounding import round_to_format


def same(x: Array) -> Array:
    """``x`` itself."""
    return x


def reshape(x: Array, shape: Sequence[int]) -> Array:
    """The same elements in another shape."""
    return anp.reshape(x, shape)


def transpose(x: Array, order: Sequence[int] | None = None) -> Array:
    """Dimensions in another order."""
    return anp.transpose(x, order)


def concatenate(parts: Sequence[Array], axis: int = 0) -> Array:
    """Arrays one behind the other."""
    return anp.concatenate(list(parts), axis=axis)


def stack(parts: Sequence[Array], axis: int = 0) -> Array:
    """Arrays along a new dimension."""
    return anp.stack(list(parts), axis=axis)


def unstack(x: Array, axis: int = 0) -> tuple[Array, ...]:
    """The slices along a dimension."""
    moved = anp.moveaxis(x, axis, 0)
    return tuple(moved[place] for place in range(moved.shape[0]))


def split(x: Array, sizes: Sequence[int], axis: int = 0) -> tuple[Array, ...]:
    """Parts of the given sizes."""
    ends = np.cumsum([0, *sizes])
    moved = anp.moveaxis(x, axis, 0)
    return tuple(anp.moveaxis(moved[a:b], 0, axis) for a, b in itertools.pairwise(ends))


def tile(x: Array, counts: Sequence[int]) -> Array:
    """``x`` repeated along each dimension."""
    for axis, count in enumerate(counts):
        x = anp.concatenate([x] * count, axis=axis)
    return x


def broadcast_to(x: Array, shape: Sequence[int]) -> Array:
    """``x`` repeated where its dimensions are 1."""
    return tile(x, [size // own for size, own in zip(shape, x.shape, strict=True)])


def pad(x: Array, widths: Sequence[tuple[int, int]], value: float = 0.0) -> Array:
    """``x`` with a value around it."""
    return padded(x, widths, value)


def mirror_pad(x: Array, widths: Sequence[tuple[int, int]], edge: bool = False) -> Array:
    """``x`` continued by its reflection, without the edge itself or with it."""
    for axis, (before, after) in enumerate(widths):
        x = taken(x, _mirrored(x.shape[axis], before, after, edge), axis)
    return x


def replication_pad(x: Array, widths: Sequence[tuple[int, int]]) -> Array:
    """``x`` continued by its outermost elements."""
    for axis, (before, after) in enumerate(widths):
        places = np.clip(np.arange(-before, x.shape[axis] + after), 0, x.shape[axis] - 1)
        x = taken(x, places, axis)
    return x


def circular_pad(x: Array, widths: Sequence[tuple[int, int]]) -> Array:
    """``x`` continued by its other end."""
    for axis, (before, after) in enumerate(widths):
        x = taken(x, np.arange(-before, x.shape[axis] + after) % x.shape[axis], axis)
    return x


def _mirrored(size: int, before: int, after: int, edge: bool) -> Array:
    places = np.arange(-before, size + after)
    left = np.where(places < 0, -places - (1 if edge else 0), places)
    return np.asarray(np.where(left >= size, 2 * size - left - (1 if edge else 2), left))


def flip(x: Array, axis: int) -> Array:
    """The other way round along a dimension."""
    return anp.moveaxis(anp.moveaxis(x, axis, 0)[::-1], 0, axis)


def roll(x: Array, shift: int, axis: int) -> Array:
    """``x`` moved along a dimension, what leaves at one end entering at the other."""
    return taken(x, (np.arange(x.shape[axis]) - shift) % x.shape[axis], axis)


def pixel_shuffle(x: Array, factor: int) -> Array:
    """``(n, c * r * r, h, w)`` to ``(n, c, h * r, w * r)``."""
    n, c, h, w = x.shape
    parts = anp.reshape(x, (n, c // factor**2, factor, factor, h, w))
    return anp.reshape(anp.transpose(parts, (0, 1, 4, 2, 5, 3)), (n, c // factor**2, h * factor, w * factor))


def pixel_unshuffle(x: Array, factor: int) -> Array:
    """``(n, c, h * r, w * r)`` to ``(n, c * r * r, h, w)``."""
    n, c, h, w = x.shape
    parts = anp.reshape(x, (n, c, h // factor, factor, w // factor, factor))
    return anp.reshape(anp.transpose(parts, (0, 1, 3, 5, 2, 4)), (n, c * factor**2, h // factor, w // factor))


def diagonal(x: Array, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two dimensions."""
    rows, columns = _diagonal_places(x.shape[-2], x.shape[-1], offset)
    return x[..., rows, columns]


def diagonal_matrix(x: Array, offset: int = 0) -> Array:
    """Square matrices with ``x`` on a diagonal."""
    size = x.shape[-1] + abs(offset)
    rows, columns = _diagonal_places(size, size, offset)
    flat = np.zeros((x.shape[-1], size * size), dtype=bool)
    flat[np.arange(x.shape[-1]), rows * size + columns] = True
    places = np.where(flat.any(axis=0), flat.argmax(axis=0), x.shape[-1])
    widened = anp.concatenate([x, zeros((*x.shape[:-1], 1), x)], axis=-1)
    return anp.reshape(widened[..., places], (*x.shape[:-1], size, size))


def with_diagonal(x: Array, values: Array, offset: int = 0) -> Array:
    """``x`` with another diagonal in its last two dimensions."""
    rows, columns = _diagonal_places(x.shape[-2], x.shape[-1], offset)
    result = np.array(fixed(x))
    result[..., rows, columns] = fixed(values)
    return result


def _diagonal_places(rows: int, columns: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
    places = np.arange(min(rows + min(offset, 0), columns - max(offset, 0)))
    return places + max(-offset, 0), places + max(offset, 0)


def band(x: Array, lower: int, upper: int) -> Array:
    """0 beyond ``lower`` diagonals below and ``upper`` above the main one; -1 keeps all on that side."""
    rows, columns = np.arange(x.shape[-2])[:, None], np.arange(x.shape[-1])[None]
    kept = ((rows - columns <= lower) | (lower < 0)) & ((columns - rows <= upper) | (upper < 0))
    return where(np.broadcast_to(kept, x.shape), x, 0.0)


def placed(shape: Sequence[int], place: object, values: Array) -> Array:
    """Zeros of ``shape`` with ``values`` at ``place``, an index."""
    return replaced(zeros(shape, values), place, values)


def replaced(x: Array, place: object, values: Array) -> Array:
    """``x`` with ``values`` at ``place``, an index without repetitions."""
    result = np.array(fixed(x))
    result[place] = fixed(values)
    return result


def clamp(x: Array, low: Array, high: Array) -> Array:
    """``min(max(x, low), high)``, NaN kept."""
    x = where(fixed(x) < fixed(low), low, x)
    return where(fixed(x) > fixed(high), high, x)


def sorted_rows(x: Array, descending: bool = False) -> Array:
    """Rows in order, NaN counting as largest."""
    values = np.asarray(fixed(x))
    order = np.argsort(values.astype(float), axis=-1, kind="stable")
    result = np.take_along_axis(values, order, -1)
    return result[..., ::-1] if descending else result


def top_k(x: Array, k: int) -> tuple[Array, Array]:
    """The ``k`` largest of each row, descending, and their places; of equal ones the first."""
    values = np.asarray(fixed(x))
    order = np.argsort(-values.astype(float), axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(values, order, -1), order


def full(shape: Sequence[int], value: float) -> Array:
    """One value everywhere."""
    return np.full(shape, value)


def full_like(x: Array, value: float) -> Array:
    """One value in the shape of ``x``."""
    return filled(x.shape, value, x)


def cast(x: Array, format_: str) -> Array:
    """``x`` rounded once to a float format, ties to even."""
    values = np.asarray(fixed(x))
    rounded = np.asarray(round_to_format(values.astype(float), format_))
    return to_balls(rounded) if values.dtype == object else rounded.astype(values.dtype)


def whole(x: Array) -> Array:
    """Integers, towards zero."""
    return np.trunc(np.asarray(fixed(x)).astype(float)).astype(np.int64)


def bits_of_doubles(x: Array) -> Array:
    """The bit patterns of float64 numbers."""
    return np.asarray(fixed(x)).astype(np.float64).view(np.int64)


def quantized(x: Array, scale: Array, zero: int, low: int, high: int) -> Array:
    """``x`` on the grid of ``scale``, ties to even, between ``low`` and ``high`` steps less ``zero``."""
    steps = np.rint(np.asarray(fixed(x / scale)).astype(float)) + zero
    return filled(x.shape, 1.0, x) * (np.clip(steps, low, high) - zero) * scale


def quantized_gradient(x: Array, upstream: Array, scale: float, zero: int, low: int, high: int) -> Array:
    """``upstream`` where ``x`` is inside the grid, else 0."""
    steps = np.rint(np.asarray(fixed(x / scale)).astype(float)) + zero
    return where((steps >= low) & (steps <= high), upstream, 0.0)
