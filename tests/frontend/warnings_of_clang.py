"""Where clang itself warns of an implicit change of precision, in a unit that was parsed with these warnings on."""

from __future__ import annotations

import re

from opscanner.frontend import libclang
from opscanner.frontend.parse import Unit

WARNINGS = ("-Wdouble-promotion", "-Wimplicit-float-conversion")
_FORMATS = {"float": "float32", "double": "float64", "_Float16": "float16", "__bf16": "bfloat16"}
_TYPES = re.compile(r"'([^']+)'(?: \(aka '([^']+)'\))?")


def warned(unit: Unit) -> set[tuple[str, int, str, str]]:
    """(file, line, from, to) of clang's warnings about implicit changes of precision."""
    lib = unit.lib
    found = set()
    for index in range(lib.clang_getNumDiagnostics(unit.handle)):
        raw = lib.clang_getDiagnostic(unit.handle, index)
        option = libclang.text(lib, lib.clang_getDiagnosticOption(raw, None))
        if option in WARNINGS:
            place = unit.place(lib.clang_getDiagnosticLocation(raw))
            message = libclang.text(lib, lib.clang_getDiagnosticSpelling(raw))
            formats = [
                _FORMATS.get((aka or plain).replace("const ", "").rstrip(" &"), plain)
                for plain, aka in _TYPES.findall(message)
            ]
            found.add((unit.path(place.file), place.line, *formats[:2]))
        lib.clang_disposeDiagnostic(raw)
    return found
