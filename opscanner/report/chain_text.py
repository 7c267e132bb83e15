"""Def-use chains drawn as text, from top to bottom as the value flows: loads above the cast, stores below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from opscanner.ir import EdgeKind, NodeKind
from opscanner.report.chain_tree import Drawn, build
from opscanner.report.source_lines import SourceLines
from opscanner.results import CastRow, Chain

#: Why a value flows, where that is neither a use nor an ordinary call.
_FLOWS = {
    EdgeKind.LOOP_CARRIED.value: "from one iteration to the next",
    EdgeKind.LAUNCH.value: "kernel launch",
    EdgeKind.CAPTURE.value: "captured by a lambda",
}
#: Names in one list; the rest is counted.
_NAMED = 3
#: A step wider than this moves its place to the right instead of everyone's.
_WIDEST = 72


class _Line:
    """Cells of one line: the tree and its words, the place, remarks."""

    def __init__(self, tree: str, words: str, file: str, line: int, lines: str, remarks: list[str]) -> None:
        self.left = f"{tree}{words}"
        self.file = file
        self.line = line
        self.lines = lines
        self.remarks = remarks


def render(rows: Iterable[Chain], stream: IO[str]) -> None:
    """Writes a drawing for each chain; steps that only hand the value on are named, not drawn.

    Of casts that one place makes for several formats the first is drawn, and the others are named.
    """
    places: dict[tuple[object, ...], list[Chain]] = {}
    for chain in rows:
        cast = chain.cast
        place = (chain.root, cast.file, cast.line, cast.column, cast.function, cast.form, cast.direction)
        places.setdefault(place, []).append(chain)
    sources: dict[str, SourceLines] = {}
    for number, chains in enumerate(places.values()):
        others = {chain.cast.id: chain.cast for chain in chains if chain.cast.id != chains[0].cast.id}
        for chain in chains:
            if chain.cast.id in others:
                continue
            if number or chain is not chains[0]:
                stream.write("\n")
            source = sources.setdefault(chain.root, SourceLines(chain.root, {}))
            source.sizes = {**source.sizes, **chain.sizes}
            _chain(chain, list(others.values()), source, stream)


def _chain(chain: Chain, others: list[CastRow], source: SourceLines, stream: IO[str]) -> None:
    cast = chain.cast
    written = f" as {cast.written_type}" if cast.written_type else ""
    bindings = f" [{chain.bindings}]" if chain.bindings else ""
    stream.write(
        f"cast {cast.id}: {cast.from_format} -> {cast.to_format} ({cast.form}{written})\n"
        f"  {cast.file}:{cast.line}:{cast.column} in {cast.function}{bindings}\n"
    )
    if others:
        same = ", ".join(f"cast {other.id}: {other.from_format} -> {other.to_format}" for other in others)
        stream.write(f"  the same place for other formats: {same}\n")
    stream.write("\n")
    origins, origin_roots = build(chain.origins, "origins")
    sinks, sink_roots = build(chain.sinks, "sinks")
    above = [_flipped(line) for line in reversed(_tree(origins, origin_roots, cast.function))]
    own = _Line("  ● ", f"cast {cast.from_format} -> {cast.to_format}", cast.file, cast.line, str(cast.line), [])
    lines = [*above, own, *_tree(sinks, sink_roots, cast.function)]
    _write(lines, _short_names(lines), source, stream)
    for words, steps in (("comes from", chain.origins), ("goes to", chain.sinks)):
        if not steps:
            stream.write(f"  {words} nothing that the graph knows\n")
    if any(drawn.more for drawn in (*origins, *sinks)):
        stream.write("  ... goes on: --depth or --steps for more\n")


def _tree(drawn: list[Drawn], roots: list[int], function: str) -> list[_Line]:
    """Lines from the root down."""
    lines = []
    # An explicit stack: a chain can be longer than Python's recursion allows.
    stack = _pushed(roots, "  ")
    while stack:
        index, indent, is_last = stack.pop()
        item = drawn[index]
        above = drawn[item.parent].first.function if item.parent >= 0 else function
        files = [step for step in item.steps if step.file == item.first.file]
        lines.append(
            _Line(
                f"{indent}{'└─' if is_last else '├─'} ",
                _words(item),
                item.first.file,
                item.first.line,
                _range(sorted({step.line for step in files})),
                _remarks(item, above),
            )
        )
        stack.extend(_pushed(item.children, indent + ("   " if is_last else "│  ")))
    return lines


def _pushed(children: list[int], indent: str) -> list[tuple[int, str, bool]]:
    """Children in the order of a stack: the first one last."""
    return [(index, indent, index == children[-1]) for index in reversed(children)]


def _flipped(line: _Line) -> _Line:
    """The line of a tree that grows upwards."""
    line.left = line.left.replace("└", "┌", 1)
    return line


def _words(item: Drawn) -> str:
    step = item.first
    kind = step.kind.replace("_", " ")
    if step.kind == NodeKind.CAST.value:
        origins = _some(dict.fromkeys(each.from_format for each in item.steps))
        targets = _some(dict.fromkeys(each.format for each in item.steps))
        written = step.operation if all(each.operation == step.operation for each in item.steps) else ""
        return f"{kind} {origins} -> {targets}" + (f" ({written})" if written else "")
    operation = "" if step.operation in ("", step.kind) else f" {step.operation}"
    return f"{kind}{operation} {_some(dict.fromkeys(each.format for each in item.steps))}"


def _remarks(item: Drawn, function: str) -> list[str]:
    step = item.first
    remarks = []
    if step.function != function:
        remarks.append(f"in {_short(step.function)}")
    through = dict.fromkeys(_short(name) for name in item.through if name not in (step.function, function))
    if through:
        remarks.append(f"through {_some(through)}")
    remarks += [words for flow, words in _FLOWS.items() if flow in item.flows]
    if item.again:
        remarks.append("drawn elsewhere")
    if item.elsewhere:
        remarks.append(f"and {item.elsewhere} drawn elsewhere")
    if item.more:
        remarks.append("...")
    return remarks


def _some(names: Iterable[str]) -> str:
    """The first few names.

    >>> _some(["float16", "float32"]), _some(["a", "b", "c", "d", "e"])
    ('float16, float32', 'a, b, c and 2 more')
    """
    known = list(names)
    if len(known) <= _NAMED + 1:
        return ", ".join(known)
    return f"{', '.join(known[:_NAMED])} and {len(known) - _NAMED} more"


def _range(lines: list[int]) -> str:
    """Lines of one or several places.

    >>> _range([7]), _range([73, 74, 80])
    ('7', '73-80')
    """
    return str(lines[0]) if len(lines) == 1 else f"{lines[0]}-{lines[-1]}"


def _short(function: str) -> str:
    """The end of a qualified name that still says what it is.

    >>> _short("at::native::softmax_warp_forward"), _short("at::native::Epilogue::operator()")
    ('softmax_warp_forward', 'Epilogue::operator()')
    """
    *outer, name = function.split("::")
    return f"{outer[-1]}::{name}" if outer and name.startswith("operator") else name


def _short_names(lines: list[_Line]) -> dict[str, str]:
    """Each file by as much of the end of its path as tells it from the others: ``FILE:LINE`` can be asked for."""
    paths = list(dict.fromkeys(line.file for line in lines))
    names = {}
    for path in paths:
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            end = "/".join(parts[-count:])
            if sum(f"/{other}".endswith(f"/{end}") for other in paths) == 1:
                break
        names[path] = end
    return names


def _write(lines: list[_Line], names: dict[str, str], source: SourceLines, stream: IO[str]) -> None:
    width = max((len(line.left) for line in lines if len(line.left) <= _WIDEST), default=0)
    places = [f"{names[line.file]}:{line.lines}" for line in lines]
    place_width = max(map(len, places))
    above = ("", 0)
    for line, place in zip(lines, places, strict=True):
        # What stands on the line above need not be read twice.
        text = "" if above == (line.file, line.line) else source.line(line.file, line.line)
        above = (line.file, line.line)
        remarks = f"// {'; '.join(line.remarks)}" if line.remarks else ""
        cells = (line.left.ljust(width), place.ljust(place_width), text, remarks)
        stream.write("  ".join(filter(None, cells)).rstrip() + "\n")
