"""``opscanner replay``: what ``opscanner watch --save`` kept, from the watch to the script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

SCRIPT = """
import torch
torch.exp(torch.tensor([[1.0, 97.25], [2.5, -3.0]]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("replay")
    (place / "script.py").write_text(SCRIPT, encoding="utf-8")
    run(place, "watch", "script.py", "--save", "alerts")
    [saved] = (place / "alerts").iterdir()
    saved.rename(place / "call.safetensors")
    return place


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "opscanner", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def test_what_was_seen_and_what_it_means_is_said(folder):
    ran = run(folder, "replay", "call.safetensors")
    assert ran.returncode == 0, ran.stderr
    assert "aten.exp.default of x float32 [2, 2]" in ran.stdout
    assert "a watch in mode perturb saw (outside of modules): aten.exp.default at script.py:3" in ran.stdout
    assert "called again on cpu: the same bits; made non-finite: 1 elements" in ran.stdout
    assert "The format is too narrow: the exact result at [0, 1] is 1.7" in ran.stdout
    assert "got inf (0x7F800000) at [0, 0], exact " in ran.stdout


def test_json_has_the_figures(folder):
    ran = run(folder, "replay", "call.safetensors", "--format", "json", "--seeds", "2", "--trials", "0")
    found = json.loads(ran.stdout)
    assert found["seen"]["kind"] == "made non-finite"
    assert found["same_bits"] is True
    assert [one["against"] for one in found["beside"]] == [
        "all inputs moved by 1 ULP (2 seeds)", "one format wider (float64)"
    ]  # fmt: skip
    assert found["exact"][0]["row"] == "exp"
    assert found["exact"][0]["infinity_mismatches"] == 1
    assert found["smallest"] is None


def test_smallest_inputs_are_written_and_a_script_shows_them(folder):
    ran = run(folder, "replay", "call.safetensors", "--script", "--write-minimized", "small.safetensors")
    assert ran.returncode == 0, ran.stderr
    (folder / "fault.py").write_text(ran.stdout, encoding="utf-8")
    shown = subprocess.run([sys.executable, "fault.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert "got      inf (0x7F800000)" in shown.stdout
    assert "x float32 [1, 1]" in run(folder, "replay", "small.safetensors").stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["none.safetensors"], 1, "none.safetensors cannot be read"),
        (["script.py"], 1, "script.py cannot be read"),
        (["call.safetensors", "--device", "cuda:77"], 2, "there is no device cuda:77"),
        (["call.safetensors", "--script", "--trials", "0"], 1, "inputs were not made small"),
    ],
)
def test_what_cannot_be_replayed_is_said(folder, words, code, told):
    ran = run(folder, "replay", *words)
    assert ran.returncode == code
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr
