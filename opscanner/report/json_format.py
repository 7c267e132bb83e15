"""Rows as a JSON list of objects, one object a line.

JSON has no infinities and no NaN (RFC 8259, 6): they are the texts ``"Infinity"``, ``"-Infinity"`` and ``"NaN"``, which
Python's ``float`` and JavaScript's ``Number`` read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import IO, Any


def render(rows: Iterable[Mapping[str, Any]], stream: IO[str]) -> None:
    """Writes the list as the rows come, so that a large result needs no memory."""
    separator = "["
    for row in rows:
        stream.write(separator + "\n " + _text(row))
        separator = ","
    stream.write("[]\n" if separator == "[" else "\n]\n")


def _text(row: Mapping[str, Any]) -> str:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, default=_other)
    except ValueError:
        return json.dumps(_named(row), ensure_ascii=False, allow_nan=False, default=_other)


def _named(value: Any) -> Any:
    """``value`` with texts for the numbers that JSON lacks."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _named(part) for key, part in value.items()}
    return [_named(part) for part in value] if isinstance(value, (list, tuple)) else value


def _other(value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return str(value)
