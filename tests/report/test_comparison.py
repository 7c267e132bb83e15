"""One operator as two columns: what moves values is counted, what decides is marked."""

from __future__ import annotations

import io

from opscanner.operators.comparison import Comparer, group_pairs
from opscanner.operators.pairs import find_pair
from opscanner.report.comparison import render, step_rows
from tests.operators.serving_graphs import GraphBuilder


def test_loads_and_stores_share_a_line_and_what_decides_is_marked() -> None:
    wide, narrow = GraphBuilder(), GraphBuilder("tensorflow", "2.14.1")
    kernel = wide.function("at::native::sum_kernel", "Sum.cu", 40)
    wide.instance(
        kernel,
        [("load", "", "float16"), ("cast", "", "float32", "float16"), ("reduction", "+", "float32", "float32")],
        "T=float16",
    )
    wide.operator("sum", kernel)
    moving = narrow.function("tensorflow::Copy", "bias.cu.cc", 10)
    narrow.instance(moving, [("load", "", "float16"), ("load", "", "float16"), ("store", "", "float16")], "T=float16")
    summing = narrow.function("tensorflow::BiasGrad", "bias.cu.cc", 150)
    nodes = [("load", "", "float16"), ("arithmetic", "*", "float16"), ("atomic", "add", "float16", "float16")]
    instance = narrow.instance(summing, nodes, "T=float16")
    narrow.finding(instance, 2, "untuned-accumulation")
    narrow.operator("BiasAddGrad", moving, summing)
    comparer = Comparer(wide.graph, narrow.graph)
    (group,) = group_pairs([find_pair("bias_add_grad")], "cuda")
    found = comparer.compare(group, "float16")
    stream = io.StringIO()
    render([found], stream)
    lines = stream.getvalue().splitlines()
    columns = [(line[:58].rstrip(), line[62:]) for line in lines[3:-2]]
    assert columns == [
        ("sum_kernel  Sum.cu", "BiasGrad  bias.cu.cc"),
        ("    41  float16 -> float32", "   151  * in float16"),
        (">   42  + in float32 (accumulates)", ">  152  add in float16 (accumulates)"),
        ("1 load of float16 in 1 function", "3 loads, 1 store of float16 in 2 functions"),
    ]
    assert lines[-2:] == [
        "=> widened in pytorch, not in tensorflow: score 1.00",
        "   accumulation at bias.cu.cc:152, findings 1",
    ]
    # The tables hold each of them.
    assert sum(row[5] in ("load", "store") for row in step_rows([found])) == 5
