"""Products of matrices, attention, recurrent cells, factorizations and solutions of linear systems.

Factorizations are the textbook's, element by element: right in any arithmetic whose precision exceeds the condition
number, which the oracle's tiers tell.
"""

from __future__ import annotations

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.functions import NoSecondOpinion, log, sigmoid, sqrt, tanh
from opscanner.dynamic.oracle.references.arrays import Array, absolute, filled, fixed, signs, where, zeros
from opscanner.dynamic.oracle.references.normalization import masked_softmax
from opscanner.dynamic.oracle.references.softmax import softmax
from opscanner.dynamic.oracle.sums import matmul, sum_


def swapped(x: Array) -> Array:
    """The transposes of the matrices in the last two dimensions."""
    return anp.swapaxes(x, -1, -2)


def vector_dot(x: Array, y: Array) -> Array:
    """The inner product of two vectors."""
    return matmul(x[None, :], y[:, None])[0, 0]


def matrix_vector(x: Array, y: Array) -> Array:
    """A matrix times a vector."""
    return matmul(x, y[:, None])[:, 0]


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """``x @ weight.T + bias``, ``x`` of any number of dimensions."""
    product = matmul(x if x.ndim > 1 else x[None], swapped(weight))
    product = product if x.ndim > 1 else product[0]
    return product if bias is None else product + bias


def bilinear(x: Array, y: Array, weight: Array, bias: Array) -> Array:
    """``sum over i, j of x[i] weight[o, i, j] y[j] + bias[o]``."""
    pairs = anp.reshape(x[:, :, None] * y[:, None, :], (x.shape[0], -1))
    return matmul(pairs, swapped(anp.reshape(weight, (weight.shape[0], -1)))) + bias


def attention(
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    causal: bool = False,
    mask: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """``softmax(scale * q @ k.T + bias) @ v``; what is masked out (False), or later when ``causal``, weighs nothing."""
    scores = matmul(q, swapped(k)) * scale
    scores = scores if bias is None else scores + bias
    if causal:
        mask = np.tri(scores.shape[-2], scores.shape[-1], dtype=bool)
    weights = softmax(scores) if mask is None else masked_softmax(scores, np.broadcast_to(mask, scores.shape))
    return matmul(weights, v)


def multi_head_attention(
    x: Array, heads: int, weight_in: Array, bias_in: Array, weight_out: Array, bias_out: Array
) -> Array:
    """Self-attention of ``(length, batch, features)``, scaled by the root of a head's size (Vaswani et al. 2017)."""
    length, batch, features = x.shape
    size = features // heads
    parts = anp.split(linear(x, weight_in, bias_in), 3, axis=-1)
    q, k, v = (anp.transpose(anp.reshape(p, (length, batch, heads, size)), (1, 2, 0, 3)) for p in parts)
    scores = matmul(q, swapped(k)) / sqrt(filled((), size, x))
    joined = anp.reshape(anp.transpose(matmul(softmax(scores), v), (2, 0, 1, 3)), (length, batch, features))
    return linear(joined, weight_out, bias_out)


def lstm_cell(x: Array, h: Array, c: Array, wi: Array, wh: Array, bias: Array) -> tuple[Array, Array]:
    """The next output and state; gates in torch's order: input, forget, cell, output."""
    gates = linear(x, wi) + linear(h, wh) + bias
    i, f, g, o = anp.split(gates, 4, axis=-1)
    state = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(state), state


def lstm(x: Array, wi: Array, wh: Array, bias: Array) -> Array:
    """The outputs of :func:`lstm_cell` over ``(time, batch, features)``, starting from zeros."""
    h = c = zeros((x.shape[1], wh.shape[1]), x)
    outputs = []
    for step in range(x.shape[0]):
        h, c = lstm_cell(x[step], h, c, wi, wh, bias)
        outputs.append(h)
    return anp.stack(outputs, axis=0)


def gru_cell(x: Array, h: Array, wi: Array, wh: Array, bias: Array) -> Array:
    """The next output; gates in torch's order: reset, update, new; the bias is the input's, torch's second is 0."""
    ri, zi, ni = anp.split(linear(x, wi) + bias, 3, axis=-1)
    rh, zh, nh = anp.split(linear(h, wh), 3, axis=-1)
    r, z = sigmoid(ri + rh), sigmoid(zi + zh)
    return (1 - z) * tanh(ni + r * nh) + z * h


def gru_block_cell(x: Array, h: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array) -> Array:
    """TensorFlow's cell: the reset gate on the state before its product (Cho et al. 2014)."""
    both = anp.concatenate([x, h], axis=-1)
    r, u = anp.split(sigmoid(matmul(both, w_ru) + b_ru), 2, axis=-1)
    c = tanh(matmul(anp.concatenate([x, r * h], axis=-1), w_c) + b_c)
    return u * h + (1 - u) * c


def rnn_cell(x: Array, h: Array, wi: Array, wh: Array, bias: Array) -> Array:
    """``tanh(x @ wi.T + h @ wh.T + bias)``."""
    return tanh(linear(x, wi) + linear(h, wh) + bias)


# ---- factorizations of (..., n, n)


def cholesky(x: Array) -> Array:
    """The lower triangle whose product with its transpose is ``x``, of which both halves count alike."""
    x = (x + swapped(x)) * 0.5
    size = x.shape[-1]
    rows: list[list[Array]] = []
    for i in range(size):
        row: list[Array] = []
        for j in range(i + 1):
            rest = x[..., i, j]
            if j:
                rest = sum_(
                    anp.stack([rest, *(-row[k] * rows[j][k] if j < i else -row[k] * row[k] for k in range(j))], -1),
                    axis=-1,
                )
            row.append(sqrt(rest) if i == j else rest / rows[j][j])
        rows.append(row)
    nothing = zeros(x.shape[:-2], x)
    return _matrix([[*row, *[nothing] * (size - len(row))] for row in rows])


def _eliminated(x: Array, b: Array | None = None) -> tuple[list[Array], list[Array], int | Array]:
    """Rows of the upper triangle, right sides, and the sign of the permutation, by rows of largest pivots."""
    size = x.shape[-1]
    rows = x if b is None else anp.concatenate([x, b], axis=-1)
    sign: Array = np.ones(x.shape[:-2], dtype=np.int64)
    done = []
    for place in range(size):
        values = np.asarray(fixed(absolute(rows[..., :, place])))
        pivot = np.argmax(values.astype(float), axis=-1)
        sign = sign * np.where(pivot == 0, 1, -1)
        order = np.tile(np.arange(size - place), (*pivot.shape, 1))
        np.put_along_axis(order, pivot[..., None], 0, -1)
        order[..., 0] = pivot
        rows = _reordered(rows, order)
        top, below = rows[..., :1, :], rows[..., 1:, :]
        done.append(top[..., 0, :])
        rows = below - top * (below[..., place : place + 1] / top[..., place : place + 1])
    upper = [row[..., :size] for row in done]
    right = [row[..., size:] for row in done]
    return upper, right, sign


def _reordered(rows: Array, order: Array) -> Array:
    if rows.ndim == 2:
        return rows[order]
    flat = anp.reshape(rows, (-1, *rows.shape[-2:]))
    picked = flat[np.arange(flat.shape[0])[:, None], order.reshape(flat.shape[0], -1)]
    return anp.reshape(picked, rows.shape)


def solve(x: Array, b: Array) -> Array:
    """The ``y`` of ``x @ y = b``."""
    upper, right, _ = _eliminated(x, b)
    return _back_substituted(upper, right)


def _back_substituted(upper: list[Array], right: list[Array]) -> Array:
    found: list[Array] = []
    for place in range(len(upper) - 1, -1, -1):
        rest = right[place]
        for number, value in enumerate(found):
            column = len(upper) - 1 - number
            rest = rest - upper[place][..., column, None] * value
        found.append(rest / upper[place][..., place, None])
    return anp.stack(found[::-1], axis=-2)


def solve_lower(x: Array, b: Array) -> Array:
    """The ``y`` of ``x @ y = b`` for a lower triangle."""
    found: list[Array] = []
    for place in range(x.shape[-1]):
        rest = b[..., place, :]
        for number, value in enumerate(found):
            rest = rest - x[..., place, number, None] * value
        found.append(rest / x[..., place, place, None])
    return anp.stack(found, axis=-2)


def inverse(x: Array) -> Array:
    """The inverse matrix."""
    return solve(x, identity_like(x))


def identity_like(x: Array) -> Array:
    """Unit matrices in the shape of ``x``."""
    unit = np.broadcast_to(np.eye(x.shape[-1], dtype=bool), x.shape)
    return where(unit, filled(x.shape, 1.0, x), 0.0)


def determinant(x: Array) -> Array:
    """The determinant: the product of the pivots."""
    upper, _, sign = _eliminated(x)
    result = upper[0][..., 0] * sign
    for place in range(1, len(upper)):
        result = result * upper[place][..., place]
    return result


def log_determinant(x: Array) -> tuple[Array, Array]:
    """The determinant's sign, and the logarithm of its magnitude."""
    upper, _, sign = _eliminated(x)
    pivots = anp.stack([row[..., place] for place, row in enumerate(upper)], axis=-1)
    turned = np.prod(signs(pivots), axis=-1) * sign
    return filled(turned.shape, 1.0, x) * turned, sum_(log(absolute(pivots)), axis=-1)


def lu_without_pivots(x: Array) -> Array:
    """Both triangles in one matrix, for matrices that need no pivots (diagonally dominant by columns)."""
    size = x.shape[-1]
    rows = [x[..., place, :] for place in range(size)]
    for place in range(size):
        for below in range(place + 1, size):
            factor = rows[below][..., place] / rows[place][..., place]
            rest = rows[below] - factor[..., None] * rows[place]
            left = rows[below][..., :place]
            rows[below] = anp.concatenate([left, factor[..., None], rest[..., place + 1 :]], axis=-1)
    return anp.stack(rows, axis=-2)


def qr_upper(x: Array) -> Array:
    """The upper triangle of the QR factorization with a positive diagonal: the Cholesky factor of ``x.T @ x``."""
    return swapped(cholesky(matmul(swapped(x), x)))


def least_squares(x: Array, b: Array) -> Array:
    """The ``y`` that makes ``x @ y - b`` smallest, by the normal equations."""
    return solve(matmul(swapped(x), x), matmul(swapped(x), b))


def matrix_exponential(x: Array, terms: int = 60) -> Array:
    """``sum of x**k / k!``; for norms up to about 4 the rest is below 2**-200."""
    power = identity_like(x)
    parts = [power]
    for number in range(1, terms):
        power = matmul(power, x) / number
        parts.append(power)
    return sum_(anp.stack(parts, axis=-1), axis=-1)


def singular_values(x: Array, sweeps: int = 12) -> Array:
    """The singular values of each matrix, falling: of a positive definite one its eigenvalues.

    One-sided Jacobi rotations make all columns orthogonal, whose norms they then are (M. R. Hestenes, Inversion of
    matrices by biorthogonalization, 1958): in float64 and longdouble; balls would grow with every rotation.
    """
    columns = np.array(_without_balls(x))
    size = columns.shape[-1]
    for _ in range(sweeps):
        for p in range(size - 1):
            for q in range(p + 1, size):
                left, right = columns[..., p].copy(), columns[..., q].copy()
                inner = np.sum(left * right, axis=-1)
                safe = np.where(inner == 0, 1, inner)
                slope = (np.sum(right * right, axis=-1) - np.sum(left * left, axis=-1)) / (2 * safe)
                tangent = np.where(slope < 0, -1, 1) / (np.abs(slope) + np.sqrt(1 + slope * slope))
                tangent = np.where(inner == 0, 0, tangent)[..., None]
                cosine = 1 / np.sqrt(1 + tangent * tangent)
                columns[..., p] = cosine * left - cosine * tangent * right
                columns[..., q] = cosine * tangent * left + cosine * right
    return -np.sort(-np.sqrt(np.sum(columns * columns, axis=-2)), axis=-1)


def eigenvalues_of_positive(x: Array) -> Array:
    """The eigenvalues of each symmetric positive definite matrix, rising."""
    return singular_values(x)[..., ::-1]


def _without_balls(x: Array) -> Array:
    values = np.asarray(fixed(x))
    if values.dtype == object:
        raise NoSecondOpinion("rotations have no balls")
    return values


def _matrix(rows: list[list[Array]]) -> Array:
    return anp.stack([anp.stack(row, axis=-1) for row in rows], axis=-2)
