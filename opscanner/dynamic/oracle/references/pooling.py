"""Pooling over windows of ``(n, c, ...)``: averages are exact sums divided once, maxima the first of equal elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.functions import exp, log
from opscanner.dynamic.oracle.references.arrays import Array, absolute, fixed, padded
from opscanner.dynamic.oracle.references.reductions import amax, mean
from opscanner.dynamic.oracle.sums import sum_


def sized(value: int | Sequence[int], dimensions: int) -> tuple[int, ...]:
    """One size for each dimension."""
    return (value,) * dimensions if isinstance(value, int) else tuple(value)


def windows(x: Array, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """The windows of the last dimensions of ``x``, elements of a window in a new last dimension."""
    rank = len(kernel)
    sizes = x.shape[-rank:]
    counts = [(size - d * (k - 1) - 1) // s + 1 for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)]
    parts = []
    for offset in itertools.product(*(range(k) for k in kernel)):
        steps = zip(offset, dilation, counts, stride, strict=True)
        place = (..., *(_slice(o * d, n, s) for o, d, n, s in steps))
        parts.append(x[place])
    return anp.stack(parts, axis=-1)


def _slice(start: int, count: int, step: int) -> slice:
    return slice(start, start + (count - 1) * step + 1, step)


def avg_pool(
    x: Array,
    kernel: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int] = 0,
    count_padding: bool = False,
    divisor: int = 0,
) -> Array:
    """The sum of each window over the number of its elements, padding counted or not, or over ``divisor``."""
    rank = x.ndim - 2
    kernel, stride, padding = sized(kernel, rank), sized(stride, rank), sized(padding, rank)
    widths = [(0, 0), (0, 0), *((p, p) for p in padding)]
    ones = (1,) * rank
    sums = sum_(windows(padded(x, widths), kernel, stride, ones), axis=-1)
    counted = np.pad(np.ones(x.shape[2:], dtype=np.int64), widths[2:], constant_values=int(count_padding))
    counts = windows(counted, kernel, stride, ones).sum(axis=-1)
    return sums / (divisor or counts)


def max_pool(
    x: Array,
    kernel: int | Sequence[int],
    stride: int | Sequence[int],
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> Array:
    """The first largest element of each window; NaN wins."""
    rank = x.ndim - 2
    kernel, stride = sized(kernel, rank), sized(stride, rank)
    padding, dilation = sized(padding, rank), sized(dilation, rank)
    widths = [(0, 0), (0, 0), *((p, p) for p in padding)]
    places = np.pad(np.arange(x.size).reshape(x.shape), widths, constant_values=-1)
    seen = windows(places, kernel, stride, dilation)
    flat = np.asarray(fixed(x)).ravel()
    values = np.where(seen < 0, -np.inf, flat.astype(float)[seen])
    first = np.take_along_axis(seen, np.argmax(values, axis=-1)[..., None], -1)[..., 0]
    return anp.reshape(x, (-1,))[first]


def adaptive_avg_pool(x: Array, size: int | Sequence[int]) -> Array:
    """The mean over windows that divide the image into ``size`` parts: from floor(i n / m) to ceil((i + 1) n / m)."""
    return _adaptive(x, size, lambda part: mean(part, -1))


def adaptive_max_pool(x: Array, size: int | Sequence[int]) -> Array:
    """The largest over the windows of :func:`adaptive_avg_pool`."""
    return _adaptive(x, size, lambda part: amax(part, -1))


def _adaptive(x: Array, size: int | Sequence[int], reduce: object) -> Array:
    rank = x.ndim - 2
    size = sized(size, rank)
    found = [
        reduce(anp.reshape(x[part], (*x.shape[:2], -1)))  # type: ignore[operator]
        for part in _parts(x.shape[2:], size)
    ]
    return anp.reshape(anp.stack(found, axis=-1), (*x.shape[:2], *size))


def _parts(sizes: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    for place in itertools.product(*(range(count) for count in counts)):
        cuts = (slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(place, sizes, counts, strict=True))
        yield (..., *cuts)


def lp_pool(x: Array, order: int, kernel: int | Sequence[int], stride: int | Sequence[int]) -> Array:
    """The norm of each window."""
    rank = x.ndim - 2
    near = windows(x, sized(kernel, rank), sized(stride, rank), (1,) * rank)
    size, power = absolute(near), absolute(near)
    for _ in range(order - 1):
        power = power * size
    return exp(log(sum_(power, axis=-1)) / order)


def unfold(x: Array, kernel: int | Sequence[int]) -> Array:
    """The windows of an image as columns: ``(n, c * k * k, windows)``."""
    near = windows(x, sized(kernel, 2), (1, 1), (1, 1))
    n, c, h, w, k = near.shape
    return anp.reshape(anp.transpose(near, (0, 1, 4, 2, 3)), (n, c * k, h * w))


def fold(columns: Array, size: tuple[int, int], kernel: tuple[int, int]) -> Array:
    """The image whose elements are the sums of what :func:`unfold` would have taken from them, rounded once."""
    n, rows, _ = columns.shape
    channels = rows // (kernel[0] * kernel[1])
    counts = (size[0] - kernel[0] + 1, size[1] - kernel[1] + 1)
    blocks = anp.reshape(columns, (n, channels, *kernel, *counts))
    layers = [
        padded(blocks[:, :, i, j], [(0, 0), (0, 0), (i, kernel[0] - 1 - i), (j, kernel[1] - 1 - j)])
        for i, j in itertools.product(range(kernel[0]), range(kernel[1]))
    ]
    return sum_(anp.stack(layers, axis=-1), axis=-1)
