"""The three tiers: what each decides, what stays undecided, what is kept between runs."""

import time

import numpy as np
import pytest

from opscanner.dynamic.oracle import evaluate_reference, refine
from opscanner.dynamic.oracle.oracle import AGREEMENT_ULP
from opscanner.errors import OpscannerError
from opscanner.precision.rounding import finite_values

HALF = finite_values("float16")


def test_where_float64_and_longdouble_agree_no_ball_is_asked():
    (found,) = evaluate_reference("exp(x)", {"x": np.array([1.0, -2.0])}, "float32", elementwise=True)
    assert found.tier.tolist() == [2, 2]
    np.testing.assert_allclose(found.values, [2.718281828459045, 0.1353352832366127], rtol=1e-15)
    assert 0 < found.bound_ulp <= AGREEMENT_ULP


def test_cancellation_that_float64_does_not_survive_is_decided_by_balls():
    # (1 + x) - 1 is x; float64 keeps no digit of 2**-60 and longdouble few of 2**-60 + 2**-70.
    x = np.array([2.0**-60 + 2.0**-70, 0.5])
    (found,) = evaluate_reference("(1 + x) - 1", {"x": x}, "bfloat16", elementwise=True)
    assert found.values.tolist() == x.tolist()
    assert found.tier.tolist() == [3, 2]
    assert not found.undecided.any()


def test_a_zero_that_both_give_where_everything_cancels_is_found():
    x = np.array([2.0**-70, 0.0])
    (found,) = evaluate_reference("(1 + x) - 1", {"x": x}, "float32", elementwise=True)
    assert found.values.tolist() == [2.0**-70, 0.0]


def test_what_400_bits_cannot_say_is_undecided():
    (found,) = evaluate_reference("(1 + x) - 1", {"x": np.array([1e-150, 0.5])}, "float64", elementwise=True)
    assert found.undecided.tolist() == [True, False]


def test_a_choice_between_numbers_that_may_be_equal_is_undecided():
    # (x / 3) * 3 is x, which no ball can prove: only the element where the choice matters is lost.
    expression = "np.where((x / 3) * 3 - x >= 0 * x, (1 + y) - 1, y)"
    inputs = {"x": np.array([1.0, 2.0]), "y": np.array([2.0**-70, 0.5])}
    (found,) = evaluate_reference(expression, inputs, "float32", elementwise=True)
    assert found.undecided.tolist() == [True, False]


def test_beyond_the_limit_untrusted_elements_are_undecided():
    x = np.full(10, 2.0**-60)
    (found,) = evaluate_reference("(1 + x) - 1", {"x": x}, "float32", elementwise=True, decide_limit=4)
    assert found.undecided.sum() == 6


def test_an_expression_that_is_not_elementwise_is_recomputed_whole():
    x = np.array([[1.0, 2.0**-60 + 2.0**-70, -1.0], [1.0, 2.0, 3.0]])
    (found,) = evaluate_reference("(x[:, 0] + x[:, 1]) + x[:, 2]", {"x": x}, "float32", elementwise=False)
    assert found.values.tolist() == [2.0**-60 + 2.0**-70, 6.0]
    assert set(found.tier.tolist()) == {3}
    (found,) = evaluate_reference(
        "(x[:, 0] + x[:, 1]) + x[:, 2]", {"x": x}, "float32", elementwise=False, decide_limit=5
    )
    assert found.undecided.tolist() == [True, False]


def test_several_outputs_and_broadcasting():
    inputs = {"x": np.array([[1.0], [2.0]]), "y": np.array([4.0, 8.0, 2.0**-60])}
    sums, products = evaluate_reference("(x + y, x * y)", inputs, "float32", elementwise=True)
    assert sums.values.tolist() == [[5.0, 9.0, 1.0], [6.0, 10.0, 2.0]]
    assert sums.low.tolist() == [[0, 0, 2.0**-60], [0, 0, 2.0**-60]]
    assert products.values.tolist() == [[4.0, 8.0, 2.0**-60], [8.0, 16.0, 2.0**-59]]


def test_the_sign_of_zero_and_of_an_infinity_that_zero_gives_stay():
    # Balls know no -0. digamma's pole: from the left +infinity, from the right -infinity.
    zeros = np.array([0.0, -0.0])
    (found,) = refine("digamma(x)", {"x": zeros}, "float32", np.array([0, 1]))
    assert found.values.tolist() == [-np.inf, np.inf]
    (found,) = refine("x * 2.0", {"x": zeros}, "float32", np.array([0, 1]))
    assert np.signbit(found.values).tolist() == [False, True]


def test_refining_gives_the_balls_answer_with_its_radius():
    x = np.linspace(-4, 4, 9).reshape(3, 3)
    (found,) = refine("erf(x)", {"x": x}, "float32", np.array([0, 5]))
    assert found.tier.tolist() == [3, 3]
    # erf(-4), erf(1) to 20 digits: DLMF 7.2 by Wolfram's tables, A007680's decimal expansions.
    np.testing.assert_allclose(found.values, [-0.99999998458274209972, 0.84270079294971486934], rtol=1e-16)
    assert found.bound_ulp < 1e-12


def test_integers_and_booleans_are_exact():
    ints, bools = evaluate_reference("(x // 2, x > 2)", {"x": np.array([1, 5])}, "float16", elementwise=True)
    assert ints.values.tolist() == [0, 2]
    assert bools.values.tolist() == [0, 1]
    assert ints.tier.tolist() == [1, 1]


def test_complex_values_have_two_tiers():
    z = np.array([1 + 2j, -3j])
    (found,) = evaluate_reference("z * z", {"z": z}, "float32", elementwise=True)
    assert found.values.tolist() == [-3 + 4j, -9]


def test_what_rounds_to_infinity_is_trusted_however_far_out():
    (found,) = evaluate_reference("exp(x)", {"x": np.array([100.0, 1000.0, 60000.0])}, "float16", elementwise=True)
    assert not found.undecided.any()
    assert (found.values > 65536).all()


def test_results_are_kept_until_an_input_changes(tmp_path):
    x = HALF[:1000]
    (first,) = evaluate_reference("lgamma(x)", {"x": x}, "float16", elementwise=True, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    again = evaluate_reference("lgamma(x)", {"x": x}, "float16", elementwise=True, cache=tmp_path)[0]
    for name in ("values", "low", "undecided", "tier"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert again.bound_ulp == first.bound_ulp
    evaluate_reference("lgamma(x)", {"x": -x}, "float16", elementwise=True, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    file.write_bytes(file.read_bytes()[:100])  # a run that was killed while writing
    again = evaluate_reference("lgamma(x)", {"x": x}, "float16", elementwise=True, cache=tmp_path)[0]
    np.testing.assert_array_equal(first.values, again.values)


def test_an_unknown_name_is_said_with_the_expression():
    with pytest.raises(OpscannerError, match=r"'expp\(x\)'.*expp"):
        evaluate_reference("expp(x)", {"x": np.array([1.0])}, "float16", elementwise=True)


@pytest.mark.parametrize("expression", ["exp(x)", "tanh(x)", "log1p(x)", "sigmoid(x)"])
def test_all_values_of_float16_take_tens_of_milliseconds(expression):
    evaluate_reference(expression, {"x": HALF}, "float16", elementwise=True)
    took = []
    for _ in range(5):
        start = time.process_time()
        evaluate_reference(expression, {"x": HALF}, "float16", elementwise=True)
        took.append(time.process_time() - start)
    assert min(took) < 0.1  # 13 to 20 ms measured
