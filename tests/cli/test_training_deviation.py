"""``opscanner training-deviation``: words in, tables and plots out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opscanner import api
from opscanner.cli import main
from opscanner.frameworks.runners import is_installed

needs_torch = pytest.mark.skipif(not is_installed("pytorch"), reason="NEEDS torch: IT TRAINS")
SMALL = ("training-deviation", "--model", "gcn", "--operator", "linear", "--seeds", "2")


@needs_torch
def test_the_table_ranks_by_early_steps_and_ends_with_the_baselines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["training-deviation", "--model", "gcn", "--operator", "relu,linear", "--seeds", "2"]) == 0
    out, err = capsys.readouterr()
    # A product in bfloat16 has more to round than a maximum with 0, which rounds its inputs alone.
    starts = [line.split()[0] for line in out.splitlines()[2:]]
    assert starts == ["linear", "relu", "whole", "one"]
    assert "gcn in pytorch (torch" in err
    assert "steps 1 to 20 rank operators" in err


@needs_torch
def test_a_line_says_from_which_step_a_baseline_is_as_far(capsys: pytest.CaptureFixture[str]) -> None:
    # A residual network with ReLU: its float64 run leaves the float32 one by a jump within some ten steps.
    assert main(["training-deviation", "--model", "resnet", "--operator", "linear,conv2d", "--seeds", "1"]) == 0
    out, err = capsys.readouterr()
    lines = {line.split()[0]: line.split() for line in out.splitlines()}
    assert float(lines["linear"][6]) < 10 * float(lines["whole"][7])  # step 20, two words for "whole model"
    assert "no more than any rounding leads to" in err
    assert "linear (bfloat16 by bfloat16) from step" in err


@needs_torch
def test_json_has_a_training_a_line_and_csv_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--steps", "3", "--seed", "4", "--format", "json"]) == 0
    objects = json.loads(capsys.readouterr().out)
    assert [(one["operator"], one["seed"]) for one in objects] == [
        (operator, seed) for seed in (4, 5) for operator in ("linear", "whole model", "one weight")
    ]
    assert set(objects[0]["layers"]) == {"first", "second"}
    assert main([*SMALL, "--steps", "3", "--seed", "4", "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(lines) == 2 * 3 * 3
    assert [float(line["deviation"]) for line in lines[:3]] == objects[0]["deviation"]
    assert [float(line["deviation_of_1_ulp"]) for line in lines[:3]] == objects[2]["deviation"]


@needs_torch
def test_saved_seeds_are_read_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "courses.jsonl")
    assert main([*SMALL, "--steps", "2", "--save", file]) == 0
    first, err = capsys.readouterr()
    assert "read from" not in err
    assert main([*SMALL, "--steps", "2", "--save", file]) == 0
    second, err = capsys.readouterr()
    assert first == second
    assert err.count("read from") == 2


@needs_torch
def test_finished_seeds_are_printed_when_it_is_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = api.training_deviation

    def interrupted(**options: Any) -> Iterator[Any]:
        yield from whole(**{**options, "seeds": [0]})
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "training_deviation", interrupted)
    assert main([*SMALL, "--steps", "2", "--format", "json"]) == 130
    out, err = capsys.readouterr()
    assert {one["seed"] for one in json.loads(out)} == {0}
    assert "interrupted: 1 of 2 seeds are finished" in err


@needs_torch
@pytest.mark.parametrize(("name", "starts"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_a_plot_is_written_as_its_name_ends(name: str, starts: bytes, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / name
    assert main([*SMALL, "--steps", "22", "--plot", str(file)]) == 0
    assert file.read_bytes().startswith(starts)


@needs_torch
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "gpt"), "no model is named 'gpt'"),
        (("--model", "gcn", "--operator", "conv2d"), "gcn calls no operator 'conv2d'"),
        (("--to", "float8_e5m2"), "do not compute in 'float8_e5m2'"),
        (("--plot", "a.bmp"), "unknown kind of picture"),
    ],
)
def test_words_that_mean_nothing_are_wrong_usage(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["training-deviation", *words]) == 2
    assert said in capsys.readouterr().err
