"""``opscanner report faults``, on databases that hold little and on a small campaign."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def run(*arguments: str, folder) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opscanner", "report", "faults", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_a_database_that_is_not_there_is_said_to_be_so(tmp_path):
    done = run("--db", "none.sqlite", folder=tmp_path)
    assert done.returncode in (1, 2)
    assert "none.sqlite" in done.stderr
    assert "test first" in done.stderr
    assert "scan first" not in done.stderr


def test_the_summary_is_not_written_to(tmp_path):
    done = run("--db", "summary", folder=tmp_path)
    assert done.returncode == 2
    assert "only read" in done.stderr


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """A folder with the database of a campaign of an operator that errs and one that does not."""
    folder = tmp_path_factory.mktemp("campaign")
    words = ["test", "index_add.sub", "neg", "--framework", "pytorch", "--formats", "bfloat16"]
    command = [sys.executable, "-m", "opscanner", *words, "--budget", "0.1", "--db", "found.sqlite"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode in (0, 3), done.stderr
    return folder


@pytest.mark.slow
@needs_torch
def test_reports_of_a_campaign_name_the_cause_and_their_scripts_show_it(campaign):
    done = run("--db", "found.sqlite", "--format", "json", "--output", "pages", folder=campaign)
    assert done.returncode in (0, 3), done.stderr
    reports = json.loads(done.stdout)
    (sums,) = [one for one in reports if any(fault["operator"] == "index_add.sub" for fault in one["faults"])]
    assert sums["kind"] == "accumulates in the storage format"
    assert sums["title"].startswith("PyTorch index_add")
    assert "adds up in bfloat16 on CPU" in sums["title"]
    assert all(one["script_exit_code"] == 1 for one in reports)
    assert not any(fault["operator"] == "neg" for one in reports for fault in one["faults"])
    pages = sorted(path.suffix for path in (campaign / "pages").iterdir())
    assert pages.count(".md") == pages.count(".py") == len(reports)
    for page in (campaign / "pages").glob("*.py"):
        alone = subprocess.run(
            [sys.executable, page.name], capture_output=True, text=True, check=False, cwd=page.parent
        )
        assert alone.returncode == 1, alone.stderr
        assert alone.stdout.endswith("wrong\n")


@pytest.mark.slow
@needs_torch
def test_an_operator_without_faults_is_said_to_have_none(campaign):
    done = run("--db", "found.sqlite", "--operator", "neg", folder=campaign)
    assert done.returncode == 2
    assert "holds no faulty measurement" in done.stderr
