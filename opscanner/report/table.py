"""Rows as an aligned table for people; no column is cut, so that every name can be copied."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import IO, Any

#: Rows that decide the widths: a table may be longer than memory, and a wider value further down only pushes its line.
_MEASURED = 1000


def render(columns: Sequence[str], rows: Iterable[Sequence[Any]], stream: IO[str]) -> None:
    """Writes a header, a rule and a line a row; numbers are aligned to the right.

    Newlines and tabs inside a value are shown escaped, so that a row stays a line.
    """
    remaining = iter(rows)
    first = list(itertools.islice(remaining, _MEASURED))
    widths = [len(name) for name in columns]
    for row in first:
        widths = [max(width, len(_text(value))) for width, value in zip(widths, row, strict=True)]
    _line(columns, widths, [False] * len(columns), stream)
    stream.write("  ".join("-" * width for width in widths).rstrip() + "\n")
    for row in itertools.chain(first, remaining):
        _line([_text(value) for value in row], widths, [isinstance(value, (int, float)) for value in row], stream)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], stream: IO[str]) -> None:
    padded = (
        cell.rjust(width) if is_right else cell.ljust(width)
        for cell, width, is_right in zip(cells, widths, right, strict=True)
    )
    stream.write("  ".join(padded).rstrip() + "\n")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value))
    # Control characters could move a terminal's cursor; a scanned checkout may come from anyone.
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in str(value))
