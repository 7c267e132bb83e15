"""TensorFlow's operators, the classes that serve them, and the functors that these classes use.

``REGISTER_KERNEL_BUILDER(Name("Selu").Device(DEVICE_GPU).TypeConstraint<T>("T"), SeluOp<GPUDevice, T>)`` names a class.
Its ``Compute`` stands in a ``.cc`` or ``.h`` and uses functors (``functor::Selu<Device, T>``), which are defined in a
header and instantiated for the GPU in a ``.cu.cc``: another unit, so the way from the class to its functors is one of
names. One class template serves many operators by its arguments (``UnaryOp<GPUDevice, functor::tanh<T>>``): the
registration keeps them, to tell its instances from the others'.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
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
from opscanner.frameworks.source_text import (
    Definition,
    SourceText,
    closing,
    find_definitions,
    find_name,
    without_strings,
)
from opscanner.frameworks.tensorflow import declared
from opscanner.frameworks.tensorflow.registrations import Headers, Registered, registrations, statements

FOLDER = "tensorflow/core/kernels"
TYPES = "tensorflow/core/framework/register_types.h"
#: What the ``include/tensorflow`` of a wheel holds, and a checkout only below ``tensorflow/`` when it is built.
INSTALLED = "core/framework/types.pb.h"
LIBRARIES = (
    "tensorflow/core/framework/", "tensorflow/core/platform/", "tensorflow/core/lib/", "tensorflow/core/util/",
    "tensorflow/tsl/", "third_party/",
)  # fmt: skip
_LEFT_OUT = re.compile(
    r"_test(?:_\w+)?(?:\.cu)?\.(?:cc|h)$|/(?:hexagon|fuzzing|testdata|mkl)/|_benchmark|/mkl_|test_util"
)
_SUFFIXES = (".cc", ".h", ".cuh")
_WORDS = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*([(<{,;&>)]?)")
#: An expression's cast is Eigen's to make; the framework overloads the functor for it.
_EIGEN_CAST = re.compile(r"\.(?:template\s+)?cast<")
_QUALIFIED = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_ENUMERATION = re.compile(r"\benum\s+(?:class\s+|struct\s+)?(\w+)\s*(?::\s*[\w:]+\s*)?\{([^{}]*)\}")
_ENUMERATOR = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:=\s*(\d+)\s*)?")
#: What may be an enumerator among template arguments: ``UpdateOp::ADD``, ``ASSIGN``.
_CHOICE = re.compile(r"[<,]\s*(?:\w+::)*([A-Z]\w*)\s*(?=[,>])")
_NAMESPACE = re.compile(r"\bnamespace\s+(?:\w+::)*(\w+)\s*\{")
_ELSEWHERE = re.compile(
    r"^(std|Eigen|absl|tsl|cub|gpuprim|se|stream_executor|errors|port|strings|thrust|llvm|mlir)(::|$)"
)
#: A name that so many files define tells nothing about which one is meant.
AMBIGUOUS_FILES = 4
#: Arguments of a kernel's class that tell no instances apart.
_COMMON = frozenset(
    (
        "T", "Device", "CPUDevice", "GPUDevice", "GpuDevice", "ThreadPoolDevice", "Eigen", "functor", "tensorflow",
        "true", "false", "std", "internal", "type", "typename", "D", "tsl", "Index", "se", "gpu",
    )
)  # fmt: skip
#: Names that classes share with what every kernel uses.
_EVERYWHERE = frozenset(("Compute", "ComputeAsync", "Tensor", "Status", "Operate", "Launch", "Run", "Init", "OpKernel"))


def read(root: Path) -> Declarations:
    """The operators of a TensorFlow checkout; ``warnings`` when a part could not be read."""
    found = Declarations(libraries=LIBRARIES)
    if (root / INSTALLED).is_file():
        found.notes.append(f"{root}: no operators: installed headers name none. A checkout's .cc files register them")
        return found
    operators = {one.name: one for one in declared.registered_operators(root)}
    if not operators:
        found.warnings.append(f"{declared.OPERATORS_FOLDER}: no REGISTER_OP found")
        return found
    called = declared.gradients(root)
    texts = {str(path.relative_to(root)): _read(path) for path in _files(root)}
    sources = {file: SourceText(text) for file, text in texts.items()}
    headers = {TYPES: SourceText(_read(root / TYPES))} if (root / TYPES).is_file() else {}
    headers.update({file: source for file, source in sources.items() if file.endswith((".h", ".cuh"))})
    known = Headers(headers)
    places = _Places(found)
    registered: list[tuple[str, Registered]] = []
    included: dict[str, frozenset[str]] = {}
    for file, source in sources.items():
        definitions = source.definitions()
        seen = known.macros_for(source, TYPES)
        places.add(file, source, definitions, seen)
        included[file] = frozenset(known.seen_by(source))
        found.enumerations.update(enumerations(source.outside_directives))
        made = list(statements(source, definitions, seen))
        for line, text in made:
            places.add_expanded(file, line, text)
        if file.endswith(".cc"):
            registered += [(file, one) for one in registrations(made)]
    places.connect(frozenset(_class_name(one.kernel) for _, one in registered), included)
    for file, one in registered:
        if one.operator not in operators:
            operators[one.operator] = declared.Declared(one.operator, file, one.line)
        found.registrations.append(_registration(file, one, places))
    found.operators = _operators(operators, called)
    return found


def _files(root: Path) -> Iterator[Path]:
    for path in sorted((root / FOLDER).rglob("*")):
        if path.suffix in _SUFFIXES and not _LEFT_OUT.search(str(path.relative_to(root))):
            yield path


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _operators(known: dict[str, declared.Declared], called: dict[str, str]) -> list[DeclaredOperator]:
    names = set(known)
    made = [declared.operator(one, names, called) for one in known.values()]
    # A gradient's forward operator must be one.
    return [one if one.forward_name in names else one._replace(forward_name=one.name) for one in made]


def _registration(file: str, one: Registered, places: _Places) -> DeclaredRegistration:
    words = telling_names(one.kernel.partition("<")[2])
    kernel = _class_name(one.kernel)
    begins = places.classes(kernel, file, one.device)
    for word in words:
        begins += places.classes(word, file, one.device)
    words += places.choices(begins, words)
    if not begins:
        begins = (places.unknown(kernel, one.device, file, one.line),)
    return DeclaredRegistration(
        one.operator, "register_kernel_builder", one.device, one.formats, one.kernel, file, one.line, begins, words
    )


def _class_name(kernel: str) -> str:
    return kernel.partition("<")[0].strip().rpartition("::")[2]


def telling_names(arguments: str) -> tuple[str, ...]:
    """Names among template arguments that tell instances apart, without their namespaces.

    >>> telling_names("GPUDevice, T, Eigen::internal::SumReducer<T>, scatter_op::UpdateOp::SUB")
    ('SumReducer', 'SUB')
    """
    names = (name.rpartition("::")[2] for name in _QUALIFIED.findall(arguments))
    return tuple(dict.fromkeys(name for name in names if name not in _COMMON and len(name) > 1))


def enumerations(text: str) -> dict[str, dict[int, str]]:
    """Enumerators by value, by name of the enumeration in the namespace around; none where a value is computed.

    >>> enumerations("namespace a { namespace b { enum class Op { ADD, SUB = 4, MUL }; } }")
    {'b::Op': {0: 'ADD', 4: 'SUB', 5: 'MUL'}}
    """
    found: dict[str, dict[int, str]] = {}
    for match in _ENUMERATION.finditer(text) if "enum" in text else ():
        around = [
            space[1]
            for space in _NAMESPACE.finditer(text, 0, match.start())
            if closing(text, space.end() - 1) > match.start()
        ]
        members = [_ENUMERATOR.fullmatch(part) for part in match[2].rstrip().rstrip(",").split(",")]
        if around and all(members):
            value, by_value = 0, dict[int, str]()
            for member in filter(None, members):
                value = int(member[2]) if member[2] else value
                by_value[value] = member[1]
                value += 1
            found[f"{around[-1]}::{match[1]}"] = by_value
    return found


def device_of(file: str, header: str = "") -> Device:
    """Whose code a file or a specialization is."""
    if ".cu." in file or "GPUDevice" in header or "GpuDevice" in header or "/gpu_" in file or "_gpu." in file:
        return "cuda"
    return "cpu" if re.search(r"\b(CPUDevice|CpuDevice|ThreadPoolDevice)\b", header) else "any"


def _may_be_named(place: Place) -> bool:
    """False for classes that a C++ unit keeps to itself; those of CUDA units are declared in a header."""
    return place.kind is not PlaceKind.CLASS or not place.file.endswith(".cc") or place.file.endswith(".cu.cc")


class _Places:
    """Classes and functions of all files, and what they name."""

    def __init__(self, found: Declarations) -> None:
        self._found, self._places = found, found.places
        self._methods: dict[str, set[str]] = defaultdict(set)
        self._macro_words: dict[str, dict[str, set[str]]] = {}
        self._named: dict[str, list[int]] = defaultdict(list)
        self._local: set[int] = set()
        self._defining: dict[str, set[str]] = defaultdict(set)
        self._homes: dict[tuple[str, str], frozenset[str]] = {}
        self._choices: dict[int, set[str]] = {}
        self._kernels: Set[str] = frozenset()
        self._included: Mapping[str, Set[str]] = {}
        self._bodies: list[tuple[int, str, int]] = []

    def add(
        self, file: str, source: SourceText, definitions: list[Definition], seen: Mapping[str, macros.Macro]
    ) -> None:
        """Takes in the classes and functions of a file, given the macros of its headers; a method is its class'."""
        text = source.outside_directives
        words = {name: set(_IDENTIFIER.findall(macro.body)) for name, macro in seen.items()}
        for defined in macros.definitions(source.code):
            if defined.macro is not None:
                words.setdefault(defined.name, set()).update(_IDENTIFIER.findall(defined.macro.body))
        self._macro_words[file] = words
        self._methods[file] = {made.name.rpartition("::")[2] for made in definitions if made.in_class}
        for made in definitions:
            owner = made.name.rpartition("::")[0].rpartition("::")[2] if not made.is_class else ""
            name = made.name.rpartition("::")[2]
            if not made.is_class and not owner and (made.in_class or name.startswith("operator")):
                continue  # its class' body holds it
            kind = PlaceKind.CLASS if made.is_class or owner else PlaceKind.FUNCTION
            lines = source.line(made.begin), source.line(made.end)
            begin = made.begin if not made.is_class else max(0, made.body - len(made.header))
            place = Place(kind, owner or name, device_of(file, made.header), file, *lines)
            specialized = find_name(made.header, name, "<") if made.is_class else -1
            special = specialized >= 0 and ">" in made.header[specialized:]
            if special:
                place.arguments = telling_names(made.header[specialized + len(name) :].rpartition(">")[0])
            self._places.append(place)
            index = len(self._places) - 1
            if made.is_class and not special and (made.local or file.endswith((".h", ".cuh"))):
                self._defining[name].add(file)  # what a .cc defines, its .cu.cc may define once more
            self._named[place.name].append(index)
            if made.local:
                self._local.add(index)
            body = text[begin : made.end]
            self._bodies.append((index, body, source.line(begin)))
            if kind is PlaceKind.CLASS:
                self._choices[index] = set(_CHOICE.findall(body))

    def add_expanded(self, file: str, line: int, text: str) -> None:
        """Takes in the classes that a macro defines at a line."""
        bare = without_strings(text)
        for made in find_definitions(bare):
            if made.is_class:
                self._places.append(Place(PlaceKind.CLASS, made.name, device_of(file, made.header), file, line, line))
                self._named[made.name].append(len(self._places) - 1)
                begin = max(0, made.body - len(made.header))
                self._bodies.append((len(self._places) - 1, bare[begin : made.end], line))

    def connect(self, kernels: Set[str], included: Mapping[str, Set[str]]) -> None:
        """Finds whom every body names.

        Nobody runs another operator's kernel, but a kernel's class may be the base of another's: ``kernels`` are named
        by classes of files that include theirs (``BinaryOp`` is also a class of the framework that Conv2D stands on).
        """
        self._kernels, self._included = kernels, included
        names = self._named.keys() - _EVERYWHERE
        for index, body, first_line in self._bodies:
            seen, known_macros = {self._places[index].name}, self._macro_words[self._places[index].file]
            for match in _WORDS.finditer(body):
                scope, _, name = match[1].rpartition("::")
                if name in seen or (name not in names and name not in known_macros) or _ELSEWHERE.match(scope):
                    continue
                wanted = [name] if name in names else sorted(self._behind(name, names, self._places[index].file))
                line = first_line + body.count("\n", 0, match.start()) if wanted else 0
                for word in wanted:
                    if word not in seen:
                        seen.add(word)
                        self._mention(index, word, line)
            cast = _EIGEN_CAST.search(body)
            if cast and any(
                self._places[place].file in included.get(self._places[index].file, ())
                for place in self._named.get("scalar_cast_op", ())
            ):
                self._mention(index, "scalar_cast_op", first_line + body.count("\n", 0, cast.start()))

    def _mention(self, index: int, name: str, line: int) -> None:
        place = self._places[index]
        place.mentions += [
            Mention(target, place.file, line)
            for target in self._resolve(name, place.file, place.device)
            if target != index and (name not in self._kernels or self._may_stand_on(place, self._places[target]))
        ]

    def _may_stand_on(self, place: Place, kernel: Place) -> bool:
        return place.kind is PlaceKind.CLASS and (
            place.file == kernel.file or kernel.file in self._included.get(place.file, ())
        )

    def _behind(self, macro: str, names: Set[str], file: str) -> set[str]:
        """Names of places that a macro mentions, also through others."""
        found: set[str] = set()
        words = self._macro_words[file]
        todo, seen = [macro], set[str]()
        while todo:
            name = todo.pop()
            if name in words and name not in seen:
                seen.add(name)
                found |= words[name] & names
                todo += words[name]
        return found

    def _resolve(self, name: str, file: str, device: Device) -> tuple[int, ...]:
        candidates = [
            index
            for index in self._named.get(name, ())
            if device == "any" or self._places[index].device in ("any", device)
        ]
        own = tuple(index for index in candidates if self._places[index].file == file)
        if name in self._methods[file]:
            return own
        others = tuple(
            index
            for index in candidates
            if index not in self._local and self._places[index].file != file and _may_be_named(self._places[index])
        )
        if len({self._places[index].file for index in others}) > AMBIGUOUS_FILES:
            others = ()
        # A template is declared in one file and specialized in another: own and others may both be meant.
        return tuple(index for index in own + others if self._is_seen(self._places[index], file))

    def _is_seen(self, place: Place, file: str) -> bool:
        """False for a function of a header that a file does not include, and for a namesake of the class that it sees.

        A specialization and the files that use it see one definition of the template, or a mere declaration of it.
        """
        if place.kind is PlaceKind.FUNCTION:
            return not place.file.endswith((".h", ".cuh")) or place.file in (file, *self._included.get(file, ()))
        theirs, ours = self._homes_of(place.name, place.file), self._homes_of(place.name, file)
        return not theirs or not ours or bool(theirs & ours)

    def _homes_of(self, name: str, file: str) -> frozenset[str]:
        """Where a class that a file names is defined: in it, or in what it includes."""
        found = self._homes.get((name, file))
        if found is None:
            seen = self._included.get(file, frozenset())
            found = frozenset(one for one in self._defining.get(name, ()) if one == file or one in seen)
            self._homes[name, file] = found
        return found

    def choices(self, kernels: Iterable[int], known: Iterable[str]) -> tuple[str, ...]:
        """Enumerators among template arguments in kernels' bodies, of enumerations that a registration leaves open.

        ``ScatterNdOp`` itself says ``DoScatterNd<..., scatter_nd_op::UpdateOp::ADD>``.
        """
        written = set[str]().union(*(self._choices.get(index, ()) for index in kernels))
        names = frozenset(known)
        found: set[str] = set()
        for enumeration in self._found.enumerations.values():
            if not names & set(enumeration.values()):
                found |= written & set(enumeration.values())
        return tuple(sorted(found - names))

    def classes(self, name: str, file: str, device: Device) -> tuple[int, ...]:
        """Places of a class that a registration names."""
        return tuple(i for i in self._resolve(name, file, device) if self._places[i].kind is PlaceKind.CLASS)

    def unknown(self, name: str, device: Device, file: str, line: int) -> int:
        """A place for a class that no file that was read defines."""
        self._places.append(Place(PlaceKind.CLASS, name, device, file, line, line))
        return len(self._places) - 1
