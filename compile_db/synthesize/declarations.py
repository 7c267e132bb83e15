"""What a header declares at namespace scope, read lexically: class templates, function templates and functions.

No preprocessor and no parser: comments and directives are blanked, of a conditional the branch is kept that a CUDA
build on Linux most likely takes, and bodies are passed over by their braces. What this does not understand is passed
over too; a compiler has the last word on what is made of the result.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_BLANKED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
_TOKEN = re.compile(r"[A-Za-z_$][\w$]*|\d[\w.']*|::|->|\[\[|\]\]|\S")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\r?\n|[^\n])*)", re.M)
#: Macros that no CUDA build on x86 Linux defines: their branches are left out.
NEVER = re.compile(
    r"USE_ROCM|TENSORFLOW_USE_(ROCM|SYCL)|__HIP\w*|__APPLE__|_WIN32|_MSC_VER|__aarch64__|__ARM_\w+|__CUDACC_RTC__"
    r"|INTEL_MKL|ENABLE_MKL|__ANDROID__|IS_MOBILE_PLATFORM|C10_MOBILE|USE_MPS|USE_XPU"
)
_CLASS_KEYS = {"struct", "class", "union"}
_NOT_NAMES = {
    "__launch_bounds__", "__attribute__", "decltype", "alignas", "noexcept", "explicit", "requires", "sizeof",
    "C10_LAUNCH_BOUNDS_1", "C10_LAUNCH_BOUNDS_2", "C10_LAUNCH_BOUNDS", "__declspec", "if", "return",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """A template parameter: ``typename T``, ``int N = 4`` (kind ``value``), ``template <class> class F``, a pack."""

    kind: Literal["type", "value", "template", "pack"]
    name: str
    type: str
    has_default: bool


@dataclass(frozen=True)
class Declaration:
    """A class template, a function template or a function (no ``parameters``) that the header defines.

    ``before`` holds a function's tokens in front of its name, ``arguments`` its parameters without default values.
    """

    kind: Literal["class", "function"]
    name: str
    namespace: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    line: int
    before: tuple[str, ...] = ()
    arguments: str = ""

    @property
    def qualified(self) -> str:
        """``ns::name``, unnamed namespaces left out."""
        return "::".join([*filter(None, self.namespace), self.name])


def read_declarations(text: str) -> list[Declaration]:
    """Definitions at namespace scope, in order.

    >>> text = "namespace n { template <class T> struct A { T a; }; float f(int x) {} }"
    >>> [declaration.qualified for declaration in read_declarations(text)]
    ['n::A', 'n::f']
    """
    plain = _one_branch(_BLANKED.sub(_blank, text))
    tokens = [(found.group(), found.start()) for found in _TOKEN.finditer(plain)]
    return _Reader([word for word, _ in tokens], [start for _, start in tokens], plain).read()


def _blank(found: re.Match[str]) -> str:
    text = found.group()
    return '""' + "\n" * text.count("\n") if text[0] in "\"R'" else re.sub(r"[^\n]", " ", text)


def _one_branch(text: str) -> str:
    """The text without directives, and with one branch of each conditional; lines stay where they are."""
    kept, position = [], 0
    stack: list[tuple[bool, bool]] = []  # this branch is kept, an earlier one was
    for found in _DIRECTIVE.finditer(text):
        before = text[position : found.start()]
        kept.append(before if all(taken for taken, _ in stack) else re.sub(r"[^\n]", "", before))
        kept.append(re.sub(r"[^\n]", "", found.group()))
        position = found.end()
        name, rest = found[1], found[2].strip()
        if name in ("if", "ifdef", "ifndef"):
            taken = not _is_never(name, rest)
            stack.append((taken, taken))
        elif name in ("elif", "else") and stack:
            _, earlier = stack.pop()
            taken = not earlier and (name == "else" or not _is_never("if", rest))
            stack.append((taken, earlier or taken))
        elif name == "endif" and stack:
            stack.pop()
    return "".join([*kept, text[position:]])


def _is_never(directive: str, condition: str) -> bool:
    if directive == "ifndef":
        return False
    if condition in ("0", "false"):
        return True
    asked = re.findall(r"(!?)\s*(?:defined\s*\(?\s*)?([A-Za-z_]\w*)", condition)
    names = [(negated, name) for negated, name in asked if name != "defined"]
    if "&&" in condition:
        return any(not negated and NEVER.fullmatch(name) for negated, name in names)
    return bool(names) and all(not negated and NEVER.fullmatch(name) for negated, name in names)


class _Reader:
    def __init__(self, tokens: list[str], starts: list[int], text: str) -> None:
        self.tokens, self.starts, self.text = tokens, starts, text
        self.at = 0
        self.namespaces: list[str | None] = []  # None: braces that open no namespace, as of extern "C"
        self.found: list[Declaration] = []

    def read(self) -> list[Declaration]:
        while self.at < len(self.tokens):
            word = self.tokens[self.at]
            if word == "}":
                if self.namespaces:
                    self.namespaces.pop()
                self.at += 1
            elif word == "namespace" or self.tokens[self.at : self.at + 2] == ["inline", "namespace"]:
                self._namespace()
            elif self.tokens[self.at : self.at + 3] == ["extern", '"', '"'] and self._peek(3) == "{":
                self.namespaces.append(None)
                self.at += 4
            elif word == "template":
                self._template()
            else:
                self._entity(())
        return self.found

    def _peek(self, ahead: int) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def _namespace(self) -> None:
        end = self.at
        while end < len(self.tokens) and self.tokens[end] not in ("{", ";", "="):
            end += 1
        if end < len(self.tokens) and self.tokens[end] == "{":
            names = [
                t for t in self.tokens[self.at : end] if re.match(r"[A-Za-z_]", t) and t not in ("namespace", "inline")
            ]
            self.namespaces.append("::".join(names))
            self.at = end + 1
        else:
            self._past(end)

    def _template(self) -> None:
        """``template <...>`` and what it is of; an explicit instantiation (no ``<``) is passed over."""
        self.at += 1
        if self._peek(0) != "<":
            self._past(self.at)
            return
        begin = self.at + 1
        end = self._matching_angle(self.at)
        parameters = _read_parameters(self.tokens[begin:end])
        self.at = end + 1
        if self._peek(0) == "template":  # a member template's definition outside of its class
            self._template_of_member()
        elif not parameters:  # an explicit specialization: its use brings it
            self._entity((), keep=False)
        else:
            self._entity(parameters)

    def _template_of_member(self) -> None:
        while self._peek(0) == "template" and self._peek(1) == "<":
            self.at = self._matching_angle(self.at + 1) + 1
        self._entity((), keep=False)

    def _entity(self, parameters: tuple[Parameter, ...], *, keep: bool = True) -> None:
        """One declaration, up to its ``;`` or past its body."""
        begin = end = self.at
        while end < len(self.tokens) and self.tokens[end] not in ("{", ";", "}"):
            end = self._matching(end) + 1 if self.tokens[end] in "([" or self.tokens[end] == "[[" else end + 1
        head = self.tokens[begin:end]
        is_definition = end < len(self.tokens) and self.tokens[end] == "{"
        if keep and is_definition and head:
            self._note(parameters, begin, head)
        if end < len(self.tokens) and self.tokens[end] == "}":
            self.at = max(end, begin + (end == begin))
            if end == begin:
                return
            self.at = end
        else:
            self._past(end)

    def _past(self, end: int) -> None:
        """Goes on behind the ``;`` at ``end`` or the body that begins there."""
        if end < len(self.tokens) and self.tokens[end] == "{":
            end = self._matching(end)
        self.at = end + 1

    def _note(self, parameters: tuple[Parameter, ...], begin: int, head: list[str]) -> None:
        namespace = tuple(part for part in self.namespaces if part is not None)
        line = self.text.count("\n", 0, self.starts[begin]) + 1
        if head[0] in _CLASS_KEYS:
            name = _class_name(head)
            if name and parameters:
                self.found.append(Declaration("class", name, namespace, parameters, line))
            return
        if head[0] in ("using", "typedef", "enum", "friend", "concept", "static_assert", "extern"):
            return
        opened = _open_parenthesis(head)
        if opened is None or "operator" in head[:opened] or head[opened - 2 : opened - 1] in (["::"], ["~"]):
            return
        closed = self._matching(begin + opened)
        arguments = _without_defaults(self.tokens[begin + opened + 1 : closed])
        before = tuple(head[: opened - 1])
        if before:
            self.found.append(Declaration("function", head[opened - 1], namespace, parameters, line, before, arguments))

    def _matching(self, at: int) -> int:
        """The word that closes the bracket at ``at``; the last word where nothing does."""
        pairs = {"(": ")", "[": "]", "{": "}", "[[": "]]"}
        waiting = [pairs[self.tokens[at]]]
        while waiting and at + 1 < len(self.tokens):
            at += 1
            word = self.tokens[at]
            if word in pairs:
                waiting.append(pairs[word])
            elif word == waiting[-1]:
                waiting.pop()
        return at

    def _matching_angle(self, at: int) -> int:
        depth = 0
        while at < len(self.tokens):
            word = self.tokens[at]
            if word == "(":
                at = self._matching(at)
            elif word == "<":
                depth += 1
            elif word == ">":
                depth -= 1
                if depth == 0:
                    return at
            elif word in "{;":
                return at - 1
            at += 1
        return at - 1


def _split(tokens: Sequence[str]) -> list[list[str]]:
    """Tokens between commas outside of every bracket."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in tokens:
        depth += (word in "(<[{") - (word in ")>]}")
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def _read_parameters(tokens: Sequence[str]) -> tuple[Parameter, ...]:
    found = []
    for part in _split(tokens):
        depth, equals = 0, len(part)
        for index, word in enumerate(part):
            depth += (word in "(<[{") - (word in ")>]}")
            if word == "=" and depth == 0:
                equals = index
                break
        declared = part[:equals]
        name = declared[-1] if len(declared) > 1 and re.match(r"[A-Za-z_]", declared[-1]) else ""
        kind: Literal["type", "value", "template", "pack"]
        if "." in declared:
            kind = "pack"
        elif declared[0] == "template":
            kind = "template"
        elif declared[0] in ("typename", "class") and "::" not in declared:
            kind = "type"
        else:
            kind = "value"
        spelled = " ".join(declared[:-1] if name else declared)
        found.append(Parameter(kind, name, spelled, equals < len(part)))
    return tuple(found)


def _class_name(head: list[str]) -> str:
    """The name in ``struct C10_API alignas(8) Name final : Base``; empty for a specialization (``Name<...>``)."""
    name, index = "", 1
    while index < len(head):
        word = head[index]
        if word == "(":
            while index < len(head) and head[index] != ")":
                index += 1
        elif word in (":", "final"):
            break
        elif word in ("<", "::"):
            return ""
        elif re.match(r"[A-Za-z_]", word):
            name = word
        index += 1
    return name


def _open_parenthesis(head: list[str]) -> int | None:
    """Where a function's parameters begin: the first ``(`` behind a name that is no attribute."""
    depth = index = 0
    while index < len(head):
        word = head[index]
        if word == "=" and depth == 0:
            return None
        if word == "(":
            is_name = index > 0 and re.match(r"[A-Za-z_]", head[index - 1]) and head[index - 1] not in _NOT_NAMES
            if depth == 0 and is_name and index > 1:
                return index
            level = 0
            while index < len(head):
                level += (head[index] == "(") - (head[index] == ")")
                if level == 0:
                    break
                index += 1
        depth += (word == "<") - (word == ">")
        index += 1
    return None


def _without_defaults(tokens: Sequence[str]) -> str:
    parts = []
    for part in _split(tokens):
        equals = part.index("=") if "=" in part else len(part)
        parts.append(" ".join(part[:equals]))
    return ", ".join(parts)
