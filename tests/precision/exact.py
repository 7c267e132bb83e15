"""Rounding and errors in exact rational arithmetic, straight from the definitions and one value at a time.

Nothing here looks at bits or at the code under test: a format is its precision, its exponents and its largest value.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

#: precision, emin, largest, what overflow gives: IEEE 754-2019 table 3.5 and the finfo of ml_dtypes.
SHAPES: dict[str, tuple[int, int, Fraction, str]] = {
    "float64": (53, -1022, Fraction(2**53 - 1) * 2**971, "inf"),
    "float32": (24, -126, Fraction(2**24 - 1) * 2**104, "inf"),
    "tfloat32": (11, -126, Fraction(2**11 - 1) * 2**117, "inf"),
    "float16": (11, -14, Fraction(65504), "inf"),
    "bfloat16": (8, -126, Fraction(255) * 2**120, "inf"),
    "float8_e5m2": (3, -14, Fraction(57344), "inf"),
    "float8_e4m3fn": (4, -6, Fraction(448), "nan"),
    "float8_e5m2fnuz": (3, -15, Fraction(57344), "nan"),
    "float8_e4m3fnuz": (4, -7, Fraction(240), "nan"),
    "float4_e2m1fn": (2, 0, Fraction(6), "largest"),
}

#: The numpy type of each format that has one.
TYPES = {
    "float16": np.float16,
    **{name: getattr(ml_dtypes, name) for name in SHAPES if name.startswith(("float8", "float4", "bfloat16"))},
    "float32": np.float32,
    "float64": np.float64,
}


def floor_log2(x: Fraction) -> int:
    """The exponent of the power of two at or below a positive number."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= x else exponent - 1


def ulp(x: Fraction, name: str) -> Fraction:
    """2**(clip(floor(log2 |x|), emin, emax) - p + 1)."""
    precision, emin, largest, _ = SHAPES[name]
    exponent = emin if x == 0 else min(max(floor_log2(abs(x)), emin), floor_log2(largest))
    return Fraction(2) ** (exponent - precision + 1)


def rounded(x: Fraction, name: str) -> Fraction | float:
    """To nearest, ties to even, the exponent unbounded above, then what overflow gives; as a Fraction or inf or nan."""
    precision, emin, largest, overflow = SHAPES[name]
    step = Fraction(2) ** (max(floor_log2(abs(x)), emin) - precision + 1) if x else Fraction(1)
    nearest = round(x / step) * step  # Python's round of a Fraction takes ties to even
    if abs(nearest) <= largest:
        return nearest
    if overflow == "largest":
        return largest if x > 0 else -largest
    return math.nan if overflow == "nan" else (math.inf if x > 0 else -math.inf)


def error(got: float, reference: Fraction | float, name: str) -> float:
    """The error in ULP by the definition of the module under test; NaN for a class mismatch."""
    *_, largest, overflow = SHAPES[name]
    beyond = largest + ulp(largest, name)
    if isinstance(reference, float) and math.isnan(reference):
        return 0.0 if math.isnan(got) else math.nan
    positive = reference > 0
    over = isinstance(reference, float) or isinstance(rounded(reference, name), float)
    if over and overflow == "nan":
        if math.isnan(got) or got == (largest if positive else -largest):  # OFP8: both modes of conversion
            return 0.0
    elif overflow == "largest" and (isinstance(reference, float) or abs(reference) >= beyond - ulp(largest, name) / 2):
        over, reference = True, largest if positive else -largest
        beyond = largest
    if math.isnan(got):
        return math.nan
    if math.isinf(got):
        if over:
            return 0.0 if (got > 0) == positive else math.nan
        exact_got = beyond if got > 0 else -beyond
    else:
        exact_got = Fraction(got)
    if over:
        exact = beyond if positive else -beyond
        unit = ulp(largest, name)
    else:
        assert isinstance(reference, Fraction)
        exact, unit = reference, ulp(reference, name)
    return as_float(abs(exact_got - exact) / unit)


def as_float(x: Fraction) -> float:
    """The nearest float64, or the largest beyond it."""
    return float(min(x, Fraction(np.finfo(np.float64).max)))
