"""Relatives of softmax, and normalizations: batch, layer, group, instance, root mean square, local response."""

from __future__ import annotations

from collections.abc import Sequence

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.functions import exp, log, log1p, sqrt
from opscanner.dynamic.oracle.references.arrays import Array, fixed, padded, where
from opscanner.dynamic.oracle.references.reductions import (
    centered,
    mean,
    norm,
    other_exponentials,
    total,
    var,
)
from opscanner.dynamic.oracle.references.softmax import softmax
from opscanner.dynamic.oracle.sums import sum_

#: RenormKernel.cpp, renorm_scale_factor_impl.
_RENORM_EPS = 1e-7


def log_softmax(x: Array, axis: int = -1) -> Array:
    """``x - log(sum(exp(x)))`` along an axis; near 0 it keeps its digits."""
    rows = anp.moveaxis(x, axis, -1)
    top = anp.max(fixed(rows), axis=-1, keepdims=True)
    logarithm = log1p(other_exponentials(rows, top))
    return anp.moveaxis((rows - top) - logarithm[..., None], -1, axis)


def masked_softmax(x: Array, mask: Array, axis: int = -1) -> Array:
    """The softmax over the elements where ``mask`` holds; 0 elsewhere."""
    return softmax(where(mask, x, -np.inf), axis)


def batch_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 0.0, axis: int = 1
) -> Array:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the batch's own statistics (population variance)."""
    axes = tuple(one for one in range(x.ndim) if one != axis % x.ndim)
    return _scaled(_whitened(x, axes, eps), weight, bias, axis)


def batch_norm_inference(
    x: Array, average: Array, variance: Array, weight: Array | None, bias: Array | None, eps: float, axis: int = 1
) -> Array:
    """``(x - average) / sqrt(variance + eps) * weight + bias`` with given statistics."""
    distance = (x - _along(average, x, axis)) / sqrt(_along(variance, x, axis) + eps)
    return _scaled(distance, weight, bias, axis)


def batch_statistics(x: Array, correction: int = 1) -> tuple[Array, Array]:
    """Mean and variance of each channel of ``(n, c, ...)``."""
    axes = tuple(one for one in range(x.ndim) if one != 1)
    return mean(x, axes), var(x, axes, correction)


def layer_norm(
    x: Array, dimensions: int = 1, weight: Array | None = None, bias: Array | None = None, eps: float = 0.0
) -> Array:
    """Normalized over the last ``dimensions`` dimensions, then scaled and shifted elementwise."""
    result = _whitened(x, tuple(range(x.ndim - dimensions, x.ndim)), eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def group_norm(
    x: Array, groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 0.0
) -> Array:
    """Normalized over each of ``groups`` groups of channels of ``(n, c, ...)``; weight and bias are the channels'."""
    grouped = anp.reshape(x, (x.shape[0], groups, -1))
    return _scaled(anp.reshape(_whitened(grouped, (2,), eps), x.shape), weight, bias, 1)


def instance_norm(x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 0.0) -> Array:
    """Normalized over the positions of each channel of each example."""
    return _scaled(_whitened(x, tuple(range(2, x.ndim)), eps), weight, bias, 1)


def rms_norm(x: Array, weight: Array | None = None, eps: float = 0.0) -> Array:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last dimension."""
    result = x / sqrt(mean(x * x, -1, keepdims=True) + eps)
    return result if weight is None else result * weight


def local_response_norm(x: Array, radius: int, bias: float, alpha: float, beta: float, axis: int = 1) -> Array:
    """``x / (bias + alpha * sum(x**2))**beta``, the sum over ``radius`` channels on either side."""
    moved = anp.moveaxis(x, axis, -1)
    squares = padded(moved * moved, [(0, 0)] * (x.ndim - 1) + [(radius, radius)])
    size = moved.shape[-1]
    near = sum_(anp.stack([squares[..., k : k + size] for k in range(2 * radius + 1)], axis=-1), axis=-1)
    base = bias + alpha * near
    scale = 1 / sqrt(base) if beta == 0.5 else exp(-beta * log(base))
    return anp.moveaxis(moved * scale, -1, axis)


def normalize(x: Array, order: float = 2, axis: int = 1, eps: float = 0.0) -> Array:
    """``x / max(norm(x), eps)`` along an axis."""
    size = norm(x, order, axis, keepdims=True)
    return x / where(fixed(size) <= eps, eps, size)


def renorm(x: Array, order: float, axis: int, largest_norm: float) -> Array:
    """Slices along ``axis`` whose norm exceeds ``largest_norm`` scaled down to it (torch adds 1e-7 to the norm)."""
    others = tuple(one for one in range(x.ndim) if one != axis % x.ndim)
    size = norm(x, order, others, keepdims=True)
    return x * where(fixed(size) <= largest_norm, 1.0, largest_norm / (size + _RENORM_EPS))


def weight_norm(v: Array, g: Array, axis: int = 0) -> Array:
    """``g * v / norm(v)``, the norm over all dimensions but ``axis``."""
    others = tuple(one for one in range(v.ndim) if one != axis % v.ndim)
    return v * (g / norm(v, 2, others, keepdims=True))


def moments(x: Array, axis: int | Sequence[int], keepdims: bool = False) -> tuple[Array, Array]:
    """Mean and population variance."""
    return mean(x, axis, keepdims), var(x, axis, 0, keepdims)


def contrast(x: Array, factor: float, axis: Sequence[int]) -> Array:
    """``(x - mean) * factor + mean``."""
    return centered(x, axis) * factor + mean(x, axis, keepdims=True)


def standardized(x: Array, axis: Sequence[int], smallest: float = 0.0) -> Array:
    """``(x - mean) / max(std, smallest)``."""
    deviation = sqrt(var(x, axis, 0, keepdims=True))
    return centered(x, axis) / where(fixed(deviation) <= smallest, smallest, deviation)


def clipped_by_norm(x: Array, largest_norm: float) -> Array:
    """``x`` scaled down to ``largest_norm`` where its norm is larger."""
    size = sqrt(total(x * x))
    return where(fixed(size) <= largest_norm, x, x * largest_norm / size)


def _whitened(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    distance = centered(x, axes)
    return distance / sqrt(mean(distance * distance, axes, keepdims=True) + eps)


def _scaled(x: Array, weight: Array | None, bias: Array | None, axis: int) -> Array:
    x = x if weight is None else x * _along(weight, x, axis)
    return x if bias is None else x + _along(bias, x, axis)


def _along(values: Array, x: Array, axis: int) -> Array:
    shape = [1] * x.ndim
    shape[axis] = -1
    return anp.reshape(values, shape)
