"""Functions of one variable that ``functions`` does not have: rounding, signs, reciprocals, logit."""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.functions import arctanh, elementary, log, log1p, of_balls
from opscanner.dynamic.oracle.references.arrays import where

absolute_value = elementary("absolute_value", np.abs, np.abs, of_balls(abs), lambda ans, x: sign(x))


def sign(x: Any) -> Any:
    """-1, 0 or 1; NaN for NaN (torch.sign, tf.raw_ops.Sign)."""
    return _sign(x)


def _sign_of_ball(x: Any) -> Any:
    return x if x.isnan() else type(x)((x > 0) - (x < 0))


_sign = elementary("sign", np.sign, np.sign, of_balls(_sign_of_ball), None)
floor = elementary("floor", np.floor, np.floor, of_balls(lambda x: x.floor()), None)
ceil = elementary("ceil", np.ceil, np.ceil, of_balls(lambda x: x.ceil()), None)

#: To the nearest integer, ties to even (torch.round, tf.raw_ops.Round and Rint).
round_to_even = elementary("round_to_even", np.rint, np.rint, of_balls(lambda x: x.rint()), None)


def square(x: Any) -> Any:
    """``x * x``."""
    return x * x


def reciprocal(x: Any) -> Any:
    """``1 / x``."""
    return 1 / x


def logit(x: Any) -> Any:
    """log(x / (1 - x)), NaN outside [0, 1] (torch.logit without eps)."""
    middle = anp.abs(x - 0.5) < 0.25  # there 2x - 1 is exact
    inner = 2 * arctanh(where(middle, 2 * x - 1, 0.0))
    return where(middle, inner, log(x) - log1p(-x))


def logit_grad(x: Any, dy: Any) -> Any:
    """dy / (x (1 - x))."""
    return dy / (x * (1 - x))


# Gradients that the operator computes from its own output, which is rounded to the format.


def sqrt_grad(y: Any, dy: Any) -> Any:
    """The gradient of sqrt from its output y (tf.raw_ops.SqrtGrad)."""
    return dy / (2 * y)


def rsqrt_grad(y: Any, dy: Any) -> Any:
    """The gradient of rsqrt from its output y (tf.raw_ops.RsqrtGrad)."""
    return -dy * (y * y * y) / 2


def reciprocal_grad(y: Any, dy: Any) -> Any:
    """The gradient of 1 / x from its output y (tf.raw_ops.ReciprocalGrad)."""
    return -dy * (y * y)


def sigmoid_grad(y: Any, dy: Any) -> Any:
    """The gradient of sigmoid from its output y (tf.raw_ops.SigmoidGrad)."""
    return dy * (y * (1 - y))


def tanh_grad(y: Any, dy: Any) -> Any:
    """The gradient of tanh from its output y (tf.raw_ops.TanhGrad)."""
    return dy * ((1 - y) * (1 + y))


__all__ = [
    "absolute_value",
    "ceil",
    "floor",
    "logit",
    "logit_grad",
    "reciprocal",
    "reciprocal_grad",
    "round_to_even",
    "rsqrt_grad",
    "sigmoid_grad",
    "sign",
    "sqrt_grad",
    "square",
    "tanh_grad",
]
