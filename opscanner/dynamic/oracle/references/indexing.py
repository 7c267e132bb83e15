"""Gathers, scatters, segments, embeddings, counts and searches. Sums that meet in one place are exact, rounded once."""

from __future__ import annotations

import itertools

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.functions import sqrt
from opscanner.dynamic.oracle.references.arrays import Array, filled, fixed, where, zeros
from opscanner.dynamic.oracle.references.reductions import amax, amin, mean, prod
from opscanner.dynamic.oracle.sums import sum_


def embedding(table: Array, indices: np.ndarray) -> Array:
    """Rows of a table."""
    return table[np.asarray(indices)]


def segment_sum(x: Array, segments: np.ndarray, count: int) -> Array:
    """The sum of the rows of each segment; 0 for one without rows."""
    return _by_segment(lambda rows: sum_(rows, axis=0), x, segments, count, 0.0)


def segment_mean(x: Array, segments: np.ndarray, count: int) -> Array:
    """The mean of the rows of each segment; 0 for one without rows."""
    return _by_segment(lambda rows: mean(rows, 0), x, segments, count, 0.0)


def segment_sqrt_n(x: Array, segments: np.ndarray, count: int) -> Array:
    """The sum of the rows of each segment over the square root of their number; 0 for one without rows."""
    return _by_segment(lambda rows: sum_(rows, axis=0) / sqrt(filled((), len(rows), x)), x, segments, count, 0.0)


def segment_prod(x: Array, segments: np.ndarray, count: int) -> Array:
    """The product of the rows of each segment; 1 for one without rows."""
    return _by_segment(lambda rows: prod(rows, 0), x, segments, count, 1.0)


def segment_max(x: Array, segments: np.ndarray, count: int, empty: float = 0.0) -> Array:
    """The largest of the rows of each segment."""
    return _by_segment(lambda rows: amax(rows, 0), x, segments, count, empty)


def segment_min(x: Array, segments: np.ndarray, count: int, empty: float = 0.0) -> Array:
    """The smallest of the rows of each segment."""
    return _by_segment(lambda rows: amin(rows, 0), x, segments, count, empty)


def _by_segment(function: object, x: Array, segments: np.ndarray, count: int, empty: float) -> Array:
    places = np.asarray(segments)
    order = np.argsort(places, kind="stable")
    ends: Array = np.searchsorted(places[order], np.arange(count + 1))
    nothing = filled(x.shape[1:], empty, x)
    found = [
        function(x[order[a:b]]) if a < b else nothing  # type: ignore[operator]
        for a, b in itertools.pairwise(ends)
    ]
    return anp.stack(found, axis=0)


def index_add(x: Array, indices: np.ndarray, updates: Array, scale: float = 1.0, axis: int = 0) -> Array:
    """``x`` with every update, times ``scale``, added to the slice that it names; each sum rounded once."""
    moved, added = anp.moveaxis(x, axis, 0), anp.moveaxis(updates, axis, 0) * scale
    rows = anp.concatenate([moved, added], axis=0)
    places = np.concatenate([np.arange(moved.shape[0]), np.asarray(indices)])
    return anp.moveaxis(segment_sum(rows, places, moved.shape[0]), 0, axis)


def index_reduce(x: Array, indices: np.ndarray, updates: Array, how: str, include_self: bool = True) -> Array:
    """``x`` with the product, mean, largest or smallest of itself and the updates that name a row."""
    rows = anp.concatenate([x, updates], axis=0)
    places = np.concatenate([np.arange(x.shape[0]), np.asarray(indices)])
    if include_self:
        return _REDUCERS[how](rows, places, x.shape[0])
    reduced = _REDUCERS[how](updates, indices, x.shape[0])
    named = np.isin(np.arange(x.shape[0]), indices).reshape(-1, *[1] * (x.ndim - 1))
    return where(np.broadcast_to(named, x.shape), reduced, x)


_REDUCERS = {
    "sum": segment_sum,
    "mean": segment_mean,
    "prod": segment_prod,
    "amax": segment_max,
    "amin": segment_min,
}


def scatter_reduce(x: Array, indices: np.ndarray, source: Array, how: str, include_self: bool = True) -> Array:
    """:func:`index_reduce` with an index for each element: along the first dimension, column by column."""
    columns = int(np.prod(x.shape[1:]))
    flat = [anp.reshape(array, (array.shape[0], -1)) for array in (x, indices, source)]
    taken = [
        index_reduce(flat[0][:, k : k + 1], flat[1][:, k], flat[2][:, k : k + 1], how, include_self)
        for k in range(columns)
    ]
    return anp.reshape(anp.concatenate(taken, axis=1), x.shape)


def scatter_add(x: Array, indices: np.ndarray, source: Array) -> Array:
    """``x`` with every element of ``source`` added in the row that its index names."""
    return scatter_reduce(x, indices, source, "sum")


def index_copy(x: Array, indices: np.ndarray, updates: Array) -> Array:
    """``x`` with rows replaced, none named twice."""
    places = np.arange(x.shape[0])
    places[np.asarray(indices)] = x.shape[0] + np.arange(len(np.asarray(indices)))
    return anp.concatenate([x, updates], axis=0)[places]


def index_fill(x: Array, indices: np.ndarray, value: float) -> Array:
    """``x`` with one value in the rows named."""
    named = np.isin(np.arange(x.shape[0]), indices).reshape(-1, *[1] * (x.ndim - 1))
    return where(np.broadcast_to(named, x.shape), value, x)


def embedding_bag(table: Array, indices: np.ndarray, segments: np.ndarray, how: str, weights: Array = None) -> Array:
    """The sum, mean, ``sqrt_n`` or maximum of the rows of each bag."""
    rows = table[np.asarray(indices)]
    rows = rows if weights is None else rows * weights[:, None]
    count = int(np.asarray(segments)[-1]) + 1
    reduce = {"sum": segment_sum, "mean": segment_mean, "sqrt_n": segment_sqrt_n, "max": segment_max}[how]
    return reduce(rows, segments, count)


def embedding_bag_gradient(upstream: Array, indices: np.ndarray, segments: np.ndarray, rows: int, how: str) -> Array:
    """The gradient of a table of ``rows`` rows: each row's exact sum of what its bags hand down."""
    counts = np.bincount(np.asarray(segments))[np.asarray(segments)][:, None]
    handed = upstream[np.asarray(segments)]
    if how == "sqrt_n":
        handed = handed / sqrt(filled(counts.shape, 1.0, upstream) * counts)
    elif how == "mean":
        handed = handed / counts
    return segment_sum(handed, indices, rows)


def bincount(indices: np.ndarray, weights: Array, size: int) -> Array:
    """The sum of the weights of each index."""
    return segment_sum(weights, indices, size)


def histogram(x: Array, bins: int, low: float, high: float) -> Array:
    """How many elements fall into each of equal bins, the upper end counting to the last."""
    values = np.asarray(fixed(x)).astype(float)
    counts, _ = np.histogram(values[(values >= low) & (values <= high)], bins=bins, range=(low, high))
    return np.asarray(counts)


def lower_bound(rows: Array, values: Array) -> Array:
    """How many elements of each sorted row are below each value."""
    return np.asarray((fixed(rows)[:, None, :] < fixed(values)[:, :, None]).astype(np.int64).sum(axis=-1))


def upper_bound(rows: Array, values: Array) -> Array:
    """How many elements of each sorted row are not above each value."""
    return np.asarray((fixed(rows)[:, None, :] <= fixed(values)[:, :, None]).astype(np.int64).sum(axis=-1))


def bucketize(x: Array, boundaries: tuple[float, ...]) -> Array:
    """How many boundaries are not above each element."""
    values = np.asarray(fixed(x))
    return np.asarray(sum((values >= one).astype(np.int64) for one in boundaries))


def put_zeros(shape: tuple[int, ...], indices: np.ndarray, updates: Array) -> Array:
    """Zeros of ``shape`` with every update added to the row that it names."""
    return index_add(zeros(shape, updates), indices, updates)
