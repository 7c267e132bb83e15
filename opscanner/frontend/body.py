"""A function's body as flat arrays: one callback per cursor, no recursion in Python."""

from __future__ import annotations

from typing import Any

from opscanner.frontend import libclang
from opscanner.frontend.cursor_kinds import (
    COMPOUND_STMT,
    DECL_REF,
    LAMBDA,
    PAREN,
    REFERENCES,
    UNEVALUATED,
    UNEXPOSED_EXPR,
    VAR_DECL,
    VARIABLE_REF,
)
from opscanner.frontend.float_types import TypeFacts, TypeTable

#: The walk does not go below these: a lambda's body is a function of its own, and unevaluated operands compute nothing.
#: Below a lambda stand the names that it captures, and the variables that its captures declare (``[b = expression]``);
#: libclang 22.1.4 leaves out the outermost operation of a capture's initializer unless asked for that variable.
_STOP = frozenset({LAMBDA, *UNEVALUATED})
#: What libclang puts in place of the expression for a declaration that comes first in its group (``int a, b;``).
_FIRST_IN_GROUP = 1
_TRANSPARENT = frozenset({UNEXPOSED_EXPR, PAREN})


def _at(lib: Any, cursor: libclang.CXCursor) -> int:
    return int(lib.clang_getCursorLocation(cursor).data)


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
        children: list[list[int]] = [[]]
        ends: list[int] = [0]
        # the path from the function down to the present cursor: its indices, and what libclang calls them as parents
        path, names = [0], [function.d0]
        lambdas: list[libclang.CXCursor] = []
        recurse, stop = libclang.RECURSE, libclang.CONTINUE

        def visit(cursor: libclang.CXCursor, parent: libclang.CXCursor, _data: object) -> int:
            index, kind, wanted = len(kinds), cursor.kind, parent.d1
            if wanted is None or wanted == _FIRST_IN_GROUP:
                wanted = parent.d0
            while names[-1] != wanted and len(names) > 1:
                names.pop()
                ends[path.pop()] = index
            if kind not in REFERENCES:
                children[path[-1]].append(index)
            cursors.append(cursor)
            kinds.append(kind)
            children.append([])
            ends.append(0)
            own = cursor.d1
            path.append(index)
            names.append(cursor.d0 if own is None or own == _FIRST_IN_GROUP else own)
            if kind not in _STOP:
                return recurse
            if kind == LAMBDA:
                lambdas.append(cursor)
                lib.clang_visitChildren(cursor, captures, None)
                lambdas.pop()
            return stop

        def capture(cursor: libclang.CXCursor, _parent: object, _data: object) -> int:
            kind = cursor.kind
            if kind == DECL_REF:
                visit(cursor, lambdas[-1], None)
            elif kind == VARIABLE_REF:
                variable = lib.clang_getCursorReferenced(cursor)
                if variable.kind == VAR_DECL and _at(lib, variable) == _at(lib, cursor):
                    visit(variable, lambdas[-1], None)
                    lib.clang_visitChildren(variable, visitor, None)
            return recurse if UNEXPOSED_EXPR <= kind < COMPOUND_STMT else stop

        visitor, captures = libclang.VISITOR(visit), libclang.VISITOR(capture)
        lib.clang_visitChildren(function, visitor, None)
        for index in path:
            ends[index] = len(kinds)
        self.cursors, self.kinds, self.children, self.ends = cursors, kinds, children, ends
        self._lib, self._types = lib, types
        self._facts: list[TypeFacts | None] = [None] * len(cursors)
        self._referenced: dict[int, libclang.CXCursor] = {}
        self._operators: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.cursors)

    def facts(self, index: int) -> TypeFacts:
        """Facts on the type of a cursor."""
        found = self._facts[index]
        if found is None:
            ctype = self._lib.clang_getCursorType(self.cursors[index])
            found = self._types.known.get(ctype.d0) or self._types.of_type(ctype)
            self._facts[index] = found
        return found

    def referenced(self, index: int) -> libclang.CXCursor:
        """The declaration that an expression names."""
        found = self._referenced.get(index)
        if found is None:
            found = self._referenced[index] = self._lib.clang_getCursorReferenced(self.cursors[index])
        return found

    def binary_operator(self, index: int) -> int:
        """``CXBinaryOperatorKind`` of an operator or compound assignment."""
        found = self._operators.get(index)
        if found is None:
            found = self._operators[index] = self._lib.clang_getCursorBinaryOperatorKind(self.cursors[index])
        return found

    def release(self) -> None:
        """Let go of everything that belongs to the walk; a unit holds thousands of bodies until it is done."""
        for kept in (
            self.cursors,
            self.kinds,
            self.children,
            self.ends,
            self._facts,
            self._referenced,
            self._operators,
        ):
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
