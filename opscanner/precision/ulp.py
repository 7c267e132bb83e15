"""Errors in ULP of the format under test: the one definition that everything here counts with.

With precision p (hidden bit included), ``ulp(r) = 2**(clip(floor(log2 |r|), emin, emax) - p + 1)``, which for
subnormals and zero is the smallest subnormal. An error is ``|got - r| / ulp(r)``, r being the reference, a number more
precise than the format: float64, a pair ``reference + low``, or ``np.longdouble``.

- A finite reference that rounds to infinity counts as infinity.
- Infinity on one side only stands for ``2**(emax + 1)``, so that the error is finite and grows with the distance.
- Equal infinities, and NaN on both sides, are no error. Opposite infinities and NaN on one side are a *class mismatch*:
  the error is NaN, and :func:`mismatch_classes` says which.
- -0 equals +0.
- In a format that overflows to NaN (float8's fn and fnuz kinds), NaN is no error where the reference overflows; a
  finite result there is measured from one step above the largest value. An infinite result, which such a format does
  not have, is NaN. float4, which overflows to its largest value, is measured from that value.
- A count beyond the largest float64, possible in float64 alone, is given as the largest float64.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any

import numpy as np

from opscanner.errors import UsageError
from opscanner.precision.layout import BIAS, CHUNK, EXPONENT_BITS, STORED_BITS, Layout, Overflow, chunks, layout_of
from opscanner.precision.rounding import ordinals, round_to_format, split_number, to_odd

LARGEST_FLOAT64 = float(np.finfo(np.float64).max)


class Mismatch(IntFlag):
    """How a result differs in kind from its reference, after the reference is rounded to the format."""

    NAN = 1  #: NaN on one side only
    INFINITY = 2  #: infinity on one side only, or infinities of opposite sign
    SIGN = 4  #: both not zero, with opposite signs
    FLUSHED = 8  #: zero where the reference rounds to a subnormal
    ZERO_SIGN = 16  #: zeros of opposite sign


def ulp_of(reference: Any, format_: str, low: Any = None) -> np.ndarray:
    """The unit in the last place at a reference; that of the largest value beyond it, NaN at NaN.

    >>> ulp_of([1.0, 0.0, 1e9], "float16").tolist()
    [0.0009765625, 5.960464477539063e-08, 32.0]
    """
    layout = layout_of(format_)
    high, rest = split_number(reference, low)
    if rest is not None:
        high = to_odd(high.reshape(-1), rest.reshape(-1)).reshape(high.shape)
    bits = np.asarray(high).view(np.int64) & EXPONENT_BITS
    field = np.clip(bits, np.int64((layout.emin + BIAS) << STORED_BITS), np.int64((layout.emax + BIAS) << STORED_BITS))
    # Two steps: float64's smallest ULP has no exponent field of its own.
    unit = np.asarray(field).view(np.float64) * 2.0 ** (1 - layout.precision)
    answer: np.ndarray = np.where(np.isnan(high), np.nan, unit)
    return answer


def ulp_error(got: Any, reference: Any, format_: str, low: Any = None) -> np.ndarray:
    """The errors of results in ULP at their references; NaN where the two differ in class.

    Parameters
    ----------
    got : array_like
        Results, values of the format.
    reference : array_like
        What they should be: float64, or ``np.longdouble``; broadcast against ``got``.
    format_ : str
        The format under test, such as ``"float16"``.
    low : array_like, optional
        The reference is the exact sum ``reference + low``.

    Returns
    -------
    ndarray of float64
        Exact up to float64's rounding: a relative error of less than ``2**-50``.

    Examples
    --------
    >>> ulp_error([1.0, float("inf"), 0.0], [1.00048828125, 65504.0, float("nan")], "float16").tolist()
    [0.5, 1.0, nan]
    """
    layout = layout_of(format_)
    high, rest = split_number(reference, low)
    got = _as_float64(got)
    try:
        if got.shape != high.shape:
            got, high = np.broadcast_arrays(got, high)
            rest = None if rest is None else np.broadcast_to(rest, high.shape)
    except ValueError as error:
        raise UsageError(f"results and references differ in shape: {error}") from None
    shape = high.shape
    flat_got, flat_high = got.reshape(-1), high.reshape(-1)
    flat_rest = None if rest is None else rest.reshape(-1)
    result = np.empty(flat_high.shape)
    buffers = np.empty((2, min(CHUNK, result.size)))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for part in chunks(result.size):
            _error_of_chunk(
                flat_got[part],
                flat_high[part],
                None if flat_rest is None else flat_rest[part],
                layout,
                result[part],
                buffers[:, : part.stop - part.start],
            )
    answer: np.ndarray = result.reshape(shape)
    return answer


def _error_of_chunk(
    got: np.ndarray, high: np.ndarray, rest: np.ndarray | None, layout: Layout, result: np.ndarray, buffers: np.ndarray
) -> None:
    """The errors of one chunk: arithmetic for numbers, and a second look at the few that are none."""
    magnitude, inverse = buffers
    bits = inverse.view(np.int64)
    np.abs(high if rest is None else to_odd(high, rest), out=magnitude)
    np.bitwise_and(magnitude.view(np.int64), EXPONENT_BITS, out=bits)
    np.maximum(bits, np.int64((layout.emin + BIAS) << STORED_BITS), out=bits)
    if layout.name == "float64":
        # The inverse of a subnormal's ULP, 2**1074, is no float64: multiply by 2**52 apart.
        np.subtract(np.int64(2 * BIAS << STORED_BITS), bits, out=bits)
        np.maximum(bits, np.int64(1 << (STORED_BITS - 1)), out=bits)  # 2**-1023 is subnormal
    else:
        # Integers wrap round: only the difference has to fit.
        np.subtract(
            np.array((2 * BIAS + layout.precision - 1) << STORED_BITS, np.uint64).view(np.int64), bits, out=bits
        )
    np.subtract(got, high, out=result)
    if rest is not None:
        np.subtract(result, rest, out=result)
    np.multiply(result, inverse, out=result)
    if layout.name == "float64":
        np.multiply(result, 2.0**STORED_BITS, out=result)
    np.abs(result, out=result)
    # Both comparisons are false with NaN.
    if not (magnitude.max() < layout.threshold and result.max() < np.inf):
        special = np.flatnonzero(~((magnitude < layout.threshold) & (result < np.inf)))
        low = 0.0 if rest is None else rest[special]
        result[special] = _error_of_special(got[special], high[special], low, magnitude[special], layout)


def _error_of_special(
    got: np.ndarray, high: np.ndarray, low: np.ndarray | float, magnitude: np.ndarray, layout: Layout
) -> np.ndarray:
    """Errors where something is NaN, infinite or beyond the largest, or where the count leaves float64."""
    got_over, reference_over = np.isinf(got), magnitude >= layout.threshold
    got_nan, reference_nan = np.isnan(got), np.isnan(high)
    opposite = np.signbit(got) != np.signbit(high)
    # In quarters, so that float64's 2**1024, and twice that, are numbers.
    beyond = 2.0**1022 if layout.name == "float64" else layout.beyond / 4
    if layout.overflow is Overflow.NAN:
        got_nan, got_over = got_nan | got_over, got_over & False
    elif layout.overflow is Overflow.LARGEST:
        beyond, got_over = layout.largest / 4, got_over & False
    quarter_got = np.where(got_over, np.copysign(beyond, got), got / 4)
    quarter_reference = np.where(reference_over, np.copysign(beyond, high), high / 4)
    quarter_low = np.where(reference_over, 0.0, np.asarray(low) / 4)
    unit = ulp_of(np.where(reference_over, layout.largest, magnitude), layout.name)
    error = np.minimum(np.abs((quarter_got - quarter_reference) - quarter_low) / unit * 4.0, LARGEST_FLOAT64)
    error = np.where(got_over & reference_over, np.where(opposite, np.nan, 0.0), error)
    if layout.overflow is Overflow.NAN:
        right = reference_over & (got_nan | _saturates(got, high, layout))
        got_nan, error = got_nan & ~reference_over, np.where(right, 0.0, error)
    answer: np.ndarray = np.where(got_nan | reference_nan, np.where(got_nan & reference_nan, 0.0, np.nan), error)
    return answer


def ulp_distance(a: Any, b: Any, format_: str) -> np.ndarray:
    """How many steps between representable values lie from ``a`` to ``b``, both rounded to the format first.

    Both zeros are one value, infinity is one step beyond the largest, NaN is at no distance from NaN and further from
    numbers than they are from each other: ``2**63 - 1``. Distances of that size and more, which float64 alone has, are
    given as ``2**63 - 2``.

    Returns
    -------
    ndarray of int64

    >>> ulp_distance([1.0, -0.0, -6e-8], [1.001953125, 0.0, 6e-8], "float16").tolist()
    [2, 0, 2]
    """
    layout = layout_of(format_)
    first, second = np.broadcast_arrays(round_to_format(a, format_), round_to_format(b, format_))
    shape, first, second = first.shape, first.reshape(-1), second.reshape(-1)
    result: np.ndarray = np.empty(first.shape, dtype=np.int64)
    for part in chunks(result.size):
        result[part] = _distance_of_chunk(first[part], second[part], layout)
    distances: np.ndarray = result.reshape(shape)
    return distances


def _distance_of_chunk(first: np.ndarray, second: np.ndarray, layout: Layout) -> np.ndarray:
    start, end = ordinals(first, layout), ordinals(second, layout)
    distance: np.ndarray = np.abs(start - end)
    most = np.iinfo(np.int64).max
    if layout.name == "float64":
        # From end to end exceeds int64.
        total = np.abs(start).astype(np.uint64) + np.abs(end).astype(np.uint64)
        across = (start < 0) != (end < 0)
        distance = np.where(across, np.minimum(total, np.uint64(most - 1)).astype(np.int64), distance)
    nan_first, nan_second = np.isnan(first), np.isnan(second)
    distance[nan_first != nan_second] = most
    distance[nan_first & nan_second] = 0
    return distance


def mismatch_classes(got: Any, reference: Any, format_: str, low: Any = None) -> np.ndarray:
    """In which ways each result differs in kind from its reference rounded to the format: :class:`Mismatch` bits.

    In formats that overflow to NaN, NaN is right for a reference beyond the largest, and so is the largest value of its
    sign; another finite result there is an :attr:`~Mismatch.INFINITY`, and an infinite result counts as NaN.

    Returns
    -------
    ndarray of uint8
        0 where the kinds agree.
    """
    layout = layout_of(format_)
    high, rest = split_number(reference, low)
    got, expected = np.broadcast_arrays(_as_float64(got), round_to_format(high, format_, rest))
    if layout.overflow is Overflow.NAN:
        overflows = np.isnan(expected) & ~np.isnan(high)
        expected = np.where(overflows, np.copysign(np.inf, high), expected)
        right = overflows & (np.isnan(got) | _saturates(got, high, layout))
        got = np.where(right, expected, np.where(np.isinf(got) & ~overflows, np.nan, got))
    nan_got, nan_expected = np.isnan(got), np.isnan(expected)
    infinite_got, infinite_expected = np.isinf(got), np.isinf(expected)
    zero_got, zero_expected = got == 0, expected == 0
    numbers = ~(nan_got | nan_expected)
    opposite = numbers & (np.signbit(got) != np.signbit(expected))
    infinity = numbers & ((infinite_got != infinite_expected) | (infinite_got & infinite_expected & opposite))
    flushed = zero_got & ~zero_expected & (np.abs(expected) < layout.smallest_normal)
    flags = (
        (nan_got != nan_expected) * np.uint8(Mismatch.NAN)
        | infinity * np.uint8(Mismatch.INFINITY)
        | (opposite & ~zero_got & ~zero_expected) * np.uint8(Mismatch.SIGN)
        | flushed * np.uint8(Mismatch.FLUSHED)
        | (opposite & zero_got & zero_expected & layout.signed_zero) * np.uint8(Mismatch.ZERO_SIGN)
    )
    answer: np.ndarray = np.asarray(flags, dtype=np.uint8)
    return answer


def _saturates(got: np.ndarray, high: np.ndarray, layout: Layout) -> np.ndarray:
    """Where a result is the largest value of the reference's sign.

    A conversion to a format without infinities may give it instead of NaN: the saturating mode of the OCP 8-bit
    floating point specification (OFP8, revision 1.0), which torch's CPU kernels take for float8_e4m3fn.
    """
    found: np.ndarray = got == np.copysign(layout.largest, high)
    return found


def _as_float64(values: Any) -> np.ndarray:
    """Results as contiguous float64: every format of 64 bits and fewer fits."""
    high, _ = split_number(values)
    return high
