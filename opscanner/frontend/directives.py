"""What a source's preprocessor directives say without a parse: headers it surely includes, macros it sets for them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

Macros = Mapping[bytes, bytes]
_NO_MACROS: Macros = {}
_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w+)[ \t]*((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HEADER = re.compile(rb'^(<[^>"]+>|"[^">]+")')
_TOKEN = re.compile(rb"\s*(&&|\|\||!|\(|\)|\w+|\S)")
#: Uses of a macro that change nothing but whether the header parses at all, or that only see to its being defined.
_HARMLESS = re.compile(
    rb"^[ \t]*#[ \t]*if[^\n]*\n[ \t]*#[ \t]*error(?:\\\r?\n|[^\n])*\n[ \t]*#[ \t]*endif[^\n]*"
    rb"|^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n[ \t]*#[ \t]*define[ \t]+\1\b[^\n]*\n[ \t]*#[ \t]*endif[^\n]*",
    re.MULTILINE,
)


def command_macros(arguments: Sequence[str]) -> dict[bytes, bytes]:
    """Macros that a command defines, with their values: ``-DX`` is 1, ``-DX=`` is empty."""
    found: dict[bytes, bytes] = {}
    for argument in arguments:
        name, _, value = argument[2:].partition("=")
        if argument.startswith("-D"):
            found[name.encode()] = value.encode() if "=" in argument else b"1"
        elif argument.startswith("-U"):
            found.pop(name.encode(), None)
    return found


def unconditional_includes(text: bytes, folder: str = "", macros: Macros = _NO_MACROS) -> list[str]:
    """Headers that a source includes whatever else is defined, in order.

    A condition that ``macros``, those of the command, decide is decided; what stands under any other is left out. A
    quoted header that lies beside the source, in ``folder``, is given by its absolute path: every source means another
    file by it.

    >>> text = b"#include <a.h>\\n#if X || Y\\n#include <b.h>\\n#endif\\n"
    >>> unconditional_includes(text), unconditional_includes(text, macros={b"Y": b"1"})
    (['<a.h>'], ['<a.h>', '<b.h>'])
    """
    found = []
    for directive, rest in _taken(text, macros):
        header = _HEADER.match(rest) if directive == b"include" else None
        if header:
            found.append(_resolved(header.group(1).decode("utf-8", "replace"), folder))
    return found


def macros_set(text: bytes, macros: Macros = _NO_MACROS) -> set[bytes]:
    """Names that a source defines or undefines before its last include, other than as the command has them."""
    directives = [(name, _plain(rest)) for name, rest in _DIRECTIVE.findall(text)]
    last = max((index for index, (name, _) in enumerate(directives) if name == b"include"), default=0)
    found = set()
    for directive, rest in directives[:last]:
        name, value = _definition(rest)
        if name and (directive == b"undef" or (directive == b"define" and macros.get(name) != value)):
            found.add(name)
    return found


def mentions(text: bytes, names: set[bytes]) -> bool:
    """Whether a header may mean something else with one of these macros; ``#ifdef``, ``#error`` is no such use."""
    if not any(name in text for name in names):
        return False
    words = set(re.findall(rb"\w+", _COMMENT.sub(b" ", _HARMLESS.sub(b"", text))))
    return not names.isdisjoint(words)


def only_includes(text: bytes) -> bool:
    """Whether a header holds nothing but directives: including it twice does no harm, guard or not."""
    return not _COMMENT.sub(b" ", _DIRECTIVE.sub(b"", _COMMENT.sub(b" ", text))).strip()


def _taken(text: bytes, macros: Macros) -> Iterator[tuple[bytes, bytes]]:
    """Directives outside of every condition, or under conditions that surely hold."""
    known = dict(macros)
    # For each open condition: whether this branch is taken, and whether an earlier one was. None: not known.
    stack: list[tuple[bool | None, bool | None]] = []
    for directive, raw in _DIRECTIVE.findall(text):
        rest = _plain(raw)
        if directive in (b"if", b"ifdef", b"ifndef"):
            holds = _holds(directive, rest, known)
            stack.append((holds, holds))
        elif directive in (b"elif", b"else") and stack:
            _, before = stack.pop()
            holds = True if directive == b"else" else condition(rest, known)
            stack.append((_and(_not(before), holds), _or(before, holds)))
        elif directive == b"endif" and stack:
            stack.pop()
        elif all(taken is True for taken, _ in stack):
            yield directive, rest
        if directive in (b"define", b"undef"):
            name, value = _definition(rest)
            if known.get(name) != value:
                known.pop(name, None)


def _holds(directive: bytes, rest: bytes, known: Macros) -> bool | None:
    if directive == b"if":
        return condition(rest, known)
    is_known = True if rest.split()[:1] and rest.split()[0] in known else None
    return is_known if directive == b"ifdef" else _not(is_known)


def condition(expression: bytes, macros: Macros) -> bool | None:
    """Whether an ``#if`` holds, as far as these macros tell; None when others decide.

    >>> condition(b"defined(A) || B", {b"A": b"1"}), condition(b"A && B", {b"A": b"1"})
    (True, None)
    """
    tokens = [found.group(1) for found in _TOKEN.finditer(expression)]
    value, rest = _alternatives(tokens, macros)
    return value if not rest else None


def _alternatives(tokens: list[bytes], macros: Macros) -> tuple[bool | None, list[bytes]]:
    value, tokens = _conjunction(tokens, macros)
    while tokens[:1] == [b"||"]:
        other, tokens = _conjunction(tokens[1:], macros)
        value = _or(value, other)
    return value, tokens


def _conjunction(tokens: list[bytes], macros: Macros) -> tuple[bool | None, list[bytes]]:
    value, tokens = _operand(tokens, macros)
    while tokens[:1] == [b"&&"]:
        other, tokens = _operand(tokens[1:], macros)
        value = _and(value, other)
    return value, tokens


def _operand(tokens: list[bytes], macros: Macros) -> tuple[bool | None, list[bytes]]:
    match tokens:
        case [b"!", *rest]:
            value, rest = _operand(rest, macros)
            return _not(value), rest
        case [b"defined", b"(", name, b")", *rest] | [b"defined", name, *rest]:
            return (True if name in macros else None), rest
        case [b"(", *rest]:
            value, rest = _alternatives(rest, macros)
            return (value, rest[1:]) if rest[:1] == [b")"] else (None, [b"?"])
        case [word, *rest] if re.fullmatch(rb"\w+", word):
            spelled = macros.get(word, word)
            value = int(spelled) != 0 if re.fullmatch(rb"0|[1-9]\d*", spelled) else None
            # Arithmetic and comparisons are left to clang: all that follows is of unknown value then.
            return (value, rest) if not rest or rest[0] in (b"&&", b"||", b")") else (None, [b"?"])
        case _:
            return None, [b"?"]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _and(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _or(one: bool | None, other: bool | None) -> bool | None:
    return _not(_and(_not(one), _not(other)))


def _plain(rest: bytes) -> bytes:
    return _COMMENT.sub(b" ", rest.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")).strip()


def _definition(rest: bytes) -> tuple[bytes, bytes]:
    """Name and value of ``#define NAME value``; a macro with parameters has its parameters in the value."""
    name = re.match(rb"\w+", rest)
    return (name.group(), rest[name.end() :].strip()) if name else (b"", b"")


def _resolved(header: str, folder: str) -> str:
    beside = os.path.normpath(os.path.join(folder, header[1:-1]))
    return f'"{beside}"' if header.startswith('"') and os.path.isfile(beside) else header
