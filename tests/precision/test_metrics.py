"""Summaries of errors: hand-worked small cases, and each figure against its own definition on random ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opscanner.errors import UsageError
from opscanner.precision.metrics import QUANTILES, summarize_errors
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import Mismatch, mismatch_classes, ulp_error, ulp_of

ULP_AT_1 = 2.0**-10  # float16
INF, NAN = math.inf, math.nan


def test_a_row_worked_by_hand() -> None:
    # float16: ULP is 2**-10 at 1, 2**-9 at 2, 2**-24 at 0, 2**-11 at 0.5
    got = [1 + ULP_AT_1, 2.0, 2.0**-24, 0.5]
    reference = [1.0, 2 + 2.0**-10, 0.0, 0.5]
    summary = summarize_errors(got, reference, "float16")
    assert summary.count == 4
    assert summary.max_ulp == 1.0
    assert summary.mean_ulp == (1 + 0.5 + 1 + 0) / 4
    assert summary.quantiles_ulp == {0.5: 0.5, 0.9: 1.0, 0.99: 1.0, 0.999: 1.0}
    assert summary.over_1_ulp == 0
    assert summary.max_absolute_error == 2.0**-10
    assert summary.max_relative_error == 2.0**-10
    assert summary.max_scaled_ulp == 0.5  # 2**-10 in units of 2**-9, the ULP of the row's 2.001
    assert (summary.worst_index, summary.worst_expected, summary.worst_got) == (0, 1.0, 1 + ULP_AT_1)
    assert summary.within(1.0)
    assert not summary.within(0.99)


def test_kinds_of_mismatch_are_counted_and_never_pass() -> None:
    got = [NAN, INF, -1.0, 0.0, -0.0, -INF, INF, NAN]
    reference = [1.0, 1.0, 1.0, 2.0**-20, 0.0, INF, INF, NAN]
    summary = summarize_errors(got, reference, "float16")
    assert summary.count == 8
    assert summary.nan_mismatches == 1
    assert summary.infinity_mismatches == 2
    assert summary.sign_mismatches == 2
    assert summary.flushed_subnormals == 1
    assert summary.zero_sign_mismatches == 1
    assert summary.class_mismatches == 2  # NaN, and the opposite infinities; one-sided infinity has an error
    assert summary.max_ulp == (65536 - 1) / ULP_AT_1
    assert summary.over_1_ulp == 5  # NaN, inf, sign, flushed (16 ULP), opposite infinities
    assert summary.quantiles_ulp[0.9] == INF
    assert summary.worst_index == 0
    assert summary.worst_expected == 1.0
    assert math.isnan(summary.worst_got)
    assert summary.max_absolute_error == 2.0  # between finite numbers only
    assert not summary.within(INF)


def test_undecided_elements_are_left_out_and_counted() -> None:
    got = [1.0, NAN, 5.0, 1 + ULP_AT_1]
    reference = [1.0, 1.0, 1e4, 1.0]
    summary = summarize_errors(got, reference, "float16", undecided=[False, True, True, False])
    assert (summary.count, summary.undecided) == (2, 2)
    assert summary.nan_mismatches == 0
    assert summary.worst_index == 3
    assert summary.max_ulp == summary.max_scaled_ulp == 1.0  # the row's scale is 1, not 1e4


def test_nothing_compared_never_passes() -> None:
    for summary in (summarize_errors([], [], "float16"), summarize_errors([1.0], [1.0], "float16", undecided=[True])):
        assert summary.count == 0
        assert math.isnan(summary.max_ulp)
        assert math.isnan(summary.quantiles_ulp[0.5])
        assert summary.worst_index == -1
        assert not summary.within(INF)


def test_errors_are_scaled_by_the_row_along_the_last_axis() -> None:
    got = np.array([[8.0, 2.0**-10], [2.0**-20, 2.0**-10]])
    reference = np.array([[8.0, 0.0], [0.0, 2.0**-10]])
    summary = summarize_errors(got, reference, "float16")
    assert summary.max_ulp == 2.0**14
    # Rows: 2**-10 / ulp(8) = 2**-10 / 2**-7; 2**-20 / ulp(2**-10) = 2**-20 / 2**-20
    assert summary.max_scaled_ulp == 1.0


def test_a_low_part_counts() -> None:
    summary = summarize_errors([1.0], [1.0], "float64", low=[2.0**-54])
    assert summary.max_ulp == 0.25
    assert summary.max_absolute_error == 2.0**-54


@pytest.mark.parametrize("shape", [(), (1000,), (20, 50), (4, 5, 50)])
def test_figures_are_those_of_their_definitions(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(6)
    reference = rng.standard_normal(shape)
    got = round_to_format(reference + 1e-3 * rng.standard_normal(shape), "float16")
    summary = summarize_errors(got, reference, "float16")
    errors = ulp_error(got, reference, "float16")
    assert summary.max_ulp == errors.max()
    assert summary.mean_ulp == pytest.approx(errors.mean(), rel=1e-12)
    for share in QUANTILES:
        assert summary.quantiles_ulp[share] == np.quantile(errors, share, method="inverted_cdf")
    assert summary.over_1_ulp == (errors > 1).sum()
    assert summary.max_absolute_error == np.abs(got - reference).max()
    assert summary.max_relative_error == (np.abs(got - reference) / np.abs(reference)).max()
    assert summary.worst_index == errors.argmax()
    assert summary.worst_got == got.reshape(-1)[summary.worst_index]
    row = np.abs(reference).max(axis=-1, keepdims=True) if shape else np.abs(reference)
    scaled = np.abs(got - reference) / 2.0 ** (np.maximum(np.floor(np.log2(row)), -14) - 10)
    assert summary.max_scaled_ulp == pytest.approx(scaled.max(), rel=1e-12)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="differ in shape"):
        summarize_errors(np.ones(3), np.ones(2), "float16")
    with pytest.raises(UsageError, match="differ in shape"):
        summarize_errors(np.ones(3), np.ones(3), "float16", undecided=[True, False])


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float32", "float64"])
@pytest.mark.parametrize("shape", [(70_000,), (3, 33_000), (9_000, 5), (40, 1)])
@pytest.mark.parametrize("parts", ["plain", "low", "undecided"])
def test_blocks_give_what_all_elements_at_once_give(name: str, shape: tuple[int, ...], parts: str) -> None:
    rng = np.random.default_rng(9)
    reference = np.ldexp(rng.standard_normal(shape), rng.integers(-9, 9, shape))
    low = reference * 2.0**-55 if parts == "low" else None
    got = round_to_format(reference * (1 + 2.0**-9 * rng.standard_normal(shape)), name)
    specials = np.array([NAN, INF, -INF, 0.0, -0.0, 2.0**-24, 1e5, -1e5, 464.0, 448.0, 1e39, 2.0**-1070])
    for array, low_too in ((got, False), (reference, True)):
        at = rng.random(shape) < 0.02
        drawn = rng.choice(specials, shape)
        array[at] = drawn[at] if array is reference else round_to_format(drawn, name)[at]
        if low is not None and low_too:
            low[at] = np.where(np.abs(drawn) == 464.0, 1e-20, 0.0)[at]
    undecided = rng.random(shape) < 0.1 if parts == "undecided" else None
    kept = np.ones(shape, bool) if undecided is None else ~undecided
    summary = summarize_errors(got, reference, name, low, undecided)

    errors, flags = ulp_error(got, reference, name, low), mismatch_classes(got, reference, name, low)
    assert summary.count == kept.sum()
    assert summary.undecided == (~kept).sum()
    assert summary.max_ulp == np.nanmax(errors[kept])
    assert summary.class_mismatches == np.isnan(errors[kept]).sum() > 0 or shape == (40, 1)
    assert summary.over_1_ulp == (~(errors[kept] <= 1)).sum()
    for kind, count in (
        (Mismatch.NAN, summary.nan_mismatches),
        (Mismatch.INFINITY, summary.infinity_mismatches),
        (Mismatch.SIGN, summary.sign_mismatches),
        (Mismatch.FLUSHED, summary.flushed_subnormals),
        (Mismatch.ZERO_SIGN, summary.zero_sign_mismatches),
    ):
        assert count == (flags[kept] & kind != 0).sum(), kind
    with np.errstate(all="ignore"):
        plain = np.abs(got - reference - (0.0 if low is None else low))
        plain[~(np.isfinite(got) & np.isfinite(reference) & kept)] = NAN
        assert summary.max_absolute_error == np.nanmax(plain)
        assert summary.max_relative_error == np.nanmax(np.where(reference == 0, NAN, plain / np.abs(reference)))
        row = np.where(np.isfinite(reference) & kept, np.abs(reference), 0).max(axis=-1, keepdims=True)
        scaled = errors * (ulp_of(reference, name, low) / ulp_of(row, name))
        assert summary.max_scaled_ulp == pytest.approx(np.nanmax(scaled[kept]), rel=1e-9)
