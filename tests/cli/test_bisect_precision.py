"""``opscanner bisect-precision``: a file's function gives the model, the answer goes to stdout, the rest to stderr."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from opscanner.cli.main import main

pytest.importorskip("torch")

MODEL = '''
import torch
from beside import WIDTH

print("made")

class Bad(torch.nn.Module):
    """The norm of large numbers by their squares, which a float16 cannot hold."""

    def forward(self, x):
        return x / (x * x).mean(-1, keepdim=True).sqrt()

def model():
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Identity(), Bad()).half()
    return layers, torch.full((2, WIDTH), 3000.0, dtype=torch.float16)

def nothing():
    return 3

def fails():
    raise ValueError("no weights here")

def crashes():
    return torch.nn.Linear(3, 3), torch.ones(2)

if __name__ == "__main__":
    raise SystemExit("never run")
'''


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "beside.py").write_text("WIDTH = 8\n")
    file = tmp_path / "of_a_user.py"
    file.write_text(MODEL)
    return str(file)


def test_the_layer_is_named_in_a_table_and_in_words(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect-precision", f"{model}:model"]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert lines[0].split() == ["upcast", "layer", "class", "calls", "parameters", "cost", "gain", "error", "without",
                                "error", "alone"]  # fmt: skip
    # 3000 squared is no float16 number; x / inf is 0, and not of the size of 1.
    assert lines[2].split()[:5] == ["yes", "2", "Bad", "1", "0"]
    assert lines[3].split()[:4] == ["0", "Linear", "1", "72"]
    assert len(lines) == 4
    assert "made" in output.err
    assert "upcast: 2; no smaller set does: all were tried" in output.err


def test_json_is_one_object_and_csv_a_line_a_layer(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect-precision", f"{model}:model", "--format", "json", "--to", "float64"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["format"], found["to"], found["smallest"]) == ("float16", "float64", ["2"])
    assert [layer["path"] for layer in found["layers"]] == ["2", "0"]
    assert main(["bisect-precision", f"{model}:model", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["path"], row["is_in_smallest"]) for row in rows] == [("2", "1"), ("0", "0")]


def test_what_is_not_reached_is_said(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect-precision", f"{model}:model", "--metric", "norm", "--tolerance", "1e-9"]) == 0
    assert "not even everything in float32 comes within 1e-09; try a larger tolerance" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("{model}", 2, "names no function"),
        ("{model}.py:model", 2, "there is no file"),
        ("no_such_module_at_all:model", 2, "there is no module no_such_module_at_all"),
        ("{model}:other", 2, "has no function other"),
        ("{model}:nothing", 2, "gives a value of type int"),
        ("{model}:fails", 1, "raised ValueError: no weights here"),
        ("{model}:crashes", 1, "raised RuntimeError: "),
    ],
)
def test_what_is_wrong_with_the_target_is_said(
    model: str, target: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bisect-precision", target.format(model=model)]) == code
    assert words in capsys.readouterr().err
