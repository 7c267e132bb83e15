"""Writes what campaigns measure, a task at a time, and reads it back."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Column, Connection, Select, inspect, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from opscanner.errors import DatabaseError
from opscanner.graph import connect, schema, views
from opscanner.graph.bulk import BulkInsert, largest_ids
from opscanner.graph.schema_trials import LATER, TRIALS, campaign, campaign_task, fault, fault_measurement, measurement
from opscanner.graph.views_trials import FAULTS, MEASUREMENTS
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.results import CampaignRow, FaultRow, MeasurementRow

#: A measurement's inputs at its worst element are kept up to so many characters of JSON.
_LONGEST_INPUTS = 20_000
_QUANTILES = ("p50_ulp", "p90_ulp", "p99_ulp", "p999_ulp")
_SHARES = ("coverage", "coverage_in_all")
#: Columns whose name is not the field's, or that hold another type.
_WRITTEN_OTHERWISE = {"elements": "count"}


class TrialStore:
    """A database opened to write what campaigns measure; created when there is none, completed when it is older.

    Parameters
    ----------
    database : str
        A path, or any URL that SQLAlchemy takes.

    Raises
    ------
    DatabaseError
        When it cannot be opened or written, is something else, or has another schema version.
    """

    def __init__(self, database: str) -> None:
        self.url = connect.database_url(database)
        self._engine = connect.open_engine(self.url, write=True)
        connect.prepare(self._engine)
        with self._transaction() as connection:
            _add_missing(connection)

    def __enter__(self) -> TrialStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the database."""
        connect.close(self._engine)

    def begin_campaign(
        self,
        *,
        versions: Mapping[str, str],
        machine: str,
        device: str,
        seed: int,
        options: Mapping[str, Any],
    ) -> int:
        """Begins a campaign; its id."""
        with self._transaction() as connection:
            id_ = largest_ids(connection, (campaign,))["campaign"].take()
            row = {"id": id_, "versions": _json(versions), "machine": machine, "device": device, "seed": seed}
            connection.execute(campaign.insert().values(**row, options=_json(options), started=_now(), ended=None))
        return id_

    def unfinished_campaign(self) -> CampaignRow | None:
        """The last campaign, when it did not come to its end; else None. See :func:`differences` before resuming it."""
        with self._transaction() as connection:
            found = _campaigns(connection, select(campaign).order_by(campaign.c.id.desc()).limit(1))
        return found[0] if found and found[0].ended is None else None

    def done_keys(self, campaign_id: int) -> set[str]:
        """Keys of the tasks of a campaign that are done."""
        query = select(campaign_task.c.key).where(campaign_task.c.campaign_id == campaign_id)
        with self._transaction() as connection:
            return set(connection.execute(query).scalars())

    def write_task(self, campaign_id: int, key: str, rows: Sequence[Measurement]) -> list[int]:
        """Writes a task that is done with all its measurements, or nothing of it; ids of the measurements."""
        with self._transaction() as connection:
            ids = largest_ids(connection, (campaign_task, measurement))
            task = (ids["campaign_task"].take(), campaign_id, key, len(rows))
            BulkInsert(campaign_task, connection.dialect).write(connection, [task])
            first = ids["measurement"].take(len(rows))
            written = [(first + index, campaign_id, *_columns(row)) for index, row in enumerate(rows)]
            BulkInsert(measurement, connection.dialect).write(connection, written)
        return list(range(first, first + len(rows)))

    def finish_campaign(self, campaign_id: int) -> None:
        """Notes that a campaign came to its end."""
        with self._transaction() as connection:
            connection.execute(update(campaign).where(campaign.c.id == campaign_id).values(ended=_now()))

    def write_faults(self, campaign_id: int, faults: Sequence[FaultRow]) -> list[int]:
        """Writes faults of a campaign in the place of those that it has; their ids."""
        with self._transaction() as connection:
            former = select(fault.c.id).where(fault.c.campaign_id == campaign_id)
            connection.execute(fault_measurement.delete().where(fault_measurement.c.fault_id.in_(former)))
            connection.execute(fault.delete().where(fault.c.campaign_id == campaign_id))
            first = largest_ids(connection, (fault,))["fault"].take(len(faults))
            rows = [(first + index, campaign_id, *_fault_columns(row)) for index, row in enumerate(faults)]
            BulkInsert(fault, connection.dialect).write(connection, rows)
            shown = [(first + index, id_) for index, row in enumerate(faults) for id_ in sorted(set(row.measurements))]
            BulkInsert(fault_measurement, connection.dialect).write(connection, shown)
        return list(range(first, first + len(faults)))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction that no other writer's ids can collide with: each first counts up ``meta.generation``."""
        try:
            with self._engine.begin() as connection:
                connection.execute(update(schema.meta).values(generation=schema.meta.c.generation + 1))
                yield connection
        except SQLAlchemyError as error:
            raise connect.explain(error, self.url) from error


def _add_missing(connection: Connection) -> None:
    """Gives a database of before there were trials their tables and views, or those columns that it lacks."""
    there = inspect(connection)
    schema.metadata.create_all(connection, tables=list(TRIALS))
    known = set(there.get_view_names())
    if missing := _missing(connection):
        for column in missing:
            kind = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE measurement ADD COLUMN {kind} DEFAULT {LATER[column.name]}")
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {MEASUREMENTS.name}")
        known.discard(MEASUREMENTS.name)
    views.create_views(connection, [view for view in (MEASUREMENTS, FAULTS) if view.name not in known])


def _missing(connection: Connection) -> list[Column[Any]]:
    """Columns of ``measurement`` that came after a database was made."""
    there = {column["name"] for column in inspect(connection).get_columns(measurement.name)}
    return [column for column in measurement.columns if column.name not in there]


def differences(
    row: CampaignRow, *, versions: Mapping[str, str], device: str, seed: int, options: Mapping[str, Any]
) -> list[str]:
    """What is otherwise than when a campaign was begun, such as ``seed: 0, now 1``; with nothing it may go on."""
    now = {**json.loads(_json(options)), **versions, "device": device, "seed": seed}  # tuples become lists, as kept
    then = {**row.options, **row.versions, "device": row.device, "seed": row.seed}
    return [
        f"{name}: {then.get(name, 'not set')}, now {now.get(name, 'not set')}"
        for name in sorted({*now, *then})
        if now.get(name) != then.get(name)
    ]


def has_trials(connection: Connection) -> bool:
    """True when something may have been measured into a database."""
    return inspect(connection).has_table(measurement.name)


def campaigns(connection: Connection) -> list[CampaignRow]:
    """Every campaign, the last one first."""
    return _campaigns(connection, select(campaign).order_by(campaign.c.id.desc())) if has_trials(connection) else []


def find_measurements(
    connection: Connection,
    *,
    campaign_id: int | None = None,
    operator: str | None = None,
    framework: str | None = None,
    format_: str | None = None,
    device: str | None = None,
) -> list[MeasurementRow]:
    """Measurements in the order in which they were taken.

    Parameters
    ----------
    campaign_id : int or None
        None for the last campaign.

    Raises
    ------
    DatabaseError
        When nothing was measured into the database.
    """
    campaign_id = _chosen(connection, campaign_id)
    missing = {column.name for column in _missing(connection)}
    known = [column for column in measurement.columns if column.name not in missing]
    query = select(*known).where(measurement.c.campaign_id == campaign_id).order_by(measurement.c.id)
    for column, value in (
        (measurement.c.operator, operator),
        (measurement.c.framework, framework),
        (measurement.c.format, format_),
        (measurement.c.device, device),
    ):
        if value is not None:
            query = query.where(column == value)
    return [_measurement(row._asdict()) for row in connection.execute(query)]


def find_faults(connection: Connection, *, campaign_id: int | None = None) -> list[FaultRow]:
    """Faults of a campaign (None: the last one) by cause, then as they were written."""
    campaign_id = _chosen(connection, campaign_id)
    shown: dict[int, list[int]] = {}
    pairs = select(fault_measurement).join(fault, fault.c.id == fault_measurement.c.fault_id)
    for fault_id, measurement_id in connection.execute(pairs.where(fault.c.campaign_id == campaign_id)):
        shown.setdefault(fault_id, []).append(measurement_id)
    query = select(fault).where(fault.c.campaign_id == campaign_id).order_by(fault.c.cause, fault.c.id)
    return [_fault(row._asdict(), sorted(shown.get(row.id, ()))) for row in connection.execute(query)]


def _chosen(connection: Connection, campaign_id: int | None) -> int:
    known = [row.id for row in campaigns(connection)]
    if not known:
        raise DatabaseError("nothing was measured into this database", "opscanner test OPERATOR")
    if campaign_id is not None and campaign_id not in known:
        raise DatabaseError(f"the database holds no campaign {campaign_id}", f"one of {', '.join(map(str, known))}")
    return known[0] if campaign_id is None else campaign_id


def _campaigns(connection: Connection, query: Select[Any]) -> list[CampaignRow]:
    rows = []
    for row in connection.execute(query):
        kept = {**row._asdict(), "versions": json.loads(row.versions), "options": json.loads(row.options)}
        rows.append(CampaignRow(**kept))
    return rows


def _columns(row: Measurement) -> Iterator[Any]:
    """Values of ``measurement``'s columns behind the campaign, in their order."""
    quantiles = dict(zip(_QUANTILES, row.quantiles_ulp, strict=False))
    for column in measurement.columns:
        name = column.name
        if name in ("id", "campaign_id"):
            continue
        if name in _QUANTILES:
            value: Any = quantiles.get(name)
        elif name == "worst_inputs":
            value = _inputs_json(row.worst_inputs)
        elif name in _SHARES:
            value = _json(getattr(row, name))
        else:
            value = getattr(row, _WRITTEN_OTHERWISE.get(name, name))
        if name in ("status", "verdict"):
            value = value.value
        elif name in ("worst_expected", "worst_got"):
            value = repr(float(value))
        elif isinstance(value, float) and math.isnan(value):
            value = None  # SQLite has no NaN
        elif hasattr(value, "item"):
            value = value.item()  # numpy's numbers are none to drivers
        yield value


def _measurement(row: Mapping[str, Any]) -> MeasurementRow:
    values = {_WRITTEN_OTHERWISE.get(name, name): value for name, value in row.items() if name not in _QUANTILES}
    id_, campaign_id = values.pop("id"), values.pop("campaign_id")
    optional = ("upcast_max_ulp", "other_max_ulp")
    for name, value in values.items():
        if value is None and name not in optional:
            values[name] = math.nan
    values["quantiles_ulp"] = tuple(row[name] for name in _QUANTILES if row[name] is not None)
    values["status"], values["verdict"] = Status(row["status"]), Verdict(row["verdict"])
    values["worst_expected"], values["worst_got"] = float(row["worst_expected"]), float(row["worst_got"])
    values.update((name, json.loads(row[name])) for name in _SHARES if name in row)
    values["worst_inputs"] = {name: _number(value) for name, value in json.loads(row["worst_inputs"]).items()}
    return MeasurementRow(id_, campaign_id, Measurement(**values))


def _fault_columns(row: FaultRow) -> tuple[Any, ...]:
    inputs = {
        name: {"shape": list(shape), "values": [_text(value) for value in values]}
        for name, (shape, values) in row.inputs.items()
    }
    return (
        row.cause, row.framework, row.version, row.operator, row.direction, row.format, row.device, row.layout,
        row.verdict, row.expression, _json(inputs), _json([_text(value) for value in row.expected]),
        _json([_text(value) for value in row.got]), row.error_ulp, _json(list(row.explanation)), row.script,
    )  # fmt: skip


def _fault(row: Mapping[str, Any], measurements: Sequence[int]) -> FaultRow:
    values = dict(row)
    values["inputs"] = {
        name: (tuple(one["shape"]), tuple(map(_number, one["values"])))
        for name, one in json.loads(row["inputs"]).items()
    }
    for name in ("expected", "got"):
        values[name] = tuple(map(_number, json.loads(row[name])))
    values["explanation"] = tuple(json.loads(row["explanation"]))
    return FaultRow(**values, measurements=tuple(measurements))


def _inputs_json(inputs: Mapping[str, Any]) -> str:
    """As JSON, in order, as many as there is room for."""
    kept: dict[str, Any] = {}
    length = 2
    for name, value in inputs.items():
        text = _text(value)
        length += len(json.dumps({name: text}))
        if length <= _LONGEST_INPUTS:
            kept[name] = text
    return _json(kept)


def _text(value: Any) -> Any:
    """A float as hexadecimal text, which holds its bits (nan, inf too); lists of them as lists; the rest as it is."""
    if isinstance(value, (list, tuple)):
        return [_text(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return value.hex() if isinstance(value, float) else value


def _number(text: Any) -> Any:
    if isinstance(text, list):
        return [_number(one) for one in text]
    return float.fromhex(text) if isinstance(text, str) else text


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=False)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
