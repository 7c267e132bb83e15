"""Verdicts on results whose right answer is worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from opscanner.dynamic.budgets import budget_for
from opscanner.dynamic.oracle.magnitudes import Terms
from opscanner.dynamic.oracle.oracle import Reference
from opscanner.dynamic.verdict import Judgement, excess_ulp, judge
from opscanner.errors import OpscannerError
from opscanner.measurements import Verdict


def judged(got, reference, upcast=None, format_="float16", kind="elementary", *, elementwise=True, **more) -> Judgement:
    values = np.asarray(reference, float)
    undecided = np.asarray(more.pop("undecided", np.zeros(values.shape, bool)))
    exact = Reference(values, np.zeros(values.shape), undecided, np.full(values.shape, 2, np.uint8), 0.0)
    upcast = None if upcast is None else np.asarray(upcast, float)
    return judge(
        np.asarray(got, float), exact, upcast, format_, budget_for(kind, format_), elementwise=elementwise, **more
    )


def test_a_result_within_half_a_ulp_is_correctly_rounded():
    # float16 has ULP 2**-10 in [1, 2): 1 is nearest to 1 + 2**-12.
    assert judged([1.0], [1 + 2**-12], [1.0]).verdict is Verdict.CORRECT


def test_a_result_one_ulp_off_is_within_the_budget():
    assert judged([1 + 2**-10], [1.0], [1.0]).verdict is Verdict.WITHIN_BUDGET


def test_a_result_that_float32_would_have_right_is_beyond_upcast():
    # elu(-2**-12) is about -2**-12; exp(x) - 1 in float16 gives 0.
    found = judged([0.0], [-(2**-12) + 2**-25], [-(2**-12)])
    assert found.verdict is Verdict.BEYOND_UPCAST
    assert found.beyond_upcast == 1


def test_an_elementwise_result_as_wrong_in_float32_has_a_wrong_formula():
    assert judged([1 + 2**-7], [1.0], [1 + 2**-7]).verdict is Verdict.BEYOND_BUDGET


def test_a_sum_as_wrong_in_float32_has_an_ill_conditioned_input():
    found = judged([1 + 2**-7], [1.0], [1 + 2**-7], kind="sum", elementwise=False)
    assert found.verdict is Verdict.INHERENT


def test_an_error_of_a_small_element_beside_a_large_one_is_lost_near_zero():
    # 2**-9 is 8 ULP off at 2**-2 (ULP 2**-12), and a thousandth of an ULP of its neighbour 2**11.
    found = judged([2.0**11, 0.25 + 2**-9], [2.0**11, 0.25], [2.0**11, 0.25], kind="sum", elementwise=False)
    assert found.verdict is Verdict.NEAR_ZERO


def test_a_nan_never_passes():
    found = judged([np.nan, 1.0], [1.0, 1.0], [1.0, 1.0])
    assert found.verdict is Verdict.CLASS_MISMATCH
    assert found.faulty.tolist() == [0]


def test_an_infinity_that_float32_gives_too_is_no_mismatch_of_this_format():
    found = judged([np.inf], [60000.0], [np.inf], kind="sum", elementwise=False)
    assert found.verdict is Verdict.INHERENT


def test_a_bfloat16_subnormal_given_as_zero_is_flushed():
    assert judged([0.0], [2.0**-130], [2.0**-130], "bfloat16").verdict is Verdict.FLUSHED


def test_a_float16_subnormal_given_as_zero_is_wrong():
    # No processor flushes float16's subnormals where it computes in float32.
    assert judged([0.0], [2.0**-20], [2.0**-20]).verdict is Verdict.BEYOND_UPCAST


def test_as_many_flushed_terms_as_a_sum_has_explain_what_it_lacks():
    found = judged([0.0], [3 * 2.0**-127], [3 * 2.0**-127], "bfloat16", "sum", elementwise=False, terms=3)
    assert found.verdict is Verdict.FLUSHED


def test_a_single_operation_must_be_correctly_rounded():
    assert judged([1 + 2**-10], [1.0], [1.0], kind="exact").verdict is Verdict.BEYOND_UPCAST


def test_an_oracle_that_cannot_decide_most_of_it_says_so():
    found = judged([1.0, 5.0, 1.0], [1.0, 1.0, 1.0], undecided=[False, True, True])
    assert found.verdict is Verdict.UNDECIDED


def test_an_undecided_element_is_not_judged():
    found = judged([1.0, 5.0, 1.0], [1.0, 1.0, 1.0], undecided=[False, True, False])
    assert found.verdict is Verdict.CORRECT
    assert found.errors.undecided == 1


def test_the_worst_element_comes_first():
    found = judged([1 + 2**-8, 1.0, 1 + 2**-7], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    assert found.faulty.tolist() == [2, 0]


def test_a_class_without_budget_is_named():
    with pytest.raises(OpscannerError, match="'sums' in float16"):
        budget_for("sums", "float16")


def test_a_result_that_is_right_for_a_zero_is_flushed():
    # 1 / 2**-130 overflows to infinity where the subnormal is taken as zero; the right result is 2**130, infinity too
    # in bfloat16; log(2**-130) is -90.1, and -infinity for zero.
    zeros = Reference(np.array([-np.inf]), np.zeros(1), np.zeros(1, bool), np.full(1, 2, np.uint8), 0.0)
    found = judged([-np.inf], [-90.10913347279589], [-90.0], "bfloat16", flushed_reference=zeros)
    assert found.verdict is Verdict.FLUSHED


def climbed_on(got, reference, upcast, *, elementwise=True, undecided=False):
    values = np.asarray(reference, float)
    lost = np.full(values.shape, undecided)
    exact = Reference(values, np.zeros(values.shape), lost, np.full(values.shape, 2, np.uint8), 0.0)
    budget = budget_for("elementary", "float16")  # 1 ULP, and 2**-10 is one at 1
    found = excess_ulp(
        np.asarray(got, float), exact, np.asarray(upcast, float), "float16", budget, elementwise=elementwise
    )
    return found.tolist()


def test_a_search_climbs_on_errors_that_the_wider_format_does_not_make():
    assert climbed_on([1 + 2**-8], [1.0], [1.0]) == [4.0]
    assert climbed_on([1 + 2**-8], [1.0], [1 + 2**-8]) == [0.0]


def test_a_search_does_not_climb_on_what_is_no_fault():
    assert climbed_on([1 + 2**-12], [1.0], [1.0]) == [0.25]  # within the budget: uphill is towards a fault
    ill_conditioned = climbed_on([1 + 2**-8, 1.0], [1.0, 1.0], [1 + 2**-8, 1.0], elementwise=False)
    assert ill_conditioned == [0.0, 0.0]
    near_zero = climbed_on([2**-24, 1.0], [2**-22, 1.0], [2**-22, 1.0], elementwise=False)
    assert near_zero == [0.0, 0.0]
    assert np.isnan(climbed_on([1 + 2**-8], [1.0], [1.0], undecided=True)).all()


def test_an_unexcused_infinity_is_as_high_as_it_gets():
    assert climbed_on([np.inf], [1.0], [1.0]) == [np.inf]
    assert climbed_on([np.nan], [1.0], [1.0]) == [np.inf]
    assert np.isfinite(climbed_on([np.inf], [1.0], [np.inf])).all()


def of_terms(magnitude, count):
    return lambda: Terms(np.atleast_1d(np.asarray(magnitude, float)), np.atleast_1d(np.asarray(count, float)))


def test_a_sum_that_float32_got_right_by_luck_is_ill_conditioned():
    # addmm in bfloat16: 57 terms of +-9984 that leave 1.171875 and 1.15625; 57 * 2**-24 * 57 * 9984 is 1.9.
    found = judged(
        [1.15625], [1.1718], [1.171875], "bfloat16", "sum", elementwise=False, sum_of=of_terms(57 * 9984.0, 57)
    )
    assert found.verdict is Verdict.INHERENT
    assert found.beyond_upcast == 0
    assert found.excess.tolist() == [0.0]


def test_a_sum_that_lost_more_than_float32_may_is_a_fault_whatever_float32_made_of_it():
    # 59 roundings of 4096 terms' worth of magnitude, 59 * 4096 * 2**-24 = 0.014; float16 has ULP 2**-10 at 1.
    far = judged([0.0], [1.0], [1.02], kind="sum", elementwise=False, sum_of=of_terms(4096.0, 57))
    near = judged([1.01], [1.0], [1.02], kind="sum", elementwise=False, sum_of=of_terms(4096.0, 57))
    assert (far.verdict, near.verdict) == (Verdict.BEYOND_UPCAST, Verdict.INHERENT)


def test_without_terms_a_wider_run_must_itself_be_good():
    # 7.75 ULP, and float32 4.25: neither says what a careful kernel would have made of it.
    found = judged([1 + 7.75 * 2**-10], [1.0], [1 + 3 * 2**-10], kind="sum", elementwise=False)
    assert found.verdict is Verdict.INHERENT


def test_terms_that_exceed_float32_may_give_anything():
    more = {"elementwise": False, "kind": "sum", "format_": "bfloat16"}
    assert judged([np.nan], [np.inf], [np.inf], sum_of=of_terms(1e39, 9), **more).verdict is Verdict.INHERENT
    assert judged([np.nan], [np.inf], [np.inf], sum_of=of_terms(1e38, 9), **more).verdict is Verdict.CLASS_MISMATCH
    # An infinite input is no excuse: inf * 1 is infinite in any order.
    assert judged([np.nan], [np.inf], [np.inf], sum_of=of_terms(np.inf, 9), **more).verdict is Verdict.CLASS_MISMATCH
    # Nor is a single product that overflows.
    assert judged([np.nan], [np.inf], [np.inf], sum_of=of_terms(1e39, 2), **more).verdict is Verdict.CLASS_MISMATCH


def test_a_float32_sum_has_its_budget_in_ulp_of_what_its_terms_add_up_to():
    # ULP at 2**24 is 2: 16 of them are 32.
    more = {"format_": "float32", "kind": "sum", "elementwise": False, "sum_of": of_terms(2.0**24, 100)}
    assert judged([31.0], [1.0], [1.0], **more).verdict is Verdict.INHERENT
    assert judged([65.0], [1.0], [1.0], **more).verdict is Verdict.BEYOND_UPCAST


def test_an_error_of_a_saved_output_is_lost_beside_the_largest_term():
    # softmax_grad of (0, 0, 0) and (1, 1, 1): y = 1/3 is saved as 0.33325, and (1 - 3 y) y leaves 8.1e-5 where 0 is
    # right, whose ULP is float16's smallest; the terms y and y are 0.67, of ULP 2**-11.
    values = np.zeros((1, 3))
    more = {"kind": "sum", "elementwise": False}
    found = judged(np.full((1, 3), 8.1e-5), values, values, scale=np.full((1, 3), 0.67), **more)
    assert found.verdict is Verdict.NEAR_ZERO
    assert judged(np.full((1, 3), 8.1e-5), values, values, **more).verdict is Verdict.BEYOND_UPCAST
    assert judged(np.full((1, 3), 1e-3), values, values, scale=np.full((1, 3), 0.67), **more).verdict.is_fault


def test_a_result_without_elements_is_neither_right_nor_wrong():
    assert judged([], [], []).verdict is Verdict.EMPTY


def test_a_subnormal_that_is_handed_on_where_zero_is_right_for_zeros_is_flushed():
    # The sign of 2**-130 is 1; a comparison that takes it for 0 hands 2**-130 itself on.
    zeros = Reference(np.array([0.0]), np.zeros(1), np.zeros(1, bool), np.full(1, 2, np.uint8), 0.0)
    found = judged([2.0**-130], [1.0], [2.0**-130], "bfloat16", "exact", flushed_reference=zeros)
    assert found.verdict is Verdict.FLUSHED


def test_arange_and_linspace_have_one_budget_of_float32_rounded_once():
    assert budget_for("progression", "float16").ulp == 0.51
    assert judged([1.69921875], [1.7], [1.7001953125], kind="progression", elementwise=False).verdict.is_fault
