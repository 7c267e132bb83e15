"""A campaign's requests and its last line, without running anything."""

from __future__ import annotations

import pytest

pytest.importorskip("flint", reason="needs the extra `dynamic`")

from opscanner.dynamic.campaign import CampaignSummary
from opscanner.errors import UsageError
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators.catalog import find_operators
from opscanner.report import measurements as report
from opscanner.testing import TestRequest, TestResult, evaluations_of_budget, tasks_of


def measurement(operator: str, strategy: str, coverage: dict[str, float], in_all: dict[str, float]) -> Measurement:
    return Measurement(
        operator=operator, direction="forward", framework="pytorch", version="2.13.0", format="float16", device="cpu",
        layout="contiguous", strategy=strategy, seed=0, status=Status.RAN, verdict=Verdict.CORRECT, count=4,
        coverage=coverage, coverage_in_all=in_all,
    )  # fmt: skip


def request(*strategies: str) -> TestRequest:
    return TestRequest(tuple(find_operators("hypot", False)), ("float16",), ("pytorch",), strategies=strategies or None)


def test_the_search_runs_after_all_strategies_and_by_its_name() -> None:
    (task,) = tasks_of(request(), ["pytorch"])
    assert task.strategies[-1] == "search"
    assert len(task.strategies) > 20
    (alone,) = tasks_of(request("search"), ["pytorch"])
    assert alone.strategies == ("search",)
    with pytest.raises(UsageError, match="no input strategy is called 'serach'"):
        tasks_of(request("serach"), ["pytorch"])


def test_the_budget_scales_the_calls_of_the_search() -> None:
    assert 12 <= evaluations_of_budget(1.0) <= 24
    assert evaluations_of_budget(10.0) == 10 * evaluations_of_budget(1.0)
    assert evaluations_of_budget(0.01) == 4


def test_the_last_line_says_what_inputs_were_fed_over_all_operators() -> None:
    # mul: x 0.9 and y 0.7, told by both of its rows; exp: x 0.5. The mean of the three inputs is 0.7.
    rows = [
        measurement("mul", "ones", {"x": 0.1, "y": 0.1}, {"x": 0.9, "y": 0.7}),
        measurement("mul", "stratified", {"x": 0.9, "y": 0.7}, {"x": 0.9, "y": 0.7}),
        measurement("exp", "boundary", {"x": 0.5}, {"x": 0.5}),
    ]
    assert "; fed 70% of signs and exponents" in TestResult(rows, CampaignSummary()).summary_line()
    assert "fed" not in TestResult([], CampaignSummary()).summary_line()


def test_a_line_of_the_table_says_what_each_input_was_fed() -> None:
    (line,) = report.rows([measurement("mul", "ones", {"x": 0.104, "y": 1.0}, {})])
    assert line[report.COLUMNS.index("fed")] == "10%/100%"
    assert len(line) == len(report.COLUMNS)
    lost = Measurement(
        operator="mul", direction="forward", framework="pytorch", version="2.13.0", format="float16", device="cpu",
        layout="contiguous", strategy="search", seed=0, status=Status.ABORTED, verdict=Verdict.NOT_MEASURED,
    )  # fmt: skip
    (line,) = report.rows([lost])
    assert len(line) == len(report.COLUMNS)
    assert line[report.COLUMNS.index("verdict")] == "aborted"
