"""Resized and sampled images. Weights of resizes are exact fractions over one denominator; sums of products exact."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.references.arrays import Array, filled, fixed, taken, where
from opscanner.dynamic.oracle.sums import matmul

_HALF = Fraction(1, 2)
#: Keys' parameter of the cubic kernel: torch's and, in ResizeBicubic, TensorFlow's; the antialiased ones take -1/2.
_KEYS = Fraction(-3, 4)


def resize_nearest(x: Array, sizes: Sequence[int], exact: bool = False) -> Array:
    """The source element at ``floor(i n / m)``, or with ``exact`` at ``floor((i + 1/2) n / m)``."""
    for axis, size in enumerate(sizes, start=x.ndim - len(sizes)):
        old = x.shape[axis]
        places = [math.floor((i + (_HALF if exact else 0)) * Fraction(old, size)) for i in range(size)]
        x = taken(x, np.array(places), axis)
    return x


def resize_linear(x: Array, sizes: Sequence[int], align_corners: bool = False) -> Array:
    """Linear along each of the last dimensions; positions of pixels' centers, or of corners aligned."""
    return _resized(x, sizes, lambda old, new: _kernel_weights(old, new, align_corners, 1, _triangle, True))


def resize_cubic(x: Array, sizes: Sequence[int], align_corners: bool = False) -> Array:
    """Cubic (Keys 1981, parameter -3/4) along each of the last dimensions, edges repeated."""
    return _resized(x, sizes, lambda old, new: _kernel_weights(old, new, align_corners, 2, _cubic(_KEYS), False))


def resize_antialiased(x: Array, sizes: Sequence[int], kind: str) -> Array:
    """With a kernel as wide as the reduction, its weights inside the image brought to a sum of 1."""
    kernel, reach = {"linear": (_triangle, 1), "cubic": (_cubic(-_HALF), 2)}[kind]
    return _resized(x, sizes, lambda old, new: _wide_weights(old, new, kernel, reach))


def _resized(x: Array, sizes: Sequence[int], weights: Callable[[int, int], list[list[Fraction]]]) -> Array:
    for axis, size in enumerate(sizes, start=x.ndim - len(sizes)):
        fractions = weights(x.shape[axis], size)
        below = functools.reduce(math.lcm, (one.denominator for row in fractions for one in row), 1)
        whole = np.array([[float(one * below) for one in row] for row in fractions])
        rows = anp.moveaxis(x, axis, -1)
        flat = anp.reshape(rows, (-1, rows.shape[-1]))
        result = matmul(flat, whole.T.astype(_kind(x))) / below
        x = anp.moveaxis(anp.reshape(result, (*rows.shape[:-1], size)), -1, axis)
    return x


def _kind(x: Array) -> np.dtype:
    kind = np.asarray(fixed(x)).dtype
    return kind if kind.kind == "f" else np.dtype(np.float64)


def _position(i: int, old: int, new: int, align_corners: bool) -> Fraction:
    if align_corners:
        return Fraction(i * (old - 1), new - 1) if new > 1 else Fraction(0)
    return (i + _HALF) * Fraction(old, new) - _HALF


def _kernel_weights(
    old: int, new: int, align_corners: bool, reach: int, kernel: Callable[[Fraction], Fraction], hold: bool
) -> list[list[Fraction]]:
    rows = []
    for i in range(new):
        position = _position(i, old, new, align_corners)
        position = max(position, Fraction(0)) if hold else position
        row = [Fraction(0)] * old
        for place in range(math.floor(position) - reach + 1, math.floor(position) + reach + 1):
            row[min(max(place, 0), old - 1)] += kernel(abs(position - place))
        rows.append(row)
    return rows


def _wide_weights(old: int, new: int, kernel: Callable[[Fraction], Fraction], reach: int) -> list[list[Fraction]]:
    scale = max(Fraction(old, new), Fraction(1))
    rows = []
    for i in range(new):
        center = (i + _HALF) * Fraction(old, new)
        row = [kernel(abs(place + _HALF - center) / scale) for place in range(old)]
        rows.append([one / sum(row) for one in row])
    return rows


def _triangle(distance: Fraction) -> Fraction:
    return max(1 - distance, Fraction(0))


def _cubic(a: Fraction) -> Callable[[Fraction], Fraction]:
    def kernel(d: Fraction) -> Fraction:
        if d <= 1:
            return ((a + 2) * d - (a + 3)) * d * d + 1
        return (((d - 5) * d + 8) * d - 4) * a if d < 2 else Fraction(0)

    return kernel


def affine_grid(matrix: Array, size: tuple[int, int], align_corners: bool) -> Array:
    """Sampling places in [-1, 1], ``(n, h, w, 2)``, of the affine maps ``(n, 2, 3)``."""
    lines = []
    for count in size:
        steps = [
            Fraction(2 * i, max(count - 1, 1)) - 1 if align_corners else Fraction(2 * i + 1, count) - 1
            for i in range(count)
        ]
        lines.append([filled((), one.numerator, matrix) / one.denominator for one in steps])
    ones = filled((), 1.0, matrix)
    base = np.array([[[x, y, ones] for x in lines[1]] for y in lines[0]], dtype=np.asarray(fixed(matrix)).dtype)
    flat = base.reshape(1, -1, 3)
    return anp.reshape(matmul(flat, anp.swapaxes(matrix, -1, -2)), (matrix.shape[0], *size, 2))


def grid_sample(x: Array, grid: Array, align_corners: bool, padding: str = "zeros", nearest: bool = False) -> Array:
    """``(n, c, h, w)`` at the places of ``grid`` ``(n, h', w', 2)``, bilinear; beyond the edge 0, or the edge."""
    height, width = x.shape[2:]
    columns = _pixels(grid[..., 0], width, align_corners)
    rows = _pixels(grid[..., 1], height, align_corners)
    if padding == "border":
        columns, rows = _held(columns, width), _held(rows, height)
    if nearest:
        picked = [np.rint(np.asarray(fixed(one)).astype(float)).astype(np.int64) for one in (rows, columns)]
        return _picked(x, picked[0], picked[1])
    top = np.floor(np.asarray(fixed(rows)).astype(float)).astype(np.int64)
    left = np.floor(np.asarray(fixed(columns)).astype(float)).astype(np.int64)
    down, right = rows - top, columns - left
    upper = _picked(x, top, left) * (1 - right)[:, None] + _picked(x, top, left + 1) * right[:, None]
    lower = _picked(x, top + 1, left) * (1 - right)[:, None] + _picked(x, top + 1, left + 1) * right[:, None]
    return upper * (1 - down)[:, None] + lower * down[:, None]


def _pixels(places: Array, size: int, align_corners: bool) -> Array:
    return (places + 1) * (size - 1) / 2 if align_corners else ((places + 1) * size - 1) / 2


def _held(places: Array, size: int) -> Array:
    places = where(fixed(places) < 0, 0.0, places)
    return where(fixed(places) > size - 1, float(size - 1), places)


def _picked(x: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """``x[n, :, rows[n], columns[n]]``, 0 beyond the image."""
    height, width = x.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    examples = np.arange(x.shape[0])[:, None, None]
    values = x[examples, :, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]  # (n, h', w', c)
    values = anp.moveaxis(values, -1, 1)
    return where(np.broadcast_to(inside[:, None], values.shape), values, 0.0)
