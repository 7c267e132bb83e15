"""Calls into Eigen: expressions, their assignment to a device, functors, packet functions, reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opscanner.frameworks.eigen import PACKET_FUNCTIONS, SCALAR_REDUCTIONS
from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.calls import CallWalk
from opscanner.frontend.eigen import Expression, ExpressionTypes, computing, reducing
from opscanner.frontend.flow import Value, union
from opscanner.frontend.functions import FunctionFacts, Role
from opscanner.ir import CastForm, NodeKind
from opscanner.precision.formats import is_floating

_COMPOUND = {"operator+=": "+", "operator-=": "-", "operator*=": "*", "operator/=": "/"}
_FUNCTOR_METHODS = ("operator()", "packetOp")
_GIVEN_A_FUNCTOR = ("unaryExpr", "binaryExpr", "ternaryExpr", "customOp", "generate")
_GPU_DEVICE = "GpuDevice"
#: What hands on bits as they are, whatever type they get.
_KEEPS_BITS = frozenset(["bit_cast", "raw_uint16_to_half", "raw_uint16_to_bfloat16", "raw_half_as_uint16"])
_CHOOSES = {"maxi": "max", "mini": "min"}


class EigenWalk(CallWalk):
    """Adds what a call of Eigen means.

    Attributes
    ----------
    expressions : ExpressionTypes
        Reads the types of expressions.
    callbacks : callable
        The framework's own functions that a function of Eigen comes to call.
    """

    expressions: ExpressionTypes
    callbacks: Callable[[FunctionFacts], tuple[FunctionFacts, ...]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._roles[Role.EIGEN] = self._eigen
        self._lazy: set[int] = set()

    def _class_assignment(self, index: int, facts: FunctionFacts) -> Value:
        if facts.role is not Role.EIGEN:
            return super()._class_assignment(index, facts)
        receiver, arguments = self._operands(index, facts)
        operands = receiver + arguments
        return self._eigen_assignment(index, facts, operands, [self.evaluate(operand) for operand in operands])

    def _eigen(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        value = union(values)
        self._call_all_back(facts)
        if facts.name in _COMPOUND:
            return self._eigen_assignment(index, facts, operands, values)
        found = self._what_it_does(index, facts, operands)
        if found is not None:
            return self._expression_node(self._named_at(index), found, value)
        plain = self.body.facts(index).floating and not facts.owner.record and facts.cursor.kind != ck.CONSTRUCTOR
        return self._plain_function(index, facts, value) if plain else value

    def _ordinary(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        """The framework's own functor in Eigen's namespace, called directly: a call that says what it computes."""
        value = super()._ordinary(index, facts, operands, values)
        if facts.name in _FUNCTOR_METHODS and facts.scope.startswith("Eigen::") and len(value) == 1:
            parent = self.lib.clang_getCursorSemanticParent(facts.cursor)
            found = self.expressions.functor(self.lib.clang_getCursorType(parent), category="functor")
            if found is not None and self.record.nodes[value[0]].kind is NodeKind.CALL:
                self.record.amend(value[0], kind=found.kind, operation=found.operation, category=found.category)
        return value

    def _named_at(self, index: int) -> int:
        """Where a call names its method: a chain of calls over several lines begins at its first line."""
        for child in self.body.children[index][:1]:
            stripped = self.body.strip(child)
            if self.body.kinds[stripped] == ck.MEMBER_REF_EXPR:
                return stripped
        return index

    def _what_it_does(self, index: int, facts: FunctionFacts, operands: list[int]) -> Expression | None:
        """What a call computes at once or stands for; None when nothing."""
        if facts.cursor.kind == ck.CONSTRUCTOR:
            return None
        result = self.body.facts(index)
        if facts.name in PACKET_FUNCTIONS and facts.scope == "Eigen::internal":
            return self._packet(facts, result.format)
        if facts.name in _FUNCTOR_METHODS:
            functor = self.lib.clang_getCursorType(self.lib.clang_getCursorSemanticParent(facts.cursor))
            return self.expressions.functor(functor, category="functor")
        if result.floating:
            if facts.name in SCALAR_REDUCTIONS:
                return reducing(SCALAR_REDUCTIONS[facts.name], result.format)
            return None
        found = self._layer(index, operands)
        if found is not None and facts.name in _GIVEN_A_FUNCTOR and found.category in ("arith", "math"):
            return found._replace(category="functor")
        return found

    def _layer(self, index: int, operands: list[int]) -> Expression | None:
        """The layer that a method puts on an expression: none when it hands on what it was given."""
        get_type, canonical = self.lib.clang_getCursorType, self.lib.clang_getCanonicalType
        unqualified = self.lib.clang_getUnqualifiedType
        made = unqualified(canonical(get_type(self.body.cursors[index]))).d0
        for operand in operands:
            given = canonical(get_type(self.body.cursors[self.body.strip(operand)]))
            if unqualified(given).d0 == made:
                return None
        return self.expressions.of(get_type(self.body.cursors[index]))

    def _packet(self, facts: FunctionFacts, computed: str) -> Expression | None:
        operation = PACKET_FUNCTIONS[facts.name]
        formats = [computed, *(parameter.format for parameter in facts.parameters), self._functor_format()]
        computed = next((found for found in formats if is_floating(found)), "")
        if not computed:
            return None
        return reducing(operation, computed) if operation in ("sum", "prod") else computing(operation, computed)

    def _functor_format(self) -> str:
        """Format of the functor whose method this is: a packet of halves is a ``ulonglong2`` to clang."""
        parent = self.lib.clang_getCursorSemanticParent(self.body.cursors[0])
        return self.expressions.scalar(self.lib.clang_getCursorType(parent)) if parent.kind in ck.CLASS_LIKE else ""

    def _expression_node(self, index: int, found: Expression, value: Value) -> Value:
        if found.kind is NodeKind.CAST:
            before = len(self.record.nodes)
            result = self.cast(index, value, found.from_format, found.format, CastForm.EXPRESSION, found.operation)
            self._lazy.update(range(before, len(self.record.nodes)))
            return result
        accumulator = found.format if found.kind is NodeKind.REDUCTION else ""
        node = self.record.node(
            found.kind, index, found.operation, found.format, value, accumulator=accumulator, category=found.category
        )
        self._lazy.add(node)
        return (node,)

    def _plain_function(self, index: int, facts: FunctionFacts, value: Value) -> Value:
        """A function of Eigen on numbers: a choice, a change of format, or a call like any other."""
        result = self.body.facts(index)
        if facts.name in _KEEPS_BITS:
            return value
        if facts.name in _CHOOSES:
            node = self.record.node(
                NodeKind.SELECTION, index, _CHOOSES[facts.name], result.format, value, category="select"
            )
            return (node,)
        sources = {parameter.format for parameter in facts.parameters if parameter.floating}
        if len(facts.parameters) == 1 and sources and sources != {result.format}:
            return self.cast(index, value, sources.pop(), result.format, CastForm.HELPER_CALL, facts.name)
        if sources == {result.format} and facts.name in ("conj", "real"):
            return value
        return (self._call_node(index, facts.name, result, value),)

    # -- assignment ----------------------------------------------------------------------------------------------

    def _eigen_assignment(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        """``x.device(d) = expression`` and ``x += expression``: what runs the expression."""
        self._call_all_back(facts)
        if len(operands) != 2:
            return union(values)
        target = self.lib.clang_getCursorType(self.body.cursors[operands[0]])
        computed = self.expressions.scalar(target)
        value = values[1]
        on_gpu = self.expressions.device_of(target) == _GPU_DEVICE
        if computed and facts.name in _COMPOUND:
            value = self._expression_node(index, computing(_COMPOUND[facts.name], computed), union(values))
        if on_gpu:
            self._mark_on_device(value)
        stored = value
        assignable = self.expressions.is_assignable(target)
        if computed and assignable:
            stored = (self.record.node(NodeKind.STORE, index, "=", computed, value),)
        variable = self.base_variable(operands[0])
        if variable is not None:
            if assignable:
                self.flow.add(variable, stored)
            else:
                self.flow.define(variable, stored)
        return stored

    def _mark_on_device(self, value: Value) -> None:
        """The layers of an expression that a GPU device is given run there, though a host function states them."""
        waiting = [node for node in value if node >= 0]
        seen: set[int] = set()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self._lazy and not self.record.nodes[node].on_device:
                self.record.amend(node, on_device=True)
            waiting += [source for source in self.record.sources(node) if source >= 0]

    def _call_all_back(self, facts: FunctionFacts) -> None:
        for called in self.callbacks(facts):
            self._call_back(called)
