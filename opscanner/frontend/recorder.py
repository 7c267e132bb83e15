"""Nodes, edges and calls of one function instance as the walk finds them."""

from __future__ import annotations

import re
from typing import NamedTuple

from opscanner.frontend import libclang
from opscanner.frontend.body import Body
from opscanner.frontend.cursor_kinds import C_STYLE_CAST, CALL, FUNCTIONAL_CAST, STATIC_CAST
from opscanner.frontend.flow import Flow, Value
from opscanner.frontend.functions import FunctionTable
from opscanner.frontend.parse import Place, Unit, contents
from opscanner.ir import CastForm, Edge, EdgeKind, Node, NodeKind

_KINDS = {kind.value: kind for kind in EdgeKind}
_LOOP_CARRIED = EdgeKind.LOOP_CARRIED.value
_TYPE_NAME = re.compile(rb"\s*((?:typename\s+|const\s+|unsigned\s+)*[\w:]+(?:\s*<[^;{}()]*?>)?(?:::\w+)*)\s*[({]")


class PendingCall(NamedTuple):
    """A call whose callee is known by its declaration; its key is asked for when the unit is done."""

    node: int
    callee: int | None
    arguments: tuple[tuple[Value, int], ...]
    line: int


class Recorder:
    """Collects what the walk of one body finds.

    Parameters
    ----------
    unit, functions, body, flow : the unit, its functions, the body being walked and its reaching definitions
    """

    def __init__(self, unit: Unit, functions: FunctionTable, body: Body, flow: Flow) -> None:
        self._unit, self._functions, self._body, self._flow = unit, functions, body, flow
        self.nodes: list[Node] = []
        self.calls: list[PendingCall] = []
        self._edges: dict[tuple[int, int, str], None] = {}  # words: an Enum's hash is a Python call
        self._incoming: dict[int, list[int]] = {}
        self.reached = True

    def place(self, index: int) -> Place:
        """Where a cursor is written; for implicit ones, which have no place, that of what they apply to."""
        place = self._unit.cursor_place(self._body.cursors[index])
        while place.line == 0 and self._body.children[index]:
            index = self._body.children[index][0]
            place = self._unit.cursor_place(self._body.cursors[index])
        return place

    def node(
        self,
        kind: NodeKind,
        index: int,
        operation: str,
        format: str,
        sources: Value = (),
        *,
        from_format: str = "",
        accumulator: str = "",
        form: CastForm | None = None,
        written_type: str = "",
        lanes: int = 1,
        category: str = "",
        constant: bool = False,
        edge: EdgeKind = EdgeKind.DEF_USE,
    ) -> int:
        """Add a node that stands at cursor ``index`` and uses the definitions ``sources``; its index."""
        place = self.place(index)
        spelled = self._unit.spelling_place(self._unit.lib.clang_getCursorLocation(self._body.cursors[index]))
        macro_file, macro_line = "", 0
        if spelled.line and (spelled.line != place.line or spelled.file != place.file):
            macro_file, macro_line = self._functions.file(spelled.file)[0], spelled.line
        number = len(self.nodes)
        self.nodes.append(
            Node(
                kind,
                self._functions.file(place.file)[0],
                place.line,
                place.column,
                operation,
                format,
                from_format,
                accumulator,
                form,
                written_type,
                lanes,
                category,
                constant,
                self.reached,
                macro_file,
                macro_line,
            )
        )
        for source in sources:
            self.edge(source, number, edge)
        return number

    def adopt(self, node: Node) -> int:
        """Add a node that another body of the same unit made; its index here."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def edge(self, source: int, target: int, kind: EdgeKind = EdgeKind.DEF_USE) -> None:
        self._edges[(source, target, kind._value_)] = None
        self._incoming.setdefault(target, []).append(source)

    def amend(self, number: int, **changes: object) -> None:
        """Replace fields of a node."""
        self.nodes[number] = self.nodes[number]._replace(**changes)  # type: ignore[arg-type]

    def sources(self, number: int) -> list[int]:
        """Definitions that a node uses, markers included."""
        return self._incoming.get(number, [])

    def edges(self) -> tuple[Edge, ...]:
        """Edges with every marker resolved to the definitions that reach from the previous iteration."""
        found: dict[tuple[int, int, str], None] = {}
        for edge in self._edges:
            source, target, kind = edge
            if source >= 0:
                found[edge] = None
                continue
            for definition in self._flow.resolve(source):
                if (definition, target, kind) not in found:
                    found[(definition, target, _LOOP_CARRIED)] = None
        return tuple([Edge(source, target, _KINDS[kind]) for source, target, kind in found])

    def settle(self, value: Value) -> Value:
        """A value with its markers resolved."""
        found: dict[int, None] = {}
        for definition in value:
            for real in (definition,) if definition >= 0 else self._flow.resolve(definition):
                found[real] = None
        return tuple(found)

    def written_type(self, index: int) -> str:
        """The target type of an explicit cast as written (``acc_t``); empty when the text does not show it."""
        cursor = self._body.cursors[index]
        location = self._unit.lib.clang_getCursorLocation(cursor)
        place = self._unit.spelling_place(location)
        text = contents(self._unit.path(place.file))[place.offset : place.offset + 200]
        kind = self._body.kinds[index]
        if kind == STATIC_CAST and text.startswith(b"static_cast"):
            return _balanced(text[len(b"static_cast") :], b"<", b">")
        if kind == C_STYLE_CAST:
            return _balanced(text, b"(", b")")
        if kind in (FUNCTIONAL_CAST, CALL):
            found = _TYPE_NAME.match(text)
            return _tidy(found.group(1)) if found else ""
        return ""

    def sugar(self, index: int) -> str:
        """The type of an implicit cast as clang remembers it (``opmath_t``); empty when it is the plain name."""
        lib = self._unit.lib
        ctype = lib.clang_getCursorType(self._body.cursors[index])
        spelled = libclang.text(lib, lib.clang_getTypeSpelling(ctype)).replace("const ", "").strip(" &")
        canonical = lib.clang_getTypeSpelling(lib.clang_getCanonicalType(ctype))
        plain = libclang.text(lib, canonical).replace("const ", "").strip(" &")
        # enable_if and its kin are how a library picks an overload, no name that an author gave.
        machinery = "<" in spelled and "__" in spelled
        return "" if machinery or spelled == plain or plain.endswith("::" + spelled) else spelled


def _balanced(text: bytes, opening: bytes, closing: bytes) -> str:
    """What stands between the first bracket and its partner."""
    start = text.find(opening)
    if start < 0 or text[:start].strip():
        return ""
    depth = 0
    for position in range(start, len(text)):
        character = text[position : position + 1]
        if character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                return _tidy(text[start + 1 : position])
    return ""


def _tidy(text: bytes) -> str:
    return " ".join(text.decode("utf-8", "replace").split()).removeprefix("typename ").removeprefix("const ")
