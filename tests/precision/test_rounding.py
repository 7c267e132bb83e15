"""Rounding, encodings and neighbours, against ml_dtypes, numpy's float16 and exact rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscanner.errors import UsageError
from opscanner.precision.rounding import finite_values, from_bits, round_to_format, step, to_bits
from tests.precision.exact import SHAPES, TYPES, rounded

NARROW = [name for name in TYPES if name not in ("float32", "float64")]


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal with the sign of zero, or both NaN."""
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def float32_samples(name: str) -> np.ndarray:
    """Random bit patterns of float32, and every value, tie and neighbour of a tie of the format."""
    patterns = np.random.default_rng(1).integers(0, 1 << 32, 300_000, dtype=np.uint32).view(np.float32)
    values = finite_values(name)
    ties = (values[:-1] + (values[1:] - values[:-1]) / 2).astype(np.float32)
    top = values[-1] + (values[-1] - values[-2]) * np.array([0.5, 1.0, 1.5], dtype=np.float64)
    with np.errstate(over="ignore"):
        edges = np.concatenate([values, ties, top, -top, [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    around = [np.nextafter(edges, np.float32(way)) for way in (np.inf, -np.inf)]
    return np.concatenate([patterns, edges, *around])


@pytest.mark.parametrize("name", NARROW)
def test_float32_rounds_as_in_ml_dtypes_and_numpy(name: str) -> None:
    samples = float32_samples(name)
    if name == "float4_e2m1fn":  # NaN stays NaN here, and becomes a zero in ml_dtypes
        samples = samples[~np.isnan(samples)]
    with np.errstate(over="ignore", invalid="ignore"):
        expected = samples.astype(TYPES[name]).astype(np.float64)
    got = round_to_format(samples, name)
    assert samples[~same(got, expected)].tolist() == []


def test_float64_rounds_to_float16_and_float32_as_in_numpy() -> None:
    rng = np.random.default_rng(2)
    patterns = rng.integers(0, 1 << 63, 200_000, dtype=np.uint64).view(np.float64)
    near = np.ldexp(1 + rng.random(200_000), rng.integers(-30, 20, 200_000))
    for kind in (np.float16, np.float32):
        samples = np.concatenate([patterns, near, -near, near.astype(kind).astype(np.float64)])
        with np.errstate(over="ignore", invalid="ignore"):
            expected = samples.astype(kind).astype(np.float64)
        assert samples[~same(round_to_format(samples, np.dtype(kind).name), expected)].tolist() == []


def expected_value(x: Fraction, name: str) -> float:
    nearest = rounded(x, name)
    return float(nearest)


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_pairs_near_ties_round_once(name: str, data: st.DataObject) -> None:
    precision, emin, largest, _ = SHAPES[name]
    exponent = data.draw(st.integers(emin - precision, int(math.log2(largest)) + 1))
    # A value or tie of the format, moved by a last bit of float64 or by something far below it.
    units = data.draw(st.integers(0, 1 << (precision + 1)))
    moved = data.draw(st.sampled_from([0.0, 2.0**-53, -(2.0**-53), 2.0**-90, -(2.0**-90), 1e-300, -1e-300, 2.0**-30]))
    sign = data.draw(st.sampled_from([1, -1]))
    try:
        high = sign * math.ldexp(units, exponent - precision)
    except OverflowError:
        return
    low = high * moved if high * moved else moved * 2.0**-700
    got = round_to_format(high, name, low)
    assert got == expected_value(Fraction(high) + Fraction(low), name) or (
        math.isnan(got) and math.isnan(expected_value(Fraction(high) + Fraction(low), name))
    )


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=200, deadline=None)
@given(high=st.floats(allow_nan=False, allow_infinity=False), low=st.floats(allow_nan=False, allow_infinity=False))
def test_any_pair_rounds_once(name: str, high: float, low: float) -> None:
    for scale in (1.0, 2.0**-1000):
        expected = expected_value(Fraction(high * scale) + Fraction(low), name)
        got = float(round_to_format(high * scale, name, low))
        assert got == expected or (math.isnan(got) and math.isnan(expected))


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is float64 here")
@pytest.mark.parametrize("name", SHAPES)
def test_longdouble_rounds_once(name: str) -> None:
    values = np.random.default_rng(3).standard_normal(300)
    nearest = round_to_format(values, name)
    neighbour = step(nearest, 1, name)
    with np.errstate(invalid="ignore"):
        ties = nearest.astype(np.longdouble) / 2 + neighbour.astype(np.longdouble) / 2
    ties = ties[np.isfinite(ties)]
    assert ties.size > 100
    tiny = ties * (np.longdouble(1) + np.finfo(np.longdouble).eps)
    for sample in np.concatenate([ties, tiny]):
        exact = Fraction(*sample.as_integer_ratio())
        assert round_to_format(sample, name) == expected_value(exact, name)


def test_longdouble_beyond_float64_becomes_infinity_or_zero() -> None:
    if np.finfo(np.longdouble).maxexp <= 1024:
        pytest.skip("long double is float64 here")
    huge = np.ldexp(np.longdouble(-1), 5000)
    assert round_to_format(huge, "float64") == -np.inf
    assert np.signbit(round_to_format(-1 / np.ldexp(np.longdouble(1), 5000), "float16"))


def test_integers_of_64_bits_round_once() -> None:
    # 2**60 + 2**36 is a float32 tie; the last bit decides, and float64 would lose it.
    assert round_to_format(2**60 + 2**36 + 1, "float32") == 2.0**60 + 2.0**37
    assert round_to_format(2**60 + 2**36, "float32") == 2.0**60
    assert round_to_format(np.array([-(2**63), 2**63 - 1]), "float64").tolist() == [-(2.0**63), 2.0**63]
    assert round_to_format(np.uint64(2**64 - 1), "float64") == 2.0**64


@pytest.mark.parametrize("name", NARROW)
def test_encodings_are_those_of_the_type(name: str) -> None:
    kind = TYPES[name]
    width = np.dtype(kind).itemsize
    patterns = np.arange(1 << (4 if name.startswith("float4") else 8 * width), dtype=f"u{width}")
    values = patterns.view(kind).astype(np.float64)
    decoded = from_bits(patterns, name)
    assert patterns[~same(decoded, values)].tolist() == []
    numbers = ~np.isnan(values)
    assert (to_bits(values, name)[numbers] == patterns[numbers]).all()
    assert to_bits(values, name).dtype == patterns.dtype
    assert np.isnan(from_bits(to_bits([math.nan, -math.nan], name), name)).all() or name == "float4_e2m1fn"


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_encodings_of_wide_formats_are_numpys(name: str) -> None:
    kind = np.dtype(name)
    word = f"u{kind.itemsize}"
    limits = np.finfo(kind)
    patterns = np.random.default_rng(4).integers(0, 1 << 63, 10_000, dtype=np.uint64).astype(word)
    edges = np.array([0.0, -0.0, limits.smallest_subnormal, limits.tiny, -limits.max, np.inf, -np.inf, 1.5], kind)
    values = np.concatenate([patterns.view(kind), edges, np.nextafter(edges, kind.type(0))])
    numbers = values[~np.isnan(values)]
    assert (to_bits(numbers, name) == numbers.view(word)).all()
    assert same(from_bits(values.view(word), name), values.astype(np.float64)).all()
    assert to_bits(math.nan, name) == np.array(math.nan, kind).view(word)


def test_tfloat32_is_a_float32_word_with_13_zero_bits() -> None:
    # pi is 0x40490FDB in float32; rounded to 11 bits 0x40490000 (3.140625)
    assert to_bits(math.pi, "tfloat32") == 0x40490000
    assert from_bits(0x40490000, "tfloat32") == 3.140625


@pytest.mark.parametrize("name", NARROW)
def test_finite_values_are_all_values_in_order(name: str) -> None:
    kind = TYPES[name]
    width = np.dtype(kind).itemsize
    every = np.arange(1 << (4 if name.startswith("float4") else 8 * width), dtype=f"u{width}").view(kind)
    every = np.sort(every.astype(np.float64)[np.isfinite(every.astype(np.float64))])
    values = finite_values(name)
    assert (values == every).all()
    zeros = np.flatnonzero(values == 0)
    assert np.signbit(values[zeros]).tolist() == ([False] if "fnuz" in name else [True, False])


def test_finite_values_of_float32_are_too_many() -> None:
    with pytest.raises(UsageError, match=r"4,278,190,079 finite values"):
        finite_values("float32")


@pytest.mark.parametrize("name", NARROW)
def test_a_step_leads_to_the_neighbour_and_stops_at_the_largest(name: str) -> None:
    values = np.unique(finite_values(name))
    assert (step(values[:-1], 1, name) == values[1:]).all()
    assert (step(values[1:], -1, name) == values[:-1]).all()
    assert (step(values, 1 << 62, name) == values[-1]).all()
    assert (step(values[0], np.arange(values.size), name) == values).all()
    assert np.isnan(step(math.nan, 3, name))


def test_steps_in_wide_formats_are_nextafter() -> None:
    values = np.array([1.0, -1.0, 0.0, -0.0, 2.0**-126, 2.0**-149, -(2.0**-149)], np.float32)
    assert (step(values, 1, "float32") == np.nextafter(values, np.float32(np.inf))).all()
    largest = np.finfo(np.float64).max
    wide = np.array([1.0, -1.0, 0.0, -5e-324, 2.0**-1022, -largest])
    assert (step(wide, 1, "float64") == np.nextafter(wide, np.inf)).all()
    assert (step(wide, -1, "float64")[:-1] == np.nextafter(wide, -np.inf)[:-1]).all()
    assert step(-largest, -1, "float64") == -largest
    assert step([-largest, largest], [2**63 - 1, -(2**63)], "float64").tolist() == [
        from_bits(2**63 - 1 - 0x7FEFFFFFFFFFFFFF, "float64"),
        -from_bits(2**63 - 0x7FEFFFFFFFFFFFFF, "float64"),
    ]
    assert step(np.inf, [0, -1, 1], "float64").tolist() == [np.inf, largest, np.inf]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_kept(name: str) -> None:
    for values in (1.0, np.float32(2), [], np.zeros((0, 3)), np.ones((2, 3)).T, np.ones((4, 4))[::2, ::3], True):
        assert round_to_format(values, name).shape == np.shape(values)
        assert round_to_format(values, name, 0.0).shape == np.shape(values)
        assert from_bits(to_bits(values, name), name).shape == np.shape(values)
        assert step(values, 1, name).shape == np.shape(values)
    assert round_to_format(np.ones((3, 1)), name, np.zeros(2)).shape == (3, 2)


def test_arguments_stay_as_they_are() -> None:
    for name in SHAPES:
        values = np.array([1.1, -1e300, np.nan, 1e-300])
        before = values.copy()
        round_to_format(values, name)[...] = 0
        assert same(values, before).all()


@pytest.mark.parametrize(
    ("name", "why"),
    [("float17", "no floating-point format"), ("float128", "do not fit float64"), ("float8_e8m0fnu", "neither a zero")],
)
def test_formats_that_cannot_be_served_are_refused(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        round_to_format(1.0, name)


def test_values_that_have_no_order_are_refused() -> None:
    with pytest.raises(UsageError, match="complex128"):
        round_to_format(1j, "float16")
    with pytest.raises(UsageError, match="differ in shape"):
        round_to_format(np.ones(3), "float16", np.ones(2))
