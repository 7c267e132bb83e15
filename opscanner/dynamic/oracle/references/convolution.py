"""Convolutions of ``(n, c, ...)`` by ``(out, in, ...)`` and their transposes: exact sums of products."""

from __future__ import annotations

from collections.abc import Sequence

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.references.arrays import Array, padded, zeros
from opscanner.dynamic.oracle.references.pooling import sized, windows
from opscanner.dynamic.oracle.sums import matmul

Sizes = int | Sequence[int]


def conv(
    x: Array,
    w: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    """The cross-correlation of ``x`` and ``w``, in groups of channels; the bias is added last."""
    rank = x.ndim - 2
    stride, padding, dilation = sized(stride, rank), sized(padding, rank), sized(dilation, rank)
    x = padded(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    near = windows(x, w.shape[2:], stride, dilation)  # (n, c, positions..., k)
    examples, channels, *positions, size = near.shape
    inside, outside = channels // groups, w.shape[0] // groups
    found = []
    for group in range(groups):
        part = anp.moveaxis(near[:, group * inside : (group + 1) * inside], 1, -2)
        rows = anp.reshape(part, (-1, inside * size))
        columns = anp.reshape(w[group * outside : (group + 1) * outside], (outside, -1))
        product = anp.reshape(matmul(rows, anp.transpose(columns)), (examples, *positions, outside))
        found.append(anp.moveaxis(product, -1, 1))
    result = anp.concatenate(found, axis=1)
    return result if bias is None else result + anp.reshape(bias, (-1, *[1] * rank))


def conv_transpose(
    x: Array,
    w: Array,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    """The gradient of :func:`conv` with respect to its input, ``x`` being upstream: a convolution of ``x`` with zeros
    between its elements by the filter turned round."""
    rank = x.ndim - 2
    stride, padding, dilation = sized(stride, rank), sized(padding, rank), sized(dilation, rank)
    more = sized(output_padding, rank)
    reach = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    spread = _spread(x, stride)
    widths = [(r - p, r - p + o) for r, p, o in zip(reach, padding, more, strict=True)]
    outside = w.shape[1]
    backwards = (..., *[slice(None, None, -1)] * rank)
    parts = anp.reshape(w[backwards], (groups, w.shape[0] // groups, outside, *w.shape[2:]))
    filters = anp.reshape(anp.swapaxes(parts, 1, 2), (groups * outside, w.shape[0] // groups, *w.shape[2:]))
    return conv(padded(spread, [(0, 0), (0, 0), *widths]), filters, dilation=dilation, groups=groups)


def _spread(x: Array, stride: Sequence[int]) -> Array:
    """``x`` with ``stride - 1`` zeros between its elements."""
    for axis, step in enumerate(stride, start=2):
        if step > 1:
            size = x.shape[axis]
            places = np.full((size - 1) * step + 1, size)
            places[::step] = np.arange(size)
            shape = [*x.shape[:axis], 1, *x.shape[axis + 1 :]]
            widened = anp.concatenate([x, zeros(shape, x)], axis=axis)
            x = widened[(slice(None),) * axis + (places,)]
    return x


def conv_input_gradient(
    shape: Sequence[int],
    w: Array,
    upstream: Array,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    """The gradient of :func:`conv` with respect to an input of ``shape``."""
    rank = len(shape) - 2
    sizes = zip(shape[2:], upstream.shape[2:], w.shape[2:], strict=True)
    steps = zip(sized(stride, rank), sized(padding, rank), sized(dilation, rank), strict=True)
    more = [n + 2 * p - (m - 1) * s - d * (k - 1) - 1 for (n, m, k), (s, p, d) in zip(sizes, steps, strict=True)]
    return conv_transpose(upstream, w, stride, padding, more, dilation, groups)


def dilation2d(x: Array, w: Array) -> Array:
    """The largest of ``x + w`` over each window, channel by channel (grey-scale dilation)."""
    near = windows(x, w.shape[1:], (1, 1), (1, 1))
    return anp.max(near + anp.reshape(w, (1, w.shape[0], 1, 1, -1)), axis=-1)
