"""Which instances of a function work on which storage format, and what an operator computes for it."""

from __future__ import annotations

import pytest

from opscanner.operators.pipeline import Pipelines
from tests.operators.serving_graphs import GraphBuilder


#: The body of ``aop = static_cast<opmath_t>(a); return exp(aop)``.
def lambda_of(storage: str) -> list[tuple[str, ...]]:
    return [
        ("parameter", "a", storage),
        ("cast", "static_cast", "float32", storage),
        ("math_call", "exp", "float32"),
        ("cast", "converting_constructor", storage, "float32"),
    ]


def words(graph: GraphBuilder, operator: str, storage: str) -> list[tuple[str, str, str]]:
    return [(step.stage, step.operation, step.format) for step in Pipelines(graph.graph).of([operator], storage).steps]


def test_a_lambda_without_bindings_is_told_by_its_parameter() -> None:
    graph = GraphBuilder()
    kernel = graph.function("f::lambda")
    for storage in ("float16", "bfloat16"):
        graph.instance(kernel, lambda_of(storage))
    graph.instance(kernel, [("parameter", "a", "float32"), ("math_call", "exp", "float32")])
    graph.operator("f", kernel)
    assert words(graph, "f", "bfloat16") == [
        ("cast", "static_cast", "float32"),
        ("function", "exp", "float32"),
        ("cast", "converting_constructor", "bfloat16"),
    ]
    assert words(graph, "f", "float32") == [("function", "exp", "float32")]
    assert words(graph, "f", "float64") == []


def test_the_narrowest_binding_is_the_storage_format_and_the_accumulator_is_none() -> None:
    graph = GraphBuilder()
    kernel = graph.function("reduce")
    graph.instance(kernel, [("reduction", "+", "float32", "float32")], "scalar_t=float16, acc_t=float32")
    graph.instance(kernel, [("reduction", "+", "float64", "float64")], "scalar_t=float64, acc_t=float64")
    graph.operator("sum", kernel)
    assert words(graph, "sum", "float16") == [("accumulation", "+", "float32")]
    assert words(graph, "sum", "float32") == []
    assert words(graph, "sum", "float64") == [("accumulation", "+", "float64")]


def test_a_float32_helper_belongs_to_the_kernels_that_call_it() -> None:
    graph = GraphBuilder()
    kernel, helper = graph.function("kernel"), graph.function("helper")
    wide = graph.instance(helper, [("parameter", "x", "float32"), ("math_call", "log", "float32")])
    graph.instance(kernel, [("load", "", "float16")], calls=[wide])
    graph.operator("f", kernel, helper)
    assert words(graph, "f", "float16") == [("load", "", "float16"), ("function", "log", "float32")]
    # Nobody with float32 data calls it.
    assert words(graph, "f", "float32") == []


def test_a_function_that_converts_between_16_bit_formats_is_in_no_pipeline() -> None:
    graph = GraphBuilder()
    convert, kernel = graph.function("fetch_and_cast"), graph.function("kernel")
    graph.instance(convert, [("cast", "static_cast", "bfloat16", "float16")])
    graph.instance(convert, [("cast", "static_cast", "float32", "float16")])
    graph.instance(kernel, [("arithmetic", "*", "float16")], "scalar_t=float16")
    graph.operator("f", kernel, convert)
    assert words(graph, "f", "float16") == [("arithmetic", "*", "float16")]
    assert words(graph, "f", "bfloat16") == []


def test_complex_data_is_not_float32_data() -> None:
    graph = GraphBuilder()
    kernel = graph.function("kernel")
    graph.instance(kernel, [("load", "", "complex64"), ("load", "", "float32"), ("arithmetic", "*", "complex64")])
    graph.operator("f", kernel)
    assert words(graph, "f", "float32") == []
    assert words(graph, "f", "complex64") == [("load", "", "complex64"), ("arithmetic", "*", "complex64")]


def test_instances_of_a_shared_template_that_serve_others_are_left_out() -> None:
    graph = GraphBuilder()
    functor = graph.function("UnaryFunctor::operator()")
    graph.instance(functor, [("math_call", "exp", "float16")], "T=float16")
    graph.operator("Exp", functor)
    graph.instance(functor, [("math_call", "tanh", "float16")], "T=float16")
    assert words(graph, "Exp", "float16") == [("function", "exp", "float16")]


def test_the_accumulator_decides_whether_a_sum_is_widened() -> None:
    graph = GraphBuilder()
    kernel = graph.function("kernel")
    graph.instance(kernel, [("load", "", "float16"), ("atomic", "add", "float16", "float32")])
    graph.operator("f", kernel)
    pipeline = Pipelines(graph.graph).of(["f"], "float16")
    assert [step.operation for step in pipeline.widened] == ["add"]
    assert pipeline.narrow == ()


@pytest.mark.parametrize(("storage", "expected"), [("float16", 1), ("bfloat16", 0)])
def test_findings_of_untuned_operations_belong_to_their_format(storage: str, expected: int) -> None:
    graph = GraphBuilder()
    kernel = graph.function("kernel")
    half = graph.instance(kernel, [("arithmetic", "*", "float16")], "T=float16")
    graph.instance(kernel, [("arithmetic", "*", "bfloat16")], "T=bfloat16")
    graph.finding(half, 0, "untuned-arithmetic")
    graph.operator("f", kernel)
    assert len(Pipelines(graph.graph).of(["f"], storage).untuned) == expected
