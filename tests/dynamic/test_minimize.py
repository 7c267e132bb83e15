"""Minimizing: few elements, simple values, still failing, in format and domain, in a bounded number of trials."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscanner.dynamic.minimize import minimize
from opscanner.operators.catalog import Operator
from opscanner.operators.pairs import parse_inputs
from opscanner.precision.rounding import round_to_format

Inputs = Mapping[str, np.ndarray]


def operator(inputs: str, domain: str = "") -> Operator:
    return Operator(
        "made", "forward", "reduction", "", parse_inputs(inputs), {"pytorch": "f(x)"}, "f(x)", False, domain
    )


def halves(array: np.ndarray) -> np.ndarray:
    return np.cumsum(array.astype(np.float16), axis=-1, dtype=np.float16).astype(float)


def test_one_element_that_fails_is_all_that_is_left() -> None:
    x = np.linspace(-3, 3, 101)
    x[57] = 250.11
    assert minimize({"x": x}, lambda arrays: bool(np.any(arrays["x"] > 100)))["x"].tolist() == [256.0]


def test_corresponding_axes_are_shortened_together() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(6, 40)), generator.normal(size=(40, 5))
    x[2, 17], y[17, 3] = 30.3, 30.7

    def fails(arrays: Inputs) -> bool:
        return bool(np.any(arrays["x"] @ arrays["y"] > 800))

    small = minimize({"x": x, "y": y}, fails)
    assert (small["x"].shape, small["y"].shape) == ((1, 1), (1, 1))
    assert fails(small)
    assert small["x"].item() in (32.0, 30.0) or small["y"].item() in (32.0, 30.0)


def test_an_axis_is_shortened_alone_where_its_size_is_an_accident() -> None:
    def fails(arrays: Inputs) -> bool:
        return arrays["x"].shape == (3,) and bool(np.any(arrays["y"] > 1))

    small = minimize({"x": np.array([0.5, 0.25, 3.0]), "y": np.array([0.0, 7.3, 0.0])}, fails)
    assert small["x"].tolist() == [0.0, 0.0, 0.0]
    assert small["y"].size == 1


def test_a_stalled_count_keeps_as_many_ones_as_it_takes() -> None:
    def fails(arrays: Inputs) -> bool:  # a count of 16-bit floats stalls at 2048
        x = arrays["x"]
        return x.size > 0 and abs(float(halves(x)[..., -1].ravel()[0]) - float(x.ravel().sum())) > 0.5

    generator = np.random.default_rng(2)
    x = round_to_format(1 + 0.01 * generator.random(2600), "float16")
    small = minimize({"x": x}, fails, "float16", trials=3000)["x"]
    assert fails({"x": small})
    assert small.size < 2600


def test_indices_go_with_their_elements_and_keep_their_values() -> None:
    i = np.array([2, 0, 2, 1, 2])
    u = np.array([0.1, 0.2, 77.7, 0.3, 0.4])

    def fails(arrays: Inputs) -> bool:
        sums = np.bincount(arrays["i"], arrays["u"], 3)
        return bool(sums[2] > 50)

    small = minimize({"i": i, "u": u}, fails)
    assert (small["i"].tolist(), small["u"].tolist()) == ([2], [64.0])


def test_expressions_follow_and_the_domain_holds() -> None:
    of = operator("x: float (8) in [1, 9]; y = np.sqrt(x)", "x > 2")
    seen: list[Inputs] = []

    def fails(arrays: Inputs) -> bool:
        seen.append(arrays)
        return bool(np.any(arrays["y"] > 1.7))

    x = round_to_format(np.linspace(3.1, 8.7, 8), "float16")
    small = minimize({"x": x, "y": round_to_format(np.sqrt(x), "float16")}, fails, "float16", of)
    assert small["x"].size == 1
    for arrays in (*seen, small):
        assert np.all(arrays["x"] > 2)
        np.testing.assert_array_equal(arrays["y"], round_to_format(np.sqrt(arrays["x"]), "float16"))


def test_what_the_question_raises_is_a_no() -> None:
    def fails(arrays: Inputs) -> bool:
        if arrays["x"].shape != (4,):
            raise ValueError("shape")
        return True

    assert minimize({"x": np.array([1.5, 2.5, 3.5, 4.5])}, fails)["x"].tolist() == [0.0] * 4


@pytest.mark.parametrize("trials", [0, 1, 7, 50])
def test_no_more_than_the_allowed_trials_are_made(trials: int) -> None:
    asked = []

    def fails(arrays: Inputs) -> bool:
        asked.append(arrays)
        return bool(np.any(arrays["x"] > 100))

    x = np.arange(300.0)
    small = minimize({"x": x}, fails, trials=trials)
    assert len(asked) <= trials
    assert np.any(small["x"] > 100)


def test_nan_and_infinity_that_matter_are_kept() -> None:
    small = minimize(
        {"x": np.array([1.5, np.nan, np.inf])}, lambda arrays: bool(np.isnan(arrays["x"]).any()), "float16"
    )
    assert np.isnan(small["x"]).tolist() == [True]


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.floats(-60000, 60000, width=16), min_size=1, max_size=40),
    format_=st.sampled_from(["float16", "bfloat16"]),
)
def test_the_result_fails_is_of_the_format_and_no_larger(values: list[float], format_: str) -> None:
    x = round_to_format(np.array(values), format_)
    limit = float(np.abs(x).max())

    def fails(arrays: Inputs) -> bool:
        return bool(np.any(np.abs(arrays["x"]) >= limit))

    small = minimize({"x": x}, fails, format_)["x"]
    assert fails({"x": small})
    assert small.size == 1
    np.testing.assert_array_equal(round_to_format(small, format_), small)


def test_a_large_input_costs_more_trials_than_a_small_one() -> None:
    asked = 0

    def fails(arrays: Inputs) -> bool:
        nonlocal asked
        asked += 1
        return False

    minimize({"x": np.full(10_000, 0.3)}, fails, trials=60)
    assert asked <= 60  # a half counts 1 + 5000 // 2000 = 3
    large, asked = asked, 0
    minimize({"x": np.linspace(0.1, 0.9, 50)}, fails, trials=60)
    assert asked > large


def test_shapes_that_are_to_be_kept_are_kept() -> None:
    kept = minimize({"x": np.array([[3.7, 250.11], [1.3, 0.0]])}, lambda arrays: True, shapes_kept=True)
    assert kept["x"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
