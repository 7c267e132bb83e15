"""Which function instances are the same: keys that hold across translation units.

Template instantiations that differ only in integers share a key, unless these are enumerators, which choose between
functions, or the body asks ``if constexpr`` questions: one walk per (pattern, bound formats) is enough for casts, and
it is what makes the walk affordable (``PersistentSoftmax.cuh`` has 55 instances per line).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from opscanner.frontend import float_types, libclang
from opscanner.frontend.cursor_kinds import CLASS_LIKE, FUNCTION_LIKE, TEMPLATE_PARAMETERS
from opscanner.frontend.float_types import TypeTable
from opscanner.frontend.parse import Place, Unit, contents

_IF_CONSTEXPR = re.compile(rb"\bif\s+constexpr\b")
#: Template arguments in the USR of a function, and an integer among them other than 0 and 1.
_USR_INTEGER = re.compile(r"(#V\w)(?![01](?!\d))-?\d+")
_TYPE_ARGUMENT, _INTEGRAL_ARGUMENT = 1, 4


def is_lambda_class(unit: Unit, cursor: libclang.CXCursor) -> bool:
    """True for the class that a lambda expression makes."""
    return cursor.kind in CLASS_LIKE and unit.spelling(cursor).startswith("(lambda")


class Identity:
    """Keys of functions, classes and types of one translation unit.

    Parameters
    ----------
    unit, types : the unit and its types
    file : callable
        Gives (path, ...) of a file of the unit.
    variant : str
        Tells apart compilations that may see other bodies in the same places.
    anonymous : bool
        Take lambdas with equal call operators for one another: the key then says which formats a body works on, not
        whom it calls.
    """

    def __init__(
        self,
        unit: Unit,
        types: TypeTable,
        file: Callable[[int | None], tuple[str, bool, bool]],
        variant: str,
        *,
        anonymous: bool = False,
    ) -> None:
        self._unit, self._types, self._file = unit, types, file
        self._lib: Any = unit.lib
        self._variant, self._anonymous = variant, anonymous
        self._keys: dict[int | None, str] = {}
        self._record_keys: dict[int | None, str] = {}
        self._type_keys: dict[int | None, str] = {}
        self._ordinals: dict[tuple[int | None, int], int] = {}
        self._constexpr: dict[tuple[int | None, int], bool] = {}
        self._enumerations: dict[int | None, frozenset[int]] = {}

    def of(self, cursor: libclang.CXCursor) -> str:
        """Identity of a function instance, equal in every translation unit that binds the same formats."""
        found = self._keys.get(cursor.d0)
        if found is not None:
            return found
        self._keys[cursor.d0] = ""  # a type that mentions the function itself
        lib = self._lib
        place = self._unit.cursor_place(cursor)
        parts = [self._variant, self._file(place.file)[0], str(place.offset), str(cursor.kind)]
        parts.append(self._type_key(lib.clang_getCursorType(cursor)))
        parts += self._function_arguments(cursor, place)
        parts.append(self._parent_key(cursor))
        found = self._keys[cursor.d0] = _digest(parts)
        return found

    def _function_arguments(self, cursor: libclang.CXCursor, place: Place) -> list[str]:
        """Template arguments of a function.

        libclang 22.1.4 tells those of plain functions only, and nothing of packs, templates and functions as arguments:
        there the USR has them.
        """
        lib = self._lib
        number = lib.clang_Cursor_getNumTemplateArguments(cursor)
        if number <= 0 and not lib.clang_getSpecializedCursorTemplate(cursor).d0:
            return []
        keep = self._asks_constexpr(cursor, place)
        chosen = self._enumerators(cursor)
        keys = [self._argument_key(cursor, index, keep or index in chosen) for index in range(number)]
        if number > 0 and not any(key.startswith("kind") for key in keys):
            return keys
        spelled = self._unit.usr(cursor)
        return [spelled if keep or chosen else _USR_INTEGER.sub(r"\1#", spelled)]

    def _enumerators(self, cursor: libclang.CXCursor) -> frozenset[int]:
        """Positions of a template's parameters that are enumerations: they choose between different code."""
        template = self._lib.clang_getSpecializedCursorTemplate(cursor)
        found = self._enumerations.get(template.d0)
        if found is None:
            parameters = [child for child in self._unit.children(template) if child.kind in TEMPLATE_PARAMETERS]
            found = self._enumerations[template.d0] = frozenset(
                index
                for index, parameter in enumerate(parameters)
                if self._lib.clang_getCanonicalType(self._lib.clang_getCursorType(parameter)).kind == float_types.ENUM
            )
        return found

    def _parent_key(self, cursor: libclang.CXCursor) -> str:
        parent = self._lib.clang_getCursorSemanticParent(cursor)
        if parent.kind in CLASS_LIKE:
            return self._record_key(parent)
        if parent.kind in FUNCTION_LIKE:
            return self.of(parent)
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
        parts = [self._file(place.file)[0], str(place.offset)]
        if is_lambda_class(self._unit, cursor):
            if self._anonymous:
                found = self._record_keys[cursor.d0] = _digest(["lambda", self._call_operator(cursor)])
                return found
            parent = lib.clang_getCursorSemanticParent(cursor)
            at = (parent.d0, place.offset)
            ordinal = self._ordinals[at] = self._ordinals.get(at, -1) + 1
            parts.append(f"lambda{ordinal}")
        else:
            parts += self._record_arguments(cursor)
        parts.append(self._parent_key(cursor))
        found = self._record_keys[cursor.d0] = _digest(parts)
        return found

    def _call_operator(self, cursor: libclang.CXCursor) -> str:
        """Type of a lambda's call operator; its name where it is a template."""
        for method in self._unit.methods(self._lib.clang_getCursorType(cursor)):
            if self._unit.spelling(method) == "operator()":
                return self._type_key(self._lib.clang_getCursorType(method))
        return "operator()"

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
        if any(key == "?" or key.startswith("kind") for key in keys):
            keys.append(self._unit.usr(cursor))
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
            found = self._types.spelling(canonical)
        self._type_keys[canonical.d0] = found
        return found


def _digest(parts: list[str]) -> str:
    return hashlib.blake2b("|".join(parts).encode(), digest_size=10).hexdigest()
