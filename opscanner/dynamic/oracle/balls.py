"""Real numbers with an error bound, as elements of numpy's object arrays.

A :class:`Ball` is a finite ``flint.arb`` (midpoint and radius; F. Johansson, Arb: efficient arbitrary-precision
midpoint-radius interval arithmetic, IEEE Trans. Comput. 2017), or one of infinity, -infinity and NaN, which follow
IEEE 754-2019 (6 and 9.2). numpy's ufuncs find their functions here by name (``np.arctan`` calls ``arctan``), so that
autograd's derivatives hold for balls too. The working precision is ``flint.ctx.prec``.

Where a ball is too wide for an answer (a comparison of balls that overlap, a divisor that may be zero),
:func:`note_doubt` remembers it and the midpoints answer: who evaluates asks :func:`doubted` and tries again with more
bits. Balls know no -0.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from flint import arb

Number: TypeAlias = "Ball | float | int | np.generic"

#: What float64 ends with.
_LARGEST = arb(sys.float_info.max)

_doubts: list[str] = []


def note_doubt(what: str) -> None:
    """Remember that a ball was too wide to answer ``what``."""
    if not _doubts:
        _doubts.append(what)


def clear_doubts() -> None:
    """Forget all doubts; before an evaluation."""
    _doubts.clear()


def doubted() -> str:
    """What could not be answered since :func:`clear_doubts`; empty when everything could."""
    return _doubts[0] if _doubts else ""


def _raw(value: Any) -> Any:
    """The arb, or the float for infinities and NaN; NotImplemented for what is no number."""
    if type(value) is Ball:
        return value.value
    if isinstance(value, arb):
        return value
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return arb(int(value))
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return arb(number) if math.isfinite(number) else number
    return NotImplemented


def _sign(value: Any) -> float:
    """A float of the value's sign: 0.0 for exact zero, 1.0 and -1.0; infinities and NaN are themselves."""
    if type(value) is float:
        return value
    if value > 0:
        return 1.0
    if value < 0:
        return -1.0
    if not value.is_zero():
        note_doubt("the sign of a number")
        return 1.0 if value.mid() > 0 else -1.0 if value.mid() < 0 else 0.0
    return 0.0


def finite_or(value: Any) -> Ball:
    """A ball of an arb; where that is not finite, NaN and a doubt."""
    if not value.is_finite():
        note_doubt("a value next to a singularity")
        return Ball(math.nan)
    return Ball(value)


def _divide_floats(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def _at_specials(method: str, at_minus_infinity: float, at_infinity: float) -> Callable[[Ball], Ball]:
    """A function that is finite for all finite arguments, with its limits."""

    def function(self: Ball) -> Ball:
        value = self.value
        if type(value) is float:
            return Ball(value if math.isnan(value) else at_infinity if value > 0 else at_minus_infinity)
        return finite_or(getattr(value, method)())

    return function


def _on_domain(method: str, low: float, high: float, ends: dict[float, float]) -> Callable[[Ball], Ball]:
    """A function on ``[low, high]``: NaN outside, ``ends`` where it has a pole or a limit."""

    def function(self: Ball) -> Ball:
        value = self.value
        if type(value) is float:
            return Ball(ends.get(value, math.nan))
        if value < low or value > high:
            return Ball(math.nan)
        for end, result in ends.items():
            if math.isfinite(end) and value == end:
                return Ball(result)
        return finite_or(getattr(value, method)())

    return function


def _gamma_kind(method: str, at_zero: float, at_negative_integer: float, limits: tuple[float, float]) -> Any:
    """A function with poles at 0, -1, -2 ..."""

    def function(self: Ball) -> Ball:
        value = self.value
        if type(value) is float:
            return Ball(value if math.isnan(value) else limits[value > 0])
        if not value > 0 and value.is_exact() and value.is_integer():
            return Ball(at_zero if value.is_zero() else at_negative_integer)
        return finite_or(getattr(value, method)())

    return function


class Ball:
    """A finite number known up to a radius, or an infinity, or NaN.

    >>> (Ball(2.0).sqrt() * Ball(2.0).sqrt()).value.overlaps(arb(2))
    True
    >>> Ball(0.0).log(), Ball(float("inf")) * 0
    (Ball(-inf), Ball(nan))
    """

    __slots__ = ("value",)

    #: What numpy's and autograd's code asks of a scalar.
    shape: tuple[int, ...] = ()
    ndim = 0
    size = 1
    dtype = np.dtype(object)

    def __init__(self, value: Any) -> None:
        raw = _raw(value)
        if raw is NotImplemented:
            raise TypeError(f"no ball can be made of {value!r}")
        self.value = raw

    def __repr__(self) -> str:
        return f"Ball({self.value})"

    def __hash__(self) -> int:
        return id(self)

    def __float__(self) -> float:
        return self.value if type(self.value) is float else float(self.value.mid())

    def __bool__(self) -> bool:
        return _sign(self.value) != 0

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def __neg__(self) -> Ball:
        return Ball(-self.value)

    def __pos__(self) -> Ball:
        return self

    def __abs__(self) -> Ball:
        return Ball(abs(self.value))

    def conjugate(self) -> Ball:
        return self

    def __add__(self, other: Any) -> Ball:
        a, b = self.value, _raw(other)
        if b is NotImplemented:
            return NotImplemented
        if type(a) is float or type(b) is float:
            return Ball((a if type(a) is float else 0.0) + (b if type(b) is float else 0.0))
        return Ball(a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Ball:
        a, b = self.value, _raw(other)
        if b is NotImplemented:
            return NotImplemented
        if type(a) is float or type(b) is float:
            return Ball((a if type(a) is float else 0.0) - (b if type(b) is float else 0.0))
        return Ball(a - b)

    def __rsub__(self, other: Any) -> Ball:
        b = _raw(other)
        return NotImplemented if b is NotImplemented else Ball(b) - self

    def __mul__(self, other: Any) -> Ball:
        a, b = self.value, _raw(other)
        if b is NotImplemented:
            return NotImplemented
        if type(a) is float or type(b) is float:
            return Ball(_sign(a) * _sign(b))
        return Ball(a * b)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Ball:
        a, b = self.value, _raw(other)
        if b is NotImplemented:
            return NotImplemented
        if type(a) is float or type(b) is float:
            return Ball(_divide_floats(_sign(a), _sign(b)))
        if b.is_zero():
            return Ball(_divide_floats(_sign(a), 0.0))
        return finite_or(a / b)

    def __rtruediv__(self, other: Any) -> Ball:
        b = _raw(other)
        return NotImplemented if b is NotImplemented else Ball(b) / self

    def __pow__(self, other: Any) -> Ball:
        a, b = self.value, _raw(other)
        if b is NotImplemented:
            return NotImplemented
        if type(a) is float or type(b) is float:
            return _special_power(a, b)
        if b.is_zero() or (a.is_exact() and a == 1):
            return Ball(1)
        if a.is_zero():
            return Ball(0.0 if b > 0 else math.inf)
        if b.is_exact() and b.is_integer():
            return finite_or(a**b)
        if a < 0:
            return Ball(math.nan)
        return finite_or(a**b)

    def __rpow__(self, other: Any) -> Ball:
        b = _raw(other)
        return NotImplemented if b is NotImplemented else Ball(b) ** self

    def __floor__(self) -> Ball:
        if type(self.value) is float:
            return self
        whole = self.value.floor()
        if not whole.is_exact():
            note_doubt("the integer below a number")
            return Ball(self.value.mid().floor())
        return Ball(whole)

    def __ceil__(self) -> Ball:
        return -(-self).__floor__()

    def __trunc__(self) -> Ball:
        return self.__floor__() if self >= 0 else self.__ceil__()

    # Found by numpy's object loops of these ufuncs.
    floor, ceil, trunc = __floor__, __ceil__, __trunc__

    def rint(self) -> Ball:
        if type(self.value) is float:
            return self
        below = self.__floor__()
        rest = self - below
        if rest == 0.5:
            return below if (below / 2).__floor__() * 2 == below else below + 1
        return below if rest < 0.5 else below + 1

    # -- comparison -------------------------------------------------------------------------------------------------

    def _order(self, other: Any) -> float:
        """Negative, 0, positive, or NaN for unordered."""
        a, b = self.value, _raw(other)
        if b is NotImplemented:
            raise TypeError(f"a ball cannot be compared with {other!r}")
        if type(a) is float or type(b) is float:
            x, y = (v if type(v) is float else 0.0 for v in (a, b))
            return math.nan if math.isnan(x) or math.isnan(y) else (x > y) - (x < y)
        if a < b:
            return -1
        if a > b:
            return 1
        if self is not other and not (a.is_exact() and b.is_exact()):
            note_doubt("which of two numbers is larger")
            middle = a.mid() - b.mid()
            return 1 if middle > 0 else -1 if middle < 0 else 0
        return 0

    def __lt__(self, other: Any) -> bool:
        return self._order(other) < 0

    def __le__(self, other: Any) -> bool:
        return self._order(other) <= 0

    def __gt__(self, other: Any) -> bool:
        return self._order(other) > 0

    def __ge__(self, other: Any) -> bool:
        return self._order(other) >= 0

    def __eq__(self, other: object) -> bool:
        return self._order(other) == 0

    def __ne__(self, other: object) -> bool:
        return not self._order(other) == 0

    def isnan(self) -> bool:
        return type(self.value) is float and math.isnan(self.value)

    def isinf(self) -> bool:
        return type(self.value) is float and math.isinf(self.value)

    def isfinite(self) -> bool:
        return type(self.value) is not float

    # -- functions, by the names of numpy's ufuncs ------------------------------------------------------------------

    def exp(self) -> Ball:
        """Below -2**64, where Arb takes half a millisecond, a ball round 0: no format comes near exp(-690)."""
        value = self.value
        if type(value) is float:
            return Ball(value if math.isnan(value) else math.inf if value > 0 else 0.0)
        return Ball(arb(0, 1e-300)) if value < -(2**64) else finite_or(value.exp())

    expm1 = _at_specials("expm1", -1.0, math.inf)
    sin = _at_specials("sin", math.nan, math.nan)
    cos = _at_specials("cos", math.nan, math.nan)
    sinh = _at_specials("sinh", -math.inf, math.inf)
    cosh = _at_specials("cosh", math.inf, math.inf)
    tanh = _at_specials("tanh", -1.0, 1.0)
    arcsinh = _at_specials("asinh", -math.inf, math.inf)
    erf = _at_specials("erf", -1.0, 1.0)
    erfc = _at_specials("erfc", 2.0, 0.0)
    tan = _at_specials("tan", math.nan, math.nan)
    sqrt = _on_domain("sqrt", 0, math.inf, {math.inf: math.inf, 0.0: 0.0})
    rsqrt = _on_domain("rsqrt", 0, math.inf, {math.inf: 0.0, 0.0: math.inf})
    log = _on_domain("log", 0, math.inf, {math.inf: math.inf, 0.0: -math.inf})
    log1p = _on_domain("log1p", -1, math.inf, {math.inf: math.inf, -1.0: -math.inf})
    arcsin = _on_domain("asin", -1, 1, {})
    arccos = _on_domain("acos", -1, 1, {})
    arccosh = _on_domain("acosh", 1, math.inf, {math.inf: math.inf})
    arctanh = _on_domain("atanh", -1, 1, {1.0: math.inf, -1.0: -math.inf})
    erfinv = _on_domain("erfinv", -1, 1, {1.0: math.inf, -1.0: -math.inf})
    gamma = _gamma_kind("gamma", math.inf, math.nan, (math.nan, math.inf))
    digamma = _gamma_kind("digamma", -math.inf, math.nan, (math.nan, math.inf))

    def lgamma(self) -> Ball:
        """log(abs(gamma)): arb's own is complex below 0, so by reflection there."""
        value = self.value
        if type(value) is float:
            return Ball(value if math.isnan(value) else math.inf)
        if value > 0:
            return finite_or(value.lgamma())
        if value.is_exact() and value.is_integer():
            return Ball(math.inf)
        return finite_or((arb.pi() / abs(value.sin_pi())).log() - (1 - value).lgamma())

    def arctan(self) -> Ball:
        value = self.value
        if type(value) is float:
            return Ball(value) if math.isnan(value) else Ball(arb.pi() / (2 if value > 0 else -2))
        return Ball(value.atan())

    def exp2(self) -> Ball:
        return 2**self

    def log2(self) -> Ball:
        return self.log() / Ball(arb(2).log())

    def log10(self) -> Ball:
        return self.log() / Ball(arb(10).log())

    def arctan2(self, other: Any) -> Ball:
        """The angle of (other, self); zeros count as +0."""
        y, x = self.value, _raw(other)
        if type(x) is float or type(y) is float:
            if Ball(x).isnan() or Ball(y).isnan():
                return Ball(math.nan)
            if type(x) is float and type(y) is float:
                quarters = (1 if x > 0 else 3) * (1 if y > 0 else -1)
            elif type(y) is float:
                quarters = 2 if y > 0 else -2
            else:
                quarters = 0 if x > 0 else 4 if _sign(y) >= 0 else -4
            return Ball(arb.pi() * quarters / 4)
        return Ball(0) if x.is_zero() and y.is_zero() else finite_or(arb.atan2(y, x))

    def hypot(self, other: Any) -> Ball:
        b = Ball(other)
        if self.isinf() or b.isinf():
            return Ball(math.inf)
        return (self * self + b * b).sqrt()


def _special_power(a: Any, b: Any) -> Ball:
    """``a ** b`` with an infinity or NaN among them, as in IEEE 754-2019 (9.2.1): by floats on the same side of 1."""

    def representative(value: Any) -> float:
        if type(value) is float:
            return value
        sign = _sign(value)
        whole = value.is_exact() and value.is_integer()
        if sign == 0 or (whole and abs(value) == 1):
            return sign
        odd = whole and not (value / 2).is_integer()
        size = (3.0 if odd else 4.0) if whole else 2.5
        return sign * (size if abs(value) > 1 else 0.5)

    with np.errstate(all="ignore"):
        return Ball(float(np.power(np.float64(representative(a)), np.float64(representative(b)))))


def to_balls(values: Any) -> np.ndarray:
    """An object array of balls of the shape of ``values`` (floats or integers), each exact."""
    array = np.asarray(values)
    made = np.empty(array.shape, dtype=object)
    flat = made.reshape(-1)
    for place, value in enumerate(array.reshape(-1).tolist() if array.dtype != object else array.reshape(-1)):
        flat[place] = value if type(value) is Ball else Ball(value)
    answer: np.ndarray = made
    return answer


def from_balls(values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Midpoints as an unevaluated sum of two float64, and a bound of the distance from it to any value of the ball.

    Plain numbers among the elements (autograd leaves zeros) count as exact.
    """
    array = np.asarray(values, dtype=object)
    high, low, radius = (np.zeros(array.shape) for _ in range(3))
    for place, element in enumerate(array.reshape(-1)):
        raw = _raw(element)
        if type(raw) is float:
            high.reshape(-1)[place] = raw
            continue
        first = _nearest(raw)
        high.reshape(-1)[place] = first
        if math.isfinite(first):
            rest = raw - arb(first)
            second = _nearest(rest)
            low.reshape(-1)[place] = second
            bound = abs(rest - arb(second)).upper()
            radius.reshape(-1)[place] = math.nextafter(float(bound), math.inf) if bound > 0 else 0.0
        elif not abs(raw) > _LARGEST:  # only the midpoint is past float64: the ball holds other values too
            radius.reshape(-1)[place] = math.inf
    return high, low, radius


def _nearest(value: Any) -> float:
    """The float64 next to the midpoint; infinity where it is too large."""
    return float(value.mid())
