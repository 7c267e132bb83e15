"""Unguided measurements find the operators that are known to be wrong, and clear those known to be right.

The cases are public reports and runs of others (data/reference/precision_faults.csv); releases: torch 2.13.0 and
tensorflow-cpu 2.21.0. Nothing here names an input: every strategy runs.
"""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("flint", reason="needs the extra `dynamic`")

from opscanner.dynamic.measure import Plan, measure_operator, operator_by_id
from opscanner.measurements import Measurement, Status, Verdict

needs = {
    name: pytest.mark.skipif(not importlib.util.find_spec(package), reason=f"{package} is not installed")
    for name, package in (("pytorch", "torch"), ("tensorflow", "tensorflow"))
}


def measured(operator: str, framework: str, format_: str, *strategies: str) -> list[Measurement]:
    rows = measure_operator(operator_by_id(operator), format_, Plan((framework,), strategies=strategies or None))
    return [row for row in rows if row.status is Status.RAN]


WRONG = [
    ("elu", "tensorflow", "float16"),
    ("elu", "tensorflow", "bfloat16"),
    ("selu", "tensorflow", "float16"),
    ("selu", "tensorflow", "bfloat16"),
    ("gelu.tanh", "tensorflow", "float16"),
    ("cumsum", "tensorflow", "bfloat16"),
    ("sum", "tensorflow", "float16"),
    ("mean.columns", "tensorflow", "float16"),
    ("add_n", "tensorflow", "float16"),
    ("index_add.vector", "pytorch", "float16"),
    ("index_add.vector", "pytorch", "bfloat16"),
    ("floor_divide", "pytorch", "bfloat16"),
    ("arange.thousand", "pytorch", "float16"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "framework", "format_"),
    [pytest.param(*case, marks=needs[case[1]], id="-".join(case)) for case in WRONG],
)
def test_a_known_fault_is_found(operator, framework, format_):
    assert any(row.verdict.is_fault for row in measured(operator, framework, format_))


@needs["pytorch"]
def test_a_strided_rsqrt_rounds_the_root_first():
    # 8,402 of all float16 values differ between the contiguous and the strided path by one representable value.
    rows = {row.layout: row for row in measured("rsqrt", "pytorch", "float16", "exhaustive", "strided")}
    assert rows["contiguous"].verdict in (Verdict.CORRECT, Verdict.WITHIN_BUDGET)
    assert rows["strided"].verdict is Verdict.BEYOND_UPCAST


@needs["pytorch"]
def test_logsumexp_of_many_zeros_overflows_float16():
    # The sum of 70,000 ones is past 65504; log(70000) is 11.156.
    rows = measured("logsumexp", "pytorch", "float16", "large_n")
    assert [row.verdict for row in rows] == [Verdict.CLASS_MISMATCH]
    assert (rows[0].worst_expected, rows[0].worst_got) == (11.15625, float("inf"))


@needs["tensorflow"]
def test_a_running_sum_of_ones_stalls_at_256_in_bfloat16():
    rows = measured("cumsum", "tensorflow", "bfloat16", "ones")
    assert [row.verdict for row in rows] == [Verdict.BEYOND_UPCAST]
    assert rows[0].upcast_max_ulp is not None
    assert rows[0].upcast_max_ulp <= 0.5


@needs["tensorflow"]
def test_flushed_subnormals_are_no_other_fault():
    rows = measured("floor", "tensorflow", "bfloat16", "exhaustive")
    assert [row.verdict for row in rows] == [Verdict.FLUSHED]


RIGHT = ("elu", "selu", "tanh", "exp", "log", "log1p", "expm1", "softplus")


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["float16", "bfloat16"])
@pytest.mark.parametrize("operator", [pytest.param(name, marks=needs["pytorch"]) for name in RIGHT])
def test_a_right_operator_gives_no_alarm(operator, format_):
    rows = measured(operator, "pytorch", format_)
    assert rows
    no_alarm = {Verdict.CORRECT, Verdict.WITHIN_BUDGET, Verdict.EMPTY, Verdict.NOT_MEASURED}
    assert {row.verdict for row in rows} <= no_alarm
