"""Real translation units of TensorFlow 2.14.1, scanned as a user would, beside what LLVM IR shows of them.

The figures are those that the project asks of itself; ``make accuracy`` with TensorFlow's truth compares all fourteen
units that it covers.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from opscanner import api

KERNELS = "tensorflow/core/kernels"
UNITS = (
    f"{KERNELS}/relu_op_gpu.cu.cc",
    f"{KERNELS}/scan_ops_gpu_half.cu.cc",
    f"{KERNELS}/image/adjust_contrast_op_gpu.cu.cc",
)
pytestmark = [pytest.mark.real_sources, pytest.mark.slow]


@pytest.fixture(scope="module")
def database(tensorflow_root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("tensorflow") / "graph.sqlite")
    api.scan(str(tensorflow_root), only=UNITS, db=found, passes="device")
    return found


@pytest.fixture(scope="module")
def truth(ground_truth: ModuleType) -> dict[str, Any]:
    whole = ground_truth.load_truth(ground_truth.PYTORCH_2_6.with_name("tensorflow-2.14.1.json.gz"))
    return {unit: whole[unit] for unit in UNITS}


@pytest.fixture(scope="module")
def arithmetic(database: str) -> list[dict[str, Any]]:
    return [row.as_json() for row in api.arithmetic(db=database)]


def test_the_units_hold_no_error(database: str) -> None:
    assert {(row.file, row.status, row.errors) for row in api.units(db=database)} == {(u, "ok", 0) for u in UNITS}


def test_the_casts_are_those_that_ir_shows(database: str, truth: dict[str, Any], ground_truth: ModuleType) -> None:
    rows = [row.as_json() for row in api.casts(db=database)]
    recall, precision, _ = ground_truth.compare_casts(truth, rows)
    assert {how: agreement.differences for how, agreement in recall.items()} == {
        "direct": (),
        "expression": (),
    }
    assert recall["expression"].total >= 3
    assert precision.differences == ()


def test_arithmetic_in_16_bit_is_that_which_ir_shows(
    arithmetic: list[dict[str, Any]], truth: dict[str, Any], ground_truth: ModuleType
) -> None:
    recall, precision = ground_truth.compare_arithmetic(truth, arithmetic)
    assert recall.total > 20
    assert recall.differences == ()
    assert precision.share >= 0.95, precision.differences


@pytest.mark.parametrize(
    ("functor", "operations"),
    [
        ("Elu", {"exp", "-"}),
        ("Selu", {"exp", "-", "*"}),
        ("SeluGrad", {"*", "+"}),
        ("LeakyRelu", {"*"}),
    ],
)
def test_activations_compute_in_the_storage_format_on_the_device(
    arithmetic: list[dict[str, Any]], functor: str, operations: set[str]
) -> None:
    # relu_op_functor.h: backprops.device(d) = ... of T, no cast anywhere
    rows = [
        row for row in arithmetic
        if row["function"] == f"tensorflow::functor::{functor}::operator()" and row["category"] in ("arith", "math")
    ]  # fmt: skip
    for format_ in ("float16", "bfloat16"):
        assert {row["operation"] for row in rows if row["format"] == format_} == operations
    assert {row["pass"] for row in rows if row["category"] != "compare"} == {"device"}


def test_cumsum_scans_in_the_storage_format(arithmetic: list[dict[str, Any]]) -> None:
    # scan_ops_gpu.h: struct Sum { T operator()(const T& a, const T& b) const { return a + b; } }
    assert any(
        row["file"] == f"{KERNELS}/scan_ops_gpu.h"
        and (row["operation"], row["format"], row["pass"]) == ("+", "float16", "device")
        for row in arithmetic
    )


def test_a_sum_of_an_expression_that_was_widened_is_a_widened_accumulation(database: str) -> None:
    # adjust_contrast_op.h: input.template cast<float>().shuffle(...).sum(reduction_axis)
    found = {
        (row.line, row.from_format, row.to_format, row.confidence, row.reached_from)
        for row in api.findings("widened-accumulation", db=database)
        if row.file.endswith("image/adjust_contrast_op.h") and row.from_format == "float16"
    }
    assert found == {(108, "float16", "float32", "high", "device")}
