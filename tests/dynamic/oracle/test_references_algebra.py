"""References of products, factorizations, recurrent cells, optimizers and creation: values worked by hand."""

import math

import numpy as np
import pytest
from flint import arb, ctx

from opscanner.dynamic.oracle.balls import from_balls, to_balls
from opscanner.dynamic.oracle.functions import NoSecondOpinion
from opscanner.dynamic.oracle.references import creation, fourier, linear, optimizers

A = np.array([[0.0, 2.0], [3.0, 4.0]])  # needs a pivot; determinant -6


def test_a_determinant_and_its_logarithm():
    assert linear.determinant(A) == -6
    sign, size = linear.log_determinant(A)
    assert (sign, size) == (-1, pytest.approx(math.log(6), rel=1e-15))


def test_a_system_and_the_inverse():
    assert linear.solve(A, np.array([[2.0], [7.0]])).tolist() == [[1], [1]]
    np.testing.assert_allclose(linear.inverse(np.stack([A, np.eye(2)])), [[[-2 / 3, 1 / 3], [0.5, 0]], np.eye(2)])
    assert linear.solve_lower(np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([[2.0], [9.0]])).tolist() == [[1], [2]]


def test_factors():
    x = np.array([[4.0, 2.0], [2.0, 10.0]])
    assert linear.cholesky(x).tolist() == [[2, 0], [1, 3]]
    assert linear.lu_without_pivots(x).tolist() == [[4, 2], [0.5, 9]]
    assert linear.qr_upper(np.array([[3.0, 1.0], [4.0, 2.0]])).tolist() == [[5, 2.2], [0, pytest.approx(0.4)]]


def test_a_line_through_three_points():
    x, b = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([[0.0], [2.0], [1.0]])
    np.testing.assert_allclose(linear.least_squares(x, b), [[0.5], [0.5]], rtol=1e-14)


def test_the_exponential_of_a_rotation_is_its_sine_and_cosine():
    before, ctx.prec = ctx.prec, 200
    try:
        found = linear.matrix_exponential(to_balls(np.array([[0.0, 1.0], [-1.0, 0.0]])))
        assert found[0, 1].value.overlaps(arb(1).sin())
        assert found[0, 0].value.overlaps(arb(1).cos())
    finally:
        ctx.prec = before


def test_attention_of_equal_scores_is_the_mean_and_causal_attention_looks_back():
    q, k, v = np.zeros((1, 2, 1)), np.ones((1, 2, 1)), np.array([[[2.0], [4.0]]])
    assert linear.attention(q, k, v, 1.0).tolist() == [[[3], [3]]]
    assert linear.attention(q, k, v, 1.0, causal=True).tolist() == [[[2], [3]]]


def test_cells_without_weights_forget_half():
    x, h, c = np.zeros((1, 1)), np.array([[4.0]]), np.array([[6.0]])
    out, state = linear.lstm_cell(x, h, c, np.zeros((4, 1)), np.zeros((4, 1)), np.zeros(4))
    assert state.tolist() == [[3]]
    assert out[0, 0] == pytest.approx(0.5 * math.tanh(3), rel=1e-15)
    assert linear.gru_cell(x, h, np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(3)).tolist() == [[2]]
    found = linear.gru_block_cell(x, h, np.zeros((2, 2)), np.zeros((2, 1)), np.zeros(2), np.zeros(1))
    assert found.tolist() == [[2]]


def one(*values):
    return [np.array([float(value)]) for value in values]


def test_steps_of_descent():
    p, g, m = one(1, 2, 4)
    assert optimizers.sgd(p, g, 0.5, 1.0).tolist() == [-0.5]  # 1 - (2 + 1) / 2
    assert [one.tolist() for one in optimizers.sgd_momentum(p, g, m, 0.5, 0.25)] == [[-0.5], [3]]
    assert optimizers.sgd_momentum(p, g, m, 0.5, 0.25, True)[0].tolist() == [-0.375]  # 2 + 3 / 4
    assert optimizers.proximal_descent(p, g, 0.25, 1.0, 4.0).tolist() == [0.125]  # (0.5 - 0.25) / 2


def test_a_first_step_of_adam_has_the_length_of_the_rate():
    p, g, m, v = one(1, 3, 0, 0)
    found = optimizers.adam(p, g, m, v, 1, 0.25, (0.5, 0.75), 0.0)
    assert [float(value[0]) for value in found] == [0.75, 1.5, 2.25]
    largest = optimizers.adam(p, g, m, v, 1, 0.25, (0.5, 0.75), 0.0, largest=one(9)[0])
    assert float(largest[0][0]) == pytest.approx(1 - 0.25 * 3 / 6, rel=1e-15)
    assert optimizers.adam(p, g, m, v, 1, 0.25, (0.5, 0.75), 0.0, decay=1.0, decoupled=True)[0].tolist() == [0.5]


def test_steps_by_root_mean_squares():
    p, g = one(1, 4)
    assert optimizers.adagrad(p, g, one(9)[0], 0.5, 0.0)[0].tolist() == [0.6]  # 1 - 2 / 5
    assert optimizers.rmsprop(p, g, one(16)[0], one(2)[0], 0.25, 0.5, 0.5)[0].tolist() == [0.5]  # 1 + 1
    assert optimizers.adadelta(p, g, one(16)[0], one(4)[0], 1.0, 0.5, 0.0).tolist() == [-1]
    assert optimizers.adamax(p, g, one(0)[0], one(8)[0], 1, 0.5, (0.5, 0.5)).tolist() == [0.5]


def test_a_change_of_sign_halts_and_shrinks_the_step():
    p, size = one(1, 0.5)
    grown = optimizers.rprop(p, *one(2, 3), size, (0.5, 1.5), (0.0, 50.0))
    turned = optimizers.rprop(p, *one(2, -3), size, (0.5, 1.5), (0.0, 50.0))
    assert (grown.tolist(), turned.tolist()) == ([0.25], [1])


def test_equal_steps_are_exact_fractions_rounded_once():
    assert creation.arange(0.0, 1.0, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert creation.linspace(-3.0, 7.0, 6).tolist() == [-3, -1, 1, 3, 5, 7]
    assert creation.linspace(0.0, 1.0, 4)[1] == 1 / 3
    assert creation.logspace(0.0, 2.0, 3, 10.0).tolist() == [1, 10, 100]
    assert creation.window("hann", 4).tolist() == pytest.approx([0, 0.5, 1, 0.5], abs=2e-16)


def test_an_inner_product_in_balls_knows_its_value():
    found = linear.vector_dot(to_balls(np.array([0.5, 2.0])), to_balls(np.array([4.0, 0.25])))
    assert from_balls(found)[0] == 2.5


def test_an_infinite_parameter_without_decay_leaves_the_moments_alone():
    _, m, _ = optimizers.adam(np.array([np.inf]), *one(1, 0, 0), 1, 0.25, (0.5, 0.75), 0.0)
    assert m.tolist() == [0.5]


def test_singular_values_and_eigenvalues():
    # [[3, 0], [4, 5]]: the squares add up to 50 and multiply to 15**2, so 45 and 5. [[2, 1], [1, 2]]: 1 and 3.
    x = np.stack([np.array([[3.0, 0.0], [4.0, 5.0]]), np.array([[2.0, 1.0], [1.0, 2.0]])])
    np.testing.assert_allclose(linear.singular_values(x)[0], [math.sqrt(45), math.sqrt(5)], rtol=1e-15)
    np.testing.assert_allclose(linear.eigenvalues_of_positive(x)[1], [1, 3], rtol=1e-15)
    np.testing.assert_allclose(linear.singular_values(x[0].astype(np.longdouble))[1] ** 2, 5, rtol=1e-17)


def test_angles_moduli_and_the_way_back_from_a_transform():
    x = np.array([3 + 4j, complex(-1.0, -0.0), 3e200 + 4e200j])
    np.testing.assert_allclose(fourier.modulus(x), [5, 1, 5e200])
    assert fourier.angle_of(x)[1] == -math.pi
    # The transform of [1, 2, 3, 2] is [8, -2, 0, -2], of which the first three say all.
    np.testing.assert_allclose(fourier.inverse_real_transform(np.array([8, -2, 0j]), (4,)), [1, 2, 3, 2])
    with pytest.raises(NoSecondOpinion):
        fourier.modulus(np.array([to_balls(np.array([1.0]))[0]]))
