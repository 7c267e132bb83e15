"""Sums and dot products without error, rounded once at the end.

float64 values are taken apart by *extraction*: adding and taking away a power of two, sigma, cuts every value of a row
at the same bit. The upper parts have so few bits that float64 sums them without error in any order; what is below is
cut again until nothing remains. Proved in Rump, Ogita, Oishi: Accurate floating-point summation part I, SIAM Journal on
Scientific Computing 31 (2008), lemma 3.2 and theorem 3.4.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opscanner.errors import UsageError
from opscanner.precision.layout import CHUNK, chunks

#: From here on sigma could overflow; such rows are summed as Python's integers.
_LARGEST_EXTRACTED = 2.0**980
#: Rows shorter than this are summed across: numpy reduces short rows slowly.
_SHORT = 64


def exact_sum(values: Any, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """The sums of float64 along an axis, correctly rounded, and what the rounding left.

    Infinities and NaN sum as in IEEE 754: opposite infinities to NaN. A sum beyond the largest float64 is infinity. The
    sum of nothing, and of zeros of either sign, is 0.

    Returns
    -------
    high, low : ndarray of float64
        ``high`` is the float64 nearest to the exact sum, ties to even; ``low`` the one nearest to the exact sum minus
        ``high``, 0 beside infinity and NaN. Without the axis.

    >>> high, low = exact_sum([1e100, 1.0, -1e100, 2.0**-60])
    >>> float(high), float(low) == 2.0**-60
    (1.0, True)
    """
    moved = np.moveaxis(np.asarray(values, dtype=np.float64), axis, -1)
    shape = moved.shape[:-1]
    columns = moved.shape[-1]
    if not moved.size:
        return np.zeros(shape), np.zeros(shape)
    rows = moved.reshape(-1, columns)
    result = np.empty((2, rows.shape[0]))
    block = max(1, CHUNK // columns)
    with np.errstate(all="ignore"):
        for start in range(0, rows.shape[0], block):
            part = slice(start, start + block)
            result[:, part] = _sum_rows(rows[part])
    return result[0].reshape(shape), result[1].reshape(shape)


def exact_dot(a: Any, b: Any, axis: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """The dot products of two arrays along an axis, as :func:`exact_sum`; the arrays are broadcast.

    Raises
    ------
    UsageError
        When a value is not one of float32 (nor of float16 or bfloat16, which it holds): the products of others are no
        float64.

    >>> high, low = exact_dot([2.0**20, 1.0, 1.0], [2.0**20, -(2.0**40), 2.0**-20])
    >>> float(high) == 2.0**-20, float(low)
    (True, 0.0)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for factor in (first, second):
            if not ((factor.astype(np.float32) == factor) | np.isnan(factor)).all():
                raise UsageError(
                    "a dot product of values that float32 does not hold is not exact", "rounding them to float32 first"
                )
        return exact_sum(first * second, axis)


def _sum_rows(rows: np.ndarray) -> np.ndarray:
    """High and low sums, as two rows, of a block that fits the cache or of one long row."""
    columns = rows.shape[1]
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    wild = np.flatnonzero(~(largest < _LARGEST_EXTRACTED))  # with NaN too
    if columns > CHUNK and not wild.size:
        # The exact sums that each chunk gives are few: they are summed in turn.
        given: list[np.ndarray] = []
        for part in chunks(columns):
            given += _extract(rows[:, part].copy(), 1)
        return _sum_rows(np.stack(given, axis=1))
    calm = rows
    if wild.size:
        calm = rows.copy()
        calm[wild] = 0.0
    parts = _extract(calm.T.copy(), 0) if columns < _SHORT else _extract(calm.copy(), 1)
    result = _combine(parts)
    for row in wild:
        result[:, row] = _sum_as_integers(rows[row])
    return result


def _extract(values: np.ndarray, axis: int) -> list[np.ndarray]:
    """Sums that are exact each, and together the sum along the axis, from large to small; overwrites ``values``."""
    margin = math.ceil(math.log2(values.shape[axis] + 2))
    upper = np.empty(values.shape)
    parts: list[np.ndarray] = []
    while True:
        largest = np.maximum(values.max(axis=axis, keepdims=True), -values.min(axis=axis, keepdims=True))
        if parts and not largest.any():
            return parts
        sigma = np.ldexp(1.0, np.frexp(largest)[1] + margin)
        np.add(values, sigma, out=upper)
        np.subtract(upper, sigma, out=upper)
        np.subtract(values, upper, out=values)
        parts.append(upper.sum(axis=axis))


def _combine(parts: list[np.ndarray]) -> np.ndarray:
    """High and low of the exact sum of a few addends each row."""
    if len(parts) == 1:
        single: np.ndarray = np.stack([parts[0] + 0.0, np.zeros(parts[0].shape)])
        return single
    high, rest = _pass_up(parts)
    low, rest = _pass_up(rest)
    high, low = _two_sum(high, low)
    result: np.ndarray = np.stack([high, low])
    if rest:
        # More than two float64 hold: rare, and left to integers.
        for row in np.flatnonzero(np.any(rest, axis=0)):
            result[:, row] = _sum_as_integers(np.array([part[row] for part in parts]))
    return result


def _pass_up(parts: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The float64 sum from the smallest part to the largest, and the errors made on the way (exact)."""
    total, errors = parts[-1], []
    for part in parts[-2::-1]:
        total, error = _two_sum(part, total)
        errors.append(error)
    return total, errors[::-1]


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knuth's sum and its error, in whichever order the two are."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _sum_as_integers(row: np.ndarray) -> tuple[float, float]:
    """High and low of one row, by Python's integers; the meaning of infinities and NaN by IEEE 754."""
    if not np.isfinite(row).all():
        return float(np.sum(row[~np.isfinite(row)])), 0.0
    ratios = [value.as_integer_ratio() for value in row.tolist()]
    # Every denominator is a power of two.
    scale = max(denominator for _, denominator in ratios)
    exact = sum(numerator * (scale // denominator) for numerator, denominator in ratios)
    try:
        high = exact / scale  # the quotient of integers is rounded correctly
    except OverflowError:
        return math.inf if exact > 0 else -math.inf, 0.0
    numerator, denominator = high.as_integer_ratio()
    return high, (exact * denominator - numerator * scale) / (scale * denominator)
