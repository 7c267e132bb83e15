"""Walks over the graph: what counts as near, where a value leaves a function, where a walk ends."""

from __future__ import annotations

from opscanner.graph.flow_graph import FlowGraph
from opscanner.patterns.operations import accumulates, changes_sign, only_converts
from opscanner.patterns.slices import backward, forward
from tests.patterns.conftest import Classify


def node_at(graph: FlowGraph, kind: str, line: int, operation: str = "") -> int:
    """The one node of a kind at a line."""
    found = [
        node
        for node in range(len(graph))
        if graph.kind[node] == kind and graph.line[node] == line and operation in ("", graph.operation[node])
    ]
    assert len(found) == 1, [(graph.kind[node], graph.operation[node], graph.line[node]) for node in range(len(graph))]
    return found[0]


def lines_reached(graph: FlowGraph, start: int, kind: str) -> set[int]:
    return {graph.line[step.node] for step in forward(graph, start).steps[1:] if graph.kind[step.node] == kind}


def test_what_enters_a_function_from_a_call_leaves_it_to_that_caller(classified: Classify) -> None:
    graph = classified(
        "__device__ float same(float x) { return x; }\n"
        "__global__ void a(const c10::Half* x, float* y) {\n"
        "  y[0] = same(x[0]) * 2.0f;\n"
        "}\n"
        "__global__ void b(const float* x, float* y) {\n"
        "  y[0] = same(x[0]) + 1.0f;\n"
        "}\n"
    ).graph
    assert lines_reached(graph, node_at(graph, "cast", 3), "arithmetic") == {3}


def test_a_walk_that_begins_in_a_helper_leaves_it_to_every_caller_and_says_so(classified: Classify) -> None:
    found = classified(
        "__device__ float twice(c10::Half x) {\n"
        "  return float(x) * 2.0f;\n"
        "}\n"
        "__global__ void a(const c10::Half* x, float* y) { y[0] = expf(twice(x[0])); }\n"
        "__global__ void b(const c10::Half* x, float* y) { y[0] = logf(twice(x[0])); }\n"
    )
    assert lines_reached(found.graph, node_at(found.graph, "cast", 2), "math_call") == {4, 5}
    assert found.confidence("widened-math", 2) == {"medium"}
    assert found.confidence("widened-arithmetic", 2) == {"high"}


def test_a_walk_ends_where_the_value_is_narrowed(classified: Classify) -> None:
    graph = classified(
        "__global__ void kernel(const c10::Half* x, c10::Half* y) {\n"
        "  float wide = x[0];\n"
        "  c10::Half narrow = wide;\n"
        "  float again = narrow;\n"
        "  y[0] = again * 3.0f;\n"
        "}\n"
    ).graph
    assert lines_reached(graph, node_at(graph, "cast", 2), "arithmetic") == set()
    assert {graph.line[step.node] for step in backward(graph, node_at(graph, "cast", 4)).steps} >= {2, 3, 4}


def test_steps_behind_a_sum_are_marked(classified: Classify) -> None:
    graph = classified(
        "__global__ void kernel(const c10::Half* x, float* y, int n) {\n"
        "  float sum = 0;\n"
        "  for (int i = 0; i < n; ++i)\n"
        "    sum += float(x[i]);\n"
        "  y[0] = expf(sum);\n"
        "}\n"
    ).graph
    steps = forward(graph, node_at(graph, "cast", 4)).steps
    marked = {
        graph.kind[step.node]: step.summed for step in steps if graph.kind[step.node] in ("reduction", "math_call")
    }
    assert marked == {"reduction": False, "math_call": True}


def test_what_is_a_sum_and_what_is_none(classified: Classify) -> None:
    graph = classified(
        "__global__ void kernel(const float* x, float* y, float* z, int n) {\n"
        "  float sum = 0, horner = 0;\n"
        "  for (int i = 0; i < n; ++i) {\n"
        "    sum = sum + x[i];\n"
        "    horner = horner * 0.5f + x[i];\n"
        "    z[i] += x[i];\n"
        "    z[i] *= 3.0f;\n"
        "    z[0] += x[i];\n"
        "    z[i % 4] += x[i];\n"
        "  }\n"
        "  y[0] = -sum - horner;\n"
        "}\n"
    ).graph
    how = {
        (graph.line[node], graph.operation[node]): accumulates(graph, node)
        for node in range(len(graph))
        if graph.kind[node] in ("arithmetic", "reduction")
    }
    assert how[4, "+"] == "loop"
    assert how[5, "+"] == ""
    assert how[6, "+"] == ""
    assert how[8, "+"] == "loop"
    assert how[9, "+"] == "element"
    assert how[7, "*"] == ""
    signs = [
        changes_sign(graph, node)
        for node in range(len(graph))
        if graph.line[node] == 11 and graph.operation[node] == "-"
    ]
    assert sorted(signs) == [False, True]


def test_a_helper_that_only_converts_is_told_from_one_that_computes(classified: Classify) -> None:
    graph = classified(
        "__device__ float to_float(const c10::Half* x) { return *x; }\n"
        "__device__ float scaled(const c10::Half* x) {\n"
        "  return float(*x) * 2.0f;\n"
        "}\n"
    ).graph
    assert only_converts(graph, node_at(graph, "cast", 1))
    assert not only_converts(graph, node_at(graph, "cast", 3))
