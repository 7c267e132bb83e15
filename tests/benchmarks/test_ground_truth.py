"""The comparison with LLVM IR, on a truth of a few lines worked out by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

UNIT = "aten/src/ATen/native/cuda/SoftMax.cu"


def expected(line: int, how: str = "direct", constant: bool = False, **other: Any) -> dict[str, Any]:
    row = {"file": "a.cuh", "line": line, "function": "f", "from": "float16", "to": "float32"}
    return {**row, "how": how, "constant": constant, **other}


def found(line: int, **other: Any) -> dict[str, Any]:
    row = {"file": "a.cuh", "line": line, "from": "float16", "to": "float32", "constant": False, "pass": "device"}
    return {**row, **other}


def truth(*casts: dict[str, Any], lines: tuple[int, ...] = (1, 2, 3, 4)) -> dict[str, Any]:
    return {UNIT: {"casts": list(casts), "arithmetic": [], "device_lines": {"a.cuh": list(lines)}}}


def test_a_cast_that_was_not_found_lowers_recall_and_is_named(ground_truth: ModuleType) -> None:
    recall, precision, _ = ground_truth.compare_casts(truth(expected(1), expected(2)), [found(1)])
    assert recall["direct"].share == 0.5
    assert recall["direct"].differences == (("a.cuh", 2, "float16", "float32", "f"),)
    assert precision.share == 1.0


def test_a_cast_that_ir_does_not_show_lowers_precision(ground_truth: ModuleType) -> None:
    _, precision, untold = ground_truth.compare_casts(truth(expected(1)), [found(1), found(3)])
    assert (precision.hits, precision.total, untold) == (1, 2, 0)
    assert precision.differences == (("a.cuh", 3, "float16", "float32"),)


def test_where_no_device_code_was_emitted_ir_tells_nothing(ground_truth: ModuleType) -> None:
    _, precision, untold = ground_truth.compare_casts(truth(expected(1)), [found(1), found(99)])
    assert (precision.share, untold) == (1.0, 1)


@pytest.mark.parametrize(
    "row",
    [
        found(3, constant=True),
        found(3, **{"pass": "host"}),
        found(3, **{"from": "int32"}),
        found(3, **{"from": "float32", "to": "complex64"}),
        found(3, file="c10/util/Half-inl.h"),
    ],
)
def test_what_ir_could_not_show_is_no_false_claim(ground_truth: ModuleType, row: dict[str, Any]) -> None:
    _, precision, untold = ground_truth.compare_casts(truth(expected(1)), [found(1), row])
    assert (precision.total, untold) == (1, 0)


def test_a_folded_literal_is_not_asked_for(ground_truth: ModuleType) -> None:
    recall, _, _ = ground_truth.compare_casts(truth(expected(1), expected(2, constant=True)), [found(1)])
    assert recall["direct"].total == 1


def test_exact_operations_are_known_but_not_asked_for(ground_truth: ModuleType) -> None:
    rows = [
        {"file": "a.cuh", "line": 1, "operation": "+", "format": "float16", "rounds": True},
        {"file": "a.cuh", "line": 2, "operation": "<", "format": "float16", "rounds": False},
    ]
    given = truth()
    given[UNIT]["arithmetic"] = rows
    recall, precision = ground_truth.compare_arithmetic(given, [rows[1], {**rows[0], "format": "float32"}])
    assert (recall.hits, recall.total) == (0, 1)
    assert (precision.hits, precision.total) == (1, 1)


def test_the_given_truth_covers_fifteen_units(ground_truth: ModuleType) -> None:
    units = ground_truth.load_truth()
    assert len(units) == 15
    assert all(unit["casts"] and unit["device_lines"] for unit in units.values())
