"""From findings to tests that run: which operators, on which inputs, and a file that needs nothing of opscanner."""

from __future__ import annotations

import importlib.util
import io
from types import ModuleType

import numpy as np
import pytest

from opscanner.operators.inputs import RECIPES, recipes_for
from opscanner.operators.pairs import find_pair, load_pairs
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


def test_counts_are_long_enough_to_stall() -> None:
    (ones, *_) = recipes_for(Cause.ACCUMULATION, find_pair("cumsum"), "float16")
    (x,) = [eval(item.expression, {"np": np}) for item in ones.inputs]
    assert x.shape == (4, 4096)
    assert set(np.ravel(x)) == {1.0}


def test_many_updates_go_to_the_slots_that_the_pair_names() -> None:
    (ones, *_) = recipes_for(Cause.ACCUMULATION, find_pair("index_add"), "bfloat16")
    made = {item.name: eval(item.expression, {"np": np}) for item in ones.inputs}
    assert made["x"].shape == (3, 4)
    assert made["u"].shape == (4096, 4)
    # Slots 2, 0, 2, 1, 2: three of five updates go to slot 2, more than the 256 at which bfloat16 stalls.
    assert np.bincount(made["i"])[2] > 2000


def test_a_size_that_the_calls_name_is_kept_and_said() -> None:
    (ones, *_) = recipes_for(Cause.ACCUMULATION, find_pair("layer_norm"), "float16")
    (x,) = [eval(item.expression, {"np": np}) for item in ones.inputs]
    assert x.shape == (6, 40)
    assert "fix the size 40" in ones.note


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


def test_the_generated_file_holds_the_suspect_and_its_counterpart_on_the_same_inputs(generated: ModuleType) -> None:
    by_id = {case["id"]: case for case in generated.CASES}
    suspect = by_id["tensorflow-Elu-float16-near_zero"]
    other = by_id["pytorch-counterpart-of-tensorflow-Elu-float16-near_zero"]
    assert suspect["inputs"] == other["inputs"]
    made = generated.inputs_of(suspect)["x"]
    assert -(2.0**-12) in made
