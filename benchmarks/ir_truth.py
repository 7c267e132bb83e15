#!/usr/bin/env python3
"""Which changes of floating-point format does clang's LLVM IR show? A ground truth for units that have none.

    python benchmarks/ir_truth.py ROOT --unit aten/src/ATen/native/cuda/RNN.cu ... --out truth.json.gz

Compiles each unit (``clang++ --cuda-device-only -S -emit-llvm -g -O0``, linked with libdevice) and reads the IR. The
output has the form of ``data/ground_truth`` and goes into the same comparison. Nothing of the scanner is used here but
its compile commands: the two must not share their mistakes.

- ``direct``: an fpext or fptrunc in the framework's own code, or a call there of a float type's conversion function,
  converting constructor or mixed operator, or of a CUDA cast intrinsic;
- ``helper``: a call of ``c10::convert`` or ``static_cast_with_inter_type``, which only convert;
- ``library_call``: a call of a std, thrust, CUDA or complex function inside of which the format changes;
- left out: what stands inside the float types' own headers, and int to float.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ir_text import Frame, Function, Module
from measure import newest_clang

import compile_db

#: CUB compares two ``__half`` in code that no template parameter delays, and PyTorch's defines take those operators
#: away: nvcc does not look, clang stops before it emits anything. Declared for exactly that type, never called.
PRELUDE = """#include <type_traits>
struct __half;
#define OPSCANNER_COMPARE(op) template <class T, class = std::enable_if_t<std::is_same_v<T, __half>>> \\
  __attribute__((host)) __attribute__((device)) bool operator op(const T&, const T&);
OPSCANNER_COMPARE(<) OPSCANNER_COMPARE(>) OPSCANNER_COMPARE(<=) OPSCANNER_COMPARE(>=)
OPSCANNER_COMPARE(==) OPSCANNER_COMPARE(!=)
#undef OPSCANNER_COMPARE
"""

#: Since this clang, debug information gives code inside a macro's arguments its own line.
LINES_IN_MACROS = 22

_OWN = re.compile(
    r"(^|/)(c10|torch/headeronly)/util/(Half|BFloat16|Float8|Float4|complex|floating_point_utils)[\w.-]*\.h$"
    r"|(^|/)cuda_(fp16|bf16|fp8)\.hpp?$|(^|/)Eigen/src/"
)
#: Classes that are floats, as demangled.
_CLASSES = {
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::complex<c10::Half>": "complex32",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "Eigen::half": "float16",
    "Eigen::bfloat16": "bfloat16",
}
_TYPES = {
    **_CLASSES,
    "float": "float32",
    "double": "float64",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "__half2": "float16",
    "__nv_bfloat162": "bfloat16",
    "float2": "float32",
}
_WIDTH = {"float64": 4, "float32": 3, "complex128": 4, "complex64": 3, "complex32": 2}
_WORDS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "floats": "float32", "double": "float64"}
_INTRINSIC = re.compile(
    r"^__(half|bfloat16|floats?|double|low|high)2?2(half|bfloat16|float|double)(?:2|162)?(?:_r[nzdu])?$"
)
_OPERATOR = re.compile(r"\boperator\b")
_HELPER = re.compile(r"(?:^| )c10::(?:convert|static_cast_with_inter_type)<(.*)>(?:::apply)?\(")
_OPERATION = re.compile(r"^operator(\+|-|\*|/|\+=|-=|\*=|/=|\+\+|--)$")
_HALF_INTRINSIC = re.compile(
    r"^__?h(?:2)?(add|sub|mul|div|fma|neg|2div|exp|log|sqrt|rsqrt|rcp|sin|cos|tanh)\w*$|^h2?(exp|log|sqrt|rsqrt|rcp|sin|cos)\w*$"
)
_ATOMIC = re.compile(r"^(?:fast|gpu|Gpu)?[aA]tomic(?:Add|Mul|Min|Max)\w*(?:<.*>)?$")
_INTEGERS = frozenset(["int", "long", "unsigned int", "unsigned long", "long long", "unsigned long long"])
SIXTEEN_BIT = ("float16", "bfloat16")
Pair = tuple[str, str]


# -- demangled names ---------------------------------------------------------------------------------------------


def demangle(names: Sequence[str]) -> dict[str, str]:
    """Demangled names by mangled name."""
    program = shutil.which("llvm-cxxfilt-22") or shutil.which("llvm-cxxfilt")
    at_hand = sorted(Path("/usr/lib").glob("llvm-*/bin/llvm-cxxfilt"), key=lambda path: int(path.parts[3][5:]))
    program = program or (str(at_hand[-1]) if at_hand else shutil.which("c++filt"))
    if program is None:
        sys.exit("neither llvm-cxxfilt nor c++filt is on PATH")
    text = subprocess.run([program], input="\n".join(names), check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(zip(names, text.splitlines(), strict=True))


def split_top(text: str, separator: str) -> list[str]:
    """Parts between separators that stand outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "<([{":
            depth += 1
        elif letter in ">)]}" and depth:
            depth -= 1
        elif letter == separator and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]


def plain(type_name: str) -> str:
    """A type without reference, pointer and const."""
    return re.sub(r"\bconst\b|[&*]|__restrict\w*", "", type_name).replace("volatile", "").strip()


def signature(text: str) -> tuple[str, str, list[str]]:
    """(scope, own name, parameter types) of a demangled function; empty strings for anything else.

    >>> signature("c10::Half::operator float() const")
    ('c10::Half', 'operator float', [])
    """
    text = re.sub(r"( const| &&?|\[abi:\w+\]| \[clone .*\])+$", "", text)
    if not text.endswith(")"):
        return "", text, []
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if not depth:
            break
    head, inside = text[:at], text[at + 1 : -1]
    parameters = [part.strip() for part in split_top(inside, ",")] if inside.strip() else []
    names = list(_OPERATOR.finditer(head))
    cut = next((found.start() for found in names if _depth(head, found.start()) == 0), -1)
    name = head[cut:] if cut >= 0 else ""
    head = head[:cut] if cut >= 0 else head
    words = split_top(head.strip() if cut < 0 else head, " ")
    qualified = words[-1]
    if name:
        return qualified.removesuffix("::"), name, parameters
    at, depth = len(qualified), 0
    while at > 0:
        at -= 1
        depth += {">": 1, ")": 1, "<": -1, "(": -1}.get(qualified[at], 0)
        if not depth and qualified.startswith("::", at):
            return qualified[:at], qualified[at + 2 :], parameters
    return "", qualified, parameters


def _depth(text: str, end: int) -> int:
    before = text[:end].replace("->", "")
    return sum(before.count(letter) for letter in "<(") - sum(before.count(letter) for letter in ">)")


def conversion(text: str) -> Pair | None:
    """(from, to) of a function of a float type that changes the format and does nothing else.

    >>> conversion("c10::Half::Half(float)"), conversion("c10::operator*(c10::Half const&, c10::Half const&)")
    (('float32', 'float16'), None)
    >>> conversion("c10::operator*(float, c10::Half)")
    ('float16', 'float32')
    """
    scope, name, parameters = signature(text)
    types = [_TYPES.get(plain(parameter), "") for parameter in parameters]
    pair = None
    if name.startswith("operator "):
        pair = _CLASSES.get(scope), _TYPES.get(plain(name.removeprefix("operator ")))
    elif scope in _CLASSES and name.partition("<")[0] == scope.partition("<")[0].rpartition("::")[2]:
        pair = (types[0], _CLASSES[scope]) if len(types) == 1 else None
    elif _OPERATION.match(name) and len(types) == 2 and all(types):
        low, high = sorted(types, key=lambda name: _WIDTH.get(name, 1))
        pair = (types[1], types[0]) if name.endswith("=") else (low, high)
        if {low, high} <= {"complex64", "complex128", "float32", "float64"}:
            pair = None
    elif not scope and (found := _INTRINSIC.match(name)):
        source = _WORDS.get(found[1]) or (types[0] if types else "")
        pair = source, _WORDS[found[2]]
    if pair is None or not pair[0] or not pair[1] or pair[0] == pair[1]:
        return None
    return pair[0], pair[1]


def helper(text: str) -> Pair | None:
    """(from, to) of a call of the framework's functions that only convert."""
    found = _HELPER.search(text)
    if not found:
        return None
    to_from = [_TYPES.get(plain(part)) for part in split_top(found[1], ",")]
    if len(to_from) != 2 or None in to_from or to_from[0] == to_from[1]:
        return None
    return str(to_from[1]), str(to_from[0])


def arithmetic(text: str) -> tuple[str, str, bool] | None:
    """(category, format, rounds) of an operator or function that computes in 16 bits."""
    _scope, name, parameters = signature(text)
    types = [_TYPES.get(plain(parameter), "") for parameter in parameters]
    if types and types[0] in SIXTEEN_BIT and _ATOMIC.match(name):
        return "atomic", types[0], True
    if _OPERATION.match(name) and len(types) == 2:
        # c10 rounds an integer operand to the 16-bit format first
        types = [
            other if plain(own) in _INTEGERS else mine
            for own, mine, other in zip(parameters, types, types[::-1], strict=True)
        ]
    if not types or types[0] not in SIXTEEN_BIT or any(t != types[0] for t in types):
        return None
    if _OPERATION.match(name):
        return "arith", types[0], True
    if found := _HALF_INTRINSIC.match(name):
        return ("arith" if found[1] in ("add", "sub", "mul", "div", "2div", "fma", "neg") else "math"), types[0], True
    return None


# -- one module --------------------------------------------------------------------------------------------------


class Analysis:
    """Casts of one module.

    Parameters
    ----------
    module : Module
    root : str
        Absolute path of the framework's tree.
    """

    def __init__(self, module: Module, root: str) -> None:
        self.module, self.root = module, os.path.realpath(root) + "/"
        callees = {call.callee for function in module.functions.values() for call in function.calls}
        names = sorted(callees | set(module.functions) | module.linkage_names())
        self.names = demangle(names)
        self._conversions: dict[str, Pair | None] = {}
        self._closures: dict[str, frozenset[Pair]] = {}
        self._rows: dict[tuple[str, int, str, str], dict[str, Any]] = {}
        self._arithmetic: dict[tuple[str, int, str, str], dict[str, Any]] = {}

    def run(self) -> dict[str, Any]:
        """The unit's entry of the ground truth."""
        for function in self.module.functions.values():
            self._visit(function)
        order = [self._rows[key] for key in sorted(self._rows)]
        for row in order:
            row["columns"] = sorted(row["columns"])
        lines: dict[str, set[int]] = {}
        for location in self.module.locations:
            for frame in self.module.frames(location):
                if self._framework(frame.file) and frame.line:
                    lines.setdefault(frame.file[len(self.root) :], set()).add(frame.line)
        return {
            "arithmetic": [self._arithmetic[key] for key in sorted(self._arithmetic)],
            "casts": order,
            "device_lines": {file: sorted(numbers) for file, numbers in sorted(lines.items())},
        }

    # -- kinds of code -------------------------------------------------------------------------------------------

    def _framework(self, file: str) -> bool:
        return file.startswith(self.root) and not _OWN.search(file)

    def _framework_function(self, name: str) -> bool:
        function = self.module.functions.get(name)
        return function is not None and self._framework(self.module.file(function.subprogram))

    def _library_function(self, name: str) -> bool:
        """True for functions whose inside counts: not the float types' own, whose operators are arithmetic."""
        function = self.module.functions.get(name)
        file = self.module.file(function.subprogram) if function else ""
        return function is not None and not self._framework(file) and (not _OWN.search(file) or "/complex" in file)

    def _conversion(self, name: str) -> Pair | None:
        if name not in self._conversions:
            self._conversions[name] = conversion(self.names.get(name, name))
        return self._conversions[name]

    def _place(self, location: int) -> tuple[Frame, Pair | None, bool] | None:
        """(framework frame, conversion function inlined there, True when the frame is the innermost); None outside."""
        inlined: Pair | None = None
        for depth, frame in enumerate(self.module.frames(location)):
            if self._framework(frame.file):
                return frame, inlined, depth == 0
            inlined = self._conversion(self.module.linkage_name(frame.subprogram)) or inlined
        return None

    def _function_name(self, subprogram: int) -> str:
        """Qualified name without template arguments; a lambda has its function's."""
        name = self.module.qualified_name(subprogram)
        if name:
            return name
        scope = re.split(r"::(?:\{lambda|'lambda)", self.names.get(self.module.linkage_name(subprogram), ""))[0]
        scope, own, _parameters = signature(scope)
        return "::".join(filter(None, (re.sub(r"<.*>", "", scope), own.partition("<")[0])))

    # -- casts ---------------------------------------------------------------------------------------------------

    def _visit(self, function: Function) -> None:
        library: dict[Frame, set[Pair]] = {}
        for cast in function.casts:
            if found := self._place(cast.location):
                frame, inlined, own = found
                if inlined or own:
                    self._add(frame, inlined or (cast.source, cast.target), "direct", own and cast.constant)
                elif not cast.constant:
                    library.setdefault(frame, set()).add((cast.source, cast.target))
        for frame, pairs in library.items():
            for pair in _for_good(pairs):
                self._add(frame, pair, "library_call", False)
        for call in function.calls:
            if found := self._place(call.location):
                self._call(call.callee, call.arguments, *found)
            self._inlined_atomics(call.location)
        for operation in function.arithmetic:
            found = self._place(operation.location)
            if found and found[2]:
                self._add_arithmetic(found[0], operation.operation, "arith", operation.format)

    def _call(self, callee: str, arguments: str, frame: Frame, inlined: Pair | None, own: bool) -> None:
        if inlined is not None:
            self._add(frame, inlined, "direct", False)
            return
        text = self.names.get(callee, callee)
        pair = self._conversion(callee)
        if pair is not None:
            constant = _literal(arguments) and "operator" not in text
            self._add(frame, pair, "direct" if own else "library_call", constant)
        elif found := helper(text):
            self._add(frame, found, "helper", False)
        elif self._library_function(callee):
            for pair in self._closure(callee):
                self._add(frame, pair, "library_call", False)
        if own and (found := arithmetic(text)):
            self._add_arithmetic(frame, text, found[0], found[1])

    def _inlined_atomics(self, location: int) -> None:
        """``__forceinline__`` functions of the framework are inlined at -O0 too: an atomic's caller is a frame."""
        inner = None
        for frame in self.module.frames(location):
            name = self.module.linkage_name(inner.subprogram) if inner else ""
            found = arithmetic(self.names.get(name, name)) if name and self._framework(frame.file) else None
            if found and found[0] == "atomic":
                self._add_arithmetic(frame, self.names.get(name, name), found[0], found[1])
            inner = frame

    def _closure(self, name: str) -> frozenset[Pair]:
        """Changes of format inside a library function and the library functions that it calls."""
        if name not in self._closures:
            found: set[Pair] = set()
            waiting, seen = [name], {name}
            while waiting:
                function = self.module.functions.get(waiting.pop())
                if function is None:
                    continue
                for cast in function.casts:
                    if not cast.constant and self._place(cast.location) is None:
                        found.add((cast.source, cast.target))
                for call in function.calls:
                    if self._place(call.location) is not None or self._framework_function(call.callee):
                        continue
                    pair = self._conversion(call.callee)
                    if pair is not None:
                        if not _literal(call.arguments):
                            found.add(pair)
                    elif call.callee not in seen:
                        seen.add(call.callee)
                        waiting.append(call.callee)
            self._closures[name] = frozenset(_for_good(found))
        return self._closures[name]

    def _add(self, frame: Frame, pair: Pair, how: str, constant: bool) -> None:
        file = frame.file[len(self.root) :]
        key = (file, frame.line, *pair)
        row = self._rows.get(key)
        if row is None:
            self._rows[key] = {
                "columns": {frame.column},
                "constant": constant,
                "file": file,
                "from": pair[0],
                "function": self._function_name(frame.subprogram),
                "how": how,
                "line": frame.line,
                "to": pair[1],
            }
            return
        row["columns"].add(frame.column)
        row["constant"] = row["constant"] and constant
        order = ("direct", "helper", "library_call")
        row["how"] = min(row["how"], how, key=order.index)

    def _add_arithmetic(self, frame: Frame, operation: str, category: str, computed: str) -> None:
        file = frame.file[len(self.root) :]
        self._arithmetic[(file, frame.line, operation, computed)] = {
            "category": category,
            "expression": False,
            "file": file,
            "format": computed,
            "function": self._function_name(frame.subprogram).rpartition("::")[2],
            "line": frame.line,
            "operation": operation,
            "rounds": True,
        }


def _for_good(pairs: set[Pair]) -> set[Pair]:
    """Without those that are taken back inside: ``tanh(double)`` computes a part in float32."""
    return {(source, target) for source, target in pairs if (target, source) not in pairs}


def _literal(arguments: str) -> bool:
    """True when every float among a call's arguments is an immediate, and there is one."""
    values = re.findall(r"(?:^|, )(?:half|bfloat|float|double)(?: \w+)* ([^\s,)]+)", arguments)
    return bool(values) and not any(value.startswith("%") for value in values)


# -- compiling ---------------------------------------------------------------------------------------------------


def compile_unit(
    clang: str, command: compile_db.ClangCommand, libdevice: str, output: str, prelude: str
) -> tuple[int, str]:
    """Write the unit's IR to ``output``; (exit code, what clang said)."""
    arguments = list(command.arguments)
    if "-resource-dir" in arguments:  # libclang's own; this clang has another
        at = arguments.index("-resource-dir")
        del arguments[at : at + 2]
    linked = ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", libdevice] if libdevice else []
    done = subprocess.run(
        [clang, *arguments, *linked, "-include", prelude, "-S", "-emit-llvm", "-g", "-O0", "-o", output, command.file],
        cwd=command.directory,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def find_libdevice(arguments: Iterable[str]) -> str:
    """CUDA's math library in bitcode, beside the headers that the unit is compiled with; empty when there is none."""
    for argument in arguments:
        path = Path(argument).parent / "nvvm" / "libdevice" / "libdevice.10.bc"
        if path.is_file():
            return str(path)
    return ""


def truth_of(ir: Path, root: str) -> dict[str, Any]:
    """Ground truth from an IR file."""
    with ir.open(encoding="utf-8", errors="replace") as stream:
        return Analysis(Module(stream), root).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="an unbuilt checkout")
    parser.add_argument("--unit", action="append", required=True, help="relative to the root; may be repeated")
    parser.add_argument("--out", type=Path, required=True, help="where the truth goes (.json.gz)")
    parser.add_argument("--clang", help="clang++ to compile with (default: the newest that is found)")
    parser.add_argument("--keep", type=Path, help="folder to keep the IR in, and to take it from when it is there")
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/opscanner"))
    options = parser.parse_args()
    root = options.root.resolve()
    clang = options.clang or newest_clang()
    version = subprocess.run([clang, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    print(version, file=sys.stderr)
    found = re.search(r"version (\d+)", version)
    if found and int(found[1]) < LINES_IN_MACROS:
        print(
            f"older than clang {LINES_IN_MACROS}: macro arguments are told on the macro's line",
            file=sys.stderr,
        )
    toolchain = compile_db.find_toolchain()
    database = compile_db.synthesize(root, options.cache, toolchain, lambda text: print(text, file=sys.stderr), "auto")
    commands = {os.path.relpath(command.file, root): command for command in database.commands}
    truth: dict[str, Any] = {}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="opscanner-ir-") as folder:
        kept = options.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        prelude = Path(folder, "compare.h")
        prelude.write_text(PRELUDE)
        for unit in options.unit:
            ir = kept / (unit.replace("/", "__") + ".ll")
            said = ""
            if unit not in commands:
                said = "no compile command"
            elif not ir.is_file():
                command = compile_db.translate(commands[unit], toolchain, "device")
                libdevice = find_libdevice(command.arguments)
                code, said = compile_unit(clang, command, libdevice, str(ir), str(prelude))
                said = "" if code == 0 else said
            if said or not ir.is_file():
                failed += 1
                errors = [line for line in said.splitlines() if "error" in line] or [said]
                print(f"skipped {unit}: {errors[0]} ({len(errors)} errors)", file=sys.stderr)
                continue
            truth[unit] = truth_of(ir, str(root))
            print(f"{unit}: {len(truth[unit]['casts'])} casts", file=sys.stderr)
    with gzip.open(options.out, "wt", encoding="utf-8") as stream:
        json.dump(truth, stream, sort_keys=True, indent=0)
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
