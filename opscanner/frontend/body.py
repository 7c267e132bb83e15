"""A function's body as flat arrays: one callback per cursor, no recursion in Python."""

from __future__ import annotations

from typing import Any

from opscanner.frontend import libclang
from opscanner.frontend.cursor_kinds import LAMBDA, PAREN, REFERENCES, UNEVALUATED, UNEXPOSED_EXPR
from opscanner.frontend.float_types import TypeFacts, TypeTable

#: The walk does not go below these: a lambda's body is a function of its own, and unevaluated operands compute nothing.
_STOP = frozenset({LAMBDA, *UNEVALUATED})
#: What libclang puts in place of the expression for a declaration that comes first in its group (``int a, b;``).
_FIRST_IN_GROUP = 1
_TRANSPARENT = frozenset({UNEXPOSED_EXPR, PAREN})


class Body:
    """The cursors below one function in pre-order; index 0 is the function itself.

    Attributes
    ----------
    kinds : list of int
        Cursor kinds.
    cursors : list of CXCursor
        Valid as long as the translation unit is.
    children : list of list of int
        Indices of each cursor's children in source order, references to types and namespaces left out.
    ends : list of int
        One past the last descendant of each cursor.
    """

    def __init__(self, lib: Any, function: libclang.CXCursor, types: TypeTable) -> None:
        cursors: list[libclang.CXCursor] = [function]
        kinds: list[int] = [function.kind]
        parents: list[int | None] = [None]
        add_cursor, add_kind, add_parent = cursors.append, kinds.append, parents.append
        recurse, stop = libclang.RECURSE, libclang.CONTINUE

        def visit(cursor: libclang.CXCursor, parent: libclang.CXCursor, _data: object) -> int:
            kind = cursor.kind
            add_cursor(cursor)
            add_kind(kind)
            below = parent.d1
            add_parent(parent.d0 if below is None or below == _FIRST_IN_GROUP else below)
            return stop if kind in _STOP else recurse

        lib.clang_visitChildren(function, libclang.VISITOR(visit), None)
        self.cursors = cursors
        self.kinds = kinds
        self.children: list[list[int]] = [[] for _ in cursors]
        self.ends = [0] * len(cursors)
        self._link(parents)
        self._lib, self._types = lib, types
        self._facts: list[TypeFacts | None] = [None] * len(cursors)

    def __len__(self) -> int:
        return len(self.cursors)

    def _link(self, parents: list[int | None]) -> None:
        """Turn the parents that libclang named into indices, with the path from the root as the only candidates."""
        cursors, children, kinds, ends = self.cursors, self.children, self.kinds, self.ends
        first = cursors[0]
        path = [0]
        names = [first.d0]
        for index in range(1, len(cursors)):
            wanted = parents[index]
            while names[-1] != wanted and len(names) > 1:
                names.pop()
                ends[path.pop()] = index
            if kinds[index] not in REFERENCES:
                children[path[-1]].append(index)
            cursor = cursors[index]
            path.append(index)
            below = cursor.d1
            names.append(cursor.d0 if below is None or below == _FIRST_IN_GROUP else below)
        for index in path:
            ends[index] = len(cursors)

    def facts(self, index: int) -> TypeFacts:
        """Facts on the type of a cursor."""
        found = self._facts[index]
        if found is None:
            found = self._facts[index] = self._types.of_type(self._lib.clang_getCursorType(self.cursors[index]))
        return found

    def release(self) -> None:
        """Let go of everything that belongs to the walk; a unit holds thousands of bodies until it is done."""
        for kept in (self.cursors, self.kinds, self.children, self.ends, self._facts):
            kept.clear()

    def strip(self, index: int) -> int:
        """The expression below parentheses and implicit nodes."""
        while self.kinds[index] in _TRANSPARENT and len(self.children[index]) == 1:
            index = self.children[index][0]
        return index

    def first_of(self, index: int, kind: int) -> int:
        """First descendant (or the cursor itself) of a kind, -1 when there is none."""
        for position in range(index, self.ends[index]):
            if self.kinds[position] == kind:
                return position
        return -1
