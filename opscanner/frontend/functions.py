"""Which function a call reaches: its name, its formats, and what its name alone tells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from opscanner.frameworks.eigen import PACKET_FUNCTIONS
from opscanner.frameworks.float_types import OWN_HEADERS, SCALARS
from opscanner.frameworks.functions import CAST_INTRINSICS, atomic_operation, elementary_function
from opscanner.frontend import float_types, libclang
from opscanner.frontend.cursor_kinds import (
    CLASS_LIKE,
    CONSTRUCTOR,
    CONVERSION_FUNCTION,
    CXX_METHOD,
    FUNCTION_DECL,
    FUNCTION_LIKE,
    LINKAGE_SPEC,
    NAMESPACE,
    TEMPLATE_TYPE_PARAMETER,
    TRANSLATION_UNIT,
)
from opscanner.frontend.float_types import TypeFacts, TypeTable
from opscanner.frontend.identity import Identity, is_lambda_class
from opscanner.frontend.parse import Place, Unit

_OWN = re.compile(OWN_HEADERS)
_TYPE_ARGUMENT = 1
#: Formats by the type as clang prints it.
_PRINTED = {"float": "float32", "double": "float64", **SCALARS}
_MATH_SCOPES = re.compile(
    r"^(|std|cuda|cuda::std|thrust|c10::cuda::compat|c10_complex_math|Eigen::numext|Eigen::half_impl|Eigen::bfloat16_impl"
    r"|cutlass|__nv.*|std::__\w+)$"
)
_EIGEN = re.compile(r"^Eigen(::|$)")


class Role(Enum):
    """What a called function is to the walk."""

    ORDINARY = "ordinary"  #: anything else: followed when its body is the framework's own
    CONVERSION = "conversion"  #: ``Half::operator float``, ``Half(float)``
    TYPE_MEMBER = "type_member"  #: any other function of a float type's own header: ``Half::from_bits``
    OPERATOR = "operator"  #: ``operator+(Half, Half)``, ``operator*(float, Half)``
    INTRINSIC = "intrinsic"  #: ``__half2float``
    MATH = "math"  #: ``std::exp``
    ATOMIC = "atomic"  #: ``atomicAdd``
    EIGEN = "eigen"  #: anything of Eigen but the above: expressions, functors, packets


@dataclass(slots=True)
class FunctionFacts:
    """A function as the walk needs it. ``cursor`` is its definition where there is one."""

    cursor: libclang.CXCursor
    name: str
    scope: str
    place: Place
    path: str
    role: Role
    follow: bool
    has_body: bool
    parameters: tuple[TypeFacts, ...]
    result: TypeFacts
    owner: TypeFacts
    operation: str = ""
    is_static: bool = False
    eigens_number: bool = False  #: of Eigen's float types: what it does inside is their own business
    pattern: libclang.CXCursor | None = None  #: the template, where there is no body although the template has one

    @property
    def qualified(self) -> str:
        return f"{self.scope}::{self.name}" if self.scope else self.name


class FunctionTable:
    """Facts on the functions of one translation unit, by clang's declaration pointer.

    Parameters
    ----------
    unit : Unit
    types : TypeTable
    root : str
        The scanned root; only functions written below it are followed.
    device : bool
        The unit is the device pass of a CUDA file: elementary functions are libdevice's.
    variant : str
        Tells apart compilations that may see other bodies in the same places: the host pass, AVX2 against AVX512.
    """

    def __init__(self, unit: Unit, types: TypeTable, root: str, *, device: bool, variant: str) -> None:
        self.device = device
        self._unit, self.types = unit, types
        self._lib: Any = unit.lib
        self._root = root.rstrip("/") + "/"
        self._facts: dict[int | None, FunctionFacts] = {}
        self._call_operators: dict[int | None, tuple[FunctionFacts, ...]] = {}
        self._scopes: dict[int | None, str] = {}
        self._files: dict[int | None, tuple[str, bool, bool]] = {}
        self._identity = Identity(unit, types, self.file, variant)
        self._formats = Identity(unit, types, self.file, variant, anonymous=True)

    # -- files -------------------------------------------------------------------------------------------------

    def file(self, file: int | None) -> tuple[str, bool, bool]:
        """(path relative to the root or absolute, lies below the root, is a float type's own header)."""
        found = self._files.get(file)
        if found is None:
            raw = self._unit.path(file)
            path = str(Path(raw).resolve()) if raw else ""
            below = path.startswith(self._root)
            shown = path[len(self._root) :] if below else path
            found = self._files[file] = (shown, below, _OWN.search(path) is not None)
        return found

    # -- facts -------------------------------------------------------------------------------------------------

    def of(self, declaration: libclang.CXCursor) -> FunctionFacts:
        """Facts on a function declaration, definition preferred."""
        facts = self._facts.get(declaration.d0)
        if facts is None:
            facts = self._facts[declaration.d0] = self._describe(declaration)
        return facts

    def call_operators(self, ctype: libclang.CXType) -> tuple[FunctionFacts, ...]:
        """The ``operator()`` of a lambda or functor, those that are no templates; none for other types."""
        canonical = self._lib.clang_getCanonicalType(ctype)
        if canonical.kind in (float_types.LVALUE, float_types.RVALUE):
            canonical = self._lib.clang_getPointeeType(canonical)
        found = self._call_operators.get(canonical.d0)
        if found is None:
            methods = self._unit.methods(canonical) if canonical.kind == float_types.RECORD else []
            found = self._call_operators[canonical.d0] = tuple(
                self.of(method)
                for method in methods
                if method.kind == CXX_METHOD and self._unit.spelling(method) == "operator()"
            )
        return found

    def _describe(self, declaration: libclang.CXCursor) -> FunctionFacts:
        lib, unit, types = self._lib, self._unit, self.types
        definition = lib.clang_getCursorDefinition(declaration)
        has_body = definition.kind in FUNCTION_LIKE
        cursor = definition if has_body else declaration
        name, scope = unit.spelling(cursor), self.scope(cursor)
        place = unit.cursor_place(cursor)
        path, below, own = self.file(place.file)
        function_type = lib.clang_getCursorType(cursor)
        parameters = tuple(
            types.of_type(lib.clang_getArgType(function_type, index))
            for index in range(max(0, lib.clang_getNumArgTypes(function_type)))
        )
        result = types.of_type(lib.clang_getResultType(function_type))
        owner = float_types.NOTHING
        if cursor.kind in (CXX_METHOD, CONSTRUCTOR, CONVERSION_FUNCTION):
            owner = types.of_cursor(lib.clang_getCursorSemanticParent(cursor))
        facts = FunctionFacts(
            cursor, name, scope, place, path, Role.ORDINARY, below and not own, has_body, parameters, result, owner
        )
        facts.eigens_number = own and scope.startswith("Eigen")
        facts.is_static = cursor.kind == CXX_METHOD and bool(lib.clang_CXXMethod_isStatic(cursor))
        if not has_body and below:
            pattern = lib.clang_getSpecializedCursorTemplate(cursor)
            if pattern.d0 and lib.clang_isCursorDefinition(pattern):
                facts.pattern = pattern
        self._assign_role(facts, own, below)
        return facts

    def _assign_role(self, facts: FunctionFacts, own: bool, below: bool) -> None:
        """Set role and operation from name, scope, formats and where it is written."""
        primitive = own or not below
        kind, name = facts.cursor.kind, facts.name
        floats = [t for t in (*facts.parameters, facts.result, facts.owner) if t.floating]
        if facts.owner.float_class and kind in (CONSTRUCTOR, CONVERSION_FUNCTION):
            facts.role, facts.follow = Role.CONVERSION, False
        elif primitive and self._is_eigens(facts, own) and not self._is_math(facts, floats):
            facts.role = Role.EIGEN
        elif name.startswith("operator") and primitive and any(t.float_class for t in floats):
            facts.role, facts.follow = Role.OPERATOR, False
            facts.operation = name.removeprefix("operator")
        elif facts.owner.float_class and primitive:
            facts.role, facts.follow = Role.TYPE_MEMBER, False
        elif name in CAST_INTRINSICS and floats:
            facts.role, facts.follow = Role.INTRINSIC, False
        elif self._is_math(facts, floats):
            facts.role, facts.operation = Role.MATH, elementary_function(name)
        elif atomic_operation(name):
            facts.role, facts.operation = Role.ATOMIC, atomic_operation(name)

    @staticmethod
    def _is_eigens(facts: FunctionFacts, own: bool) -> bool:
        """Eigen's, but not of its float types: their headers hold the packet functions too."""
        return bool(_EIGEN.match(facts.scope)) and (not own or facts.name in PACKET_FUNCTIONS)

    @staticmethod
    def _is_math(facts: FunctionFacts, floats: list[TypeFacts]) -> bool:
        return bool(floats and _MATH_SCOPES.match(facts.scope) and elementary_function(facts.name))

    def key(self, facts: FunctionFacts) -> str:
        """Identity of an instance, equal in every translation unit that binds the same formats."""
        return self._identity.of(facts.cursor)

    def formats_key(self, facts: FunctionFacts) -> str:
        """Equal for instances of one body on the same formats, whatever lambdas they are given to call."""
        return self._formats.of(facts.cursor)

    # -- names -------------------------------------------------------------------------------------------------

    def scope(self, cursor: libclang.CXCursor) -> str:
        """Qualified name of what encloses a declaration; a lambda counts as part of its function."""
        parent = self._lib.clang_getCursorSemanticParent(cursor)
        found = self._scopes.get(parent.d0)
        if found is None:
            found = self._scopes[parent.d0] = self._scope_of(parent)
        return found

    def _scope_of(self, parent: libclang.CXCursor) -> str:
        if parent.kind == TRANSLATION_UNIT or (parent.kind >= 70 and parent.kind < 80):
            return ""
        outer = self.scope(parent)
        if parent.kind == LINKAGE_SPEC or parent.d0 is None:
            return outer
        name = self._unit.spelling(parent)
        if parent.kind == NAMESPACE and (not name or name.startswith("(")):
            name = "(anonymous namespace)"
        if parent.kind in CLASS_LIKE and name.startswith("(lambda"):
            return outer
        if parent.kind in FUNCTION_LIKE and name == "operator()" and self._is_lambda_method(parent):
            return outer
        return f"{outer}::{name}" if outer else name

    def _is_lambda_method(self, cursor: libclang.CXCursor) -> bool:
        return is_lambda_class(self._unit, self._lib.clang_getCursorSemanticParent(cursor))

    def is_lambda(self, facts: FunctionFacts) -> bool:
        return facts.name == "operator()" and self._is_lambda_method(facts.cursor)

    def display_name(self, facts: FunctionFacts) -> str:
        """Qualified name for people: the enclosing function's for a lambda."""
        if self.is_lambda(facts):
            return facts.scope or "(lambda)"
        return facts.qualified

    def bindings(self, facts: FunctionFacts) -> list[tuple[str, str]]:
        """(template parameter, format) of the function and the classes around it, where a format is bound."""
        lib, found = self._lib, []
        cursor = facts.cursor
        for _ in range(8):
            if cursor.kind in FUNCTION_LIKE:
                found += self._bound(cursor, self._function_arguments(cursor)) or self._printed(cursor)
            elif cursor.kind in CLASS_LIKE:
                ctype = lib.clang_getCursorType(cursor)
                number = max(0, lib.clang_Type_getNumTemplateArguments(ctype))
                types = [lib.clang_Type_getTemplateArgumentAsType(ctype, index) for index in range(number)]
                found += self._bound(cursor, types)
            elif cursor.kind != LINKAGE_SPEC:
                break
            cursor = lib.clang_getCursorSemanticParent(cursor)
        return found

    def _printed(self, cursor: libclang.CXCursor) -> list[tuple[str, str]]:
        """Bound formats of a member template, whose arguments libclang 22.1.4 shows in print only."""
        lib = self._lib
        if cursor.kind == FUNCTION_DECL or not lib.clang_getSpecializedCursorTemplate(cursor).d0:
            return []
        printed = libclang.text(lib, lib.clang_getCursorPrettyPrinted(cursor, None)).partition("{")[0]
        arguments = printed.partition(f"{self._unit.spelling(cursor)}<")[2]
        formats, depth, word = [], 0, ""
        for character in arguments:
            if depth == 0 and character in ",>":
                formats.append(_PRINTED.get(word.strip(), ""))
                word = ""
                if character == ">":
                    break
                continue
            depth += (character in "<(") - (character in ">)")
            word += character
        return [(n, f) for n, f in zip(self._parameter_names(cursor), formats, strict=False) if n and f]

    def _parameter_names(self, cursor: libclang.CXCursor) -> list[str]:
        """Names of a template's parameters, empty for those that are no types."""
        template = self._lib.clang_getSpecializedCursorTemplate(cursor)
        return [
            self._unit.spelling(child) if child.kind == TEMPLATE_TYPE_PARAMETER else ""
            for child in self._unit.children(template)
            if child.kind in (27, 28, 29)
        ]

    def _function_arguments(self, cursor: libclang.CXCursor) -> list[libclang.CXType]:
        lib = self._lib
        return [
            lib.clang_Cursor_getTemplateArgumentType(cursor, index)
            if lib.clang_Cursor_getTemplateArgumentKind(cursor, index) == _TYPE_ARGUMENT
            else libclang.CXType()
            for index in range(max(0, lib.clang_Cursor_getNumTemplateArguments(cursor)))
        ]

    def _bound(self, cursor: libclang.CXCursor, arguments: list[libclang.CXType]) -> list[tuple[str, str]]:
        if not arguments:
            return []
        formats = [self.types.of_type(argument) if argument.kind else float_types.NOTHING for argument in arguments]
        if not any(f.floating or f.pointee for f in formats):
            return []
        template = self._lib.clang_getSpecializedCursorTemplate(cursor)
        if template.d0 is None:
            return []
        names = self._parameter_names(cursor)
        return [(n, f.format) for n, f in zip(names, formats, strict=False) if n and f.format]
