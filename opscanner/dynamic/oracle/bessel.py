"""Bessel functions of orders 0 and 1 in the three arithmetics.

float64 is scipy's, balls are Arb's. longdouble: I by its power series of positive terms and its asymptotic one, K by
its series up to 1 and by the trapezoidal rule beyond, which converges exponentially here (Trefethen and Weideman, The
exponentially convergent trapezoidal rule, SIAM Review 2014), J and Y by recurrence up to 25 and asymptotically beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.special

from opscanner.dynamic.oracle.balls import Ball, finite_or
from opscanner.dynamic.oracle.functions import elementary, of_balls

Function: TypeAlias = Callable[..., Any]
_LONG = np.longdouble
_PI = _LONG("3.14159265358979323846264338327950288")
_EULER = _LONG("0.577215664901532860606512090082402431")

#: From here the asymptotic series of I has terms below 2**-64 before it diverges.
_FAR = 50


def _i_scaled_long(order: int, x: np.ndarray) -> np.ndarray:
    """exp(-abs(x)) I(x) (DLMF 10.25.2 and 10.40.1)."""
    size = np.abs(x)
    near = np.minimum(size, _FAR)
    quarter = near * near / 4
    term = np.ones_like(near) if order == 0 else near / 2
    total = term.copy()
    for k in range(1, 110):
        term = term * quarter / (k * (k + order))
        total = total + term
    far = np.maximum(size, _FAR)
    part = np.ones_like(far)
    series = part.copy()
    for k in range(1, 40):
        part = part * -(4 * order * order - (2 * k - 1) ** 2) / (k * 8 * far)
        series = series + part
    answer: np.ndarray = np.where(size < _FAR, total * np.exp(-near), series / np.sqrt(2 * _PI * far))
    if order:
        answer = np.where(x < 0, -answer, answer)
    return answer


def _k_scaled_long(order: int, x: np.ndarray) -> np.ndarray:
    """exp(x) K(x)."""
    made = np.where(x < 0, _LONG(np.nan), np.where(x == 0, _LONG(np.inf), np.where(np.isnan(x), x, _LONG(0))))
    for inside, function in (((x > 0) & (x <= 1), _k_series), ((x > 1) & np.isfinite(x), _k_integral)):
        if np.any(inside):
            made[inside] = function(order, x[inside])
    answer: np.ndarray = made
    return answer


def _k_series(order: int, x: np.ndarray) -> np.ndarray:
    """For x up to 1 (DLMF 10.31.1 and 10.31.2): nothing cancels there."""
    quarter = x * x / 4
    logarithm = np.log(x / 2) + _EULER
    term, harmonic, total = np.ones_like(x), _LONG(0), np.zeros_like(x)
    for k in range(1 - order, 16):
        if order == 0:
            term, harmonic = term * quarter / (k * k), harmonic + 1 / _LONG(k)
            total = total + (harmonic - logarithm) * term
        else:
            if k:
                term, harmonic = term * quarter / (k * (k + 1)), harmonic + 1 / _LONG(k)
            total = total + (logarithm - harmonic - 1 / _LONG(2 * k + 2)) * term
    value = total - logarithm if order == 0 else 1 / x + x / 2 * total
    answer: np.ndarray = value * np.exp(x)
    return answer


def _k_integral(order: int, x: np.ndarray) -> np.ndarray:
    """exp(x) K(x) for x above 1: the integral of exp(-x (cosh t - 1)) cosh(order t) over t > 0 (DLMF 10.32.9)."""
    step = np.minimum(_LONG(0.125), _LONG(0.5) / np.sqrt(x))
    end = np.arccosh(1 + 60 / x)  # what is left out is below exp(-50)
    total = np.full_like(x, 0.5)
    for j in range(1, int(np.ceil(np.max(end / step))) + 1):
        t = j * step
        total = total + np.exp(-2 * x * np.sinh(t / 2) ** 2) * (np.cosh(t) if order else 1)
    answer: np.ndarray = total * step
    return answer


def _first_kind(x: np.ndarray) -> list[np.ndarray]:
    """J of orders 0 to 80 for abs(x) up to 25: backward recurrence, normed by J0 + 2 sum J2k = 1 (DLMF 3.6)."""
    small = np.where(x == 0, _LONG(1), x)
    above, here = np.zeros_like(small), np.full_like(small, _LONG("1e-4900"))
    orders = [here]
    for n in range(80, 0, -1):
        above, here = here, 2 * n / small * here - above
        orders.append(here)
    orders.reverse()
    norm = orders[0] + 2 * sum(orders[2::2])
    return [np.where(x == 0, _LONG(n == 0), value / norm) for n, value in enumerate(orders)]


def _neumann(order: int, x: np.ndarray) -> np.ndarray:
    """Y of order 0 or 1 for x up to 25, by J of higher orders (DLMF 10.23.17)."""
    j = _first_kind(x)
    series = sum((-1) ** k * _LONG(order + 2 * k) / (k * (order + k)) * j[order + 2 * k] for k in range(1, 38))
    value = 2 / _PI * ((np.log(x / 2) + _EULER - order) * j[order] - series)
    answer: np.ndarray = value - 2 / (_PI * x) * j[0] if order else value
    return answer


def _hankel(order: int, second: bool, x: np.ndarray) -> np.ndarray:
    """J or Y beyond 25 by Hankel's expansions (DLMF 10.17.3 and 10.17.4); terms below 2**-64 before they grow."""
    p, q, term = np.ones_like(x), np.zeros_like(x), np.ones_like(x)
    for k in range(1, 45):
        term = term * (4 * order * order - (2 * k - 1) ** 2) / (k * 8 * x)
        sign = 1 if k % 4 in (0, 1) else -1
        p, q = (p, q + sign * term) if k % 2 else (p + sign * term, q)
    cosine, sine = np.cos(x), np.sin(x)  # of x - pi/4 (order 0) or x - 3 pi/4 below, times sqrt(2)
    turned = (cosine + sine, sine - cosine) if order == 0 else (sine - cosine, -sine - cosine)
    wave = p * turned[1] + q * turned[0] if second else p * turned[0] - q * turned[1]
    answer: np.ndarray = wave / np.sqrt(x.dtype.type(_PI) * x)
    return answer


def _oscillating(order: int, second: bool) -> Function:
    def function(x: Any) -> Any:
        x = np.asarray(x)
        size = x if second else np.abs(x)
        made = np.full(x.shape, np.nan, dtype=_LONG)
        near, far = (size <= 25) & ((size > 0) | (not second)), (size > 25) & np.isfinite(size)
        made[near] = _neumann(order, size[near]) if second else _first_kind(size[near])[order]
        made[far] = _hankel(order, second, size[far])
        made[np.isposinf(size)] = 0
        if second:
            made[size == 0] = -np.inf
        return np.where(np.signbit(x), -made, made) if order and not second else made

    return function


def _reduced(double: Function, order: int, second: bool) -> Function:
    """scipy's up to 25; beyond, its reduction of the argument loses digits that numpy's cosine keeps."""

    def function(x: Any) -> Any:
        x = np.asarray(x)
        size = x if second else np.abs(x)
        far = np.where((size > 25) & np.isfinite(size), size, 30.0)
        value = np.where(size > 25, _hankel(order, second, far), double(np.minimum(size, 25)))
        value = np.where(np.isposinf(size), 0.0, value)
        return np.where(np.signbit(x), -value, value) if order and not second else value

    return function


def _i(order: int, scaled: bool) -> Function:
    def function(x: Any) -> Any:
        x = np.asarray(x)
        value = _i_scaled_long(order, x)
        return value if scaled else _at_infinity(x, value * np.exp(np.abs(x)), order)

    return function


def _at_infinity(x: Any, value: Any, order: int) -> Any:
    """I grows beyond all bounds; exp(x) times what falls like 1 / sqrt(x) is NaN there, and scipy's I too."""
    return np.where(np.isinf(x), x if order else np.abs(x), value)


def _k(order: int, scaled: bool) -> Function:
    def function(x: Any) -> Any:
        x = np.asarray(x)
        value = _k_scaled_long(order, x)
        return value if scaled else value * np.exp(-x)

    return function


def _bessel(
    name: str,
    double: Function,
    long: Function | None,
    of_ball: tuple[str, int, bool | None],
    limits: tuple[float, float],
) -> Function:
    """A Bessel function; ``of_ball`` names Arb's, the order, and whether it is scaled; ``limits``: at 0, infinity."""
    method, order, scaled = of_ball
    at_zero, at_infinity = limits
    mirrored = method in ("bessel_i", "bessel_j")

    def ball(x: Ball) -> Ball:
        if x.isnan() or (x < 0 and not mirrored):
            return Ball(math.nan)
        odd = order % 2 == 1 and x < 0
        if x.isinf() or (x == 0 and not mirrored):
            value = at_infinity if x.isinf() else at_zero
            return Ball(-value if odd else value)
        size = abs(x.value)
        found = getattr(size, method)(order) if scaled is None else getattr(size, method)(order, scaled=scaled)
        return finite_or(-found if odd else found)

    return elementary(name, double, long, of_balls(ball), None)


i0 = _bessel(
    "i0", lambda x: _at_infinity(x, scipy.special.i0(x), 0), _i(0, False), ("bessel_i", 0, False), (1.0, math.inf)
)
i0e = _bessel("i0e", scipy.special.i0e, _i(0, True), ("bessel_i", 0, True), (1.0, 0.0))
i1 = _bessel(
    "i1", lambda x: _at_infinity(x, scipy.special.i1(x), 1), _i(1, False), ("bessel_i", 1, False), (0.0, math.inf)
)
i1e = _bessel("i1e", scipy.special.i1e, _i(1, True), ("bessel_i", 1, True), (0.0, 0.0))
k0 = _bessel("k0", scipy.special.k0, _k(0, False), ("bessel_k", 0, False), (math.inf, 0.0))
k0e = _bessel("k0e", scipy.special.k0e, _k(0, True), ("bessel_k", 0, True), (math.inf, 0.0))
k1 = _bessel("k1", scipy.special.k1, _k(1, False), ("bessel_k", 1, False), (math.inf, 0.0))
k1e = _bessel("k1e", scipy.special.k1e, _k(1, True), ("bessel_k", 1, True), (math.inf, 0.0))
j0 = _bessel("j0", _reduced(scipy.special.j0, 0, False), _oscillating(0, False), ("bessel_j", 0, None), (1.0, 0.0))
j1 = _bessel("j1", _reduced(scipy.special.j1, 1, False), _oscillating(1, False), ("bessel_j", 1, None), (0.0, 0.0))
y0 = _bessel("y0", _reduced(scipy.special.y0, 0, True), _oscillating(0, True), ("bessel_y", 0, None), (-math.inf, 0.0))
y1 = _bessel("y1", _reduced(scipy.special.y1, 1, True), _oscillating(1, True), ("bessel_y", 1, None), (-math.inf, 0.0))

__all__ = ["i0", "i0e", "i1", "i1e", "j0", "j1", "k0", "k0e", "k1", "k1e", "y0", "y1"]
