"""What campaigns measure: kept a task at a time, read back as it was, also in a database that is older."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from opscanner import api
from opscanner.errors import DatabaseError
from opscanner.graph import connect
from opscanner.graph.queries import reading
from opscanner.graph.readonly import run_query
from opscanner.graph.schema_trials import TRIALS, measurement
from opscanner.graph.store import Store
from opscanner.graph.trial_store import TrialStore, campaigns, differences, find_faults, find_measurements
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.results import FaultRow
from tests.graph.units import whole_unit

VERSIONS = {"torch": "2.13.0", "torch_cpu": "AVX2"}
WORST = Measurement(
    operator="elu",
    direction="forward",
    framework="tensorflow",
    version="2.21.0",
    format="float16",
    device="cpu",
    layout="strided",
    strategy="exhaustive",
    seed=7,
    status=Status.RAN,
    verdict=Verdict.BEYOND_UPCAST,
    count=63488,
    max_ulp=3072.0,
    mean_ulp=12.5,
    quantiles_ulp=(0.25, 0.5, 100.0, 3000.0),
    over_1_ulp=11873,
    max_absolute_error=2.44e-4,
    max_relative_error=math.inf,
    max_scaled_ulp=0.75,
    infinity_mismatches=1,
    flushed_subnormals=127,
    budget_ulp=1.0,
    upcast_max_ulp=0.5,
    beyond_upcast=11873,
    other_max_ulp=3072.0,
    tier="float64",
    expression="raw.Elu(features=x)",
    batch="all values",
    worst_index=41,
    worst_expected=-0.000244140625,
    worst_got=-0.0,
    worst_inputs={"x": -0.000244140625, "n": 3, "y": math.inf, "z": math.nan},
    elapsed_s=0.5,
    batch_number=3,
    coverage={"x": 0.25, "y": 1.0},
    coverage_in_all={"x": 5 / 67, "y": 1.0},
)
LOST = dataclasses.replace(
    Measurement(
        operator="gcd", direction="forward", framework="pytorch", version="2.13.0", format="bfloat16", device="cpu",
        layout="contiguous", strategy="random", seed=7, status=Status.ABORTED, verdict=Verdict.NOT_MEASURED,
    ),
    message="ended by SIGABRT\nterminate called",
    max_ulp=math.nan,
    worst_expected=math.nan,
)  # fmt: skip


def begun(store: TrialStore) -> int:
    return store.begin_campaign(
        versions=VERSIONS, machine="x86_64", device="cpu", seed=7, options={"formats": ["float16"]}
    )


def same(one: Measurement, other: Measurement) -> bool:
    """Equal, signs of zeros and NaN too: their texts are."""
    return repr(one) == repr(other)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database, in a schema of this process's own where it is on a server."""
    if request.param == "sqlite":
        yield str(tmp_path / "trials.sqlite")
        return
    url = request.getfixturevalue("postgres_url")
    name = f"opscanner_trials_{os.getpid()}"
    engine = connect.open_engine(connect.database_url(url), write=True)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
        connection.execute(text(f"CREATE SCHEMA {name}"))
    own = connect.database_url(url).update_query_dict({"options": f"-csearch_path={name}"})
    yield own.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    engine.dispose()


def test_a_measurement_is_read_back_as_it_was_with_signs_of_zeros_infinities_and_nan(database: str) -> None:
    with TrialStore(database) as store:
        campaign = begun(store)
        assert store.write_task(campaign, "elu/float16", [WORST, LOST]) == [1, 2]
        store.finish_campaign(campaign)
    with reading(database) as connection:
        found = find_measurements(connection)
        (row,) = campaigns(connection)
    assert [(one.id, one.campaign_id) for one in found] == [(1, campaign), (2, campaign)]
    assert same(found[0].measurement, WORST)
    assert same(found[1].measurement, LOST)
    assert (row.versions, row.machine, row.seed, row.options) == (VERSIONS, "x86_64", 7, {"formats": ["float16"]})
    assert row.ended


def test_the_worst_input_is_kept_with_its_bits(database: str) -> None:
    with TrialStore(database) as store:
        store.write_task(begun(store), "k", [WORST])
    ((written,),) = run_query(database, "SELECT worst_inputs FROM measurements").rows
    # -2**-12 in C99's notation; the integer stays one.
    assert json.loads(written) == {"x": "-0x1.0000000000000p-12", "n": 3, "y": "inf", "z": "nan"}


def test_inputs_that_are_too_many_are_left_out_and_the_rest_is_kept(database: str) -> None:
    many = dataclasses.replace(WORST, worst_inputs={"x": 1.0, "all": [0.5] * 5000})
    with TrialStore(database) as store:
        store.write_task(begun(store), "k", [many])
    with reading(database) as connection:
        (found,) = find_measurements(connection)
    assert found.measurement.worst_inputs == {"x": 1.0}


def test_a_campaign_that_did_not_end_is_found_again_with_what_is_done(database: str) -> None:
    with TrialStore(database) as store:
        campaign = begun(store)
        store.write_task(campaign, "elu", [WORST])
        store.write_task(campaign, "none", [])
    with TrialStore(database) as store:
        found = store.unfinished_campaign()
        assert found is not None
        assert found.id == campaign
        assert store.done_keys(campaign) == {"elu", "none"}
        store.finish_campaign(campaign)
        assert store.unfinished_campaign() is None
        other = begun(store)
        assert other != campaign
        assert store.done_keys(other) == set()


def test_a_campaign_says_what_is_otherwise_than_when_it_was_begun(database: str) -> None:
    with TrialStore(database) as store:
        begun(store)
        row = store.unfinished_campaign()
    assert row is not None
    same = {"versions": VERSIONS, "device": "cpu", "seed": 7, "options": {"formats": ("float16",)}}
    assert differences(row, **same) == []  # type: ignore[arg-type]
    other = {**same, "seed": 8, "options": {"formats": ("float16",), "budget": 2.0}}
    assert differences(row, **other) == ["budget: not set, now 2.0", "seed: 7, now 8"]  # type: ignore[arg-type]


def test_a_task_that_cannot_be_written_whole_leaves_nothing(database: str) -> None:
    unwritable = dataclasses.replace(WORST, expression=None)  # type: ignore[arg-type]
    with TrialStore(database) as store:
        campaign = begun(store)
        with pytest.raises(DatabaseError):
            store.write_task(campaign, "elu", [WORST, unwritable])
        assert store.done_keys(campaign) == set()
        store.write_task(campaign, "elu", [WORST])
    assert run_query(database, "SELECT COUNT(*) FROM measurement").rows == ((1,),)


def test_measurements_are_found_by_what_was_measured(database: str) -> None:
    with TrialStore(database) as store:
        first = begun(store)
        store.write_task(first, "a", [WORST])
        second = begun(store)
        store.write_task(second, "a", [dataclasses.replace(WORST, seed=8), LOST])
    with reading(database) as connection:
        assert [one.measurement.seed for one in find_measurements(connection, operator="elu")] == [8]
        assert [one.measurement.seed for one in find_measurements(connection, campaign_id=first)] == [7]
        found = find_measurements(connection, framework="pytorch", format_="bfloat16", device="cpu")
        assert [one.measurement.operator for one in found] == ["gcd"]
        with pytest.raises(DatabaseError, match="holds no campaign 9"):
            find_measurements(connection, campaign_id=9)


def test_faults_are_read_back_with_what_shows_them_and_replaced_as_a_whole(database: str) -> None:
    fault = FaultRow(
        cause="computes exp(x) - 1 in the storage format",
        framework="tensorflow", version="2.21.0", operator="elu", direction="forward", format="float16", device="cpu",
        layout="contiguous", verdict=Verdict.BEYOND_UPCAST.value, expression="raw.Elu(features=x)",
        inputs={"x": ((1, 1), (-0.000244140625,))},
        expected=(-0.000244140625,), got=(-0.0,), error_ulp=3072.0,
        explanation=({"file": "relu_op_functor.h", "line": 150, "pattern": "untuned-arithmetic", "message": "..."},),
        script="print(1)", measurements=(1, 2),
    )  # fmt: skip
    mismatch = dataclasses.replace(fault, cause="b", got=(math.nan,), error_ulp=None, measurements=())
    with TrialStore(database) as store:
        campaign = begun(store)
        store.write_task(campaign, "elu", [WORST, LOST])
        store.write_faults(campaign, [mismatch, fault])
        store.write_faults(campaign, [mismatch, fault])
    with reading(database) as connection:
        found = find_faults(connection)
    expected = [dataclasses.replace(one, id=id_, campaign_id=campaign) for one, id_ in ((mismatch, 1), (fault, 2))]
    assert list(map(repr, found)) == list(map(repr, expected))
    assert run_query(database, "SELECT cause, measurements, machine FROM faults ORDER BY id").rows == (
        ("b", 0, "x86_64"),
        ("computes exp(x) - 1 in the storage format", 2, "x86_64"),
    )


def test_the_view_of_measurements_answers_in_words(database: str) -> None:
    with TrialStore(database) as store:
        store.write_task(begun(store), "k", [WORST, LOST])
    query = "SELECT operator, elements, p99_ulp, verdict, worst_got FROM measurements WHERE max_ulp > 1"
    assert run_query(database, query).rows == (("elu", 63488, 100.0, "beyond upcast", "-0.0"),)
    # SQLite has no NaN.
    assert run_query(database, "SELECT max_ulp, status FROM measurements WHERE id = 2").rows == ((None, "aborted"),)


def test_scans_and_campaigns_share_a_database_in_either_order(database: str) -> None:
    with TrialStore(database) as store:
        store.write_task(begun(store), "k", [WORST])
    with Store(database) as graph:
        scan = graph.begin_scan("pytorch", "2.6.0", "/src")
        with TrialStore(database) as store:
            store.write_task(begun(store), "k", [WORST])
        graph.write_unit(scan.id, whole_unit())
        graph.finish_scan(scan.id, complete=True)
    assert len(api.casts(db=database)) == 3
    assert run_query(database, "SELECT COUNT(*) FROM measurements").rows == ((2,),)


def forget_trials(database: str) -> None:
    """Makes a database one of before there were trials."""
    with sqlite3.connect(database) as connection:
        for view in ("measurements", "faults"):
            connection.execute(f"DROP VIEW {view}")
        for table in reversed(TRIALS):
            connection.execute(f"DROP TABLE {table.name}")
    connection.close()


def test_a_database_of_before_there_were_trials_is_read_as_ever_and_gets_them_when_something_is_measured(
    tmp_path: Path,
) -> None:
    database = str(tmp_path / "old.sqlite")
    with Store(database) as graph:
        scan = graph.begin_scan("pytorch", "2.6.0", "/src")
        graph.write_unit(scan.id, whole_unit())
        graph.finish_scan(scan.id, complete=True)
    forget_trials(database)
    before = [row.id for row in api.casts(db=database)]
    with reading(database) as connection:
        assert campaigns(connection) == []
        with pytest.raises(DatabaseError, match="nothing was measured into this database") as caught:
            find_measurements(connection)
    assert "opscanner test" in caught.value.hint
    with TrialStore(database) as store:
        store.write_task(begun(store), "k", [WORST])
    assert run_query(database, "SELECT operator FROM measurements").rows == (("elu",),)
    assert run_query(database, "SELECT COUNT(*) FROM faults").rows == ((0,),)
    assert [row.id for row in api.casts(db=database)] == before
    TrialStore(database).close()


def forget_later_columns(database: str) -> None:
    """Makes a database one of before batches were numbered and coverage was counted."""
    with sqlite3.connect(database) as connection:
        ((view,),) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'measurements'")
        connection.execute("DROP VIEW measurements")
        for name in ("batch_number", "coverage", "coverage_in_all"):
            connection.execute(f"ALTER TABLE measurement DROP COLUMN {name}")
            view = view.replace(f"measurement.{name}, ", "")
        connection.execute(view)
    connection.close()


def test_measurements_of_before_batches_were_numbered_are_read_and_get_the_columns_when_something_is_measured(
    tmp_path: Path,
) -> None:
    database = str(tmp_path / "old.sqlite")
    with TrialStore(database) as store:
        store.write_task(begun(store), "k", [WORST])
    forget_later_columns(database)
    plain = dataclasses.replace(WORST, batch_number=0, coverage={}, coverage_in_all={})
    with reading(database) as connection:
        (found,) = find_measurements(connection)
    assert same(found.measurement, plain)
    with TrialStore(database) as store:
        store.write_task(begun(store), "k", [WORST])
    with reading(database) as connection:
        rows = [one.measurement for campaign in (1, 2) for one in find_measurements(connection, campaign_id=campaign)]
    assert list(map(repr, rows)) == [repr(plain), repr(WORST)]
    assert run_query(database, "SELECT batch_number, coverage FROM measurements ORDER BY id").rows == (
        (0, "{}"),
        (3, '{"x":0.25,"y":1.0}'),
    )


def test_a_table_of_before_batches_were_numbered_is_read() -> None:
    texts = WORST.as_texts()
    assert same(Measurement.from_texts(texts), WORST)
    older = {name: text for name, text in texts.items() if name not in ("batch_number", "coverage", "coverage_in_all")}
    assert Measurement.from_texts(older).coverage == {}
    with pytest.raises(KeyError):
        Measurement.from_texts({name: text for name, text in texts.items() if name != "verdict"})


def test_a_database_of_something_else_gets_no_tables(tmp_path: Path) -> None:
    database = tmp_path / "other.sqlite"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE customers (id)")
    connection.close()
    with pytest.raises(DatabaseError, match="is not an opscanner database"):
        TrialStore(str(database))


def test_every_field_of_a_measurement_has_a_column() -> None:
    fields = {field.name for field in dataclasses.fields(Measurement)} - {"quantiles_ulp", "count"}
    quantiles = {"p50_ulp", "p90_ulp", "p99_ulp", "p999_ulp"}
    assert {column.name for column in measurement.columns} == fields | quantiles | {"elements", "id", "campaign_id"}
