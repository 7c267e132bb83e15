"""Guided search: it finds narrow peaks, keeps format, domain and budget, and repeats itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from opscanner.dynamic.inputs import Batch, generate
from opscanner.dynamic.search import Budget, climb, predoo
from opscanner.errors import UsageError
from opscanner.operators.catalog import Operator
from opscanner.operators.pairs import parse_inputs
from opscanner.precision.rounding import round_to_format

Inputs = Mapping[str, np.ndarray]


def operator(inputs: str, elementwise: bool = True, domain: str = "") -> Operator:
    kind = "unary" if elementwise else "reduction"
    return Operator("made", "forward", kind, "", parse_inputs(inputs), {"pytorch": "f(x)"}, "f(x)", elementwise, domain)


def seeds(of: Operator, *strategies: str, format_: str = "float16") -> list[Batch]:
    return list(generate(of, format_, strategies or ("random",), size="small"))


def lost_by_expm1(arrays: Inputs) -> np.ndarray:
    """Error of exp(x) - 1 in float16 steps, in ULP of x: large next to 0, where no normal number lies."""
    x = arrays["x"].astype(np.float16)
    with np.errstate(all="ignore"):
        got = (np.exp(x) - np.float16(1)).astype(float)
        exact = np.expm1(x.astype(float))
        error = np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float16)).astype(float)
    return np.where(np.isfinite(error), error, 0.0)


def test_climbing_finds_what_random_numbers_do_not() -> None:
    of = operator("x: float (4) in [-4, 4]")
    start = seeds(of)
    before = max(float(lost_by_expm1(one.inputs).max()) for one in start)
    found = climb(of, "float16", lost_by_expm1, start, Budget(evaluations=60))
    every = lost_by_expm1(seeds(of, "exhaustive")[0].inputs).max()
    assert found.score > 0.9 * every > before
    assert found.inputs["x"].size == 1
    places = lost_by_expm1(found.whole)
    assert places.size > 1
    assert (places.max(), found.whole["x"][places.argmax()]) == (found.score, found.inputs["x"][0])
    assert float(lost_by_expm1(found.inputs).max()) == found.score


def test_a_constant_of_1e8th_moves_no_16_bit_value_near_1() -> None:
    of = operator("x: float (4) in [1, 4]")
    start = seeds(of)[:1]
    fed: set[float] = set()

    def objective(arrays: Inputs) -> np.ndarray:
        fed.update(arrays["x"].ravel().tolist())
        return lost_by_expm1(arrays)

    found = predoo(of, "float16", objective, start, Budget(evaluations=20))
    assert fed == set(start[0].inputs["x"].ravel().tolist())
    assert len(found.history) == 1
    assert climb(of, "float16", lost_by_expm1, start, Budget(evaluations=20)).score > found.score


def test_the_baseline_moves_by_its_constant() -> None:
    of = operator("x: float (4) in [1, 4]")
    found = predoo(of, "float16", lambda arrays: arrays["x"].ravel(), seeds(of)[:1], Budget(evaluations=30), constant=1)
    assert 4 < found.score <= 4 + 29


@pytest.mark.parametrize("search", [climb, predoo])
def test_the_same_seed_and_evaluations_give_the_same_result(search: object) -> None:
    of = operator("x: float (4) in [-4, 4]; y: float (4) in [1, 2]")
    start = seeds(of)

    def objective(arrays: Inputs) -> np.ndarray:
        return np.abs(arrays["x"] * arrays["y"]).ravel()

    first, second = (search(of, "float16", objective, start, Budget(evaluations=12)) for _ in range(2))  # type: ignore[operator]
    assert first.history == second.history
    assert first.inputs["x"] == second.inputs["x"]
    assert first.evaluations == 12


def test_values_stay_in_format_and_domain_and_expressions_follow() -> None:
    of = operator("x: float (4) in [0.1, 0.9]; y = np.sqrt(x)", domain="(x > 0) & (x < 1)")

    def objective(arrays: Inputs) -> np.ndarray:
        x, y = arrays["x"], arrays["y"]
        assert np.all((x > 0) & (x < 1))
        np.testing.assert_array_equal(round_to_format(x, "bfloat16"), x)
        np.testing.assert_array_equal(round_to_format(np.sqrt(x), "bfloat16"), y)
        return np.asarray(1 / x).ravel()

    start = seeds(of, format_="bfloat16")
    found = climb(of, "bfloat16", objective, start, Budget(evaluations=40))
    assert found.score > 1e30


def test_arrays_of_other_operators_climb_as_a_whole() -> None:
    of = operator("x: float (2, 12) in [-1, 1]", elementwise=False)

    def condition(arrays: Inputs) -> float:
        x = arrays["x"]
        with np.errstate(all="ignore"):
            return float(np.nanmax(np.where(np.isfinite(x).all(1), np.abs(x).sum(1) / np.abs(x.sum(1)), 0.0)))

    start = seeds(of)
    before = max(condition(one.inputs) for one in start)
    found = climb(of, "float16", condition, start, Budget(evaluations=400))
    assert found.score > 3 * before
    assert found.inputs["x"].ndim == 2
    assert [score for _, score in found.history] == sorted(score for _, score in found.history)


def test_a_search_ends_after_its_seconds() -> None:
    of = operator("x: float (4) in [-4, 4]")
    found = climb(of, "float16", lost_by_expm1, seeds(of), Budget(seconds=0.2))
    assert 0 < found.evaluations < 100_000


def test_nan_counts_as_nothing_found() -> None:
    of = operator("x: float (4) in [-4, 4]")
    found = climb(of, "float16", lambda arrays: np.full(arrays["x"].size, np.nan), seeds(of), Budget(evaluations=5))
    assert (found.score, found.inputs) == (-np.inf, {})


def test_a_search_without_budget_is_refused() -> None:
    with pytest.raises(UsageError, match="without budget"):
        Budget()
