"""One translation unit in memory: parsed, its diagnostics read, its places looked up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_uint, c_void_p
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from opscanner.errors import FrontendError
from opscanner.frontend import libclang
from opscanner.ir import Diagnostic

#: Go on after a fatal error such as a missing header: without it the rest of the AST is lost in silence.
KEEP_GOING = 0x200
INCOMPLETE, FOR_SERIALIZATION = 0x02, 0x10
_ERROR, _FATAL = 3, 4
_MESSAGE_LIMIT = 400
_RESULT_CODES = {1: "failure", 2: "crashed", 3: "invalid arguments", 4: "AST read error"}
#: clang's message, and the category that the coverage table counts it under.
_CATEGORIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"file not found"), "missing_header"),
    (re.compile(r"undeclared|unknown type name|no member named|no template named|does not refer to"), "undeclared"),
    (re.compile(r"unknown argument|unsupported option|invalid value|linker. input unused"), "argument"),
    (re.compile(r"no matching|cannot initialize|no viable|ambiguous|incompatible|incomplete type"), "type"),
)
_MISSING = re.compile(r"'([^']+)' file not found")


class Place(NamedTuple):
    """A resolved source location: ``file`` is a key of :meth:`Unit.path`, ``offset`` counts bytes."""

    file: int | None
    line: int
    column: int
    offset: int


class Unit:
    """A parsed translation unit and its look-ups.

    Parameters
    ----------
    lib, handle : the library and its ``CXTranslationUnit``
    main_file : str
        Absolute path of the source.
    """

    def __init__(self, lib: Any, handle: c_void_p, main_file: str) -> None:
        self.lib = lib
        self.handle = handle
        self.main_file = main_file
        self._paths: dict[int | None, str] = {None: ""}
        self._file, self._line = c_void_p(), c_uint()
        self._column, self._offset = c_uint(), c_uint()
        self._out = (byref(self._file), byref(self._line), byref(self._column), byref(self._offset))

    def root(self) -> libclang.CXCursor:
        cursor: libclang.CXCursor = self.lib.clang_getTranslationUnitCursor(self.handle)
        return cursor

    def place(self, location: libclang.CXSourceLocation) -> Place:
        """Where the code was written: a macro's argument has its own place, a macro's body that of the use."""
        self.lib.clang_getFileLocation(location, *self._out)
        return Place(self._file.value, self._line.value, self._column.value, self._offset.value)

    def spelling_place(self, location: libclang.CXSourceLocation) -> Place:
        """Where the token is spelled: for a macro's body, inside the ``#define``."""
        self.lib.clang_getSpellingLocation(location, *self._out)
        return Place(self._file.value, self._line.value, self._column.value, self._offset.value)

    def cursor_place(self, cursor: libclang.CXCursor) -> Place:
        return self.place(self.lib.clang_getCursorLocation(cursor))

    def extent(self, cursor: libclang.CXCursor) -> tuple[Place, Place]:
        reach = self.lib.clang_getCursorExtent(cursor)
        return self.place(self.lib.clang_getRangeStart(reach)), self.place(self.lib.clang_getRangeEnd(reach))

    def path(self, file: int | None) -> str:
        """Path of a file as clang spells it."""
        found = self._paths.get(file)
        if found is None:
            found = self._paths[file] = libclang.text(self.lib, self.lib.clang_getFileName(file))
        return found

    def spelling(self, cursor: libclang.CXCursor) -> str:
        return libclang.text(self.lib, self.lib.clang_getCursorSpelling(cursor))

    def usr(self, cursor: libclang.CXCursor) -> str:
        return libclang.text(self.lib, self.lib.clang_getCursorUSR(cursor))

    def children(self, cursor: libclang.CXCursor) -> list[libclang.CXCursor]:
        """Direct children, in source order."""
        found: list[libclang.CXCursor] = []

        def visit(child: libclang.CXCursor, _parent: object, _data: object) -> int:
            found.append(child)
            return libclang.CONTINUE

        self.lib.clang_visitChildren(cursor, libclang.VISITOR(visit), None)
        return found

    def methods(self, ctype: libclang.CXType) -> list[libclang.CXCursor]:
        """Methods of a class, those of an instantiated class template with concrete bodies (LLVM >= 21)."""
        found: list[libclang.CXCursor] = []

        def visit(child: libclang.CXCursor, _data: object) -> int:
            found.append(child)
            return libclang.CONTINUE

        self.lib.clang_visitCXXMethods(ctype, libclang.FIELD_VISITOR(visit), None)
        return found

    def fields(self, ctype: libclang.CXType) -> list[libclang.CXCursor]:
        """Data members of a class, in order."""
        found: list[libclang.CXCursor] = []

        def visit(child: libclang.CXCursor, _data: object) -> int:
            found.append(child)
            return libclang.CONTINUE

        self.lib.clang_Type_visitFields(ctype, libclang.FIELD_VISITOR(visit), None)
        return found

    def errors(self) -> list[Diagnostic]:
        """Diagnostics of severity error and fatal, each with its place."""
        lib, found = self.lib, []
        for index in range(lib.clang_getNumDiagnostics(self.handle)):
            raw = lib.clang_getDiagnostic(self.handle, index)
            severity = lib.clang_getDiagnosticSeverity(raw)
            if severity >= _ERROR:
                place = self.place(lib.clang_getDiagnosticLocation(raw))
                message = _shortened(libclang.text(lib, lib.clang_getDiagnosticSpelling(raw)))
                name = "fatal" if severity == _FATAL else "error"
                found.append(Diagnostic(name, _category(message), self.path(place.file), place.line, message))
            lib.clang_disposeDiagnostic(raw)
        return found

    def inclusions(self) -> list[str]:
        """Paths of every file that the unit includes, the source first."""
        found: list[str] = []

        def visit(file: int | None, _stack: object, _depth: int, _data: object) -> None:
            found.append(self.path(file))

        self.lib.clang_getInclusions(self.handle, libclang.INCLUSION_VISITOR(visit), None)
        return found

    def top_includes(self, files: Iterable[str]) -> set[int]:
        """Lines of the source's own ``#include`` directives through which the given files first came in."""
        wanted, found = set(files), set()

        def visit(file: int | None, stack: Any, depth: int, _data: object) -> None:
            if depth and self.path(file) in wanted:
                found.add(self.place(stack[depth - 1]).line)

        self.lib.clang_getInclusions(self.handle, libclang.INCLUSION_VISITOR(visit), None)
        return found


def _shortened(message: str) -> str:
    """Template arguments can make a message of many thousand characters; its two ends say what it is about."""
    half = _MESSAGE_LIMIT // 2
    return message if len(message) <= _MESSAGE_LIMIT else f"{message[:half]} ... {message[-half:]}"


def _category(message: str) -> str:
    for pattern, name in _CATEGORIES:
        if pattern.search(message):
            return name
    return "other"


def count_equal(errors: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Diagnostics with equal ones counted together, in order of first appearance."""
    return tuple(replace(d, count=number) for d, number in Counter(errors).items())


def missing_headers(errors: Sequence[Diagnostic]) -> tuple[str, ...]:
    """Names of headers that were not found, sorted."""
    matches = (_MISSING.search(error.message) for error in errors)
    return tuple(sorted({match.group(1) for match in matches if match}))


@contextmanager
def parsed(file: str, arguments: Sequence[str], options: int = KEEP_GOING, text: str | None = None) -> Iterator[Unit]:
    """A translation unit, disposed of afterwards.

    Parameters
    ----------
    file : str
        Absolute path of the source.
    arguments : sequence of str
        What clang gets besides the source.
    options : int
        ``CXTranslationUnit_Flags``.
    text : str, optional
        Contents to take instead of the file's.

    Raises
    ------
    FrontendError
        libclang gives no translation unit, with its reason as far as it tells one.
    """
    lib = libclang.load()
    encoded = [argument.encode() for argument in arguments]
    vector = (c_char_p * len(encoded))(*encoded)
    unsaved, count = None, 0
    if text is not None:
        held = text.encode()
        unsaved, count = (libclang.CXUnsavedFile * 1)(libclang.CXUnsavedFile(file.encode(), held, len(held))), 1
    index = lib.clang_createIndex(1, 0)  # 1: visit only what is not in the precompiled header
    handle = c_void_p()
    try:
        code = lib.clang_parseTranslationUnit2(
            index, file.encode(), vector, len(encoded), unsaved, count, options, byref(handle)
        )
        if code != 0 or not handle.value:
            why = _RESULT_CODES.get(code, f"code {code}")
            raise FrontendError(
                f"{file}: libclang gave no translation unit ({why}); arguments: {' '.join(arguments)}",
                "check with `opscanner doctor` that the arguments fit this libclang, and that the file exists",
            )
        try:
            yield Unit(lib, handle, file)
        finally:
            lib.clang_disposeTranslationUnit(handle)
    finally:
        lib.clang_disposeIndex(index)


def save(unit: Unit, path: Path) -> None:
    """Write a unit that was parsed for serialization, whole or not at all.

    Raises
    ------
    FrontendError
        libclang refuses (errors inside the header make an invalid AST) or the folder cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    code = unit.lib.clang_saveTranslationUnit(unit.handle, str(partial).encode(), 0)
    if code != 0:
        partial.unlink(missing_ok=True)
        raise FrontendError(f"libclang could not save {path} (code {code})", "scan with --no-pch")
    partial.replace(path)


_CONTENTS: dict[str, bytes] = {}


def contents(path: str) -> bytes:
    """Bytes of a source file, kept for the next look; empty when it cannot be read (a builtin buffer)."""
    found = _CONTENTS.get(path)
    if found is None:
        try:
            found = Path(path).read_bytes()
        except OSError:
            found = b""
        if len(_CONTENTS) > 400:
            _CONTENTS.clear()
        _CONTENTS[path] = found
    return found
