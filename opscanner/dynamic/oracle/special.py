"""Special functions in the three arithmetics: erf and gamma functions, Bessel functions, zeta.

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


def _erfinv(y: Any) -> Any:
    """scipy's from Boost, which takes the sign of -0 too."""
    return scipy.special.erfinv(y)


erf = elementary("erf", scipy.special.erf, _erf_long, of_balls(Ball.erf), lambda ans, x: _gauss(x))
erfc = elementary("erfc", scipy.special.erfc, _erfc_long, of_balls(Ball.erfc), lambda ans, x: -_gauss(x))
erfinv = elementary(
    "erfinv", _erfinv, _erfinv_long, of_balls(Ball.erfinv), lambda ans, x: like("sqrt_pi", x) / 2 * exp(ans * ans)
)
ndtri = elementary("ndtri", scipy.special.ndtri, _ndtri_long, of_balls(_ndtri_ball), None)
lgamma = elementary("lgamma", scipy.special.gammaln, _lgamma_long, of_balls(Ball.lgamma), lambda ans, x: digamma(x))
digamma: Function = elementary(
    "digamma", scipy.special.digamma, _digamma_long, of_balls(Ball.digamma), lambda ans, x: polygamma(1, x)
)


def _bessel(
    name: str, double: Function, method: str, order: int, scaled: bool | None, at_infinity: float, at_zero: float
) -> Function:
    """A Bessel function; ``scaled`` is Arb's attribute of I and K (times exp(-x), exp(x))."""

    def of_ball(x: Ball) -> Ball:
        if x.isnan():
            return x
        odd = method in ("bessel_i", "bessel_j") and order % 2 == 1 and x < 0
        if method in ("bessel_k", "bessel_y"):
            if x < 0:
                return Ball(math.nan)
            if x == 0:
                return Ball(at_zero)
        if x.isinf():
            return Ball(-at_infinity if odd else at_infinity)
        size = abs(x.value) if method in ("bessel_i", "bessel_j") else x.value
        value = getattr(size, method)(order) if scaled is None else getattr(size, method)(order, scaled=scaled)
        return finite_or(-value if odd else value)

    return elementary(name, double, None, of_balls(of_ball), None)


i0 = _bessel("i0", scipy.special.i0, "bessel_i", 0, False, math.inf, 1.0)
i0e = _bessel("i0e", scipy.special.i0e, "bessel_i", 0, True, 0.0, 1.0)
i1 = _bessel("i1", scipy.special.i1, "bessel_i", 1, False, math.inf, 0.0)
i1e = _bessel("i1e", scipy.special.i1e, "bessel_i", 1, True, 0.0, 0.0)
k0 = _bessel("k0", scipy.special.k0, "bessel_k", 0, False, 0.0, math.inf)
k0e = _bessel("k0e", scipy.special.k0e, "bessel_k", 0, True, 0.0, math.inf)
k1 = _bessel("k1", scipy.special.k1, "bessel_k", 1, False, 0.0, math.inf)
k1e = _bessel("k1e", scipy.special.k1e, "bessel_k", 1, True, 0.0, math.inf)
j0 = _bessel("j0", scipy.special.j0, "bessel_j", 0, None, 0.0, 1.0)
j1 = _bessel("j1", scipy.special.j1, "bessel_j", 1, None, 0.0, 0.0)
y0 = _bessel("y0", scipy.special.y0, "bessel_y", 0, None, 0.0, -math.inf)
y1 = _bessel("y1", scipy.special.y1, "bessel_y", 1, None, 0.0, -math.inf)


# -- functions of two variables: no longdouble form ------------------------------------------------------------------


def of_two(name: str, double: Function, ball: Callable[[Ball, Ball], Ball]) -> Function:
    """A function of two variables without derivatives or longdouble form."""

    def function(a: Any, b: Any) -> Any:
        if is_exact_kind(a) or is_exact_kind(b):
            return np.frompyfunc(lambda u, v: ball(Ball(u), Ball(v)), 2, 1)(a, b)
        if is_long(a) or is_long(b):
            raise NoSecondOpinion(name)
        return double(a, b)

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


_polygamma = primitive(of_two("polygamma", lambda n, x: scipy.special.polygamma(n, x), _polygamma_ball))
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
    def function(a: Ball, x: Ball) -> Ball:
        if not (a > 0 and x >= 0) or a.isinf():
            return Ball(math.nan)
        if x == 0 or x.isinf():
            return Ball(at_zero if x == 0 else at_infinity)
        return finite_or(getattr(x.value, method)(a.value, regularized=1))

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
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "lgamma",
    "ndtri",
    "polygamma",
    "y0",
    "y1",
    "zeta",
]
