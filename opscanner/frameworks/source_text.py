"""Reads C++ text without a compiler: where functions and classes begin and end, and what they name.

What is needed is small: braces, parentheses, names. That reads 15 MB in four seconds, and macros that no C++ grammar
knows (``TORCH_IMPL_FUNC(x)(...) {``, registrations without a semicolon) are no trouble. What cannot be told is left
out; clang's call graph is preferred wherever there is one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

_NOT_CODE = re.compile(
    r'//[^\n]*(?:\\\n[^\n]*)*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_NOT_NEWLINE = re.compile(r"[^\n]")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_BRACE = re.compile(r"[{};]")
_NAME_BEFORE_PARENTHESIS = re.compile(
    r"((?:\w+::)*operator\s*(?:[^\s\w(]+|\(\s*\)|\w+)|[A-Za-z_~]\w*(?:\s*<[^()<>]*(?:<[^()<>]*>)?[^()<>]*>)?(?:::~?\w+)*)\s*\("
)
_SCOPE = re.compile(r"\bnamespace\b(?:\s+([\w:]+))?")
_RECORD = re.compile(
    r"\b(?:class|struct|union)\s+(?:\[\[.*?\]\]\s*|[A-Z_]+\s+|__align__\(\d+\)\s+)*([A-Za-z_]\w*)\s*(?:<[^{]*>)?\s*(?:final\s*)?(?::[^{]*)?$",
    re.DOTALL,
)
_WORD = re.compile(r"(?<![\w.:])(?<!->)(?:::)?([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)")
_CAPITALS = re.compile(r"^[A-Z][A-Z0-9_]*$")
_ATTRIBUTES = frozenset({"__launch_bounds__", "__attribute__", "decltype", "alignas", "noexcept", "requires"})


class Definition(NamedTuple):
    """A function or class with a body. ``scope`` lists namespaces and classes around it, outermost first."""

    name: str
    is_class: bool
    scope: tuple[str, ...]
    local: bool  #: static, a method, or in an anonymous namespace: its name alone means nothing elsewhere
    in_class: bool
    begin: int  #: where its name is
    body: int  #: where its body begins
    end: int
    header: str


class Call(NamedTuple):
    """A name with arguments in parentheses: ``REGISTER_DISPATCH(elu_stub, &elu_kernel)``."""

    name: str
    arguments: tuple[str, ...]
    begin: int
    end: int


def _blank(match: re.Match[str]) -> str:
    return _NOT_NEWLINE.sub(" ", match[0])


def without_comments(text: str) -> str:
    """The text with comments blanked, everything else at its place; strings stay."""
    return _NOT_CODE.sub(lambda match: _blank(match) if match[0].startswith("/") else match[0], text)


def without_strings(text: str) -> str:
    """The text with comments and the contents of strings blanked, everything else at its place."""
    return _NOT_CODE.sub(lambda match: _blank(match) if match[0].startswith("/") else _quoted(match[0]), text)


def _quoted(text: str) -> str:
    return text[0] + _NOT_NEWLINE.sub(" ", text[1:-1]) + text[-1]


class SourceText:
    """One file's text. Offsets and lines are those of the file.

    Parameters
    ----------
    text : str
        The file.
    """

    def __init__(self, text: str) -> None:
        self.code = without_comments(text)
        self.bare = without_strings(text)
        self.outside_directives = _without_directives(self.bare)
        self._line_ends = [match.start() for match in re.finditer("\n", text)]

    def line(self, offset: int) -> int:
        """Line of an offset, from 1."""
        return bisect_right(self._line_ends, offset - 1) + 1

    def definitions(self) -> list[Definition]:
        """Functions with a body and classes, those inside of classes too, in the order of their bodies."""
        return list(find_definitions(self.outside_directives))

    def calls(self, name: str) -> Iterator[Call]:
        """Uses of a macro or function outside of directives; ``name`` is a regular expression. Strings are kept."""
        for match in re.finditer(rf"(?<![\w.:])({name})\s*\(", self.outside_directives):
            end = closing(self.outside_directives, match.end() - 1)
            if end > 0:
                arguments = tuple(split_arguments(self.code[match.end() : end]))
                yield Call(match[1], arguments, match.start(), end + 1)


def _without_directives(bare: str) -> str:
    """Blanks preprocessor lines; and of alternatives whose braces do not close, all but the first."""
    opened: list[tuple[int, int]] = []  # begin of the present branch, braces left open by the first
    pieces: list[tuple[int, int]] = []
    for match in _DIRECTIVE.finditer(bare):
        word = match[1]
        pieces.append(match.span())
        if word.startswith("if"):
            opened.append((match.end(), 0))
        elif word in ("else", "elif", "endif") and opened:
            begin, open_braces = opened.pop()
            branch = bare[begin : match.start()]
            if open_braces:
                pieces.append((begin, match.start()))
            else:
                open_braces = branch.count("{") - branch.count("}")
            if word != "endif":
                opened.append((match.end(), open_braces))
    if not pieces:
        return bare
    text = list(bare)
    for begin, end in pieces:
        text[begin:end] = _NOT_NEWLINE.sub(" ", bare[begin:end])
    return "".join(text)


def closing(text: str, opening: int) -> int:
    """Offset of the bracket that closes the one at ``opening``; -1 when there is none."""
    depth, pairs = 0, {"(": ")", "{": "}", "[": "]"}
    first, last = text[opening], pairs[text[opening]]
    for match in re.compile(rf"[\{first}\{last}]").finditer(text, opening):
        depth += 1 if match[0] == first else -1
        if depth == 0:
            return match.start()
    return -1


#: What splits arguments or nests them; strings and arrows are passed over.
_SPLITTING = re.compile(r'"(?:\\.|[^"\\])*"|->|[,()\[\]{}<>]', re.DOTALL)


def split_arguments(text: str) -> list[str]:
    """The arguments of a call, split at commas outside of brackets (templates' too) and strings.

    >>> split_arguments('T, f<a, b>(c, d), "x,y"')
    ['T', 'f<a, b>(c, d)', '"x,y"']
    """
    found, depth, begin = list[str](), 0, 0
    for match in _SPLITTING.finditer(text):
        piece = match[0]
        if piece == ",":
            if depth <= 0:
                found.append(text[begin : match.start()].strip())
                begin = match.end()
        elif piece in "([{<":
            depth += 1
        elif piece in ")]}>":
            depth -= 1
    last = text[begin:].strip()
    if found or last:
        found.append(last)
    return found


def find_definitions(text: str) -> Iterator[Definition]:
    """Functions with a body and classes in a text that has neither comments, strings nor directives."""
    # (kind, name, local, begin, body, scope, header) of what is open around the present offset
    stack: list[tuple[str, str, bool, int, int, str]] = []
    start = 0
    offset = 0
    while match := _BRACE.search(text, offset):
        offset = match.end()
        if match[0] == ";":
            start = offset
        elif match[0] == "{":
            header = text[start : match.start()]
            kind, name = _classify(header)
            if kind == "function":
                end = closing(text, match.start())
                end = len(text) - 1 if end < 0 else end
                scope = tuple(entry[1] for entry in stack if entry[1])
                hidden = any(entry[2] or entry[0] == "class" for entry in stack)
                local = hidden or re.search(r"\bstatic\b", header) is not None
                in_class = bool(stack) and stack[-1][0] == "class"
                begin = start + _name_at(header, name)
                yield Definition(name, False, scope, local, in_class, begin, match.start(), end, header)
                offset = start = end + 1
            elif kind == "skip":
                end = closing(text, match.start())
                offset = len(text) if end < 0 else end + 1
            else:
                local = kind == "namespace" and not name
                # What stands before, such as a macro's use without a semicolon, is no part of a class.
                record = _RECORD.search(header) if kind == "class" else None
                own = header[record.start() :] if record else header.lstrip()
                stack.append((kind, name, local, match.start() - len(own), match.start(), own.strip()))
                start = offset
        else:
            if stack:
                kind, name, local, begin, body, header = stack.pop()
                if kind == "class" and name:
                    scope = tuple(entry[1] for entry in stack if entry[1])
                    hidden = any(entry[2] for entry in stack)
                    yield Definition(name, True, scope, hidden, False, begin, body, match.start(), header)
            start = offset


def _name_at(header: str, name: str) -> int:
    last = name.partition("(")[0].rpartition("::")[2]
    at = find_name(header, last, "(<")
    return at if at >= 0 else len(header) - len(header.lstrip())


def find_name(text: str, name: str, opening: str) -> int:
    """Offset of a whole name that one of some characters follows; -1 when there is none.

    A regular expression of its own for every name takes longer to compile than all of them to search.

    >>> find_name("MySelu::Selu (int)", "Selu", "(<")
    8
    """
    at = text.find(name) if name else -1
    while at >= 0:
        follows = text[at + len(name) :].lstrip()[:1]
        if follows and follows in opening and not (at and (text[at - 1].isalnum() or text[at - 1] == "_")):
            return at
        at = text.find(name, at + 1)
    return -1


def _classify(header: str) -> tuple[str, str]:
    """What a brace opens, and its name."""
    scope = _SCOPE.search(header)
    if scope and "(" not in header[: scope.start()].rpartition(")")[2]:
        return "namespace", scope[1] or ""
    plain = _without_template(header)
    if re.search(r"\benum\b", plain) or re.search(r"=\s*$", plain):
        return "skip", ""
    record = _RECORD.search(plain)
    if record and "(" not in plain[record.end(1) :].partition(":")[0] and not re.search(r"\)\s*$", plain):
        return "class", record[1]
    if "extern" in plain and "(" not in plain:
        return "namespace", "extern"
    name = function_name(plain)
    if name:
        return "function", name
    return "skip", ""


def _without_template(header: str) -> str:
    """The header without ``template <...>`` in front."""
    plain = header.lstrip()
    while (match := re.search(r"\btemplate\s*<", plain)) and "(" not in plain[: match.start()].rpartition(")")[2]:
        depth, at = 1, match.end()
        while at < len(plain) and depth:
            character = plain[at]
            if character == "<":
                depth += 1
            elif character == ">" and plain[at - 1] != "-":
                depth -= 1
            elif character == "(":
                end = closing(plain, at)
                at = end if end > 0 else at
            at += 1
        plain = plain[: match.start()] + plain[at:]
    return plain


def function_name(header: str) -> str:
    """The name that a function's header declares; of ``IMPL(name)(...)`` that is ``IMPL(name)``."""
    at = 0
    made = ""
    while match := _NAME_BEFORE_PARENTHESIS.search(header, at):
        name = re.sub(r"<.*?>+(?=::|$)", "", re.sub(r"\s", "", match[1]))
        end = closing(header, match.end() - 1)
        if end < 0:
            return made
        if name in _ATTRIBUTES or name.startswith("C10_LAUNCH_BOUNDS"):
            at = end + 1
        elif _CAPITALS.match(name):
            made = f"{name}({header[match.end() : end].strip()})"
            if re.match(r"\s*\(", header[end + 1 :]):
                return made
            at = end + 1
        elif name in ("if", "for", "while", "switch", "catch"):
            return ""
        else:
            return name
    return made


def words(text: str, begin: int = 0, end: int | None = None) -> Iterator[tuple[str, int, str]]:
    """Qualified names in a text that are no members (``a.b``), with their offsets and the character that follows."""
    stop = len(text) if end is None else end
    for match in _WORD.finditer(text, begin, stop):
        at = match.end()
        while at < stop and text[at] in " \n\t":
            at += 1
        yield match[1], match.start(), text[at] if at < stop else ""
