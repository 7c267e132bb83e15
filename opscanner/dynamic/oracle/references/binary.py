"""Functions of two or three variables, element by element."""

from __future__ import annotations

import math
from typing import Any

import autograd.numpy as anp
import numpy as np

from opscanner.dynamic.oracle.balls import Ball
from opscanner.dynamic.oracle.functions import exp, log, log1p, maximum
from opscanner.dynamic.oracle.references.arrays import where
from opscanner.dynamic.oracle.special import of_two
from opscanner.precision.rounding import step


def _fmod_ball(x: Ball, y: Ball) -> Ball:
    """C's fmod is exact, so float64's serves balls that are float64 numbers: quotients may have thousands of bits."""
    a, b = float(x), float(y)
    if not (x == a and y == b):
        return x - y * (x / y).__trunc__()
    try:
        return Ball(math.fmod(a, b))
    except ValueError:  # of an infinity, or by 0
        return Ball(math.nan)


def _remainder_ball(x: Ball, y: Ball) -> Ball:
    rest = _fmod_ball(x, y)
    return rest + y if rest != 0 and (rest < 0) != (y < 0) else rest


fmod = of_two("fmod", np.fmod, _fmod_ball, np.fmod)
fmod.__doc__ = "x - y * trunc(x / y): the dividend's sign."

remainder = of_two("remainder", np.remainder, _remainder_ball, np.remainder)
remainder.__doc__ = "x - y * floor(x / y): the divisor's sign (torch.remainder, tf.raw_ops.FloorMod)."

floor_divide = of_two("floor_divide", np.floor_divide, lambda x, y: (x - _remainder_ball(x, y)) / y, np.floor_divide)
floor_divide.__doc__ = "The largest integer not above the exact quotient (torch.floor_divide, Python's rule); y not 0."


def truncate_divide(x: Any, y: Any) -> Any:
    """The quotient of integers, towards 0."""
    return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))


def power(x: Any, y: Any) -> Any:
    """x to the y (IEEE 754-2019, 9.2: pow)."""
    return anp.power(x, y)


def pow_grad(x: Any, y: Any, dy: Any) -> tuple[Any, Any]:
    """The gradients of x to the y, for x > 0."""
    return dy * (y * anp.power(x, y - 1)), dy * (anp.power(x, y) * log(x))


def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y)."""
    return anp.arctan2(y, x)


def atan2_grad(y: Any, x: Any, dy: Any) -> tuple[Any, Any]:
    """The gradients of :func:`atan2`, of y first; not at the origin."""
    square = x * x + y * y
    return dy * x / square, -dy * y / square


def mul_grad(x: Any, y: Any, dy: Any) -> tuple[Any, Any]:
    """The gradients of x * y."""
    return dy * y, dy * x


def div_grad(x: Any, y: Any, dy: Any) -> tuple[Any, Any]:
    """The gradients of x / y."""
    return dy / y, -dy * x / (y * y)


def hypot(x: Any, y: Any) -> Any:
    """sqrt(x^2 + y^2) without overflow of the squares."""
    return anp.hypot(x, y)


def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)); the infinity where both are the same one."""
    gap = where(x == y, 0.0, -anp.abs(x - y))  # the difference of equal infinities is NaN
    return maximum(x, y) + log1p(exp(gap))


def xlogy(x: Any, y: Any) -> Any:
    """x * log(y), 0 where x is 0."""
    return where(x == 0, 0.0, x * log(y))


def xlog1py(x: Any, y: Any) -> Any:
    """x * log(1 + y), 0 where x is 0."""
    return where(x == 0, 0.0, x * log1p(y))


def xlogy_grad(x: Any, y: Any, dy: Any) -> tuple[Any, Any]:
    """The gradients of x * log(y), x not 0."""
    return dy * log(y), dy * x / y


def div_no_nan(x: Any, y: Any) -> Any:
    """x / y, 0 where y is 0."""
    return where(y == 0, 0.0, x / y)


def xdivy(x: Any, y: Any) -> Any:
    """x / y, 0 where x is 0."""
    return where(x == 0, 0.0, x / y)


def mul_no_nan(x: Any, y: Any) -> Any:
    """x * y, 0 where y is 0."""
    return where(y == 0, 0.0, x * y)


def cross(x: Any, y: Any) -> Any:
    """The cross product of vectors of three along the last axis."""
    a, b = ([v[..., i] for i in range(3)] for v in (x, y))
    parts = [a[i] * b[k] - a[k] * b[i] for i, k in ((1, 2), (2, 0), (0, 1))]
    return anp.stack(parts, axis=-1)


def next_after(x: Any, y: Any, format_: str) -> np.ndarray:
    """The format's next value after x towards y (IEEE 754-2019, 5.3.1); y where they are equal."""
    start, end = (np.asarray(v, dtype=np.float64) for v in (x, y))
    moved = step(start, np.where(end > start, 1, -1), format_)
    over = np.isfinite(start) & (moved == start)  # step stops at the largest value
    moved = np.where(over, np.copysign(np.inf, start), moved)
    answer: np.ndarray = np.where(np.isnan(start) | np.isnan(end), np.nan, np.where(start == end, end, moved))
    return answer


def lerp(x: Any, y: Any, weight: float) -> Any:
    """x + weight * (y - x)."""
    return x + weight * (y - x)


__all__ = [
    "atan2",
    "atan2_grad",
    "cross",
    "div_grad",
    "div_no_nan",
    "floor_divide",
    "fmod",
    "hypot",
    "lerp",
    "logaddexp",
    "mul_grad",
    "mul_no_nan",
    "next_after",
    "pow_grad",
    "power",
    "remainder",
    "truncate_divide",
    "xdivy",
    "xlog1py",
    "xlogy",
    "xlogy_grad",
]
