"""Which function a call reaches: its name, its identity within a scan, and what its name alone tells.

Template instantiations that differ only in integers share a key, unless their body asks ``constexpr`` questions: one
walk per (pattern, bound formats) is enough for casts, and it is what makes the walk affordable
(``PersistentSoftmax.cuh`` has 55 instances per line).
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from opscanner.frameworks.float_types import OWN_HEADERS
from opscanner.frameworks.functions import CAST_INTRINSICS, atomic_operation, elementary_function
from opscanner.frontend import float_types, libclang
from opscanner.frontend.cursor_kinds import (
    CLASS_LIKE,
    CONSTRUCTOR,
    CONVERSION_FUNCTION,
    CXX_METHOD,
    FUNCTION_LIKE,
    LINKAGE_SPEC,
    NAMESPACE,
    TEMPLATE_TYPE_PARAMETER,
    TRANSLATION_UNIT,
)
from opscanner.frontend.float_types import TypeFacts, TypeTable
from opscanner.frontend.parse import Place, Unit, contents

_OWN = re.compile(OWN_HEADERS)
_IF_CONSTEXPR = re.compile(rb"\bif\s+constexpr\b")
_TYPE_ARGUMENT, _INTEGRAL_ARGUMENT = 1, 4
_MATH_SCOPES = re.compile(
    r"^(|std|cuda|cuda::std|thrust|c10::cuda::compat|c10_complex_math|Eigen::numext|Eigen::half_impl|Eigen::bfloat16_impl"
    r"|cutlass|__nv.*|std::__\w+)$"
)


class Role(Enum):
    """What a called function is to the walk."""

    ORDINARY = "ordinary"  #: anything else: followed when its body is the framework's own
    CONVERSION = "conversion"  #: ``Half::operator float``, ``Half(float)``
    TYPE_MEMBER = "type_member"  #: any other function of a float type's own header: ``Half::from_bits``
    OPERATOR = "operator"  #: ``operator+(Half, Half)``, ``operator*(float, Half)``
    INTRINSIC = "intrinsic"  #: ``__half2float``
    MATH = "math"  #: ``std::exp``
    ATOMIC = "atomic"  #: ``atomicAdd``


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
    """

    def __init__(self, unit: Unit, types: TypeTable, root: str, *, device: bool = False) -> None:
        self.device = device
        self._unit, self.types = unit, types
        self._lib: Any = unit.lib
        self._root = root.rstrip("/") + "/"
        self._facts: dict[int | None, FunctionFacts] = {}
        self._scopes: dict[int | None, str] = {}
        self._keys: dict[int | None, str] = {}
        self._record_keys: dict[int | None, str] = {}
        self._type_keys: dict[int | None, str] = {}
        self._ordinals: dict[tuple[int | None, int], int] = {}
        self._files: dict[int | None, tuple[str, bool, bool]] = {}
        self._constexpr: dict[tuple[int | None, int], bool] = {}

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
        self._assign_role(facts, own or not below)
        return facts

    def _assign_role(self, facts: FunctionFacts, primitive: bool) -> None:
        """Set role and operation from name, scope and formats."""
        kind, name = facts.cursor.kind, facts.name
        floats = [t for t in (*facts.parameters, facts.result, facts.owner) if t.floating]
        if facts.owner.float_class and kind in (CONSTRUCTOR, CONVERSION_FUNCTION):
            facts.role, facts.follow = Role.CONVERSION, False
        elif name.startswith("operator") and primitive and any(t.float_class for t in floats):
            facts.role, facts.follow = Role.OPERATOR, False
            facts.operation = name.removeprefix("operator")
        elif facts.owner.float_class and primitive:
            facts.role, facts.follow = Role.TYPE_MEMBER, False
        elif name in CAST_INTRINSICS and floats:
            facts.role, facts.follow = Role.INTRINSIC, False
        elif floats and _MATH_SCOPES.match(facts.scope) and elementary_function(name):
            facts.role, facts.operation = Role.MATH, elementary_function(name)
        elif atomic_operation(name):
            facts.role, facts.operation = Role.ATOMIC, atomic_operation(name)

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
        return self.is_lambda_class(self._lib.clang_getCursorSemanticParent(cursor))

    def is_lambda_class(self, cursor: libclang.CXCursor) -> bool:
        return cursor.kind in CLASS_LIKE and self._unit.spelling(cursor).startswith("(lambda")

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
                found += self._bound(cursor, self._function_arguments(cursor))
            elif cursor.kind in CLASS_LIKE:
                ctype = lib.clang_getCursorType(cursor)
                number = max(0, lib.clang_Type_getNumTemplateArguments(ctype))
                types = [lib.clang_Type_getTemplateArgumentAsType(ctype, index) for index in range(number)]
                found += self._bound(cursor, types)
            elif cursor.kind != LINKAGE_SPEC:
                break
            cursor = lib.clang_getCursorSemanticParent(cursor)
        return found

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
        names = [
            self._unit.spelling(child) if child.kind == TEMPLATE_TYPE_PARAMETER else ""
            for child in self._unit.children(template)
            if child.kind in (27, 28, 29)
        ]
        return [(n, f.format) for n, f in zip(names, formats, strict=False) if n and f.format]

    # -- identity ----------------------------------------------------------------------------------------------

    def key(self, facts: FunctionFacts) -> str:
        """Identity of an instance, equal in every translation unit that binds the same formats."""
        return self._function_key(facts.cursor)

    def _function_key(self, cursor: libclang.CXCursor) -> str:
        found = self._keys.get(cursor.d0)
        if found is not None:
            return found
        self._keys[cursor.d0] = ""  # a type that mentions the function itself
        lib = self._lib
        place = self._unit.cursor_place(cursor)
        parts = [self.file(place.file)[0], str(place.offset), str(cursor.kind)]
        parts.append(self._type_key(lib.clang_getCursorType(cursor)))
        number = lib.clang_Cursor_getNumTemplateArguments(cursor)
        if number > 0:
            keep = self._asks_constexpr(cursor, place)
            parts += [self._argument_key(cursor, index, keep) for index in range(number)]
        parts.append(self._parent_key(cursor))
        found = self._keys[cursor.d0] = _digest(parts)
        return found

    def _parent_key(self, cursor: libclang.CXCursor) -> str:
        parent = self._lib.clang_getCursorSemanticParent(cursor)
        if parent.kind in CLASS_LIKE:
            return self._record_key(parent)
        if parent.kind in FUNCTION_LIKE:
            return self._function_key(parent)
        return ""

    def _argument_key(self, cursor: libclang.CXCursor, index: int, keep_integers: bool) -> str:
        lib = self._lib
        kind = lib.clang_Cursor_getTemplateArgumentKind(cursor, index)
        if kind == _TYPE_ARGUMENT:
            return self._type_key(lib.clang_Cursor_getTemplateArgumentType(cursor, index))
        if kind == _INTEGRAL_ARGUMENT:
            value = lib.clang_Cursor_getTemplateArgumentValue(cursor, index)
            return str(value) if keep_integers or value in (0, 1) else "#"
        return f"kind{kind}"

    def _asks_constexpr(self, cursor: libclang.CXCursor, place: Place) -> bool:
        """True when the body's text holds ``if constexpr``: integers may choose between different code there."""
        at = (place.file, place.offset)
        found = self._constexpr.get(at)
        if found is None:
            begin, end = self._unit.extent(cursor)
            text = contents(self._unit.path(place.file))[begin.offset : end.offset]
            found = self._constexpr[at] = _IF_CONSTEXPR.search(text) is not None
        return found

    def _record_key(self, cursor: libclang.CXCursor) -> str:
        found = self._record_keys.get(cursor.d0)
        if found is not None:
            return found
        self._record_keys[cursor.d0] = ""
        lib = self._lib
        place = self._unit.cursor_place(cursor)
        parts = [self.file(place.file)[0], str(place.offset)]
        if self.is_lambda_class(cursor):
            parent = lib.clang_getCursorSemanticParent(cursor)
            at = (parent.d0, place.offset)
            ordinal = self._ordinals[at] = self._ordinals.get(at, -1) + 1
            parts.append(f"lambda{ordinal}")
        else:
            parts += self._record_arguments(cursor)
        parts.append(self._parent_key(cursor))
        found = self._record_keys[cursor.d0] = _digest(parts)
        return found

    def _record_arguments(self, cursor: libclang.CXCursor) -> list[str]:
        lib = self._lib
        ctype = lib.clang_getCursorType(cursor)
        number = lib.clang_Type_getNumTemplateArguments(ctype)
        if number <= 0:
            return []
        own = lib.clang_Cursor_getNumTemplateArguments(cursor)
        keys = []
        for index in range(number):
            argument = lib.clang_Type_getTemplateArgumentAsType(ctype, index)
            if argument.kind:
                keys.append(self._type_key(argument))
            elif own == number:
                keys.append(self._argument_key(cursor, index, True))
            else:
                keys.append("?")
        return keys

    def _type_key(self, ctype: libclang.CXType) -> str:
        lib = self._lib
        canonical = lib.clang_getCanonicalType(ctype)
        found = self._type_keys.get(canonical.d0)
        if found is not None:
            return found
        kind = canonical.kind
        if kind in (float_types.POINTER, float_types.LVALUE, float_types.RVALUE):
            found = f"{kind}*{self._type_key(lib.clang_getPointeeType(canonical))}"
        elif kind == float_types.RECORD:
            found = self._record_key(lib.clang_getTypeDeclaration(canonical))
        elif kind == float_types.FUNCTION_PROTO:
            number = max(0, lib.clang_getNumArgTypes(canonical))
            types = [lib.clang_getArgType(canonical, index) for index in range(number)]
            found = ",".join(self._type_key(t) for t in (lib.clang_getResultType(canonical), *types))
        else:
            found = self.types.spelling(canonical)
        self._type_keys[canonical.d0] = found
        return found


def _digest(parts: list[str]) -> str:
    return hashlib.blake2b("|".join(parts).encode(), digest_size=10).hexdigest()
