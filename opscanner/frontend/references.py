"""A quick walk for bodies that are known to hold no floating-point operation: only whom they call.

Launch machinery (``gpu_kernel``, ``launch_vectorized_kernel`` ...) is instantiated once for every lambda, and is half
of all cursors of an element-wise kernel's unit. Where one instance of a body held no node, another one with the same
formats holds none either: what differs is who is called.
"""

from __future__ import annotations

from typing import Any

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend import libclang
from opscanner.frontend.flow import Environment
from opscanner.frontend.functions import FunctionFacts, FunctionTable
from opscanner.frontend.parse import Unit
from opscanner.frontend.recorder import PendingCall
from opscanner.frontend.statements import BodyWalk

_STOP = frozenset({ck.LAMBDA, *ck.UNEVALUATED})
_NAMES = frozenset({ck.CALL, ck.DECL_REF, ck.LAMBDA})


class References:
    """Functions and lambdas that a body refers to, in order of first mention.

    Parameters
    ----------
    unit, functions : the unit, its functions
    function : CXCursor
        The body's function.
    everything : bool
        Functions of libraries too, not only those to be followed.
    """

    def __init__(
        self, unit: Unit, functions: FunctionTable, function: libclang.CXCursor, *, everything: bool = False
    ) -> None:
        self.cursors = 0
        self._everything = everything
        self.functions: dict[int | None, FunctionFacts] = {}
        self.lambdas: list[FunctionFacts] = []
        self._unit, self._table = unit, functions
        for cursor in self._named(unit.lib, function):
            if cursor.kind == ck.LAMBDA:
                self._lambda(cursor)
            else:
                self._function(unit.lib.clang_getCursorReferenced(cursor))

    def _named(self, lib: Any, function: libclang.CXCursor) -> list[libclang.CXCursor]:
        found: list[libclang.CXCursor] = []
        count = 0

        def visit(cursor: libclang.CXCursor, _parent: object, _data: object) -> int:
            nonlocal count
            count += 1
            kind = cursor.kind
            if kind in _NAMES:
                found.append(cursor)
            return libclang.CONTINUE if kind in _STOP else libclang.RECURSE

        lib.clang_visitChildren(function, libclang.VISITOR(visit), None)
        self.cursors = count
        return found

    def _function(self, referenced: libclang.CXCursor) -> None:
        if referenced.kind in ck.FUNCTION_LIKE:
            facts = self._table.of(referenced)
            if (facts.follow or self._everything) and facts.has_body:
                self.functions[facts.cursor.d0] = facts

    def _lambda(self, cursor: libclang.CXCursor) -> None:
        for facts in self._table.call_operators(self._unit.lib.clang_getCursorType(cursor)):
            if facts.follow:
                self.functions[facts.cursor.d0] = facts
                self.lambdas.append(facts)

    def fill(self, walk: BodyWalk, like: BodyWalk) -> None:
        """Make ``walk`` what a whole walk would have made of it, given a walk of the same body for other callees."""
        walk.is_global, walk.is_device, walk.is_host = like.is_global, like.is_device, like.is_host
        walk.parameters, walk.aliases = list(like.parameters), list(like.aliases)
        walk.reached_functions = self.functions
        nothing: Environment = {}
        walk.lambdas = [(facts, nothing) for facts in self.lambdas]
        walk.record.calls = [
            PendingCall(-1, pointer, (), facts.place.line) for pointer, facts in self.functions.items()
        ]
