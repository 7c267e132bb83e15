"""What a pair's mode leaves out of the pipelines of operators that serve several modes."""

from __future__ import annotations

import contextlib
import sqlite3
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from opscanner.operators.comparison import Comparer, Comparison, PairGroup, group_pairs
from opscanner.operators.pairs import find_pair, load_pairs
from opscanner.operators.pipeline import Pipelines
from opscanner.operators.risk import Cause, assess
from opscanner.summary import open_summary
from tests.operators.serving_graphs import GraphBuilder


def scatter_reduce() -> GraphBuilder:
    """ScatterGatherKernel.cu, lines 23 to 66: one operator, a functor for each ``reduce``; sums by gpuAtomicAdd."""
    graph = GraphBuilder()
    functions = []
    for name, node in (
        ("at::native::ReduceAdd::operator()", ("atomic", "add", "float16", "float16")),
        ("at::native::ReduceMultiply::operator()", ("atomic", "mul", "float16", "float16")),
        ("at::native::ReduceMaximum::operator()", ("atomic", "max", "float16", "float16")),
    ):
        functions.append(graph.function(name, "ScatterGatherKernel.cu"))
        instance = graph.instance(functions[-1], [node], "scalar_t=float16")
        if node[1] != "max":
            graph.finding(instance, 0, "untuned-accumulation")
    graph.operator("scatter_reduce", *functions)
    return graph


def widening(name: str) -> GraphBuilder:
    graph = GraphBuilder("tensorflow", "2.14.1")
    kernel = graph.function("kernel", "segment.cu")
    graph.instance(kernel, [("load", "", "float16"), ("arithmetic", "+", "float32")], "T=float16")
    graph.operator(name, kernel)
    return graph


def compare(identifier: str, first: GraphBuilder, second: GraphBuilder) -> Comparison:
    (group,) = group_pairs([find_pair(identifier)], "cuda")
    return Comparer(first.graph, second.graph).compare(group, "float16")


@pytest.mark.parametrize(
    ("identifier", "operator", "left"),
    [
        ("scatter_reduce.sum", "UnsortedSegmentSum", {"add"}),
        ("scatter_reduce.prod", "UnsortedSegmentProd", {"mul"}),
        ("scatter_reduce.amax", "UnsortedSegmentMax", {"max"}),
    ],
)
def test_a_pair_counts_the_functors_of_its_own_mode_alone(identifier: str, operator: str, left: set[str]) -> None:
    found = compare(identifier, scatter_reduce(), widening(operator))
    assert {step.operation for step in found.first.pipeline.steps} == left
    # A maximum rounds nothing, whatever its neighbours do.
    assert found.first.risk.cause is (None if left == {"max"} else Cause.ACCUMULATION)
    assert (found.sides is None) is (left == {"max"})


def test_pairs_of_one_operator_and_different_modes_are_compared_apart() -> None:
    groups = group_pairs([find_pair("bias_add_grad"), find_pair("bias_add_grad.nchw")], "cuda")
    assert [[pair.id for pair in group.pairs] for group in groups] == [["bias_add_grad"], ["bias_add_grad.nchw"]]
    assert groups[0].torch == groups[1].torch


def test_an_operation_can_be_left_out_of_a_function_and_with_it_what_comes_from_it() -> None:
    # SegmentWeightsKernel: T(1) / static_cast<T>(n) for the mean, T(1) / sqrt(static_cast<T>(n)) for sqrtn.
    graph = GraphBuilder("tensorflow", "2.14.1")
    kernel = graph.function("tensorflow::SegmentWeightsKernel", "segment_reduction_ops_gpu.cu.h", 693)
    nodes = [("arithmetic", "/", "float16"), ("math_call", "sqrt", "float16"), ("arithmetic", "/", "float16")]
    instance = graph.instance(kernel, nodes, "T=float16")
    mean = graph.finding(instance, 0, "untuned-arithmetic", "low")
    graph.finding(instance, 2, "untuned-arithmetic", "high", (1, 2))
    graph.operator("SparseSegmentMeanGrad", kernel)
    pipelines = Pipelines(graph.graph)
    (pattern,) = (one for one in find_pair("embedding_bag_grad.mean").other_modes if "#" in one)
    pipeline = pipelines.of(["SparseSegmentMeanGrad"], "float16", [pattern])
    assert [step.operation for step in pipeline.steps] == ["/", "/"]
    assert [one.id for one in pipeline.findings] == [mean]
    assert assess(pipeline, pipelines.node).cause is Cause.SINGLE_ROUNDING
    assert assess(pipelines.of(["SparseSegmentMeanGrad"], "float16"), pipelines.node).cause is Cause.SEVERAL_ROUNDINGS


def test_a_pattern_is_a_glob_of_names_not_of_parts_of_names() -> None:
    graph = scatter_reduce()
    pipelines = Pipelines(graph.graph)
    whole = pipelines.of(["scatter_reduce"], "float16")
    assert pipelines.of(["scatter_reduce"], "float16", ["ReduceAdd"]) == whole
    assert len(pipelines.of(["scatter_reduce"], "float16", ["*::ReduceAdd::*"]).steps) == len(whole.steps) - 1


def test_every_mode_that_is_left_out_is_a_function_of_a_scanned_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern that means nothing would leave nothing out, in silence."""
    monkeypatch.setenv("OPSCANNER_CACHE", str(tmp_path))
    with contextlib.closing(sqlite3.connect(open_summary())) as connection:
        names = [name for (name,) in connection.execute("SELECT DISTINCT name FROM function")]
    patterns = {pattern.partition("#")[0] for pair in load_pairs() for pattern in pair.other_modes}
    assert patterns
    assert {one for one in patterns if not any(fnmatchcase(name, one) for name in names)} == set()


def test_modes_are_those_of_cuda() -> None:
    # avgpooling_op.cc:197: with cuDNN 7.3 and later the GPU's AvgPool is cuDNN's; the CPU's is Eigen's reducer.
    pair = find_pair("avg_pool2d")
    assert group_pairs([pair], "cuda")[0].other_modes == ("Eigen::internal::AvgPoolMeanReducer::*",)
    assert group_pairs([pair], "cpu")[0].other_modes == ()


def test_a_group_without_modes_leaves_nothing_out() -> None:
    assert PairGroup((), (), ()).other_modes == ()
