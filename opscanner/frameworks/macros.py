"""Expands a file's own function-like macros at file level: many registrations and kernels are written by them.

No preprocessor: conditions are not evaluated (of several definitions the last one that is not empty counts), and only
uses outside of function bodies are expanded. ``#`` and ``##`` work.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from opscanner.frameworks.source_text import closing, split_arguments

_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*(?:define[ \t]+(\w+)(\([^)\n\\]*(?:\\\n[^)\n\\]*)*\))?((?:\\\n|[^\n])*)|undef[ \t]+(\w+))",
    re.MULTILINE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_STRING_OR_IDENTIFIER = re.compile(r'("(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*)')
_QUOTING = re.compile(r"(?<!#)#\s*([A-Za-z_]\w*)")
_PASTING = re.compile(r"\s*##\s*")
_OPENING = re.compile(r"\s*\(")
#: Nested uses deeper than this are left as they are.
MAX_DEPTH = 12


class Macro(NamedTuple):
    """A macro with parameters; ``body`` without line continuations."""

    parameters: tuple[str, ...]
    body: str


class Definition(NamedTuple):
    """``#define`` or, with no macro, ``#undef`` at an offset."""

    offset: int
    end: int
    name: str
    macro: Macro | None


def definitions(code: str) -> Iterator[Definition]:
    """Macros that a text defines, in order; those without parameters have none here. Comments must be gone."""
    for match in _DEFINE.finditer(code):
        if match[4]:
            yield Definition(match.start(), match.end(), match[4], None)
        elif match[2] is not None:
            inner = match[2][1:-1].replace("\\\n", " ")
            parameters = tuple(word.strip() for word in inner.split(",") if word.strip())
            yield Definition(
                match.start(), match.end(), match[1], Macro(parameters, match[3].replace("\\\n", "\n").strip())
            )


def substitute(macro: Macro, arguments: list[str]) -> str:
    """The body with parameters replaced."""
    values: dict[str, str] = {}
    for index, name in enumerate(macro.parameters):
        if name.endswith("..."):
            values["__VA_ARGS__"] = ", ".join(arguments[index:])
        else:
            values[name] = arguments[index] if index < len(arguments) else ""
    body = macro.body
    if "#" in body:
        body = _QUOTING.sub(lambda match: f'"{values[match[1]]}"' if match[1] in values else match[0], body)
    body = "".join([values.get(piece, piece) for piece in _pieces(body)])
    return _PASTING.sub("", body) if "##" in body else body


@lru_cache(maxsize=4096)
def _pieces(body: str) -> tuple[str, ...]:
    """A body cut into strings, identifiers and what stands between; the same macro is used hundreds of times."""
    return tuple(_STRING_OR_IDENTIFIER.split(body))


def expand(text: str, macros: Mapping[str, Macro], hidden: frozenset[str] = frozenset(), depth: int = 0) -> str:
    """The text with every use of a known macro replaced, also inside what that gives; not those in ``hidden``."""
    if depth > MAX_DEPTH:
        return text
    pieces, at = [], 0
    for match in _IDENTIFIER.finditer(text):
        name = match[0]
        if match.start() < at or name in hidden or name not in macros:
            continue
        opening = _OPENING.match(text, match.end())
        end = closing(text, opening.end() - 1) if opening else -1
        if opening is None or end < 0:
            continue
        within = hidden | {name}
        arguments = [
            argument if argument in macros else expand(argument, macros, within, depth + 1)
            for argument in split_arguments(text[opening.end() : end])
        ]
        body = substitute(macros[name], arguments)
        pieces += [text[at : match.start()], expand(body, macros, within, depth + 1)]
        at = end + 1
    return "".join((*pieces, text[at:])) if pieces else text
