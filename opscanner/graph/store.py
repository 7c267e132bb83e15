"""The one who writes the graph: scans, their units, and what a killed scan needs to go on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import SQLAlchemyError

from opscanner.errors import DatabaseError
from opscanner.graph import connect, schema
from opscanner.graph.bulk import BULK_TABLES, BulkInsert, Ids, largest_ids
from opscanner.graph.conclusions import delete_conclusions
from opscanner.graph.memory import ScanMemory, load_memory
from opscanner.graph.prune import Pruner
from opscanner.graph.unit_writer import UnitWriter, clear_unit
from opscanner.ir import UnitResult


@dataclass(frozen=True, slots=True)
class BegunScan:
    """A scan that units can be written to.

    Parameters
    ----------
    id, run : int
        The scan's row, and which run of it this is.
    resumed : bool
        An interrupted run with the same options goes on: its finished units need not be scanned again.
    """

    id: int
    run: int
    resumed: bool


@dataclass(frozen=True, slots=True)
class FinishedUnit:
    """A unit that the present run has written."""

    file: str
    cuda_pass: str
    configuration: str
    arguments_hash: str


class Store:
    """A graph database opened for writing; created when there is none.

    Several processes may write to one database, a unit at a time: each transaction first takes the write lock by
    counting up ``meta.generation``, and a writer that sees somebody else's count reads its ids anew.

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
        self._inserts = {table.name: BulkInsert(table, self._engine.dialect) for table in BULK_TABLES}
        self._generation = -1
        self._ids: dict[str, Ids] = {}
        self._memories: dict[int, ScanMemory] = {}
        self._runs: dict[int, int] = {}
        self._swept: set[int] = set()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Folds SQLite's write-ahead log into the one file, so that it can be copied, and lets go of it."""
        connect.close(self._engine)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                self._lock(connection)
                yield connection
        except BaseException as error:
            # What was remembered may have been rolled back.
            self._forget()
            if isinstance(error, SQLAlchemyError):
                raise connect.explain(error, self.url) from error
            raise

    def _lock(self, connection: Connection) -> None:
        meta = schema.meta
        connection.execute(update(meta).values(generation=meta.c.generation + 1))
        generation = connection.execute(select(meta.c.generation)).scalar_one()
        if generation != self._generation + 1:
            self._forget()
            self._ids = largest_ids(connection, (*BULK_TABLES, schema.scan))
        self._generation = generation

    def _forget(self) -> None:
        self._generation = -1
        self._memories.clear()

    def _memory(self, connection: Connection, scan_id: int) -> ScanMemory:
        if scan_id not in self._memories:
            self._memories[scan_id] = load_memory(connection, scan_id)
        return self._memories[scan_id]

    @contextlib.contextmanager
    def concluding(self) -> Iterator[Connection]:
        """A transaction in which conclusions are written, under the same lock as units."""
        with self._transaction() as connection:
            yield connection

    def begin_scan(
        self,
        framework: str,
        version: str,
        root: str,
        *,
        options: Mapping[str, Any] | None = None,
        tool_versions: Mapping[str, Any] | None = None,
        fresh: bool = False,
    ) -> BegunScan:
        """Begins a scan of a source tree, or goes on with one.

        The last run of the same framework, version and root is resumed when it never finished and had the same
        options and tools; otherwise a fresh run begins, in which every unit is scanned and replaces its predecessor.

        Parameters
        ----------
        fresh : bool
            Begin a fresh run in any case.
        """
        table = schema.scan
        wanted = {
            "options": json.dumps(options or {}, sort_keys=True),
            "tool_versions": json.dumps(tool_versions or {}, sort_keys=True),
        }
        with self._transaction() as connection:
            row = connection.execute(
                select(table).where(table.c.framework == framework, table.c.version == version, table.c.root == root)
            ).one_or_none()
            if row is not None:
                delete_conclusions(connection, row.id)
                same = row.finished is None and all(getattr(row, name) == text for name, text in wanted.items())
                if same and not fresh:
                    begun = BegunScan(row.id, row.run, resumed=True)
                else:
                    begun = BegunScan(row.id, row.run + 1, resumed=False)
                    connection.execute(
                        update(table)
                        .where(table.c.id == row.id)
                        .values(run=begun.run, started=_now(), finished=None, **wanted)
                    )
            else:
                begun = BegunScan(self._ids["scan"].take(), 1, resumed=False)
                connection.execute(
                    table.insert().values(
                        id=begun.id,
                        framework=framework,
                        version=version,
                        root=root,
                        run=1,
                        started=_now(),
                        **wanted,
                    )
                )
        self._runs[begun.id] = begun.run
        if begun.id in self._memories:
            self._memories[begun.id].sized.clear()
        return begun

    def finished_units(self, scan_id: int) -> set[FinishedUnit]:
        """Units that the present run has written, whatever became of them."""
        unit, file = schema.translation_unit.c, schema.source_file
        with self._engine.connect() as connection:
            rows = connection.execute(
                select(file.c.path, unit.cuda_pass, unit.configuration, unit.arguments_hash)
                .join(file, file.c.id == unit.file_id)
                .where(unit.scan_id == scan_id, unit.run == self._runs[scan_id])
            )
            return {FinishedUnit(*row) for row in rows}

    def write_unit(self, scan_id: int, unit: UnitResult) -> None:
        """Writes a unit in one transaction; what an earlier scan of it left is replaced."""
        with self._transaction() as connection:
            memory = self._memory(connection, scan_id)
            writer = UnitWriter(connection, self._inserts, self._ids, memory, scan_id, self._runs[scan_id])
            writer.write(unit)

    def finish_scan(
        self, scan_id: int, *, complete: bool, cuda_passes: Sequence[str] = ("device", "host", "none")
    ) -> None:
        """Marks the run as finished.

        Parameters
        ----------
        complete : bool
            Every unit of the source tree was asked for: those that only an earlier run saw are deleted.
        cuda_passes : sequence of str
            The passes that were asked for; units of other passes stay.
        """
        with self._transaction() as connection:
            memory, run = self._memory(connection, scan_id), self._runs[scan_id]
            unit = schema.translation_unit.c
            pruner = Pruner(connection, memory, scan_id, run)
            if complete:
                gone = connection.execute(
                    select(unit.id).where(unit.scan_id == scan_id, unit.run < run, unit.cuda_pass.in_(cuda_passes))
                )
                for unit_id in gone.scalars().all():
                    pruner.release(clear_unit(connection, unit_id), {})
            pruner.sweep(names=run > 1)
            table = schema.scan
            connection.execute(update(table).where(table.c.id == scan_id).values(finished=_now()))
            self._analyze(connection)

    def _analyze(self, connection: Connection) -> None:
        """Lets the planner know how many rows a value has; without it SQLite picks the wrong end of a join."""
        if self.url.get_backend_name() == "sqlite":
            connect.execute_all(connection, ("PRAGMA analysis_limit=1000", "ANALYZE"))
        elif self.url.get_backend_name() == "postgresql":
            connect.execute_all(connection, ("ANALYZE",))

    def delete_scan(self, scan_id: int) -> None:
        """Deletes a scan and everything that hangs on it."""
        with self._transaction() as connection:
            memory = self._memory(connection, scan_id)
            delete_conclusions(connection, scan_id)
            unit = schema.translation_unit.c
            for unit_id in connection.execute(select(unit.id).where(unit.scan_id == scan_id)).scalars().all():
                clear_unit(connection, unit_id)
            Pruner(connection, memory, scan_id, 0).sweep(names=True)
            connection.execute(schema.scan.delete().where(schema.scan.c.id == scan_id))
            self._forget()

    def scan_id(self, framework: str, version: str, root: str) -> int:
        """Id of a scan.

        Raises
        ------
        DatabaseError
            When there is no such scan.
        """
        table = schema.scan.c
        with self._engine.connect() as connection:
            found = connection.execute(
                select(table.id).where(table.framework == framework, table.version == version, table.root == root)
            ).scalar()
        if found is None:
            raise DatabaseError(f"{self.url.render_as_string()} holds no scan of {framework} {version} at {root}")
        return int(found)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
