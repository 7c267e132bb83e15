"""Losses, element by element (``reduction='none'``) unless the name says mean; their gradients by differentiation."""

from __future__ import annotations

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.functions import exp, isfinite, log, log1p
from opscanner.dynamic.oracle.references.arrays import Array, absolute, fixed, where
from opscanner.dynamic.oracle.references.normalization import log_softmax
from opscanner.dynamic.oracle.references.reductions import logsumexp, mean, norm, total
from opscanner.dynamic.oracle.sums import sum_


def cross_entropy(x: Array, target: np.ndarray) -> Array:
    """``-log_softmax(x)[target]`` of each row."""
    return -log_softmax(x)[np.arange(len(target)), target]


def cross_entropy_of_probabilities(x: Array, probabilities: Array) -> Array:
    """``-sum(probabilities * log_softmax(x))`` of each row; terms of probability 0 are 0."""
    logs = where(fixed(probabilities) == 0, 0.0, log_softmax(x))
    return -sum_(probabilities * logs, axis=-1)


def smoothed_cross_entropy(x: Array, target: np.ndarray, smoothing: float) -> Array:
    """:func:`cross_entropy` of a target mixed with the uniform distribution."""
    logs = log_softmax(x)
    return -(1 - smoothing) * logs[np.arange(len(target)), target] - smoothing * mean(logs, -1)


def nll_loss(x: Array, target: np.ndarray) -> Array:
    """The mean over rows of ``-x[target]``."""
    return -mean(x[np.arange(len(target)), target])


def bce_with_logits(x: Array, target: Array, positive_weight: float = 1.0) -> Array:
    """``-(w t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x)))``: no term of another sign for targets in [0, 1]."""
    return _weighted((1 - target), _log_1p_exp(x)) + positive_weight * _weighted(target, _log_1p_exp(-x))


def binary_cross_entropy(x: Array, target: Array, lowest: float = -100.0) -> Array:
    """``-(t log(x) + (1 - t) log(1 - x))``, logarithms not below ``lowest``."""
    positive, negative = log(x), log1p(-x)
    positive = where(fixed(positive) < lowest, lowest, positive)
    negative = where(fixed(negative) < lowest, lowest, negative)
    return -(target * positive + (1 - target) * negative)


def mse_loss(x: Array, target: Array) -> Array:
    """The mean of squared differences."""
    return mean((x - target) * (x - target))


def l1_loss(x: Array, target: Array) -> Array:
    """The mean of absolute differences."""
    return mean(absolute(x - target))


def huber_loss(x: Array, target: Array, delta: float) -> Array:
    """``d**2 / 2`` up to a distance of ``delta``, ``delta (d - delta / 2)`` beyond."""
    distance = absolute(x - target)
    near = where(fixed(distance) <= delta, distance, 0.0)
    return where(fixed(distance) <= delta, near * near * 0.5, delta * (distance - 0.5 * delta))


def smooth_l1_loss(x: Array, target: Array, beta: float) -> Array:
    """``d**2 / (2 beta)`` below a distance of ``beta``, ``d - beta / 2`` from there."""
    distance = absolute(x - target)
    near = where(fixed(distance) < beta, distance, 0.0)
    return where(fixed(distance) < beta, near * near * 0.5 / beta, distance - 0.5 * beta)


def kl_div(x: Array, target: Array) -> Array:
    """``t (log(t) - x)``, 0 where t is 0."""
    zero = fixed(target) == 0
    return where(zero, 0.0, target * (log(where(zero, 1.0, target)) - x))


def kl_div_of_logs(x: Array, target: Array) -> Array:
    """``exp(t) (t - x)``."""
    return exp(target) * (target - x)


def poisson_nll_loss(x: Array, target: Array) -> Array:
    """``exp(x) - t x``."""
    return exp(x) - target * x


def poisson_nll_loss_of_rates(x: Array, target: Array, eps: float) -> Array:
    """``x - t log(x + eps)``."""
    return x - target * log(x + eps)


def gaussian_nll_loss(x: Array, target: Array, variance: Array, eps: float) -> Array:
    """``(log(v) + (x - t)**2 / v) / 2``, the variance not below ``eps``."""
    held = where(fixed(variance) < eps, eps, variance)
    return 0.5 * (log(held) + (x - target) * (x - target) / held)


def soft_margin_loss(x: Array, target: Array) -> Array:
    """``log(1 + exp(-t x))``."""
    return _log_1p_exp(-target * x)


def hinge_embedding_loss(x: Array, target: Array, margin: float) -> Array:
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1."""
    return where(fixed(target) > 0, x, _positive(margin - x))


def margin_ranking_loss(x: Array, y: Array, target: Array, margin: float) -> Array:
    """``max(0, -t (x - y) + margin)``."""
    return _positive(-target * (x - y) + margin)


def multi_margin_loss(x: Array, target: np.ndarray, margin: float) -> Array:
    """The mean over classes of ``max(0, margin - x[target] + x)``, without the target's own."""
    rows = np.arange(len(target))
    terms = _positive(margin - x[rows, target][:, None] + x)
    own = np.zeros(x.shape, dtype=bool)
    own[rows, target] = True
    return sum_(where(own, 0.0, terms), axis=-1) / x.shape[-1]


def triplet_margin_loss(anchor: Array, positive: Array, negative: Array, margin: float, eps: float) -> Array:
    """``max(0, |a - p| - |a - n| + margin)``, ``eps`` added to each difference."""
    return _positive(norm(anchor - positive + eps, 2, -1) - norm(anchor - negative + eps, 2, -1) + margin)


def cosine_similarity(x: Array, y: Array, axis: int, eps: float) -> Array:
    """``x . y / (max(|x|, eps) max(|y|, eps))``, both of the shape that they have together; finite inputs."""
    x, y = x + 0 * y, y + 0 * x
    sizes = [norm(one, 2, axis) for one in (x, y)]
    held = [where(fixed(size) <= eps, eps, size) for size in sizes]
    return total(x * y, axis) / (held[0] * held[1])


def pairwise_distance(x: Array, y: Array, order: float, eps: float) -> Array:
    """The norm of ``x - y + eps`` over the last dimension."""
    return norm(x - y + eps, order, -1)


def cdist(x: Array, y: Array, order: float = 2.0) -> Array:
    """The norm of the difference of each row of ``x`` and each of ``y``."""
    return norm(x[..., :, None, :] - y[..., None, :, :], order, -1)


def ctc_loss(x: Array, labels: np.ndarray, lengths: np.ndarray, sizes: np.ndarray, blank: int) -> Array:
    """Minus the logarithm of the probability of each example's labels, over all alignments (Graves et al. 2006, 4.1).

    ``x``: logits ``(time, example, class)``, normalized here; ``lengths`` of the examples, ``sizes`` of their labels.
    """
    logs = log_softmax(x)
    found = [
        _ctc_of_one(logs[: int(lengths[n]), n], [int(label) for label in labels[n][: int(sizes[n])]], blank)
        for n in range(x.shape[1])
    ]
    return anp.stack(found, axis=0)


def _ctc_of_one(logs: Array, labels: list[int], blank: int) -> Array:
    path = [blank]
    for label in labels:
        path += [label, blank]
    paths: list[Array | None] = [logs[0, path[place]] if place < 2 else None for place in range(len(path))]
    for time in range(1, logs.shape[0]):
        after: list[Array | None] = []
        for place, label in enumerate(path):
            before = [paths[place], paths[place - 1] if place else None]
            if place > 1 and label != blank and path[place - 2] != label:
                before.append(paths[place - 2])
            terms = [one for one in before if one is not None]
            after.append(logsumexp(anp.stack(terms, axis=0), 0) + logs[time, label] if terms else None)
        paths = after
    ends = [one for one in paths[-2:] if one is not None]
    return -logsumexp(anp.stack(ends, axis=0), 0)


def _log_1p_exp(x: Array) -> Array:
    """``log(1 + exp(x))``."""
    above = fixed(x) > 0
    return where(above, x, 0.0) + log1p(exp(where(above, -x, x)))


def _weighted(weight: Array, x: Array) -> Array:
    """``weight * x``, 0 for weight 0 whatever ``x`` is."""
    nothing = (fixed(weight) == 0) & ~np.asarray(isfinite(fixed(x)))
    return weight * where(nothing, 0.0, x)


def _positive(x: Array) -> Array:
    return where(fixed(x) <= 0, 0.0, x)  # NaN stays
