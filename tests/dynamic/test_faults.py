"""Faults: their causes told by checks, and scripts that show them alone; expected values worked out by hand."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from opscanner.dynamic.fault_causes import find_cause
from opscanner.dynamic.fault_formulas import evaluate_stepwise
from opscanner.dynamic.fault_kinds import Cause, Kind, Subject
from opscanner.dynamic.fault_script import Shown, bits_of, run_script, write_script
from opscanner.dynamic.fault_stories import Fault, NotShown, group_faults
from opscanner.dynamic.fault_sums import orders
from opscanner.dynamic.faults import fault_tasks, reduce_measurement
from opscanner.dynamic.inputs import generate
from opscanner.dynamic.measure import operator_by_id
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.precision.rounding import round_to_format

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def subject(inputs, run, reference, got, exact, format_="float16", **more) -> Subject:
    expected = float(round_to_format(np.asarray(exact), format_))
    arrays = {name: np.asarray(value, float) for name, value in inputs.items()}
    fields = {"layout": "contiguous", "elementwise": False, "index": 0, "upcast_fails": False, **more}
    fields["floats"] = tuple(arrays)
    return Subject(arrays, format_, exact=exact, expected=expected, got=got, run=run, reference=reference, **fields)


def test_a_sum_that_stalls_is_told_by_its_bits():
    # In float16 2048 + 1 ties to 2048: the sum is 2048, the right one 2052.
    values = [2048.0, 1.0, 1.0, 1.0, 1.0]
    cause = find_cause(subject({"x": values}, lambda *_: None, lambda a: np.array([a["x"].sum()]), 2048.0, 2052.0))
    assert cause.kind is Kind.ACCUMULATION
    assert "5 terms one after the other" in cause.evidence


def test_another_wrong_sum_is_not_called_an_accumulation():
    # 2080 is what no order of adding 2048 and four ones in float16 gives: 2048, 2052 and 2050 are.
    values = [2048.0, 1.0, 1.0, 1.0, 1.0]
    cause = find_cause(subject({"x": values}, lambda *_: None, lambda a: np.array([a["x"].sum()]), 2080.0, 2052.0))
    assert cause.kind is not Kind.ACCUMULATION


def test_a_product_is_no_sum():
    cause = find_cause(
        subject({"x": [3.0, 5.0]}, lambda *_: None, lambda a: np.array([a["x"].prod()]), 8.0, 15.0)
    )  # 3 + 5 = 8
    assert cause.kind is not Kind.ACCUMULATION


def test_orders_of_a_sum_differ_as_worked_out():
    # 1 + 2**-11 ties to 1 in float16; two such terms first make 2**-10, which counts.
    found = orders([1.0, 2.0**-11, 2.0**-11], "float16")
    assert found["one after the other"] == 1.0
    assert found["one after the other from the last to the first"] == 1.0 + 2.0**-10


def test_a_sum_at_the_end_of_float32s_range_is_told_apart():
    large = 3.3895313892515355e38  # the largest of bfloat16
    cause = find_cause(
        subject(
            {"x": [large, large, -large]},
            lambda *_: None,
            lambda a: np.array([a["x"].sum()]),
            np.inf,
            large,
            "bfloat16",
        )
    )
    assert cause.kind is Kind.END_OF_RANGE


def test_several_operators_without_a_telling_check_are_composed():
    made = subject(
        {"x": [3.0]}, lambda *_: None, lambda a: a["x"], 3.01, 3.0, kernels=("Neg", "Softplus", "Mul"),
        elementwise=True,
    )  # fmt: skip
    cause = find_cause(made)
    assert cause.kind is Kind.COMPOSED
    assert "`Neg`, `Softplus`, `Mul` ran" in cause.evidence


def _elementwise(function):
    def run(inputs, format_, layout):
        return round_to_format(function(inputs["x"], format_), format_)

    return run


def test_exp_minus_one_is_told_at_all_values_near_by_and_its_remedy_named():
    run = _elementwise(lambda x, format_: evaluate_stepwise("exp(x) - 1", x, format_))
    made = subject(
        {"x": [-(2.0**-12)]}, run, lambda a: np.expm1(a["x"]), 0.0, float(np.expm1(-(2.0**-12))), elementwise=True
    )
    cause = find_cause(made)
    assert (cause.kind, cause.formula, cause.remedy) == (Kind.FORMULA, "exp(x) - 1", "expm1(x)")


def test_a_factor_of_a_formula_is_found():
    # selu for negative x: 1.7580993408473766 (exp(x) - 1).
    def selu(x, format_):
        return evaluate_stepwise("exp(x) - 1", x, format_) * float(round_to_format(1.7580993408473766, format_))

    exact = 1.7580993408473766 * np.expm1(-(2.0**-12))
    made = subject(
        {"x": [-(2.0**-12)]}, _elementwise(selu), lambda a: 1.7580993408473766 * np.expm1(a["x"]), 0.0, float(exact),
        elementwise=True,
    )  # fmt: skip
    assert find_cause(made).formula == "exp(x) - 1"


def test_a_multiple_of_the_input_is_not_called_the_formula_that_ends_as_one():
    # gelu(x) is x for large x; 1.25 was to be 1.2578125, as where another operator's second input is rounded first.
    made = subject(
        {"x": [100.0]}, _elementwise(lambda x, format_: 1.25 * x), lambda a: 1.2578125 * a["x"], 125.0, 125.78125,
        elementwise=True,
    )  # fmt: skip
    assert find_cause(made).kind is not Kind.FORMULA


def test_zero_everywhere_is_not_called_exp_minus_one():
    run = _elementwise(lambda x, format_: np.zeros_like(x))
    made = subject(
        {"x": [-(2.0**-12)]}, run, lambda a: np.expm1(a["x"]), 0.0, float(np.expm1(-(2.0**-12))), elementwise=True
    )
    assert find_cause(made).kind is not Kind.FORMULA


def test_a_result_that_contiguous_inputs_get_right_is_the_layouts():
    made = subject(
        {"x": [2.0, 3.0]}, lambda inputs, format_, layout: inputs["x"], lambda a: a["x"], 2.5, 2.0, layout="strided"
    )
    assert find_cause(made).kind is Kind.LAYOUT


def test_bits_are_those_of_the_format():
    # 256 = 2**8: bfloat16 exponent 127 + 8 = 0x87 -> 0x4380; float16 15 + 8 = 23 -> 0x5C00.
    assert bits_of(256.0, "bfloat16") == "0x4380"
    assert bits_of(256.0, "float16") == "0x5C00"


def _shown(**changed) -> Shown:
    base = Shown(
        "pytorch", "torch.index_add(x, 0, i, u, alpha=1)",
        {"x": np.array([256.0]), "i": np.zeros(4, np.int64), "u": np.ones(4)}, "bfloat16", "cpu", "contiguous", 0, 0,
        "bfloat16", 260.0, 260.0, 256.0, 1.0,
    )  # fmt: skip
    return replace(base, **changed)


@needs_torch
@pytest.mark.slow
def test_a_script_shows_its_fault_and_ends_with_one():
    # bfloat16 holds every second integer above 256: 256 + 1 ties to 256, four times; 260 is right.
    ran = run_script(write_script(_shown()))
    assert ran.code == 1, ran.output
    assert "expected 260.0 (0x4382)" in ran.output
    assert "got      256.0 (0x4380), 2 ULP" in ran.output


@needs_torch
@pytest.mark.slow
def test_a_script_ends_with_zero_where_the_fault_is_gone():
    ran = run_script(write_script(_shown(expression="torch.add(x, 4.0)")))
    assert (ran.code, ran.output.splitlines()[-1]) == (0, "right")


def test_a_script_names_no_package_of_ours():
    assert "opscanner" not in write_script(_shown())


def measurement(operator="cumsum", verdict=Verdict.BEYOND_UPCAST, **more) -> Measurement:
    return Measurement(
        operator,
        "forward",
        "tensorflow",
        "2.21.0",
        "bfloat16",
        "cpu",
        "contiguous",
        "ones",
        0,
        Status.RAN,
        verdict,
        **more,
    )


def test_a_verdict_that_is_no_fault_makes_no_task():
    assert fault_tasks([measurement(verdict=Verdict.INHERENT)]) == ([], [])
    assert len(fault_tasks([measurement()])[0]) == 1


def test_what_cannot_be_made_small_is_named_with_its_reason():
    law = replace(measurement(), strategy="law permutation")
    random_numbers = replace(measurement("randn"), strategy="random")
    tasks, left = fault_tasks([law, law, random_numbers])
    assert tasks == []
    assert [(one.operator, one.why) for one in left] == [
        ("cumsum", "inputs that no strategy makes: law permutation"),
        ("randn", "no reference that is independent of the framework"),
    ]


def test_a_task_that_ends_its_process_is_tried_again_with_shapes_kept_and_then_named():
    (task,), _ = fault_tasks([measurement()])
    (again,) = task.parts()
    assert again.shapes_kept
    assert again.key != task.key
    assert again.parts() == ()
    assert again.lost(Status.ABORTED, "", 0.0) == [
        NotShown("cumsum", "tensorflow", "bfloat16", Verdict.BEYOND_UPCAST, "aborted while it was made small")
    ]


@needs_torch
@pytest.mark.slow
def test_the_same_measurement_gives_the_same_fault():
    # Subtracting ones one after the other in bfloat16 stalls at -256: 2**8 + 1 ties to even.
    batches = list(generate(operator_by_id("index_add.sub"), "bfloat16", ["ones"], seed=0))
    row = Measurement(
        "index_add.sub", "forward", "pytorch", "2", "bfloat16", "cpu", "contiguous", "ones", 0, Status.RAN,
        Verdict.BEYOND_UPCAST, expression=operator_by_id("index_add.sub").calls["pytorch"],
    )  # fmt: skip
    shown = [replace(row, batch=batch.why, layout=batch.layout) for batch in batches]
    twice = [[reduce_measurement(one, trials=60) for one in shown] for _ in range(2)]
    found = [fault for fault in twice[0] if fault is not None]
    assert found
    assert [fault.script for fault in found] == [fault.script for fault in twice[1] if fault is not None]
    assert all(abs(fault.got) < abs(fault.expected) for fault in found)


def fault(operator, kernels, kind=Kind.ACCUMULATION) -> Fault:
    return Fault(
        operator, "forward", "tensorflow", "2.21.0", "bfloat16", "cpu", "contiguous", Verdict.BEYOND_UPCAST, "call",
        {"x": np.ones(3)}, 0, 0, "bfloat16", 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 0.0, Cause(kind, "seen"), kernels, "",
        measurement(),
    )  # fmt: skip


def test_a_composite_joins_the_story_of_the_kernel_that_fails_alone():
    stories = group_faults([fault("logsumexp", ("Max", "Sub", "Exp", "Sum", "Log")), fault("sum", ("Sum",))])
    assert [(story.core, {one.operator for one in story.faults}) for story in stories] == [
        ("Sum", {"sum", "logsumexp"})
    ]
    assert stories[0].faults[0].operator == "sum"


def test_composites_that_share_only_a_step_are_not_one_story():
    made = [fault("a", ("Exp", "Neg", "Mul"), Kind.COMPOSED), fault("b", ("Tanh", "Sub", "Mul"), Kind.COMPOSED)]
    assert [story.core for story in group_faults(made)] == ["a", "b"]


def test_stories_of_a_known_cause_come_before_those_at_the_end_of_the_range():
    made = [fault("a", ("A",), Kind.END_OF_RANGE), fault("b", ("B",), Kind.ROUNDED_INSIDE), fault("c", ("C",))]
    assert [story.core for story in group_faults(made)] == ["C", "B", "A"]


def test_a_story_that_takes_nan_stands_behind_those_of_plain_values():
    nan = replace(fault("a", ("A",)), inputs={"x": np.array([np.nan])})
    assert [story.core for story in group_faults([nan, fault("b", ("B",))])] == ["B", "A"]


def test_another_kernel_and_another_kind_are_other_stories():
    found = group_faults([fault("sum", ("Sum",)), fault("cumsum", ("Cumsum",)), fault("sum", ("Sum",), Kind.RANGE)])
    assert len(found) == 3


def test_a_place_in_the_sources_joins_two_kernels():
    found = group_faults([fault("a", ("A",)), fault("b", ("B",))], places=lambda one: ["kernel.h:3"])
    assert len(found) == 1
