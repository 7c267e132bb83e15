"""The summary that comes with opscanner fits the code that reads it, and holds what data/README.md says."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from opscanner import api
from opscanner.graph.store import Store
from opscanner.summary import open_summary, packed_summary

LARGEST = 20_000_000


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPSCANNER_CACHE", str(tmp_path_factory.mktemp("cache")))
        return open_summary()


def declarations(database: str) -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        return {(name, " ".join((sql or "").split())) for name, sql in rows}


def test_it_is_small_enough_to_come_along() -> None:
    assert packed_summary().stat().st_size < LARGEST


def test_its_tables_and_views_are_those_that_a_scan_makes_today(summary: str, tmp_path: Path) -> None:
    """Made by an earlier opscanner, it would answer with the views of then: `opscanner summarize` makes it anew."""
    with Store(str(tmp_path / "new.sqlite")):
        pass
    assert declarations(summary) == declarations(str(tmp_path / "new.sqlite"))


def test_it_holds_finished_scans_of_both_frameworks_with_operators_and_findings(summary: str) -> None:
    reports = api.coverage(db=summary)
    assert {report.framework for report in reports} == {"pytorch", "tensorflow"}
    assert all(report.finished for report in reports)
    for table in ("operator", "finding", "attribution_of"):
        query = (
            "SELECT scan_id, count(*) FROM operator JOIN attribution ON operator_id = operator.id GROUP BY 1"
            if table == "attribution_of"
            else f"SELECT scan_id, count(*) FROM {table} GROUP BY 1"
        )
        found = dict(api.sql(query, db=summary).rows)
        assert len(found) == len(reports), table
        assert min(found.values()) > 500, table


def test_known_truths_hold_in_it(summary: str) -> None:
    """elu of PyTorch computes Half in float32; Selu of TensorFlow computes half in half."""
    widened = api.casts(db=summary, operator="elu", framework="pytorch", from_format="float16", to_format="float32")
    assert any(cast.file.endswith("ActivationEluKernel.cu") for cast in widened)
    narrow = api.arithmetic(db=summary, operator="Selu", framework="tensorflow", format="float16")
    assert any(row.file.endswith("relu_op_functor.h") for row in narrow)


def test_no_path_of_a_machine_is_in_it(summary: str) -> None:
    content = Path(summary).read_bytes()
    for folder in ("home", "root", "work", "tmp", "opt", "Users"):
        assert f"/{folder}/".encode() not in content
    assert b"site-packages/" not in content
