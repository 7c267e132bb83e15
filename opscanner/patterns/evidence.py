"""What names say of a value: its own, those that it is combined with, and its function's.

Names are evidence, not proof: rules let them raise confidence, and say so where they stand on names alone.
"""

from __future__ import annotations

from opscanner.graph.flow_graph import FlowGraph
from opscanner.patterns.slices import Slice, backward
from opscanner.patterns.words import words_of

#: Kinds whose operation is a name that an author chose (calls: the name of the callee).
NAMED = frozenset(("parameter", "capture", "variable", "load", "call", "math_call"))
_COMBINING = frozenset(("arithmetic", "reduction", "atomic", "math_call", "comparison", "selection"))
#: Words of vocabulary that name kinds of operators in function names.
Words = frozenset[str]


def words_behind(graph: FlowGraph, node: int) -> Words:
    """Words in the names that a node's value comes from, through at most one operation."""
    found = graph.memo.get(node)
    if found is None:
        steps = backward(graph, node, operations=1, steps=40).steps
        names = [graph.operation[step.node] for step in steps if graph.kind[step.node] in NAMED]
        found = graph.memo[node] = frozenset[str]().union(*map(words_of, names))
    return found


def words_on(graph: FlowGraph, slice_: Slice, operations: int) -> Words:
    """Words in the names on a slice as far as so many operations away, the start's own among them."""
    names = [
        graph.operation[step.node]
        for step in slice_.steps
        if step.operations <= operations and graph.kind[step.node] in NAMED
    ]
    return frozenset[str]().union(*map(words_of, names))


def words_of_partners(graph: FlowGraph, slice_: Slice, operations: int) -> Words:
    """Words in the names of the values that a slice's value is combined with: the other operands."""
    on_slice = {step.node for step in slice_.steps}
    found: set[str] = set()
    for step in slice_.steps[1:]:
        if step.operations <= operations and graph.kind[step.node] in _COMBINING:
            for source, flow in graph.predecessors[step.node]:
                if source not in on_slice and flow in ("def_use", "loop_carried"):
                    found |= words_behind(graph, source)
    return frozenset(found)
