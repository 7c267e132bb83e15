"""Headers like those that ``protoc`` writes, for ``.proto`` files whose ``.pb.h`` nobody has.

Declarations only: enough for code that uses the messages to parse as it does with the real header. Read from the
``.proto`` text; imports tell which names are enums and which are messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SCALARS = {
    "double": "double", "float": "float", "bool": "bool", "int32": "int32_t", "sint32": "int32_t",
    "sfixed32": "int32_t", "int64": "int64_t", "sint64": "int64_t", "sfixed64": "int64_t", "uint32": "uint32_t",
    "fixed32": "uint32_t", "uint64": "uint64_t", "fixed64": "uint64_t",
}  # fmt: skip
TEXTS = {"string", "bytes"}
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[\w.]+|[{}<>=;,\[\]()-]')
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\])*")', re.S)


@dataclass
class Message:
    """A message: its name with those around it (``Outer.Inner``), fields as (label, type, name), what is inside."""

    name: str
    fields: list[tuple[str, str, str]] = field(default_factory=list)
    inside: list[Message | Enum] = field(default_factory=list)


@dataclass
class Enum:
    """An enum and its values in order, as (name, number)."""

    name: str
    values: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class ProtoFile:
    """What a ``.proto`` declares."""

    package: str = ""
    imports: list[str] = field(default_factory=list)
    declared: list[Message | Enum] = field(default_factory=list)


def read_proto(text: str) -> ProtoFile:
    """Messages, enums and imports of a ``.proto``; services and options are passed over."""
    plain = COMMENT.sub(lambda found: found[1] or " ", text)
    tokens = [found[0] for found in TOKEN.finditer(plain)]
    proto, position = ProtoFile(), 0
    while position < len(tokens):
        word = tokens[position]
        if word == "package":
            proto.package = tokens[position + 1]
        elif word == "import":
            proto.imports.append(next(t for t in tokens[position + 1 :] if t[0] in "\"'")[1:-1])
        elif word in ("message", "enum"):
            declared, position = _read_block(tokens, position, "")
            proto.declared.append(declared)
            continue
        position = _past_statement(tokens, position)
    return proto


def _read_block(tokens: list[str], position: int, outer: str) -> tuple[Message | Enum, int]:
    """The message or enum that starts at ``position``, and where the text goes on."""
    kind, name = tokens[position], outer + tokens[position + 1]
    position += 3
    block: Message | Enum = Message(name) if kind == "message" else Enum(name)
    while tokens[position] != "}":
        word = tokens[position]
        if isinstance(block, Enum):
            if tokens[position + 1] == "=":
                number = "".join(tokens[position + 2 : position + 4]) if tokens[position + 2] == "-" else None
                block.values.append((word, number or tokens[position + 2]))
            position = _past_statement(tokens, position)
        elif word in ("message", "enum") and tokens[position + 2] == "{":
            inner, position = _read_block(tokens, position, f"{name}.")
            block.inside.append(inner)
        elif word == "oneof":
            position += 3
            while tokens[position] != "}":
                position = _read_field(tokens, position, block)
            position += 1
        else:
            position = _read_field(tokens, position, block)
    return block, position + 1


def _read_field(tokens: list[str], position: int, message: Message) -> int:
    end = _past_statement(tokens, position)
    words = tokens[position:end]
    if words[0] in ("option", "reserved", "extensions", ";"):
        return end
    label = words.pop(0) if words[0] in ("repeated", "optional", "required") else ""
    if words[0] == "map":  # map < K , V > name = N ;
        message.fields.append(("map", f"{words[2]},{words[4]}", words[6]))
    else:
        message.fields.append((label, words[0], words[1]))
    return end


def _past_statement(tokens: list[str], position: int) -> int:
    """Where the text goes on after a statement: past its ``;``, or past its braces."""
    depth = 0
    for index in range(position, len(tokens)):
        if tokens[index] == "{":
            depth += 1
        elif tokens[index] == "}":
            depth -= 1
            if depth <= 0 and (index + 1 == len(tokens) or tokens[index + 1] != ";"):
                return index + 1
        elif tokens[index] == ";" and depth == 0:
            return index + 1
    return len(tokens)


def stand_in(name: str, folder: Path) -> str:
    """The text of ``name``'s ``.pb.h``; ``name`` (``a/b.proto``) and its imports lie below ``folder``."""
    files = _with_imports(name, folder)
    proto = files[name]
    writer = _Writer(proto.package, {}, set())
    for file in files.values():
        namespaces = ["", *filter(None, file.package.split("."))]
        items: list[Message | Enum] = [*_enums(file.declared), *_messages_inside_out(file.declared)]
        for item in items:
            full = f"{file.package}.{item.name}".lstrip(".")
            writer.types[full] = "::".join([*namespaces, _cxx(item.name)])
            if isinstance(item, Enum):
                writer.enums.add(full)
    parts = ("message", "repeated_field", "map", "unknown_field_set")
    lines = ["#pragma once", "#include <cstdint>", "#include <string>",
             *(f"#include <google/protobuf/{part}.h>" for part in parts),
             *(f'#include "{imported.removesuffix(".proto")}.pb.h"' for imported in proto.imports)]  # fmt: skip
    opened = proto.package.split(".") if proto.package else []
    lines += [f"namespace {part} {{" for part in opened]
    ordered: list[Message | Enum] = [*_enums(proto.declared), *_messages_inside_out(proto.declared)]
    lines += [f"class {_cxx(item.name)};" for item in ordered if isinstance(item, Message)]
    for item in ordered:
        lines += writer.enum(item) if isinstance(item, Enum) else writer.message(item)
    return "\n".join([*lines, *("}" for _ in opened), ""])


def _with_imports(name: str, folder: Path) -> dict[str, ProtoFile]:
    """The file and all that it imports, as far as they are there."""
    files: dict[str, ProtoFile] = {}
    waiting = [name]
    while waiting:
        wanted = waiting.pop()
        path = folder / wanted
        if wanted not in files and path.is_file():
            files[wanted] = read_proto(path.read_text(encoding="utf-8", errors="replace"))
            waiting += files[wanted].imports
    return files


def _enums(items: list[Message | Enum]) -> Iterator[Enum]:
    for item in items:
        if isinstance(item, Enum):
            yield item
        else:
            yield from _enums(item.inside)


def _messages_inside_out(items: list[Message | Enum]) -> Iterator[Message]:
    for item in items:
        if isinstance(item, Message):
            yield from _messages_inside_out(item.inside)
            yield item


def _cxx(name: str) -> str:
    return name.replace(".", "_")


@dataclass
class _Writer:
    """Writes declarations; ``types`` holds C++ names by full names of the schema, ``enums`` those that are enums."""

    package: str
    types: dict[str, str]
    enums: set[str]

    def enum(self, enum: Enum) -> list[str]:
        """``enum Outer_E : int { Outer_E_A = 0 };``, with the functions beside it."""
        name = _cxx(enum.name)
        prefix = f"{name}_" if "." in enum.name else ""
        values = ", ".join(f"{prefix}{value} = {number}" for value, number in enum.values)
        return [
            f"enum {name} : int {{ {values} }};", f"bool {name}_IsValid(int value);",
            f"const std::string& {name}_Name(int value);",
            f"bool {name}_Parse(const std::string& text, {name}* value);",
        ]  # fmt: skip

    def message(self, message: Message) -> list[str]:
        """A class with the accessors of each field; members are declared only."""
        name = _cxx(message.name)
        lines = [f"class {name} final : public ::google::protobuf::Message {{", " public:", f"  {name}();",
                 f"  explicit {name}(::google::protobuf::Arena* arena);", f"  {name}(const {name}& other);",
                 f"  {name}& operator=(const {name}& other);", f"  void Swap({name}* other);",
                 f"  static const {name}& default_instance();",
                 "  static const ::google::protobuf::Descriptor* descriptor();"]  # fmt: skip
        lines += [f"  {line}" for line in OVERRIDDEN.replace("$", name).splitlines()]
        for item in message.inside:
            short, full = item.name.rpartition(".")[2], _cxx(item.name)
            lines.append(f"  using {short} = {full};")
            if isinstance(item, Enum):
                lines += [f"  static constexpr {short} {value} = {full}_{value};" for value, _ in item.values]
                lines.append(f"  static const std::string& {short}_Name(int value);")
        for label, spelled, field_name in message.fields:
            lines += [f"  {line}" for line in self._accessors(label, spelled, field_name.lower(), message.name)]
        return [*lines, "};"]

    def _accessors(self, label: str, spelled: str, name: str, scope: str) -> list[str]:
        lines = [f"void clear_{name}();"]
        if label == "map":
            key, _, value = spelled.partition(",")
            kind = f"::google::protobuf::Map<{self._type(key, scope)}, {self._type(value, scope)}>"
            return [*lines, f"int {name}_size() const;", f"const {kind}& {name}() const;", f"{kind}* mutable_{name}();"]
        kind = self._type(spelled, scope)
        is_message = spelled not in SCALARS and spelled not in TEXTS and not self._is_enum(spelled, scope)
        by_value = not is_message and spelled not in TEXTS
        given = kind if by_value else f"const {kind}&"
        if label == "repeated":
            holder = "RepeatedField" if by_value else "RepeatedPtrField"
            held = "int" if self._is_enum(spelled, scope) else kind
            lines += [f"int {name}_size() const;", f"{given} {name}(int index) const;",
                      f"const ::google::protobuf::{holder}<{held}>& {name}() const;",
                      f"::google::protobuf::{holder}<{held}>* mutable_{name}();"]  # fmt: skip
            if is_message:
                return [*lines, f"{kind}* mutable_{name}(int index);", f"{kind}* add_{name}();"]
            if spelled in TEXTS:
                lines += [f"{kind}* mutable_{name}(int index);", f"{kind}* add_{name}();"]
            return [*lines, f"void set_{name}(int index, {given} value);", f"void add_{name}({given} value);"]
        lines += [f"bool has_{name}() const;", f"{given} {name}() const;"]
        if by_value:
            return [*lines, f"void set_{name}({kind} value);"]
        lines += [
            f"{kind}* mutable_{name}();",
            f"{kind}* release_{name}();",
            f"void set_allocated_{name}({kind}* value);",
        ]
        return lines if is_message else [*lines, f"void set_{name}({given} value);"]

    def _type(self, spelled: str, scope: str) -> str:
        if spelled in SCALARS:
            return SCALARS[spelled]
        if spelled in TEXTS:
            return "std::string"
        resolved = self._resolve(spelled, scope)
        return self.types[resolved] if resolved else "::" + spelled.lstrip(".").replace(".", "::")

    def _is_enum(self, spelled: str, scope: str) -> bool:
        return self._resolve(spelled, scope) in self.enums

    def _resolve(self, spelled: str, scope: str) -> str | None:
        """The full name that a type in a message means: the innermost scope that has it wins."""
        around = f"{self.package}.{scope}".lstrip(".").split(".")
        candidates = [".".join([*around[:depth], spelled]) for depth in range(len(around), -1, -1)]
        candidates = [spelled.lstrip(".")] if spelled.startswith(".") else candidates
        return next((name for name in candidates if name in self.types), None)


# The pure virtual functions of google::protobuf::Message, 3.9 to 4.25; where a version lacks one it is one function
# more.
OVERRIDDEN = """\
$* New(::google::protobuf::Arena* arena) const;
$* New() const;
void Clear();
bool IsInitialized() const;
size_t ByteSizeLong() const;
int GetCachedSize() const;
const char* _InternalParse(const char* begin, ::google::protobuf::internal::ParseContext* context);
uint8_t* _InternalSerialize(uint8_t* target, ::google::protobuf::io::EpsCopyOutputStream* stream) const;
::google::protobuf::Metadata GetMetadata() const;
void CopyFrom(const $& other);
void MergeFrom(const $& other);"""
