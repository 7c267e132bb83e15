"""The score of what an operator may lose, and the ranking of what one framework widens and the other does not."""

from __future__ import annotations

import math

import pytest

from opscanner.errors import UsageError
from opscanner.operators.comparison import Comparer, Comparison, Seen, find_pairs, group_pairs, rank
from opscanner.operators.pairs import find_pair, load_pairs
from opscanner.operators.pipeline import Pipelines
from opscanner.operators.risk import Cause, assess, assess_composite, share
from tests.operators.serving_graphs import GraphBuilder

WIDE = [("cast", "", "float32", "float16"), ("math_call", "expm1", "float32"), ("cast", "", "float16", "float32")]
FORWARDED = [("arithmetic", "/", "float16"), ("return", "return", "float16"), ("math_call", "no_nan", "float16")]
CHAIN = [("math_call", "exp", "float16"), ("arithmetic", "-", "float16")]


def with_chain(name: str, confidence: str = "high") -> GraphBuilder:
    """TensorFlow's Elu: exp, then - in T."""
    graph = GraphBuilder("tensorflow", "2.14.1")
    functor = graph.function(f"{name}::operator()", "relu.h", 150)
    instance = graph.instance(functor, CHAIN, "T=float16")
    for index in (0, 1):
        graph.finding(instance, index, "untuned-arithmetic", confidence, (0, 1))
    graph.operator(name, functor)
    return graph


def widening(name: str) -> GraphBuilder:
    graph = GraphBuilder()
    kernel = graph.function("elu_kernel", "elu.cu", 40)
    graph.instance(kernel, WIDE)
    graph.operator(name, kernel)
    return graph


def compare(name: str, first: GraphBuilder, second: GraphBuilder, format_: str = "float16") -> list[Comparison]:
    comparer = Comparer(first.graph, second.graph)
    return [comparer.compare(group, format_) for group in group_pairs(find_pairs(load_pairs(), name), "cuda")]


def test_shares_are_in_the_order_of_what_may_be_lost() -> None:
    for format_ in ("float16", "bfloat16"):
        found = [share(cause, 2, format_) for cause in Cause]
        # A composite counts as a chain.
        assert found == sorted(found, reverse=True)
        assert found[0] == 1.0
        assert found[-1] == 0.0


def test_a_share_is_bits_lost_over_bits_there_are() -> None:
    assert share(Cause.SEVERAL_ROUNDINGS, 8, "bfloat16") == 3 / 8
    assert share(Cause.FUNCTION_CHAIN, 2, "float16") == pytest.approx((5.5 + 1) / 11)
    # 2**40 roundings are no more than everything.
    assert share(Cause.FUNCTION_CHAIN, 2**40, "float16") == 1.0


@pytest.mark.parametrize(
    ("nodes", "chain", "cause"),
    [
        (CHAIN, (0, 1), Cause.FUNCTION_CHAIN),
        ([("arithmetic", "+", "float16"), ("arithmetic", "*", "float16")], (0, 1), Cause.SEVERAL_ROUNDINGS),
        ([("load", "", "float16"), ("arithmetic", "*", "float16")], (0, 1), Cause.SINGLE_ROUNDING),
        ([("load", "", "float16"), ("math_call", "exp", "float16")], (0, 1), Cause.SINGLE_ROUNDING),
        # cwise_ops.h: no_nan_op (line 124) divides, and scalar_left (line 226) calls it: one rounding.
        (FORWARDED, (0, 1, 2), Cause.SINGLE_ROUNDING),
        # xlogy_op (cwise_ops.h:641), x * log(y): a product neither cancels nor absorbs.
        ([("math_call", "log", "float16"), ("arithmetic", "*", "float16")], (0, 1), Cause.SEVERAL_ROUNDINGS),
        # What a product rounded, exp enlarges; and log1p takes what exp rounded (softplus_op.h:52).
        ([("arithmetic", "*", "float16"), ("math_call", "exp", "float16")], (0, 1), Cause.FUNCTION_CHAIN),
        ([("math_call", "exp", "float16"), ("math_call", "log1p", "float16")], (0, 1), Cause.FUNCTION_CHAIN),
        # A norm: the root halves the error of the sum before it.
        ([("arithmetic", "+", "float16"), ("math_call", "sqrt", "float16")], (0, 1), Cause.SEVERAL_ROUNDINGS),
        ([("arithmetic", "*", "float16"), ("math_call", "floor", "float16")], (0, 1), Cause.SINGLE_ROUNDING),
    ],
)
def test_the_operations_of_a_chain_tell_the_cause(
    nodes: list[tuple[str, ...]], chain: tuple[int, ...], cause: Cause
) -> None:
    graph = GraphBuilder()
    kernel = graph.function("kernel")
    instance = graph.instance(kernel, nodes, "T=float16")
    graph.finding(instance, chain[-1], "untuned-arithmetic", "high", chain)
    graph.operator("f", kernel)
    pipelines = Pipelines(graph.graph)
    assert assess(pipelines.of(["f"], "float16"), pipelines.node).cause is cause


def test_a_doubted_sum_counts_half_and_roundings_of_different_functions_do_not_add_up() -> None:
    graph = GraphBuilder()
    for name in ("one", "other"):
        function = graph.function(name)
        instance = graph.instance(
            function, [("arithmetic", "+", "float16"), ("arithmetic", "*", "float16")], "T=float16"
        )
        graph.finding(instance, 0, "untuned-arithmetic", "high", (0, 1))
        graph.finding(instance, 1, "untuned-arithmetic", "high", (0, 1))
    graph.operator("f", 1, 2)
    pipelines = Pipelines(graph.graph)
    assert assess(pipelines.of(["f"], "float16"), pipelines.node).score == pytest.approx(math.log2(2) / 11)
    summed = graph.instance(1, [("arithmetic", "+", "float16")], "T=float16")
    graph.finding(summed, 0, "untuned-accumulation", "medium")
    graph.operator("f", 1, 2)
    pipelines = Pipelines(graph.graph)
    risk = assess(pipelines.of(["f"], "float16"), pipelines.node)
    assert (risk.score, risk.cause) == (0.5, Cause.ACCUMULATION)
    assert risk.causes == {Cause.ACCUMULATION, Cause.SEVERAL_ROUNDINGS}


def test_the_surest_evidence_comes_first_and_among_equals_the_kernel_that_is_named_first() -> None:
    # BiasGradGPU::compute (bias_op_gpu.cu.cc, 242 to 267) launches SharedAtomics; Naive where memory is too small.
    graph = GraphBuilder("tensorflow", "2.14.1")
    functions = []
    for name, line, confidence in (
        ("Doubtful", 10, "medium"),
        ("BiasGradNHWC_SharedAtomics", 155, "high"),
        ("BiasGradNHWC_Naive", 118, "high"),
    ):
        functions.append(graph.function(f"tensorflow::{name}", "bias_op_gpu.cu.cc", line))
        instance = graph.instance(functions[-1], [("atomic", "add", "float16", "float16")], "T=float16")
        graph.finding(instance, 0, "untuned-accumulation", confidence)
    graph.operator("BiasAddGrad", *functions)
    pipelines = Pipelines(graph.graph)
    found = assess(pipelines.of(["BiasAddGrad"], "float16"), pipelines.node).findings
    assert [one.line for one in found] == [155, 118, 10]


@pytest.mark.parametrize(
    ("identifier", "torch", "tensorflow"),
    [
        # nn_impl.py, swish: dy * sigmoid(beta x) * (1 + beta x * (1 - sigmoid)); beta's own gradient (Square, Sum) is
        # computed, too, and thrown away.
        ("silu_grad", ("silu_backward",), ("Mul", "Sigmoid", "Sub", "AddV2")),
        # math_grad.py, _ExpGrad: grad * conj(y), y being the forward result; derivatives.yaml: grad * result.conj().
        ("exp_grad", ("mul",), ("Mul",)),
        # _LogGrad: grad * reciprocal(conj(x)); derivatives.yaml: grad.div(self.conj()).
        ("log_grad", ("div",), ("Reciprocal", "Mul")),
        # _MulGrad of operands that were not broadcast: no sums.
        ("mul_grad", ("mul",), ("Mul",)),
        # _SoftmaxGrad: (grad - sum(grad * softmax)) * softmax: this sum has terms.
        ("softmax_grad", ("_softmax_backward_data",), ("Mul", "Sum", "Sub")),
    ],
)
def test_a_gradient_counts_what_its_backward_pass_runs_alone(
    identifier: str, torch: tuple[str, ...], tensorflow: tuple[str, ...]
) -> None:
    (group,) = group_pairs([find_pair(identifier)], "cuda")
    assert (group.torch, group.tensorflow) == (torch, tensorflow)


def test_a_composite_is_a_chain_where_a_function_meets_a_sum_or_takes_what_was_rounded() -> None:
    chain, plain = share(Cause.COMPOSITE, 3, "float16"), share(Cause.SEVERAL_ROUNDINGS, 3, "float16")
    # logit: log(x / (1 - x)); hardswish: x * relu6(x + 3) / 6 holds no function; 1 / cos(x)**2 times dy neither sums
    # nor feeds the function; tan's gradient in PyTorch, dy * (1 + y**2), is written with a power.
    assert assess_composite(("Sub", "RealDiv", "Log"), "float16").score == chain
    assert assess_composite(("AddV2", "Mul", "RealDiv"), "float16").score == plain
    assert assess_composite(("Cos", "Square", "Mul"), "float16").score == plain
    assert assess_composite(("pow", "add", "mul"), "float16").score == plain
    assert assess_composite(("Exp", "Mul", "Sub"), "float16").score == chain


def test_what_pytorch_widens_and_tensorflow_does_not_is_ranked_with_both_places() -> None:
    (found,) = rank(compare("elu", widening("elu"), with_chain("Elu")))
    assert found.sides is not None
    wide, narrow = found.sides
    assert (wide.framework, narrow.framework) == ("pytorch", "tensorflow")
    assert [step.line for step in wide.pipeline.widened] == [41]
    assert [(row.file, row.line) for row in narrow.risk.findings] == [("relu.h", 150), ("relu.h", 151)]
    assert found.score == pytest.approx((5.5 + 1) / 11)


def test_two_sides_that_do_alike_are_compared_and_not_ranked() -> None:
    first = with_chain("elu")
    first.graph.scan = first.graph.scan._replace(framework="pytorch")
    (found,) = compare("elu", first, with_chain("Elu"))
    assert found.comparable
    assert found.score == 0
    assert rank([found]) == []


def test_a_side_that_was_not_scanned_has_no_kernel_or_no_such_format_says_so() -> None:
    registered = GraphBuilder()
    registered.operator("elu")
    (found,) = compare("elu", registered, with_chain("Elu"))
    assert (found.first.seen, found.second.seen) == (Seen.NOT_SCANNED, Seen.PIPELINE)
    assert not found.comparable
    (found,) = compare("elu", GraphBuilder(), with_chain("Elu"))
    assert found.first.seen is Seen.NOT_DECLARED
    registered.graph.registered.clear()
    (found,) = compare("elu", registered, with_chain("Elu"))
    assert found.first.seen is Seen.NO_KERNEL
    (found,) = compare("elu", widening("elu"), with_chain("Elu"), "bfloat16")
    assert (found.first.seen, found.second.seen) == (Seen.NO_FORMAT, Seen.NO_FORMAT)
    moving = GraphBuilder()
    kernel = moving.function("copy")
    moving.instance(kernel, [("load", "", "float16"), ("store", "", "float16")])
    moving.operator("elu", kernel)
    (found,) = compare("elu", moving, with_chain("Elu"))
    assert found.first.seen is Seen.NOTHING_COMPUTED


def test_a_composite_rounds_between_its_operators_whatever_these_do_inside() -> None:
    (tanh, *_) = compare("gelu.tanh", widening("gelu"), GraphBuilder("tensorflow"))
    assert tanh.sides is not None
    assert tanh.sides[1].framework == "tensorflow"
    assert tanh.sides[1].risk.cause is Cause.COMPOSITE
    assert "Tanh" in tanh.sides[1].operators


def test_what_does_the_work_on_cuda_is_no_further_rounding() -> None:
    # instance_norm reshapes and calls native_batch_norm, or cudnn_batch_norm in its place: one operator rounds.
    (found,) = compare("instance_norm", widening("native_batch_norm"), GraphBuilder("tensorflow"))
    assert {"native_batch_norm", "cudnn_batch_norm"} <= set(found.first.operators)
    assert not found.first.composed


def test_losses_that_both_frameworks_compose_alike_are_not_ranked() -> None:
    # at::kl_div (Loss.cpp) is xlogy(target, target) - target * input, as the pair's call of TensorFlow is.
    (found,) = compare("kl_div", widening("xlogy"), widening("Xlogy"))
    assert found.first.risk.cause is found.second.risk.cause is Cause.COMPOSITE
    assert found.score == 0


def test_a_doubtful_attribution_stands_behind_a_certain_one_of_the_same_score() -> None:
    certain, doubtful = compare("elu", widening("elu"), with_chain("Elu"))[0], widening("elu")
    doubtful.operator("elu", 1, certain=False)
    (other,) = compare("elu", doubtful, with_chain("Elu"))
    assert rank([other, certain]) == [certain, other]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("elu", {"elu"}),
        ("EluGrad", {"elu_grad", "elu_grad.from_input"}),
        ("aten::softplus_backward", {"softplus_grad"}),
        ("selu_grad", {"selu_grad"}),
        ("cumsum.reverse", {"cumsum.reverse"}),
    ],
)
def test_an_operator_is_found_by_any_of_its_names(name: str, expected: set[str]) -> None:
    assert {pair.id for pair in find_pairs(load_pairs(), name)} == expected


def test_a_name_that_no_pair_has_is_a_usage_error_with_near_ones() -> None:
    with pytest.raises(UsageError) as error:
        find_pairs(load_pairs(), "softmx")
    assert "softmax" in error.value.hint


def test_variants_that_run_the_same_operators_are_one_group() -> None:
    groups = group_pairs(find_pairs(load_pairs(), "sum"), "cuda")
    assert [{pair.id for pair in group.pairs} for group in groups] == [{"sum", "sum.all", "sum.columns"}]
