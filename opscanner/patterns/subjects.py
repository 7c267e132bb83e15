"""What a rule judges: a cast or an operation of one function instance, with the ways its value takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from opscanner.graph.flow_graph import CastFacts, FlowGraph, InstanceFacts
from opscanner.patterns import operations
from opscanner.patterns.evidence import words_of_partners, words_on
from opscanner.patterns.slices import OPERATIONS, Slice, Step, backward, forward
from opscanner.patterns.words import words_of, words_of_function

_ORIGINS = frozenset(("load", "parameter", "capture", "literal"))


class Subject:
    """A node that rules judge. Slices are made when a rule asks for them, and kept for the next rule."""

    def __init__(self, graph: FlowGraph, node: int) -> None:
        self.graph = graph
        self.node = node

    @property
    def instance(self) -> InstanceFacts:
        """The function instance it stands in."""
        return self.graph.instance[self.node]

    @property
    def device(self) -> bool:
        """A device function reaches it, outside of branches that constants rule out."""
        runs = self.instance.device or self.node in self.graph.on_device
        return runs and self.graph.reached[self.node]

    @property
    def function(self) -> str:
        """Qualified name of its function."""
        return self.instance.function

    @cached_property
    def forward(self) -> Slice:
        """Where its value goes."""
        return forward(self.graph, self.node)

    @cached_property
    def backward(self) -> Slice:
        """Where its value comes from."""
        return backward(self.graph, self.node)

    @cached_property
    def function_words(self) -> frozenset[str]:
        """Words in the names of the function, its class and its file."""
        file = self.instance.file.rsplit("/", 1)[-1].split(".")[0]
        return words_of_function(self.function) | words_of(file)

    @cached_property
    def groups(self) -> frozenset[str]:
        """Groups of the operators that the function is known to serve; empty when nobody attributed."""
        return self.graph.groups.get(self.instance.function_id, frozenset())

    @cached_property
    def own_words(self) -> frozenset[str]:
        """Words in the names that the value has before and behind, one operation away at most."""
        graph = self.graph
        return words_on(graph, self.backward, 1) | words_on(graph, self.forward, 1)

    @cached_property
    def words(self) -> frozenset[str]:
        """Its own words and those of the values that it is combined with, two operations away at most."""
        return self.own_words | self.partner_words

    @cached_property
    def partner_words(self) -> frozenset[str]:
        """Words in the names of the values that it is combined with, two operations away at most."""
        return words_of_partners(self.graph, self.forward, 2)


class CastSubject(Subject):
    """A cast, and what is done with the value behind it."""

    @cached_property
    def cast(self) -> CastFacts:
        """Formats and form."""
        facts = self.graph.cast[self.node]
        assert facts is not None
        return facts

    @property
    def from_format(self) -> str:
        """Format before."""
        return self.cast.from_format

    @property
    def to_format(self) -> str:
        """Format after."""
        return self.cast.to_format

    @cached_property
    def onward(self) -> Slice:
        """Where its value goes until something is done with it."""
        return forward(self.graph, self.node, operations=1, steps=120)

    def chain(self, index: int = 0) -> tuple[int, ...]:
        """Nodes from where the value is loaded, or enters, through the cast to a step of the forward slice."""
        graph = self.graph
        origin = self.backward.first(graph, lambda step: graph.kind[step.node] in _ORIGINS)
        before = tuple(reversed(self.backward.path(origin)[1:])) if origin >= 0 else ()
        return (*before, *self.forward.path(index))

    @property
    def widens(self) -> bool:
        """From a floating-point format to a wider one."""
        return self.cast.direction == "widen"

    @property
    def from_integer(self) -> bool:
        """From an integer to a floating-point format."""
        return self.cast.direction == "int_to_float"

    @property
    def narrows(self) -> bool:
        """From a floating-point format to one that does not hold all its values."""
        return self.cast.direction == "narrow"

    def _first(self, wanted: Callable[[FlowGraph, int], object], *, operations: int = 6, summed: bool = False) -> int:
        graph = self.graph

        def right(step: Step) -> bool:
            return step.operations <= operations and (summed or not step.summed) and bool(wanted(graph, step.node))

        return self.forward.first(graph, right)

    @cached_property
    def accumulation(self) -> int:
        """Index, in the forward slice, of the nearest sum that the value enters; -1 when there is none."""
        return self._first(operations.accumulates)

    @cached_property
    def inexact_function(self) -> int:
        """Index of the nearest exp, log, sqrt ...; -1 when there is none before a sum."""
        return self._first(operations.is_inexact_function)

    @cached_property
    def arithmetic(self) -> int:
        """Index of the nearest + - * / that rounds; -1 when there is none before a sum."""
        return self._first(operations.is_rounding_arithmetic)

    @cached_property
    def effect(self) -> int:
        """Index of the nearest operation that rounds, whatever it is; -1 when there is none."""
        found = [index for index in (self.accumulation, self.inexact_function, self.arithmetic) if index >= 0]
        return min(found) if found else -1

    @property
    def end(self) -> int:
        """Index of the nearest operation that rounds, or else of the next step, or of the cast itself."""
        return self.effect if self.effect >= 0 else min(1, len(self.forward.steps) - 1)

    @cached_property
    def compares(self) -> bool:
        """The value is compared or chosen, as far as the slice goes."""
        return any(kind in ("comparison", "selection") for kind in self.forward.kinds(self.graph))

    @property
    def unwound(self) -> bool:
        """The nearest operation may belong to one of several callers."""
        return self.effect >= 0 and self.forward.steps[self.effect].unwound

    def what(self, index: int) -> str:
        """An operation of the forward slice in words: ``exp in float32, line 12``."""
        node = self.forward.steps[index].node
        return f"{self.graph.operation[node]} in {self.graph.format[node]}, line {self.graph.line[node]}"

    @cached_property
    def computed_before(self) -> int:
        """Index, in the backward slice, of the nearest operation in the format before the cast, no cast between."""
        graph = self.graph

        def computed(step: Step) -> bool:
            return graph.kind[step.node] in OPERATIONS and graph.format[step.node] == self.from_format

        origin = self.backward.first(graph, computed)
        if origin < 0 or any(graph.cast[node] for node in self.backward.path(origin)[1:-1]):
            return -1
        return origin

    @property
    def computes(self) -> bool:
        """Something that rounds is done with the value, as far as the slice goes."""
        return self.effect >= 0


class OperationSubject(Subject):
    """Something that is computed: arithmetic, an elementary function, a reduction or an atomic."""

    @property
    def kind(self) -> str:
        """arithmetic, math_call, reduction or atomic."""
        return self.graph.kind[self.node]

    @property
    def operation(self) -> str:
        """``+``, ``exp`` ..."""
        return self.graph.operation[self.node]

    @property
    def format(self) -> str:
        """Format it is computed in."""
        return self.graph.format[self.node]

    @property
    def accumulator(self) -> str:
        """For reductions and atomics, the format the sum is held in."""
        facts = self.graph.computed[self.node]
        return facts.accumulator if facts is not None else ""

    def chain(self) -> tuple[int, ...]:
        """The operand that is loaded, or enters, nearest by, and the operation."""
        graph = self.graph
        origin = self.backward.first(graph, lambda step: graph.kind[step.node] in _ORIGINS)
        return tuple(reversed(self.backward.path(origin))) if origin >= 0 else (self.node,)

    @cached_property
    def rounded_neighbour(self) -> tuple[int, ...]:
        """Nodes from here to the nearest operation that rounds in the same format, after or before it; or nothing."""
        graph = self.graph

        def rounds(step: Step) -> bool:
            node = step.node
            return (
                step.operations == 1
                and node != self.node
                and graph.format[node] == self.format
                and (
                    operations.is_rounding_arithmetic(graph, node)
                    or operations.is_inexact_function(graph, node)
                    or bool(operations.accumulates(graph, node))
                )
            )

        for slice_, turned in ((self.forward, False), (self.backward, True)):
            index = slice_.first(graph, rounds)
            if index >= 0 and not any(graph.cast[node] for node in slice_.path(index)):
                return tuple(reversed(slice_.path(index))) if turned else slice_.path(index)
        return ()


def widened_again(cast: CastSubject) -> tuple[tuple[int, ...], bool]:
    """Path from a narrowing cast to one that widens its value, with no operation and no store on it; (), when none.

    One of the two may stand in a helper that only casts where both stand in the same function.
    """
    graph = cast.graph
    helper = operations.only_converts(graph, cast.node)

    def wanted(step: Step) -> bool:
        facts = graph.cast[step.node]
        if facts is None or facts.direction != "widen":
            return False
        if graph.instance[step.node].id == cast.instance.id and not step.unwound:
            return True
        return not (helper or operations.only_converts(graph, step.node))

    return _handed_on(cast, wanted)


def has_nothing_to_lose(cast: CastSubject) -> bool:
    """True when all that a narrowing cast takes was widened from its target format, or an integer, and kept."""
    graph, steps = cast.graph, cast.backward.steps
    met = False
    ended: set[int] = set()
    for index, step in enumerate(steps[1:], start=1):
        if step.parent in ended:
            ended.add(index)
            continue
        facts = graph.cast[step.node]
        # A library's function takes its argument as it is beside the casts it does inside.
        narrow = graph.format[step.node] == cast.to_format
        if narrow or (facts is not None and facts.direction == "int_to_float"):
            met = True
            ended.add(index)
        elif graph.kind[step.node] == "load" or not _keeps_digits(graph, step.node):
            return False
    return met


def _keeps_digits(graph: FlowGraph, node: int) -> bool:
    """True for what hands a value on, chooses one, or rounds it to an integer as floor does."""
    return graph.kind[node] not in OPERATIONS or operations.elementary(graph, node) in operations.EXACT_FUNCTIONS


def used_narrow(cast: CastSubject) -> tuple[tuple[int, ...], bool]:
    """Path from a narrowing cast to arithmetic in the narrow format, with no store on it; (), when there is none."""
    graph = cast.graph

    def wanted(step: Step) -> bool:
        node = step.node
        return graph.format[node] == cast.to_format and bool(
            operations.is_rounding_arithmetic(graph, node)
            or operations.is_inexact_function(graph, node)
            or operations.accumulates(graph, node) in ("loop", "atomic", "expression")
        )

    return _handed_on(cast, wanted)


def _handed_on(cast: CastSubject, wanted: Callable[[Step], bool]) -> tuple[tuple[int, ...], bool]:
    index = cast.onward.first(cast.graph, wanted)
    if index < 0:
        return (), False
    path = cast.onward.path(index)
    kinds = {cast.graph.kind[node] for node in path[1:-1]}
    if "store" in kinds or not kinds.isdisjoint(OPERATIONS) or any(cast.graph.cast[node] for node in path[1:-1]):
        return (), False
    return path, cast.onward.steps[index].unwound
