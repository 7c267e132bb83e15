"""Snippets of C++ and CUDA, scanned; the casts expected on a line stand in a comment behind it.

    float f(c10::Half h) {
      return h;  // cast: float16 -> float32 conversion_function
    }

After ``cast:`` come ``from -> to form``, then ``as NAME`` for the type that the author wrote, ``constant`` and
``unreached``; several casts of a line are separated by ``;``. The comments are the whole truth about a snippet: a cast
without a comment fails, as does a comment without a cast. Instances of one line that give the same row count once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from compile_db import ClangCommand, CompileCommand, Toolchain, translate
from opscanner.frontend.scan_unit import Worker
from opscanner.ir import Call, Edge, EdgeKind, FunctionInstance, Node, NodeKind, UnitResult, UnitStatus

STAND_INS = Path(__file__).resolve().parent / "stand_ins"
#: What a snippet starts from: c10's float types, without CUDA's headers or any other.
TORCH_TYPES = ("-I", str(STAND_INS), "-include", str(STAND_INS / "torch_types.h"))
_CASTS = re.compile(r"//\s*cast:\s*(.*)$")


class Cast(NamedTuple):
    """A cast as the comments spell it."""

    line: int
    from_format: str
    to_format: str
    form: str
    written_type: str = ""
    constant: bool = False
    reached: bool = True

    def __str__(self) -> str:
        written = f" as {self.written_type}" if self.written_type else ""
        words = (" constant" if self.constant else "") + ("" if self.reached else " unreached")
        return f"{self.from_format} -> {self.to_format} {self.form}{written}{words}"


def expected_casts(text: str) -> Counter[Cast]:
    """The casts that the comments of a snippet ask for."""
    found: Counter[Cast] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        comment = _CASTS.search(line)
        for spelled in comment.group(1).split(";") if comment else ():
            words = spelled.split()
            assert words[1] == "->", f"line {number}: {spelled!r} is not `from -> to form`"
            constant, reached = "constant" not in words, "unreached" not in words
            rest = [word for word in words[4:] if word not in ("constant", "unreached")]
            assert not rest or rest[0] == "as", f"line {number}: what is {rest[0]!r}?"
            found[Cast(number, words[0], words[2], words[3], " ".join(rest[1:]), not constant, reached)] += 1
    return found


def annotated(text: str, casts: Counter[Cast]) -> str:
    """A snippet with the comments that would make it pass."""
    lines = [re.sub(r"\s*//\s*cast:.*$", "", line) for line in text.splitlines()]
    for number in sorted({cast.line for cast in casts}):
        rows = sorted(str(cast) for cast in casts.elements() if cast.line == number)
        lines[number - 1] += "  // cast: " + "; ".join(rows)
    return "\n".join(lines)


@dataclass(frozen=True)
class Scanned:
    """A scanned snippet, and questions about it."""

    result: UnitResult
    files: Mapping[str, str]

    # -- casts -----------------------------------------------------------------------------------------------------

    def casts(self, file: str = "") -> Counter[Cast]:
        """Every cast below the root; what several instances of a line have in common counts once."""
        file = file or self.result.file
        found: Counter[Cast] = Counter()
        for instance in self.result.instances:
            rows = Counter(as_cast(node) for node in self.nodes_of(instance, NodeKind.CAST) if node.file == file)
            found |= rows
        return found

    def check(self) -> Scanned:
        """Hold the casts against the comments, and the snippet to parse."""
        assert self.result.status is UnitStatus.OK, (self.result.reason, self.result.diagnostics)
        for name, text in self.files.items():
            found, wanted = self.casts(name), expected_casts(text)
            if found != wanted:
                missing = "\n".join(f"  {name}:{c.line}: {c}" for c in (wanted - found).elements()) or "  none"
                extra = "\n".join(f"  {name}:{c.line}: {c}" for c in (found - wanted).elements()) or "  none"
                raise AssertionError(
                    f"casts of {name}\nmissing:\n{missing}\nunexpected:\n{extra}\n"
                    f"to accept what was found, write\n{annotated(text, found)}"
                )
        return self

    # -- instances, nodes, edges -----------------------------------------------------------------------------------

    def instances(self, name: str) -> list[FunctionInstance]:
        """Instances whose qualified name is ``name`` or ends in ``::name``."""
        found = self.result.instances
        return [i for i in found if i.name == name or i.name.endswith("::" + name)]

    def instance(self, name: str) -> FunctionInstance:
        """The one instance of that name that is not a lambda."""
        found = [i for i in self.instances(name) if not i.is_lambda]
        assert len(found) == 1, f"{len(found)} instances of {name} among {[i.name for i in self.result.instances]}"
        return found[0]

    def lambda_(self, name: str = "", line: int = 0) -> FunctionInstance:
        """The one lambda inside of ``name``, or the one that is written at a line."""
        found = [i for i in self.result.instances if i.is_lambda and (i.name == name or i.line == line)]
        assert len(found) == 1, (
            f"{len(found)} lambdas: {[(i.name, i.line, i.is_lambda) for i in self.result.instances]}"
        )
        return found[0]

    @staticmethod
    def nodes_of(instance: FunctionInstance, *kinds: NodeKind) -> list[Node]:
        """Nodes of an instance, of all kinds or of some."""
        return [node for node in instance.nodes if not kinds or node.kind in kinds]

    def nodes(self, *kinds: NodeKind) -> list[Node]:
        """Nodes of all instances, of all kinds or of some."""
        return [node for instance in self.result.instances for node in self.nodes_of(instance, *kinds)]

    @staticmethod
    def edges(instance: FunctionInstance, *kinds: EdgeKind) -> set[tuple[str, str]]:
        """Edges as ``("line operation", "line operation")``."""

        def named(index: int) -> str:
            return f"{instance.nodes[index].line} {instance.nodes[index].operation}"

        return {(named(e.source), named(e.target)) for e in instance.edges if not kinds or e.kind in kinds}

    def calls(self, caller: str, callee: str) -> list[Call]:
        """Calls from one instance to another, by their names."""
        keys = {i.key for i in self.instances(callee)}
        return [call for call in self.instance(caller).calls if call.callee in keys]

    def device(self) -> set[str]:
        """Names of the instances that device code reaches."""
        reached = {reach.key for reach in self.result.reach if reach.device}
        return {instance.name for instance in self.result.instances if instance.key in reached}


def as_cast(node: Node) -> Cast:
    form = node.form.value if node.form else "none"
    return Cast(node.line, node.from_format, node.format, form, node.written_type, node.constant, node.reached)


def flows(instance: FunctionInstance, source: Node, target: Node) -> bool:
    """True when a value gets from one node to another along any number of edges."""
    start, end = instance.nodes.index(source), instance.nodes.index(target)
    next_of: dict[int, list[int]] = {}
    for edge in instance.edges:
        next_of.setdefault(edge.source, []).append(edge.target)
    seen, waiting = {start}, [start]
    while waiting:
        for following in next_of.get(waiting.pop(), ()):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return end in seen


def edge_kinds(instance: FunctionInstance) -> set[EdgeKind]:
    return {edge.kind for edge in instance.edges}


def kinds_between(instance: FunctionInstance, source: int, target: int) -> set[EdgeKind]:
    return {edge.kind for edge in instance.edges if edge[:2] == Edge(source, target, edge.kind)[:2]}


def command_for(
    file: Path, toolchain: Toolchain, *arguments: str, cuda_pass: str = "device", standard: str = "c++17"
) -> ClangCommand:
    """The translated command of one source file."""
    words = ("clang++", f"-std={standard}", *arguments, "-c", file.name)
    command = CompileCommand(str(file.parent), str(file), words, None, "a snippet")
    return translate(command, toolchain, "host" if cuda_pass == "host" else "device")


def scan_file(root: Path, command: ClangCommand) -> UnitResult:
    """The result of one unit, scanned in this process."""
    return Worker(str(root), {}).scan(command, None)


#: What the fixtures ``scan`` and ``golden`` are: text, and where wanted name, files, arguments, cuda_pass, standard.
Scan = Callable[..., Scanned]
