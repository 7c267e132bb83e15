"""Terms of sums, and their magnitudes, added up by hand."""

from __future__ import annotations

import numpy as np
import pytest

from opscanner.dynamic.oracle.magnitudes import scales_of, terms_of
from opscanner.operators.catalog import load_catalog

ROWS = np.array([[1.0, -2.0, 4.0]])


@pytest.mark.parametrize(
    ("expression", "magnitude", "count"),
    [
        ("total(x, 1)", 7.0, 3.0),
        ("total(-x, -1)", 7.0, 3.0),
        ("mean(x, 1)", 7.0 / 3, 3.0),  # three terms, each a third
        ("matmul(x, swapped(y))", 7.0 * 5, 3.0),
        ("0.5 * z - 2.0 * matmul(x, swapped(y))", 0.5 * 8 + 2 * 35, 7.0),  # 0.5 and 2 * 3 are counted for 4 terms
        ("index_add(x, i, x, -1.0)[0, :1] * 1.0", 2.0, 3.0),  # 1 - (-1) * 1, of 3 + 3 + ... inputs
    ],
)
def test_signs_are_dropped_and_axes_kept(expression: str, magnitude: float, count: float) -> None:
    inputs = {"x": ROWS, "y": np.full((1, 3), -5.0), "z": np.full((1, 1), -8.0), "i": np.array([0])}
    found = terms_of(expression, inputs, "float16")
    assert found is not None
    assert found[0].magnitude.ravel()[0] == pytest.approx(magnitude)
    assert found[0].count.ravel()[0] >= count


def test_a_gradient_of_a_product_is_a_sum_of_products() -> None:
    inputs = {"x": ROWS, "y": np.array([[3.0], [-1.0], [0.5]]), "dy": np.array([[-2.0]])}
    found = terms_of("grad(lambda y: matmul(x, y), y, dy)", inputs, "float16")
    assert found is not None
    assert found[0].magnitude.ravel().tolist() == [2.0, 4.0, 8.0]


@pytest.mark.parametrize(
    "expression", ["", "softmax(x)", "norm(x, 2, 1)", "x / y", "x if 1 else y", "embedding_bag(x, i, i, 'max')"]
)
def test_what_is_no_sum_of_products_has_no_terms(expression: str) -> None:
    assert terms_of(expression, {"x": ROWS, "y": ROWS, "i": np.array([0])}, "float16") is None


def test_each_output_has_its_terms() -> None:
    found = terms_of("(total(x, 1), x * y)", {"x": ROWS, "y": ROWS}, "bfloat16")
    assert found is not None
    assert [one.magnitude.ravel().tolist() for one in found] == [[7.0], [1.0, 4.0, 16.0]]


def test_the_scale_of_softmaxs_gradient_is_its_largest_term() -> None:
    # y = 1/3: y * (|dy| + sum |dy| y) = 1/3 * (1 + 1).
    operator = next(one for one in load_catalog() if one.id == "softmax_grad")
    (scale,) = scales_of(operator.scale, {"x": np.zeros((1, 3)), "dy": np.array([[1.0, -1.0, 1.0]])}, "float16")
    assert scale == pytest.approx(np.full((1, 3), 2 / 3), rel=1e-3)  # and 2**-14 for what underflows
