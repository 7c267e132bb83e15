"""Opens a database by URL or path, and says clearly why it cannot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from opscanner.errors import DatabaseError
from opscanner.graph import schema, schema_conclusions, schema_trials  # noqa: F401  (their tables join the metadata)

#: Read and write alike. A page cache of 256 MiB holds the upper parts of every index of a whole framework's graph.
_PRAGMAS = ("PRAGMA cache_size=-262144", "PRAGMA temp_store=MEMORY", "PRAGMA mmap_size=1073741824")
#: With the write-ahead log that ``prepare`` turns on, NORMAL may lose the last units after a power cut, never the file.
#: Foreign keys are declared for readers of the schema and checked by the tests: per row they cost a third of the load.
_WRITE_PRAGMAS = ("PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=4000")


def database_url(database: str) -> URL:
    """The URL of a database; a plain path becomes SQLite's. A URL without a driver gets the one that we test with."""
    if "://" not in database:
        return URL.create("sqlite", database=str(Path(database).expanduser().absolute()))
    try:
        url = make_url(database)
    except ArgumentError as error:
        raise DatabaseError(f"{database!r} is no database URL: {error}", "sqlite:///path or a plain path") from error
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    return url


def sqlite_path(url: URL) -> Path | None:
    """The file of a SQLite URL; None for another database, and for one in memory."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database)


def open_engine(url: URL, *, write: bool) -> Engine:
    """An engine whose transactions really begin at the first statement, with SQLite's pragmas set.

    Raises
    ------
    DatabaseError
        When the driver is not installed, or the file or its folder cannot be used.
    """
    path = sqlite_path(url)
    if path is not None:
        _check_file(path, write=write)
    try:
        if url.get_backend_name() == "postgresql":
            # Positional parameters let rows go out as plain tuples.
            return create_engine(url, paramstyle="format")
        engine = create_engine(url)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        hint = "pip install 'opscanner[postgres]'" if "psycopg" in str(error) else "install its SQLAlchemy driver"
        raise DatabaseError(f"cannot open {url.render_as_string()}: {error}", hint) from error
    if url.get_backend_name() == "sqlite":
        _tune_sqlite(engine, write=write)
    return engine


def _check_file(path: Path, *, write: bool) -> None:
    if path.is_dir():
        raise DatabaseError(f"{path} is a folder, not a database", "name a file in it: --db FOLDER/opscanner.sqlite")
    if path.exists():
        if write and not os.access(path, os.W_OK):
            raise DatabaseError(f"cannot write {path}: permission denied", "--db with a file you may write")
        return
    if not write:
        raise DatabaseError(f"there is no database {path}", "scan first: opscanner scan ROOT --db FILE")
    if not path.parent.is_dir():
        raise DatabaseError(f"cannot create {path}: there is no folder {path.parent}", f"mkdir -p {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise DatabaseError(
            f"cannot create {path}: the folder {path.parent} is not writable",
            "--db FILE (or OPSCANNER_DB) with a place you may write",
        )


def _tune_sqlite(engine: Engine, *, write: bool) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        # The driver would otherwise begin transactions on its own terms; see SQLAlchemy's notes on pysqlite.
        connection.isolation_level = None
        for pragma in (*_PRAGMAS, *(_WRITE_PRAGMAS if write else ("PRAGMA query_only=ON",))):
            connection.execute(pragma).close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def explain(error: SQLAlchemyError, url: URL) -> DatabaseError:
    """Our error for what a driver refused, in the driver's own words."""
    why = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    shown = url.render_as_string()
    if "file is not a database" in why or "malformed" in why:
        return DatabaseError(f"{shown}: {why}", "delete the file, or name another with --db")
    if "locked" in why:
        return DatabaseError(f"{shown}: {why}", "wait for the other scan that writes to it, or use another --db")
    return DatabaseError(f"{shown}: {why.strip()}", "check the URL, the server and the rights of its user")


def prepare(engine: Engine) -> None:
    """Creates tables and views in an empty database; checks the version of one that has them.

    SQLite's write-ahead log, with which people can query while a scan writes, is turned on only after that: it changes
    a byte of the file, and a file that is not ours stays as it is.
    """
    from opscanner.graph import views

    try:
        with engine.begin() as connection:
            if _tables(connection):
                _check_version(connection, engine.url)
            else:
                schema.metadata.create_all(connection)
                views.create_views(connection)
                row = {"id": 1, "schema_version": schema.SCHEMA_VERSION, "generation": 0}
                connection.execute(schema.meta.insert().values(row))
        if engine.url.get_backend_name() == "sqlite":
            raw = engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA journal_mode=WAL")
            finally:
                raw.close()
    except SQLAlchemyError as error:
        raise explain(error, engine.url) from error


def close(engine: Engine) -> None:
    """Folds SQLite's write-ahead log into the one file, so that it can be copied, and lets go of it."""
    if engine.url.get_backend_name() == "sqlite":
        raw = engine.raw_connection()
        # Refused while somebody reads; then the log stays beside the file, which is just as good.
        with contextlib.suppress(engine.dialect.loaded_dbapi.Error), contextlib.closing(raw):
            for pragma in ("busy_timeout=100", "analysis_limit=400", "optimize", "journal_mode=DELETE"):
                raw.cursor().execute(f"PRAGMA {pragma}")
    engine.dispose()


def check(engine: Engine) -> None:
    """Refuses a database that holds nothing, something else, or another version of the schema; keeps none open."""
    try:
        with engine.connect() as connection:
            if not _tables(connection):
                raise DatabaseError(
                    f"the database {engine.url.render_as_string()} is empty",
                    "scan first: opscanner scan ROOT",
                )
            _check_version(connection, engine.url)
    except SQLAlchemyError as error:
        raise explain(error, engine.url) from error
    finally:
        engine.dispose()


def _tables(connection: Connection) -> list[str]:
    return inspect(connection).get_table_names()


def _check_version(connection: Connection, url: URL) -> None:
    shown = url.render_as_string()
    if "meta" not in _tables(connection) or "scan" not in _tables(connection):
        names = ", ".join(sorted(_tables(connection))[:5])
        raise DatabaseError(f"{shown} is not an opscanner database: it holds the tables {names}", "use another --db")
    found = connection.execute(select(schema.meta.c.schema_version)).scalar()
    if found != schema.SCHEMA_VERSION:
        raise DatabaseError(
            f"{shown} has schema version {found}; this opscanner reads and writes {schema.SCHEMA_VERSION}",
            "scan into a new database (--db), or use the opscanner that wrote it",
        )


def execute_all(connection: Connection, statements: Iterable[str]) -> None:
    """Runs statements of our own one after the other."""
    for statement in statements:
        connection.exec_driver_sql(statement)
