"""A store, and the rows of any query on it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opscanner.graph.readonly import run_query
from opscanner.graph.store import Store


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "graph.sqlite")


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with Store(database) as opened:
        yield opened
    # Foreign keys are not enforced row by row, for speed: nothing may dangle all the same.
    with contextlib.closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.fixture
def rows(database: str) -> Callable[[str], list[tuple[Any, ...]]]:
    """Rows of a query, sorted."""
    return lambda query: sorted(run_query(database, query).rows)
