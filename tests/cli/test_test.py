"""``opscanner test``, on the installed frameworks."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import signal
import sqlite3
import subprocess
import sys

import pytest

from opscanner import api

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


@needs_frameworks
@pytest.mark.slow
def test_rows_are_kept_and_a_finished_campaign_is_not_resumed(tmp_path):
    arguments = ("abs", "--framework", "pytorch", "--formats", "float16", "--strategy", "boundary")
    done = run(*arguments, "--db", "t.sqlite", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    with contextlib.closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection:
        kept = connection.execute("SELECT operator, format, strategy, verdict FROM measurement WHERE operator = 'abs'")
        assert kept.fetchall() == [("abs", "float16", "boundary", "correctly rounded")]
    again = run(*arguments, "--db", "t.sqlite", "--resume", folder=tmp_path)
    assert again.returncode == 2
    assert "came to its end: there is nothing to resume" in again.stderr


@needs_frameworks
@pytest.mark.slow
def test_a_campaign_that_was_interrupted_goes_on(tmp_path):
    command = [sys.executable, "-m", "opscanner", "test", "abs", "sign", "exp", "softmax", "--framework", "pytorch"]
    command += ["--formats", "float16", "--jobs", "1", "--db", "t.sqlite", "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        assert running.stderr is not None
        next(line for line in running.stderr if "abs float16" in line)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=120)
    assert running.returncode == 3
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    rows = [(row["operator"], row["strategy"], row["layout"]) for row in json.loads(resumed.stdout)]
    assert {name for name, _, _ in rows} >= {"abs", "sign", "exp"}
    assert len(rows) == len(set(rows)), "a row was measured twice"
    assert "abs float16" not in resumed.stderr


@needs_frameworks
@pytest.mark.slow
def test_laws_are_held_where_they_are_asked_for(tmp_path):
    # torch's rsqrt of a strided float16 array rounds the root first: 8,402 values differ from the contiguous path.
    arguments = ("rsqrt", "--framework", "pytorch", "--formats", "float16", "--strategy", "boundary", "--no-store")
    done = run(*arguments, "--laws", "--format", "json", folder=tmp_path)
    rows = {row["strategy"]: row for row in json.loads(done.stdout)}
    assert rows["law:strided"]["verdict"] == "beyond upcast"
    assert rows["law:ordered"]["verdict"] == "correctly rounded"
    plain = run(*arguments, "--format", "json", folder=tmp_path)
    assert {row["strategy"] for row in json.loads(plain.stdout)} == {"boundary"}


@needs_frameworks
@pytest.mark.slow
def test_a_csv_is_read_again(tmp_path):
    done = run("abs", "floor_divide", "--strategy", "boundary", "--no-store", "--format", "csv", folder=tmp_path)
    (tmp_path / "m.csv").write_text(done.stdout)
    read = api.measured(str(tmp_path / "m.csv"))
    assert {(row.operator, row.framework) for row in read} >= {("abs", "pytorch"), ("floor_divide", "tensorflow")}
    assert all(set(row.worst_inputs) <= {"x", "y"} for row in read if row.operator == "floor_divide")
