"""``opscanner test``, on the installed frameworks."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

needs_frameworks = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "tensorflow"))),
    reason="torch and tensorflow are not both installed",
)


def run(*arguments: str, folder=None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opscanner", "test", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@needs_frameworks
@pytest.mark.slow
def test_it_finds_tensorflows_selu_and_clears_torchs(tmp_path):
    # tensorflow#67440: exp(x) - 1 in the storage format, 0 for small negative x; torch computes expm1 in float32.
    done = run("selu", "--strategy", "exhaustive", "--no-store", "--format", "json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {(row["framework"], row["format"]): row for row in json.loads(done.stdout)}
    assert rows["pytorch", "float16"]["verdict"] == "correctly rounded"
    assert rows["pytorch", "bfloat16"]["verdict"] == "correctly rounded"
    assert rows["tensorflow", "float16"]["max_ulp"] > 1000
    assert rows["tensorflow", "float16"]["verdict"] == "beyond upcast"


def test_an_unknown_operator_gets_what_is_spelled_alike():
    done = run("softmx", "--no-store")
    assert done.returncode == 2
    assert "no operator of the catalog is called 'softmx'" in done.stderr
    assert "softmax" in done.stderr


def test_an_unknown_format_gets_those_that_there_are():
    done = run("softmax", "--formats", "float15", "--no-store")
    assert done.returncode == 2
    assert "'float15' is no format that can be tested" in done.stderr
    assert "bfloat16" in done.stderr


def test_no_operator_named_says_what_to_give():
    done = run("--no-store")
    assert done.returncode == 2
    assert "--all" in done.stderr
