"""Inputs of operators: representable, inside the domain, the same for a seed, and what each strategy promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscanner.dynamic.inputs import LAYOUTS, STRATEGIES, Batch, generate
from opscanner.dynamic.inputs.shapes import Growth, find_growth, grown_expression
from opscanner.dynamic.inputs.values import boundary_values, every_value, exponent_grid, stratified
from opscanner.errors import OpscannerError, UsageError
from opscanner.operators.catalog import Operator, find_operators, load_catalog
from opscanner.operators.pairs import parse_inputs
from opscanner.precision.rounding import round_to_format

FORMATS = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2")
#: One operator of each structure: flat with one, two and three inputs, gradient, sum, product, image, index, none.
SAMPLE = (
    *("elu", "pow", "addcmul", "selu_grad", "sum.columns", "logsumexp", "mm_grad", "batch_norm_training", "index_add"),
    *("scatter_reduce.sum", "cross_entropy", "linalg_cholesky", "exp.complex", "div_no_nan", "arange", "conv2d"),
    *("where", "softmax_grad", "embedding_grad", "bitwise_and"),
)


def operator(
    inputs: str, kind: str = "unary", elementwise: bool = True, domain: str = "", call: str = "f(x)", **more: str
) -> Operator:
    return Operator(
        id="made", direction=more.get("direction", "forward"), kind=kind, module="", inputs=parse_inputs(inputs),
        calls={"pytorch": call}, reference="f(x)", elementwise=elementwise, domain=domain,
    )  # fmt: skip


def catalog(identifier: str) -> Operator:
    return next(one for one in load_catalog() if one.id == identifier)


def batches(of: Operator, strategy: str, format_: str = "float16", size: str = "small") -> list[Batch]:
    return list(generate(of, format_, [strategy], size=size))


def same(first: list[Batch], second: list[Batch]) -> bool:
    return [one.digest() for one in first] == [one.digest() for one in second]


@pytest.mark.parametrize("identifier", SAMPLE)
def test_values_are_of_the_format_and_inputs_complete_and_in_order(identifier: str) -> None:
    of = catalog(identifier)
    for format_ in ("float16", "bfloat16"):
        found = list(generate(of, format_, size="small"))
        assert found
        for batch in found:
            assert tuple(batch.inputs) == tuple(item.name for item in of.inputs)
            assert batch.layout in LAYOUTS
            for array in batch.inputs.values():
                parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
                for part in parts:
                    if part.dtype.kind == "f":
                        assert part.dtype == np.float64
                        np.testing.assert_array_equal(round_to_format(part, format_), part)


@pytest.mark.parametrize("identifier", SAMPLE)
def test_the_same_seed_gives_the_same_batches_in_any_order(identifier: str) -> None:
    of = catalog(identifier)
    alone = [batches(of, strategy.id) for strategy in STRATEGIES]
    together = list(generate(of, "float16", size="small"))
    assert same([batch for part in alone for batch in part], together)
    assert len({(one.strategy, one.number) for one in together}) == len(together)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), format_=st.sampled_from(FORMATS))
def test_random_values_follow_the_seed_and_nothing_else(seed: int, format_: str) -> None:
    of = operator("x: float (4) in [-2, 2]")

    def made(one: int) -> list[Batch]:
        return list(generate(of, format_, ["stratified", "random"], one, "small"))

    first = made(seed)
    np.random.default_rng(0).random(3)
    assert same(first, made(seed))
    assert not same(first, made(seed + 1))


def test_every_16_bit_value_is_fed_to_an_operator_of_one_input() -> None:
    (batch,) = batches(operator("x: float (4, 25) in [-1, 1]"), "exhaustive")
    values = batch.inputs["x"].ravel()
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(float)
    assert set(values[~np.isnan(values)]) == set(bits[~np.isnan(bits)])
    assert np.isnan(values).sum() == 1
    assert np.signbit(values[values == 0]).tolist() == [True, False]
    assert batch.inputs["x"].shape == (1, 63_491)


def test_a_gradient_gets_every_value_with_three_upstream_gradients() -> None:
    of = operator("x: float (4) in [-5, 5]; dy: float (4) in [-2, 2]", direction="backward")
    found = batches(of, "exhaustive", "bfloat16")
    assert [set(one.inputs["dy"]) for one in found[:2]] == [{1.0}, {-1.0}]
    assert len(set(found[2].inputs["dy"])) > 100
    assert all(np.abs(one.inputs["dy"]).max() <= 2 for one in found)


def test_all_pairs_of_float8_values_are_fed_to_an_operator_of_two_inputs() -> None:
    of = operator("x: float (4) in [-1, 1]; y: float (4) in [-1, 1]")
    (batch,) = batches(of, "exhaustive", "float8_e4m3fn")
    pairs = set(zip(map(repr, batch.inputs["x"]), map(repr, batch.inputs["y"]), strict=True))
    assert len(pairs) == 255**2
    assert not batches(of, "exhaustive", "float16")


def test_float32_is_not_listed() -> None:
    assert not batches(operator("x: float (4) in [-1, 1]"), "exhaustive", "float32")


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("size", ["default", "large"])
def test_pairs_of_exponents_stay_below_a_million(format_: str, size: str) -> None:
    of = operator("x: float (4) in [-1, 1]; y: float (4) in [-1, 1]")
    (batch,) = batches(of, "exponent_pairs", format_, size)
    assert 9_000 < batch.inputs["x"].size < 1_000_000


def test_pairs_of_exponents_hold_each_exponent_of_float16_with_each() -> None:
    of = operator("x: float (4) in [-1, 1]; y: float (4) in [-1, 1]")
    (batch,) = batches(of, "exponent_pairs", "float16", "default")
    pairs = set(zip(batch.inputs["x"], batch.inputs["y"], strict=True))
    assert {(2.0**a, -(2.0**b)) for a in range(-14, 16) for b in range(-14, 16)} <= pairs
    assert {(65504.0, 2.0**-24), (1 + 2.0**-10, 2 - 2.0**-10), (np.inf, -np.inf)} <= pairs


def test_three_inputs_get_triples_and_fifteen_random_ones() -> None:
    three = operator("; ".join(f"{name}: float (4) in [-1, 1]" for name in "xyz"))
    many = operator("; ".join(f"{name}: float (4) in [-1, 1]" for name in "abcdefghijklmno"))
    for of in (three, many):
        (batch,) = batches(of, "exponent_pairs", "bfloat16")
        assert batch.inputs[of.inputs[0].name].size > 100


@pytest.mark.parametrize("strategy", [one.id for one in STRATEGIES])
def test_an_elementwise_domain_holds_in_every_batch(strategy: str) -> None:
    of = operator("x: float (4) in [0.1, 0.9]; y: float (4) in [1, 2]", domain="(x > 0) & (x < 1) & (y != 0)")
    for batch in batches(of, strategy):
        x, y = batch.inputs["x"], batch.inputs["y"]
        assert np.all((x > 0) & (x < 1) & (y != 0))


@pytest.mark.parametrize("strategy", [one.id for one in STRATEGIES])
def test_a_domain_holds_for_inputs_of_several_shapes(strategy: str) -> None:
    of = operator(
        "x: float (4, 6) in [-1, 1]; v: float (4) in [0.5, 1.5]", "reduction", False, "(v > 0) & (np.abs(x) <= 100)"
    )
    for batch in batches(of, strategy):
        assert np.all(batch.inputs["v"] > 0)
        assert np.all(np.abs(batch.inputs["x"]) <= 100)


def test_without_a_reference_values_stay_in_the_ranges_of_the_row() -> None:
    of = replace(catalog("linalg_inv"), reference="", domain="", elementwise=False)
    for batch in generate(of, "float16", size="small"):
        assert np.all(np.abs(batch.inputs["a"]) <= 1)


def test_a_domain_that_names_no_input_is_an_error_that_quotes_it() -> None:
    with pytest.raises(OpscannerError, match="'exact'"):
        batches(operator("x: float (4) in [0, 1]", domain="exact"), "random")


def test_an_expression_follows_its_input_and_is_rounded() -> None:
    (batch, *_) = batches(operator("x: float (4) in [-3, 3]; y = np.tanh(x)"), "random", "bfloat16")
    expected = round_to_format(np.tanh(batch.inputs["x"]), "bfloat16")
    np.testing.assert_array_equal(batch.inputs["y"], expected)


def test_integers_and_booleans_keep_their_type_and_range() -> None:
    of = operator("x: float (4) in [-3, 3]; i: int32 (4) in [0, 3]; c: bool (4)")
    for batch in generate(of, "float16", size="small"):
        assert batch.inputs["i"].dtype == np.int32
        assert batch.inputs["c"].dtype == bool
        assert not batch.inputs["i"].size or (batch.inputs["i"].min() >= 0 and batch.inputs["i"].max() <= 3)


def test_infinite_parts_of_complex_values_are_kept_apart() -> None:
    of = operator("x: complex (4) in [-3, 3]")
    (batch,) = batches(of, "exponent_pairs")
    x = batch.inputs["x"]
    assert np.any(np.isinf(x.real) & (x.imag == 1.0))


def test_counts_outgrow_16_bit_accumulators_by_default() -> None:
    found = batches(catalog("sum"), "ones", size="default")
    assert [one.inputs["x"].shape for one in found] == [(6, 4096), (6, 70_000)]
    assert all(np.all(one.inputs["x"] == 1) for one in found)


def test_slots_are_repeated_where_an_index_names_them_twice() -> None:
    (batch, *_) = batches(replace(catalog("index_add"), reference="f(x)", domain=""), "ones", size="default")
    assert np.bincount(batch.inputs["i"]).max() > 2048
    assert batch.inputs["u"].shape == (4100, 4)
    assert batch.inputs["x"].shape == (3, 4)


def test_slots_of_a_plain_write_are_not_repeated() -> None:
    for batch in generate(replace(catalog("index_put"), reference="f(x)", domain=""), "float16", size="default"):
        assert batch.inputs["i"].tolist() == [2, 0]


def test_segments_stay_sorted_when_they_grow() -> None:
    of = replace(catalog("segment_reduce.sum"), reference="f(x)", domain="")
    (batch, *_) = batches(of, "ones", size="default")
    k = batch.inputs["k"]
    assert np.all(np.diff(k) >= 0)
    assert k.size == batch.inputs["x"].shape[0] == batch.inputs["n"].sum()
    assert set(k) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("identifier", ["layer_norm", "conv2d_grad.input", "reshape", "embedding_bag.sum", "ctc_loss"])
def test_what_a_call_or_an_index_list_fixes_does_not_grow(identifier: str) -> None:
    of = replace(catalog(identifier), reference="f(x)", domain="")
    shapes = {item.name: item.shape for item in of.inputs if item.kind == "float"}
    for batch in generate(of, "float16", size="default"):
        assert {name: batch.inputs[name].shape for name in shapes} == shapes


def test_matrices_grow_along_the_axis_that_is_summed() -> None:
    (batch, *_) = batches(replace(catalog("mm"), reference="f(x)", domain=""), "ones", size="default")
    assert (batch.inputs["x"].shape, batch.inputs["y"].shape) == ((6, 4096), (4096, 5))


def test_an_axis_grows_by_multiples_where_groups_may_sit_in_it() -> None:
    growth = Growth(size=6, axes=2, repeated=(), free=False)
    assert growth.length(4096) == 66
    assert replace(growth, free=True).length(4096) == 64
    assert replace(growth, axes=1).length(1) == 6


def test_axes_that_are_made_one_do_not_grow() -> None:
    of = operator("x: float (3, 8) in [-1, 1]", "matmul", False, call="f(torch.reshape(x, (24,)))")
    assert find_growth(of, {"x": np.zeros((3, 8))}) is None
    free = operator("x: float (3, 8) in [-1, 1]", "matmul", False)
    assert find_growth(free, {"x": np.zeros((3, 8))}) == Growth(8, 1, (), True)


def test_an_index_list_is_written_out_longer() -> None:
    item = parse_inputs("k = np.arange(24) // 5")[0]
    text = grown_expression(item, Growth(24, 1, ("k",), False), 48)
    assert eval(text, {"np": np}).tolist() == [(n // 2) // 5 for n in range(48)]


def test_a_size_that_a_call_names_holds_its_axis() -> None:
    of = operator("x: float (6, 40) in [-1, 1]", "reduction", False, call="f(x, (40,))")
    assert find_growth(of, {"x": np.zeros((6, 40))}) is None


@pytest.mark.parametrize(("format_", "precision"), [("float16", 11), ("bfloat16", 8), ("float32", 24)])
def test_crumbs_are_half_of_the_last_place_of_1_in_both_orders(format_: str, precision: int) -> None:
    of = operator("x: float (2, 9) in [0, 1]", "reduction", False)
    first, second, *_ = batches(of, "one_and_crumbs", format_)
    row = first.inputs["x"][0]
    assert (row[0], set(row[1:])) == (1.0, {2.0**-precision})
    np.testing.assert_array_equal(second.inputs["x"][0], row[::-1])


def test_a_sum_overflows_whose_mean_does_not() -> None:
    for batch in batches(operator("x: float (2, 9) in [0, 1]", "reduction", False), "large_mean"):
        assert batch.inputs["x"].sum(1).max() > 65504 >= batch.inputs["x"].mean(1).max()


def test_squares_overflow_or_vanish_whose_norm_does_not() -> None:
    found = batches(operator("x: float (2, 9) in [0, 1]", "reduction", False), "squares_overflow")
    largest = [one.inputs["x"].max() ** 2 for one in found]
    assert max(largest) > 65520
    assert min(largest) < 2.0**-25


def test_cancellation_leaves_less_than_a_thousandth_of_the_terms() -> None:
    for batch in batches(operator("x: float (2, 9) in [0, 1]", "reduction", False), "cancellation"):
        row = batch.inputs["x"][0]
        assert abs(row.sum()) < 1e-2 * np.abs(row).sum()
        assert np.abs(row).sum() > 0


def test_tied_sums_and_products_lie_half_way() -> None:
    sums, products = batches(operator("x: float (4) in [1, 2]; y: float (4) in [1, 2]"), "ties")[:2]
    for exact in (sums.inputs["x"] + sums.inputs["y"], products.inputs["x"] * products.inputs["y"]):
        mantissa, _ = np.frexp(exact)
        units = np.abs(mantissa) * 2.0**12  # float16 keeps 11 bits: a tie is odd in units of the twelfth
        assert np.mean(units % 2 == 1) > 0.9


def test_subnormal_inputs_are_subnormal() -> None:
    (batch,) = batches(operator("x: float (4) in [0, 1]"), "subnormal")
    assert np.abs(batch.inputs["x"]).max() <= 2.0**-14
    assert np.count_nonzero(batch.inputs["x"]) > 1000


def test_logits_dominate_and_rows_are_constant() -> None:
    logits = batches(operator("x: float (2, 9) in [0, 1]", "softmax", False), "dominant_logit")
    assert {0.0, 20.0} in [set(one.inputs["x"][0]) for one in logits]
    rows = batches(operator("x: float (2, 9) in [0, 1]", "normalization", False), "constant_rows")
    assert {1e4} in [set(one.inputs["x"][0]) for one in rows]


def test_layouts_keep_values_and_say_their_name() -> None:
    of = operator("x: float (4, 25) in [0, 1]")
    contiguous = np.sort(batches(of, "exhaustive")[0].inputs["x"].ravel())
    for layout in ("strided", "offset"):
        (batch,) = batches(of, layout)
        assert batch.layout == layout
        np.testing.assert_array_equal(np.sort(batch.inputs["x"].ravel()), contiguous)
    (batch,) = batches(of, "transposed")
    assert batch.layout == "transposed"
    assert min(batch.inputs["x"].shape) > 100


def test_single_values_come_with_and_without_an_axis() -> None:
    of = operator("x: float (4) in [0, 1]; y: float (4) in [0, 1]")
    for none, one in zip(batches(of, "zero_dim"), batches(of, "one_element"), strict=True):
        assert (none.layout, none.inputs["x"].shape, one.inputs["x"].shape) == ("zero_dim", (), (1,))
        assert float(none.inputs["y"]) == float(one.inputs["y"][0])


def test_tails_begin_with_the_same_values() -> None:
    found = batches(operator("x: float (4) in [0, 1]"), "odd_tail", size="default")
    assert [one.inputs["x"].size for one in found] == [1, 3, 8, 17, 33, 67]
    for one in found:
        np.testing.assert_array_equal(one.inputs["x"], found[-1].inputs["x"][: one.inputs["x"].size])


def test_empty_arrays_have_no_elements() -> None:
    (batch,) = batches(operator("x: float (4) in [0, 1]"), "empty")
    assert batch.elements == 0
    (batch,) = batches(catalog("sum"), "empty")
    assert batch.inputs["x"].shape == (6, 0)


def test_an_unknown_strategy_or_size_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'exhaustiv'"):
        list(generate(operator("x: float (4)"), "float16", ["exhaustiv"]))
    with pytest.raises(OpscannerError, match="'tiny'"):
        list(generate(operator("x: float (4)"), "float16", size="tiny"))


@pytest.mark.parametrize("format_", [*FORMATS, "float64"])
def test_listed_values_are_of_their_format_and_hold_its_ends(format_: str) -> None:
    for values in (boundary_values(format_), exponent_grid(format_, 40)):
        np.testing.assert_array_equal(round_to_format(values, format_), values)
        assert {1.0, -1.0} <= set(values)
        assert np.signbit(values[values == 0]).tolist() == [True, False]
        assert np.isnan(values).any()
    assert np.isinf(boundary_values(format_)).any() == (format_ != "float8_e4m3fn")


def test_boundary_values_of_float16_worked_by_hand() -> None:
    values = set(boundary_values("float16"))
    assert {2.0**-24, 1023 * 2.0**-24, 2.0**-14, 1 - 2.0**-11, 1 + 2.0**-10, 65504.0, -65472.0, 0.5, 2.5} <= values
    assert {20.0, 20 + 2.0**-6, 11.0859375, 11.09375, 1.5703125} <= values  # softplus; ln 65520 = 11.0899; pi/2


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_stratified_values_reach_every_exponent(seed: int) -> None:
    values = stratified(np.random.default_rng(seed), 4000, "float16")
    assert np.array_equal(round_to_format(values, "float16"), values)
    exponents = set(np.frexp(values[values != 0])[1] - 1)
    assert exponents == set(range(-24, 16))


def test_every_value_of_float8_e5m2_is_listed_once() -> None:
    values = every_value("float8_e5m2")
    assert len(values) == 256 - 2 * 3 + 1  # three NaN of each sign are one
    assert np.isinf(values).sum() == 2


def test_strategies_say_what_they_find_and_where_they_are_from() -> None:
    assert len({one.id for one in STRATEGIES}) == len(STRATEGIES)
    assert all(one.finds and one.source for one in STRATEGIES)


def test_the_baseline_runs_for_every_operator_of_the_catalog() -> None:
    silent = []
    for one in load_catalog():
        if not any(True for _ in generate(one, "bfloat16", ["random"], size="small")):
            silent.append(one.id)
    assert silent == []


def test_the_first_batch_is_contiguous() -> None:
    for identifier in SAMPLE:
        assert next(generate(find_operators(identifier)[0], "float16", size="small")).layout == "contiguous"


def test_sums_in_formats_as_wide_as_float32_get_values_that_float32_can_add_and_square() -> None:
    of = operator("x: float (3, 30) in [-5, 5]", "reduction", False)
    for format_ in ("bfloat16", "float32"):
        largest = [np.abs(value[np.isfinite(value)]).max() for value in (b.inputs["x"] for b in generate(of, format_))]
        # 2**15 squares of 2**56 add up to 2**127.
        assert 2.0**50 < max(largest) <= 2.0**56
    assert max(np.abs(one.inputs["x"]).max() for one in batches(of, "end_of_range", "bfloat16")) > 2.0**125
    assert batches(of, "end_of_range", "float16") == []
    assert batches(operator("x: float (3, 30) in [-5, 5]", "unary", True), "end_of_range", "float32") == []
