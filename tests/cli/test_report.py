"""``opscanner report faults``, on databases that hold little."""

from __future__ import annotations

import subprocess
import sys


def run(*arguments: str, folder) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opscanner", "report", "faults", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_a_database_that_is_not_there_is_said_to_be_so(tmp_path):
    done = run("--db", "none.sqlite", folder=tmp_path)
    assert done.returncode in (1, 2)
    assert "none.sqlite" in done.stderr


def test_the_summary_is_not_written_to(tmp_path):
    done = run("--db", "summary", folder=tmp_path)
    assert done.returncode == 2
    assert "only read" in done.stderr
