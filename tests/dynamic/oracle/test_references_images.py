"""References of pooling, convolution and interpolation: values worked by hand."""

import numpy as np
import pytest

from opscanner.dynamic.oracle.balls import from_balls, to_balls
from opscanner.dynamic.oracle.functions import grad
from opscanner.dynamic.oracle.references import convolution, interpolation, pooling

RAMP = np.arange(1.0, 10.0).reshape(1, 1, 3, 3)  # 1 2 3 / 4 5 6 / 7 8 9


def test_averages_count_padding_or_not():
    one = np.ones((1, 1, 2, 2))
    assert pooling.avg_pool(one, 3, 1, 1).tolist() == [[[[1, 1], [1, 1]]]]
    assert pooling.avg_pool(one, 3, 1, 1, count_padding=True)[0, 0, 0, 0] == 4 / 9
    assert pooling.avg_pool(one, 2, 1, divisor=8).tolist() == [[[[0.5]]]]


def test_the_first_of_equal_largest_elements_gets_the_gradient():
    x = np.array([[[[5.0, 5.0], [1.0, 5.0]]]])
    (found,) = grad(lambda x: pooling.max_pool(x, 2, 2), x, np.full((1, 1, 1, 1), 3.0))
    assert found.tolist() == [[[[3, 0], [0, 0]]]]


def test_overlapping_windows_add_their_gradients():
    (found,) = grad(lambda x: pooling.max_pool(x, 2, 1), RAMP * -1, np.ones((1, 1, 2, 2)))
    assert found.tolist() == [[[[1, 1, 0], [1, 1, 0], [0, 0, 0]]]]
    (mean,) = grad(lambda x: pooling.avg_pool(x, 2, 1), RAMP, np.ones((1, 1, 2, 2)))
    assert mean.tolist() == [[[[0.25, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 0.25]]]]


def test_padding_never_wins_and_nan_does():
    x = np.array([[[[-1.0, np.nan], [-2.0, -3.0]]]])
    found = pooling.max_pool(x, 1, 1, 0)
    np.testing.assert_array_equal(found, x)
    assert pooling.max_pool(np.full((1, 1, 1, 1), -9.0), 3, 1, 1).tolist() == [[[[-9]]]]


def test_adaptive_windows_overlap_where_sizes_do_not_divide():
    x = np.array([[[1.0, 2.0, 4.0]]])
    assert pooling.adaptive_avg_pool(x, 2).tolist() == [[[1.5, 3]]]  # 0..2 and 1..3
    assert pooling.adaptive_max_pool(x, 2).tolist() == [[[2, 4]]]


def test_columns_fold_back_to_counts():
    columns = pooling.unfold(np.ones((1, 1, 3, 3)), 2)
    assert columns.shape == (1, 4, 4)
    assert pooling.fold(columns, (3, 3), (2, 2)).tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[12, 16], [24, 28]]),  # 1 + 2 + 4 + 5 and so on
        ({"stride": 2, "padding": 1}, [[1, 5], [11, 28]]),
        ({"dilation": 2}, [[20]]),  # the corners
    ],
)
def test_a_filter_of_ones_sums_its_window(options, expected):
    found = convolution.conv(RAMP, np.ones((1, 1, 2, 2)), **options)
    assert found.tolist() == [[expected]]


def test_groups_of_channels_do_not_mix_and_products_cancel_exactly():
    x = np.array([[[[1e16]], [[1.0]], [[-1e16]], [[7.0]]]])
    w = np.ones((2, 2, 1, 1))
    assert convolution.conv(x, w, groups=2).ravel().tolist() == [1e16 + 1, -1e16 + 7]
    assert convolution.conv(x[:, :3], np.ones((1, 3, 1, 1))).ravel().tolist() == [1]


def test_a_transposed_convolution_is_the_gradient_of_the_input():
    rng = np.random.default_rng(5)
    x, w = rng.integers(-4, 5, (2, 4, 5, 5)).astype(float), rng.integers(-4, 5, (6, 2, 3, 3)).astype(float)
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    upstream = rng.integers(-4, 5, (2, 6, 3, 3)).astype(float)
    (expected,) = grad(lambda x: convolution.conv(x, w, None, **options), x, upstream)
    np.testing.assert_array_equal(convolution.conv_input_gradient(x.shape, w, upstream, **options), expected)


def test_transposing_spreads_each_element_over_the_filter():
    found = convolution.conv_transpose(np.array([[[1.0, 10.0]]]), np.array([[[1.0, 2.0, 3.0]]]), stride=2)
    assert found.tolist() == [[[1, 2, 13, 20, 30]]]


def test_linear_resizing_by_centers_and_by_corners():
    x = np.array([[[0.0, 8.0]]])
    assert interpolation.resize_linear(x, (4,)).tolist() == [[[0, 2, 6, 8]]]
    assert interpolation.resize_linear(x, (5,), True).tolist() == [[[0, 2, 4, 6, 8]]]


def test_weights_that_are_no_binary_fractions_are_exact_until_the_last_division():
    found = interpolation.resize_linear(to_balls(np.array([[[0.0, 3.0]]])), (4,), True)
    assert [float(v) for v in from_balls(found)[0].ravel()] == [0, 1, 2, 3]


def test_nearest_takes_the_element_below_or_by_centers():
    x = np.array([[[1.0, 2.0, 3.0]]])
    assert interpolation.resize_nearest(x, (2,)).tolist() == [[[1, 2]]]  # floor(0), floor(1.5)
    assert interpolation.resize_nearest(x, (2,), True).tolist() == [[[1, 3]]]  # floor(0.75), floor(2.25)


def test_cubic_weights_in_the_middle():
    # Parameter -3/4 at a distance of 1/2: -3/32, 19/32, 19/32, -3/32.
    x = np.array([[[0.0, 32.0, 0.0, 0.0]]])
    assert interpolation.resize_cubic(x, (7,), True)[0, 0, [1, 3, 5]].tolist() == [19 - 3 * 0, 19, -3]


def test_halving_with_a_wide_triangle():
    # The kernel reaches 2 to either side of 1 and of 3: weights 3 3 1 0 and 0 1 3 3, of 7.
    found = interpolation.resize_antialiased(np.array([[[0.0, 7.0, 0.0, 0.0]]]), (2,), "linear")
    assert found[0, 0].tolist() == [3, 1]


def test_sampling_beyond_the_edge_mixes_with_zero_or_repeats_the_edge():
    grid = np.array([[[[-1.0, -1.0]]]])  # the corner: half a pixel beyond the center of the first
    x = np.full((1, 1, 2, 2), 8.0)
    assert interpolation.grid_sample(x, grid, False).tolist() == [[[[2]]]]
    assert interpolation.grid_sample(x, grid, False, "border").tolist() == [[[[8]]]]
    assert interpolation.grid_sample(x, grid, True).tolist() == [[[[8]]]]
