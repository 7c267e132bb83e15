"""Statements: definitions, branches, loops, returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.eigen_calls import EigenWalk
from opscanner.frontend.expressions import THIS
from opscanner.frontend.flow import NO_VALUE, Environment, Value, union
from opscanner.ir import NodeKind
from opscanner.precision.formats import is_floating

_MAY_ASSIGN = frozenset({ck.BINARY, ck.COMPOUND_ASSIGN, ck.UNARY, ck.CALL})
_ASSIGNMENTS = frozenset(f"operator{sign}=" for sign in ("", "+", "-", "*", "/", "%", "|", "&", "^", "<<", ">>"))


class BodyWalk(EigenWalk):
    """The walk of one whole function body.

    Attributes
    ----------
    parameters : list of int
        Node of each parameter, -1 for those that carry no float.
    returns : list of int
        RETURN nodes.
    aliases : list of (str, str)
        Type aliases that the body declares for a format: ``scalar_t`` of a dispatch macro.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.parameters: list[int] = []
        self.returns: list[int] = []
        self._assigning: list[tuple[int, int]] | None = None
        self.aliases: list[tuple[str, str]] = []
        self.is_global = self.is_device = self.is_host = False
        self._breaks: list[tuple[Environment, bool]] = []
        self._entry: tuple[Environment, bool] | None = None
        self._statements: dict[int, Callable[[int], Value]] = {
            ck.COMPOUND_STMT: self._sequence,
            ck.DECL_STMT: self._sequence,
            ck.IF: self._if,
            ck.SWITCH: self._switch,
            ck.CASE: self._case,
            ck.DEFAULT: self._case,
            ck.FOR: self._for,
            ck.WHILE: self._while,
            ck.DO: self._do,
            ck.RANGE_FOR: self._range_for,
            ck.BREAK: self._break,
            ck.RETURN: self._return,
        }
        self._table.update(self._statements)
        self._table[ck.VAR_DECL] = self._variable
        self._table[ck.UNEXPOSED_DECL] = self._bindings
        self._table[ck.TYPE_ALIAS_DECL] = self._alias
        self._table[ck.TYPEDEF_DECL] = self._alias

    def walk(self) -> None:
        """Walk the function: attributes, parameters, member initializers, body."""
        kinds, children = self.body.kinds, self.body.children[0]
        self.is_global = any(kinds[child] == ck.CUDA_GLOBAL for child in children)
        self.is_device = self.is_global or any(kinds[child] == ck.CUDA_DEVICE for child in children)
        self.is_host = not self.is_device or any(kinds[child] == ck.CUDA_HOST for child in children)
        for child in children:
            if kinds[child] == ck.PARM_DECL:
                self._parameter(child)
            elif kinds[child] == ck.COMPOUND_STMT or ck.UNEXPOSED_EXPR <= kinds[child] < ck.COMPOUND_STMT:
                self.evaluate(child)

    def _sequence(self, index: int) -> Value:
        value = NO_VALUE
        for child in self.body.children[index]:
            value = self.evaluate(child)
        return value

    # -- definitions ---------------------------------------------------------------------------------------------

    def _parameter(self, index: int) -> None:
        facts = self.body.facts(index)
        variable = self.body.cursors[index].d0
        self.locals.add(variable)
        shown = facts.format if facts.floating else facts.pointee if is_floating(facts.pointee) else ""
        if not shown and not facts.record:
            self.parameters.append(-1)
            return
        name = self.unit.spelling(self.body.cursors[index])
        node = self.record.node(NodeKind.PARAMETER, index, name, shown, lanes=facts.lanes)
        self.parameters.append(node)
        self.flow.define(variable, (node,))

    def _variable(self, index: int) -> Value:
        facts = self.body.facts(index)
        variable = self.body.cursors[index].d0
        self.locals.add(variable)
        children = [child for child in self.body.children[index][-1:] if self._initializes(index, child)]
        value = self.evaluate(children[0]) if children else NO_VALUE
        if facts.floating:
            name = self.unit.spelling(self.body.cursors[index])
            if value or children:
                value = (self.record.node(NodeKind.VARIABLE, index, name, facts.format, value, lanes=facts.lanes),)
        self.flow.define(variable, value)
        return value

    def _bindings(self, index: int) -> Value:
        """``auto [a, b] = p``: every part comes from the whole."""
        children = self.body.children[index]
        parts = [child for child in children if self.body.kinds[child] == ck.UNEXPOSED_DECL]
        value = union([self.evaluate(child) for child in children if child not in parts])
        for part in parts:
            variable = self.body.cursors[part].d0
            self.locals.add(variable)
            self.flow.define(variable, value)
        return value

    def _initializes(self, index: int, child: int) -> bool:
        """False for what stands in the variable's type: the operand of ``decltype``, the size of an array."""
        initializer = self.lib.clang_Cursor_getVarDeclInitializer(self.body.cursors[index])
        return bool(initializer.d1 == self.body.cursors[child].d1)

    def _alias(self, index: int) -> Value:
        facts = self.body.facts(index)
        if facts.floating:
            self.aliases.append((self.unit.spelling(self.body.cursors[index]), facts.format))
        return NO_VALUE

    def _return(self, index: int) -> Value:
        children = self.body.children[index]
        if children:
            value = self.evaluate(children[0])
            facts = self.body.facts(children[0])
            if value or facts.floating:
                shown = facts.format if facts.floating else facts.pointee
                node = self.record.node(NodeKind.RETURN, index, "return", shown, value, lanes=facts.lanes)
                self.returns.append(node)
        self.flow.alive = False
        return NO_VALUE

    # -- branches ------------------------------------------------------------------------------------------------

    def _if(self, index: int) -> Value:
        children = list(self.body.children[index])
        while len(children) > 1 and self.body.kinds[children[0]] in (ck.DECL_STMT, ck.VAR_DECL):
            self.evaluate(children.pop(0))
        if not children:
            return NO_VALUE
        condition, branches = children[0], children[1:3]
        self.evaluate(condition)
        decided = self.decided(condition) if branches else None
        start = self.flow.split()
        self._branch(branches[0] if branches else -1, decided is not False)
        after = self.flow.resume(start)
        self._branch(branches[1] if len(branches) > 1 else -1, decided is not True)
        self.flow.join(after)
        return NO_VALUE

    def _branch(self, index: int, reached: bool) -> None:
        before = self.record.reached
        self.record.reached = before and reached
        if index >= 0:
            self.evaluate(index)
        self.record.reached = before

    def _switch(self, index: int) -> Value:
        children = self.body.children[index]
        for child in children[:-1]:
            self.evaluate(child)
        outer = self._entry, self._breaks
        self._entry, self._breaks = self.flow.split(), []
        if children:
            self.evaluate(children[-1])
        if not self._has_default(index):
            self.flow.join(self._copied(self._entry))
        for state in self._breaks:
            self.flow.join(state)
        self._entry, self._breaks = outer
        return NO_VALUE

    def _has_default(self, index: int) -> bool:
        return self.body.first_of(index, ck.DEFAULT) >= 0

    @staticmethod
    def _copied(state: tuple[Environment, bool]) -> tuple[Environment, bool]:
        return dict(state[0]), state[1]

    def _case(self, index: int) -> Value:
        """Control comes from the case before, or from the head of the switch."""
        children = self.body.children[index]
        if self._entry is not None:
            self.flow.join(self._copied(self._entry))
        for child in children[-1:]:
            self.evaluate(child)
        return NO_VALUE

    def _break(self, index: int) -> Value:
        self._breaks.append(self.flow.split())
        self.flow.alive = False
        return NO_VALUE

    # -- loops ---------------------------------------------------------------------------------------------------

    def _assignments(self) -> list[tuple[int, int]]:
        """(place, target) of everything in the body that may assign, found once for all its loops."""
        found = self._assigning
        if found is None:
            found, body = [], self.body
            for position, kind in enumerate(body.kinds):
                if kind not in _MAY_ASSIGN or not body.children[position]:
                    continue
                if kind == ck.BINARY and body.binary_operator(position) != ck.ASSIGN:
                    continue
                if kind == ck.CALL and not self._is_assignment_operator(position):
                    continue
                found.append((position, body.strip(body.children[position][0])))
            self._assigning = found
        return found

    def _is_assignment_operator(self, index: int) -> bool:
        referenced = self.body.referenced(index)
        return referenced.kind in ck.FUNCTION_LIKE and self.functions.of(referenced).name in _ASSIGNMENTS

    def _assigned(self, index: int) -> dict[object, int]:
        """Variables and members that a loop assigns, each with the expression that names it."""
        found: dict[object, int] = {}
        body, end = self.body, self.body.ends[index]
        for position, target in self._assignments():
            if not index <= position < end:
                continue
            if body.kinds[target] == ck.MEMBER_REF_EXPR:
                variable, key = self._member_key(target)
                if variable is not None:
                    found.setdefault(key, target)
            reference = body.first_of(target, ck.DECL_REF)
            if reference >= 0:
                found.setdefault(self.variable(reference), reference)
        return found

    def _loop(self, index: int, once: list[int], every: list[int], fresh: tuple[object, ...] = ()) -> Value:
        """Parts that run once before the loop, then those of each iteration, which has its own ``fresh`` variables."""
        for child in once:
            self.evaluate(child)
        assigned = self._assigned(index)
        for key, target in assigned.items():
            if isinstance(key, tuple) and key[0] is THIS and key not in self.flow.environment:
                self.flow.define(key, self.evaluate(target))
        markers = self.flow.enter_loop(key for key in assigned if key not in fresh)
        start = self.flow.split()
        outer, self._breaks = self._breaks, []
        self.loop_depth += 1
        self.places.enter(every, fresh)
        for child in every:
            self.evaluate(child)
        self.places.leave()
        self.loop_depth -= 1
        self.flow.leave_loop(markers)
        self.flow.join(start)
        for state in self._breaks:
            self.flow.join(state)
        self._breaks = outer
        return NO_VALUE

    def _for(self, index: int) -> Value:
        children = self.body.children[index]
        before, body = children[:-1], children[-1:]
        first = before[:1] if before and self.body.kinds[before[0]] == ck.DECL_STMT else []
        rest = before[len(first) :]
        if len(rest) > 1:
            return self._loop(index, first, [*rest[:-1], *body, rest[-1]])
        return self._loop(index, first, [*rest, *body])

    def _while(self, index: int) -> Value:
        return self._loop(index, [], self.body.children[index])

    def _do(self, index: int) -> Value:
        return self._loop(index, [], self.body.children[index])

    def _range_for(self, index: int) -> Value:
        children = self.body.children[index]
        if not children:
            return NO_VALUE
        ranges = [child for child in children[:-1] if self.body.kinds[child] != ck.VAR_DECL]
        value = union([self.evaluate(child) for child in ranges])
        fresh: tuple[object, ...] = ()
        for child in children[:-1]:
            if self.body.kinds[child] == ck.VAR_DECL:
                variable = self.body.cursors[child].d0
                self.locals.add(variable)
                facts = self.body.facts(child)
                if facts.floating:
                    name = self.unit.spelling(self.body.cursors[child])
                    value = (self.record.node(NodeKind.LOAD, child, name, facts.format, value),)
                self.flow.define(variable, value)
                fresh = (*fresh, variable)
        return self._loop(index, [], children[-1:], fresh)
