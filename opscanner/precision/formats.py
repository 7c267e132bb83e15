"""The floating-point formats, and what a change from one to another does to a value.

Names are those of torch and ml_dtypes. A format is one row in :data:`FORMATS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format.

    Parameters
    ----------
    name : str
        Such as ``"float16"``.
    precision : int
        Bits of the significand, the hidden bit included (IEEE 754-2019, 3.3: p).
    emin, emax : int
        Exponents of the smallest and largest normal numbers. ``emin`` counts the smallest *normal*; formats
        with subnormals reach down to ``2**(emin - precision + 1)``.
    has_infinity : bool
        False for the ``fn`` and ``fnuz`` kinds, which spend those bit patterns on numbers.
    signed_zero : bool
        False for the ``fnuz`` kinds.
    """

    name: str
    precision: int
    emin: int
    emax: int
    has_infinity: bool = True
    signed_zero: bool = True

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest positive value, subnormal if the format has them."""
        return self.emin - self.precision + 1

    def holds(self, other: FloatFormat) -> bool:
        """True when every finite value of ``other`` is a value of this format.

        >>> FORMATS["float32"].holds(FORMATS["float16"])
        True
        >>> FORMATS["bfloat16"].holds(FORMATS["float16"])
        False
        """
        return self.precision >= other.precision and self.emax >= other.emax and self.min_exponent <= other.min_exponent


#: Sources: IEEE 754-2019 table 3.5; bfloat16 as in Intel's 2018 white paper; float8 kinds as in arXiv 2209.05433
#: (e4m3fn, e5m2), arXiv 2206.02915 (fnuz); float8_e8m0fnu, float6 and float4 from the OCP MX specification 1.0.
FORMATS: dict[str, FloatFormat] = {
    f.name: f
    for f in (
        FloatFormat("float128", 113, -16382, 16383),
        FloatFormat("float80", 64, -16382, 16383),
        FloatFormat("float64", 53, -1022, 1023),
        FloatFormat("float32", 24, -126, 127),
        FloatFormat("tfloat32", 11, -126, 127),
        FloatFormat("float16", 11, -14, 15),
        FloatFormat("bfloat16", 8, -126, 127),
        FloatFormat("float8_e5m2", 3, -14, 15),
        FloatFormat("float8_e4m3fn", 4, -6, 8, has_infinity=False),
        FloatFormat("float8_e5m2fnuz", 3, -15, 15, has_infinity=False, signed_zero=False),
        FloatFormat("float8_e4m3fnuz", 4, -7, 7, has_infinity=False, signed_zero=False),
        FloatFormat("float8_e8m0fnu", 1, -127, 127, has_infinity=False, signed_zero=False),
        FloatFormat("float4_e2m1fn", 2, 0, 2, has_infinity=False),
    )
}

#: A complex format is named by its width in bits; its parts are floats of half that width (as in torch).
COMPLEX_PARTS: dict[str, str] = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}

_INTEGER = re.compile(r"^(u?int\d+|bool)$")


class Direction(Enum):
    """What a cast does: a widening holds every value of its source, a narrowing does not."""

    WIDEN = "widen"
    NARROW = "narrow"
    INT_TO_FLOAT = "int_to_float"
    FLOAT_TO_INT = "float_to_int"


def is_integer(name: str) -> bool:
    """True for ``int32``, ``uint8``, ``bool`` and their kind."""
    return _INTEGER.match(name) is not None


def is_floating(name: str) -> bool:
    """True for a real or complex floating-point format."""
    return name in FORMATS or name in COMPLEX_PARTS


def part_format(name: str) -> str:
    """The real format of a complex one; any other name unchanged.

    >>> part_format("complex64"), part_format("float16")
    ('float32', 'float16')
    """
    return COMPLEX_PARTS.get(name, name)


def cast_direction(from_format: str, to_format: str) -> Direction | None:
    """What changing ``from_format`` to ``to_format`` does; None when it is no cast.

    Real to complex of the same precision is no cast; float16 to bfloat16 narrows, and so does the way back.

    >>> cast_direction("float16", "float32"), cast_direction("bfloat16", "float16")
    (<Direction.WIDEN: 'widen'>, <Direction.NARROW: 'narrow'>)
    """
    source, target = part_format(from_format), part_format(to_format)
    if source == target:
        return None
    if source in FORMATS and target in FORMATS:
        return Direction.WIDEN if FORMATS[target].holds(FORMATS[source]) else Direction.NARROW
    if is_integer(source) and target in FORMATS:
        return Direction.INT_TO_FLOAT
    if source in FORMATS and is_integer(target):
        return Direction.FLOAT_TO_INT
    return None
