from __future__ import annotations

import re
import sqlite3

import pytest

from opscanner.graph import schema_docs
from opscanner.graph.connect import database_url, open_engine
from opscanner.graph.schema import metadata
from opscanner.graph.store import Store
from opscanner.graph.views import VIEWS
from tests.graph.units import cast_node, host, unit, whole_unit


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


def test_a_cast_that_a_host_function_hands_to_a_gpu_is_one_of_the_device_in_every_view(database: str) -> None:
    """As in ``out.device(gpu) = in.cast<float>()`` of Eigen; the function around it stays one of the host."""
    function = host()
    handed = cast_node(32, "float16", "float32", on_device=True)
    ruled_out = cast_node(33, "float16", "float32", on_device=True, reached=False)
    with Store(database) as store:
        scan = store.begin_scan("tensorflow", "2.14.1", "/src")
        store.write_unit(scan.id, unit(function._replace(nodes=(*function.nodes, handed, ruled_out), calls=())))
    with sqlite3.connect(database) as connection:
        for view in ("cast_instances", "casts"):
            rows = connection.execute(f'SELECT line, "pass" FROM {view} ORDER BY line').fetchall()
            assert rows == [(31, "host"), (32, "device"), (33, "host")], view
    connection.close()
