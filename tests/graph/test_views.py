from __future__ import annotations

import re
import sqlite3

import pytest

from opscanner.graph import schema_docs
from opscanner.graph.connect import database_url, open_engine
from opscanner.graph.schema import metadata
from opscanner.graph.store import Store
from opscanner.graph.views import VIEWS
from tests.graph.units import whole_unit


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_every_view_documents_exactly_its_columns(database: str, view: object) -> None:
    Store(database).close()
    with sqlite3.connect(database) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({view.name})")]  # type: ignore[attr-defined]
    connection.close()
    assert columns == list(view.columns)  # type: ignore[attr-defined]
    assert all(view.columns.values())  # type: ignore[attr-defined]


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: table.name)
def test_every_table_and_column_says_what_it_holds(table: object) -> None:
    assert table.comment  # type: ignore[attr-defined]
    assert [column.name for column in table.columns if not column.comment] == []  # type: ignore[attr-defined]


def test_the_schema_page_has_a_section_for_each_table_and_view() -> None:
    sections = re.findall(r"^### `(\w+)`$", schema_docs.markdown(), re.MULTILINE)
    assert sorted(sections) == sorted([*metadata.tables, *(view.name for view in VIEWS)])


def test_views_begin_with_the_filter_and_not_with_a_scan_of_a_large_table(database: str) -> None:
    with Store(database) as store:
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, whole_unit())
    # Counts of three rows, which closing gathered, would make a scan the best plan.
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TABLE IF EXISTS sqlite_stat1")
        connection.execute("DROP TABLE IF EXISTS sqlite_stat4")
    connection.close()
    engine = open_engine(database_url(database), write=False)
    for query in (
        "SELECT * FROM casts WHERE from_format = 'float16' AND to_format = 'float32'",
        "SELECT * FROM casts WHERE file = 'A.cu'",
        "SELECT * FROM casts WHERE function = 'f'",
        "SELECT * FROM arithmetic WHERE format = 'float16'",
        "SELECT * FROM cast_instances WHERE cast_id = 1",
        "SELECT * FROM chain_steps WHERE from_node = 1",
        "SELECT * FROM chain_steps WHERE to_node = 1",
        "SELECT * FROM chain_steps WHERE from_function = 'f'",
        "SELECT * FROM chain_steps WHERE to_cast_id = 1",
        "SELECT * FROM calls WHERE callee = 'f'",
    ):
        with engine.connect() as connection:
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}")]
        scanned = [step for step in plan if re.match(r"SCAN (?!scan\b)", step) and "LEFT-JOIN" not in step]
        assert scanned == [], f"{query}: {plan}"
    engine.dispose()
