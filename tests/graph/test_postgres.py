"""The same promises on a real server: ``OPSCANNER_TEST_POSTGRES`` is the URL of an empty database."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from opscanner import api
from opscanner.errors import DatabaseError
from opscanner.graph import connect
from opscanner.graph.readonly import run_query
from opscanner.graph.store import Store
from tests.graph.units import FILE, kernel, square, unit, whole_unit


@pytest.fixture
def server(postgres_url: str) -> Iterator[str]:
    """A schema of this process's own, so that tests may run side by side."""
    name = f"opscanner_{os.getpid()}"
    engine = connect.open_engine(connect.database_url(postgres_url), write=True)

    def run(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(text(statement))

    run(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    run(f"CREATE SCHEMA {name}")
    url = connect.database_url(postgres_url).update_query_dict({"options": f"-csearch_path={name}"})
    database = url.render_as_string(hide_password=False)
    with Store(database) as store:
        for _ in range(2):
            scan = store.begin_scan("pytorch", "2.6.0", "/src")
            store.write_unit(scan.id, whole_unit())
            store.write_unit(scan.id, unit(kernel("bfloat16", file="B.cu"), square(), file="B.cu"))
            store.finish_scan(scan.id, complete=True)
    yield database
    run(f"DROP SCHEMA {name} CASCADE")
    engine.dispose()


def test_a_scan_repeated_on_postgresql_duplicates_nothing(server: str) -> None:
    assert [(row.file, row.line, row.from_format, row.to_format, row.reached_from) for row in api.casts(db=server)] == [
        ("B.cu", 11, "bfloat16", "float32", "device"),
        ("B.cu", 12, "float32", "bfloat16", "device"),
        (FILE, 11, "float16", "float32", "device"),
        (FILE, 12, "float32", "float16", "device"),
        (FILE, 31, "float64", "float16", "host"),
    ]
    (report,) = api.coverage(db=server)
    assert (report.units, report.nodes, report.edges, report.finished) == (2, 17, 16, True)


def test_a_changed_body_and_a_unit_that_goes_are_replaced_on_postgresql(server: str) -> None:
    with Store(server) as store:
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, unit(kernel("bfloat16", file="B.cu"), square(line=7), file="B.cu"))
        store.finish_scan(scan.id, complete=True)
    assert {row.file for row in api.casts(db=server)} == {"B.cu"}
    assert [row.line for row in api.arithmetic(db=server)] == [8]
    (chain,) = api.chains("B.cu:12", db=server)
    assert [step.line for step in chain.origins] == [12, 8, 8, 7, 11, 11, 10]


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM node",
        "WITH gone AS (DELETE FROM edge RETURNING 1) SELECT * FROM gone",
        "SELECT 1; DELETE FROM node",
        "COMMIT",
        "COPY node TO PROGRAM 'true'",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT * INTO t FROM node",
        "SET TRANSACTION READ WRITE",
    ],
)
def test_sql_on_postgresql_reads_only(server: str, query: str) -> None:
    with pytest.raises(DatabaseError):
        run_query(server, query)
    assert run_query(server, "SELECT COUNT(*) FROM node").rows == ((17,),)


def test_a_slow_query_on_postgresql_is_stopped(server: str) -> None:
    with pytest.raises(DatabaseError, match="longer than"):
        run_query(server, "SELECT pg_sleep(5)", timeout_s=0.2)


def test_columns_with_reserved_names_can_be_asked_for(server: str) -> None:
    found = run_query(server, 'SELECT "column", constant FROM casts WHERE NOT constant', limit=1)
    assert found.rows == ((9, False),)
    assert found.truncated
