"""Errors in ULP against exact rationals: every 16-bit value, and drawn ones of the wider formats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscanner.precision.metrics import summarize_errors
from opscanner.precision.rounding import finite_values, from_bits, round_to_format
from opscanner.precision.ulp import Mismatch, mismatch_classes, ulp_distance, ulp_error, ulp_of
from tests.precision.exact import SHAPES, TYPES, error, ulp

LARGEST_FLOAT64 = np.finfo(np.float64).max


def agrees(got: float, expected: float) -> bool:
    """Equal up to the roundings that the function admits, NaN and zero exactly."""
    if math.isnan(expected) or expected == 0:
        return math.isnan(got) if math.isnan(expected) else got == 0
    return abs(got - expected) <= 2.0**-50 * expected


def exact_errors(got: np.ndarray, reference: np.ndarray, name: str) -> np.ndarray:
    """The definition in whole numbers of 2**-200, for float16 and bfloat16: error() for arrays."""
    precision, emin, largest, _ = SHAPES[name]
    scale = 1 << 200
    emax = int(largest).bit_length() - 1
    beyond = scale << (emax + 1)
    threshold = beyond - (scale << (emax - precision))

    def whole(value: float) -> int:
        numerator, denominator = value.as_integer_ratio()
        return numerator * (scale // denominator)

    def one(g: float, r: float) -> float:
        if g != g or r != r:
            return 0.0 if g != g and r != r else math.nan
        exact_r = math.copysign(1, r) * beyond if math.isinf(r) else whole(r)
        exact_r = int(exact_r)
        over = abs(exact_r) >= threshold
        if over:
            exact_r = beyond if r > 0 else -beyond
        if math.isinf(g):
            if over:
                return 0.0 if (g > 0) == (r > 0) else math.nan
            exact_g = beyond if g > 0 else -beyond
        else:
            exact_g = whole(g)
        exponent = min(max(abs(exact_r).bit_length() - 1 - 200, emin), emax)
        return abs(exact_g - exact_r) / (1 << (exponent - precision + 1 + 200))

    return np.array([one(g, r) for g, r in zip(got.tolist(), reference.tolist(), strict=True)])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_16_bit_result_against_its_neighbourhood_and_the_limits(name: str) -> None:
    every = from_bits(np.arange(1 << 16), name)
    finite = np.where(np.isfinite(every), every, 1.0)
    up = np.nextafter(TYPES[name](0) + finite.astype(TYPES[name]), TYPES[name](np.inf)).astype(np.float64)
    up = np.where(np.isfinite(up), up, finite)
    _, _, largest, _ = SHAPES[name]
    half = float(ulp(largest, name)) / 2
    references = [
        every, finite, up, finite + (up - finite) / 2, finite + (up - finite) / 3, -finite,
        *(np.full(every.shape, limit) for limit in (
            0.0, -0.0, math.inf, -math.inf, math.nan,
            float(ulp(Fraction(0), name)), -float(ulp(Fraction(0), name)) / 2, 2.0 ** SHAPES[name][1],
            float(largest) + half, -float(largest) - half, math.nextafter(float(largest) + half, 0), 1e300, 2.0**-140,
        )),
    ]  # fmt: skip
    for reference in references:
        got = ulp_error(every, reference, name)
        expected = exact_errors(every, reference, name)
        wrong = ~((got == expected) | (np.isnan(got) & np.isnan(expected)))
        wrong &= ~(np.abs(got - expected) <= 2.0**-50 * expected)
        assert list(zip(every[wrong][:5], reference[wrong][:5], got[wrong][:5], expected[wrong][:5], strict=True)) == []


@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith(("float8", "float4"))])
def test_every_8_bit_result_against_every_value_and_tie(name: str) -> None:
    finite = finite_values(name)
    *_, largest, overflow = SHAPES[name]
    top = float(largest + ulp(largest, name) / 2)
    marks = [
        top,
        math.nextafter(top, 0),
        math.nextafter(top, 1e9),
        1e300,
        2.0**-1070,
        math.inf,
        math.nan,
        finite[-1] * 2,
    ]
    references = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, finite * 1.0001, marks, np.negative(marks)])
    kinds = {"inf": [math.inf, -math.inf, math.nan], "nan": [math.nan], "largest": []}[overflow]
    results = np.concatenate([finite, kinds])
    got = ulp_error(results[:, None], references, name)
    for i in range(0, results.size, 7):
        for j, reference in enumerate(references.tolist()):
            exact = Fraction(reference) if math.isfinite(reference) else reference
            expected = error(float(results[i]), exact, name)
            assert agrees(float(got[i, j]), expected), (results[i], reference, got[i, j], expected)


def values_of(name: str) -> st.SearchStrategy[float]:
    """Values of the format, its limits often among them."""
    _, emin, largest, _ = SHAPES[name]
    tiny = ulp(Fraction(0), name)
    limits = [0.0, -0.0, math.inf, -math.inf, math.nan, largest, -largest, tiny, -tiny, Fraction(2) ** emin]
    drawn = st.floats(-float(largest), float(largest)) | st.floats(-4, 4)
    return (st.sampled_from([float(limit) for limit in limits]) | drawn).map(lambda x: float(round_to_format(x, name)))


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_errors_against_pairs_are_exact(name: str, data: st.DataObject) -> None:
    got = data.draw(values_of(name))
    if SHAPES[name][3] != "inf" and math.isinf(got):
        return
    near = st.sampled_from([0, 1, -1, 2.0**-20, -(2.0**-53), 2.0**-52]).map(lambda share: got * (1 + share))
    high = data.draw(values_of(name) | near | st.floats())
    low = data.draw(st.sampled_from([0.0, 2.0**-54, -(2.0**-54), 2.0**-80, -(2.0**-107)])) * high
    if not math.isfinite(low):
        low = 0.0
    exact = Fraction(high) + Fraction(low) if math.isfinite(high) else high
    found = float(ulp_error(got, high, name, low))
    expected = error(got, exact, name)
    assert agrees(found, expected), (got, high, low, found, expected)
    if low == 0:
        assert agrees(float(ulp_error(got, high, name)), expected)
    if math.isfinite(high):
        assert Fraction(float(ulp_of(high, name, low))) == ulp(exact, name)


def test_below_a_power_of_two_the_ulp_is_half() -> None:
    # 1 - 2**-60: float64 shows 1, but the exponent is -1.
    assert ulp_of(1.0, "float16").item() == 2.0**-10
    assert ulp_of(1.0, "float16", -(2.0**-60)).item() == 2.0**-11
    assert ulp_error(1.0 + 2.0**-10, 1.0, "float16", -(2.0**-60)).item() == pytest.approx(2.0, abs=1e-12)


def test_overflow_is_decided_below_float64s_last_bit() -> None:
    # 65520 is the tie between 65504 and what would be 65536.
    assert ulp_error(math.inf, 65520.0, "float16").item() == 0
    assert ulp_error(math.inf, 65520.0, "float16", -1e-20).item() == 0.5
    # 464 is e4m3fn's tie and stays 448, the even one.
    assert ulp_error(448.0, 464.0, "float8_e4m3fn").item() == 0.5
    assert ulp_error(448.0, 464.0, "float8_e4m3fn", 1e-20).item() == 0.0  # the saturating mode of OFP8
    assert ulp_error(416.0, 464.0, "float8_e4m3fn", 1e-20).item() == 2.0
    assert ulp_error(math.nan, 464.0, "float8_e4m3fn", 1e-20).item() == 0.0
    assert math.isnan(ulp_error(math.nan, 464.0, "float8_e4m3fn").item())


def test_errors_grow_with_the_distance_up_to_infinity() -> None:
    results = np.append(np.unique(finite_values("bfloat16")), math.inf)
    for reference in (0.0, 1.0, -3.3e38, 1e-45, math.inf):
        errors = ulp_error(results, reference, "bfloat16")
        assert np.isfinite(errors).all()
        assert (np.diff(errors[results >= reference]) >= 0).all()
        assert (np.diff(errors[results <= reference]) <= 0).all()
        assert reference == math.inf or errors[-1] > errors[-2]


def test_float64_counts_stay_finite() -> None:
    assert ulp_error(LARGEST_FLOAT64, 0.0, "float64").item() == LARGEST_FLOAT64
    assert ulp_error(math.inf, 5e-324, "float64").item() == LARGEST_FLOAT64
    assert ulp_error(LARGEST_FLOAT64, -LARGEST_FLOAT64, "float64").item() == pytest.approx(2.0**54, rel=1e-15)
    assert ulp_error(math.inf, LARGEST_FLOAT64, "float64").item() == 1.0
    assert ulp_error(5e-324, 0.0, "float64").item() == 1.0


def test_distances_count_the_values_between() -> None:
    values = np.unique(finite_values("float16"))
    index = np.arange(values.size)
    for i in (0, 1, 31_743, 31_744, 40_000, values.size - 1):
        assert (ulp_distance(values, values[i], "float16") == np.abs(index - i)).all()
    assert ulp_distance(65504.0, math.inf, "float16") == 1
    assert ulp_distance(math.nan, math.nan, "float16") == 0
    assert ulp_distance(math.nan, 1.0, "float16") == 2**63 - 1
    assert ulp_distance(-LARGEST_FLOAT64, LARGEST_FLOAT64, "float64") == 2**63 - 2
    assert ulp_distance(1.0, math.nextafter(1.0, 2), "float64") == 1
    assert ulp_distance(-5e-324, 5e-324, "float64") == 2


@pytest.mark.parametrize(
    ("got", "reference", "name", "kinds"),
    [
        (1.0, 1.5, "float16", 0),
        (math.nan, math.nan, "float16", 0),
        (math.nan, 1.0, "float16", Mismatch.NAN),
        (1.0, math.nan, "float16", Mismatch.NAN),
        (-math.nan, math.nan, "float16", 0),
        (math.inf, 65519.0, "float16", Mismatch.INFINITY),
        (math.inf, 65520.0, "float16", 0),
        (65504.0, 1e9, "float16", Mismatch.INFINITY),
        (-math.inf, 1e9, "float16", Mismatch.INFINITY | Mismatch.SIGN),
        (-1.0, 2.0, "float16", Mismatch.SIGN),
        (0.0, -2.0, "float16", 0),
        (0.0, 2.0**-15, "float16", Mismatch.FLUSHED),
        (0.0, 2.0**-14, "float16", 0),
        (0.0, 2.0**-25, "float16", 0),  # the tie rounds to zero
        (0.0, -(2.0**-30), "float16", Mismatch.ZERO_SIGN),
        (0.0, -0.0, "float8_e4m3fnuz", 0),
        (math.nan, 1e9, "float8_e4m3fn", 0),
        (448.0, 1e9, "float8_e4m3fn", 0),
        (-448.0, 1e9, "float8_e4m3fn", Mismatch.INFINITY | Mismatch.SIGN),
        (416.0, 1e9, "float8_e4m3fn", Mismatch.INFINITY),
        (math.nan, 448.0, "float8_e4m3fn", Mismatch.NAN),
        (448.0, math.nan, "float8_e4m3fn", Mismatch.NAN),
        (0.0, 2.0**-1040, "float64", Mismatch.FLUSHED),
    ],
)
def test_kinds_of_mismatch(got: float, reference: float, name: str, kinds: int) -> None:
    found = mismatch_classes(got, reference, name)
    assert found.dtype == np.uint8
    assert Mismatch(int(found)) == Mismatch(kinds)


def test_chunks_and_specials_do_not_mix() -> None:
    rng = np.random.default_rng(5)
    reference = rng.standard_normal(100_000)
    got = round_to_format(reference, "float16")
    calm = ulp_error(got, reference, "float16")
    at = [0, 32_767, 32_768, 65_536, 99_999]
    got[at] = math.nan
    errors = ulp_error(got, reference, "float16")
    assert np.flatnonzero(np.isnan(errors)).tolist() == at
    others = np.delete(np.arange(reference.size), at)
    assert (errors[others] == calm[others]).all()
    assert (calm <= 0.5).all()


@pytest.mark.parametrize("name", SHAPES)
def test_numbers_beyond_the_ordinary_raise_no_floating_point_warning(name: str) -> None:
    values = np.array([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, 1.0])
    with np.errstate(all="raise"):
        for low in (None, 0.0, 1e292, 1e308):
            for reference in values:
                ulp_error(values, reference, name, low)
                mismatch_classes(values, reference, name, low)
                ulp_of(reference, name, low)
                ulp_distance(values, reference, name)
                summarize_errors(values, reference, name, low)


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_kept_and_broadcast(name: str) -> None:
    for values in (1.0, [], np.zeros((0, 3)), np.ones((2, 3)).T):
        for found in (
            ulp_error(values, values, name),
            ulp_error(values, values, name, 0.0),
            ulp_of(values, name),
            ulp_distance(values, values, name),
            mismatch_classes(values, values, name),
        ):
            assert found.shape == np.shape(values)
    assert ulp_error(np.ones((2, 1)), np.ones(3), name, np.zeros(3)).shape == (2, 3)


def test_an_infinity_of_the_other_sign_of_the_largest_float64_is_twice_its_binade_off():
    # 2**1024 stands for the infinity: from -2**1024 to the largest, 2**1024 - 2**971, in units of 2**971.
    found = ulp_error(-math.inf, 1.7976931348623157e308, "float64")
    assert float(found) == 2.0**54 - 1
