"""Exact sums and products, against rational numbers."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from opscanner.dynamic.oracle.balls import Ball, to_balls
from opscanner.dynamic.oracle.functions import grad
from opscanner.dynamic.oracle.sums import dot, matmul, mean_, sum_

GENERATOR = np.random.default_rng(4)
#: Terms of all sizes that cancel: what is left is far below the last place of the largest.
TERMS = GENERATOR.standard_normal(501) * np.exp2(GENERATOR.uniform(-60, 60, 501))
CANCELLING = np.concatenate([TERMS, -TERMS[:-1]])


def test_a_float64_sum_is_the_rational_sum_rounded_once():
    assert sum_(CANCELLING) == float(sum(map(Fraction, CANCELLING.tolist())))


def test_a_longdouble_sum_survives_the_same_cancellation():
    # As if in 128 bits, where plain summation keeps none of the 40 bits below the largest term's last place.
    np.testing.assert_allclose(float(sum_(CANCELLING.astype(np.longdouble))), TERMS[-1], rtol=2.0**-40)
    assert abs(float(np.sum(CANCELLING.astype(np.longdouble))) - TERMS[-1]) > 1e-4 * abs(TERMS[-1])


def test_a_sum_keeps_axes_as_numpy_does():
    x = np.arange(24.0).reshape(2, 3, 4)
    for axis in (None, 0, 1, -1, (0, 2), (1, -1)):
        for keepdims in (False, True):
            expected = np.sum(x, axis=axis, keepdims=keepdims)
            for kind in (x, x.astype(np.longdouble), to_balls(x)):
                found = np.asarray(sum_(kind, axis=axis, keepdims=keepdims))
                assert found.shape == expected.shape
                np.testing.assert_array_equal(found.astype(float), expected)


def test_a_sum_of_infinities_and_large_numbers_is_ieees():
    assert sum_(np.array([np.inf, 1.0])) == np.inf
    assert np.isnan(sum_(np.array([np.inf, -np.inf])))
    assert sum_(np.array([1.5e308, 1.5e308])) == np.inf
    assert sum_(np.array([1.5e308, 1.5e308, -1.5e308])) == 1.5e308


def test_the_mean_of_equal_numbers_is_the_number():
    assert mean_(np.full((3, 7), 0.1), axis=1).tolist() == [0.1, 0.1, 0.1]


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 2))])
def test_each_element_of_a_product_is_rounded_once(shapes):
    a, b = (GENERATOR.standard_normal(shape) for shape in shapes)
    a[..., 1] = -a[..., 0]
    b[..., 1, :] = b[..., 0, :] * (1 + 2.0**-50)
    found = matmul(a, b)
    wide_a, wide_b = (np.vectorize(Fraction, otypes=[object])(v) for v in (a, b))
    np.testing.assert_array_equal(found, np.matmul(wide_a, wide_b).astype(float))


def test_a_product_of_balls_is_the_rational_one(monkeypatch):
    monkeypatch.setattr(ctx, "prec", 200)
    a, b = np.array([[1e20, 1.0, -1e20], [2.0, 0.5, 4.0]]), np.array([[1.0, 3.0], [2.0**-60, 2.0], [1.0, 5.0]])
    found = matmul(to_balls(a), b)
    assert [[float(one) for one in row] for row in found] == [[2.0**-60, -2e20], [6.0, 27.0]]
    assert (found[1, 0] - 6).value == arb(2) ** -61
    infinite = matmul(to_balls([[np.inf, 1.0]]), np.array([[1.0], [2.0]]))
    assert float(infinite[0, 0]) == np.inf


def test_products_of_float32_values_are_exact_in_a_dot_product():
    a = np.float32([1 + 2.0**-23, 1.0]).astype(float)
    assert dot(a, np.array([a[0], -1.0])) == 2.0**-22 + 2.0**-46


def test_gradients_go_through_sums_and_products():
    a, b = GENERATOR.standard_normal((2, 3, 4)), GENERATOR.standard_normal((4, 5))
    dy = GENERATOR.standard_normal((2, 3, 5))
    of_a, of_b = grad(lambda x, y: matmul(x, y), (a, b), dy)
    np.testing.assert_allclose(of_a, np.einsum("bik,jk->bij", dy, b), rtol=1e-13)
    np.testing.assert_allclose(of_b, np.einsum("bij,bik->jk", a, dy), rtol=1e-12)
    (of_x,) = grad(lambda x: sum_(x, axis=0), a, np.ones((3, 4)))
    assert of_x.tolist() == np.ones_like(a).tolist()


def test_a_gradient_of_one_number_is_known_to_balls():
    (found,) = grad(lambda x: sum_(x * x), to_balls([1.0, 3.0]), Ball(1))
    assert [float(one) for one in found] == [2.0, 6.0]
