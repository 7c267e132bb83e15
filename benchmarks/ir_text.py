"""Read the text of an LLVM module that clang wrote with ``-g``: functions, calls, casts, and where each is written."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

#: IR's scalar types by the names that we use.
FORMATS = {"half": "float16", "bfloat": "bfloat16", "float": "float32", "double": "float64"}

_NAME = r'@("(?:[^"\\]|\\.)*"|[-\w.$]+)'
_DEFINE = re.compile(rf"^define .*?{_NAME}\(")
_DEBUG = re.compile(r"!dbg !(\d+)")
_CALL = re.compile(rf"^  (?:%\S+ = )?(?:tail |notail |musttail )?call [^@]*?{_NAME}\((.*)")
_CAST = re.compile(
    r"^  %\S+ = (?:fpext|fptrunc) (?:\w+ )*?(?:<\d+ x )?(half|bfloat|float|double)>? (\S+) to (?:<\d+ x )?(\w+)"
)
_ARITHMETIC = re.compile(r"^  %\S+ = (fadd|fsub|fmul|fdiv|frem|fneg) (?:\w+ )*?(?:<\d+ x )?(half|bfloat)\b")
_METADATA = re.compile(
    r"^!(\d+) = (?:distinct )?!(DILocation|DISubprogram|DILexicalBlock|DILexicalBlockFile|DIFile|DINamespace"
    r"|DICompositeType)\((.*)\)$"
)
_FIELD = re.compile(r'(\w+): (?:!(\d+)|(\d+)|"((?:[^"\\]|\\.)*)")')


class Cast(NamedTuple):
    """An ``fpext`` or ``fptrunc``; ``location`` is the id of its DILocation, 0 when it has none."""

    source: str
    target: str
    location: int
    constant: bool


class Call(NamedTuple):
    """A direct call; ``arguments`` is the text after the opening parenthesis."""

    callee: str
    location: int
    arguments: str


class Arithmetic(NamedTuple):
    """An instruction that computes in 16 bits."""

    operation: str
    format: str
    location: int


class Frame(NamedTuple):
    """One level of inlining: a place and the function (metadata id) it is written in."""

    file: str
    line: int
    column: int
    subprogram: int


@dataclass
class Function:
    """A function with a body; ``subprogram`` is 0 when it has no debug information (CUDA's libdevice)."""

    name: str
    subprogram: int
    casts: list[Cast] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    arithmetic: list[Arithmetic] = field(default_factory=list)


class Module:
    """Functions and debug information of one module.

    Parameters
    ----------
    lines : iterable of str
        The module as ``clang -S -emit-llvm`` writes it.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.functions: dict[str, Function] = {}
        self.locations: set[int] = set()
        self._fields: dict[int, tuple[str, dict[str, str]]] = {}
        current: Function | None = None
        for line in lines:
            if line.startswith("  "):
                if current is not None:
                    self._instruction(current, line)
            elif line.startswith("!"):
                if found := _METADATA.match(line):
                    values = {key: ref or number or text for key, ref, number, text in _FIELD.findall(found[3])}
                    self._fields[int(found[1])] = (found[2], values)
            elif found := _DEFINE.match(line):
                debug = _DEBUG.search(line)
                current = Function(found[1].strip('"'), int(debug[1]) if debug else 0)
                self.functions[current.name] = current

    def _instruction(self, function: Function, line: str) -> None:
        debug = _DEBUG.search(line)
        location = int(debug[1]) if debug else 0
        if location:
            self.locations.add(location)
        if " call " in line or line.startswith("  call"):
            if found := _CALL.match(line):
                function.calls.append(Call(found[1].strip('"'), location, found[2]))
        elif found := _CAST.match(line):
            constant = not found[2].startswith("%")
            function.casts.append(Cast(FORMATS[found[1]], FORMATS[found[3]], location, constant))
        elif found := _ARITHMETIC.match(line):
            function.arithmetic.append(Arithmetic(found[1], FORMATS[found[2]], location))

    # -- places --------------------------------------------------------------------------------------------------

    @functools.cache  # noqa: B019 - a module lives as long as its analysis
    def frames(self, location: int) -> tuple[Frame, ...]:
        """The place of an instruction, then the calls it was inlined through, innermost first."""
        return tuple(self._frames(location))

    def _frames(self, location: int) -> Iterator[Frame]:
        while location:
            values = self._fields[location][1]
            scope = int(values["scope"])
            line, column = int(values.get("line", 0)), int(values.get("column", 0))
            yield Frame(self.file(scope), line, column, self._enclosing(scope))
            location = int(values.get("inlinedAt", 0))

    @functools.cache  # noqa: B019
    def file(self, entry: int) -> str:
        """Absolute path of the file that a scope is written in, empty when unknown."""
        if entry not in self._fields:
            return ""
        kind, values = self._fields[entry]
        if kind != "DIFile":
            return self.file(int(values.get("file", 0)))
        return os.path.realpath(os.path.join(values.get("directory", ""), values.get("filename", "")))

    def _enclosing(self, scope: int) -> int:
        while scope and self._fields[scope][0] != "DISubprogram":
            scope = int(self._fields[scope][1].get("scope", 0))
        return scope

    # -- names ---------------------------------------------------------------------------------------------------

    def linkage_name(self, subprogram: int) -> str:
        """Mangled name of a function by its debug information."""
        values = self._fields[subprogram][1] if subprogram else {}
        return values.get("linkageName") or values.get("name", "")

    def linkage_names(self) -> set[str]:
        """Mangled names of all functions that the debug information tells of, inlined ones included."""
        found = {self.linkage_name(entry) for entry, (kind, _) in self._fields.items() if kind == "DISubprogram"}
        return found - {""}

    @functools.cache  # noqa: B019
    def qualified_name(self, subprogram: int) -> str:
        """``at::native::softmax_warp_forward``: without template arguments; a lambda has its function's name."""
        names: list[str] = []
        entry = subprogram
        while entry in self._fields:
            kind, values = self._fields[entry]
            name = values.get("name", "")
            if kind == "DICompositeType" and not name:
                if names and names[-1] == "operator()":
                    names.pop()
            elif kind == "DINamespace":
                names.append(name or "(anonymous namespace)")
            elif kind in ("DICompositeType", "DISubprogram"):
                names.append(_without_arguments(name))
            entry = int(values.get("scope", 0))
        return "::".join(reversed(names))


def _without_arguments(name: str) -> str:
    found = re.match(r"(operator\W*|[^<]*)", name)
    return found[0].rstrip() if found and found[0] else name
