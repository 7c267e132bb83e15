"""Cells of sign and exponent, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from opscanner.dynamic.coverage import Coverage, cells_of
from opscanner.dynamic.inputs.values import every_value
from opscanner.operators.catalog import Operator
from opscanner.operators.pairs import parse_inputs


def operator(inputs: str) -> Operator:
    return Operator("made", "forward", "unary", "", parse_inputs(inputs), {"pytorch": "f(x)"}, "f(x)", True, "")


@pytest.mark.parametrize(
    ("format_", "cells"),
    [
        # Exponents of normal numbers, subnormals, zero and infinity, with two signs, and NaN.
        ("float16", 2 * (30 + 3) + 1),
        ("bfloat16", 2 * (254 + 3) + 1),
        ("float32", 2 * (254 + 3) + 1),
        ("float8_e5m2", 2 * (30 + 3) + 1),
        # No infinity; the largest exponent, 8, holds the NaN and numbers up to 448.
        ("float8_e4m3fn", 2 * (15 + 2) + 1),
    ],
)
def test_a_format_has_so_many_cells(format_: str, cells: int) -> None:
    assert cells_of(np.zeros(0), format_).shape == (cells,)
    if format_ != "float32":
        assert cells_of(every_value(format_), format_).all()


def test_values_of_one_exponent_are_one_cell_and_signs_are_two() -> None:
    def count(*values: float) -> int:
        return int(cells_of(np.array(values), "float16").sum())

    assert count() == 0
    assert count(1.0, 1.5, 2 - 2.0**-10) == 1
    assert count(1.0, 2.0) == 2
    assert count(1.0, -1.0) == 2
    assert count(2.0**-24, 2.0**-15) == 1  # both subnormal
    assert count(2.0**-14, 2.0**-15) == 2
    assert count(0.0, -0.0) == 2
    assert count(np.inf, np.nan, 65504.0) == 3
    assert count(np.nan, -np.nan) == 1


def test_shares_are_of_each_input_and_of_several_keys_together() -> None:
    fed = Coverage(operator("x: float (4) in [-4, 4]; y: float (4) in [0, 1]"), "float16")
    one, half = np.array([1.0, 1.5, -2.0, 2.0**-24, 0.0, np.nan]), np.array([0.5])
    fed.feed("first", {"x": one, "y": half})
    fed.feed("second", {"x": -half, "y": half})
    assert fed.of(["first"]) == {"x": 5 / 67, "y": 1 / 67}
    assert fed.of(["first", "second"]) == {"x": 6 / 67, "y": 1 / 67}
    assert fed.of(["third"]) == {}
