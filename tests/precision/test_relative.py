"""FuMi's relative difference, and what is said of two arrays beside it."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from opscanner.precision.metrics import summarize_errors
from opscanner.precision.relative import absolute_tolerance, difference_of

INF, NAN = float("inf"), float("nan")


def test_worked_by_hand() -> None:
    # 1 against 3 is 2 / 4, and float32 numbers lie 2**-22 apart at 3. 1e-5 is below 1e-4 and is not compared.
    found = difference_of([[1.0, 2.0], [1e-5, 0.0]], [[3.0, 2.0], [1.0, 0.0]], "float32")
    assert (found.max_relative_error, found.worst_index, found.worst) == (0.5, (0, 0), (1.0, 3.0))
    assert (found.max_scaled_ulp, found.max_ulp) == (2.0**23, 2.0**23)
    assert difference_of([-2.0], [2.0], "float32").max_relative_error == INF
    assert difference_of([-1e-9], [1e-9], "float32").max_relative_error == 0.0


@pytest.mark.parametrize(
    ("format_", "floor"), [("float64", 1e-8), ("float32", 1e-4), ("float16", 1e-3), ("bfloat16", 1e-2)]
)
def test_elements_at_the_tolerance_of_the_format_are_left_out(format_: str, floor: float) -> None:
    assert absolute_tolerance(format_) == floor
    assert difference_of([floor], [1.0], format_).max_relative_error == 0.0
    assert difference_of([floor * 1.01], [1.0], format_).max_relative_error > 0.9


def test_kinds_apart_are_counted_and_come_first() -> None:
    found = difference_of([4.0, NAN, INF, NAN, INF], [6.0, NAN, INF, 1.0, -INF], "float32")
    assert (found.nan_mismatches, found.infinity_mismatches, found.max_relative_error) == (1, 1, 0.2)
    assert found.worst_index == (3,)
    assert math.isnan(found.worst[0])


def test_figures_in_ulp_are_those_of_the_metrics() -> None:
    generator = np.random.default_rng(1)
    second = generator.standard_normal(1000).astype(ml_dtypes.bfloat16)
    first = (second.astype(float) * (1 + 0.02 * generator.standard_normal(1000))).astype(ml_dtypes.bfloat16)
    judged = summarize_errors(first, second, "bfloat16")
    found = difference_of(first, second, "bfloat16")
    assert (found.max_ulp, found.max_scaled_ulp) == (judged.max_ulp, judged.max_scaled_ulp)
    assert found.max_ulp > 1


def test_nothing_to_compare_is_no_difference() -> None:
    found = difference_of(np.empty((0, 3)), np.empty((0, 3)), "float16")
    assert (found.max_relative_error, found.max_ulp, found.max_scaled_ulp, found.worst_index) == (0, 0, 0, ())
