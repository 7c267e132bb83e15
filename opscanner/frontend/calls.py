"""What a call does to formats: conversions, operators of float classes, intrinsics, math, atomics, everything else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from opscanner.frameworks.functions import CAST_INTRINSICS, LIBDEVICE_NARROWS
from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.expressions import ExpressionWalk
from opscanner.frontend.float_types import FUNCTION_PROTO, TypeFacts
from opscanner.frontend.flow import NO_VALUE, Environment, Value, union
from opscanner.frontend.functions import FunctionFacts, Role
from opscanner.frontend.recorder import PendingCall
from opscanner.ir import CastForm, NodeKind
from opscanner.precision.formats import is_floating

#: Functions of libraries that hand their arguments on unchanged.
_PASSES_ON = frozenset(
    # moves, tuples, cached loads and shuffles
    [
        "move",
        "forward",
        "get",
        "tie",
        "make_tuple",
        "make_pair",
        "bit_cast",
        "as_const",
        "addressof",
        "ref",
        "cref",
        "__ldg",
        "__ldcs",
        "__ldcg",
        "__shfl_sync",
        "__shfl_xor_sync",
        "__shfl_down_sync",
        "__shfl_up_sync",
    ]
)
_SELECTS = frozenset(("max", "min", "clamp", "__hmax", "__hmin", "__hmax_nan", "__hmin_nan"))
#: CUDA's intrinsics for one operation: ``__hadd2_rn``, ``__hfma_relu``, ``__fdividef``, ``__dmul_rz``.
_ARITHMETIC_INTRINSIC = re.compile(
    r"^__(?:h2?|f|d)(add|sub|mul|divide|div|rcp|fma|maf|neg)2?f?(?:_(?:rn|rz|ru|rd|sat|relu))?$"
)
_SIGNS = {
    "add": "+", "sub": "-", "neg": "-", "mul": "*", "div": "/", "divide": "/", "rcp": "/", "fma": "fma", "maf": "fma",
}  # fmt: skip
#: Sums over the threads of a block or a warp: ``cub::BlockReduce<T, 128>(storage).Sum(x)``.
_LIBRARY_SUM = re.compile(r"(?:^|::)(?:hip)?cub::(?:\w+::)*(?:Block|Warp)Reduce\w*::Sum$")
#: Position of the object that a method is called on, among the arguments of a pending call.
THIS_ARGUMENT = -1
_CONFIGURES = ("cudaConfigureCall", "__cudaPushCallConfiguration")
_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">=", "<=>"))
_COMPOUND = {"+=": "+", "-=": "-", "*=": "*", "/=": "/"}
_BINARY = frozenset("+-*/%")


class LibraryBody(NamedTuple):
    """What a call of a library function brings besides its value.

    Parameters
    ----------
    casts : tuple of (str, str)
        Format changes inside, those of what it calls included.
    calls : tuple of FunctionFacts
        The framework's own functions that it calls back.
    """

    casts: tuple[tuple[str, str], ...] = ()
    calls: tuple[FunctionFacts, ...] = ()


class CallWalk(ExpressionWalk):
    """Adds calls and lambdas to the walk of expressions.

    Attributes
    ----------
    reached_functions : dict
        Declaration pointer -> facts of every function that this body refers to and that is to be followed.
    lambdas : list
        (declaration pointer of the lambda's body, environment at its creation).
    without_body : dict
        Those of a template that has a body, while the instance has none: clang found an error, or had no need of it.
    called_back : set
        Declaration pointers of functors' bodies that a library is given to call.
    library_body : callable
        What happens inside a library function.
    """

    library_body: Callable[[FunctionFacts], LibraryBody]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.reached_functions: dict[int | None, FunctionFacts] = {}
        self.lambdas: list[tuple[FunctionFacts, Environment]] = []
        self.called_back: set[int | None] = set()
        self.without_body: dict[int | None, FunctionFacts] = {}
        self._table[ck.CALL] = self._call
        self._table[ck.LAMBDA] = self._lambda
        self._roles: dict[Role, Callable[[int, FunctionFacts, list[int], list[Value]], Value]] = {
            Role.CONVERSION: self._convert,
            Role.TYPE_MEMBER: self._type_member,
            Role.OPERATOR: self._operator,
            Role.INTRINSIC: self._intrinsic,
            Role.MATH: self._math,
            Role.ATOMIC: self._atomic,
            Role.ORDINARY: self._ordinary,
        }

    def _declaration(self, index: int) -> Value:
        referenced = self.body.referenced(index)
        if referenced.kind in ck.FUNCTION_LIKE:
            self._follow(self.functions.of(referenced))
            return NO_VALUE
        return super()._declaration(index)

    def _follow(self, facts: FunctionFacts) -> bool:
        if facts.follow and facts.has_body:
            self.reached_functions[facts.cursor.d0] = facts
            return True
        if facts.follow and facts.pattern is not None:
            self.without_body[facts.cursor.d0] = facts
        return False

    def _call(self, index: int) -> Value:
        cursor = self.body.cursors[index]
        referenced = self.lib.clang_getCursorReferenced(cursor)
        if referenced.kind not in ck.FUNCTION_LIKE:
            value = self._pass(index)
            result = self.body.facts(index)
            if not result.floating:
                return value
            return (self._call_node(index, self.unit.spelling(cursor) or "call", result, value),)
        facts = self.functions.of(referenced)
        if facts.operation == "=" or facts.name == "operator=":
            return self._class_assignment(index, facts)
        receiver, arguments = self._operands(index, facts)
        role = self._roles[facts.role]
        if facts.role is Role.OPERATOR:
            return role(index, facts, receiver + arguments, [])
        values = [self.evaluate(argument) for argument in receiver + arguments]
        return role(index, facts, receiver + arguments, values)

    def _operands(self, index: int, facts: FunctionFacts) -> tuple[list[int], list[int]]:
        """(the object a method is called on, the arguments), the callee's own name left out."""
        body = self.body
        children = body.children[index]
        if facts.cursor.kind == ck.CONSTRUCTOR:
            return [], children
        receiver: list[int] = []
        arguments: list[int] = []
        named = False
        for child in children:
            if not named and self._names_callee(child):
                named = True
                stripped = body.strip(child)
                if body.kinds[stripped] == ck.MEMBER_REF_EXPR:
                    receiver = body.children[stripped][:1]
                continue
            arguments.append(child)
        if arguments and not facts.result.format and self._configures_launch(arguments[0]):
            self.evaluate(arguments.pop(0))
        is_operator = facts.cursor.kind == ck.CXX_METHOD and facts.name.startswith("operator")
        if is_operator and not receiver and len(arguments) > len(facts.parameters):
            receiver, arguments = arguments[:1], arguments[1:]
        return receiver, arguments

    def _configures_launch(self, index: int) -> bool:
        """True for the call that ``<<<grid, block>>>`` stands for, which comes before the kernel's arguments."""
        return self.body.kinds[index] == ck.CALL and self.unit.spelling(self.body.cursors[index]) in _CONFIGURES

    def _names_callee(self, index: int) -> bool:
        stripped = self.body.strip(index)
        if self.body.kinds[stripped] not in (ck.DECL_REF, ck.MEMBER_REF_EXPR):
            return False
        cursor = self.body.cursors[stripped]
        kind = self.lib.clang_getCanonicalType(self.lib.clang_getCursorType(cursor)).kind
        if kind == FUNCTION_PROTO:
            return True
        return self.lib.clang_getCursorReferenced(cursor).kind in ck.FUNCTION_LIKE

    def _class_assignment(self, index: int, facts: FunctionFacts) -> Value:
        """``a = b`` where ``a`` is of a class type: a float class, or a struct whose values flow along."""
        receiver, arguments = self._operands(index, facts)
        operands = receiver + arguments
        if len(operands) != 2:
            return self._pass(index)
        value = self.evaluate(operands[1])
        if facts.role is not Role.OPERATOR and self._follow(facts):
            self._note_call(index, facts, operands[1:], [value], -1)
        source, target = self.body.facts(operands[1]), self.body.facts(operands[0])
        if source.format != target.format and facts.role is Role.OPERATOR:
            form = CastForm.CONVERTING_CONSTRUCTOR
            value = self.cast(index, value, source.format, target.format, form, constant=self.constant(operands[1]))
        return self.assign(index, operands[0], value)

    # -- roles ---------------------------------------------------------------------------------------------------

    def _convert(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        value, written = union(values), ""
        if facts.cursor.kind == ck.CONSTRUCTOR:
            if len(operands) != 1:
                return value
            source, target = facts.parameters[0] if facts.parameters else None, facts.owner
            form = CastForm.CONVERTING_CONSTRUCTOR
            written = self.record.written_type(index) if self._names_its_type(index) else ""
            if written:
                form = CastForm.FUNCTIONAL
        else:
            source, target, form = facts.owner, facts.result, CastForm.CONVERSION_FUNCTION
        if source is None or target.format == "bool" or not (source.floating or target.floating):
            return value
        constant = bool(operands) and self.constant(operands[0])
        return self.cast(
            index,
            value,
            source.format,
            target.format,
            form,
            written_type=written,
            lanes=target.lanes,
            constant=constant,
        )

    def _names_its_type(self, index: int) -> bool:
        """``Half{x}``: a constructor's call that spells its class, without a cast around it."""
        following = index + 1
        return following < self.body.ends[index] and self.body.kinds[following] in (ck.TYPE_REF, ck.NAMESPACE_REF)

    def _type_member(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        return union(values)

    def _operator(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        """An operator of a float class: mixed formats are brought to one first, then it computes there."""
        types = [self.body.facts(operand) for operand in operands]
        operation = facts.operation
        if operation in _COMPOUND and len(operands) == 2:
            left = types[0]
            value = self._mixed(index, operands[1], types[1], self.evaluate(operands[1]), left)
            return self.update(index, operands[0], _COMPOUND[operation], left, left, value)
        values = [self.evaluate(operand) for operand in operands]
        if operation in _COMPARISONS:
            return self.comparison(index, operation, operands, union(values))
        computed = facts.result
        if operation in _BINARY and computed.floating:
            if len(operands) == 2:
                values = [
                    self._mixed(index, operand, found, value, computed)
                    for operand, found, value in zip(operands, types, values, strict=True)
                ]
            return (self.arithmetic(index, operation, computed, union(values), self.constant(index)),)
        if operation in ("++", "--") and operands:
            node = self.arithmetic(index, operation[0], types[0], union(values))
            return self.assign(index, operands[0], (node,))
        return union(values)

    def _mixed(self, index: int, operand: int, found: TypeFacts, value: Value, computed: TypeFacts) -> Value:
        if not found.format or found.format == computed.format:
            return value
        constant = self.constant(operand)
        return self.cast(index, value, found.format, computed.format, CastForm.MIXED_OPERATOR, constant=constant)

    def _intrinsic(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        source, target = CAST_INTRINSICS[facts.name]
        lanes = max(facts.result.lanes, *(p.lanes for p in facts.parameters), 1)
        constant = bool(operands) and all(self.constant(operand) for operand in operands)
        return self.cast(
            index, union(values), source, target, CastForm.INTRINSIC, facts.name, lanes=lanes, constant=constant
        )

    def _math(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        formats = [t for t in (facts.result, *facts.parameters) if t.floating]
        computed = formats[0]
        sources = self._inside_library(index, facts, union(values))
        from_libdevice = self.functions.device and not facts.has_body
        if from_libdevice and computed.format == "float32" and facts.operation in LIBDEVICE_NARROWS:
            narrowed = self.cast(index, sources, "float64", "float32", CastForm.LIBRARY_CALL, facts.name)
            sources = union((sources, narrowed))
        node = self.record.node(
            NodeKind.MATH_CALL,
            index,
            facts.operation,
            computed.format,
            sources,
            lanes=computed.lanes,
            category="math",
            constant=False,
        )
        if facts.operation == "fma" and len(values) == 3:
            self.addends[node] = values[2]
        if self._follow(facts):
            self._note_call(index, facts, operands, values, -1)
        return (node,)

    def _atomic(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        target = next((t.pointee for t in facts.parameters if is_floating(t.pointee)), "")
        if not target:
            target = next((t.format for t in facts.parameters if t.floating), "")
        if self._follow(facts):
            self._note_call(index, facts, operands, values, -1)
        if facts.operation == "cas" and operands:
            self.mark_exchanged(operands[-1], values[-1])
        if not target:
            return union(values)
        return (
            self.record.node(
                NodeKind.ATOMIC,
                index,
                facts.operation,
                target,
                union(values),
                accumulator=target,
                category="atomic",
            ),
        )

    def _ordinary(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value]) -> Value:
        value = union(values)
        self._lent(operands, values, facts)
        result = self.body.facts(index)
        if self._follow(facts):
            node = -1
            if result.floating and facts.cursor.kind != ck.CONSTRUCTOR:
                node = self._call_node(index, facts.name, result, NO_VALUE)
            self._note_call(index, facts, operands, values, node)
            return (node,) if node >= 0 else value
        if facts.name in _PASSES_ON:
            return value
        if not facts.follow:
            self._functors(operands)
        if facts.cursor.kind == ck.CONSTRUCTOR:
            return self._inside_library(index, facts, value)
        if facts.name in _SELECTS and result.floating and operands:  # numeric_limits<T>::min() chooses nothing
            value = self._inside_library(index, facts, value)
            return (
                self.record.node(
                    NodeKind.SELECTION, index, facts.name, result.format, value, lanes=result.lanes, category="select"
                ),
            )
        intrinsic = _ARITHMETIC_INTRINSIC.match(facts.name)
        if intrinsic and result.floating:
            operation = _SIGNS[intrinsic[1]]
            node = self.arithmetic(index, operation, result, value)
            if operation == "fma" and len(values) == 3:
                self.addends[node] = values[2]
            return (node,)
        value = self._inside_library(index, facts, value)
        if not result.floating:
            return value
        if _LIBRARY_SUM.search(facts.qualified):
            return (self.library_sum(index, result, value),)
        return (self._call_node(index, facts.name, result, value),)

    def _call_node(self, index: int, name: str, result: TypeFacts, value: Value) -> int:
        return self.record.node(NodeKind.CALL, index, name, result.format, value, lanes=result.lanes, category="call")

    def _inside_library(self, index: int, facts: FunctionFacts, value: Value) -> Value:
        """Casts that happen inside a library function, recorded at its call; what it calls back is followed."""
        if facts.follow or facts.eigens_number or not facts.has_body:
            return value
        inside = self.library_body(facts)
        for source, target in inside.casts:
            node = self.cast(index, value, source, target, CastForm.LIBRARY_CALL, facts.name)
            value = union((value, node))
        for called in inside.calls:
            self._call_back(called)
        return value

    def _call_back(self, facts: FunctionFacts) -> None:
        if self._follow(facts):
            self.called_back.add(facts.cursor.d0)

    def _functors(self, operands: list[int]) -> None:
        """A functor or lambda that is handed to a library is called there."""
        for operand in operands:
            if self.body.facts(operand).format or self.body.facts(operand).pointee:
                continue
            ctype = self.lib.clang_getCursorType(self.body.cursors[operand])
            for facts in self.functions.call_operators(ctype):
                self._call_back(facts)

    def _lent(self, operands: list[int], values: list[Value], facts: FunctionFacts) -> None:
        """A variable passed by address or reference may be written by the callee, from any of the other arguments.

        The definition does not end the earlier ones: the callee may leave the variable alone.
        """
        for operand in operands:
            stripped = self.body.strip(operand)
            found = self.body.facts(stripped)
            by_address = self.body.kinds[stripped] == ck.UNARY and is_floating(found.pointee)
            # a value is loaded or copied and a constant reference is qualified: a bare name is neither
            by_reference = self.body.kinds[operand] == ck.DECL_REF and found.floating
            if not (by_address or by_reference):
                continue
            variable = self.base_variable(stripped)
            if variable in self.locals:
                shown = found.pointee if by_address else found.format
                others = [value for other, value in zip(operands, values, strict=True) if other != operand]
                node = self.record.node(NodeKind.CALL, operand, facts.name, shown, union(others), category="call")
                self.flow.add(variable, (node,))

    def _note_call(self, index: int, facts: FunctionFacts, operands: list[int], values: list[Value], node: int) -> None:
        receiver = len(operands) - len(facts.parameters)
        first = THIS_ARGUMENT if facts.cursor.kind == ck.CXX_METHOD and receiver == 1 else 0
        arguments = tuple((value, position + first) for position, value in enumerate(values) if value)
        line = self.record.place(index).line
        self.record.calls.append(PendingCall(node, facts.cursor.d0, arguments, line))

    # -- lambdas -------------------------------------------------------------------------------------------------

    def _lambda(self, index: int) -> Value:
        cursor = self.body.cursors[index]
        ctype = self.lib.clang_getCursorType(cursor)
        captured = self._pass(index)
        for facts in self.functions.call_operators(ctype):
            if facts.follow:
                self.reached_functions[facts.cursor.d0] = facts
                self.lambdas.append((facts, dict(self.flow.environment)))
        return captured
