"""References of losses: values worked by hand."""

import math

import numpy as np
import pytest

from opscanner.dynamic.oracle.functions import grad
from opscanner.dynamic.oracle.references import losses


def test_cross_entropy_of_equal_logits_is_the_logarithm_of_their_number():
    x = np.zeros((2, 8))
    np.testing.assert_allclose(losses.cross_entropy(x, np.array([0, 5])), [math.log(8)] * 2, rtol=1e-15)
    np.testing.assert_allclose(losses.cross_entropy_of_probabilities(x, np.eye(8)[:2]), [math.log(8)] * 2, rtol=1e-15)


def test_cross_entropy_of_a_sure_and_right_logit_keeps_its_digits():
    found = losses.cross_entropy(np.array([[50.0, 0.0]]), np.array([0]))
    assert found[0] == pytest.approx(math.exp(-50), rel=1e-15)


def test_its_gradient_is_softmax_less_the_target():
    (found,) = grad(lambda x: losses.cross_entropy(x, np.array([1])), np.zeros((1, 4)), np.ones(1))
    assert found.tolist() == [[0.25, -0.75, 0.25, 0.25]]


@pytest.mark.parametrize(
    ("x", "target", "expected"),
    [(0.0, 0.3, math.log(2)), (50.0, 1.0, math.exp(-50)), (-50.0, 0.0, math.exp(-50)), (-1000.0, 1.0, 1000.0)],
)
def test_binary_cross_entropy_of_logits(x, target, expected):
    found = losses.bce_with_logits(np.array([x]), np.array([target]))
    assert found[0] == pytest.approx(expected, rel=1e-15)


def test_an_infinite_logit_of_the_right_sign_costs_nothing():
    assert losses.bce_with_logits(np.array([np.inf]), np.array([1.0])).tolist() == [0]
    assert losses.bce_with_logits(np.array([np.inf]), np.array([0.0])).tolist() == [np.inf]


def test_binary_cross_entropy_of_probabilities_holds_logarithms_at_minus_100():
    found = losses.binary_cross_entropy(np.array([0.0, 0.5]), np.array([1.0, 1.0]))
    np.testing.assert_allclose(found, [100.0, math.log(2)], rtol=1e-15)


def test_the_two_halves_of_huber_and_smooth_l1_meet():
    x, t = np.array([1.0, 2.0, 5.0, -5.0]), np.zeros(4)
    assert losses.huber_loss(x, t, 2.0).tolist() == [0.5, 2, 8, 8]  # 2 * (5 - 1)
    assert losses.smooth_l1_loss(x, t, 2.0).tolist() == [0.25, 1, 4, 4]  # 5 - 1
    (slope,) = grad(lambda x: losses.huber_loss(x, t, 2.0), x, np.ones(4))
    assert slope.tolist() == [1, 2, 2, -2]


def test_divergence_counts_nothing_where_the_target_is_zero():
    found = losses.kl_div(np.array([-7.0, -1.0]), np.array([0.0, 1.0]))
    assert found.tolist() == [0, 1]


def test_margins():
    x = np.array([[0.5, 2.0, 1.0]])
    assert losses.multi_margin_loss(x, np.array([0]), 1.0)[0] == pytest.approx((2.5 + 1.5) / 3, rel=1e-15)
    triplet = losses.triplet_margin_loss(np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]]), 1.0, 0.0)
    assert triplet.tolist() == [4.0]  # 5 - 2 + 1


def test_distances():
    x, y = np.array([[3.0, 0.0]]), np.array([[0.0, 4.0], [3.0, 0.0]])
    assert losses.cdist(x, y).tolist() == [[5, 0]]
    assert losses.cosine_similarity(x, y[1:], 1, 1e-8).tolist() == [1]
    assert losses.cosine_similarity(np.array([[5.0]]), np.array([[4.0, 4.0]]), 1, 1e-8)[0] == pytest.approx(
        1, rel=1e-15
    )


def test_the_probability_of_one_label_in_two_frames_sums_three_alignments():
    # Even odds of blank and label: "aa", "-a", "a-" of four sequences, each 1/4.
    found = losses.ctc_loss(np.zeros((2, 1, 2)), np.array([[1]]), np.array([2]), np.array([1]), 0)
    assert found[0] == pytest.approx(-math.log(3 / 4), rel=1e-14)


def test_a_repeated_label_needs_a_blank_between():
    found = losses.ctc_loss(np.zeros((3, 1, 2)), np.array([[1, 1]]), np.array([3]), np.array([2]), 0)
    assert found[0] == pytest.approx(math.log(8), rel=1e-14)  # only "a-a"


def test_nan_is_no_margin():
    assert np.isnan(losses.margin_ranking_loss(np.array([np.nan]), np.zeros(1), np.ones(1), 1.0)).all()
