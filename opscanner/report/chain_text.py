"""Def-use chains drawn as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from opscanner.results import Chain, ChainStep

#: Why a value flows, where that is not simply a use.
_FLOWS = {
    "loop_carried": "from the iteration before",
    "argument": "passed as an argument",
    "return": "returned",
    "launch": "passed to a kernel launch",
    "capture": "captured by a lambda",
}


def render(rows: Iterable[Chain], stream: IO[str]) -> None:
    """Writes one tree up (where the value comes from) and one down (where it goes) for each chain."""
    for number, chain in enumerate(rows):
        if number:
            stream.write("\n")
        cast = chain.cast
        written = f" as {cast.written_type}" if cast.written_type else ""
        bindings = f" [{chain.bindings}]" if chain.bindings else ""
        stream.write(
            f"cast {cast.id}: {cast.from_format} -> {cast.to_format} ({cast.form}{written})\n"
            f"  {cast.file}:{cast.line}:{cast.column} in {cast.function}{bindings}\n"
        )
        for title, steps in (("comes from", chain.origins), ("goes to", chain.sinks)):
            stream.write(f"  {title}\n" if steps else f"  {title}: nothing that the graph knows\n")
            _tree(steps, cast.file, cast.function, stream)


def _tree(steps: tuple[ChainStep, ...], file: str, function: str, stream: IO[str]) -> None:
    children: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        children.setdefault(step.parent, []).append(index)
    # An explicit stack: a chain can be longer than Python's recursion allows.
    stack = [(index, "  ", index == children[-1][-1]) for index in reversed(children.get(-1, []))]
    while stack:
        index, indent, is_last = stack.pop()
        step = steps[index]
        parent_file, parent_function = (
            (file, function) if step.parent < 0 else (steps[step.parent].file, steps[step.parent].function)
        )
        stream.write(f"{indent}{'└─' if is_last else '├─'} {_words(step, parent_file, parent_function)}\n")
        below = children.get(index, [])
        deeper = indent + ("   " if is_last else "│  ")
        stack.extend((child, deeper, child == below[-1]) for child in reversed(below))


def _words(step: ChainStep, file: str, function: str) -> str:
    formats = f"{step.from_format} -> {step.format}" if step.from_format else step.format
    kind = step.kind.replace("_", " ")
    operation = "" if step.operation in ("", step.kind) else f" {step.operation}"
    place = f"{step.line}" if step.file == file else f"{step.file}:{step.line}"
    words = [f"{kind}{operation}  {formats}  line {place}" if step.file == file else
             f"{kind}{operation}  {formats}  {place}"]  # fmt: skip
    if step.function != function:
        words.append(f"in {step.function}" + (f" [{step.bindings}]" if step.bindings else ""))
    if step.text and step.text != step.operation:
        words.append(f"`{''.join(sign if sign.isprintable() else ' ' for sign in step.text)}`")
    if step.edge in _FLOWS:
        words.append(f"({_FLOWS[step.edge]})")
    if step.again:
        words.append("(see above)")
    if step.more:
        words.append("... (--depth or --steps for more)")
    return "  ".join(words)
