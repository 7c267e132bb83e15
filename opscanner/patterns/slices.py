"""Where a value goes and where it comes from: bounded walks over the graph, across calls.

A walk is breadth first by operations: steps that only hand a value on (parameters, variables, loads, stores, calls,
returns) cost none. What enters a function from a call leaves it to the same caller; a walk that begins inside a
function leaves it to every caller, and remembers when these were several (``unwound``), because then the use may belong
to another caller than the one a reader has in mind. Forward, a walk ends at comparisons, at casts that narrow and at
casts to integers; it goes on through reductions and remembers that (``summed``). Backward it ends at casts from
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from opscanner.graph.flow_graph import FlowGraph
from opscanner.precision.formats import Direction, cast_direction

#: Kinds that make a new value; the others hand one on.
OPERATIONS = frozenset(("arithmetic", "math_call", "reduction", "atomic"))
_INTO_CALLEE = frozenset(("argument", "launch"))
#: Calls to go back to; what is nested deeper is taken for unwound.
_NESTED = 12
#: Callers that a walk which leaves its first function is followed to.
_CALLERS = 12


class Step(NamedTuple):
    """A node of a slice. ``parent`` is the step it was reached from, -1 for the first one."""

    node: int
    parent: int
    operations: int
    summed: bool
    unwound: bool


@dataclass(frozen=True, slots=True)
class Slice:
    """Steps in the order they were reached; ``whole`` is False when a bound stopped the walk."""

    steps: tuple[Step, ...]
    whole: bool

    def first(self, graph: FlowGraph, wanted: Callable[[Step], bool]) -> int:
        """Index of the nearest step that is wanted, -1 when there is none. The start itself is not asked."""
        for index, step in enumerate(self.steps[1:], start=1):
            if wanted(step):
                return index
        return -1

    def path(self, index: int) -> tuple[int, ...]:
        """Nodes from the start to a step."""
        nodes = []
        while index >= 0:
            nodes.append(self.steps[index].node)
            index = self.steps[index].parent
        return tuple(reversed(nodes))

    def kinds(self, graph: FlowGraph) -> Iterator[str]:
        """Kinds of all nodes but the start."""
        return (graph.kind[step.node] for step in self.steps[1:])


def forward(graph: FlowGraph, start: int, *, operations: int = 8, steps: int = 400) -> Slice:
    """Where the value of a node goes while it keeps its format or a wider one.

    Parameters
    ----------
    operations : int
        Operations in a row after which the walk ends.
    steps : int
        Steps in all after which it ends.
    """
    return _walk(graph, start, operations, steps, backward=False)


def backward(graph: FlowGraph, start: int, *, operations: int = 4, steps: int = 200) -> Slice:
    """Where the value of a node comes from, through casts of floats, too."""
    return _walk(graph, start, operations, steps, backward=True)


def _walk(graph: FlowGraph, start: int, limit: int, bound: int, *, backward: bool) -> Slice:
    flows = graph.predecessors if backward else graph.successors
    into, out = (("return",), _INTO_CALLEE) if backward else (_INTO_CALLEE, ("return",))
    kind, instance = graph.kind, graph.instance
    steps = [Step(start, -1, 0, summed=False, unwound=False)]
    seen: set[tuple[int, tuple[int, ...]]] = {(start, ())}
    near: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    far: list[tuple[int, tuple[int, ...]]] = []
    whole = True
    while near or far:
        if not near:
            near, far = far, []
        reached: list[tuple[int, tuple[int, ...]]] = []
        for index, callers in near:
            step = steps[index]
            node = step.node
            if index and _ends(graph, node, backward=backward):
                continue
            onward = flows[node]
            if onward and (step.operations >= limit or len(steps) >= bound):
                whole = False
                continue
            leaving = 0
            callers_of = sum(flow in out for _, flow in onward) if not callers else 0
            for other, flow in onward:
                back, unwound = callers, step.unwound
                if flow == "control":
                    continue
                if flow == "capture":
                    back = ()
                elif flow in into:
                    back = (*callers, instance[node].id) if len(callers) < _NESTED else ()
                elif flow in out:
                    if callers:
                        if callers[-1] != instance[other].id:
                            continue
                        back = callers[:-1]
                    else:
                        unwound = unwound or callers_of > 1
                        leaving += 1
                        if leaving > _CALLERS:
                            whole = False
                            continue
                place = (other, back)
                if place in seen:
                    continue
                seen.add(place)
                operates = kind[other] in OPERATIONS
                summed = step.summed or kind[node] in ("reduction", "atomic")
                steps.append(Step(other, index, step.operations + operates, summed, unwound))
                (far if operates else reached).append((len(steps) - 1, back))
        near = reached
    return Slice(tuple(steps), whole)


def _ends(graph: FlowGraph, node: int, *, backward: bool) -> bool:
    if graph.kind[node] == "comparison":
        return not backward
    cast = graph.cast[node]
    if cast is None:
        return False
    if backward:
        return cast.direction == Direction.INT_TO_FLOAT.value
    return cast.direction != Direction.WIDEN.value


def widens(from_format: str, to_format: str) -> bool:
    """True when every value of the first format is one of the second, which has more."""
    return cast_direction(from_format, to_format) is Direction.WIDEN
