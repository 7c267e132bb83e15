"""Rows as a JSON list of objects, one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import IO, Any


def render(rows: Iterable[Mapping[str, Any]], stream: IO[str]) -> None:
    """Writes the list as the rows come, so that a large result needs no memory."""
    separator = "["
    for row in rows:
        stream.write(separator + "\n " + json.dumps(row, ensure_ascii=False, default=_other))
        separator = ","
    stream.write("[]\n" if separator == "[" else "\n]\n")


def _other(value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return str(value)
