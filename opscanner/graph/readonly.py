"""SQL from anyone, read only by construction: the database itself refuses to write, whatever the text says."""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from opscanner.errors import DatabaseError
from opscanner.graph import connect
from opscanner.results import QueryResult

#: What a statement may do; everything else (writes, ATTACH, transactions, temporary tables) is denied.
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
#: Pragmas that describe tables and change nothing.
_DESCRIBING = frozenset({"table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"})
#: Virtual machine instructions between two looks at the clock: some ten milliseconds.
_CLOCK_STEP = 1_000_000
#: Bytes of values; as Python objects and text they take several times as much.
_LARGEST_RESULT = 256 << 20
#: Bytes of one value in SQLite, whose own limit is a billion.
_LARGEST_VALUE = 16 << 20
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([a-zA-Z]*)", re.DOTALL)


def run_query(database: str, query: str, *, limit: int | None = None, timeout_s: float | None = None) -> QueryResult:
    """Runs one query and gives its rows; nothing in the database or beside it changes.

    SQLite opens the file read only, forbids writing on the connection, and asks an authorizer before each statement
    is compiled. PostgreSQL runs it in a READ ONLY transaction, sent as a single prepared statement. Other databases
    are refused, because we know no such door to them. (A PostgreSQL superuser can still call functions that write
    files of the server: ask as a user without those rights.)

    Parameters
    ----------
    limit : int, optional
        Give at most so many rows, and say so.
    timeout_s : float, optional
        Give up after so many seconds.

    Raises
    ------
    DatabaseError
        The query is wrong, writes, holds more than one statement, or takes too long.
    """
    url = connect.database_url(database)
    backend = url.get_backend_name()
    if not query.strip(" \t\r\n;"):
        raise DatabaseError("the query is empty", 'opscanner sql "SELECT * FROM casts LIMIT 5"')
    path = connect.sqlite_path(url)
    if path is not None:
        connect.check(connect.open_engine(url, write=False))
        return _sqlite(path, query, limit, timeout_s)
    if backend == "postgresql":
        return _postgresql(url, query, limit, timeout_s)
    raise DatabaseError(
        f"opscanner knows no read-only way into {backend}",
        "use that database's own client with a read-only user",
    )


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA:
        return sqlite3.SQLITE_OK if (first or "").lower() in _DESCRIBING else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _open_sqlite(path: Path) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    try:
        connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, isolation_level=None)
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        # A write-ahead log in a folder we may not write to: without its index file only the main file can be read.
        connection = sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True, isolation_level=None)
    connection.execute("PRAGMA cache_size=-262144")
    connection.execute("PRAGMA mmap_size=1073741824")
    connection.execute("PRAGMA query_only=ON")
    connection.set_authorizer(_authorize)
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
    return connection


def _sqlite(path: Path, query: str, limit: int | None, timeout_s: float | None) -> QueryResult:
    connection = _open_sqlite(path)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    try:
        if deadline is not None:
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _CLOCK_STEP)
        cursor = connection.execute(query)
        if cursor.description is None:
            raise DatabaseError("the statement gives no rows", "opscanner sql takes a SELECT")
        return _collect(cursor, limit)
    # Before Python 3.11 a second statement raises Warning, which is no sqlite3.Error.
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _refused(str(error), timeout_s) from error
    finally:
        connection.close()


def _postgresql(url: URL, query: str, limit: int | None, timeout_s: float | None) -> QueryResult:
    word = _FIRST_WORD.match(query)
    if word is None or word[1].upper() not in ("SELECT", "WITH", "VALUES", "TABLE"):
        # COPY ... TO PROGRAM is allowed in a read-only transaction.
        raise DatabaseError(f"not authorized: {query.split(maxsplit=1)[0]} is no query", "opscanner sql takes a SELECT")
    engine = connect.open_engine(url, write=False)
    connect.check(engine)
    try:
        with engine.connect().execution_options(postgresql_readonly=True) as connection:
            if timeout_s is not None:
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, int(timeout_s * 1000))}")
            cursor: Any = connection.connection.cursor()
            # A prepared statement is one statement: the server refuses text with two.
            cursor.execute(query, prepare=True)
            result = _collect(cursor, limit)
            connection.rollback()
            return result
    except SQLAlchemyError as error:
        raise connect.explain(error, url) from error
    except engine.dialect.loaded_dbapi.Error as error:
        raise _refused(str(error), timeout_s) from error
    finally:
        engine.dispose()


def _collect(cursor: Any, limit: int | None) -> QueryResult:
    columns = tuple(column[0] for column in cursor.description)
    rows: list[tuple[Any, ...]] = []
    size = 0
    while limit is None or len(rows) <= limit:
        chunk = cursor.fetchmany(1000 if limit is None else min(1000, limit + 1 - len(rows)))
        if not chunk:
            break
        for row in chunk:
            size += sum(len(value) if isinstance(value, (str, bytes)) else 8 for value in row) + 8 * len(row)
        if size > _LARGEST_RESULT:
            raise DatabaseError("the result is larger than 256 MiB", "--limit N, or an aggregate instead of rows")
        rows += (tuple(row) for row in chunk)
    if limit is None:
        return QueryResult(columns, tuple(rows))
    return QueryResult(columns, tuple(tuple(row) for row in rows[:limit]), truncated=len(rows) > limit)


def _refused(why: str, timeout_s: float | None) -> DatabaseError:
    lower = why.lower()
    if "interrupted" in lower or "statement timeout" in lower:
        return DatabaseError(f"the query took longer than {timeout_s:g} s", "--timeout with more, or a narrower WHERE")
    if any(word in lower for word in ("not authorized", "readonly", "read-only", "prohibited", "one statement")):
        return DatabaseError(f"opscanner sql only reads, one statement at a time: {why}", "SELECT ... FROM casts")
    if "no such table" in lower or "no such column" in lower or "does not exist" in lower:
        return DatabaseError(why, "opscanner schema lists tables, views and columns")
    return DatabaseError(f"the query was refused: {why}", "opscanner schema lists tables, views and columns")
