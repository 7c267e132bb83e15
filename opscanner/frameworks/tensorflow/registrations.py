"""``REGISTER_KERNEL_BUILDER`` wherever it stands, also where macros of macros write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from opscanner.frameworks import macros
from opscanner.frameworks.declarations import Device
from opscanner.frameworks.source_text import Definition, SourceText, closing, split_arguments

BUILDER = "REGISTER_KERNEL_BUILDER"
_NAME = re.compile(r'Name\(\s*"(\w+)"\s*\)')
_DEVICE = re.compile(r"\.Device\(\s*(?:tensorflow::)?(DEVICE_\w+|\"\w+\")")
_CONSTRAINT = re.compile(r"\.TypeConstraint<\s*([^()]*?)\s*>\(\s*\"(\w+)\"")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
_CLASS = re.compile(r"\b(?:struct|class)\s+\w+[^;{()]*\{")
_BUILDER_CALL = re.compile(rf"\b{BUILDER}\s*\(")
DEVICES: Mapping[str, Device] = {"DEVICE_CPU": "cpu", "DEVICE_GPU": "cuda", '"CPU"': "cpu", '"GPU"': "cuda"}
FORMATS: Mapping[str, str] = {
    "half": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "complex64": "complex64",
    "complex128": "complex128",
}
_FORMAT = re.compile(r"(?:Eigen::|tensorflow::|tsl::)?\b(" + "|".join(FORMATS) + r"|std::complex<(?:float|double)>)\b")
_ANY_TYPE = re.compile(
    r"(?:::)?(?:Eigen::|tensorflow::|tsl::|std::)?\b(?:half|bfloat16|float|double|float8_\w+|complex(?:64|128)|complex<\w+>"
    r"|u?int(?:4|8|16|32|64)(?:_t)?|q?u?int(?:8|16|32)|bool|tstring|string|Variant|ResourceHandle)\b"
)


class Registered(NamedTuple):
    """A registration; ``kernel`` is the class as written after expansion, types of elements replaced by ``T``."""

    operator: str
    device: Device
    formats: tuple[str, ...]
    kernel: str
    line: int


class Headers:
    """Macros of headers, for the files that include them.

    Of several definitions of one header (for phones, for servers) the longest counts: it registers most.
    """

    def __init__(self, texts: Mapping[str, SourceText]) -> None:
        self._texts = texts
        self._own: dict[str, dict[str, macros.Macro]] = {}
        self._included: dict[str, list[str]] = {}

    def macros_for(self, source: SourceText, always: str) -> dict[str, macros.Macro]:
        """Function-like macros that a file sees, by name; those of ``always`` in any case."""
        found = dict(self._macros(always)) if always in self._texts else {}
        for header in self.seen_by(source):
            found.update(self._macros(header))
        return found

    def seen_by(self, source: SourceText) -> list[str]:
        """Headers that a file includes, also through others."""
        todo, seen = self._includes(source), dict[str, None]()
        while todo:
            header = todo.pop()
            if header not in seen and header in self._texts:
                seen[header] = None
                if header not in self._included:
                    self._included[header] = self._includes(self._texts[header])
                todo += self._included[header]
        return list(seen)

    def _includes(self, source: SourceText) -> list[str]:
        return _INCLUDE.findall(source.code)

    def _macros(self, header: str) -> dict[str, macros.Macro]:
        if header not in self._own:
            own = self._own[header] = {}
            for made in macros.definitions(self._texts[header].code):
                if made.macro is not None and len(made.macro.body) > len(own.get(made.name, macros.Macro((), "")).body):
                    own[made.name] = made.macro
        return self._own[header]


def registrations(statements: Iterable[tuple[int, str]]) -> list[Registered]:
    """The registrations of a file's statements, one for each (operator, device, class, line) with all formats."""
    found: dict[tuple[str, Device, str, int], set[str]] = {}
    for line, text in statements:
        for call in _BUILDER_CALL.finditer(text):
            end = closing(text, call.end() - 1)
            arguments = split_arguments(text[call.end() : end]) if end > 0 else []
            if len(arguments) < 2:
                continue
            builder, kernel = arguments[0], ", ".join(arguments[1:])
            name, device = _NAME.search(builder), _DEVICE.search(builder)
            if name and device and device[1] in DEVICES:
                constrained = " ".join(types for types, _ in _CONSTRAINT.findall(builder))
                formats = {_format(one[1]) for one in _FORMAT.finditer(constrained)}
                shape = re.sub(r"\s+", " ", _ANY_TYPE.sub("T", kernel)).strip()
                found.setdefault((name[1], DEVICES[device[1]], shape, line), set()).update(formats)
    return [Registered(key[0], key[1], tuple(sorted(formats)), key[2], key[3]) for key, formats in found.items()]


def _format(written: str) -> str:
    if written.startswith("std::complex"):
        return "complex64" if "float" in written else "complex128"
    return FORMATS[written]


def statements(
    source: SourceText, definitions: list[Definition], shared: Mapping[str, macros.Macro]
) -> Iterator[tuple[int, str]]:
    """Line and expanded text of every use of a macro at file level that registers a kernel or defines a class."""
    own = list(macros.definitions(source.code))
    names = {made.name for made in own} | set(shared)
    inside = sorted((made.body, made.end) for made in definitions if not made.is_class)
    known = dict(shared)
    active: set[str] = set()
    position = 0
    text = source.outside_directives
    last_end = 0
    for match in re.finditer(r"\b([A-Z]\w*)\s*\(", text):
        if match.start() < last_end or (match[1] not in names and match[1] != BUILDER):
            continue
        while position < len(own) and own[position].offset < match.start():
            _define(known, active, own[position], shared)
            position += 1
        end = closing(text, match.end() - 1)
        if end < 0 or any(begin < match.start() < stop for begin, stop in inside):
            continue
        last_end = end
        written = source.code[match.start() : end + 1]
        expanded = macros.expand(written, known) if match[1] != BUILDER else _expand_arguments(written, known)
        if BUILDER in expanded or _CLASS.search(expanded):
            yield source.line(match.start()), expanded


def _define(
    known: dict[str, macros.Macro], own: set[str], made: macros.Definition, shared: Mapping[str, macros.Macro]
) -> None:
    """Takes a file's own definition, or its end, into the macros that are known; what headers define is behind it."""
    if made.macro is None:
        own.discard(made.name)
        if made.name in shared:
            known[made.name] = shared[made.name]
        else:
            known.pop(made.name, None)
    elif made.macro.body or made.name not in own:
        own.add(made.name)
        known[made.name] = made.macro


def _expand_arguments(written: str, known: Mapping[str, macros.Macro]) -> str:
    opening = written.index("(")
    return written[: opening + 1] + macros.expand(written[opening + 1 :], known)
