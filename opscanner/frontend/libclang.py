"""The one door to libclang: the C functions the walk needs, bound for speed, and libclang's quirks written down.

``clang.cindex`` finds and loads the library; its Python objects are not used for walking. A walk touches hundreds of
thousands of cursors, and what costs is not clang but the wrapper objects around every call, so the functions here take
and give the bare C structures. Quirks, with the version they were seen in (22.1.4 unless another is named):

- ``Cursor.kind`` of cindex raises ``ValueError`` on kinds that it does not know (18.1.1: ``_Float16``, concepts);
  kinds are plain integers here.
- ``clang_getCursorLocation`` gives the expansion location; :func:`clang_getFileLocation`, absent from cindex, gives the
  place where the code was written when it is a macro's argument.
- An exception inside a visitor callback is printed and swallowed by ctypes, the walk going on with a hole: the
  callbacks here only append to lists, and everything that can fail runs outside of them.
- Any ``CXCursor`` that is kept pins its translation unit in memory: nothing outside the walk of one unit keeps one.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
from ctypes import POINTER, c_char_p, c_int, c_longlong, c_uint, c_void_p
from functools import lru_cache
from pathlib import Path
from typing import Any

from opscanner.errors import FrontendError

#: The oldest library with what the walk needs: operator codes (17) and a class specialization's methods (21).
OLDEST_MAJOR = 21


class CXString(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("flags", c_uint)]


class CXCursor(ctypes.Structure):
    """``d0`` is the declaration (or an expression's parent declaration), ``d1`` the statement or expression."""

    _fields_ = [("kind", c_int), ("xdata", c_int), ("d0", c_void_p), ("d1", c_void_p), ("d2", c_void_p)]


class CXType(ctypes.Structure):
    """``d0`` is clang's uniqued ``QualType``: equal pointers are equal types within a translation unit."""

    _fields_ = [("kind", c_int), ("d0", c_void_p), ("d1", c_void_p)]


class CXSourceLocation(ctypes.Structure):
    _fields_ = [("p0", c_void_p), ("p1", c_void_p), ("data", c_uint)]


class CXSourceRange(ctypes.Structure):
    _fields_ = [("p0", c_void_p), ("p1", c_void_p), ("begin", c_uint), ("end", c_uint)]


class CXUnsavedFile(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("contents", c_char_p), ("length", ctypes.c_ulong)]


VISITOR = ctypes.CFUNCTYPE(c_int, CXCursor, CXCursor, c_void_p)
FIELD_VISITOR = ctypes.CFUNCTYPE(c_int, CXCursor, c_void_p)
INCLUSION_VISITOR = ctypes.CFUNCTYPE(None, c_void_p, POINTER(CXSourceLocation), c_uint, c_void_p)
CONTINUE, RECURSE = 1, 2

_P4 = [POINTER(c_void_p), POINTER(c_uint), POINTER(c_uint), POINTER(c_uint)]
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "clang_getClangVersion": (CXString, []),
    "clang_getCString": (c_char_p, [CXString]),
    "clang_disposeString": (None, [CXString]),
    "clang_createIndex": (c_void_p, [c_int, c_int]),
    "clang_disposeIndex": (None, [c_void_p]),
    "clang_parseTranslationUnit2": (
        c_int,
        [c_void_p, c_char_p, POINTER(c_char_p), c_int, POINTER(CXUnsavedFile), c_uint, c_uint, POINTER(c_void_p)],
    ),
    "clang_saveTranslationUnit": (c_int, [c_void_p, c_char_p, c_uint]),
    "clang_disposeTranslationUnit": (None, [c_void_p]),
    "clang_getTranslationUnitCursor": (CXCursor, [c_void_p]),
    "clang_getInclusions": (None, [c_void_p, INCLUSION_VISITOR, c_void_p]),
    "clang_getFile": (c_void_p, [c_void_p, c_char_p]),
    "clang_getFileName": (CXString, [c_void_p]),
    "clang_getNumDiagnostics": (c_uint, [c_void_p]),
    "clang_getDiagnostic": (c_void_p, [c_void_p, c_uint]),
    "clang_disposeDiagnostic": (None, [c_void_p]),
    "clang_getDiagnosticSeverity": (c_int, [c_void_p]),
    "clang_getDiagnosticSpelling": (CXString, [c_void_p]),
    "clang_getDiagnosticLocation": (CXSourceLocation, [c_void_p]),
    "clang_getDiagnosticOption": (CXString, [c_void_p, c_void_p]),
    "clang_visitChildren": (c_uint, [CXCursor, VISITOR, c_void_p]),
    "clang_visitCXXBaseClasses": (c_uint, [CXType, FIELD_VISITOR, c_void_p]),
    "clang_visitCXXMethods": (c_uint, [CXType, FIELD_VISITOR, c_void_p]),
    "clang_getCursorType": (CXType, [CXCursor]),
    "clang_getCursorReferenced": (CXCursor, [CXCursor]),
    "clang_getCursorDefinition": (CXCursor, [CXCursor]),
    "clang_getCanonicalCursor": (CXCursor, [CXCursor]),
    "clang_getCursorSemanticParent": (CXCursor, [CXCursor]),
    "clang_getSpecializedCursorTemplate": (CXCursor, [CXCursor]),
    "clang_getCursorSpelling": (CXString, [CXCursor]),
    "clang_getCursorPrettyPrinted": (CXString, [CXCursor, c_void_p]),
    "clang_getCursorUSR": (CXString, [CXCursor]),
    "clang_getCursorLocation": (CXSourceLocation, [CXCursor]),
    "clang_getCursorExtent": (CXSourceRange, [CXCursor]),
    "clang_getRangeStart": (CXSourceLocation, [CXSourceRange]),
    "clang_getRangeEnd": (CXSourceLocation, [CXSourceRange]),
    "clang_getFileLocation": (None, [CXSourceLocation, *_P4]),
    "clang_getExpansionLocation": (None, [CXSourceLocation, *_P4]),
    "clang_getSpellingLocation": (None, [CXSourceLocation, *_P4]),
    "clang_isCursorDefinition": (c_uint, [CXCursor]),
    "clang_getCursorBinaryOperatorKind": (c_int, [CXCursor]),
    "clang_getCursorUnaryOperatorKind": (c_int, [CXCursor]),
    "clang_Cursor_getArgument": (CXCursor, [CXCursor, c_uint]),
    "clang_Cursor_getNumArguments": (c_int, [CXCursor]),
    "clang_Cursor_getNumTemplateArguments": (c_int, [CXCursor]),
    "clang_Cursor_getTemplateArgumentKind": (c_int, [CXCursor, c_uint]),
    "clang_Cursor_getTemplateArgumentType": (CXType, [CXCursor, c_uint]),
    "clang_Cursor_getTemplateArgumentValue": (c_longlong, [CXCursor, c_uint]),
    "clang_Cursor_Evaluate": (c_void_p, [CXCursor]),
    "clang_EvalResult_getKind": (c_int, [c_void_p]),
    "clang_EvalResult_getAsLongLong": (c_longlong, [c_void_p]),
    "clang_EvalResult_dispose": (None, [c_void_p]),
    "clang_CXXMethod_isStatic": (c_uint, [CXCursor]),
    "clang_Cursor_isFunctionInlined": (c_uint, [CXCursor]),
    "clang_Cursor_getStorageClass": (c_int, [CXCursor]),
    "clang_getCursorLinkage": (c_int, [CXCursor]),
    "clang_Cursor_getVarDeclInitializer": (CXCursor, [CXCursor]),
    "clang_getTypeSpelling": (CXString, [CXType]),
    "clang_getCanonicalType": (CXType, [CXType]),
    "clang_getEnumDeclIntegerType": (CXType, [CXCursor]),
    "clang_getTypeDeclaration": (CXCursor, [CXType]),
    "clang_getPointeeType": (CXType, [CXType]),
    "clang_getResultType": (CXType, [CXType]),
    "clang_getArgType": (CXType, [CXType, c_uint]),
    "clang_getNumArgTypes": (c_int, [CXType]),
    "clang_getArrayElementType": (CXType, [CXType]),
    "clang_getElementType": (CXType, [CXType]),
    "clang_getNumElements": (c_longlong, [CXType]),
    "clang_getUnqualifiedType": (CXType, [CXType]),
    "clang_Type_getNumTemplateArguments": (c_int, [CXType]),
    "clang_Type_getTemplateArgumentAsType": (CXType, [CXType, c_uint]),
    "clang_Type_visitFields": (c_uint, [CXType, FIELD_VISITOR, c_void_p]),
    "clang_Type_getSizeOf": (c_longlong, [CXType]),
}


@lru_cache(maxsize=1)
def load() -> Any:
    """The library with every prototype set.

    Raises
    ------
    FrontendError
        No libclang, one that is too old, or bindings of one package over the library of another.
    """
    path = _library_path()
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise FrontendError(f"libclang could not be loaded from {path}: {error}", _INSTALL_HINT) from error
    for name, (result, arguments) in _PROTOTYPES.items():
        try:
            function = getattr(lib, name)
        except AttributeError as error:
            raise FrontendError(
                f"{path} lacks {name}: it is older than LLVM {OLDEST_MAJOR}. {package_report()}", _INSTALL_HINT
            ) from error
        function.restype, function.argtypes = result, arguments
    return lib


_INSTALL_HINT = (
    "pip uninstall -y clang libclang libclang-ng && pip install 'libclang-ng==22.1.4.2' "
    "(the three packages overwrite each other's clang/cindex.py)"
)


def _library_path() -> str:
    """Path of the library beside the bindings, or where the bindings look for one."""
    spec = importlib.util.find_spec("clang")
    if spec is None:
        raise FrontendError("no libclang: the module clang.cindex is not installed", _INSTALL_HINT)
    for folder in spec.submodule_search_locations or ():
        for pattern in ("libclang.so*", "libclang.dylib", "libclang.dll"):
            for candidate in sorted(Path(folder, "native").glob(pattern)):
                return str(candidate)
    try:
        from clang import cindex
    except ImportError as error:
        raise FrontendError(f"clang.cindex does not import: {error}. {package_report()}", _INSTALL_HINT) from error
    return str(cindex.conf.get_filename())


def installed_packages() -> dict[str, str]:
    """Versions of the packages that bring ``clang/cindex.py``, by name. More than one is a conflict."""
    found: dict[str, str] = {}
    for name in ("libclang-ng", "libclang", "clang"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def package_report() -> str:
    """One sentence on which packages are installed, for error messages."""
    found = installed_packages()
    listed = ", ".join(f"{name} {version}" for name, version in found.items()) or "none"
    conflict = "; they overwrite each other's clang/cindex.py, the last one installed wins" if len(found) > 1 else ""
    return f"Installed packages that bring clang.cindex: {listed}{conflict}."


def text(lib: Any, string: CXString) -> str:
    """The Python string of a ``CXString``, which is disposed of."""
    raw = lib.clang_getCString(string)
    lib.clang_disposeString(string)
    return raw.decode("utf-8", "replace") if raw else ""


def version() -> str:
    """clang's own version line, such as ``clang version 22.1.4``."""
    lib = load()
    return text(lib, lib.clang_getClangVersion())
