"""``opscanner study``: words in, tables out, and what is said where something is missing."""

from __future__ import annotations

import csv
import io
import json

import pytest

from opscanner.cli import main
from opscanner.frameworks.runners import is_installed

both = pytest.mark.skipif(
    not (is_installed("pytorch") and is_installed("tensorflow")),
    reason="NEEDS torch AND tensorflow: THE STUDY COMPARES THEM",
)
SMALL = ("study", "selu", "--tensors", "40", "--seeds", "2", "--alone", "2")


@both
def test_the_table_has_the_published_figures_beside(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL]) == 0
    out, err = capsys.readouterr()
    header, _, tensorflow, pytorch = out.splitlines()
    assert header.split()[:3] == ["operator", "framework", "format"]
    assert tensorflow.split()[:3] == ["selu", "tensorflow", "bfloat16"]
    assert {"0.24918", "0.268869"} <= set(tensorflow.split())
    assert {"0.12243", "0.102218"} <= set(pytorch.split())
    assert "largest differences of the issue" in err


@both
def test_json_holds_every_seed_and_csv_a_line_a_framework(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--seed", "7", "--format", "json"]) == 0
    objects = json.loads(capsys.readouterr().out)
    assert [[one["seed"] for one in row["measurements"]] for row in objects] == [[7, 8], [7, 8]]
    assert main([*SMALL, "--seed", "7", "--format", "csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["framework"] for line in lines] == ["tensorflow", "pytorch"]
    errors = [one["max_absolute_error"] for one in objects[0]["measurements"]]
    assert float(lines[0]["max_absolute_error_low"]) == min(errors)
    assert float(lines[0]["max_absolute_error_high"]) == max(errors)


@both
@pytest.mark.parametrize("format_", ["table", "json", "csv"])
def test_strategies_are_compared_in_every_output_format(format_: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("study", "logcumsumexp", "--strategies", "--tensors", "30", "--seeds", "1", "--framework", "pytorch")
    assert main([*words, "--format", format_]) == 0
    out = capsys.readouterr().out
    for name in ("random", "predoo", "boundary", "stratified", "hill climbing"):
        assert name in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("study", "gelu"), "'gelu' is no operator of the study"),
        (("study", "--formats", "float8_e5m2"), "does not run in 'float8_e5m2'"),
        (("study", "--strategies", "--as-published"), "leave out --as-published"),
        (("study", "--framework", "jax"), "no framework 'jax'"),
    ],
)
def test_wrong_words_are_usage_errors(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("flint", ("the study needs flint: not installed", "opscanner[dynamic]")),
        ("tensorflow", ("tensorflow is not installed", "pip install tensorflow")),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(
    package: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else there(name, *rest)
    )
    assert main([*SMALL]) == 2
    err = capsys.readouterr().err
    assert all(word in err for word in words)
