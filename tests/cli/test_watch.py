"""``opscanner watch``: a script of the user's, run and reported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

SCRIPT = """
import sys, torch
print("given", sys.argv[1:])
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
model(torch.ones(2, 4)).sum().backward()
torch.exp(torch.tensor([1.0, 100.0]))
if "fail" in sys.argv:
    raise ValueError("on purpose")
"""


def watch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "opscanner", "watch", *words], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_script_is_run_with_its_arguments_and_reported(tmp_path):
    ran = watch(tmp_path, "script.py", "--format", "json", "--save", "alerts", "--", "--epochs", "1")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert "given ['--epochs', '1']" in ran.stderr
    sites = {(site["module"], site["operator"], site["direction"]): site for site in report["sites"]}
    assert sites["Sequential.0", "aten.addmm.default", "forward"]["checked"] == 1
    assert ("Sequential.1", "aten.tanh_backward.default", "backward") in sites
    told = sites["", "aten.exp.default", "forward"]["first_alert"]
    assert told["kind"] == "made non-finite"
    assert (tmp_path / told["saved"]).is_file()
    assert "script.py:6: made non-finite" in ran.stderr


def test_a_script_that_raises_is_reported_until_then(tmp_path):
    ran = watch(tmp_path, "script.py", "--", "fail")
    assert ran.returncode == 1
    assert "aten.exp.default" in ran.stdout
    assert "ValueError: on purpose" in ran.stderr


def test_alerts_can_decide_the_exit_code(tmp_path):
    assert watch(tmp_path, "script.py", "--fail-on-alert").returncode == 1
    assert watch(tmp_path, "-m", "script", "--fail-on-alert", "--mode", "permute").returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["none.py"], "there is no script none.py"),
        (["script.py", "--every", "0"], "checks no call"),
        (["script.py", "--mode", "permute", "--level", "module"], "mode permute works on operators"),
    ],
)
def test_wrong_usage_is_said_and_nothing_is_run(tmp_path, words, told):
    ran = watch(tmp_path, *words)
    assert ran.returncode == 2
    assert told in ran.stderr
    assert "given" not in ran.stderr
