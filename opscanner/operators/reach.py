"""What a registration reaches: through the text where clang saw nothing, through clang's calls everywhere else.

Two graphs are walked as one. Places (``frameworks.declarations``) are functions, stubs and classes read from text;
function instances are clang's. A place leads to the instances of the function that it is; an instance leads to its
callees, and to functions of other units that its text names, which clang, seeing one unit at a time, could not follow.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from opscanner.frameworks.declarations import Declarations, DeclaredRegistration, Device, Place, PlaceKind
from opscanner.graph.call_graph import CallGraph, FunctionRow

#: Names in clang's symbols; those of classes stand behind ``@S@``, those of templates behind ``@ST>...@``.
#: ``std::complex`` is a type of elements, whatever functor is called like it: a name of its own, which registrations
#: for complex formats have among their arguments.
_COMPLEX = "std::complex"
_NAMES = re.compile(r"(?<!@N@std@S)@(\w+)")
#: ``V$@N@tensorflow@N@scatter_op@E@UpdateOp6``: an enumeration in its scope, and a value.
_ENUMERATOR = re.compile(r"@(\w+)@E@([A-Za-z_]\w*?)(\d+)(?=[@#>]|$)")
_HEADERS = (".h", ".cuh", ".hpp", ".inc")
_NATIVE = re.compile(r"at::native::(\(anonymous namespace\)::)?\w+$")


class Step(NamedTuple):
    """One step of a path, as it is stored."""

    what: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Reached:
    """A function that a registration reaches, on the shortest way, and which of its instances."""

    function: int
    registration: int
    distance: int
    certain: bool
    formats: tuple[str, ...]
    path: tuple[Step, ...]
    instances: tuple[int, ...]
    dense: bool = True


class _Arrival(NamedTuple):
    """How the walk came to a node: from which one (0: from a registration), and whether a step was text's."""

    previous: int
    registration: int
    distance: int
    certain: bool


class Reach:
    """Walks from registrations to functions.

    Nodes are one kind of number: place ``n`` is ``n + 1``, instance ``n`` is ``-n``; 0 is none.

    Parameters
    ----------
    declared : Declarations
    graph : CallGraph
    """

    def __init__(self, declared: Declarations, graph: CallGraph) -> None:
        self._declared, self._graph = declared, graph
        self._places: Sequence[Place] = declared.places
        self._instances_of: dict[int, list[int]] = defaultdict(list)
        for instance in graph.instances.values():
            self._instances_of[instance.function].append(instance.id)
        self._formats = {
            text: tuple(part.partition("=")[2] for part in text.split(", ") if "=" in part)
            for text in {instance.bindings for instance in graph.instances.values()}
        }
        self._by_file: dict[str, dict[str, list[FunctionRow]]] = defaultdict(lambda: defaultdict(list))
        self._by_name: dict[str, list[FunctionRow]] = defaultdict(list)
        self._by_class: dict[str, list[FunctionRow]] = defaultdict(list)
        for function in graph.functions.values():
            name = _short_name(function.name)
            self._by_file[function.file][name].append(function)
            self._by_name[name].append(function)
            for part in set(function.name.split("::")[:-1]):
                self._by_class[part].append(function)
        self._all_arguments = frozenset(word for one in declared.registrations for word in one.arguments)
        self._arguments_of = {
            instance: frozenset(_NAMES.findall(usr)) & self._all_arguments
            | (frozenset((_COMPLEX,)) if "@N@std@S@complex>" in usr else frozenset())
            for instance, usr in graph.usr.items()
        }
        self._enumerations = {name: frozenset(one.values()) for name, one in declared.enumerations.items()}
        self._enumerators_of = {
            instance: tuple(self._enumerators(usr)) for instance, usr in graph.usr.items() if "@E@" in usr
        }
        self._text_of = self._enclosing()
        self._entries = [self._functions_of(place) for place in self._places]
        self._specialized, self._choices = self._specializations()
        called = {callee for callees in graph.callees.values() for callee, _ in callees}
        self._called_back = [
            place.kind is PlaceKind.CLASS
            and bool(entries)
            and not any(instance in called for function in entries for instance in self._instances_of[function])
            for place, entries in zip(self._places, self._entries, strict=True)
        ]
        self._next_text: dict[tuple[int, bool], list[int]] = {}

    # -- joining text and clang's functions ------------------------------------------------------------------------

    def _functions_of(self, place: Place) -> list[int]:
        """Ids of clang's functions that a place is."""
        if place.kind is PlaceKind.FUNCTION:
            return [function.id for function in self._same(place)]
        if place.kind is PlaceKind.CLASS:
            return [
                function.id
                for function in self._by_class.get(place.name, ())
                if function.file == place.file and place.line <= function.line <= place.end_line
            ]
        return []

    def _same(self, place: Place) -> Iterable[FunctionRow]:
        if not place.file:
            # Written by a macro: clang alone knows where. A namespace's function, no method.
            return [one for one in self._by_name.get(place.name, ()) if _NATIVE.match(one.name)]
        named = self._by_file[place.file].get(place.name, []) if place.file in self._by_file else []
        if not place.end_line:
            return named
        exact = [function for function in named if function.line == place.line]
        return exact or [function for function in named if place.line <= function.line <= place.end_line]

    def _enclosing(self) -> dict[int, int]:
        """By function, the innermost place whose body it stands in."""
        by_file: dict[str, list[int]] = defaultdict(list)
        for index, place in enumerate(self._places):
            if place.kind in (PlaceKind.FUNCTION, PlaceKind.CLASS) and place.mentions and place.end_line:
                by_file[place.file].append(index)
        found: dict[int, int] = {}
        for file, names in self._by_file.items():
            for name, functions in names.items():
                for function in functions:
                    around = [
                        index
                        for index in by_file.get(file, ())
                        if self._places[index].line <= function.line <= self._places[index].end_line
                        and self._may_hold(self._places[index], name, function)
                    ]
                    if around:
                        found[function.id] = max(around, key=lambda index: self._places[index].line)
        return found

    def _may_hold(self, place: Place, name: str, function: FunctionRow) -> bool:
        if place.kind is PlaceKind.CLASS:
            return place.name in function.name.split("::")[:-1]
        return place.name == name or place.line < function.line

    # -- walking ---------------------------------------------------------------------------------------------------

    def served(self, registrations: Sequence[int], device: Device) -> list[Reached]:
        """Functions that registrations reach on a device, each once; only those that tell something.

        Parameters
        ----------
        registrations : indices into the declarations' registrations
        """
        groups: dict[tuple[bool, tuple[str, ...]], list[int]] = defaultdict(list)
        for index in registrations:
            registration = self._declared.registrations[index]
            groups[registration.dense, registration.arguments].append(index)
        found: dict[int, Reached] = {}
        for (dense, arguments), indices in groups.items():
            for one in self._served(indices, device, self._with_complex(arguments, indices)):
                one = replace(one, dense=dense)
                former = found.get(one.function)
                if former is not None:
                    nearer = min(former, one, key=lambda reached: (not reached.dense, reached.distance))
                    one = replace(
                        nearer,
                        formats=tuple(sorted({*former.formats, *one.formats})),
                        instances=tuple(sorted({*former.instances, *one.instances})),
                    )
                found[one.function] = one
        return list(found.values())

    def _with_complex(self, arguments: Sequence[str], indices: Iterable[int]) -> frozenset[str]:
        """The arguments, and that of complex numbers unless all registrations name formats and none is complex."""
        formats = [self._declared.registrations[index].formats for index in indices]
        if all(formats) and not any(one.startswith("complex") for some in formats for one in some):
            return frozenset(arguments)
        return frozenset((*arguments, _COMPLEX))

    def _served(self, registrations: Sequence[int], device: Device, arguments: frozenset[str]) -> list[Reached]:
        arrivals = self._walk(registrations, device, arguments)
        best: dict[int, tuple[int, _Arrival]] = {}
        formats: dict[int, set[str]] = defaultdict(set)
        reached: dict[int, list[int]] = defaultdict(list)
        instances, telling = self._graph.instances, self._graph.telling
        for node, arrival in arrivals.items():
            if node > 0:
                continue
            instance = instances[-node]
            function = instance.function
            if function not in telling:
                continue
            formats[function].update(self._formats[instance.bindings])
            reached[function].append(instance.id)
            if function not in best:
                best[function] = node, arrival
        return [
            Reached(
                function,
                arrival.registration,
                arrival.distance,
                arrival.certain,
                tuple(sorted(formats[function])),
                self._path(node, arrivals),
                tuple(reached[function]),
            )
            for function, (node, arrival) in best.items()
        ]

    def _walk(self, registrations: Sequence[int], device: Device, arguments: frozenset[str]) -> dict[int, _Arrival]:
        arrivals: dict[int, _Arrival] = {}
        queue: deque[int] = deque()
        # A device's own registrations first: where several lead to one place, theirs is the evidence.
        fitting = [index for index in registrations if self._declared.registrations[index].device in (device, "any")]
        for index in sorted(fitting, key=lambda index: self._declared.registrations[index].device == "any"):
            for place in self._declared.registrations[index].places:
                if self._fits(place, device) and place + 1 not in arrivals:
                    arrivals[place + 1] = _Arrival(0, index, 0, True)
                    queue.append(place + 1)
        while queue:
            node = queue.popleft()
            arrival = arrivals[node]
            registration, distance, certain = arrival.registration, arrival.distance + 1, arrival.certain
            if node < 0:
                for callee, _line in self._graph.callees.get(-node, ()):
                    if -callee not in arrivals and self._seen_on(callee, device) and self._is_ours(callee, arguments):
                        arrivals[-callee] = _Arrival(node, registration, distance, certain)
                        queue.append(-callee)
                text = self._text_of.get(self._graph.instances[-node].function)
                in_cuda = -node in self._graph.only_cuda
                following: Sequence[int] = self._elsewhere(text, in_cuda) if text is not None else ()
            else:
                stub = self._places[node - 1].kind is PlaceKind.STUB
                instances, seen = self._entered(node - 1, device, arguments)
                for instance in instances:
                    if -instance not in arrivals and self._seen_on(instance, device):
                        # The same function, seen by clang: no step.
                        arrivals[-instance] = _Arrival(node, registration, arrival.distance, certain)
                        queue.append(-instance)
                # What clang saw goes on from the instances.
                following = () if seen else self._mentioned(node - 1)
                certain = certain and stub
            for target in following:
                if target + 1 not in arrivals and self._fits(target, device):
                    arrivals[target + 1] = _Arrival(node, registration, distance, certain and node > 0)
                    queue.append(target + 1)
        return arrivals

    def _mentioned(self, place: int) -> list[int]:
        return [
            mention.target
            for mention in self._places[place].mentions
            if self._places[mention.target].kind is not PlaceKind.OPERATOR
        ]

    def _elsewhere(self, place: int, in_cuda: bool) -> list[int]:
        """What a function that clang saw names and clang could not follow: what other units define or instantiate.

        A CUDA unit instantiates what it uses of headers; a C++ unit uses classes that CUDA units instantiate. A functor
        that nobody calls is handed to a library, which calls it.
        """
        found = self._next_text.get((place, in_cuda))
        if found is None:
            own = self._places[place].file
            found = self._next_text[place, in_cuda] = [
                target
                for target in self._mentioned(place)
                if self._called_back[target] or self._leaves(self._places[target], own, in_cuda)
            ]
        return found

    def _leaves(self, target: Place, own: str, in_cuda: bool) -> bool:
        if target.kind is PlaceKind.STUB:
            return True
        is_header = target.file.endswith(_HEADERS)
        return target.file != own and (not is_header or (target.kind is PlaceKind.CLASS and not in_cuda))

    def _entered(self, index: int, device: Device, arguments: frozenset[str]) -> tuple[list[int], bool]:
        """Instances that a place stands for, and whether clang saw what the place does.

        Instances of a class are left out when they are another device's, or another operator's by their arguments. A
        constructor alone does not show what a class does; a specialization that others alone use is none of ours.
        """
        place = self._places[index]
        if place.kind is not PlaceKind.CLASS:
            found = [instance for function in self._entries[index] for instance in self._instances_of[function]]
            return found, bool(self._entries[index])
        meant, seen, others = [], False, False
        for function in self._entries[index]:
            constructor = self._graph.functions[function].name.endswith(f"::{place.name}::{place.name}")
            for instance in self._instances_of[function]:
                if ("ThreadPoolDevice" if device == "cuda" else "GpuDevice") in self._graph.usr.get(instance, ""):
                    continue
                if self._is_meant(instance, arguments):
                    meant.append(instance)
                    seen = seen or not constructor
                else:
                    others = True
        return meant, seen or (others and not meant)

    def _is_meant(self, instance: int, arguments: frozenset[str]) -> bool:
        """False for an instance that names what the registration does not, or a sibling of an enumerator that it names.

        One name in common is not enough: ``SegmentReductionFunctor<T, Index, Zero<T>, Zero<T>, Sum>`` and the same with
        ``Lowest<T>, Zero<T>, Max`` serve different operators.
        """
        return self._arguments_of.get(instance, frozenset()) <= arguments and all(
            name in arguments or not siblings & arguments for siblings, name in self._enumerators_of.get(instance, ())
        )

    def _enumerators(self, usr: str) -> Iterator[tuple[frozenset[str], str]]:
        """Enumerators among the template arguments of a symbol, each with all of its enumeration."""
        for scope, name, value in _ENUMERATOR.findall(usr):
            enumerators = self._declared.enumerations.get(f"{scope}::{name}", {})
            if int(value) in enumerators:
                yield self._enumerations[f"{scope}::{name}"], enumerators[int(value)]

    def _specializations(self) -> tuple[dict[int, frozenset[str]], dict[str, frozenset[str]]]:
        """By function, the names that its class is specialized for; by class, those of all its specializations."""
        functions: dict[int, frozenset[str]] = {}
        classes: dict[str, frozenset[str]] = defaultdict(frozenset)
        for place, entries in zip(self._places, self._entries, strict=True):
            if names := self._all_arguments.intersection(place.arguments):
                classes[place.name] |= names
                functions.update(dict.fromkeys(entries, names))
        return functions, dict(classes)

    def _is_ours(self, instance: int, arguments: frozenset[str]) -> bool:
        """False for a specialization for another operator, where its class has one for this operator.

        Instances that differ only in integers may be one in the graph, and in a scan's older symbols enumerators are
        integers: ``ScatterOpKernelBody<T, UpdateOp::SUB>`` is told from its siblings by its text. The operator whose
        enumerator has no specialization (``ASSIGN``) has none of them.
        """
        function = self._graph.instances[instance].function
        names = self._specialized.get(function)
        if not names or not arguments or names & arguments:
            return True
        if any(names <= siblings and siblings & arguments for siblings in self._enumerations.values()):
            return False
        owner = self._graph.functions[function].name.split("::")[-2]
        return not self._choices.get(owner, frozenset()) & arguments

    def _seen_on(self, instance: int, device: Device) -> bool:
        """On the CPU only what units that are no CUDA files instantiate; for CUDA what serves both counts, too."""
        return device != "cpu" or instance not in self._graph.only_cuda

    def _fits(self, place: int, device: Device) -> bool:
        return self._places[place].device in ("any", device)

    # -- paths -----------------------------------------------------------------------------------------------------

    def _path(self, node: int, arrivals: Mapping[int, _Arrival]) -> tuple[Step, ...]:
        steps: list[Step] = []
        last = arrivals[node]
        while node:
            step = self._step(node, arrivals[node].previous)
            # A place and the instance that it is are one step.
            if not steps or steps[-1] != step:
                steps.append(step)
            node = arrivals[node].previous
        registration = self._declared.registrations[last.registration]
        steps.append(Step(f"{registration.kind} {registration.target}", registration.file, registration.line))
        return tuple(reversed(steps))

    def _step(self, node: int, previous: int) -> Step:
        if node < 0:
            function = self._graph.functions[self._graph.instances[-node].function]
            return Step(function.name, function.file, function.line)
        place = self._places[node - 1]
        entries = self._entries[node - 1]
        if entries and place.kind is PlaceKind.FUNCTION:
            function = self._graph.functions[entries[0]]
            return Step(function.name, function.file, function.line)
        if place.kind is PlaceKind.STUB and previous > 0:
            for mention in self._places[previous - 1].mentions:
                if mention.target == node - 1:
                    return Step(place.name, mention.file, mention.line)
        return Step(place.name, place.file, place.line)


def _short_name(qualified: str) -> str:
    """The last part of a name; for PyTorch's ``structured_elu_out::impl`` that is ``elu_out``."""
    scope, _, name = qualified.rpartition("::")
    if name == "impl":
        owner = scope.rpartition("::")[2]
        if owner.startswith("structured_"):
            return owner.removeprefix("structured_")
    return name


def registrations_by_operator(registrations: Sequence[DeclaredRegistration]) -> dict[str, list[int]]:
    """Indices of each operator's registrations."""
    found: dict[str, list[int]] = defaultdict(list)
    for index, registration in enumerate(registrations):
        found[registration.operator].append(index)
    return dict(found)
