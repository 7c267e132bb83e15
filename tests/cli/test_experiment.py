"""``opscanner experiment``: tables, JSON and CSV of both experiments, and the published statements beside."""

from __future__ import annotations

import csv
import io
import json

import pytest

from opscanner.cli import main
from opscanner.dynamic.experiments.figures import OperatorExperiment, OperatorFigures, SkippedRun
from opscanner.frameworks.runners import is_installed
from opscanner.report import experiments as report

needs_torch = pytest.mark.skipif(not is_installed("pytorch"), reason="NEEDS torch: IT TRAINS")
OPERATORS = ("experiment", "operators", "--model", "mnist-mlp", "--in", "float32", "--noise", "ulp", "--steps", "1")
ATTENTION = ("experiment", "attention", "--in", "bfloat16", "--length", "16", "--steps", "1", "--fuzz", "2")


@needs_torch
def test_json_and_csv_of_the_operators_hold_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPERATORS, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["settings"]["steps"], found["settings"]["models"]) == (1, ["mnist-mlp"])
    assert main([*OPERATORS, "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [{name: str(value) for name, value in row.items()} for row in found["figures"]] == lines
    (linear,) = [row for row in found["figures"] if (row["operator"], row["direction"]) == ("linear", "forward")]
    assert linear["calls"] == 3


@needs_torch
def test_the_table_of_operators_has_as_many_places_as_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*OPERATORS, "--top", "2", "--pass", "both"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[2:4] for line in out.splitlines()[2:]] == [
        ["forward", "1"], ["forward", "2"], ["backward", "1"], ["backward", "2"],
    ]  # fmt: skip
    assert "published (FuMi): conv2d and linear fail most often" in err


@needs_torch
def test_attention_prints_each_pair_and_each_against_float64(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTENTION, "--query-scale", "4"]) == 0
    out, err = capsys.readouterr()
    pairs = {frozenset(line.split()[3:5]) for line in out.splitlines()[2:]}
    assert len(out.splitlines()) == 8
    assert pairs == {
        *map(frozenset, (("flash", "math"), ("flash", "written"), ("math", "written"))),
        *(frozenset((name, "float64")) for name in ("flash", "math", "written")),
    }
    assert "13 times what random tensors show" in err


@needs_torch
def test_csv_and_json_of_attention_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ATTENTION, "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert main([*ATTENTION, "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(line["relative_in_model"]) for line in lines] == [
        float(row["in_model"]["relative"]) for row in found["figures"]
    ]
    shown = next(row for row in found["figures"] if row["second"] == "float64")
    assert shown["factor"]["absolute"] == shown["in_model"]["absolute"] / shown["random"]["absolute"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("operators", "--model", "alexnet"), "no model is named 'alexnet'"),
        (("operators", "--in", "int8"), "no format of this experiment is named 'int8'"),
        (("attention", "--length", "16.5"), "whole numbers"),
        (("attention", "--query-scale", "0"), "above 0"),
    ],
)
@needs_torch
def test_words_without_a_meaning_are_wrong_usage(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", *arguments]) == 2
    assert message in capsys.readouterr().err


def experiment(**failing: int) -> OperatorExperiment:
    """Ten calls of each operator, so many of which fail."""
    rows = tuple(
        OperatorFigures("cnn", "float32", "fumi", name, "forward", 10, 0.1 if past else 0.0, 1.0, past, 0, 0, "")
        for name, past in failing.items()
    )
    return OperatorExperiment({"formats": ["float32"], "noises": ["fumi"]}, rows, ())


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ({"linear": 3, "conv2d": 9, "mul": 1}, "holds: most fail conv2d (9 of 10), linear (3 of 10), mul (1 of 10)"),
        ({"linear": 3, "conv2d": 1, "mul": 2}, "does not hold: most fail linear (3 of 10), mul (2 of 10)"),
        ({"linear": 3, "mul": 2}, "holds: most fail linear (3 of 10), mul (2 of 10); linear is number 1 of 2"),
        ({"linear": 0, "mul": 2}, "does not hold: most fail mul (2 of 10); linear never fails of 2"),
        ({"conv2d": 0, "linear": 0}, "no call fails"),
        ({"mul": 1}, "neither published operator is called"),
    ],
)
def test_the_published_statement_is_held_against_what_was_measured(failing: dict[str, int], said: str) -> None:
    assert said in list(report.operator_lines(experiment(**failing)))[1]


def test_what_was_skipped_is_said() -> None:
    found = OperatorExperiment({"formats": [], "noises": []}, (), (SkippedRun("lstm", "float16", "RuntimeError: no"),))
    assert list(report.operator_lines(found))[-1] == "skipped: lstm in float16: RuntimeError: no"
