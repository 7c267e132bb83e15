"""Rows as comma-separated values (RFC 4180, but with plain newlines)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import IO, Any


def render(columns: Sequence[str], rows: Iterable[Sequence[Any]], stream: IO[str]) -> None:
    """Writes a header and a line a row. Booleans are 0 and 1, lists are joined with a semicolon, None is empty."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(value) for value in row] for row in rows)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (tuple, list)):
        return ";".join(map(str, value))
    return value
