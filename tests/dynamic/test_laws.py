"""Laws: known faults break them, careful operators do not, and the functions that obey one are found by themselves."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from opscanner.dynamic.budgets import Budget
from opscanner.dynamic.laws import LAWS, check_laws
from opscanner.dynamic.laws.judging import Tolerance, compare, tolerance_for, verdict_of
from opscanner.dynamic.laws.subject import Subject
from opscanner.dynamic.laws.table import EXCUSED
from opscanner.dynamic.measure import Plan, operator_by_id, version_of
from opscanner.dynamic.trial import Outcome
from opscanner.errors import UsageError
from opscanner.frameworks.runners import is_installed, runner_of
from opscanner.measurements import Measurement, Status, Verdict

#: The release that the figures below were measured in.
TORCH = "2.13.0"


def need(framework: str) -> None:
    if not is_installed(framework):
        pytest.skip(f"{framework.upper()} IS NOT INSTALLED: NONE OF ITS OPERATORS WAS HELD AGAINST A LAW")
    runner_of(framework).run_reproducibly()


@functools.cache
def rows_of(identifier: str, framework: str, format_: str) -> dict[str, Measurement]:
    need(framework)
    found = check_laws(operator_by_id(identifier), format_, Plan(frameworks=(framework,)))
    return {row.strategy.removeprefix("law:"): row for row in found}


def claims_of(identifier: str, law: str, format_: str = "float16") -> list[str]:
    """What a law claims of an operator's reference; runs nothing."""
    subject = Subject(operator_by_id(identifier), format_, "pytorch", "cpu")
    (found,) = [one for one in LAWS if one.id == law]
    return [claim.what for claim in found.claims(subject)]


def faults(rows: dict[str, Measurement]) -> set[str]:
    return {law for law, row in rows.items() if row.verdict.is_fault}


def test_floor_divide_of_torch_in_bfloat16_depends_on_the_number_of_elements() -> None:
    # pytorch#193754: 560 / 3 = 186.67 rounds to 187 in bfloat16 before it is floored, in vectors alone.
    assert {"one_element", "broadcast"} & faults(rows_of("floor_divide", "pytorch", "bfloat16"))


def test_floor_divide_of_560_by_3_is_186_alone_and_187_among_others() -> None:
    need("pytorch")
    runner = runner_of("pytorch")
    results = [
        runner.evaluate("torch.floor_divide(x, y)", {"x": np.full(n, 560.0), "y": np.full(n, 3.0)}, "bfloat16")[0][0]
        for n in (1, 2)
    ]
    assert results == [186, 187]


def test_rsqrt_of_torch_differs_between_strided_and_contiguous() -> None:
    row = rows_of("rsqrt", "pytorch", "float16")["strided"]
    assert row.verdict is Verdict.BEYOND_UPCAST
    assert row.max_ulp == 1
    assert row.layout == "strided"
    if version_of("pytorch").startswith(TORCH):
        assert "8402 of 63491 differ" in row.message


@pytest.mark.parametrize("identifier", ["elu", "selu", "tanh", "exp", "log", "softplus"])
@pytest.mark.parametrize("format_", ["float16", "bfloat16"])
def test_careful_operators_of_torch_break_no_law(identifier: str, format_: str) -> None:
    rows = rows_of(identifier, "pytorch", format_)
    assert {"repeated", "strided", "one_element", "position", "ordered"} <= set(rows)
    assert faults(rows) == set()


def test_reduce_sum_of_tensorflow_in_float16_depends_on_the_order_of_its_terms() -> None:
    assert "reversed" in faults(rows_of("sum", "tensorflow", "float16"))


def test_add_n_of_tensorflow_in_float16_depends_on_the_order_of_its_inputs() -> None:
    assert "swapped" in faults(rows_of("add_n", "tensorflow", "float16"))


def test_the_sum_of_torch_obeys_every_law() -> None:
    rows = rows_of("sum", "pytorch", "float16")
    assert {"permuted", "reversed", "in_parts", "scaled", "one_row"} <= set(rows)
    assert faults(rows) == set()


def test_softplus_of_tensorflow_in_bfloat16_falls_where_it_changes_formulas() -> None:
    # Below log(2**-7) + 2 = -2.852 it gives exp(x), above log(1 + exp(x)): 0.0574 at -2.859, 0.0564 at -2.844.
    row = rows_of("softplus", "tensorflow", "bfloat16")["ordered"]
    assert row.verdict is Verdict.BEYOND_UPCAST
    assert row.worst_inputs == {"x": -2.84375}


def test_a_row_names_the_law_the_two_results_and_their_bits() -> None:
    row = rows_of("rsqrt", "pytorch", "float16")["strided"]
    assert row.strategy == "law:strided"
    assert row.message.startswith("Every second element of a longer array gives what a contiguous array")
    assert f"{row.worst_expected:.9g} (0x" in row.message
    assert f"{row.worst_got:.9g} (0x" in row.message
    assert set(row.worst_inputs) == {"x"}


def test_an_operator_without_a_kernel_is_one_row_that_says_so() -> None:
    need("tensorflow")
    (row,) = check_laws(operator_by_id("erfinv"), "float16", Plan(frameworks=("tensorflow",)))
    assert row.status is Status.UNSUPPORTED


def test_compiled_calls_are_checked_when_they_are_asked_for() -> None:
    need("tensorflow")
    plan = Plan(frameworks=("tensorflow",))
    (row,) = check_laws(operator_by_id("relu"), "float16", plan, ["compiled"])
    assert (row.strategy, row.verdict) == ("law:compiled", Verdict.CORRECT)


def test_a_law_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UsageError, match="gravity") as caught:
        check_laws(operator_by_id("exp"), "float16", Plan(frameworks=()), ["gravity"])
    assert "strided" in str(caught.value.hint)


# Which functions obey a law is found from their references.


@pytest.mark.parametrize(
    ("identifier", "law", "expected"),
    [
        ("sin", "negated", "odd"),
        ("cos", "negated", "even"),
        ("sqrt", "scaled", "results times 2"),
        ("rsqrt", "scaled", "results times 0.5"),
        ("reciprocal", "scaled", "results times 0.25"),
        ("softmax", "shifted", "unchanged"),
        ("log_softmax", "shifted", "unchanged"),
        ("logsumexp", "shifted", "shifted"),
        ("mean", "shifted", "shifted"),
        ("add", "swapped", "x and y exchanged"),
        ("sub", "swapped", "sign turned"),
        ("relu", "twice", "its own results"),
        ("tanh", "ordered", "rising"),
        ("erfc", "ordered", "falling"),
        ("sum", "in_parts", "axis 1 of x"),
        ("mm", "permuted", "axis 1 of x, axis 0 of y"),
        ("layer_norm", "one_row", "axis 0 of x"),
    ],
)
def test_functions_that_obey_a_law_are_found(identifier: str, law: str, expected: str) -> None:
    assert any(expected in what for what in claims_of(identifier, law))


@pytest.mark.parametrize(
    ("identifier", "law"),
    [
        ("exp", "negated"),
        ("exp", "scaled"),
        ("ceil", "negated"),
        ("round", "scaled"),
        ("div", "swapped"),
        ("tanh", "twice"),
        ("sin", "ordered"),
        ("sum", "shifted"),
        ("softmax", "in_parts"),
    ],
)
@pytest.mark.parametrize("format_", ["float16", "bfloat16"])
def test_functions_that_do_not_obey_a_law_are_left_alone(identifier: str, law: str, format_: str) -> None:
    assert claims_of(identifier, law, format_) == []


def test_lists_that_a_call_may_want_sorted_keep_their_order() -> None:
    assert not any("axis 0 of i" in what for what in claims_of("segment_reduce.sum_empty", "permuted"))
    assert any("axis 0 of i" in what for what in claims_of("index_add", "permuted"))


def test_values_of_exact_sums_are_multiples_of_one_power_of_two() -> None:
    subject = Subject(operator_by_id("sum"), "float16", "pytorch", "cpu")
    exact = [start for start in subject.starts if start.exact]
    assert len(exact) == 2
    for start in exact:
        steps = start.inputs["x"] * 2.0**11
        assert np.array_equal(steps, np.rint(steps))
        assert np.abs(steps).sum(axis=1).max() < 2**24


# How far results may lie apart.


def budgets(name: str, ulp: float) -> tuple[Budget, Budget]:
    return Budget(name, 1.0, False, ""), Budget(name, ulp, False, "")


def test_two_careful_results_are_neighbours_in_few_elements() -> None:
    # 2 results, 4 ULP of float32 each: 8 of 2**13 places in float16, 8 of 2**16 in bfloat16.
    assert tolerance_for(*budgets("elementary", 4), "float16", exact=False, elementwise=True).share == 8 / 8192
    found = tolerance_for(*budgets("elementary", 4), "bfloat16", exact=False, elementwise=True)
    assert (found.ulp, found.share) == (1, 8 / 65536)
    # 65,536 * 8 / 65,536 = 8 elements, and three times the root of it
    assert found.allowed(65536) == 16


def test_single_operations_and_exact_sums_have_one_result() -> None:
    assert tolerance_for(*budgets("exact", 0.5), "float16", exact=False, elementwise=True) == Tolerance(0, 0)
    assert tolerance_for(*budgets("sum", 16), "float16", exact=True, elementwise=False) == Tolerance(0, 0)


def test_more_neighbours_than_rounding_explains_break_a_law() -> None:
    ones = np.ones(10_000)
    next_to = ones.copy()
    next_to[:100] = 1 + 2.0**-10
    tolerance = Tolerance(1, 8 / 8192)
    assert compare(next_to, ones, "float16", tolerance).broken.sum() == 100
    next_to[15:] = 1
    assert not compare(next_to, ones, "float16", tolerance).broken.any()


def test_nan_and_infinity_never_pass() -> None:
    got, expected = np.array([np.nan, np.inf, np.nan]), np.array([1.0, 100.0, np.nan])
    comparison = compare(got, expected, "float16", Tolerance(1, 1))
    assert comparison.broken.tolist() == [True, True, False]
    assert verdict_of(comparison, None, elementwise=True)[0] is Verdict.CLASS_MISMATCH


def test_what_breaks_in_the_wider_format_as_well_is_not_the_formats_doing() -> None:
    comparison = compare(np.array([2.0]), np.array([1.0]), "float16", Tolerance(1, 1))
    assert verdict_of(comparison, comparison, elementwise=True)[0] is Verdict.BEYOND_BUDGET
    assert verdict_of(comparison, comparison, elementwise=False)[0] is Verdict.INHERENT
    assert verdict_of(comparison, None, elementwise=False)[0] is Verdict.BEYOND_UPCAST


def test_a_flushed_subnormal_is_a_class_of_its_own() -> None:
    comparison = compare(np.array([0.0]), np.array([2.0**-130]), "bfloat16", Tolerance(0, 0))
    assert verdict_of(comparison, None, elementwise=True)[0] is Verdict.FLUSHED


def test_excuses_name_laws_and_say_why() -> None:
    known = {law.id for law in LAWS}
    assert all((law in known or law == "*") and reason for law, _, _, reason in EXCUSED)


def test_arrays_that_were_cut_or_turned_lie_in_memory_as_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else a law of order would see the faults of layouts: numpy's slices keep strides, and so do the runners.
    need("pytorch")
    seen: list[bool] = []

    def noted(_framework: str, _call: str, inputs: dict[str, np.ndarray], *_: object, **__: object) -> Outcome:
        seen.extend(array.flags.c_contiguous for array in inputs.values())
        return Outcome(Status.RAN, (np.zeros((4, 3, 5, 5)),), ("float16",))

    monkeypatch.setattr("opscanner.dynamic.laws.check.run_call", noted)
    check_laws(operator_by_id("batch_norm_inference"), "float16", Plan(frameworks=("pytorch",)), ["permuted"])
    assert seen
    assert all(seen)
