from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from opscanner.errors import DatabaseError
from opscanner.graph import schema
from opscanner.graph.connect import database_url
from opscanner.graph.queries import coverage, reading
from opscanner.graph.store import Store


def read(database: str) -> None:
    with reading(database) as connection:
        coverage(connection)


def refusal(database: str, *, write: bool = False) -> DatabaseError:
    with pytest.raises(DatabaseError) as caught:
        Store(database) if write else read(database)
    assert caught.value.hint
    return caught.value


def test_reading_a_database_that_is_not_there_creates_none(tmp_path: Path) -> None:
    error = refusal(str(tmp_path / "none.sqlite"))
    assert "there is no database" in error.what
    assert "opscanner scan" in error.hint
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_an_empty_database(tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite").touch()
    assert "is empty" in refusal(str(tmp_path / "empty.sqlite")).what


def test_a_database_without_a_scan_says_so(tmp_path: Path) -> None:
    Store(str(tmp_path / "new.sqlite")).close()
    assert "holds no scan" in refusal(str(tmp_path / "new.sqlite")).what


@pytest.mark.parametrize("write", [False, True])
def test_another_schema_version_is_refused_with_both_versions(tmp_path: Path, write: bool) -> None:
    database = str(tmp_path / "old.sqlite")
    Store(database).close()
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE meta SET schema_version = 0")
    error = refusal(database, write=write)
    assert f"has schema version 0; this opscanner reads and writes {schema.SCHEMA_VERSION}" in error.what
    assert "--db" in error.hint


@pytest.mark.parametrize("write", [False, True])
def test_a_database_of_something_else_is_refused_and_left_alone(tmp_path: Path, write: bool) -> None:
    database = tmp_path / "other.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE customers (id)")
    connection.close()
    before = database.read_bytes()
    assert "is not an opscanner database: it holds the tables customers" in refusal(str(database), write=write).what
    assert database.read_bytes() == before


@pytest.mark.parametrize("write", [False, True])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, write: bool) -> None:
    (tmp_path / "text.sqlite").write_text("not a database " * 100)
    assert "file is not a database" in refusal(str(tmp_path / "text.sqlite"), write=write).what


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    assert "is a folder" in refusal(str(tmp_path), write=True).what


def test_a_database_in_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "there is no folder" in refusal(str(tmp_path / "a" / "b.sqlite"), write=True).what


def test_a_folder_that_is_not_writable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not chmod: root, as which tests run in containers, may write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert "is not writable" in refusal(str(tmp_path / "graph.sqlite"), write=True).what


def test_a_url_whose_driver_is_not_installed_says_what_to_install() -> None:
    error = refusal("oracle+oracledb://u@h/d", write=True)
    assert "oracledb" in error.what
    assert "driver" in error.hint


def test_a_password_is_not_shown_in_messages() -> None:
    error = refusal("postgresql://me:secret@127.0.0.1:1/none", write=True)
    assert "secret" not in str(error)


def test_a_plain_path_and_a_url_are_the_same_database(tmp_path: Path) -> None:
    assert database_url(str(tmp_path / "a.sqlite")) == database_url(f"sqlite:///{tmp_path}/a.sqlite")


def test_text_that_is_no_url_is_refused() -> None:
    with pytest.raises(DatabaseError, match="no database URL"):
        database_url("://nonsense")
