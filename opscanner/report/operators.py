"""An operator as text: its registrations, the operators it calls, and the functions that serve it with their paths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TextIO

from opscanner.results import OperatorDetails, OperatorFunction, PathStep


def render(found: Iterable[OperatorDetails], stream: TextIO) -> None:
    """Writes each operator; a path is shown once, what it shares with the one before is left out."""
    for number, one in enumerate(found):
        if number:
            stream.write("\n")
        row = one.operator
        of = f" of {row.forward_name}" if row.forward_name != row.name else ""
        place = f"  {row.file}:{row.line}" if row.file else ""
        stream.write(f"{row.framework} {row.version}  {row.name}  {row.direction}{of}, {row.module_group}{place}\n")
        stream.write(f"\nregistrations ({len(one.registrations)})\n")
        for registration in one.registrations:
            formats = f" [{', '.join(registration.formats)}]" if registration.formats else ""
            where = f"{registration.file}:{registration.line}"
            stream.write(f"  {registration.device:<4}  {registration.target}{formats}  {where}\n")
        if one.delegations:
            stream.write(f"\noperators that it calls ({len(one.delegations)})\n")
            for name, path in one.delegations:
                last = path[-1]
                stream.write(f"  {name}  {last.file}:{last.line}\n")
        if not one.functions:
            stream.write("\nno function that was scanned serves it\n")
        for (through, device), functions in groupby(one.functions, key=lambda row: (row.through, row.device)):
            title = f"functions on {device}" + (f" through {through}" if through else "")
            stream.write(f"\n{title}\n")
            _functions(list(functions), stream)


def _functions(functions: Sequence[OperatorFunction], stream: TextIO) -> None:
    former: tuple[PathStep, ...] = ()
    for function in sorted(functions, key=lambda row: [(step.file, step.line, step.what) for step in row.path]):
        shared = 0
        while shared < min(len(former), len(function.path)) and former[shared] == function.path[shared]:
            shared += 1
        for depth in range(shared, len(function.path)):
            step = function.path[depth]
            last = depth == len(function.path) - 1
            stream.write(f"  {'  ' * depth}{step.what}  {step.file}:{step.line}{_marks(function) if last else ''}\n")
        former = function.path


def _marks(function: OperatorFunction) -> str:
    parts = [function.confidence]
    if function.formats:
        parts.append("formats " + " ".join(function.formats))
    for title, lines in (("casts at", function.casts), ("16-bit arithmetic at", function.arithmetic_16bit)):
        if lines:
            more = f" and {len(lines) - 12} more" if len(lines) > 12 else ""
            parts.append(f"{title} {', '.join(map(str, lines[:12]))}{more}")
    return f"  [{'; '.join(parts)}]"
