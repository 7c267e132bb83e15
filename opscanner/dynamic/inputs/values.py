"""Lists of values of a format that operators get wrong more often than others.

All are float64 arrays of values of the format, without repetitions, ascending unless said; -0 stands beside 0.
"""

from __future__ import annotations

import numpy as np

from opscanner.precision.layout import layout_of
from opscanner.precision.rounding import finite_values, round_to_format, step

#: Places where kernels change formulas or functions leave the range of a format, and whose they are. Both signs and the
#: neighbours of each are fed; what a format cannot hold falls out.
CUTOFFS: tuple[tuple[float, str], ...] = (
    (20.0, "softplus turns into x (threshold of torch and of TensorFlow's float32)"),
    (0.3, "expm1 and log1p by polynomial below, near it"),
    (0.41421356237309503, "log1p's reduction: sqrt(2) - 1"),
    (0.29289321881345254, "log1p's reduction: 1 - sqrt(2)/2"),
    (0.34657359027997264, "expm1's reduction: log(2)/2"),
    (0.6931471805599453, "log(2)"),
    (0.7071067811865476, "log's reduction: sqrt(2)/2"),
    (1.4142135623730951, "sqrt(2)"),
    (0.84375, "erf changes polynomials (fdlibm)"),
    (1.25, "erf changes polynomials (fdlibm)"),
    (2.857142857142857, "erf changes polynomials (fdlibm)"),
    (3.8325, "Eigen clamps erf in float32 near it"),
    (4.0, "erf rounds to 1 in float32 (3.92)"),
    (6.0, "relu6, hardswish; erf rounds to 1 in float64"),
    (3.0, "hardsigmoid and hardswish"),
    (0.0004, "tanh returns x below it (Eigen)"),
    (0.625, "tanh by polynomial below it (Cephes)"),
    (7.90531110763549805, "Eigen clamps tanh (float32)"),
    (9.0, "tanh rounds to 1 in float32"),
    (5.0, "tails of gelu: exp(-x**2/2) below 16-bit subnormals near here"),
    (3.5859375, "tails of gelu's tanh form in 16 bit"),
    (0.044715, "gelu's cubic"),
    (0.7978845608028654, "gelu's sqrt(2/pi)"),
    (8.0, "Bessel functions change Chebyshev series (Cephes)"),
    (2.0, "Bessel K changes series (Cephes); atanh, acosh"),
    (10.0, "digamma's recurrence ends (torch, Cephes)"),
    (13.0, "lgamma's recurrence ends (Cephes)"),
    (1.5, "lgamma between its zeros at 1 and 2"),
    (1.4616321449683622, "zero of digamma"),
    (0.5, "asin, acos and round change branches"),
    (0.975, "asin near 1"),
    (18.0, "1 + exp(-x) absorbs in float32 (16.6) and below"),
    (11.089866488461016, "log of float16's overflow: exp(x) = 65520"),
    (-17.328679513998633, "log of half of float16's smallest subnormal"),
    (-9.704060527839234, "log of float16's smallest normal"),
    (88.72283905206835, "log of float32's and bfloat16's overflow"),
    (-87.33654475055310, "log of float32's smallest normal"),
    (-103.97207708399179, "log of half of float32's smallest subnormal"),
    (709.782712893384, "log of float64's overflow"),
    (-745.1332191019412, "log of half of float64's smallest subnormal"),
    (11.783, "sinh and cosh overflow float16"),
    (89.416, "sinh and cosh overflow float32"),
    (34.0, "gamma function overflows float32 (35.04)"),
    (255.0, "x**2 overflows float16 (255.94)"),
    (1.8446742974197924e19, "x**2 overflows float32"),
    (1e-4, "x**2 below float16's normals"),
    (2049.0, "odd integers end in float16"),
    (257.0, "odd integers end in bfloat16"),
    (1e-8, "eps that 16-bit formats cannot hold"),
    (1e4, "seven of them overflow float16"),
)


def specials(format_: str) -> np.ndarray:
    """Infinities and NaN, as far as the format has them (float8_e4m3fn has NaN alone, float4 neither)."""
    candidates = np.array([-np.inf, np.inf, np.nan])
    rounded = round_to_format(candidates, format_)
    has_nan = bool(layout_of(format_).nan_index)
    result: np.ndarray = candidates[np.isinf(rounded) & np.isinf(candidates) | np.isnan(candidates) & has_nan]
    return result


def every_value(format_: str) -> np.ndarray:
    """All values of a format of at most 16 bits, then its infinities and one NaN.

    The payloads of NaN are one value here: arrays travel as float64, which keeps none of them apart.
    """
    result: np.ndarray = np.concatenate([finite_values(format_), specials(format_)])
    return result


def listable(format_: str) -> bool:
    """True for formats whose values can all be fed (16 bits and fewer)."""
    return layout_of(format_).largest_index <= 1 << 16


def exponents_of(format_: str, most: int) -> np.ndarray:
    """At most ``most`` exponents of normal numbers: both ends, those round 1, the rest spread evenly."""
    layout = layout_of(format_)
    every: np.ndarray = np.arange(layout.emin, layout.emax + 1)
    if every.size > most:
        ends, middle = max(1, most // 10), most // 2
        kept = {*every[:ends], *every[-ends:], *range(-(middle // 2), middle - middle // 2)}
        kept |= {*np.linspace(layout.emin, layout.emax, max(0, most - len(kept)) + 2).astype(int)[1:-1]}
        every = np.array(sorted(kept))
    return every


def exponent_grid(format_: str, most: int) -> np.ndarray:
    """Both signs of every exponent with the mantissas 0, 1 and all ones, subnormals and zeros, and the specials."""
    layout = layout_of(format_)
    unit = 2.0 ** (1 - layout.precision)
    powers = np.ldexp(1.0, exponents_of(format_, most))
    normal = np.outer(np.array([1.0, 1.0 + unit, 2.0 - unit]), powers).ravel()
    below = layout.smallest * np.array([0.0, 1.0, 2.0, 2.0 ** (layout.precision - 1) - 1.0])
    return _signed(np.concatenate([below, normal]), format_, with_specials=True)


def boundary_values(format_: str) -> np.ndarray:
    """Zeros, ends of the subnormals, neighbours of 1, the largest, powers of two and their neighbours, ties of
    rounding to integers, multiples of pi/2, :data:`CUTOFFS`, each with its neighbours; then the specials.
    """
    layout = layout_of(format_)
    powers = np.ldexp(1.0, exponents_of(format_, 40))
    spread = np.concatenate([powers, step(powers, 1, format_), step(powers, -1, format_)])
    near_one = np.concatenate([step(1.0, k, format_) for k in range(-4, 5)], axis=None)
    below = layout.smallest * np.array([0.0, 1.0, 2.0, 3.0, 2.0 ** (layout.precision - 1) - 1.0])
    halves = np.concatenate([np.arange(0.0, 9.0) + 0.5, 2.0 ** np.arange(1, layout.precision - 1) + 0.5])
    turns = np.concatenate([np.arange(1, 17), 2.0 ** np.arange(5, 31)]) * (np.pi / 2)
    whole = np.concatenate([np.arange(1.0, 17.0), 10.0 ** np.arange(1, 39), 10.0 ** -np.arange(1.0, 39)])
    cut = np.array([abs(value) for value, _ in CUTOFFS])
    with_neighbours = np.concatenate([turns, cut])
    centre = round_to_format(with_neighbours, format_)
    around = np.concatenate([step(centre, k, format_) for k in (-2, -1, 0, 1, 2)])
    found = [below, near_one, spread, halves, whole, around, step(layout.largest, np.array([-2, -1, 0]), format_)]
    return _signed(np.concatenate(found), format_, with_specials=True)


def stratified(generator: np.random.Generator, count: int, format_: str) -> np.ndarray:
    """Random values whose exponents are spread evenly over the format, subnormals included; both signs."""
    layout = layout_of(format_)
    exponent = generator.integers(layout.emin - layout.precision + 1, layout.emax + 1, count)
    magnitude = np.ldexp(1.0 + generator.random(count), exponent)
    sign = np.where(generator.random(count) < 0.5, -1.0, 1.0)
    return inside(sign * magnitude, format_)


def subnormals(generator: np.random.Generator, count: int, format_: str) -> np.ndarray:
    """Random values between the negative and the positive smallest normal, those included."""
    layout = layout_of(format_)
    most = 2 ** min(layout.precision - 1, 52)
    result: np.ndarray = generator.integers(-most, most, count, endpoint=True) * layout.smallest
    return result


def inside(values: np.ndarray, format_: str) -> np.ndarray:
    """Rounded to the format; what overflows becomes the largest value."""
    largest = layout_of(format_).largest
    result: np.ndarray = round_to_format(np.clip(values, -largest, largest), format_)
    return result


def _signed(magnitudes: np.ndarray, format_: str, with_specials: bool) -> np.ndarray:
    rounded = round_to_format(magnitudes[magnitudes <= layout_of(format_).largest], format_)
    found = np.unique(rounded[np.isfinite(rounded)])
    negative = -found[::-1] if layout_of(format_).signed_zero else -found[:0:-1]
    parts = [negative, found] + ([specials(format_)] if with_specials else [])
    result: np.ndarray = np.concatenate(parts)
    return result
