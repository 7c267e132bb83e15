"""The float format of a C++ type, as clang sees it in one translation unit."""

from __future__ import annotations

from typing import Any, NamedTuple

from opscanner.frameworks.float_types import COMPLEX, COMPLEX_TEMPLATES, SCALARS, VECTOR_TEMPLATES, VECTORS
from opscanner.frontend import libclang
from opscanner.precision.formats import is_floating

# Type kinds of clang-c/Index.h (CXTypeKind).
INVALID, BOOL, POINTER, LVALUE, RVALUE, RECORD, ENUM = 0, 3, 101, 103, 104, 105, 106
FUNCTION_PROTO, CONSTANT_ARRAY, VECTOR, INCOMPLETE_ARRAY, EXT_VECTOR = 111, 112, 113, 114, 176
_ARRAYS = frozenset({CONSTANT_ARRAY, INCOMPLETE_ARRAY, 115, 116})
_BUILTIN = {
    3: "bool",
    4: "uint8",
    5: "uint8",
    6: "uint16",
    7: "uint32",
    8: "uint16",
    9: "uint32",
    10: "uint64",
    11: "uint64",
    12: "uint128",
    13: "int8",
    14: "int8",
    15: "int32",
    16: "int16",
    17: "int32",
    18: "int64",
    19: "int64",
    20: "int128",
    21: "float32",
    22: "float64",
    23: "float80",
    30: "float128",
    31: "float16",
    32: "float16",
    39: "bfloat16",
}
_COMPLEX_KIND = 100


class TypeFacts(NamedTuple):
    """What the walk needs to know of a type.

    Parameters
    ----------
    format : str
        Of the value (references looked through); empty for anything that is not a number or numbers.
    floating : bool
        The format is a real or complex float.
    lanes : int
        1 for a number; more for a vector type; 0 for a vector whose length the platform decides.
    pointee : str
        For pointers and arrays, the format of what lies behind.
    record : bool
        A class type that is no number but holds some: values may flow through it.
    float_class : bool
        A class type that is a float (``c10::Half``): its members are the type's own business.
    """

    format: str = ""
    floating: bool = False
    lanes: int = 1
    pointee: str = ""
    record: bool = False
    float_class: bool = False


NOTHING = TypeFacts()


class TypeTable:
    """Formats of types, looked up by clang's uniqued type pointer.

    Parameters
    ----------
    lib : the library of :func:`opscanner.frontend.libclang.load`
    """

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        self.known: dict[int | None, TypeFacts] = {}

    def of_cursor(self, cursor: libclang.CXCursor) -> TypeFacts:
        """Facts on the type of an expression or declaration."""
        return self.of_type(self._lib.clang_getCursorType(cursor))

    def of_type(self, ctype: libclang.CXType) -> TypeFacts:
        facts = self.known.get(ctype.d0)
        if facts is None:
            facts = self.known[ctype.d0] = self._classify(ctype)
        return facts

    def spelling(self, ctype: libclang.CXType) -> str:
        return libclang.text(self._lib, self._lib.clang_getTypeSpelling(ctype))

    def _classify(self, ctype: libclang.CXType) -> TypeFacts:
        lib = self._lib
        if ctype.kind == INVALID:
            return NOTHING
        canonical = lib.clang_getCanonicalType(ctype)
        kind = canonical.kind
        if kind in (LVALUE, RVALUE):
            return self.of_type(lib.clang_getPointeeType(canonical))
        builtin = _BUILTIN.get(kind)
        if builtin is not None:
            return TypeFacts(builtin, is_floating(builtin))
        if kind == ENUM:
            return self.of_type(lib.clang_getEnumDeclIntegerType(lib.clang_getTypeDeclaration(canonical)))
        if kind == POINTER:
            return TypeFacts(pointee=self.of_type(lib.clang_getPointeeType(canonical)).format)
        if kind in _ARRAYS:
            element = self.of_type(lib.clang_getArrayElementType(canonical))
            return TypeFacts(pointee=element.format or element.pointee)
        if kind == RECORD:
            return self._record(canonical)
        if kind in (VECTOR, EXT_VECTOR):
            element = self.of_type(lib.clang_getElementType(canonical))
            return TypeFacts(element.format, element.floating, int(lib.clang_getNumElements(canonical)))
        if kind == _COMPLEX_KIND:
            part = self.of_type(lib.clang_getElementType(canonical)).format
            return TypeFacts(COMPLEX.get(part, ""), part in COMPLEX)
        # libclang <= 18 has no kind for __bf16, and 22 none for size_t of builtins: their spelling tells.
        scalar = SCALARS.get(self.spelling(lib.clang_getUnqualifiedType(canonical)))
        return TypeFacts(scalar, True) if scalar else NOTHING

    def _record(self, canonical: libclang.CXType) -> TypeFacts:
        spelled = self.spelling(self._lib.clang_getUnqualifiedType(canonical))
        name = spelled.partition("<")[0].replace("(anonymous namespace)::", "").replace("struct ", "")
        scalar = SCALARS.get(name)
        if scalar:
            return TypeFacts(scalar, True, float_class=True)
        if name in VECTORS:
            vector_format, lanes = VECTORS[name]
            return TypeFacts(vector_format, True, lanes, float_class=True)
        if name in COMPLEX_TEMPLATES:
            part = self._first_argument(canonical)
            return TypeFacts(COMPLEX.get(part, ""), part in COMPLEX, float_class=part in COMPLEX)
        if name in VECTOR_TEMPLATES:
            element = self._first_argument(canonical)
            if is_floating(element):
                return TypeFacts(element, True, 0, record=True)
        if spelled.startswith("(lambda"):
            return NOTHING  # what a lambda captures is joined to its body directly
        return TypeFacts(record=self._carries_floats(canonical))

    def _carries_floats(self, canonical: libclang.CXType) -> bool:
        """True when floats may flow along with an object: in its members, bases or what it is a template of."""
        self.known[canonical.d0] = NOTHING  # a class that holds pointers to its own kind
        lib = self._lib
        for index in range(max(0, lib.clang_Type_getNumTemplateArguments(canonical))):
            if _of_floats(self.of_type(lib.clang_Type_getTemplateArgumentAsType(canonical, index))):
                return True
        parts: list[libclang.CXCursor] = []

        def visit(part: libclang.CXCursor, _data: object) -> int:
            parts.append(part)
            return libclang.CONTINUE

        visitor = libclang.FIELD_VISITOR(visit)
        lib.clang_Type_visitFields(canonical, visitor, None)
        lib.clang_visitCXXBaseClasses(canonical, visitor, None)
        return any(_of_floats(self.of_cursor(part)) for part in parts)

    def _first_argument(self, canonical: libclang.CXType) -> str:
        if self._lib.clang_Type_getNumTemplateArguments(canonical) < 1:
            return ""
        return self.of_type(self._lib.clang_Type_getTemplateArgumentAsType(canonical, 0)).format


def _of_floats(facts: TypeFacts) -> bool:
    return facts.floating or facts.record or is_floating(facts.pointee)
