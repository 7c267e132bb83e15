"""Reductions and scans: sums, means, variances, norms, products, extremes, and their running forms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp, primitive

from opscanner.dynamic.oracle.functions import exp, expm1, isfinite, isnan, log, log1p, sqrt
from opscanner.dynamic.oracle.references.arrays import (
    Array,
    absolute,
    axes_of,
    count_of,
    filled,
    fixed,
    largest,
    last,
    signs,
    where,
)
from opscanner.dynamic.oracle.sums import sum_

Axis = int | Sequence[int] | None


def _axis(x: Array, axis: Axis) -> tuple[int, ...]:
    return axes_of(x, axis)


def total(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum, rounded once."""
    return sum_(x, axis=_axis(x, axis), keepdims=keepdims)


def add_n(*terms: Array) -> Array:
    """The elementwise sum of several arrays, rounded once."""
    return sum_(anp.stack(terms, axis=0), axis=0)


def mean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum over the number of elements."""
    return total(x, axis, keepdims) / count_of(x, axis)


def centered(x: Array, axis: Axis = None) -> Array:
    """``x`` less its mean: from the differences to the first element, so that equal elements give 0, not roundings."""
    chosen = axes_of(x, axis)
    values = np.asarray(fixed(x))
    first = values[tuple(slice(0, 1) if one in chosen else slice(None) for one in range(values.ndim))]
    shifted = x - first
    return shifted - mean(shifted, axis, keepdims=True)


def var(x: Array, axis: Axis = None, correction: float = 0, keepdims: bool = False) -> Array:
    """The sum of squared differences to the mean over ``n - correction``."""
    distance = centered(x, axis)
    return total(distance * distance, axis, keepdims) / (count_of(x, axis) - correction)


def std(x: Array, axis: Axis = None, correction: float = 0, keepdims: bool = False) -> Array:
    """The square root of the variance."""
    return sqrt(var(x, axis, correction, keepdims))


def prod(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The product, halves by halves: its derivative is the product of the others, zeros among them or not."""
    factors = last(x, axis)
    while factors.shape[-1] > 1:
        half = factors.shape[-1] // 2
        products = factors[..., :half] * factors[..., half : 2 * half]
        factors = anp.concatenate([products, factors[..., 2 * half :]], axis=-1)
    result = factors[..., 0]
    return _kept(result, x, axis) if keepdims else result


def amax(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element; equal ones share the derivative evenly."""
    row = last(x, axis)
    result = anp.max(row, axis=-1)
    return _kept(result, x, axis) if keepdims else result


def amin(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element; equal ones share the derivative evenly."""
    return -amax(-x, axis, keepdims)


def norm(x: Array, order: float = 2, axis: Axis = None, keepdims: bool = False) -> Array:
    """The vector norm: ``sum(abs(x)**order)**(1 / order)``, and its limits at 0, infinity and minus infinity."""
    if order == 2:
        return sqrt(total(x * x, axis, keepdims))
    size = absolute(x)
    if order == 1:
        return total(size, axis, keepdims)
    if order == np.inf:
        return amax(size, axis, keepdims)
    if order == -np.inf:
        return amin(size, axis, keepdims)
    if order == 0:
        return total(absolute(signs(x)) * filled((), 1.0, x), axis, keepdims)
    whole = int(order)
    power = size
    for _ in range(whole - 1):
        power = power * size
    return exp(log(total(power, axis, keepdims)) / whole)


def nansum(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum of the elements that are not NaN."""
    return total(_numbers(x), axis, keepdims)


def nanmean(x: Array, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean of the elements that are not NaN."""
    counted = np.sum(_is_number(x), axis=_axis(x, axis), keepdims=keepdims)
    return nansum(x, axis, keepdims) / counted


def logsumexp(x: Array, axis: Axis = -1, keepdims: bool = False) -> Array:
    """``log(sum(exp(x)))``: the largest term apart, so that results near 0 and near the largest keep their digits."""
    row = last(x, axis)
    top = highest(row)
    result = top[..., 0] + log1p(other_exponentials(row, top))
    return _kept(result, x, axis) if keepdims else result


def highest(row: Array) -> Array:
    """The largest element along the last dimension, a constant; 0 where it is no number."""
    values = np.asarray(fixed(row))
    top = np.take_along_axis(values, np.argmax(values.astype(float), axis=-1)[..., None], -1)
    return np.asarray(where(isfinite(top), top, 0.0))


def other_exponentials(row: Array, top: Array) -> Array:
    """``sum(exp(row - top)) - 1`` along the last dimension, ``top`` being among the terms."""
    at_top = largest(row)
    distance = row - top
    below = where(at_top, 0.0, distance)
    itself = where(at_top, distance, 0.0)
    return sum_(where(at_top, expm1(itself), exp(below)), axis=-1)


def _numbers(x: Array) -> Array:
    return where(_is_number(x), x, 0.0)


def _is_number(x: Array) -> Array:
    return ~np.asarray(isnan(fixed(x)))


def _kept(result: Array, x: Array, axis: Axis) -> Array:
    chosen = axes_of(x, axis)
    return anp.reshape(result, [1 if one in chosen else size for one, size in enumerate(np.shape(fixed(x)))])


# ---- scans


def _running_sum(x: np.ndarray) -> Array:
    if x.dtype != np.float64:
        return np.asarray(np.cumsum(x, axis=-1))
    finite = np.isfinite(x)
    with np.errstate(invalid="ignore"):
        special = np.cumsum(np.where(finite, 0.0, x), axis=-1)
    rows = np.where(finite, x, 0.0).reshape(-1, x.shape[-1]) if x.size else x
    return np.asarray(_exact_running_sums(rows).reshape(x.shape) + special)


def _exact_running_sums(rows: np.ndarray) -> Array:
    """Running sums of each row as integers in units of the smallest bit that occurs, each rounded once."""
    mantissa, exponent = np.frexp(rows)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    shift = np.where(whole == 0, 0, exponent - 53)
    unit = int(shift[whole != 0].min(initial=0)) if rows.size else 0
    span = int(shift.max(initial=0)) - unit
    if span + 54 + int(rows.shape[-1]).bit_length() <= 62:
        sums = np.cumsum(whole << (shift - unit).clip(0), axis=-1)
        if np.abs(sums).max(initial=0) <= 2**53:
            return np.asarray(np.ldexp(sums.astype(np.float64), unit))
    terms = [
        [int(w) << max(int(s) - unit, 0) for w, s in zip(*row, strict=True)] for row in zip(whole, shift, strict=True)
    ]
    sums = np.cumsum(np.array(terms, dtype=object).reshape(rows.shape), axis=-1)
    scale = Fraction(2) ** unit
    up, down = scale.numerator, scale.denominator
    return np.array([(v * up) / down for v in sums.ravel()], dtype=np.float64).reshape(rows.shape)


_cumsum = primitive(_running_sum)
defvjp(_cumsum, lambda _, __: lambda g: _cumsum(g[..., ::-1])[..., ::-1])


def cumsum(x: Array, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running sums along an axis, each exact and rounded once."""
    return _scan(_cumsum, x, axis, exclusive, reverse, 0.0)


def cumprod(x: Array, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running products along an axis; the derivative is right where factors are 0."""
    return _scan(_running_product, x, axis, exclusive, reverse, 1.0)


def logcumsumexp(x: Array, axis: int = -1, exclusive: bool = False, reverse: bool = False) -> Array:
    """``log(cumsum(exp(x)))``, term by term."""
    return _scan(_running_logsumexp, x, axis, exclusive, reverse, -np.inf)


def _scan(function: object, x: Array, axis: int, exclusive: bool, reverse: bool, start: float) -> Array:
    moved = anp.moveaxis(x, axis, -1)
    moved = moved[..., ::-1] if reverse else moved
    if exclusive:
        moved = anp.concatenate([filled((*moved.shape[:-1], 1), start, x), moved[..., :-1]], axis=-1)
    result = function(moved)  # type: ignore[operator]
    return anp.moveaxis(result[..., ::-1] if reverse else result, -1, axis)


def _running_product(x: Array) -> Array:
    """As :func:`_running_logsumexp`."""
    reach = 1
    while reach < x.shape[-1]:
        x = anp.concatenate([x[..., :reach], x[..., reach:] * x[..., :-reach]], axis=-1)
        reach *= 2
    return x


def _running_logsumexp(x: Array) -> Array:
    """Each place takes in twice as many of those before it in each round (Hillis and Steele 1986)."""
    reach = 1
    while reach < x.shape[-1]:
        x = anp.concatenate([x[..., :reach], _log_add(x[..., reach:], x[..., :-reach])], axis=-1)
        reach *= 2
    return x


def _log_add(x: Array, y: Array) -> Array:
    """``log(exp(x) + exp(y))``."""
    return logsumexp(anp.stack([x, y], axis=-1), -1)


def cummax(x: Array, axis: int = -1) -> Array:
    """The largest element so far."""
    return np.maximum.accumulate(np.asarray(fixed(x)), axis=axis)


def cummin(x: Array, axis: int = -1) -> Array:
    """The smallest element so far."""
    return np.minimum.accumulate(np.asarray(fixed(x)), axis=axis)


def diff(x: Array) -> Array:
    """Differences of neighbours along the last dimension."""
    return x[..., 1:] - x[..., :-1]


def trapezoid(x: Array, width: float = 1.0) -> Array:
    """The area under straight lines from element to element."""
    return total((x[..., 1:] + x[..., :-1]) * (0.5 * width), -1)


def cumulative_trapezoid(x: Array, width: float = 1.0) -> Array:
    """The area under straight lines up to each element but the first."""
    return cumsum((x[..., 1:] + x[..., :-1]) * (0.5 * width), -1)


def quantile(x: Array, part: float) -> Array:
    """Linear between the two ordered elements about ``part * (n - 1)`` of each row; for rows without NaN."""
    values = np.sort(np.asarray(fixed(x)), axis=-1)
    place = Fraction(part) * (values.shape[-1] - 1)
    below = place.numerator // place.denominator
    above = min(below + 1, values.shape[-1] - 1)
    rest = place - below
    return values[..., below] + (values[..., above] - values[..., below]) * rest.numerator / rest.denominator


def lower_median(x: Array) -> Array:
    """The element in the middle of each ordered row, of two the smaller; for rows without NaN."""
    values = np.sort(np.asarray(fixed(x)), axis=-1)
    return values[..., (values.shape[-1] - 1) // 2]


def count_nonzero(x: Array, axis: Axis = None) -> Array:
    """How many elements are not 0."""
    return np.sum(np.asarray(fixed(x)) != 0, axis=_axis(x, axis))
