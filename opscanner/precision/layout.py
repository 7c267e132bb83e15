"""How the values of a format sit inside float64: limits, encodings, and their order as integers.

Everything here is for the formats that float64 holds and that have a zero: :data:`~opscanner.precision.formats.FORMATS`
without ``float80``, ``float128`` and ``float8_e8m0fnu``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np

from opscanner.errors import UsageError
from opscanner.precision.formats import FORMATS

#: float64's own numbers (IEEE 754-2019 table 3.5): exponent bias, stored bits of the significand.
BIAS = 1023
STORED_BITS = 52
EXPONENT_BITS = np.int64(0x7FF << STORED_BITS)

#: Elements worked on at a time: a handful of float64 buffers of this length stay in a core's second-level cache.
CHUNK = 1 << 15


def chunks(size: int) -> Iterator[slice]:
    """Slices that cover so many elements, :data:`CHUNK` at a time."""
    for start in range(0, size, CHUNK):
        yield slice(start, min(start + CHUNK, size))


class Overflow(Enum):
    """What a finite number beyond the largest of a format rounds to, as ml_dtypes and torch round."""

    INFINITY = "infinity"
    NAN = "nan"  # the fn and fnuz kinds of float8
    LARGEST = "largest"  # float4_e2m1fn, which has neither infinity nor NaN


@dataclass(frozen=True)
class Layout:
    """A format seen from float64.

    Parameters
    ----------
    precision, emin, emax : int
        As in :class:`~opscanner.precision.formats.FloatFormat`.
    width : int
        Bits of one value in memory; ``tfloat32`` fills a 32-bit word whose low 13 bits are zero.
    shift : int
        How far the encoding is shifted up in that word: 13 for ``tfloat32``, else 0.
    largest : float
        The largest finite value.
    overflow : Overflow
        What lies beyond it.
    threshold : float
        The smallest magnitude that overflows: half a step above the largest, where the tie goes to the even
        neighbour. Infinity for float64, which cannot hold its own.
    beyond : float
        The value that infinity stands for in an error: one step above the largest, ``2**(emax + 1)`` where the format
        has infinity. Infinity for float64.
    largest_index : int
        How many positive values the format has: magnitudes are numbered from zero, and the numbers are the encoding.
    nan_index : int
        The encoding of the quiet NaN without its sign.
    signed_zero : bool
        False for the fnuz kinds.
    """

    name: str
    precision: int
    emin: int
    emax: int
    width: int
    shift: int
    largest: float
    overflow: Overflow
    threshold: float
    beyond: float
    largest_index: int
    nan_index: int
    signed_zero: bool

    @property
    def smallest(self) -> float:
        """The smallest positive value, a subnormal."""
        return float(np.ldexp(1.0, self.emin - self.precision + 1))

    @property
    def smallest_normal(self) -> float:
        return float(np.ldexp(1.0, self.emin))

    @property
    def has_infinity(self) -> bool:
        return self.overflow is Overflow.INFINITY


#: Width in memory, and the largest finite value where it is not ``(2 - 2**(1-p)) * 2**emax``: e4m3fn spends its
#: uppermost pattern on NaN (arXiv 2209.05433, table 1).
_WIDTH = {"float64": 64, "float32": 32, "tfloat32": 32, "float16": 16, "bfloat16": 16, "float4_e2m1fn": 4}
_LARGEST = {"float8_e4m3fn": 448.0}


@cache
def layout_of(format_: str) -> Layout:
    """The layout of a format by its name.

    Raises
    ------
    UsageError
        For an unknown name, and for a format whose values float64 cannot hold or that has no zero.
    """
    described = FORMATS.get(format_)
    if described is None:
        raise UsageError(f"no floating-point format is called {format_!r}", f"one of {', '.join(known_formats())}")
    if described.precision > 53 or described.precision == 1:
        why = "its values do not fit float64" if described.precision > 53 else "it has neither a zero nor a sign"
        raise UsageError(f"errors in {format_} are not counted: {why}", f"one of {', '.join(known_formats())}")
    precision, emin, emax = described.precision, described.emin, described.emax
    largest = _LARGEST.get(format_, float(np.ldexp(2.0 - 2.0 ** (1 - precision), emax)))
    step = float(np.ldexp(1.0, emax - precision + 1))
    if described.has_infinity:
        overflow = Overflow.INFINITY
    else:
        overflow = Overflow.LARGEST if format_.startswith("float4") else Overflow.NAN
    # The tie at the threshold goes to the even one: to infinity's pattern, except from e4m3fn's even 448.
    even = int(np.float64(largest).view(np.int64)) >> (53 - precision) & 1 == 0
    threshold = np.inf if format_ == "float64" else largest + step / 2
    if even and format_ != "float64":
        threshold = float(np.nextafter(threshold, np.inf))
    width = _WIDTH.get(format_, 8)
    shift = 13 if format_ == "tfloat32" else 0
    largest_index = (int(np.float64(largest).view(np.int64)) >> (53 - precision)) - ((emin + BIAS - 1) << precision - 1)
    if not described.signed_zero:
        nan_index = 0  # fnuz: the pattern that -0 would have
    elif described.has_infinity:
        nan_index = largest_index + 1 + (1 << precision - 2)
    else:
        nan_index = largest_index + 1 if overflow is Overflow.NAN else 0
    return Layout(
        format_, precision, emin, emax, width, shift, largest, overflow, threshold,
        np.inf if format_ == "float64" else largest + step, largest_index, nan_index, described.signed_zero,
    )  # fmt: skip


def known_formats() -> tuple[str, ...]:
    """Names of the formats that the functions of this room take."""
    return tuple(name for name, described in FORMATS.items() if 1 < described.precision <= 53)


def magnitude_index(values: np.ndarray, layout: Layout) -> np.ndarray:
    """The number of each magnitude among those of the format, from 0 for zero; as int64.

    ``values`` are float64 that the format holds. Infinity has the number after the largest. NaN gives some number.
    """
    magnitude = np.abs(values)
    index: np.ndarray = magnitude.view(np.int64)
    if layout.name == "float64":
        return index
    index = (index >> (53 - layout.precision)) - np.int64((layout.emin + BIAS - 1) << layout.precision - 1)
    small = magnitude < layout.smallest_normal
    if small.any():
        index[small] = (magnitude[small] * (1.0 / layout.smallest)).astype(np.int64)
    index[np.isinf(magnitude)] = layout.largest_index + 1
    return index


def magnitude_at(index: np.ndarray, layout: Layout) -> np.ndarray:
    """The magnitude with that number: the inverse of :func:`magnitude_index`; one after the largest is infinity."""
    if layout.name == "float64":
        return index.view(np.float64)
    bits = (index + np.int64((layout.emin + BIAS - 1) << layout.precision - 1)) << np.int64(53 - layout.precision)
    magnitude: np.ndarray = bits.view(np.float64)
    small = index < 1 << layout.precision - 1
    if small.any():
        magnitude[small] = index[small] * layout.smallest
    magnitude[index > layout.largest_index] = np.inf
    return magnitude
