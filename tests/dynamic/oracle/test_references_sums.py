"""References whose results are sums: values worked by hand, where float64 alone would lose them."""

import numpy as np
import pytest
from flint import ctx

from opscanner.dynamic.oracle.balls import from_balls, to_balls
from opscanner.dynamic.oracle.functions import grad
from opscanner.dynamic.oracle.references import fourier, indexing, movement, normalization, reductions

ARITHMETICS = {
    "float64": lambda x: np.asarray(x, dtype=np.float64),
    "longdouble": lambda x: np.asarray(x, dtype=np.longdouble),
    "balls": lambda x: to_balls(np.asarray(x, dtype=np.float64)),
}


@pytest.fixture(params=ARITHMETICS)
def numbers(request):
    """Makes an array in one of the three arithmetics."""
    return ARITHMETICS[request.param]


def plain(values):
    """Float64 of a result in any arithmetic."""
    values = np.asarray(values)
    return from_balls(values)[0] if values.dtype == object else values.astype(np.float64)


@pytest.fixture(autouse=True)
def many_bits():
    before, ctx.prec = ctx.prec, 200
    yield
    ctx.prec = before


def test_a_sum_that_cancels_keeps_the_small_term():
    assert reductions.total(np.array([[1e16, 1.0, -1e16]]), 1).tolist() == [1.0]


def test_a_sum_of_arrays_is_rounded_once():
    one, tiny = np.array([1.0]), np.array([2.0**-53])
    # One after the other, 1 + 2**-53 is a tie and stays 1 twice; together they are 1 + 2**-52.
    assert reductions.add_n(one, tiny, tiny).tolist() == [1.0 + 2.0**-52]


def test_running_sums_are_each_exact():
    found = reductions.cumsum(np.array([[1e16, 1.0, -1e16, 2.0**-30]]), 1)
    assert found.tolist() == [[1e16, 1e16, 1.0, 1.0 + 2.0**-30]]


def test_running_sums_keep_infinities_where_they_are():
    found = reductions.cumsum(np.array([1.0, np.inf, 2.0, -np.inf, 3.0]), 0)
    np.testing.assert_array_equal(found, [1.0, np.inf, np.inf, np.nan, np.nan])


def test_running_sums_know_both_directions_and_the_exclusive_kind(numbers):
    x = numbers([1.0, 2.0, 4.0])
    assert plain(reductions.cumsum(x, 0)).tolist() == [1, 3, 7]
    assert plain(reductions.cumsum(x, 0, reverse=True)).tolist() == [7, 6, 4]
    assert plain(reductions.cumsum(x, 0, exclusive=True)).tolist() == [0, 1, 3]
    assert plain(reductions.cumsum(x, 0, exclusive=True, reverse=True)).tolist() == [6, 4, 0]


def test_the_derivative_of_a_running_sum_sums_from_the_other_end(numbers):
    (found,) = grad(lambda x: reductions.cumsum(x, 0), numbers([5.0, 6.0, 7.0]), numbers([1.0, 10.0, 100.0]))
    assert plain(found).tolist() == [111, 110, 100]


def test_the_derivative_of_a_product_is_the_product_of_the_others_beside_a_zero(numbers):
    (found,) = grad(lambda x: reductions.prod(x, 0), numbers([2.0, 0.0, 3.0]), numbers(1.0)[()])
    assert plain(found).tolist() == [0, 6, 0]
    (running,) = grad(lambda x: reductions.cumprod(x, 0), numbers([2.0, 0.0, 3.0]), numbers([1.0, 1.0, 1.0]))
    assert plain(running).tolist() == [1, 8, 0]  # 1 + 0 + 0; 2 + 2 * 3; 2 * 0


def test_equal_rows_have_no_variance_and_a_normalized_value_of_zero(numbers):
    x = numbers([[0.1] * 7])
    assert plain(reductions.var(x, 1)).tolist() == [0]
    assert plain(normalization.layer_norm(x, eps=1e-30)).tolist() == [[0] * 7]


def test_variance_divides_by_what_the_correction_leaves(numbers):
    x = numbers([[1.0, 2.0, 3.0, 6.0]])  # mean 3, squares 4 + 1 + 0 + 9
    assert plain(reductions.var(x, 1)).tolist() == [3.5]
    assert plain(reductions.var(x, 1, 2)).tolist() == [7.0]


def test_equal_largest_elements_share_the_derivative(numbers):
    (found,) = grad(lambda x: reductions.amax(x, 0), numbers([3.0, 1.0, 3.0]), numbers(1.0)[()])
    assert plain(found).tolist() == [0.5, 0, 0.5]


def test_logsumexp_near_zero_keeps_its_digits(numbers):
    # log(exp(0) + exp(-50)) = log1p(exp(-50)) = exp(-50) - exp(-100) / 2 + ...
    found = plain(reductions.logsumexp(numbers([0.0, -50.0]), 0))
    assert float(found) == pytest.approx(1.9287498479639177e-22, rel=1e-15)


def test_logsumexp_of_infinities_is_the_largest():
    assert reductions.logsumexp(np.array([-np.inf, -np.inf]), 0) == -np.inf
    assert reductions.logsumexp(np.array([1.0, np.inf]), 0) == np.inf


def test_a_dominant_logit_has_a_log_softmax_just_below_zero(numbers):
    found = plain(normalization.log_softmax(numbers([[0.0, -50.0]])))
    assert found[0, 0] == pytest.approx(-1.9287498479639177e-22, rel=1e-15)
    assert found[0, 1] == -50.0


def test_running_logarithms_of_sums_of_ones_are_logarithms_of_counts(numbers):
    found = plain(reductions.logcumsumexp(numbers([0.0, 0.0, 0.0, 0.0]), 0))
    np.testing.assert_allclose(found, np.log([1, 2, 3, 4]), rtol=1e-15)


def test_batch_norm_of_two_values_gives_plus_and_minus_one(numbers):
    # mean 2, population variance 4: (x - 2) / sqrt(4 + 0) = -1, 1; then weight 3, bias 5.
    x = numbers([[[0.0]], [[4.0]]])
    found = normalization.batch_norm(x, numbers([3.0]), numbers([5.0]), 0.0)
    assert plain(found).ravel().tolist() == [2, 8]


def test_the_gradient_of_a_normalization_is_orthogonal_to_constants(numbers):
    x, upstream = numbers([[1.0, 2.0, 4.0]]), numbers([[1.0, 0.0, 0.0]])
    (found,) = grad(lambda x: normalization.layer_norm(x), x, upstream)
    assert float(plain(found).sum()) == pytest.approx(0, abs=1e-15)
    # Over the standard deviation, less the projections on 1 and on the result: mean 7/3, variance 14/9.
    deviation = np.sqrt(14 / 9)
    assert plain(found)[0, 0] == pytest.approx((1 - 1 / 3 - (16 / 9) / (3 * 14 / 9)) / deviation, rel=1e-14)


def test_root_mean_square_of_three_and_four(numbers):
    found = plain(normalization.rms_norm(numbers([[3.0, 4.0]]), None, 0.0))  # sqrt(25 / 2)
    np.testing.assert_allclose(found, [[3 / np.sqrt(12.5), 4 / np.sqrt(12.5)]], rtol=1e-15)


def test_local_response_sums_squares_of_near_channels_alone(numbers):
    x = numbers([1.0, 2.0, 3.0]).reshape(1, 3)
    found = plain(normalization.local_response_norm(x, 1, 4.0, 1.0, 1.0))  # sums 5, 14, 13
    np.testing.assert_allclose(found, [[1 / 9, 2 / 18, 3 / 17]], rtol=1e-15)


def test_updates_of_one_place_are_summed_exactly_with_what_was_there():
    x, updates = np.array([[1e16], [0.0]]), np.array([[1.0], [-1e16], [1.0]])
    assert indexing.index_add(x, np.array([0, 0, 0]), updates).tolist() == [[2.0], [0.0]]


def test_each_way_to_reduce_updates(numbers):
    x, updates, places = numbers([[2.0], [5.0]]), numbers([[3.0], [4.0]]), np.array([0, 0])
    found = {how: plain(indexing.index_reduce(x, places, updates, how)).ravel().tolist() for how in indexing._REDUCERS}
    assert found == {"sum": [9, 5], "mean": [3, 5], "prod": [24, 5], "amax": [4, 5], "amin": [2, 5]}
    left_out = indexing.index_reduce(x, places, updates, "prod", include_self=False)
    assert plain(left_out).ravel().tolist() == [12, 5]


def test_empty_segments_are_zero_and_products_of_nothing_one(numbers):
    x, segments = numbers([[1.0], [2.0], [4.0]]), np.array([2, 0, 2])
    assert plain(indexing.segment_sum(x, segments, 4)).ravel().tolist() == [2, 0, 5, 0]
    assert plain(indexing.segment_mean(x, segments, 4)).ravel().tolist() == [2, 0, 2.5, 0]
    assert plain(indexing.segment_prod(x, segments, 4)).ravel().tolist() == [2, 1, 4, 1]


def test_a_bag_hands_its_gradient_down_to_each_row_it_took(numbers):
    upstream, indices, bags = numbers([[6.0], [1.0]]), np.array([1, 1, 0, 2]), np.array([0, 0, 0, 1])
    found = indexing.embedding_bag_gradient(upstream, indices, bags, 4, "mean")
    assert plain(found).ravel().tolist() == [2, 4, 1, 0]


def test_bounds_count_equal_elements_on_their_own_side():
    rows, values = np.array([[1.0, 2.0, 2.0, 3.0]]), np.array([[2.0, 0.0, 9.0]])
    assert indexing.lower_bound(rows, values).tolist() == [[1, 0, 4]]
    assert indexing.upper_bound(rows, values).tolist() == [[3, 0, 4]]


def test_reflections_with_and_without_the_edge():
    x = np.array([1.0, 2.0, 3.0])
    assert movement.mirror_pad(x, [(2, 2)]).tolist() == [3, 2, 1, 2, 3, 2, 1]
    assert movement.mirror_pad(x, [(2, 2)], edge=True).tolist() == [2, 1, 1, 2, 3, 3, 2]


def test_matrices_with_a_diagonal_off_the_middle(numbers):
    found = plain(movement.diagonal_matrix(numbers([1.0, 2.0]), 1))
    assert found.tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    assert plain(movement.diagonal(movement.diagonal_matrix(numbers([1.0, 2.0]), -1), -1)).tolist() == [1, 2]


def test_the_largest_are_listed_with_the_first_of_equals():
    values, places = movement.top_k(np.array([[1.0, 7.0, 7.0, 3.0]]), 3)
    assert values.tolist() == [[7, 7, 3]]
    assert places.tolist() == [[1, 2, 3]]


def test_quantizing_rounds_ties_to_even_and_stays_inside_the_range():
    x = np.array([0.25, 0.75, -9.0, 9.0])  # steps of 1/2: 0.5 and 1.5 steps are ties
    assert movement.quantized(x, 0.5, 2, 0, 5).tolist() == [0, 1, -1, 1.5]
    assert movement.quantized_gradient(x, np.ones(4), 0.5, 2, 0, 5).tolist() == [1, 1, 0, 0]


def test_the_transform_of_an_impulse_is_flat_and_back():
    found = fourier.real_transform(np.array([1.0, 0.0, 0.0, 0.0]))
    assert found.tolist() == [1, 1, 1]
    assert fourier.transform(fourier.transform(np.array([1j, 2.0])), inverse=True).tolist() == [1j, 2]
