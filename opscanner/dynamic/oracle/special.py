"""Special functions in the three arithmetics: erf, the gamma functions and their inverses, zeta.

float64 is scipy's, balls are Arb's. longdouble exists where the second opinion is cheap: series whose terms have one
sign, a continued fraction, Stirling's series after shifting; inverse functions are one Newton step from float64's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.special
from autograd.extend import defvjp, primitive
from autograd.numpy.numpy_vjps import unbroadcast_f
from flint import arb

from opscanner.dynamic.oracle.balls import Ball, finite_or
from opscanner.dynamic.oracle.functions import NoSecondOpinion, elementary, exp, is_exact_kind, is_long, like, of_balls

Function: TypeAlias = Callable[..., Any]
_LONG = np.longdouble
_PI = _LONG("3.14159265358979323846264338327950288")
_SQRT_PI = _LONG("1.77245385090551602729816748334114518")
_FLOAT64_BITS = 53

# -- longdouble forms ------------------------------------------------------------------------------------------------


def _erf_series(x: np.ndarray) -> np.ndarray:
    """erf for abs(x) < 3 by 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (2n+1)!! (DLMF 7.6.2): all terms have one sign."""
    square = x * x
    term = x.copy()
    total = x.copy()
    for n in range(1, 80):
        term = term * (2 * square) / (2 * n + 1)
        total = total + term
    answer: np.ndarray = np.asarray(2 / _SQRT_PI * np.exp(-square) * total)
    return answer


def _erfc_fraction(x: np.ndarray) -> np.ndarray:
    """erfc for x >= 2 by the continued fraction of DLMF 7.9.1, from its end; 120 terms give 64 bits at 2."""
    tail = x.copy()
    for n in range(120, 0, -1):
        tail = x + (n / _LONG(2)) / tail
    answer: np.ndarray = np.asarray(np.exp(-x * x) / (_SQRT_PI * tail))
    return answer


def _in_parts(x: Any, parts: list[tuple[Any, Function]], otherwise: Any) -> np.ndarray:
    """Each part's function where its condition holds."""
    made = np.array(otherwise, dtype=_LONG)
    for condition, function in parts:
        if np.any(condition):
            made[condition] = function(x[condition])
    answer: np.ndarray = made
    return answer


def _erf_long(x: Any) -> Any:
    x = np.asarray(x)
    size = np.abs(x)
    parts: list[tuple[Any, Function]] = [
        (size < 3, _erf_series),
        (size >= 3, lambda v: np.copysign(1 - _erfc_fraction(np.abs(v)), v)),
    ]
    return _in_parts(x, parts, x)


def _erfc_long(x: Any) -> Any:
    x = np.asarray(x)
    parts: list[tuple[Any, Function]] = [
        (np.abs(x) < 2, lambda v: 1 - _erf_series(v)),
        (x >= 2, _erfc_fraction),
        (x <= -2, lambda v: 2 - _erfc_fraction(-v)),
    ]
    return _in_parts(x, parts, x)


#: Bernoulli numbers B_2 to B_24 (DLMF 24.2).
_BERNOULLI = [
    _LONG(top) / bottom
    for top, bottom in (
        *((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510)),
        *((43867, 798), (-174611, 330), (854513, 138), (-236364091, 2730)),
    )
]
_SHIFT = 24


def _lgamma_long(x: Any) -> Any:
    """Stirling's series (DLMF 5.11.1) beyond 24, the recurrence below it, the reflection below 0."""
    x = np.asarray(x)
    positive = np.where(x > 0, x, 1 - x)
    steps = np.clip(np.ceil(_SHIFT - positive), 0, _SHIFT)
    product, shifted = np.ones_like(positive), positive
    for n in range(_SHIFT):
        factor = np.where(n < steps, positive + n, _LONG(1))
        product, shifted = product * factor, np.where(n < steps, shifted + 1, shifted)
    series = sum(b / ((2 * n + 1) * (2 * n + 2) * shifted ** (2 * n + 1)) for n, b in enumerate(_BERNOULLI))
    value = (shifted - 0.5) * np.log(shifted) - shifted + np.log(2 * _PI) / 2 + series - np.log(product)
    value = np.where(np.isposinf(positive), np.inf, value)
    reflected = np.log(_PI / np.abs(np.sin(_PI * (x - np.rint(x))))) - value
    pole = (x <= 0) & (x == np.floor(x))
    return np.where(pole | np.isinf(x), _LONG(np.inf), np.where(x > 0, value, reflected))


def _digamma_long(x: Any) -> Any:
    """As :func:`_lgamma_long` (DLMF 5.11.2, 5.5.2, 5.5.4)."""
    x = np.asarray(x)
    positive = np.where(x > 0, x, 1 - x)
    steps = np.clip(np.ceil(_SHIFT - positive), 0, _SHIFT)
    rest, shifted = np.zeros_like(positive), positive
    for n in range(_SHIFT):
        rest = rest + np.where(n < steps, 1 / (positive + n), _LONG(0))
        shifted = np.where(n < steps, shifted + 1, shifted)
    series = sum(b / ((2 * n + 2) * shifted ** (2 * n + 2)) for n, b in enumerate(_BERNOULLI))
    value = np.where(np.isposinf(positive), np.inf, np.log(shifted) - 1 / (2 * shifted) - series - rest)
    reflected = value - _PI / np.tan(_PI * (x - np.rint(x)))
    pole = np.where(x == 0, -np.copysign(_LONG(np.inf), x), _LONG(np.nan))
    below = np.where(x == np.floor(x), pole, reflected)
    return np.where(x > 0, value, np.where(np.isneginf(x), _LONG(np.nan), below))


def _newton(double: Function, forward: Function, slope: Function) -> Function:
    """An inverse function in longdouble: one Newton step from float64's answer doubles its digits."""

    def function(y: Any) -> Any:
        y = np.asarray(y)
        start = double(y.astype(np.float64)).astype(_LONG)
        better = start - forward(start, y) / slope(start)
        return np.where(np.isfinite(start) & (start != 0), better, start)

    return function


def _erf_excess(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """erf(x) - y without cancellation at either end."""
    near = 1 - np.abs(y)
    far = np.where(np.abs(y) > 0.5, np.copysign(near - _erfc_long(np.abs(x)), y), 0)
    answer: np.ndarray = np.where(np.abs(y) > 0.5, far, _erf_long(x) - y)
    return answer


_ROOT2 = np.sqrt(_LONG(2))
_erfinv_long = _newton(scipy.special.erfinv, _erf_excess, lambda x: 2 / _SQRT_PI * np.exp(-x * x))
_ndtri_long = _newton(
    scipy.special.ndtri,
    lambda x, p: np.where(p < 0.5, _erfc_long(-x / _ROOT2) / 2 - p, (1 - p) - _erfc_long(x / _ROOT2) / 2),
    lambda x: np.exp(-x * x / 2) / (_ROOT2 * _SQRT_PI),
)


def _ndtri_ball(p: Ball) -> Ball:
    if p.isnan() or not 0 <= p <= 1:
        return Ball(math.nan)
    if p == 0 or p == 1:
        return Ball(math.inf if p == 1 else -math.inf)
    return finite_or(-(arb(2).sqrt()) * (2 * p.value).erfcinv())


# -- functions of one variable ---------------------------------------------------------------------------------------


def _gauss(x: Any) -> Any:
    """The derivative of erf."""
    return 2 / like("sqrt_pi", x) * exp(-x * x)


def _lgamma(x: Any) -> Any:
    """scipy's, but for -infinity, where C's lgamma is +infinity and scipy's -infinity."""
    return np.where(np.isinf(x), np.inf, scipy.special.gammaln(x))


erf = elementary("erf", scipy.special.erf, _erf_long, of_balls(Ball.erf), lambda ans, x: _gauss(x))
erfc = elementary("erfc", scipy.special.erfc, _erfc_long, of_balls(Ball.erfc), lambda ans, x: -_gauss(x))
erfinv = elementary(
    "erfinv",
    scipy.special.erfinv,
    _erfinv_long,
    of_balls(Ball.erfinv),
    lambda ans, x: like("sqrt_pi", x) / 2 * exp(ans * ans),
)
ndtri = elementary("ndtri", scipy.special.ndtri, _ndtri_long, of_balls(_ndtri_ball), None)
lgamma = elementary("lgamma", _lgamma, _lgamma_long, of_balls(Ball.lgamma), lambda ans, x: digamma(x))
digamma: Function = elementary(
    "digamma", scipy.special.digamma, _digamma_long, of_balls(Ball.digamma), lambda ans, x: polygamma(1, x)
)


# -- functions of two variables ------------------------------------------------------------------


def of_two(name: str, double: Function, ball: Callable[[Ball, Ball], Ball], long: Function | None = None) -> Function:
    """A function of two variables without derivatives."""

    def function(a: Any, b: Any) -> Any:
        if is_exact_kind(a) or is_exact_kind(b):
            return np.frompyfunc(lambda u, v: ball(Ball(u), Ball(v)), 2, 1)(a, b)
        if not (is_long(a) or is_long(b)):
            return double(a, b)
        if long is None:
            raise NoSecondOpinion(name)
        return long(a, b)

    function.__name__ = name
    return function


def _polygamma_ball(n: Ball, x: Ball) -> Ball:
    """(-1)^(n+1) n! zeta(n+1, x) for n > 0 and x > 0."""
    if x.isnan() or not x > 0:
        return Ball(math.inf if x == 0 else math.nan)
    order = int(float(n))
    if x.isinf():
        return Ball(0.0)
    return finite_or((-1) ** (order + 1) * math.factorial(order) * arb(order + 1).zeta(x.value))


def _polygamma_long(n: Any, x: Any) -> Any:
    """As :func:`_digamma_long` (DLMF 5.15.8, 5.15.5), for one order: all terms have one sign."""
    m, x = int(n), np.asarray(x)
    positive = np.where(x > 0, x, _LONG(1))
    steps = np.clip(np.ceil(_SHIFT - positive), 0, _SHIFT)
    rest, shifted = np.zeros_like(positive), positive
    for k in range(_SHIFT):
        rest = rest + np.where(k < steps, 1 / (positive + k) ** (m + 1), _LONG(0))
        shifted = np.where(k < steps, shifted + 1, shifted)
    series = math.factorial(m - 1) / shifted**m + math.factorial(m) / (2 * shifted ** (m + 1))
    for k, b in enumerate(_BERNOULLI, start=1):
        factor = _LONG(math.factorial(2 * k + m - 1)) / math.factorial(2 * k)
        series = series + b * factor / shifted ** (2 * k + m)
    value = (-1) ** (m + 1) * (math.factorial(m) * rest + series)
    return np.where(x > 0, value, np.where(x == 0, _LONG(np.inf), _LONG(np.nan)))


_polygamma = primitive(
    of_two("polygamma", lambda n, x: scipy.special.polygamma(n, x), _polygamma_ball, _polygamma_long)
)
defvjp(
    _polygamma,
    None,
    lambda ans, n, x: unbroadcast_f(x, lambda g: g * _polygamma(n + 1, x)),
)


def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of digamma, for n > 0 and x > 0."""
    return _polygamma(n, x)


def _zeta_ball(s: Ball, q: Ball) -> Ball:
    if not (s > 1 and q > 0) or s.isinf() or q.isinf():
        return Ball(math.nan)
    return finite_or(s.value.zeta(q.value))


zeta = of_two("zeta", scipy.special.zeta, _zeta_ball)


def _incomplete_gamma_ball(method: str, at_zero: float, at_infinity: float) -> Callable[[Ball, Ball], Ball]:
    """Of an incomplete gamma function: itself, or 1 less the other one, whichever Arb knows better.

    For large arguments near each other Arb's lower one is a ball of radius 10**1000 up to thousands of bits.
    """
    other = {"gamma_lower": "gamma_upper", "gamma_upper": "gamma_lower"}[method]

    def function(a: Ball, x: Ball) -> Ball:
        if not (a > 0 and x >= 0) or a.isinf():
            return Ball(math.nan)
        if x == 0 or x.isinf():
            return Ball(at_zero if x == 0 else at_infinity)
        value = getattr(x.value, method)(a.value, regularized=1)
        if not value.is_finite() or value.rel_accuracy_bits() < _FLOAT64_BITS:
            complement = 1 - getattr(x.value, other)(a.value, regularized=1)
            if not value.is_finite() or complement.rad() < value.rad():
                value = complement
        return finite_or(value)

    return function


gammainc = of_two("gammainc", scipy.special.gammainc, _incomplete_gamma_ball("gamma_lower", 0.0, 1.0))
gammaincc = of_two("gammaincc", scipy.special.gammaincc, _incomplete_gamma_ball("gamma_upper", 1.0, 0.0))


__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "gammainc",
    "gammaincc",
    "lgamma",
    "ndtri",
    "polygamma",
    "zeta",
]
