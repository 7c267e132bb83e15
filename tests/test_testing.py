"""A campaign's requests and its last line, without running anything."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flint", reason="needs the extra `dynamic`")

from opscanner import api
from opscanner.dynamic.campaign import CampaignSummary
from opscanner.dynamic.measure import operator_by_id
from opscanner.errors import UsageError
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators.catalog import find_operators
from opscanner.precision.rounding import round_to_format
from opscanner.report import measurements as report
from opscanner.testing import TestRequest, TestResult, check_request, evaluations_of_budget, run_kept_tests, tasks_of


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


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"device": "tpu"}, "no device 'tpu'"),
        ({"device": "cuda:first"}, "no device 'cuda:first'"),
        ({"formats": ()}, "no format that can be tested is named"),
        ({"frameworks": ()}, "no framework is named"),
        ({"formats": ("float15",)}, "'float15' is no format"),
        ({"strategies": ("guess",)}, "no input strategy is called 'guess'"),
        ({"budget": math.nan}, "a budget of nan"),
        ({"budget": math.inf}, "a budget of inf"),
        ({"time_limit_s": 0.0}, "a time limit of 0 s"),
        ({"time_limit_s": -1.0}, "a time limit of -1 s"),
        ({"time_limit_s": math.nan}, "a time limit of nan s"),
        ({"seed": 10**23}, "the seed 100000000000000000000000 is out of range"),
        ({"seed": -1}, "the seed -1 is out of range"),
    ],
)
def test_what_would_measure_nothing_is_refused(asked: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"operators": (), "formats": ("float16",), "frameworks": ("pytorch",), "device": "cpu"}
    with pytest.raises(UsageError, match=re.escape(said)):
        check_request(TestRequest(**{**good, **asked}))
    check_request(TestRequest(**good))


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU")
    request = TestRequest((operator_by_id("abs"),), ("float16",), ("pytorch",), "cuda")
    with pytest.raises(UsageError, match="pytorch has no device 'cuda' here"):
        run_kept_tests(request, str(tmp_path / "t.sqlite"), resume=False)
    assert list(tmp_path.iterdir()) == []


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="--top"):
        api.test(["abs"], top=3, store=False)
    with pytest.raises(UsageError, match="--resume"):
        api.test(["abs"], resume=True, store=False)


def test_a_strategy_that_makes_no_inputs_says_so_and_a_format_named_twice_counts_once() -> None:
    pytest.importorskip("torch")
    said: list[str] = []
    found = api.test(
        ["sign"], strategies=["exhaustive"], formats=["float32", "float32", "float16", "float16"], store=False,
        frameworks=["pytorch"], device="cpu", progress=said.append,
    )  # fmt: skip
    assert [(row.format, row.strategy) for row in found.measurements] == [("float16", "exhaustive")]
    assert "no inputs of exhaustive for sign float32: not measured" in said


def test_the_shipped_summary_is_only_read_and_the_refusal_says_what_works() -> None:
    with pytest.raises(UsageError) as refused:
        api.test(from_findings=True, db="summary")
    assert "--no-store" in refused.value.hint


def test_without_a_gpu_suspects_of_both_kinds_of_kernels_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = {"cuda": ("mish", "elu", "sign", "elu"), "cpu": ("sign",)}

    def suspected(*, db: str | None, device: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pair=name) for name in pairs[device]]

    monkeypatch.setattr(api, "testlist", suspected)
    said: list[str] = []
    assert api._suspected(None, "auto", "cpu", said.append) == ("sign", "mish", "elu")
    assert "there is no GPU" in said[0]
    said.clear()
    assert api._suspected(None, "auto", "cuda", said.append) == ("mish", "elu", "sign")
    assert api._suspected(None, "cpu", "cpu", said.append) == ("sign",)
    assert said == []


def test_a_rows_inputs_are_made_again() -> None:
    pytest.importorskip("tensorflow")
    found = api.test(
        ["cumsum"], strategies=["ones"], formats=["bfloat16"], frameworks=["tensorflow"], device="cpu", store=False,
    )  # fmt: skip
    one = next(row for row in found.measurements if row.operator == "cumsum")
    x = api.inputs_of(one)["x"]
    assert set(np.unique(x)) == {1.0}
    place = one.worst_index % x.shape[1]
    assert (one.worst_expected, one.worst_got) == (round_to_bfloat16(place + 1.0), 256.0)  # a running sum of ones
    with pytest.raises(UsageError, match="no batch 99"):
        api.inputs_of(replace(one, batch_number=99))


def round_to_bfloat16(value: float) -> float:
    return float(round_to_format(np.asarray(value), "bfloat16"))


def test_expected_and_got_are_printed_with_the_digits_that_tell_them_apart() -> None:
    one = replace(
        measurement("tanh", "random", {}, {}), format="float32", verdict=Verdict.BEYOND_UPCAST,
        worst_expected=1 - 2**-24, worst_got=1.0, worst_inputs={"x": 9.01091385},
    )  # fmt: skip
    cells = dict(zip(report.COLUMNS, next(iter(report.rows([one]))), strict=True))
    assert (cells["expected"], cells["got"], cells["at"]) == ("0.99999994", "1", "x=9.01091385")
    cells = dict(zip(report.COLUMNS, next(iter(report.rows([replace(one, format="float16")]))), strict=True))
    assert cells["at"] == "x=9.01091"


def test_a_row_without_elements_shows_no_figures() -> None:
    one = replace(measurement("sign", "empty", {}, {}), count=0, max_ulp=math.nan, verdict=Verdict.EMPTY)
    cells = next(iter(report.rows([one])))
    assert len(cells) == len(report.COLUMNS)
    assert (cells[3], set(cells[4:-1]), cells[-1]) == ("empty", {""}, "no elements")
