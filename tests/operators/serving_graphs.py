"""Serving graphs by hand: functions, instances and nodes as a scan would have them."""

from __future__ import annotations

from collections.abc import Sequence

from opscanner.graph.call_graph import ScanRow
from opscanner.graph.serving import (
    ServedBy,
    ServingFinding,
    ServingFunction,
    ServingGraph,
    ServingInstance,
    ServingNode,
)

#: kind, operation, format, and for casts the format before, for sums the accumulator.
Written = tuple[str, ...]


class GraphBuilder:
    """Adds functions and instances to a serving graph; ids are given out in the order of the calls."""

    def __init__(self, framework: str = "pytorch", version: str = "2.6.0", device: str = "cuda") -> None:
        self.graph = ServingGraph(ScanRow(1, framework, version, "/src"), device)

    def operator(self, name: str, *functions: int, certain: bool = True) -> None:
        """Declares an operator that the functions, with the instances they have by now, serve, the nearest first."""
        self.graph.declared.add(name)
        self.graph.registered[name] = set()
        if functions:
            self.graph.serving[name] = [
                ServedBy(one, rank, certain, frozenset(row.id for row in self.graph.instances[one]))
                for rank, one in enumerate(functions)
            ]

    def function(self, name: str, file: str = "kernel.cu", line: int = 10) -> int:
        """A function without instances yet."""
        number = len(self.graph.functions) + 1
        self.graph.functions[number] = ServingFunction(number, name, file, line)
        self.graph.instances[number] = []
        return number

    def instance(
        self, function: int, nodes: Sequence[Written] = (), bindings: str = "", calls: Sequence[int] = ()
    ) -> int:
        """A body of a function; its nodes stand on the function's line and those below it."""
        number = 100 + sum(map(len, self.graph.instances.values()))
        self.graph.instances[function].append(ServingInstance(number, function, bindings))
        place = self.graph.functions[function]
        first = 1000 * number
        self.graph.nodes[number] = [
            _node(first + index, number, written, place.file, place.line + index) for index, written in enumerate(nodes)
        ]
        if calls:
            self.graph.callees[number] = list(calls)
        return number

    def finding(
        self, instance: int, index: int, pattern: str, confidence: str = "high", chain: Sequence[int] = ()
    ) -> int:
        """A finding at a node of an instance; ``chain`` are positions of nodes in it."""
        node = self.graph.nodes[instance][index]
        function = next(
            number for number, rows in self.graph.instances.items() if any(row.id == instance for row in rows)
        )
        number = 1 + sum(map(len, self.graph.findings.values()))
        steps = tuple(self.graph.nodes[instance][position].id for position in chain) or (node.id,)
        found = ServingFinding(
            number, pattern, node.file, node.line, self.graph.functions[function].name,
            node.from_format or node.format, confidence, node.cast, node.arithmetic, steps, "",
        )  # fmt: skip
        self.graph.findings.setdefault((node.cast, node.arithmetic), []).append(found)
        return number


def _node(number: int, instance: int, written: Written, file: str, line: int) -> ServingNode:
    kind, operation, format_, *more = written
    cast = kind == "cast"
    computes = kind in ("arithmetic", "math_call", "reduction", "atomic")
    return ServingNode(
        number, instance, kind, operation, format_, more[0] if cast else "", more[0] if more and not cast else "",
        False, file, line, number if cast else None, number if computes else None,
    )  # fmt: skip
