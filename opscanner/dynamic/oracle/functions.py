"""Functions that reference results are written in, for three arithmetics at once.

An argument is a float64 array (or complex128), a longdouble array (or clongdouble), or an object array of
:class:`~opscanner.dynamic.oracle.balls.Ball`; the result is of the same kind. All are primitives of autograd, with
derivatives that neither cancel nor overflow where numpy's own would. What is missing here is ``autograd.numpy``'s,
which works for the three as well.

A function that has no longdouble form raises :class:`NoSecondOpinion`: then balls decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import autograd.numpy as anp
import numpy as np
from autograd.core import make_vjp
from autograd.extend import defvjp, primitive
from autograd.numpy.numpy_boxes import ArrayBox
from autograd.numpy.numpy_vjps import unbroadcast_f
from autograd.numpy.numpy_vspaces import ArrayVSpace
from autograd.tracer import getval
from flint import arb

from opscanner.dynamic.oracle.balls import Ball
from opscanner.dynamic.oracle.sums import dot, matmul, mean_, sum_

Function: TypeAlias = Callable[..., Any]

# A reduction to no axis gives a bare ball; autograd must know that kind of number.
ArrayBox.register(Ball)
ArrayVSpace.register(Ball)


class NoSecondOpinion(Exception):  # noqa: N818  (an answer, caught by the oracle)
    """The function has no longdouble form."""


def is_exact_kind(x: Any) -> bool:
    """True for balls, and arrays of them."""
    return isinstance(x, Ball) or np.asarray(x).dtype == object


def is_long(x: Any) -> bool:
    """True for longdouble and clongdouble."""
    return np.asarray(x).dtype in (np.dtype(np.longdouble), np.dtype(np.clongdouble))


def of_balls(function: Callable[[Ball], Ball]) -> Function:
    """A function of a ball for each element of an object array; plain numbers among them become balls."""

    def of_one(x: Any) -> Ball:
        return function(x if type(x) is Ball else Ball(x))

    return np.frompyfunc(of_one, 1, 1)  # type: ignore[no-any-return]


def elementary(
    name: str,
    double: Callable[..., Any],
    long: Callable[..., Any] | None,
    balls: Callable[..., Any],
    derivative: Callable[..., Any] | None,
) -> Callable[..., Any]:
    """A function of one variable in the three arithmetics.

    Parameters
    ----------
    double, long, balls
        Its form for float64, longdouble (None: there is none) and balls (a function of an object array).
    derivative
        ``(result, x) -> derivative``; None where it is 0 or nobody asks.
    """

    def function(x: Any) -> Any:
        if is_exact_kind(x):
            return balls(x)
        if not is_long(x):
            return double(x)
        if long is None:
            raise NoSecondOpinion(name)
        return long(x)

    function.__name__ = name
    traced = primitive(function)
    traced.__name__ = name
    if derivative is None:
        defvjp(traced, lambda ans, x: lambda g: g * 0)
    else:
        defvjp(traced, lambda ans, x: lambda g: g * derivative(ans, x))
    return traced  # type: ignore[no-any-return]


def _plain(name: str, ufunc: Any, derivative: Callable[..., Any] | None, method: str = "") -> Callable[..., Any]:
    """A function that numpy has for float64 and longdouble."""
    return elementary(name, ufunc, ufunc, of_balls(getattr(Ball, method or name)), derivative)


#: In balls, and with more digits than longdouble has.
_CONSTANTS: dict[str, tuple[Callable[[], Any], str]] = {
    "pi": (arb.pi, "3.14159265358979323846264338327950288"),
    "ln2": (lambda: arb(2).log(), "0.693147180559945309417232121458176568"),
    "sqrt_pi": (lambda: arb.pi().sqrt(), "1.77245385090551602729816748334114518"),
    "sqrt_2": (lambda: arb(2).sqrt(), "1.41421356237309504880168872420969808"),
}


def like(constant: str, x: Any) -> Any:
    """``pi``, ``ln2``, ``sqrt_pi`` or ``sqrt_2`` in the arithmetic of ``x``, to its full precision."""
    ball, digits = _CONSTANTS[constant]
    while getval(x) is not x:
        x = getval(x)
    if is_exact_kind(x):
        return Ball(ball())
    return np.longdouble(digits) if is_long(x) else float(digits)


# -- exponentials and logarithms -------------------------------------------------------------------------------------

exp = _plain("exp", np.exp, lambda ans, x: ans)
expm1 = _plain("expm1", np.expm1, lambda ans, x: exp(x))
exp2 = _plain("exp2", np.exp2, lambda ans, x: ans * like("ln2", x))
log = _plain("log", np.log, lambda ans, x: 1 / x)
log1p = _plain("log1p", np.log1p, lambda ans, x: 1 / (1 + x))
log2 = _plain("log2", np.log2, lambda ans, x: 1 / (x * like("ln2", x)))
log10 = _plain("log10", np.log10, lambda ans, x: 1 / (x * log(10 + x * 0)))

# -- roots -----------------------------------------------------------------------------------------------------------

sqrt = _plain("sqrt", np.sqrt, lambda ans, x: 1 / (2 * ans))
rsqrt = _plain("rsqrt", lambda x: 1 / np.sqrt(x), lambda ans, x: -ans / (2 * x))

# -- trigonometric and hyperbolic functions --------------------------------------------------------------------------

sin = _plain("sin", np.sin, lambda ans, x: cos(x))
cos: Function = _plain("cos", np.cos, lambda ans, x: -sin(x))
tan = _plain("tan", np.tan, lambda ans, x: 1 / cos(x) ** 2)
arcsin = _plain("arcsin", np.arcsin, lambda ans, x: 1 / sqrt((1 - x) * (1 + x)))
arccos = _plain("arccos", np.arccos, lambda ans, x: -1 / sqrt((1 - x) * (1 + x)))
arctan = _plain("arctan", np.arctan, lambda ans, x: 1 / (1 + x * x))
sinh = _plain("sinh", np.sinh, lambda ans, x: cosh(x))
cosh: Function = _plain("cosh", np.cosh, lambda ans, x: sinh(x))
tanh = _plain("tanh", np.tanh, lambda ans, x: 1 / cosh(x) ** 2)
arcsinh = _plain("arcsinh", np.arcsinh, lambda ans, x: 1 / sqrt(1 + x * x))
arccosh = _plain("arccosh", np.arccosh, lambda ans, x: 1 / sqrt((x - 1) * (x + 1)))
arctanh = _plain("arctanh", np.arctanh, lambda ans, x: 1 / ((1 - x) * (1 + x)))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _sigmoid_of_ball(x: Ball) -> Ball:
    """By the exponential of a negative number, which needs no large exponents."""
    if x > 0:
        return 1 / (1 + (-x).exp())
    power = x.exp()
    return power / (1 + power)


#: 1 / (1 + exp(-x)) loses nothing: the exponential only adds to 1.
sigmoid: Function = elementary(
    "sigmoid", _sigmoid, _sigmoid, of_balls(_sigmoid_of_ball), lambda ans, x: ans * sigmoid(-x)
)

# -- classes of values: numpy has no loop for objects ----------------------------------------------------------------


def _class(name: str, ufunc: Any) -> Callable[[Any], Any]:
    return elementary(name, ufunc, ufunc, lambda x: np.asarray(of_balls(getattr(Ball, name))(x)).astype(bool), None)


isnan, isinf, isfinite = _class("isnan", np.isnan), _class("isinf", np.isinf), _class("isfinite", np.isfinite)


# -- the larger and the smaller: NaN goes through --------------------------------------------------------------------


def _extreme(ufunc: Any) -> Callable[..., Any]:
    def extreme(x: Any, y: Any) -> Any:
        if not (is_exact_kind(x) or is_exact_kind(y)):
            return ufunc(x, y)

        def of_two(a: Any, b: Any) -> Any:
            a, b = Ball(a), Ball(b)
            if a.isnan() or b.isnan():
                return Ball(float("nan"))
            return a if (a >= b) == (ufunc is np.maximum) else b

        return np.frompyfunc(of_two, 2, 1)(x, y)

    function = primitive(extreme)

    def share(ans: Any, x: Any, y: Any) -> Any:
        """Both get half where they are equal: as torch and autograd have it."""
        return (x == ans) / (1.0 + (x == y))

    defvjp(
        function,
        lambda ans, x, y: unbroadcast_f(x, lambda g: g * share(ans, x, y)),
        lambda ans, x, y: unbroadcast_f(y, lambda g: g * share(ans, y, x)),
    )
    return function  # type: ignore[no-any-return]


maximum, minimum = _extreme(np.maximum), _extreme(np.minimum)


def grad(function: Callable[..., Any], arguments: Any, upstream: Any) -> tuple[Any, ...]:
    """Gradients of ``function`` at ``arguments``, an array or a tuple of them, for an upstream gradient.

    As the frameworks' runners have it. An upstream gradient of shape () fits any result of one element.
    """
    leaves = tuple(arguments) if isinstance(arguments, (tuple, list)) else (arguments,)
    backward, result = make_vjp(lambda values: function(*values), leaves)
    given = anp.reshape(upstream, anp.shape(result)) if anp.shape(upstream) != anp.shape(result) else upstream
    if not isinstance(result, np.ndarray) and isinstance(given, np.ndarray) and given.shape == ():
        given = given[()]
    return tuple(backward(given))


__all__ = [
    "NoSecondOpinion",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "cos",
    "cosh",
    "dot",
    "elementary",
    "exp",
    "exp2",
    "expm1",
    "grad",
    "is_exact_kind",
    "is_long",
    "isfinite",
    "isinf",
    "isnan",
    "like",
    "log",
    "log1p",
    "log2",
    "log10",
    "matmul",
    "maximum",
    "mean_",
    "minimum",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "sum_",
    "tan",
    "tanh",
]
