"""Two versions of a framework: what gained or lost an upcast, however it was renamed or moved."""

from __future__ import annotations

import pytest

from opscanner.errors import UsageError
from opscanner.operators.version_diff import Change, VersionDiff, diff_graphs
from tests.operators.serving_graphs import GraphBuilder, Written

NARROW: list[Written] = [("parameter", "x", "float16"), ("math_call", "exp", "float16"), ("arithmetic", "+", "float16")]
WIDE: list[Written] = [
    ("parameter", "x", "float16"),
    ("cast", "", "float32", "float16"),
    ("math_call", "exp", "float32"),
    ("arithmetic", "+", "float32"),
    ("cast", "", "float16", "float32"),
]


def version(number: str, *functions: tuple[str, str, int, list[Written]]) -> GraphBuilder:
    graph = GraphBuilder("pytorch", number)
    made = []
    for name, file, line, nodes in functions:
        made.append(graph.function(name, file, line))
        graph.instance(made[-1], nodes)
    graph.operator("f", *made)
    return graph


def changes(diff: VersionDiff) -> list[tuple[str, Change, str, str, str]]:
    return [
        (one.after.operation, one.change, one.before.held_in, one.after.held_in, f"{one.after.file}:{one.after.line}")
        for one in diff.changes
    ]


def test_operations_that_are_computed_wider_now_are_gained_and_the_way_back_is_lost() -> None:
    old, new = version("1", ("f_kernel", "f.cu", 10, NARROW)), version("2", ("f_kernel", "f.cu", 10, WIDE))
    assert changes(diff_graphs(old.graph, new.graph)) == [
        ("+", Change.GAINED, "float16", "float32", "f.cu:13"),
        ("exp", Change.GAINED, "float16", "float32", "f.cu:12"),
    ]
    assert {(one[0], one[1]) for one in changes(diff_graphs(new.graph, old.graph))} == {
        ("+", Change.LOST),
        ("exp", Change.LOST),
    }


def test_a_renamed_file_a_moved_function_and_other_lines_are_no_change() -> None:
    old = version("1", ("at::native::(anonymous namespace)::f_kernel::(lambda at /a/f.cu:3:1)", "f.cu", 10, WIDE))
    new = version("2", ("at::native::f_kernel::(lambda at /b/g.cu:300:7)", "g.cuh", 400, WIDE))
    diff = diff_graphs(old.graph, new.graph)
    assert (diff.changes, diff.compared, dict(diff.left_out)) == ((), 1, {})


def test_a_renamed_function_is_matched_by_its_operations() -> None:
    old, new = version("1", ("f_cuda", "f.cu", 10, NARROW)), version("2", ("f_impl", "f.cu", 10, WIDE))
    assert {one[:2] for one in changes(diff_graphs(old.graph, new.graph))} == {
        ("+", Change.GAINED),
        ("exp", Change.GAINED),
    }


def test_a_change_in_one_of_two_functions_is_not_hidden_by_the_other() -> None:
    still = ("still", "s.cu", 50, NARROW)
    old = version("1", ("f_kernel", "f.cu", 10, NARROW), still)
    new = version("2", ("f_kernel", "f.cu", 10, WIDE), still)
    assert {(one[0], one[1], one[4]) for one in changes(diff_graphs(old.graph, new.graph))} == {
        ("+", Change.GAINED, "f.cu:13"),
        ("exp", Change.GAINED, "f.cu:12"),
    }


def test_an_operation_that_is_new_is_no_upcast_gained() -> None:
    old = version("1", ("f_kernel", "f.cu", 10, WIDE))
    new = version("2", ("f_kernel", "f.cu", 10, [*WIDE, ("math_call", "log1p", "float32")]))
    assert diff_graphs(old.graph, new.graph).changes == ()


def test_what_only_one_version_has_is_counted_with_the_reason() -> None:
    old, new = version("1", ("f_kernel", "f.cu", 10, NARROW)), version("2", ("f_kernel", "f.cu", 10, WIDE))
    new.operator("g", 1)
    new.instance(1, [("arithmetic", "*", "bfloat16")])
    new.operator("f", 1)
    assert dict(diff_graphs(old.graph, new.graph).left_out) == {
        "1 computes nothing for bfloat16": 1,
        "nothing that was scanned of 1 serves it": 1,
    }


def test_an_operator_that_neither_version_has_is_a_usage_error() -> None:
    old = version("1", ("f_kernel", "f.cu", 10, NARROW))
    with pytest.raises(UsageError, match="neither version has an operator h"):
        diff_graphs(old.graph, old.graph, "h")


def test_what_keeps_an_operator_from_being_compared_is_said_where_it_was_asked_for() -> None:
    old, new = GraphBuilder("pytorch", "1"), GraphBuilder("pytorch", "2")
    for graph in (old, new):
        graph.operator("composite")
    diff = diff_graphs(old.graph, new.graph, "composite")
    assert dict(diff.left_out) == {"nothing that was scanned of 1 or 2 serves it on cuda": 1}
    assert dict(diff_graphs(old.graph, new.graph).left_out) == {}
    moves: list[Written] = [("load", "x", "float16")]
    old, new = (version(number, ("f_kernel", "f.cu", 10, moves)) for number in ("1", "2"))
    diff = diff_graphs(old.graph, new.graph, "f")
    assert dict(diff.left_out) == {
        f"neither computes anything for {name}, so far as was seen": 1 for name in ("float16", "bfloat16")
    }


def test_an_operator_that_nobody_has_is_answered_with_those_alike() -> None:
    graph = version("1", ("f_kernel", "f.cu", 10, WIDE)).graph
    graph.declared.add("softmax")
    with pytest.raises(UsageError) as caught:
        diff_graphs(graph, graph, "sofmax")
    assert caught.value.hint == "did you mean softmax?"
