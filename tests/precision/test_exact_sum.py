"""Exact sums and dot products against fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscanner.errors import UsageError
from opscanner.precision.exact_sum import exact_dot, exact_sum

finite = st.floats(allow_nan=False, allow_infinity=False)


def nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def expected(addends: list[float]) -> tuple[float, float]:
    exact = sum(map(Fraction, addends), Fraction(0))
    high = nearest(exact)
    return high, float(exact - Fraction(high)) if math.isfinite(high) else 0.0


@settings(max_examples=500, deadline=None)
@given(st.lists(finite | st.floats(-1, 1), max_size=40))
def test_any_sum_is_rounded_once(addends: list[float]) -> None:
    high, low = exact_sum(addends)
    assert (float(high), float(low)) == expected(addends)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.builds(math.ldexp, st.integers(-8, 8), st.integers(-160, 160)), min_size=1, max_size=12))
def test_ties_and_cancellation(addends: list[float]) -> None:
    for row in (addends, [*addends, *(-x for x in addends), 2.0**-1074], [*addends * 20, 1.0]):
        high, low = exact_sum(row)
        assert (float(high), float(low)) == expected(row)


def test_a_tie_is_decided_by_what_lies_far_below() -> None:
    for tiny in (0.0, 2.0**-1074, -(2.0**-1074), 2.0**-200, -(2.0**-107)):
        addends = [1.0, 2.0**-53, tiny]
        high, low = exact_sum(addends)
        assert (float(high), float(low)) == expected(addends)


@pytest.mark.parametrize("shape", [(3, 5), (7, 63), (7, 64), (2, 40_000), (1, 100_000), (5000, 9)])
def test_rows_are_those_of_fsum(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    values = np.ldexp(rng.standard_normal(shape), rng.integers(-40, 40, shape))
    values[0, -1] = -math.fsum(values[0, :-1])  # all that float64 sees cancels
    high, low = exact_sum(values)
    assert high.tolist() == [math.fsum(row) for row in values]
    assert low.tolist() == [math.fsum([*row, -total]) for row, total in zip(values, high, strict=True)]


def test_chunks_that_overflow_on_their_own_may_still_cancel() -> None:
    values = np.concatenate([np.full(40_000, 1e308), np.full(40_000, -1e308), [1.0]])
    assert exact_sum(values)[0] == 1.0
    assert exact_sum([1e308, 1e308, -1e308])[0] == 1e308
    assert exact_sum([1e308, 1e308])[0] == math.inf


def test_infinities_and_nan_sum_as_in_ieee_754_and_touch_no_other_row() -> None:
    inf, nan = math.inf, math.nan
    rows = np.array([[inf, 1.0, 2.0], [inf, -inf, 0.0], [nan, inf, 1.0], [-inf, -inf, 5.0], [1.0, 2.0**-60, 0.0]])
    high, low = exact_sum(rows)
    assert np.array_equal(high, [inf, nan, nan, -inf, 1.0], equal_nan=True)
    assert low.tolist() == [0, 0, 0, 0, 2.0**-60]


def test_axes_and_empty_arrays() -> None:
    values = np.random.default_rng(8).standard_normal((4, 5, 6))
    for axis in range(-3, 3):
        high, _ = exact_sum(values, axis)
        assert high.shape == values.sum(axis=axis).shape
        expected_sums = np.apply_along_axis(math.fsum, axis, values)
        assert (high == expected_sums).all()
    assert exact_sum(np.zeros((3, 0)))[0].tolist() == [0, 0, 0]
    assert exact_sum(np.zeros((0, 3)))[0].shape == (0,)
    assert exact_sum([])[0] == 0
    before = values.copy()
    exact_sum(values)
    assert (values == before).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), max_size=20))
def test_dot_products_of_float32_are_rounded_once(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    high, low = exact_dot(a, b)
    if all(math.isfinite(x) for pair in pairs for x in pair):
        exact = sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))
        assert (float(high), float(low)) == (nearest(exact), float(exact - Fraction(nearest(exact))))
    else:
        assert not math.isfinite(high)


def test_dot_broadcasts_and_refuses_what_float32_does_not_hold() -> None:
    high, _ = exact_dot(np.ones((3, 1, 4)), np.full((2, 4), 0.5))
    assert high.tolist() == [[2.0, 2.0]] * 3
    with pytest.raises(UsageError, match="float32 does not hold"):
        exact_dot([0.1], [1.0])
    with pytest.raises(UsageError, match="float32 does not hold"):
        exact_dot([1e300], [1.0])
