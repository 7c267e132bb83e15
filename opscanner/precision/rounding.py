"""Rounding to a format once, its encodings, and its neighbours.

Values of every format travel as float64 arrays that hold exactly such values. A number more precise than float64 is a
pair: the unevaluated sum ``values + low``; ``np.longdouble`` is taken apart into such a pair. Scalars and empty arrays
are arrays like others; results always are arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opscanner.errors import UsageError
from opscanner.precision.layout import (
    BIAS,
    CHUNK,
    EXPONENT_BITS,
    STORED_BITS,
    Layout,
    Overflow,
    chunks,
    layout_of,
    magnitude_at,
    magnitude_index,
)


def round_to_format(values: Any, format_: str, low: Any = None) -> np.ndarray:
    """Numbers rounded to the nearest value of a format, ties to even, in one rounding.

    Beyond the largest value lies what ml_dtypes gives: infinity, NaN for the float8 kinds without infinity, the
    largest itself for float4. The sign of zero is kept, except in the fnuz kinds, whose zero has none. NaN stays NaN,
    also for float4, which has none.

    Parameters
    ----------
    values : array_like
        Real numbers: any format up to float64, integers, or ``np.longdouble``.
    format_ : str
        Such as ``"bfloat16"``.
    low : array_like, optional
        The number is the exact sum ``values + low`` of two float64.

    Returns
    -------
    ndarray of float64
        In the broadcast shape of the two.

    Examples
    --------
    1 + 2**-8 is a tie between bfloat16's 1 and 1.0078125; what lies below float64's last bit decides.

    >>> round_to_format([1 + 2**-8, 1 + 2**-8], "bfloat16", low=[0, 1e-30]).tolist()
    [1.0, 1.0078125]
    """
    layout = layout_of(format_)
    high, rest = split_number(values, low)
    if layout.name == "float64":
        exact: np.ndarray = high.copy()
        return exact
    shape = high.shape
    high = high.reshape(-1)
    result = np.empty(high.shape)
    bits: np.ndarray = np.empty(min(CHUNK, high.size), dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in chunks(high.size):
            chunk = high[part] if rest is None else to_odd(high[part], rest.reshape(-1)[part])
            _round_chunk(chunk, layout, result[part], bits[: chunk.size])
    answer: np.ndarray = result.reshape(shape)
    return answer


def _round_chunk(values: np.ndarray, layout: Layout, result: np.ndarray, bits: np.ndarray) -> None:
    """Round into ``result``: adding and taking away 1.5 * 2**52 quanta leaves a whole number of quanta."""
    np.bitwise_and(values.view(np.int64), EXPONENT_BITS, out=bits)
    np.maximum(bits, np.int64((layout.emin + BIAS) << STORED_BITS), out=bits)
    # What is far beyond the largest overflows all the same; the cap keeps the large number below finite.
    np.minimum(bits, np.int64((layout.emax + 1 + BIAS) << STORED_BITS), out=bits)
    np.add(bits, np.int64(((STORED_BITS + 1 - layout.precision) << STORED_BITS) | 1 << (STORED_BITS - 1)), out=bits)
    large: np.ndarray = bits.view(np.float64)
    np.add(values, large, out=result)
    np.subtract(result, large, out=result)
    if layout.signed_zero:
        np.copysign(result, values, out=result)
    else:
        np.add(result, 0.0, out=result)
    largest = float(np.max(np.abs(result, out=large), initial=0.0))
    if not largest <= layout.largest:
        over = large > layout.largest
        match layout.overflow:
            case Overflow.INFINITY:
                result[over] = np.copysign(np.inf, result[over])
            case Overflow.NAN:
                result[over] = np.nan
            case Overflow.LARGEST:
                result[over] = np.copysign(layout.largest, result[over])


def to_odd(high: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """The pair rounded to odd in float64, so that a second rounding to fewer bits cannot see a false tie.

    Boldo and Melquiond, Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd, IEEE
    Transactions on Computers 57 (2008), theorem 1: two bits more than the target are enough.
    """
    if not rest.any():
        return high
    bits: np.ndarray = high.view(np.int64)
    # +1 outward or -1 towards zero, by the signs; then 0 where the last bit is set already or nothing remains.
    move: np.ndarray = bits ^ rest.view(np.int64)
    np.right_shift(move, 63, out=move)
    np.bitwise_or(move, 1, out=move)
    np.multiply(move, rest != 0, out=move)
    np.multiply(move, ~bits & 1, out=move)
    np.add(move, bits, out=move)
    odd: np.ndarray = move.view(np.float64)
    return odd


def split_number(values: Any, low: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
    """A number as float64 ``high`` nearest to it and the rest below half a unit of ``high``'s last place.

    The rest is None when nothing can be there, and 0 beside zero, infinity and NaN. Both are contiguous and of the
    same shape. What ``np.longdouble`` holds beyond the exponents of float64 becomes infinity or zero.

    Raises
    ------
    UsageError
        For complex or non-numeric values, and a ``low`` that does not broadcast or stands beside longdouble.
    """
    given = np.asarray(values)
    if given.dtype.kind in "cOSUMm":
        raise UsageError(
            f"values of type {given.dtype} have no rounding", "real and imaginary parts apart, as numpy arrays"
        )
    if given.dtype == np.longdouble and given.dtype != np.float64:
        if low is not None:
            raise UsageError("a longdouble stands beside a low part", "one of the two")
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            high = np.ascontiguousarray(given, dtype=np.float64).reshape(given.shape)
            rest = (given - high).astype(np.float64)
        return high, np.where(np.isfinite(high) & (high != 0), rest, 0.0)
    if given.dtype.kind in "iu" and given.dtype.itemsize == 8 and low is None:
        # Neither half of a 64-bit integer rounds.
        return _fast_two_sum((given >> 32 << 32).astype(np.float64), (given & 0xFFFFFFFF).astype(np.float64))
    with np.errstate(invalid="ignore"):  # a signalling NaN
        high = np.ascontiguousarray(given, dtype=np.float64).reshape(given.shape)
    if low is None:
        return high, None
    try:
        high, rest = np.broadcast_arrays(high, np.asarray(low, dtype=np.float64))
    except ValueError as error:
        raise UsageError(f"values and their low part differ in shape: {error}") from None
    shape = high.shape
    with np.errstate(over="ignore", invalid="ignore"):
        high, rest = _normalized(high, rest)
    return high.reshape(shape), rest.reshape(shape)


def _normalized(high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pair with ``high`` nearest to the sum: as it came where it is so already, as that of an oracle should be."""
    high, low = np.ascontiguousarray(high), np.ascontiguousarray(low)
    flat_high, flat_low = high.reshape(-1), low.reshape(-1)
    for part in chunks(flat_high.size):
        total = flat_high[part] + flat_low[part]
        if not ((total == flat_high[part]).all() and np.isfinite(total).all()):
            return _fast_two_sum(high, low)
    return high, low


def _fast_two_sum(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum and error of the sum, exact: Dekker 1971, after the larger has been put first."""
    swapped = np.abs(second) > np.abs(first)
    larger, smaller = np.where(swapped, second, first), np.where(swapped, first, second)
    with np.errstate(over="ignore", invalid="ignore"):
        # -0 + 0 is 0: a low part of zero must not cost the sign.
        high = np.where(smaller == 0, larger, larger + smaller)
        rest = smaller - (high - larger)
    return high, np.where(np.isfinite(high) & (high != 0), rest, 0.0)


def to_bits(values: Any, format_: str) -> np.ndarray:
    """The encodings of values in a format, rounded to it first; NaN becomes the quiet NaN of its sign.

    Returns
    -------
    ndarray of uint8, uint16, uint32 or uint64
        As many bits as a value has in memory: ``.view(np.float16)`` of float16's are the values. float4 keeps its
        four bits in the low half of a byte, and NaN, which it lacks, becomes 0b1000 as in ml_dtypes.

    >>> [hex(bits) for bits in to_bits([1.0, -2.0, float("inf")], "float16")]
    ['0x3c00', '0xc000', '0x7c00']
    """
    layout = layout_of(format_)
    rounded = round_to_format(values, format_)
    shape = rounded.shape
    rounded = rounded.reshape(-1)
    is_nan = np.isnan(rounded)
    index = magnitude_index(np.where(is_nan, 0.0, rounded), layout)
    negative = np.signbit(rounded)
    if layout.nan_index:
        index = np.where(is_nan, np.int64(layout.nan_index), index)
    else:
        negative = negative | is_nan
    word = index.astype(np.uint64) | (negative.astype(np.uint64) << np.uint64(layout.width - layout.shift - 1))
    answer: np.ndarray = (word << np.uint64(layout.shift)).astype(_word_type(layout)).reshape(shape)
    return answer


def from_bits(bits: Any, format_: str) -> np.ndarray:
    """The values of encodings, as float64: the inverse of :func:`to_bits`.

    >>> from_bits([0x3C00, 0x0001, 0xFC00], "float16").tolist()
    [1.0, 5.960464477539063e-08, -inf]
    """
    layout = layout_of(format_)
    word = np.asarray(bits).astype(np.uint64) >> np.uint64(layout.shift)
    sign_bit = layout.width - layout.shift - 1
    negative = (word >> np.uint64(sign_bit) & np.uint64(1)).astype(bool)
    index = (word & np.uint64((1 << sign_bit) - 1)).astype(np.int64)
    is_nan = index > layout.largest_index + layout.has_infinity
    if not layout.signed_zero:
        is_nan = is_nan | (negative & (index == 0))
    magnitude = np.asarray(magnitude_at(np.atleast_1d(np.where(is_nan, 0, index)), layout)).reshape(word.shape)
    answer: np.ndarray = np.where(is_nan, np.nan, np.where(negative, -magnitude, magnitude))
    return answer


def _word_type(layout: Layout) -> type[np.unsignedinteger]:
    return {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[layout.width]


def finite_values(format_: str) -> np.ndarray:
    """All finite values of a format, ascending, -0 before +0 where it has both.

    Raises
    ------
    UsageError
        For float32 and float64: too many to list.
    """
    layout = layout_of(format_)
    if layout.largest_index > 1 << 20:
        raise UsageError(f"{format_} has {2 * layout.largest_index + 1:,} finite values", "a sample of them")
    magnitude = magnitude_at(np.arange(layout.largest_index + 1, dtype=np.int64), layout)
    below = -magnitude[::-1]
    answer: np.ndarray = np.concatenate([below if layout.signed_zero else below[:-1], magnitude])
    return answer


def ordinals(values: np.ndarray, layout: Layout) -> np.ndarray:
    """Values of the format numbered through: 0 for both zeros, negative ones below; NaN gives some number."""
    values = np.atleast_1d(values)
    index = magnitude_index(np.where(np.isnan(values), 0.0, values), layout)
    answer: np.ndarray = np.where(np.signbit(values), -index, index)
    return answer


def step(values: Any, count: Any, format_: str) -> np.ndarray:
    """The value that many representable values further up (down for a negative count), rounded to the format first.

    Both zeros are one value. A step stops at the largest finite value; from infinity, which is one value beyond the
    largest, it leads back. NaN stays NaN.

    >>> step([1.0, 65504.0, float("inf")], [1, 1, -1], "float16").tolist()
    [1.0009765625, 65504.0, 65504.0]
    """
    layout = layout_of(format_)
    rounded, count = np.broadcast_arrays(round_to_format(values, format_), np.asarray(count, dtype=np.int64))
    shape = rounded.shape
    start = ordinals(rounded.reshape(-1), layout)
    limit = np.maximum(np.int64(layout.largest_index), np.abs(start))
    count = count.reshape(-1)
    # In float64 the way from end to end exceeds int64; towards zero nothing can overflow.
    up = np.minimum(count, np.where(start > 0, limit - start, np.iinfo(np.int64).max))
    down = np.maximum(up, np.where(start < 0, -limit - start, np.iinfo(np.int64).min))
    end = np.clip(start + down, -limit, limit)
    negative = (end < 0) | ((end == 0) & np.signbit(rounded.reshape(-1)) & layout.signed_zero)
    magnitude = magnitude_at(np.abs(end), layout)
    result = np.where(negative, -magnitude, magnitude).reshape(shape)
    answer: np.ndarray = np.where(np.isnan(rounded), np.nan, result)
    return answer
