"""Rows of the reference tables, through all tiers of the oracle."""

import numpy as np
import pytest

from opscanner.dynamic.oracle.oracle import TIER_BALLS, evaluate_reference


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("mean(exp(x))", np.float64(np.mean(np.exp(np.longdouble([[0.5, 1.5], [2.5, 0.75], [3.25, 1.0]]))))),
        ("transpose(exp(x), (1, 0))", np.exp(np.array([[0.5, 2.5, 3.25], [1.5, 0.75, 1.0]]))),
    ],
)
def test_what_balls_decide_arrives_whatever_the_shape_and_order_of_the_result(expression, expected):
    # In float64, float64 and longdouble differ by more than a part of an ULP: balls must say.
    x = np.array([[0.5, 1.5], [2.5, 0.75], [3.25, 1.0]])
    (found,) = evaluate_reference(expression, {"x": x}, "float64", elementwise=False)
    assert not np.any(found.undecided)
    assert np.any(found.tier == TIER_BALLS)
    np.testing.assert_allclose(found.values, expected, rtol=2**-52)
