"""Ways to choose inputs for the study's operators: what they run, within which budget, and what they find."""

from __future__ import annotations

import dataclasses
from collections import deque

import ml_dtypes
import numpy as np
import pytest

from opscanner.dynamic.study import draw_tensors, run_study
from opscanner.dynamic.study_operators import study_operators
from opscanner.dynamic.study_strategies import STRATEGIES, StrategyMeasurement, StrategyRow, run_strategies
from opscanner.errors import UsageError
from opscanner.frameworks.runners import is_installed

both = pytest.mark.skipif(
    not (is_installed("pytorch") and is_installed("tensorflow")),
    reason="NEEDS torch AND tensorflow: THE STUDY COMPARES THEM",
)


def found(strategy: str, operator: str, framework: str, tensors: int, seed: int = 0) -> StrategyMeasurement:
    (row,) = run_strategies(
        tensors=tensors, seeds=[seed], operators=[operator], frameworks=[framework], strategies=[strategy]
    )
    (measured,) = row.measurements
    return measured


@both
def test_random_is_the_studys_own_experiment() -> None:
    (row,) = run_study(tensors=700, seeds=[2], operators=["softplus"], frameworks=["tensorflow"], alone=0)
    own, (measured,) = found("random", "softplus", "tensorflow", 700, seed=2), row.measurements
    assert own.tensors == 700
    for figure in ("max_ulp", "max_absolute_error", "over_1_ulp", "count"):
        assert getattr(own, figure) == getattr(measured, figure)


@both
def test_predoo_is_its_authors_queue() -> None:
    # One tensor after another, as in experiment/Heuristic_based of github.com/predoodl/predoo, by torch itself.
    import torch

    softplus = next(one for one in study_operators() if one.id == "softplus")
    budget = 200
    queue = deque(draw_tensors(softplus, "bfloat16", 30, 4)["x"])
    largest, runs = 0.0, 0
    while queue and runs < budget:
        x = queue.popleft()
        given = x.astype(ml_dtypes.bfloat16).astype(float)
        got = torch.nn.functional.softplus(torch.from_numpy(given).bfloat16()).double().numpy()
        error = np.abs(got - np.logaddexp(0, given)).max()
        largest = max(largest, error)
        if error > 2e-4:
            queue.extend(x + by for by in (1e-4, 1e-6, 1e-8))
        runs += 1
    measured = found("predoo", "softplus", "pytorch", budget, seed=4)
    assert measured.tensors == runs == budget
    assert measured.max_absolute_error == pytest.approx(largest, rel=1e-9)


@both
def test_exhaustive_feeds_every_value_of_the_format() -> None:
    import torch

    with np.errstate(invalid="ignore"):  # signaling NaN among the 65,536
        x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16).astype(float)
    x = x[np.isfinite(x)]
    got = torch.nn.functional.elu(torch.from_numpy(x).bfloat16()).double().numpy()
    error = np.abs(got - np.where(x > 0, x, np.expm1(np.minimum(x, 0))))
    measured = found("exhaustive", "elu", "pytorch", 1)
    assert measured.count >= x.size
    assert measured.max_absolute_error == pytest.approx(error.max(), rel=1e-9)
    assert measured.max_ulp <= 0.5
    assert measured.class_mismatches == 0


@both
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "exhaustive"])
@pytest.mark.parametrize("operator", ["selu_grad", "logcumsumexp"])
def test_a_budget_is_kept_and_a_seed_gives_the_same_again(strategy: str, operator: str) -> None:
    first, again = (found(strategy, operator, "tensorflow", 150, seed=1) for _ in range(2))
    assert 0 < first.tensors <= 150
    assert dataclasses.replace(first, elapsed_s=0) == dataclasses.replace(again, elapsed_s=0)


@both
def test_what_is_not_random_finds_nan_where_random_numbers_and_predoo_find_none() -> None:
    # x / y underflows to 0 where TensorFlow flushes the subnormal y: 0 / 0.
    mismatches = {
        name: found(name, "floor_divide", "tensorflow", 3000).class_mismatches
        for name in ("random", "predoo", "stratified", "hill climbing")
    }
    assert mismatches["random"] == mismatches["predoo"] == 0
    assert mismatches["stratified"] > 0
    assert mismatches["hill climbing"] > 0


@both
def test_hill_climbing_reaches_the_exhaustive_maximum_of_a_wrong_operator() -> None:
    every = found("exhaustive", "softplus", "tensorflow", 1).max_ulp
    assert found("hill climbing", "softplus", "tensorflow", 3000).max_ulp == every
    assert found("random", "softplus", "tensorflow", 3000).max_ulp < every / 2


@both
def test_all_strategies_that_apply_are_rows() -> None:
    def names(operator: str, format_: str) -> list[str]:
        rows: list[StrategyRow] = run_strategies(
            tensors=20, seeds=[0], operators=[operator], formats=[format_], frameworks=["pytorch"]
        )
        return [row.strategy for row in rows]

    every = ["random", "predoo", "boundary", "stratified", "hill climbing", "exhaustive"]
    assert names("selu", "float16") == every
    assert names("selu", "float32") == names("log_softmax", "float16") == every[:-1]


def test_an_unknown_strategy_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="'luck' is no strategy") as refused:
        run_strategies(strategies=["luck"])
    assert "predoo" in refused.value.hint
