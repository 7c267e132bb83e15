"""The search of a test: where it runs, that it is judged as any batch, and that its inputs can be made again."""

from __future__ import annotations

import dataclasses
import importlib.util

import pytest

pytest.importorskip("flint", reason="needs the extra `dynamic`")

from opscanner.dynamic.batch_trial import BatchTrial
from opscanner.dynamic.guided import is_searched
from opscanner.dynamic.measure import Plan, measure_operator, operator_by_id, remake
from opscanner.measurements import Measurement
from opscanner.operators.catalog import Operator
from opscanner.operators.pairs import parse_inputs

needs_torch = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is not installed")
needs_both = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "tensorflow"))),
    reason="torch and tensorflow are not both installed",
)


def measured(operator: str, format_: str, *strategies: str, **more: object) -> list[Measurement]:
    plan = Plan(("pytorch", "tensorflow"), strategies=strategies or None, size="small")
    return measure_operator(operator_by_id(operator), format_, dataclasses.replace(plan, **more))  # type: ignore[arg-type]


def made(inputs: str, **more: object) -> Operator:
    one = Operator("made", "forward", "unary", "", parse_inputs(inputs), {"pytorch": "f(x)"}, "f(x)", True, "")
    return dataclasses.replace(one, **more)  # type: ignore[arg-type]


def test_there_is_no_search_where_every_input_is_fed() -> None:
    x, y, dy = (f"{name}: float (4) in [-1, 1]" for name in ("x", "y", "dy"))
    assert not is_searched(made(x), "float16")
    assert is_searched(made(x), "float32")
    assert is_searched(made(f"{x}; {dy}"), "float16")
    assert is_searched(made(f"{x}; {y}"), "bfloat16")
    assert not is_searched(made(f"{x}; {y}"), "float8_e5m2")
    assert is_searched(made(x, elementwise=False), "float16")
    assert not is_searched(made(f"{x}; {y}", reference=""), "float16")


@needs_both
@pytest.mark.slow
def test_the_search_alone_finds_what_it_finds_after_all_strategies_in_each_framework() -> None:
    every = measured("floor_divide", "float16")
    alone = measured("floor_divide", "float16", "search")
    among = [one for one in every if one.strategy == "search"]
    assert [one.framework for one in alone] == ["pytorch", "tensorflow"]
    assert {one.strategy for one in alone} == {"search"}

    def said(one: Measurement) -> Measurement:
        return dataclasses.replace(one, elapsed_s=0.0, coverage_in_all={})

    assert list(map(said, alone)) == list(map(said, among))
    assert said(measured("floor_divide", "float16", "search", seed=1)[0]) != said(alone[0])


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(("operator", "format_"), [("hypot", "float16"), ("softmax.columns", "bfloat16")])
def test_a_row_of_a_search_tells_how_to_make_its_inputs_again(operator: str, format_: str) -> None:
    (one,) = measured(operator, format_, "search", frameworks=("pytorch",))
    assert one.batch_number > 0
    (batch,) = remake(one, "small")
    assert (batch.strategy, batch.number) == ("search", one.batch_number)
    plan = Plan(("pytorch",), size="small")
    (again,) = BatchTrial(operator_by_id(operator), format_, plan, batch).measure(["pytorch"])
    for name in (
        "count",
        "max_ulp",
        "mean_ulp",
        "verdict",
        "worst_index",
        "worst_expected",
        "worst_got",
        "worst_inputs",
    ):
        assert getattr(again, name) == getattr(one, name), name


@needs_torch
def test_the_number_of_a_batch_finds_it_among_those_of_its_strategy() -> None:
    (one,) = [row for row in measured("atan2", "float16", "stratified") if row.framework == "pytorch"]
    batches = list(remake(one, "small"))
    assert len(batches) > 1
    worst = batches[one.batch_number]
    assert worst.why == one.batch
    assert {name: array.ravel()[one.worst_index] for name, array in worst.inputs.items()} == one.worst_inputs


@needs_torch
def test_rows_say_what_share_of_the_exponents_their_inputs_fed() -> None:
    rows = {row.strategy: row for row in measured("atan2", "float16", "ones", "stratified", "boundary", "search")}
    assert rows["stratified"].coverage["x"] > 0.9
    assert rows["stratified"].coverage.keys() == {"x", "y"}
    alike = {tuple(row.coverage_in_all.items()) for row in rows.values()}
    assert len({row.framework for row in rows.values()}) == len(alike)
    for row in rows.values():
        assert all(share <= row.coverage_in_all[name] for name, share in row.coverage.items())
