"""Activations and their gradients.

``where`` chooses between two forms that are both evaluated: each is fed arguments on which it is finite. Where a
product of an infinity and 0 is NaN in the documented formula (silu at -infinity), it is NaN here.
"""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp

from opscanner.dynamic.oracle.functions import exp, expm1, like, log1p, maximum, minimum, sigmoid
from opscanner.dynamic.oracle.references.arrays import where
from opscanner.dynamic.oracle.special import erfc

#: Klambauer et al. 2017 (arXiv 1706.02515), as both frameworks write them.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def relu(x: Any) -> Any:
    """max(x, 0); NaN for NaN."""
    return maximum(x, 0.0)


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6)."""
    return minimum(maximum(x, 0.0), 6.0)


def threshold(x: Any, limit: float, value: float) -> Any:
    """``value`` where ``x <= limit``, else x (torch.nn.functional.threshold); NaN stays."""
    return where(x <= limit, value, x)


def leaky_relu(x: Any, slope: float) -> Any:
    """x above 0, else slope * x."""
    return where(x > 0, x, x * slope)


def elu(x: Any, alpha: float = 1.0, scale: float = 1.0) -> Any:
    """scale * x above 0, else scale * alpha * (exp(x) - 1)."""
    return where(x > 0, scale * x, scale * alpha * expm1(minimum(x, 0.0)))


def selu(x: Any) -> Any:
    """:func:`elu` with the constants that keep mean and variance."""
    return elu(x, SELU_ALPHA, SELU_SCALE)


def celu(x: Any, alpha: float = 1.0) -> Any:
    """x above 0, else alpha * (exp(x / alpha) - 1)."""
    return where(x > 0, x, alpha * expm1(minimum(x, 0.0) / alpha))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without the threshold of 20 above which torch returns x (2e-9 off, 0.001 ULP in float32)."""
    return maximum(x, 0.0) + log1p(exp(-anp.abs(x)))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x))."""
    return minimum(x, 0.0) - log1p(exp(-anp.abs(x)))


def softsign(x: Any) -> Any:
    """x / (1 + abs(x))."""
    return x / (1 + anp.abs(x))


def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Any) -> Any:
    """x times the normal distribution function at x: by erfc, which does not cancel below 0."""
    return x * _normal(x)


def _normal(x: Any) -> Any:
    return erfc(-x / like("sqrt_2", x)) / 2


def gelu_tanh(x: Any) -> Any:
    """x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the sigmoid does not cancel below 0."""
    return x * sigmoid(2 * like("sqrt_2", x) / like("sqrt_pi", x) * (x + 0.044715 * (x * x * x)))


def mish(x: Any) -> Any:
    """x * tanh(softplus(x))."""
    return x * _mish_parts(x)[0]


def _mish_parts(x: Any) -> tuple[Any, Any]:
    """tanh(softplus(x)), and 1 minus its square, by t = exp(-abs(x)) alone."""
    t = exp(-anp.abs(x))
    above, below = 1 + 2 * t, t * (t + 2)
    value = where(x > 0, above / (above + 2 * t * t), below / (below + 2))
    rest = where(x > 0, 4 * t * t * (above + t * t) / (above + 2 * t * t) ** 2, 4 * (below + 1) / (below + 2) ** 2)
    return value, rest


def hardsigmoid(x: Any) -> Any:
    """min(max(x + 3, 0), 6) / 6."""
    return relu6(x + 3) / 6


def hardswish(x: Any) -> Any:
    """x * hardsigmoid(x)."""
    return x * relu6(x + 3) / 6


def glu(x: Any) -> Any:
    """The first half along the last axis times the sigmoid of the second."""
    half = x.shape[-1] // 2
    return x[..., :half] * sigmoid(x[..., half:])


# Gradients: dy is that of the output.


def relu_grad(x: Any, dy: Any) -> Any:
    """dy above 0, else 0 (at 0 too)."""
    return where(x > 0, dy, 0.0)


def relu6_grad(x: Any, dy: Any) -> Any:
    """dy between 0 and 6, else 0 (at both ends too)."""
    return where((x > 0) & (x < 6), dy, 0.0)


def leaky_relu_grad(x: Any, dy: Any, slope: float) -> Any:
    """dy above 0, else slope * dy."""
    return where(x > 0, dy, dy * slope)


def elu_grad(x: Any, dy: Any) -> Any:
    """dy above 0, else dy * exp(x)."""
    return dy * exp(minimum(x, 0.0))


def elu_grad_of_output(y: Any, dy: Any, alpha: float = 1.0, scale: float = 1.0) -> Any:
    """The gradient of elu from its output y: scale * dy above 0, else dy * (y + scale * alpha)."""
    return where(y > 0, dy * scale, dy * (y + scale * alpha))


def selu_grad(y: Any, dy: Any) -> Any:
    """The gradient of selu from its output y; NaN counts as above 0, as in both frameworks."""
    return where(y <= 0, dy * (y + SELU_SCALE * SELU_ALPHA), dy * SELU_SCALE)


def softplus_grad(x: Any, dy: Any) -> Any:
    """dy * sigmoid(x)."""
    return dy * sigmoid(x)


def log_sigmoid_grad(x: Any, dy: Any) -> Any:
    """dy * sigmoid(-x)."""
    return dy * sigmoid(-x)


def softsign_grad(x: Any, dy: Any) -> Any:
    """dy / (1 + abs(x))^2."""
    return dy / (1 + anp.abs(x)) ** 2


def silu_grad(x: Any, dy: Any) -> Any:
    """dy * s (1 + x (1 - s)), s = sigmoid(x)."""
    return dy * (sigmoid(x) * (1 + x * sigmoid(-x)))


def gelu_grad(x: Any, dy: Any) -> Any:
    """dy * (distribution function + x * density) of the normal distribution."""
    density = exp(-x * x / 2) / (like("sqrt_2", x) * like("sqrt_pi", x))
    return dy * (_normal(x) + x * density)


def gelu_tanh_grad(x: Any, dy: Any) -> Any:
    """The derivative of :func:`gelu_tanh`."""
    factor = 2 * like("sqrt_2", x) / like("sqrt_pi", x)
    argument = factor * (x + 0.044715 * (x * x * x))
    slope = factor * (1 + 3 * 0.044715 * (x * x))
    return dy * (sigmoid(argument) * (1 + x * slope * sigmoid(-argument)))


def mish_grad(x: Any, dy: Any) -> Any:
    """The derivative of :func:`mish`: the derivative of softplus is sigmoid, of tanh 1 minus its square."""
    value, rest = _mish_parts(x)
    return dy * (value + x * sigmoid(x) * rest)


def hardsigmoid_grad(x: Any, dy: Any) -> Any:
    """dy / 6 between -3 and 3, else 0."""
    return where((x > -3) & (x < 3), dy / 6, 0.0)


def hardswish_grad(x: Any, dy: Any) -> Any:
    """0 below -3, dy above 3, between them dy * (x / 3 + 1/2); at 3 and -3 the frameworks differ."""
    return where(x < -3, 0.0, where(x > 3, dy, dy * ((2 * x + 3) / 6)))


def glu_grad(x: Any, dy: Any) -> Any:
    """The gradient of :func:`glu`."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    gate = sigmoid(second)
    return anp.concatenate([dy * gate, dy * (first * (gate * sigmoid(-second)))], axis=-1)
