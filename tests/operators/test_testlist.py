"""From findings to tests that run: which operators, on which inputs, and a file that needs nothing of opscanner."""

from __future__ import annotations

import builtins
import importlib.util
import io
import symtable
from types import ModuleType

import numpy as np
import pytest

from opscanner.operators.inputs import RECIPES, FittedRecipe, recipes_for, why_not_shown
from opscanner.operators.long_inputs import LONG_INPUTS
from opscanner.operators.pairs import find_pair, load_pairs, parse_inputs
from opscanner.operators.risk import Cause
from opscanner.operators.testlist import Suspect, pair_of, suspects_of
from opscanner.report.testlist import as_json, render_pytest
from tests.operators.serving_graphs import GraphBuilder

FORMATS = ("float16", "bfloat16")


@pytest.fixture(scope="module")
def suspects() -> list[Suspect]:
    """TensorFlow's Elu, float16, which chains exp and -, and Relu, where one operation rounds once."""
    graph = GraphBuilder("tensorflow", "2.14.1")
    elu, relu = graph.function("Elu::operator()", "relu.h", 150), graph.function("Relu::operator()", "relu.h", 30)
    chained = graph.instance(elu, [("math_call", "exp", "float16"), ("arithmetic", "-", "float16")], "T=float16")
    for index in (0, 1):
        graph.finding(chained, index, "untuned-arithmetic", "high", (0, 1))
    single = graph.instance(relu, [("arithmetic", "*", "float16")], "T=float16")
    graph.finding(single, 0, "untuned-arithmetic", "low")
    graph.operator("Elu", elu)
    graph.operator("Relu", relu)
    return suspects_of(graph.graph, load_pairs())


@pytest.fixture(scope="module")
def generated(suspects: list[Suspect], tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    file = tmp_path_factory.mktemp("generated") / "test_generated.py"
    with file.open("w") as stream:
        render_pytest(suspects, stream)
    spec = importlib.util.spec_from_file_location("generated_tests", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def all_values(name: str) -> np.ndarray:
    """All finite 16-bit values as float64, in the order of their bit patterns from 0, then from -0."""
    bits: np.ndarray = np.arange(1 << 16, dtype=np.uint16)
    values = bits.view(np.float16) if name == "float16" else (bits.astype(np.uint32) << 16).view(np.float32)
    kept: np.ndarray = values[np.isfinite(values)].astype(np.float64)
    return kept


def test_an_operator_whose_operations_meet_is_a_suspect_and_one_that_rounds_once_is_none(
    suspects: list[Suspect],
) -> None:
    (elu,) = suspects
    assert (elu.operator, elu.format, elu.cause, elu.pair) == ("Elu", "float16", Cause.FUNCTION_CHAIN, "elu")
    assert (elu.call, elu.counterpart) == ("raw.Elu(features=x)", "F.elu(x, alpha=1.0)")
    assert [(row.file, row.line) for row in elu.findings] == [("relu.h", 150), ("relu.h", 151)]
    assert [one.recipe for one in elu.recipes] == ["near_zero", "towards_saturation", "sweep"]
    assert as_json(elu)["reasons"][0]["pattern"] == "untuned-arithmetic"


def test_a_pattern_chooses_the_findings() -> None:
    graph = GraphBuilder("tensorflow")
    scan = graph.function("Sum::operator()", "scan.h", 104)
    summed = graph.instance(scan, [("reduction", "+", "bfloat16", "bfloat16")], "T=bfloat16")
    graph.finding(summed, 0, "untuned-accumulation")
    graph.operator("Cumsum", scan)
    (found,) = suspects_of(graph.graph, load_pairs(), "untuned-accumulation")
    assert [one.recipe for one in found.recipes] == ["ones", "one_and_crumbs"]
    assert suspects_of(graph.graph, load_pairs(), "untuned-arithmetic") == []


def made_of(recipe: FittedRecipe) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    for item in recipe.inputs:
        made[item.name] = np.asarray(eval(item.expression, {"np": np, **made}))
    return made


#: Of operators that only add up, each result for ones is the number of its terms.
ONLY_ADD = (
    "sum", "sum.columns", "sum.all", "cumsum", "cumsum.reverse", "index_add", "mm", "conv2d", "conv2d.dilated",
    "conv2d.same", "conv2d.strided", "conv3d", "conv2d_grad.input", "conv3d_grad.input", "conv2d_grad.weight",
    "conv2d_grad.depthwise_weight", "bias_add_grad", "bias_add_grad.nchw", "scatter_reduce.sum", "segment_reduce.sum",
    "bincount", "bincount.dense", "embedding_grad", "embedding_bag.sum", "embedding_bag_grad.sum",
)  # fmt: skip


@pytest.mark.parametrize("name", ONLY_ADD)
def test_sums_of_ones_take_the_terms_that_their_recipe_needs_as_pytorch_adds_them_up(name: str) -> None:
    pytest.importorskip("torch")
    from opscanner.frameworks.pytorch.runner import evaluate

    pair = find_pair(name)
    ones = next(one for one in recipes_for(Cause.ACCUMULATION, pair, "float16") if one.recipe == "ones")
    (result, *_) = evaluate(pair.torch_call, made_of(ones), "float64")
    assert np.max(np.abs(result)) >= 4096
    if name in LONG_INPUTS:
        assert np.max(np.abs(result)) == LONG_INPUTS[name].terms


def test_longer_inputs_are_those_that_the_calls_name() -> None:
    for name, row in LONG_INPUTS.items():
        assert [item.name for item in parse_inputs(row.inputs)] == [item.name for item in find_pair(name).inputs]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        # Windows of 2 by 2, 2 apart, hand each gradient to other places: nothing is added up.
        ("avg_pool2d_grad", "take 1 value: the calls fix the size 8"),
        ("index_reduce.amax", "selects values"),
        ("layer_norm", "take 40 values: the calls fix the size 40"),
        ("local_response_norm", "longer arrays would not make them longer"),
    ],
)
def test_a_pair_whose_sums_stay_short_has_no_recipe_and_says_why(name: str, why: str) -> None:
    pair = find_pair(name)
    assert "ones" not in [one.recipe for one in recipes_for(Cause.ACCUMULATION, pair, "float16")]
    assert why in why_not_shown(Cause.ACCUMULATION, pair)
    assert why_not_shown(Cause.FUNCTION_CHAIN, pair) == ""


def test_a_mean_of_four_can_overflow_but_not_stall() -> None:
    recipes = recipes_for(Cause.ACCUMULATION, find_pair("avg_pool2d"), "float16")
    assert [one.recipe for one in recipes] == ["past_the_largest"]
    assert recipes_for(Cause.ACCUMULATION, find_pair("avg_pool2d"), "bfloat16") == ()


@pytest.mark.parametrize(
    "name", ["prod", "cumprod", "scatter_reduce.prod", "segment_reduce.prod", "index_reduce_.resource_mul"]
)
def test_products_get_values_whose_product_loses_and_not_sums(name: str) -> None:
    near_one, over = recipes_for(Cause.ACCUMULATION, find_pair(name), "float16")
    assert (near_one.recipe, over.recipe) == ("near_one", "over_and_back")
    factors = [array for array in made_of(near_one).values() if array.dtype.kind == "f"]
    # The next value after 1 has a last bit that is 2**-10 in float16 (IEEE 754-2019, 3.3: p = 11).
    assert all(set(np.ravel(array)) == {1 + 2.0**-10} for array in factors)


def test_a_product_that_rounds_each_time_loses_a_hundred_ulp_on_values_near_one() -> None:
    (near_one, over) = recipes_for(Cause.ACCUMULATION, find_pair("prod"), "float16")
    factors = made_of(near_one)["x"][0, :512]
    rounded = np.float16(1)
    for factor in factors.astype(np.float16):
        rounded = np.float16(rounded * factor)
    # (1 + 2**-10)**512 is nearly e**0.5; ULPs there are 2**-10.
    assert abs(float(np.prod(factors)) - float(rounded)) > 100 * 2.0**-10
    first = made_of(over)["x"][0, :4]
    with np.errstate(over="ignore"):
        in_order = np.multiply.accumulate(first.astype(np.float16), dtype=np.float16)
        assert (np.prod(first), in_order[1], in_order[3]) == (1.0, np.inf, np.inf)


def test_counts_are_long_enough_to_stall() -> None:
    (ones, *_) = recipes_for(Cause.ACCUMULATION, find_pair("cumsum"), "float16")
    (x,) = [eval(item.expression, {"np": np}) for item in ones.inputs]
    assert x.shape == (4, 4096)
    assert set(np.ravel(x)) == {1.0}


def test_many_updates_go_to_the_slots_that_the_pair_names() -> None:
    (ones, *_) = recipes_for(Cause.ACCUMULATION, find_pair("index_add"), "bfloat16")
    made = {item.name: eval(item.expression, {"np": np}) for item in ones.inputs}
    assert made["x"].shape == (3, 4)
    # Slots 2, 0, 2, 1, 2: three of five updates go to slot 2, so that 4096 do where there are 6827.
    assert made["u"].shape == (6827, 4)
    assert np.bincount(made["i"])[2] >= 4096


def test_a_size_that_the_calls_name_is_kept_and_said() -> None:
    sweep = recipes_for(Cause.SEVERAL_ROUNDINGS, find_pair("layer_norm"), "float16")[-1]
    (x,) = [eval(item.expression, {"np": np}) for item in sweep.inputs]
    assert x.shape == (6, 40)
    assert "fix the size 40" in sweep.note


def test_values_stay_in_the_domain_of_the_pair() -> None:
    for one in recipes_for(Cause.FUNCTION_CHAIN, find_pair("log"), "float16"):
        for item in one.inputs:
            x = eval(item.expression, {"np": np})
            assert 0.01 <= x.min() <= x.max() <= 100


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["elu", "selu_grad", "cumsum", "index_add", "segment_reduce.sum", "mm", "adam.fused"])
def test_recipes_can_be_made_for_pairs_of_all_kinds(name: str) -> None:
    for pair in [find_pair(name)]:
        for cause in {cause for recipe in RECIPES for cause in recipe.causes}:
            for one in recipes_for(cause, pair, "float16"):
                made: dict[str, np.ndarray] = {}
                for item in one.inputs:
                    made[item.name] = np.asarray(eval(item.expression, {"np": np, **made}))


def test_a_pair_of_its_own_is_called_before_a_composite() -> None:
    found = pair_of("tensorflow", "Tanh", load_pairs())
    assert found is not None
    assert found.id == "tanh"
    assert pair_of("tensorflow", "NoSuchOp", load_pairs()) is None


@pytest.mark.parametrize("name", FORMATS)
def test_the_generated_file_counts_representable_values_as_the_bit_patterns_do(
    generated: ModuleType, name: str
) -> None:
    values = all_values(name)
    positive = values[: len(values) // 2]
    assert np.array_equal(generated.ordinal(positive, name), np.arange(len(positive)))
    assert np.array_equal(generated.ordinal(-positive, name), -np.arange(len(positive)))
    assert generated.ordinal(np.array([np.inf]), name)[0] == len(positive)


def test_the_generated_file_rounds_once_as_numpy_does(generated: ModuleType) -> None:
    values = all_values("float16")
    between = np.sort(values)
    # Neighbours, the middles between them (ties), and a little beside these.
    middles = (between[1:] + between[:-1]) / 2
    tried = np.concatenate([between, middles, middles * (1 + 2.0**-40), middles * (1 - 2.0**-40), [1e5, -1e5, 65519.9]])
    with np.errstate(over="ignore"):
        assert np.array_equal(generated.rounded(tried, "float16"), tried.astype(np.float16).astype(np.float64))


def test_the_generated_file_rounds_to_bfloat16_at_the_bits_of_float32(generated: ModuleType) -> None:
    # 1 + 2**-8 lies between 1 and 1 + 2**-7: a tie, to even; 2**-24 more decides it.
    tried = np.array([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-24, 1 + 3 * 2.0**-8, 3.4e38, 256.0 + 1.0])
    assert generated.rounded(tried, "bfloat16").tolist() == [1.0, 1 + 2.0**-7, 1 + 2.0**-6, np.inf, 256.0]


def test_nan_fails_whatever_the_bound(generated: ModuleType) -> None:
    one, nan = np.array([1.0]), np.array([np.nan])
    assert generated.distance_ulp(nan, one, "float16") == np.inf
    assert generated.distance_ulp(one, nan, "float16") == np.inf
    assert generated.distance_ulp(nan, nan, "float16") == 0
    # A value that is flushed to zero is not compared; one that is lost is.
    assert generated.distance_ulp(np.array([0.0]), np.array([2.0**-15]), "float16") == 0
    # 2**-12 is 2 binades of 1024 values above the smallest normal number, which 1024 subnormal ones and 0 precede.
    assert generated.distance_ulp(np.array([0.0]), np.array([2.0**-12]), "float16") == 3072


def test_the_generated_file_names_nothing_of_opscanner(suspects: list[Suspect]) -> None:
    text = io.StringIO()
    render_pytest(suspects, text)
    lines = [line for line in text.getvalue().splitlines() if "import" in line and "opscanner" in line]
    assert lines == []
    compile(text.getvalue(), "generated", "exec")


def test_the_generated_file_defines_every_name_that_it_uses(suspects: list[Suspect]) -> None:
    text = io.StringIO()
    render_pytest(suspects, text)
    module = symtable.symtable(text.getvalue(), "generated", "exec")
    known = {*module.get_identifiers(), *dir(builtins)}
    waiting, missing = [module], set()
    while waiting:
        scope = waiting.pop()
        missing |= {one.get_name() for one in scope.get_symbols() if one.is_global() and one.is_referenced()} - known
        waiting += scope.get_children()
    assert missing == set()


def test_the_generated_file_holds_the_suspect_and_its_counterpart_on_the_same_inputs(generated: ModuleType) -> None:
    by_id = {case["id"]: case for case in generated.CASES}
    suspect = by_id["tensorflow-Elu-float16-near_zero"]
    other = by_id["pytorch-counterpart-of-tensorflow-Elu-float16-near_zero"]
    assert suspect["inputs"] == other["inputs"]
    made = generated.inputs_of(suspect)["x"]
    assert -(2.0**-12) in made
