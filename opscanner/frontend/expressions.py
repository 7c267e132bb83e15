"""Names, memory and operators: what an expression computes, in which format, from which definitions."""

from __future__ import annotations

from typing import Any

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.float_types import TypeFacts
from opscanner.frontend.flow import NO_VALUE, Value, union
from opscanner.frontend.sums import SumWalk
from opscanner.ir import CastForm, EdgeKind, NodeKind
from opscanner.precision.formats import is_floating

_RANK = {"float64": 5, "float32": 4, "tfloat32": 3, "bfloat16": 2, "float16": 2}
THIS = "this"


class ExpressionWalk(SumWalk):
    """Adds names, memory and builtin operators to the walk of casts and sums."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._table.update(
            {
                ck.DECL_REF: self._declaration,
                ck.MEMBER_REF_EXPR: self._member,
                ck.SUBSCRIPT: self._load,
                ck.BINARY: self._binary,
                ck.COMPOUND_ASSIGN: self._compound,
                ck.UNARY: self._unary,
                ck.CONDITIONAL: self._conditional,
                ck.FLOATING_LITERAL: self._literal,
            }
        )

    # -- names and memory ----------------------------------------------------------------------------------------

    def _declaration(self, index: int) -> Value:
        facts = self.body.facts(index)
        if not (facts.format or facts.pointee or facts.record):
            return NO_VALUE
        variable = self.variable(index)
        if variable is None:
            return NO_VALUE
        value = self.flow.environment.get(variable)
        if value is not None:
            return value
        if variable in self.locals or not (facts.floating or is_floating(facts.pointee) or facts.record):
            return NO_VALUE
        return (self._capture(index, variable, facts),)

    def _capture(self, index: int, variable: object, facts: TypeFacts) -> int:
        node = self.captures.get(variable)
        if node is None:
            name = self.unit.spelling(self.body.cursors[index])
            node = self.record.node(NodeKind.CAPTURE, index, name, facts.format or facts.pointee, lanes=facts.lanes)
            self.captures[variable] = node
            self.flow.environment[variable] = (node,)
        return node

    def _member(self, index: int) -> Value:
        children = self.body.children[index]
        facts = self.body.facts(index)
        variable, key = self._member_key(index)
        if variable is not None:
            known = self.flow.environment.get(key)
            if known is not None:
                return known
        base = self.evaluate(children[0]) if children else self._this(index, facts)
        if not facts.floating or self.body.facts(children[0]).float_class if children else not facts.floating:
            return base
        if variable is not None and base:
            return base
        name = self.unit.spelling(self.body.cursors[index])
        return (self._read(index, name, facts, base),)

    def _this(self, index: int, facts: TypeFacts) -> Value:
        """The object that a method reads a floating member from: a parameter that is not written."""
        value = self.flow.environment.get(THIS)
        if value is None and (facts.floating or facts.record or is_floating(facts.pointee)):
            value = (self.record.node(NodeKind.PARAMETER, index, THIS, ""),)
            self.captures[THIS] = value[0]
            self.flow.environment[THIS] = value
        return value or NO_VALUE

    def _member_key(self, index: int) -> tuple[object, object]:
        """(variable, identity of its member) for ``local.member`` and ``this->member``."""
        children = self.body.children[index]
        member = self.body.referenced(index).d0
        if not children:
            return THIS, (THIS, member)
        base = self.body.strip(children[0])
        if self.body.kinds[base] == ck.DECL_REF:
            variable = self.variable(base)
            if variable is not None and not self.body.facts(base).pointee:
                return variable, (variable, member)
        return None, None

    def _load(self, index: int) -> Value:
        value = self._pass(index)
        facts = self.body.facts(index)
        if not facts.floating:
            return value
        return (self._read(index, "[]", facts, value),)

    def _read(self, index: int, name: str, facts: TypeFacts, value: Value) -> int:
        node = self.record.node(NodeKind.LOAD, index, name, facts.format, value, lanes=facts.lanes)
        self.reads[node] = index
        return node

    def _literal(self, index: int) -> Value:
        facts = self.body.facts(index)
        return (self.record.node(NodeKind.LITERAL, index, "literal", facts.format, constant=True),)

    # -- operators -----------------------------------------------------------------------------------------------

    def _binary(self, index: int) -> Value:
        children = self.body.children[index]
        code = self.body.binary_operator(index)
        if code == ck.ASSIGN and len(children) == 2:
            return self.assign(index, children[0], self.evaluate(children[1]))
        values = [self.evaluate(child) for child in children]
        facts = self.body.facts(index)
        if code in ck.ARITHMETIC_OPERATORS:
            if not facts.floating:
                return union(values) if facts.pointee else NO_VALUE
            operation = ck.ARITHMETIC_OPERATORS[code]
            return (self.arithmetic(index, operation, facts, union(values), self.constant(index)),)
        if code in ck.COMPARISON_OPERATORS and len(children) == 2:
            return self.comparison(index, ck.COMPARISON_OPERATORS[code], children, union(values))
        if code == ck.COMMA:
            return values[-1] if values else NO_VALUE
        if code in (ck.LOGICAL_AND, ck.LOGICAL_OR):
            return union(values)
        return NO_VALUE

    def arithmetic(self, index: int, operation: str, facts: TypeFacts, value: Value, constant: bool = False) -> int:
        return self.record.node(
            NodeKind.ARITHMETIC,
            index,
            operation,
            facts.format,
            value,
            lanes=facts.lanes,
            category="arith",
            constant=constant,
        )

    def comparison(self, index: int, operation: str, children: list[int], value: Value) -> Value:
        formats = [self.body.facts(child).format for child in children]
        floating = [f for f in formats if is_floating(f)]
        if not floating:
            return NO_VALUE
        widest = max(floating, key=lambda name: _RANK.get(name, 1))
        return (self.record.node(NodeKind.COMPARISON, index, operation, widest, value, category="compare"),)

    def assign(self, index: int, target: int, value: Value) -> Value:
        """Store ``value`` to what the expression ``target`` names; the value of the assignment."""
        facts = self.body.facts(target)
        stripped = self.body.strip(target)
        kind = self.body.kinds[stripped]
        if kind == ck.DECL_REF:
            variable = self.variable(stripped)
            if variable is not None:
                return self._define(index, stripped, variable, facts, value)
        if kind == ck.MEMBER_REF_EXPR:
            variable, key = self._member_key(stripped)
            if variable is not None:
                name = self.unit.spelling(self.body.cursors[stripped])
                if facts.floating:
                    before = self.flow.environment.get(key) or self.flow.environment.get(variable, NO_VALUE)
                    self.mark_member(index, stripped, value, before, facts)
                    store = NodeKind.STORE if variable is THIS else NodeKind.VARIABLE
                    value = (self.record.node(store, index, name, facts.format, value, lanes=facts.lanes),)
                self.flow.define(key, value)
                if variable is not THIS:
                    self.flow.add(variable, value)
                return value
        base = self.address(stripped)
        if not facts.floating:
            return value
        self.mark_memory(stripped, value, facts)
        node = self.record.node(NodeKind.STORE, index, "=", facts.format, value, lanes=facts.lanes)
        variable = self.base_variable(stripped)
        if variable is not None and (variable in self.locals or base == NO_VALUE):
            self.flow.add(variable, (node,))
        return (node,)

    def _define(self, index: int, target: int, variable: object, facts: TypeFacts, value: Value) -> Value:
        if facts.floating:
            name = self.unit.spelling(self.body.cursors[target])
            before = self.flow.environment.get(variable, NO_VALUE)
            self.mark_variable(index, target, value, before, facts)
            value = (self.record.node(NodeKind.VARIABLE, index, name, facts.format, value, lanes=facts.lanes),)
        self.flow.define(variable, value)
        return value

    def address(self, index: int) -> Value:
        """Definitions behind an lvalue without loading from it."""
        return union([self.evaluate(child) for child in self.body.children[index]])

    def base_variable(self, index: int) -> object:
        """The variable that ``a[i].b`` or ``*p`` starts from, None when there is none."""
        reference = self.body.first_of(index, ck.DECL_REF)
        return self.variable(reference) if reference >= 0 else None

    def _compound(self, index: int) -> Value:
        children = self.body.children[index]
        code = self.body.binary_operator(index)
        operation = ck.COMPOUND_OPERATORS.get(code, "")
        if len(children) != 2 or not operation:
            return self._pass(index)
        left, right = self.body.facts(children[0]), self.body.facts(children[1])
        value = self.evaluate(children[1])
        if not (left.floating or right.floating):
            return NO_VALUE
        computed = right if right.floating and _RANK.get(right.format, 1) > _RANK.get(left.format, 0) else left
        return self.update(index, children[0], operation, left, computed, value)

    def update(
        self, index: int, target: int, operation: str, left: TypeFacts, computed: TypeFacts, value: Value
    ) -> Value:
        """``target op= value``, computed in the format of ``computed`` and narrowed back if that is another."""
        old = self.evaluate(target)
        form = CastForm.COMPOUND_ASSIGNMENT
        widened = self.cast(index, old, left.format, computed.format, form)
        node = self.arithmetic(index, operation, computed, union((widened, value)))
        self.mark_update(node, index, target, old, left)
        result = self.cast(index, (node,), computed.format, left.format, form)
        return self.assign(index, target, result)

    def _unary(self, index: int) -> Value:
        children = self.body.children[index]
        code = self.lib.clang_getCursorUnaryOperatorKind(self.body.cursors[index])
        facts = self.body.facts(index)
        if code == ck.ADDRESS_OF and children:
            stripped = self.body.strip(children[0])
            kind = self.body.kinds[stripped]
            return self.evaluate(stripped) if kind == ck.DECL_REF else self.address(stripped)
        if code == ck.DEREFERENCE:
            return self._load(index) if facts.floating else self._pass(index)
        value = self._pass(index)
        if not facts.floating:
            return value if facts.pointee or facts.record else NO_VALUE
        if code == ck.MINUS:
            return (self.arithmetic(index, "-", facts, value, self.constant(index)),)
        if code in (ck.PRE_INCREMENT, ck.POST_INCREMENT, ck.PRE_DECREMENT, ck.POST_DECREMENT):
            operation = "+" if code in (ck.PRE_INCREMENT, ck.POST_INCREMENT) else "-"
            return self.assign(index, children[0], (self.arithmetic(index, operation, facts, value),))
        return value

    def _conditional(self, index: int) -> Value:
        children = self.body.children[index]
        if len(children) != 3:
            return self._pass(index)
        condition = self.evaluate(children[0])
        decided = self.decided(children[0])
        values = []
        for child, wanted in zip(children[1:], (True, False), strict=True):
            before = self.record.reached
            self.record.reached = before and (decided is None or decided is wanted)
            values.append(self.evaluate(child))
            self.record.reached = before
        facts = self.body.facts(index)
        if not facts.floating:
            return union(values)
        node = self.record.node(NodeKind.SELECTION, index, "?:", facts.format, union(values), lanes=facts.lanes)
        for source in condition:
            self.record.edge(source, node, EdgeKind.CONTROL)
        return (node,)
