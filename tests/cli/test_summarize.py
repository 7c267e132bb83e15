"""Summaries from the command line, and the word that stands for the one that comes with opscanner."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def shipped(run: Any, scan: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A packed summary of a small scan where opscanner looks for its own."""
    assert scan("--only", "A.cu", "--framework", "pytorch", "--db", "scan.sqlite").code == 0
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr("opscanner.summary.data_folder", lambda: folder)
    packed = folder / "summary.sqlite.xz"
    done = run("summarize", packed, "--db", "scan.sqlite", "--format", "json")
    assert done.code == 0, done.err
    (only,) = done.data
    assert (only["framework"], only["units"], only["cast_sites"]) == ("pytorch", 1, 3)
    return packed


@pytest.mark.parametrize(
    "words",
    [("casts",), ("arithmetic",), ("patterns", "show"), ("coverage", "--units"), ("sql", "SELECT * FROM functions")],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("shipped")
def test_the_word_summary_is_read_as_the_scan_is(run: Any, words: tuple[str, ...]) -> None:
    of_scan = run(*words, "--db", "scan.sqlite", "--format", "json").data
    assert of_scan
    of_summary = run(*words, "--db", "summary", "--format", "json").data
    for rows in (of_scan, of_summary):
        for row in rows:
            for name in ("node", "chain"):  # no operator, so no nodes
                row.pop(name, None)
    assert of_summary == of_scan


def test_it_is_unpacked_once_and_anew_when_it_changes(
    run: Any, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSCANNER_DB", "summary")
    cache = tmp_path / "cache" / "summary"
    assert len(run("casts", "--format", "json").data) == 3
    (unpacked,) = cache.iterdir()
    with contextlib.closing(sqlite3.connect(unpacked)) as connection:
        connection.execute("DELETE FROM cast_site WHERE line = 31")
        connection.commit()
    assert len(run("casts", "--format", "json").data) == 2
    # xz reads streams one after the other: the same database twice is another file, of another hash.
    shipped.write_bytes(shipped.read_bytes() * 2)
    assert run("casts", "--format", "json").code == 0
    assert len(list(cache.iterdir())) == 2


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("chains", "1"), "this database is a summary: it holds no chains here"),
        (("graph",), "this database is a summary: only graphs of functions that serve operators are in it"),
        (("classify",), "it is only read"),
        (("operators", "--conclude"), "it is only read"),
        (("scan", "."), "it is only read"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_a_summary_cannot_do_is_said(run: Any, words: tuple[str, ...], why: str) -> None:
    done = run(*words, "--db", "summary")
    assert done.code == 2
    assert why in done.err


def test_an_unpacked_summary_is_not_classified_either(run: Any, scan: Any) -> None:
    assert scan("--only", "A.cu", "--framework", "pytorch").code == 0
    assert run("summarize", "small.sqlite").code == 0
    assert "is a summary: patterns are found in scans" in run("classify", "--db", "small.sqlite").err
    assert (
        "is a summary: operators are concluded from scans" in run("operators", "--conclude", "--db", "small.sqlite").err
    )


def test_a_file_that_is_there_is_not_overwritten(run: Any, scan: Any) -> None:
    assert scan("--only", "A.cu").code == 0
    before = Path("opscanner.sqlite").read_bytes()
    done = run("summarize", "opscanner.sqlite")
    assert done.code == 2
    assert "opscanner.sqlite is there already" in done.err
    assert Path("opscanner.sqlite").read_bytes() == before


def test_a_file_named_summary_is_meant_with_its_folder(run: Any, scan: Any) -> None:
    assert scan("--only", "A.cu", "--db", "./summary").code == 0
    assert len(run("casts", "--db", "./summary", "--format", "json").data) == 3


def test_a_broken_or_missing_summary_is_an_error_that_names_it(run: Any, shipped: Path, tmp_path: Path) -> None:
    shipped.write_bytes(shipped.read_bytes()[:2000])
    done = run("casts", "--db", "summary")
    assert done.code == 1
    assert f"{shipped} cannot be unpacked" in done.err
    assert list((tmp_path / "cache" / "summary").iterdir()) == []
    shipped.unlink()
    done = run("casts", "--db", "summary")
    assert done.code == 1
    assert f"there is no {shipped}" in done.err
