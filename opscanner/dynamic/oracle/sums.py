"""Sums and products of matrices that lose nothing to cancellation, in the three arithmetics of the oracle.

float64 sums are exact and rounded once (``opscanner.precision.exact_sum``); longdouble sums carry the error of each
addition along (Ogita, Rump, Oishi, Accurate sum and dot product, SIAM J. Sci. Comput. 2005, Sum2: as if summed in
128 bits); balls widen by what they lose.
"""

from __future__ import annotations

import math
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp, primitive
from autograd.numpy.numpy_vjps import grad_np_sum, match_complex
from flint import arb_mat

from opscanner.dynamic.oracle.balls import finite_or, to_balls
from opscanner.precision.exact_sum import exact_sum

#: Products that are made at a time: a few megabytes.
_PRODUCTS = 1 << 18
_SPLITTER = 2.0**27 + 1  # Dekker 1971: cuts a float64 in two halves of 26 bits


@primitive  # type: ignore[untyped-decorator]
def sum_(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum over ``axis`` (one, several, or all), rounded once."""
    x = np.asarray(x)
    if x.dtype == object:
        return np.sum(x, axis=axis, keepdims=keepdims)
    if x.dtype.kind == "c":
        return sum_(x.real, axis=axis, keepdims=keepdims) + 1j * sum_(x.imag, axis=axis, keepdims=keepdims)
    if x.dtype.kind != "f":
        return np.sum(x, axis=axis, keepdims=keepdims)
    rows, shape = _rows(x, axis, keepdims)
    summed = _sum_long(rows) if x.dtype == np.longdouble else exact_sum(rows)[0]
    return summed.reshape(shape)[()]


defvjp(sum_, lambda ans, x, axis=None, keepdims=False: grad_np_sum(ans, x, axis=axis, keepdims=keepdims))


def mean_(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean over ``axis``: :func:`sum_` divided once."""
    axes = range(anp.ndim(x)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return sum_(x, axis=axis, keepdims=keepdims) / math.prod(anp.shape(x)[a] for a in axes)


@primitive  # type: ignore[untyped-decorator]
def matmul(a: Any, b: Any) -> Any:
    """The product of two stacks of matrices ``(..., m, k)`` and ``(..., k, n)``, each element rounded once.

    Vectors are not taken: give them an axis of length 1.
    """
    a, b = np.asarray(a), np.asarray(b)
    if object in (a.dtype, b.dtype):
        return np.matmul(a, b) if a.ndim > 2 or b.ndim > 2 else _matmul_balls(a, b)
    if "c" in (a.dtype.kind, b.dtype.kind):
        real = matmul(a.real, b.real) - matmul(a.imag, b.imag)
        return real + 1j * (matmul(a.real, b.imag) + matmul(a.imag, b.real))
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    a = np.broadcast_to(a, (*shape[:-1], a.shape[-1])).reshape(-1, *a.shape[-2:])
    b = np.broadcast_to(b, (*shape[:-2], *b.shape[-2:])).reshape(-1, *b.shape[-2:])
    long = np.longdouble in (a.dtype, b.dtype)
    made = np.empty((len(a), *shape[-2:]), dtype=np.longdouble if long else np.float64)
    step = max(1, _PRODUCTS // max(1, b.shape[-1] * b.shape[-2]))
    for place, (left, right) in enumerate(zip(a, b, strict=True)):
        columns = np.ascontiguousarray(right.T)[None]
        for row in range(0, len(left), step):
            factors = left[row : row + step, None, :]
            products = factors * columns
            if long:
                summed = _sum_long(products.reshape(-1, products.shape[-1]))
            else:
                lost = _lost(factors, columns, products)
                if lost.any():  # never for values of at most 32 bits
                    products = np.concatenate([products, lost], axis=-1)
                summed = exact_sum(products)[0]
            made[place, row : row + step] = summed.reshape(-1, made.shape[-1])
    return made.reshape(shape)


def _matmul_balls(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By Arb's matrices, a hundred times faster than element by element, where all numbers are finite."""
    wide = [to_balls(m) for m in (a, b)]
    if not all(element.isfinite() for m in wide for element in m.reshape(-1)):
        plain: np.ndarray = np.matmul(*wide)
        return plain
    left, right = (arb_mat([[element.value for element in row] for row in m]) for m in wide)
    made: np.ndarray = np.empty((a.shape[0], b.shape[1]), dtype=object)
    made.reshape(-1)[:] = [finite_or(value) for value in (left * right).entries()]
    return made


def _swap(x: Any) -> Any:
    return anp.swapaxes(x, -1, -2)


def _shrink(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum over the axes along which a stack was broadcast."""
    while anp.ndim(g) > len(shape):
        g = sum_(g, axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and anp.shape(g)[axis] != 1:
            g = sum_(g, axis=axis, keepdims=True)
    return g


defvjp(
    matmul,
    lambda ans, a, b: lambda g: match_complex(a, _shrink(matmul(g, _swap(anp.conj(b))), anp.shape(a))),
    lambda ans, a, b: lambda g: match_complex(b, _shrink(matmul(_swap(anp.conj(a)), g), anp.shape(b))),
)


def dot(a: Any, b: Any, axis: int = -1) -> Any:
    """The inner products of two arrays along ``axis``, rounded once where the products are exact or balls.

    Products of values of at most 32 bits are exact in float64.
    """
    return sum_(a * b, axis=axis)


def _rows(x: np.ndarray, axis: Any, keepdims: bool) -> tuple[np.ndarray, tuple[int, ...]]:
    """``x`` as (rows, terms), and the shape of the result."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    axes = tuple(a % x.ndim for a in axes)
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape)) if keepdims else tuple(x.shape[a] for a in kept)
    terms = math.prod(x.shape[a] for a in axes)
    return x.transpose(*kept, *axes).reshape(math.prod(x.shape[a] for a in kept), terms), shape


def _sum_long(rows: np.ndarray) -> np.ndarray:
    """Halve until one is left, the error of each addition summed beside."""
    rest: np.ndarray = np.zeros(rows.shape[0], dtype=np.longdouble)
    if rows.shape[1] == 0:
        return rest
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        a, b = rows[:, :half], rows[:, half : 2 * half]
        total = a + b
        back = total - a
        error = (a - (total - back)) + (b - back)
        rest = rest + np.sum(np.where(np.isfinite(total), error, 0), axis=1)
        rows = np.concatenate([total, rows[:, 2 * half :]], axis=1)
    answer: np.ndarray = rows[:, 0] + rest
    return answer


def _lost(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """What rounding took from ``product = a * b``: exact unless it overflows or is subnormal (Dekker 1971)."""

    def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high = _SPLITTER * x
        high = high - (high - x)
        return high, x - high

    (ah, al), (bh, bl) = halves(a), halves(b)
    rest = al * bl - (((product - ah * bh) - al * bh) - ah * bl)
    answer: np.ndarray = np.where(np.isfinite(rest) & np.isfinite(product), rest, 0.0)
    return answer
