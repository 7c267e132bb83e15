"""PyTorch's operators, who serves them, and the way from there to a kernel as the sources state it.

``native_functions.yaml`` names a function for each dispatch key; a ``TORCH_IMPL_FUNC(name)`` or a plain function of
that name is the place; it calls a stub, and ``REGISTER_DISPATCH(stub, &kernel)`` of each device says which kernel that
is.
Composite functions call other operators by their public name (``at::elu``): the operator is served by theirs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from opscanner.frameworks import macros
from opscanner.frameworks.declarations import (
    Declarations,
    DeclaredOperator,
    DeclaredRegistration,
    Device,
    Mention,
    Place,
    PlaceKind,
)
from opscanner.frameworks.pytorch import declared
from opscanner.frameworks.pytorch.moving import MOVING
from opscanner.frameworks.source_text import Definition, SourceText, find_definitions, split_arguments, without_strings

#: Types, scalars, dispatch, tensors: what every kernel uses.
LIBRARIES = ("c10/", "torch/", "aten/src/ATen/core/", "ATen/core/", "third_party/")
#: Devices that are not scanned, and what is neither a kernel's code nor on the way to one.
LEFT_OUT = ("/mps/", "/vulkan/", "/metal/", "/xpu/", "/hip/", "/miopen/", "/xnnpack/", "/nnapi/", "/benchmarks/")
_SUFFIXES = (".cpp", ".cu", ".h", ".cuh")
_REGISTER = (
    r"REGISTER_DISPATCH|REGISTER_CUDA_DISPATCH|REGISTER_ARCH_DISPATCH|REGISTER_ALL_CPU_DISPATCH"
    r"|ALSO_REGISTER_AVX512_DISPATCH"
)
_IMPLEMENTATION = re.compile(r"TORCH_(IMPL|META|PRECOMPUTE_META)_FUNC2?\(\s*(\w+)[^)]*\)")
#: Macros that are statements by themselves: read, not expanded.
_STATEMENTS = re.compile(
    r"(ALSO_)?REGISTER_\w*DISPATCH|(DEFINE|DECLARE)_DISPATCH|TORCH_(IMPL|META|LIBRARY|PRECOMPUTE|CHECK|INTERNAL)\w*"
    r"|AT_\w+|C10_\w+|STATIC_\w+"
)
_WORDS = re.compile(r"(?<![\w.:])(?<!->)(?:::)?([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*([(<,)]?)")
#: Dispatch keys of plain tensors: a composite function that calls an operator means these.
_DENSE = re.compile(r" (CPU|CUDA|Composite\w+): ")
_METHODS = re.compile(r"(?:\.|->)(\w+)\s*\(")
_RESERVED = frozenset(
    (*(f"{kind}_cast" for kind in ("static", "const", "reinterpret", "dynamic")), "sizeof", "decltype", "return", "if")
)
_ELSEWHERE = re.compile(
    r"^(std|c10|thrust|cub|cuda|at_cuda_detail|Eigen|cutlass|at|torch|vec|detail|internal|fbgemm)(::|$)"
)
#: A name that functions of so many other files have tells nothing about which one is meant.
AMBIGUOUS_FILES = 4


def read(root: Path) -> Declarations:
    """The operators of a PyTorch checkout, or of installed headers; ``warnings`` when a part could not be read."""
    found = Declarations(libraries=LIBRARIES)
    lists = declared.lists(root)
    try:
        functions = list(declared.native_functions(root / lists.functions))
        gradients = declared.backward_calls(root / lists.derivatives)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, declared.YamlError) as error:
        found.warnings.append(f"{lists.functions}: cannot be read: {error}")
        return found
    operators = declared.operators(functions, gradients, lists.functions)
    texts = _Texts(root, found, lists.functions)
    for path in _files(root, lists.kernels):
        texts.add(path)
    texts.connect({function.name for function in functions})
    for name, operator in texts.libraries(operators):
        operators[name] = operator
    found.operators = list(operators.values())
    for function in functions:
        found.registrations += _registrations(function, texts)
    found.registrations += texts.library_registrations
    _serve(found, texts.operator_places)
    return found


def _files(root: Path, folder: str) -> Iterator[Path]:
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in _SUFFIXES and not any(part in f"/{path.relative_to(root)}" for part in LEFT_OUT):
            yield path


def device_of_file(path: str) -> Device:
    """Whose code a file holds, by its place in the tree."""
    if path.endswith((".cu", ".cuh")) or "/cuda/" in path or "/cudnn/" in path:
        return "cuda"
    return "cpu" if re.search(r"/(cpu|mkldnn|mkl)/", path) else "any"


def _registrations(function: declared.NativeFunction, texts: _Texts) -> Iterator[DeclaredRegistration]:
    for entry in function.dispatch:
        device = declared.device_of(entry.key)
        if device is None:
            continue
        places = texts.serving(entry.function, device, structured=function.structured)
        label = f"{function.name}.{function.overload}" if function.overload else function.name
        target = f"{label} {entry.key}: {entry.function}"
        yield DeclaredRegistration(
            function.operator, "native_functions", device, (), target, texts.functions_file, entry.line, places,
            dense=_DENSE.search(target) is not None,
        )  # fmt: skip


def _serve(found: Declarations, operator_places: dict[str, int]) -> None:
    """Lets the place of an operator, which composite functions call, lead to all that is registered for it."""
    for registration in found.registrations:
        index = operator_places.get(registration.operator)
        if index is not None and registration.dense:
            found.places[index].mentions += [
                Mention(place, registration.file, registration.line) for place in registration.places
            ]


class _Texts:
    """The functions and stubs of all files, and what they name."""

    def __init__(self, root: Path, found: Declarations, functions_file: str) -> None:
        self._root, self._found, self.functions_file = root, found, functions_file
        self._places = found.places
        self._functions: dict[str, list[int]] = defaultdict(list)
        self._implementations: dict[str, list[int]] = defaultdict(list)
        self._stubs: dict[str, int] = {}
        self._local: set[int] = set()
        self._records: set[str] = set()
        self._names_by_file: dict[str, set[str]] = defaultdict(set)
        self._bodies: list[tuple[int, str]] = []
        self._registered: list[tuple[str, str, str, int]] = []  # stub, target, file, line
        self._macros: dict[str, macros.Macro] = {}
        self._library: list[tuple[str, str, str, str, int]] = []  # operator, key, function, file, line
        self.operator_places: dict[str, int] = {}
        self.library_registrations: list[DeclaredRegistration] = []

    # -- reading ---------------------------------------------------------------------------------------------------

    def add(self, path: Path) -> None:
        """Reads one file."""
        file = str(path.relative_to(self._root))
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self._found.warnings.append(f"{file}: {error.strerror}")
            return
        source = SourceText(text)
        definitions = source.definitions()
        for definition in definitions:
            lines = source.line(definition.begin), source.line(definition.end)
            self._function(definition, file, lines, source.outside_directives[definition.body : definition.end])
        for call in source.calls(_REGISTER):
            self._register(call.arguments, file, source.line(call.begin))
        if "TORCH_LIBRARY_IMPL" in text:
            self._read_library(source, file)
        if "#define" in text:
            self._expand(source, definitions, file)

    def _function(self, definition: Definition, file: str, lines: tuple[int, int], body: str) -> None:
        name, index_of = definition.name, self._functions
        if definition.is_class:
            # A struct whose call operator calls a stub is handed to templates (BernoulliStub): naming it is calling it.
            if not file.endswith(".cpp") or "_stub" not in body:
                return
            self._records.add(name)
        if made := _IMPLEMENTATION.match(name):
            if made[1] != "IMPL":
                return
            name, index_of = made[2], self._implementations
        elif "(" in name and not name.startswith("operator"):
            return
        index = self._new(Place(PlaceKind.FUNCTION, name.rpartition("::")[2], device_of_file(file), file, *lines))
        index_of[self._places[index].name].append(index)
        if definition.local or (definition.name.count("::") and not made):
            self._local.add(index)
        self._bodies.append((index, body))

    def _new(self, place: Place) -> int:
        self._places.append(place)
        return len(self._places) - 1

    def _register(self, arguments: tuple[str, ...], file: str, line: int) -> None:
        if len(arguments) > 1 and "nullptr" not in arguments[-1]:
            self._registered.append((arguments[0], ",".join(arguments[1:]), file, line))

    def _expand(self, source: SourceText, definitions: list[Definition], file: str) -> None:
        """Reads what the file's own macros make at file level."""
        known = {
            made.name: made.macro
            for made in macros.definitions(source.code)
            if made.macro is not None and not _STATEMENTS.fullmatch(made.name)
        }
        making = {
            name for name, macro in known.items() if re.search(r"[{]|_FUNC\(|REGISTER|" + "|".join(known), macro.body)
        }
        if not making:
            return
        inside = sorted((made.body, made.end) for made in definitions if not made.is_class)
        for call in source.calls("|".join(sorted(map(re.escape, making)))):
            if any(begin < call.begin < end for begin, end in inside):
                continue
            line = source.line(call.begin)
            text = without_strings(macros.expand(source.code[call.begin : call.end], known))
            for definition in find_definitions(text):
                self._function(definition, file, (line, line), text[definition.body : definition.end])
            for match in re.finditer(rf"\b(?:{_REGISTER})\s*\(([^;]*?)\)\s*;?", text):
                self._register(tuple(split_arguments(match[1])), file, line)

    def _read_library(self, source: SourceText, file: str) -> None:
        for match in re.finditer(
            r"TORCH_LIBRARY_IMPL\(\s*(\w+)\s*,\s*(\w+)\s*,\s*\w+\s*\)\s*\{", source.outside_directives
        ):
            end = source.outside_directives.find("\n}", match.end())
            for entry in re.finditer(
                r'm\.impl\(\s*(?:TORCH_SELECTIVE_NAME\()?\s*"(?:(\w+)::)?(\w+)(?:\.\w+)?"\)?\s*,\s*(?:TORCH_FN\()?\s*&?([\w:]+)',
                source.code[match.end() : end],
            ):
                space = entry[1] or match[1]
                name = entry[2] if space == "aten" else f"{space}::{entry[2]}"
                at = source.line(match.end() + entry.start())
                self._library.append((name, match[2], entry[3].rpartition("::")[2], file, at))

    # -- connecting ------------------------------------------------------------------------------------------------

    def connect(self, operators: set[str]) -> None:
        """Finds whom every body names."""
        for name, arguments, file, line in self._registered:
            self._connect_stub(name, arguments, file, line)
        names = (self._functions.keys() | self._stubs.keys()) - _RESERVED
        composite = {declared.operator_name(name) for name in operators} - {
            declared.operator_name(name) for name in MOVING
        }
        for name in composite:
            self.operator_places[name] = self._new(Place(PlaceKind.OPERATOR, name, "any", self.functions_file, 0, 0))
        for index, body in self._bodies:
            self._connect_body(index, body, names)

    def _connect_stub(self, stub: str, target: str, file: str, line: int) -> None:
        index = self._stubs.get(stub)
        if index is None:
            index = self._stubs[stub] = self._new(Place(PlaceKind.STUB, stub, "any", file, line, line))
        served = False
        for match in _WORDS.finditer(target):
            name = match[1].rpartition("::")[2]
            for function in self._functions.get(name, ()):
                if self._places[function].file == file:
                    self._places[index].mentions.append(Mention(function, file, line))
                    served = True
        if not served and (last := re.search(r"([A-Za-z_]\w*)\s*(?:<[^()]*>)?\s*\)?\s*$", target)):
            # Made by a macro of another file, or a template's instance: clang knows it by its name.
            place = Place(PlaceKind.FUNCTION, last[1], device_of_file(file), file, line, 0)
            self._places[index].mentions.append(Mention(self._new(place), file, line))

    def _connect_body(self, index: int, body: str, names: set[str]) -> None:
        place = self._places[index]
        seen: set[str] = set()
        composite = place.device == "any"
        offset_line = place.line
        for match in _WORDS.finditer(body):
            scope, _, name = match[1].rpartition("::")
            if composite and scope == "at" and match[2] in ("(", "<"):
                self._mention_operator(place, name, offset_line + body.count("\n", 0, match.start()), seen)
            if name not in names or name in MOVING or match[1] in seen:
                continue
            if name in self._stubs:
                targets = [self._stubs[name]]
            elif (
                match[2] in ("(", "<")
                or name in self._records
                or body[match.start() - 1] == "&"
                or (match[2] and name.endswith(("kernel", "_impl")))
            ):
                if scope and _ELSEWHERE.match(scope) and not scope.startswith("at::native"):
                    continue
                if name in self.operator_places and "native" not in scope and name not in self._own(place.file):
                    continue  # std::max and the like, or the operator itself
                targets = self._resolve(name, place)
            else:
                continue
            seen.add(match[1])
            line = offset_line + body.count("\n", 0, match.start())
            place.mentions += [Mention(target, place.file, line) for target in targets if target != index]
        if composite:
            for method in _METHODS.finditer(body):
                self._mention_operator(place, method[1], offset_line + body.count("\n", 0, method.start()), seen)

    def _mention_operator(self, place: Place, name: str, line: int, seen: set[str]) -> None:
        operator = declared.operator_name(name.removesuffix("_symint").removesuffix("_out"))
        index = self.operator_places.get(operator)
        if index is not None and f"operator {operator}" not in seen:
            seen.add(f"operator {operator}")
            place.mentions.append(Mention(index, place.file, line))

    def _resolve(self, name: str, place: Place) -> list[int]:
        """Functions that a call may mean: the file's own, or those of others that may be named from here."""
        candidates = self._functions[name]
        own = [index for index in candidates if self._places[index].file == place.file]
        if own:
            return own
        if place.file.endswith((".h", ".cuh")):
            return []
        others = [index for index in candidates if index not in self._local and self._fits(index, place.device)]
        # What a CUDA unit includes, clang follows; what other units define it cannot see. C++ units include no .cuh.
        endings = (".cu", ".cpp") if place.file.endswith(".cu") else (".cu", ".cpp", ".h")
        others = [index for index in others if self._places[index].file.endswith(endings)]
        files = {self._places[index].file for index in others}
        return others if len(files) <= AMBIGUOUS_FILES else []

    def _own(self, file: str) -> set[str]:
        """Names of the functions of one file."""
        if not self._names_by_file:
            for function in self._places:
                if function.kind is PlaceKind.FUNCTION:
                    self._names_by_file[function.file].add(function.name)
        return self._names_by_file[file]

    def _fits(self, index: int, device: Device) -> bool:
        return device == "any" or self._places[index].device in ("any", device)

    def serving(self, function: str, device: Device, *, structured: bool = False, file: str = "") -> tuple[int, ...]:
        """Where the function that a registration names begins; with a file, a registration that stands there."""
        own = [index for index in self._functions.get(function, ()) if self._places[index].file == file]
        if own:
            return tuple(own)
        first, second = self._implementations, self._functions
        names = (first.get(function) or second.get(function)) if structured else second.get(function)
        names = (
            names or (first.get(function) if not structured else None) or second.get(function.removesuffix("_symint"))
        )
        found = tuple(i for i in names or () if self._fits(i, device) and i not in self._local)
        if found:
            return found
        return (self._new(Place(PlaceKind.FUNCTION, function, device, file, 0, 0)),)

    # -- libraries -------------------------------------------------------------------------------------------------

    def libraries(self, operators: dict[str, DeclaredOperator]) -> Iterator[tuple[str, DeclaredOperator]]:
        """Operators that only ``TORCH_LIBRARY_IMPL`` names; their registrations go to ``library_registrations``."""
        for written, key, function, file, line in self._library:
            device = declared.device_of(key)
            if device is None:
                continue
            name = declared.operator_name(written)
            if name not in operators:
                yield name, DeclaredOperator(name, name, "forward", file, line)
            self.library_registrations.append(
                DeclaredRegistration(
                    name, "torch_library_impl", device, (), f"{written} {key}: {function}", file, line,
                    self.serving(function, device, file=file),
                )
            )  # fmt: skip
