"""The ground of the walk: which handler evaluates a cursor, what is constant, what a condition decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.body import Body
from opscanner.frontend.flow import NO_VALUE, Flow, Value, union
from opscanner.frontend.functions import FunctionTable
from opscanner.frontend.parse import Unit, contents
from opscanner.frontend.recorder import Recorder

_LITERALS = frozenset(
    {ck.INTEGER_LITERAL, ck.FLOATING_LITERAL, ck.IMAGINARY_LITERAL, ck.CHARACTER_LITERAL, ck.BOOL_LITERAL}
)
#: What ``INFINITY``, ``NAN`` and their kind are macros for.
_CONSTANT_BUILTINS = frozenset(
    f"__builtin_{name}{suffix}" for name in ("inf", "huge_val", "nan", "nans") for suffix in ("", "f", "l")
)


class Evaluation:
    """Evaluates the expressions of one body: emits nodes through the recorder, returns the definitions of a value.

    Parameters
    ----------
    unit, functions, body : the unit, its functions, the flattened body

    Attributes
    ----------
    captures : dict
        Variable that a lambda took from outside (or ``this``) -> its node.
    locals : set
        Variables that the body declares.
    """

    def __init__(self, unit: Unit, functions: FunctionTable, body: Body) -> None:
        self.unit, self.functions, self.body = unit, functions, body
        self.lib: Any = unit.lib
        self.flow = Flow()
        self.record = Recorder(unit, functions, body, self.flow)
        self.loop_depth = 0
        self.captures: dict[object, int] = {}
        self.locals: set[object] = set()
        self._constant: dict[int, bool] = {}
        self._table: dict[int, Callable[[int], Value]] = {ck.PAREN: self._pass}
        for kind in (*_LITERALS, ck.STRING_LITERAL, *ck.UNEVALUATED):
            self._table[kind] = _no_value

    def statement(self, index: int) -> Value:
        """Evaluate a statement that no handler is registered for."""
        return self._pass(index)

    def evaluate(self, index: int) -> Value:
        """Definitions that the value of an expression comes from."""
        handler = self._table.get(self.body.kinds[index])
        if handler is not None:
            return handler(index)
        if self.body.kinds[index] >= ck.COMPOUND_STMT - 1:
            return self.statement(index)
        return self._pass(index)

    def _pass(self, index: int) -> Value:
        """Values of all children together."""
        children = self.body.children[index]
        if len(children) == 1:
            return self.evaluate(children[0])
        return union([self.evaluate(child) for child in children])

    def constant(self, index: int) -> bool:
        """True for an expression of nothing but literals and ``constexpr`` names: compilers fold it."""
        found = self._constant.get(index)
        if found is None:
            found = self._constant[index] = self._is_constant(index)
        return found

    def _is_constant(self, index: int) -> bool:
        kind = self.body.kinds[index]
        if kind in _LITERALS or kind in ck.UNEVALUATED:
            return True
        if kind == ck.DECL_REF:
            children = self.body.children[index]  # a template parameter's name holds the argument
            return all(map(self.constant, children)) if children else self._is_constexpr_name(index)
        if kind == ck.CALL:
            if not self.body.facts(index).float_class:
                return self.unit.spelling(self.body.cursors[index]) in _CONSTANT_BUILTINS
            # a literal through the constructor of a float type: Half(0.5)
            children = self.body.children[index]
            return bool(children) and all(map(self.constant, children))
        if kind in (ck.UNEXPOSED_EXPR, ck.PAREN, ck.UNARY, ck.BINARY, ck.CONDITIONAL, ck.INIT_LIST) or (
            kind in ck.EXPLICIT_CASTS
        ):
            children = self.body.children[index]
            return bool(children) and all(self.constant(child) for child in children)
        return False

    def _is_constexpr_name(self, index: int) -> bool:
        referenced = self.body.referenced(index)
        if referenced.kind == ck.ENUM_CONSTANT_DECL or referenced.kind == ck.NON_TYPE_PARAMETER:
            return True
        if referenced.kind != ck.VAR_DECL or self.body.facts(index).record:
            return False
        begin, _end = self.unit.extent(referenced)
        place = self.unit.cursor_place(referenced)
        words = contents(self.unit.path(begin.file))[max(0, begin.offset - 40) : place.offset]
        return b"constexpr" in words.rpartition(b";")[2] and self.evaluated(referenced) is not None

    def evaluated(self, cursor: Any) -> int | None:
        """Value of a constant integer expression, 0 for a constant of another kind, None when it is no constant."""
        result = self.lib.clang_Cursor_Evaluate(cursor)
        if not result:
            return None
        try:
            kind = self.lib.clang_EvalResult_getKind(result)
            if kind == 1:
                return int(self.lib.clang_EvalResult_getAsLongLong(result))
            return 0 if kind else None
        finally:
            self.lib.clang_EvalResult_dispose(result)

    def decided(self, index: int) -> bool | None:
        """What a constant condition decides; None when it depends on a value."""
        for position in range(index, self.body.ends[index]):
            kind = self.body.kinds[position]
            if kind in (ck.PARM_DECL, ck.MEMBER_REF_EXPR, ck.SUBSCRIPT) or (
                kind == ck.DECL_REF and self._names_a_value(position)
            ):
                return None
        value = self.evaluated(self.body.cursors[index])
        return None if value is None else bool(value)

    def _names_a_value(self, index: int) -> bool:
        referenced = self.body.referenced(index)
        if referenced.kind == ck.PARM_DECL:
            return True
        return referenced.kind == ck.VAR_DECL and referenced.d0 in self.flow.environment


def _no_value(_index: int) -> Value:
    return NO_VALUE
