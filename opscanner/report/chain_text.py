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
    children = _children(steps)
    # An explicit stack: a chain can be longer than Python's recursion allows.
    stack = _pushed(children.get(-1, []), "  ")
    while stack:
        index, alike, indent, is_last = stack.pop()
        step = steps[index]
        parent_file, parent_function = (
            (file, function) if step.parent < 0 else (steps[step.parent].file, steps[step.parent].function)
        )
        more = f"  (and {alike} more like it)" if alike else ""
        stream.write(f"{indent}{'└─' if is_last else '├─'} {_words(step, parent_file, parent_function)}{more}\n")
        stack.extend(_pushed(children.get(index, []), indent + ("   " if is_last else "│  ")))


def _children(steps: tuple[ChainStep, ...]) -> dict[int, list[tuple[int, int]]]:
    """Steps by the step they hang on, each with the number of siblings that it stands for.

    One place can hang on a step many times: a switch over data types instantiates a function for each of them.
    """
    alike: dict[tuple[object, ...], list[int]] = {}
    for index, step in enumerate(steps):
        same = (step.parent, step.edge, step.kind, step.operation, step.format, step.function, step.file, step.line)
        alike.setdefault(same, []).append(index)
    children: dict[int, list[tuple[int, int]]] = {}
    for indices in alike.values():
        children.setdefault(steps[indices[0]].parent, []).append((indices[0], len(indices) - 1))
    return children


def _pushed(children: list[tuple[int, int]], indent: str) -> list[tuple[int, int, str, bool]]:
    """Children in the order of a stack: the first one last."""
    return [(index, alike, indent, (index, alike) == children[-1]) for index, alike in reversed(children)]


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
