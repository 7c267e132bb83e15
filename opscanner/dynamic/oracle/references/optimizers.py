"""One step of an optimizer, element by element: the new parameter, and the new state where the name says so.

``p``: parameter, ``g``: gradient; ``m``, ``v``: first and second moment or whatever the method keeps.
"""

from __future__ import annotations

from opscanner.dynamic.oracle.functions import exp, maximum, sqrt
from opscanner.dynamic.oracle.references.arrays import Array, absolute, filled, fixed, signs, where


def sgd(p: Array, g: Array, lr: float, decay: float = 0.0) -> Array:
    """``p - lr * (g + decay * p)``."""
    return p - lr * _decayed(p, g, decay)


def sgd_momentum(
    p: Array,
    g: Array,
    m: Array,
    lr: float,
    momentum: float,
    nesterov: bool = False,
    decay: float = 0.0,
    dampening: float = 0.0,
) -> tuple[Array, Array]:
    """Parameter and buffer: ``m' = momentum * m + (1 - dampening) * g``; Nesterov's steps by ``g + momentum * m'``."""
    g = _decayed(p, g, decay)
    buffer = momentum * m + (1 - dampening) * g
    step = g + momentum * buffer if nesterov else buffer
    return p - lr * step, buffer


def adagrad(p: Array, g: Array, v: Array, lr: float, eps: float) -> tuple[Array, Array]:
    """Parameter and sum of squares (Duchi et al. 2011)."""
    total = v + g * g
    return p - lr * g / (sqrt(total) + eps), total


def adam(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    step: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    decay: float = 0.0,
    decoupled: bool = False,
    largest: Array | None = None,
) -> tuple[Array, ...]:
    """Parameter and both moments after step ``step`` (Kingma and Ba 2014, algorithm 1); AMSGrad with ``largest``.

    ``eps`` is added to the root of the corrected moment. ``decay`` is added to the gradient, or with ``decoupled``
    (AdamW) taken off the parameter.
    """
    first, second = betas
    if decoupled:
        p = p - lr * decay * p
    else:
        g = _decayed(p, g, decay)
    m = first * m + (1 - first) * g
    v = second * v + (1 - second) * g * g
    held = v if largest is None else maximum(largest, v)
    root = sqrt(held / (1 - second**step))
    p = p - lr / (1 - first**step) * m / (root + eps)
    return (p, m, v) if largest is None else (p, m, v, held)


def rmsprop(
    p: Array,
    g: Array,
    v: Array,
    m: Array,
    lr: float,
    alpha: float,
    momentum: float,
    eps: float = 0.0,
    inside: bool = False,
) -> tuple[Array, Array, Array]:
    """Parameter, mean square and momentum buffer (of steps before ``lr``); ``eps`` beside the root or inside."""
    v = alpha * v + (1 - alpha) * g * g
    m = momentum * m + g / (sqrt(v + eps) if inside else sqrt(v) + eps)
    return p - lr * m, v, m


def rmsprop_centered(
    p: Array, g: Array, v: Array, m: Array, a: Array, lr: float, alpha: float, momentum: float, eps: float = 0.0
) -> Array:
    """The parameter; the mean square less the square of the mean gradient under the root."""
    a = alpha * a + (1 - alpha) * g
    v = alpha * v + (1 - alpha) * g * g
    m = momentum * m + g / (sqrt(v - a * a) + eps)
    return p - lr * m


def adadelta(p: Array, g: Array, v: Array, d: Array, lr: float, rho: float, eps: float) -> Array:
    """The parameter (Zeiler 2012, algorithm 1)."""
    v = rho * v + (1 - rho) * g * g
    return p - lr * g * sqrt(d + eps) / sqrt(v + eps)


def adamax(
    p: Array, g: Array, m: Array, u: Array, step: int, lr: float, betas: tuple[float, float], eps: float = 0.0
) -> Array:
    """The parameter (Kingma and Ba 2014, algorithm 2); ``eps`` is added to the gradient's magnitude."""
    m = betas[0] * m + (1 - betas[0]) * g
    u = maximum(betas[1] * u, absolute(g) + eps)
    return p - lr / (1 - betas[0] ** step) * m / u


def nadam(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    step: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    decay: float,
    product: float,
) -> Array:
    """The parameter (Dozat 2016); ``product`` of the momenta of the steps before, ``decay`` their schedule."""
    first, second = betas
    now, after = (first * (1 - 0.5 * 0.96 ** (s * decay)) for s in (step, step + 1))
    m = first * m + (1 - first) * g
    v = second * v + (1 - second) * g * g
    root = sqrt(v / (1 - second**step)) + eps
    product = product * now
    return p - lr * (1 - now) / (1 - product) * g / root - lr * after / (1 - product * after) * m / root


def rprop(
    p: Array, g: Array, before: Array, size: Array, etas: tuple[float, float], sizes: tuple[float, float]
) -> Array:
    """The parameter: steps of a size that grows while the gradient keeps its sign (Riedmiller and Braun 1993)."""
    turn = signs(fixed(g) * fixed(before))
    factor = where(turn > 0, filled(p.shape, etas[1], p), where(turn < 0, filled(p.shape, etas[0], p), 1.0))
    size = size * factor
    size = where(fixed(size) < sizes[0], sizes[0], where(fixed(size) > sizes[1], sizes[1], size))
    return p - size * signs(where(turn < 0, 0.0, g))


def ftrl(p: Array, g: Array, n: Array, z: Array, lr: float, l1: float, l2: float) -> Array:
    """The parameter (McMahan et al. 2013, algorithm 1, learning rate to the power -1/2)."""
    more = n + g * g
    z = z + g - (sqrt(more) - sqrt(n)) / lr * p
    shrunk = where(absolute(fixed(z)) > l1, l1 * signs(z) - z, 0.0)
    return shrunk / (sqrt(more) / lr + 2 * l2)


def proximal_descent(p: Array, g: Array, lr: float, l1: float, l2: float) -> Array:
    """``p - lr * g`` drawn towards 0 by ``lr * l1``, over ``1 + lr * l2``."""
    free = p - lr * g
    size = absolute(free) - lr * l1
    return signs(free) * where(fixed(size) > 0, size, 0.0) / (1 + lr * l2)


def sign_descent(p: Array, g: Array, m: Array, lr: float, logbase: float, decay: float, beta: float) -> Array:
    """PowerSign (Bello et al. 2017): steps times ``exp(logbase * decay * sign(g) * sign(m'))``."""
    m = beta * m + (1 - beta) * g
    agree = signs(g) * signs(m) * filled((), 1.0, p)
    return p - lr * exp(logbase * decay * agree) * g


def add_sign(p: Array, g: Array, m: Array, lr: float, alpha: float, decay: float, beta: float) -> Array:
    """AddSign (Bello et al. 2017): steps times ``alpha + decay * sign(g) * sign(m')``."""
    m = beta * m + (1 - beta) * g
    agree = signs(g) * signs(m) * filled((), 1.0, p)
    return p - lr * (alpha + decay * agree) * g


def nesterov_adam(
    p: Array, g: Array, m: Array, v: Array, step: int, lr: float, betas: tuple[float, float], eps: float
) -> tuple[Array, Array, Array]:
    """TensorFlow's Adam with Nesterov's momentum: ``eps`` is added to the root of the moment before its correction."""
    first, second = betas
    m = first * m + (1 - first) * g
    v = second * v + (1 - second) * g * g
    rate = lr * sqrt(filled((), 1 - second**step, p)) / (1 - first**step)
    return p - rate * (first * m + (1 - first) * g) / (sqrt(v) + eps), m, v


def _decayed(p: Array, g: Array, decay: float) -> Array:
    """The gradient with weight decay; without any, an infinite parameter adds nothing."""
    return g + decay * p if decay else g
