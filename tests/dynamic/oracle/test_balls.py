"""Balls: IEEE 754's special values, and doubts where a ball is too wide."""

import math

import numpy as np
import pytest
from flint import arb, ctx

from opscanner.dynamic.oracle.balls import Ball, clear_doubts, doubted, from_balls, to_balls

SPECIALS = [0.0, 1.0, -1.0, 0.5, -2.0, 3.0, -3.0, math.inf, -math.inf, math.nan]


@pytest.fixture(autouse=True)
def fresh():
    before, ctx.prec = ctx.prec, 113
    clear_doubts()
    yield
    ctx.prec = before


def number(ball):
    return ball.value if isinstance(ball.value, float) else float(ball.value.mid())


@pytest.mark.parametrize("a", SPECIALS)
@pytest.mark.parametrize("b", SPECIALS)
def test_arithmetic_of_special_values_is_ieee_754s(a, b):
    with np.errstate(all="ignore"):
        x, y = np.float64(a), np.float64(b)
        expected = [x + y, x - y, x * y, x / y, np.power(x, y), y - x]
    found = [Ball(a) + b, Ball(a) - b, Ball(a) * b, Ball(a) / b, Ball(a) ** b, b - Ball(a)]
    np.testing.assert_allclose([number(one) for one in found], expected, rtol=1e-15)
    assert not doubted()


@pytest.mark.parametrize("a", SPECIALS)
@pytest.mark.parametrize("b", SPECIALS)
def test_comparisons_with_special_values_are_ieee_754s(a, b):
    assert [Ball(a) < b, Ball(a) <= b, Ball(a) == b, Ball(a) != b, Ball(a) >= b, Ball(a) > b] == [
        a < b, a <= b, a == b, a != b, a >= b, a > b,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "sqrt", "log",
     "log1p", "arcsin", "arccos", "arctan", "log2", "log10", "exp2", "floor", "ceil", "trunc", "rint"],
)  # fmt: skip
@pytest.mark.parametrize("x", [*SPECIALS, 2.5, -2.5, 1.5])
def test_functions_of_special_values_are_numpys(name, x):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(np.float64(x))
    with np.errstate(invalid="ignore"):  # numpy warns of NaN in object arrays
        (found,) = getattr(np, name)(to_balls([x]))
    np.testing.assert_allclose(number(found), expected, rtol=1e-15)
    assert not doubted()


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("lgamma", -2.0, math.inf),
        ("lgamma", -0.5, 1.2655121234846454),  # log(2 sqrt(pi))
        ("digamma", -1.0, math.nan),
        ("digamma", 1.0, -0.5772156649015329),
        ("erf", -math.inf, -1.0),
        ("erfc", -math.inf, 2.0),
        ("erfinv", 1.0, math.inf),
        ("erfinv", 2.0, math.nan),
        ("rsqrt", 0.0, math.inf),
    ],
)
def test_special_functions_know_their_poles(name, x, expected):
    np.testing.assert_allclose(number(getattr(Ball(x), name)()), expected, rtol=1e-15)
    assert not doubted()


def test_a_comparison_of_overlapping_balls_is_a_doubt():
    third = Ball(1) / 3
    assert third * 3 <= 1
    assert "larger" in doubted()


def test_a_ball_equals_itself_without_a_doubt():
    third = Ball(1) / 3
    assert third == third
    assert not doubted()


def test_a_divisor_that_may_be_zero_is_a_doubt():
    zero = Ball(1) / 3 * 3 - 1
    assert (Ball(1) / zero).isnan()
    assert doubted()


def test_the_integer_below_a_number_that_may_be_an_integer_is_a_doubt():
    assert math.floor(Ball(1) / 3 * 3) in (0, 1)
    assert doubted()


def test_midpoint_and_radius_come_back_as_two_floats_and_a_bound():
    ctx.prec = 200
    high, low, radius = from_balls(np.array([Ball(1) / 3, 2.0, Ball(math.inf)], dtype=object))
    assert high.tolist() == [1 / 3, 2.0, math.inf]
    assert abs(arb(high[0]) + arb(low[0]) - arb(1) / 3) <= arb(radius[0])
    assert 0 < radius[0] < 2.0**-105
    assert radius.tolist()[1:] == [0, 0]


def test_a_midpoint_past_float64_with_a_radius_past_zero_is_no_certain_infinity():
    wide = Ball(arb("1e331", "1e1120"))
    large = Ball(arb("-1e331", "1e300"))
    high, _, radius = from_balls(np.array([wide, large], dtype=object))
    assert high.tolist() == [math.inf, -math.inf]
    assert radius.tolist() == [math.inf, 0]


def test_numpy_reduces_arrays_of_balls():
    third = np.array([Ball(1) / 3] * 3, dtype=object)
    assert (np.sum(third).value - 1).contains(0)
    assert np.max(to_balls([1.0, 3.0, 2.0])) == 3
