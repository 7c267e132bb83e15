"""Eigen's expression templates: what the type of an expression says about what it will compute, and in which format.

``features * features.constant(a)`` calls a method that computes nothing: its result's *type*,
``TensorCwiseBinaryOp<scalar_product_op<half>, ...>``, tells the functor that a kernel inside Eigen will run.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from opscanner.frameworks import eigen
from opscanner.frontend import float_types, libclang
from opscanner.frontend.float_types import TypeTable
from opscanner.frontend.functions import FunctionFacts, FunctionTable
from opscanner.ir import NodeKind

#: Template arguments that name dimensions, not values.
_DIMENSIONS = frozenset(["DSizes", "array", "IndexList", "Sizes", "type2index", "type2indexpair", "IndexPair", "Pair"])
#: argmax and its kin: the values are positions.
_GIVES_INDICES = frozenset(["TensorTupleReducerOp", "TensorPairReducerOp", "TensorIndexTupleOp", "TensorIndexPairOp"])
_ASSIGNABLE = "TensorDevice"
_DEPTH = 12


class Expression(NamedTuple):
    """What an Eigen expression's outermost layer computes.

    Parameters
    ----------
    kind : NodeKind
        ARITHMETIC, MATH_CALL, COMPARISON, SELECTION, REDUCTION or CAST.
    operation : str
    format : str
        It is computed in, for casts the target.
    from_format : str
        For casts.
    category : str
        ``arith``, ``functor`` ...: as in :class:`opscanner.ir.Node`.
    """

    kind: NodeKind
    operation: str
    format: str
    from_format: str = ""
    category: str = ""


def computing(operation: str, computed: str, category: str = "") -> Expression:
    """A layer or a call that computes ``operation``: arithmetic, a choice, or an elementary function."""
    if operation in eigen.SELECTIONS:
        return Expression(NodeKind.SELECTION, operation, computed, category="select")
    if operation in eigen.ARITHMETIC:
        return Expression(NodeKind.ARITHMETIC, operation, computed, category=category or "arith")
    return Expression(NodeKind.MATH_CALL, operation, computed, category=category or "math")


def reducing(operation: str, computed: str) -> Expression:
    """A layer or a call that reduces: some only choose one of the values."""
    if operation in eigen.CHOOSING_REDUCTIONS:
        return Expression(NodeKind.SELECTION, operation, computed, category="select")
    return Expression(NodeKind.REDUCTION, operation, computed, category="reduction")


class ExpressionTypes:
    """Reads the types of Eigen expressions of one translation unit."""

    def __init__(self, lib: Any, types: TypeTable, functions: FunctionTable) -> None:
        self._lib, self._types, self._functions = lib, types, functions
        self._names: dict[int | None, str] = {}
        self._scalars: dict[int | None, str] = {}
        self._expressions: dict[int | None, Expression | None] = {}

    # -- types ---------------------------------------------------------------------------------------------------

    def _canonical(self, ctype: libclang.CXType) -> libclang.CXType:
        canonical: libclang.CXType = self._lib.clang_getCanonicalType(ctype)
        while canonical.kind in (float_types.LVALUE, float_types.RVALUE):
            canonical = self._lib.clang_getCanonicalType(self._lib.clang_getPointeeType(canonical))
        return canonical

    def name(self, ctype: libclang.CXType) -> str:
        """Name of a class type, without its namespace and template arguments; empty for other types."""
        canonical = self._canonical(ctype)
        found = self._names.get(canonical.d0)
        if found is None:
            found = ""
            if canonical.kind == float_types.RECORD:
                declaration = self._lib.clang_getTypeDeclaration(canonical)
                found = libclang.text(self._lib, self._lib.clang_getCursorSpelling(declaration)).partition("<")[0]
            self._names[canonical.d0] = found
        return found

    def _arguments(self, ctype: libclang.CXType) -> list[libclang.CXType]:
        canonical = self._canonical(ctype)
        number = max(0, self._lib.clang_Type_getNumTemplateArguments(canonical))
        found = [self._lib.clang_Type_getTemplateArgumentAsType(canonical, index) for index in range(number)]
        return [argument for argument in found if argument.kind != float_types.INVALID]

    def scalar(self, ctype: libclang.CXType, depth: int = 0) -> str:
        """Format of the values of a tensor, matrix or expression; empty when the type does not tell."""
        canonical = self._canonical(ctype)
        known = self._types.of_type(canonical)
        if known.format or known.pointee or depth > _DEPTH:
            return known.format or known.pointee
        if canonical.kind != float_types.RECORD:
            return ""
        found = self._scalars.get(canonical.d0)
        if found is None:
            self._scalars[canonical.d0] = ""
            found = self._scalars[canonical.d0] = self._scalar_of_record(canonical, depth)
        return found

    def _scalar_of_record(self, canonical: libclang.CXType, depth: int) -> str:
        name = self.name(canonical)
        if name in _DIMENSIONS:
            return ""
        if name in _GIVES_INDICES:
            return "int64"
        arguments = self._arguments(canonical)
        if name in ("TensorSelectOp", "Select"):
            arguments = arguments[1:]
        if name in eigen.FUNCTOR_EXPRESSIONS and arguments:
            found = self._functor_result(arguments[0])
            if found:
                return found
        return next((found for argument in arguments if (found := self.scalar(argument, depth + 1))), "")

    # -- functors ------------------------------------------------------------------------------------------------

    def _functor_result(self, functor: libclang.CXType) -> str:
        """Format of what a functor's plain ``operator()`` gives."""
        for facts in self._functions.call_operators(self._canonical(functor)):
            if facts.result.format:
                return facts.result.format
        return ""

    def _functor_format(self, functor: libclang.CXType) -> str:
        """The format that a functor computes in: what it gives, else (it compares) what it takes."""
        operators = self._functions.call_operators(self._canonical(functor))
        for facts in operators:
            if facts.result.floating:
                return facts.result.format
        for facts in operators:
            for parameter in facts.parameters:
                if parameter.floating:
                    return parameter.format
        return next((f for argument in self._arguments(functor) if (f := self._types.of_type(argument).format)), "")

    def functor(self, functor: libclang.CXType, *, category: str = "", child: str = "") -> Expression | None:
        """What a functor computes; None when it computes nothing in a floating-point format."""
        name = self.name(functor)
        for _ in range(3):
            if name not in eigen.BINDING_FUNCTORS:
                break
            inner = [a for a in self._arguments(functor) if self._canonical(a).kind == float_types.RECORD]
            inner = [a for a in inner if not self._types.of_type(self._canonical(a)).float_class]
            if not inner:
                return None
            functor = inner[-1]
            name = self.name(functor)
        if name in eigen.CAST_FUNCTORS:
            formats = [self._types.of_type(a).format for a in self._arguments(functor)]
            return Expression(NodeKind.CAST, "cast", formats[1], formats[0]) if len(formats) > 1 else None
        computed = self._functor_format(functor) or child
        if name in eigen.COMPARISON_FUNCTORS:
            return Expression(NodeKind.COMPARISON, "compare", computed, category="compare")
        operation = eigen.functor_operation(name)
        if not operation or not computed:
            return None
        return computing(operation, computed, category)

    def functors_of(self, ctype: libclang.CXType, depth: int = 0) -> list[FunctionFacts]:
        """The framework's own functors' bodies that an expression type names."""
        found: list[FunctionFacts] = []
        if depth > _DEPTH or self._canonical(ctype).kind != float_types.RECORD:
            return found
        for facts in self._functions.call_operators(self._canonical(ctype)):
            if facts.follow:
                found.append(facts)
        for argument in self._arguments(ctype):
            found += self.functors_of(argument, depth + 1)
        return found

    # -- expressions ---------------------------------------------------------------------------------------------

    def of(self, ctype: libclang.CXType) -> Expression | None:
        """What the outermost layer of an expression type computes; None for a layer that computes nothing."""
        canonical = self._canonical(ctype)
        if canonical.d0 not in self._expressions:
            self._expressions[canonical.d0] = self._read(canonical)
        return self._expressions[canonical.d0]

    def _read(self, canonical: libclang.CXType) -> Expression | None:
        name = self.name(canonical)
        arguments = self._arguments(canonical)
        if not arguments:
            return None
        if name in eigen.FUNCTOR_EXPRESSIONS:
            child = self.scalar(arguments[1]) if len(arguments) > 1 else ""
            return self.functor(arguments[0], child=child)
        if name == "TensorConversionOp":
            return Expression(
                NodeKind.CAST, "cast", self._types.of_type(arguments[0]).format, self.scalar(arguments[1])
            )
        if name in ("TensorReductionOp", "TensorScanOp"):
            return self._reduction(arguments[0])
        if name == "PartialReduxExpr":
            return self._reduction(arguments[1])
        if name in eigen.PRODUCT_EXPRESSIONS:
            position, operation = eigen.PRODUCT_EXPRESSIONS[name]
            computed = self.scalar(arguments[position])
            return reducing(operation, computed) if computed else None
        return None

    def _reduction(self, reducer: libclang.CXType) -> Expression | None:
        operation = eigen.REDUCERS.get(self.name(reducer), "")
        arguments = self._arguments(reducer)
        computed = self._types.of_type(arguments[0]).format if arguments else ""
        if not operation or not computed:
            return None
        return reducing(operation, computed)

    def device_of(self, ctype: libclang.CXType) -> str:
        """Name of the device type of ``x.device(d)``: GpuDevice, ThreadPoolDevice ...; empty for other types."""
        if self.name(ctype) != _ASSIGNABLE:
            return ""
        return next((n for a in self._arguments(ctype) if (n := self.name(a)).endswith("Device")), "")

    def is_assignable(self, ctype: libclang.CXType) -> bool:
        """True for what ``x.device(d)`` gives."""
        return self.name(ctype) == _ASSIGNABLE
