from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from opscanner.errors import DatabaseError
from opscanner.graph.readonly import run_query
from opscanner.graph.store import Store
from tests.graph.units import whole_unit


@pytest.fixture
def filled(database: str) -> str:
    with Store(database) as store:
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, whole_unit())
        store.finish_scan(scan.id, complete=True)
    return database


def snapshot(folder: Path) -> dict[str, str]:
    """Hash of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO cast_site SELECT * FROM cast_site",
        "UPDATE node SET line = 0",
        "DELETE FROM node",
        "DROP TABLE node",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "CREATE TEMP VIEW v AS SELECT 1",
        "REPLACE INTO meta VALUES (1, 99, 0)",
        "WITH gone AS (SELECT id FROM node) DELETE FROM node WHERE id IN gone",
        "WITH x AS (SELECT 1) INSERT INTO meta SELECT 2, 2, 2 FROM x RETURNING id",
        "DELETE FROM node RETURNING id",
        "ATTACH DATABASE 'other.sqlite' AS other",
        "ATTACH 'file:graph.sqlite?mode=rw' AS other",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO 'copy.sqlite'",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "SAVEPOINT s",
        "PRAGMA journal_mode = WAL",
        "PRAGMA writable_schema = ON",
        "PRAGMA query_only = OFF",
        "PRAGMA user_version = 5",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "SELECT load_extension('evil.so')",
        "SELECT 1; DELETE FROM node",
        "SELECT 1; PRAGMA query_only = OFF; DELETE FROM node",
        "; DELETE FROM node",
        "/* SELECT */ DELETE FROM node",
        "EXPLAIN DELETE FROM node; DELETE FROM node",
    ],
)
def test_sql_that_is_no_query_is_refused_and_leaves_every_byte_as_it_was(
    filled: str, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(DatabaseError):
        run_query(filled, query)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT COUNT(*) FROM casts", ((3,),)),
        ("  -- a comment\nSELECT line FROM casts WHERE to_format = 'float32'", ((11,),)),
        ("WITH n AS (SELECT id FROM node) SELECT COUNT(*) FROM n", ((11,),)),
        ("VALUES (1, 'a')", ((1, "a"),)),
        ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 4) SELECT SUM(x) FROM c", ((10,),)),
        ("PRAGMA index_info(ix_edge_target)", ((0, 1, "target_id"),)),
        ("SELECT 1;", ((1,),)),
    ],
)
def test_queries_of_every_shape_are_answered(filled: str, query: str, expected: object) -> None:
    assert run_query(filled, query).rows == expected


def test_a_limit_says_that_there_was_more(filled: str) -> None:
    assert run_query(filled, "SELECT id FROM casts", limit=2).truncated
    assert not run_query(filled, "SELECT id FROM casts", limit=3).truncated


def test_a_query_that_takes_too_long_is_stopped(filled: str) -> None:
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT COUNT(*) FROM c"
    with pytest.raises(DatabaseError, match=r"longer than 0\.2 s"):
        run_query(filled, endless, timeout_s=0.2)


def test_an_unknown_table_is_answered_with_where_the_names_are(filled: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        run_query(filled, "SELECT * FROM cast")
    assert "no such table: cast" in caught.value.what
    assert "opscanner schema" in caught.value.hint


def test_an_empty_query_is_an_error(filled: str) -> None:
    with pytest.raises(DatabaseError, match="empty"):
        run_query(filled, " ; ")


def test_a_database_that_another_process_is_writing_can_be_read(database: str) -> None:
    with Store(database) as store:
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, whole_unit())
        assert run_query(database, "SELECT COUNT(*) FROM casts").rows == ((3,),)


def test_databases_without_a_read_only_door_are_refused() -> None:
    with pytest.raises(DatabaseError, match="no read-only way into mysql"):
        run_query("mysql+pymysql://user@host/db", "SELECT 1")
