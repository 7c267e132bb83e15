"""Elementary functions against MPFR, which rounds correctly: random arguments, and those next to rounding ties."""

import numpy as np
import pytest

from opscanner.dynamic.oracle import evaluate_reference
from opscanner.precision.rounding import round_to_format

gmpy2 = pytest.importorskip("gmpy2")

#: precision, emin, emax as MPFR counts them (its significands lie in [1/2, 1)).
FORMATS = {"float32": (24, -148, 128), "float16": (11, -23, 16), "bfloat16": (8, -132, 128)}

#: Our name, MPFR's, and the domain that arguments are drawn from.
FUNCTIONS = {
    "exp": ("exp", (-90.0, 90.0)),
    "expm1": ("expm1", (-20.0, 90.0)),
    "exp2": ("exp2", (-140.0, 127.0)),
    "log": ("log", (0.0, 1e5)),
    "log1p": ("log1p", (-1.0, 1e5)),
    "log2": ("log2", (0.0, 1e5)),
    "log10": ("log10", (0.0, 1e5)),
    "sqrt": ("sqrt", (0.0, 1e5)),
    "rsqrt": ("rec_sqrt", (0.0, 1e5)),
    "sin": ("sin", (-6e4, 6e4)),
    "cos": ("cos", (-6e4, 6e4)),
    "tan": ("tan", (-6e4, 6e4)),
    "arcsin": ("asin", (-1.0, 1.0)),
    "arccos": ("acos", (-1.0, 1.0)),
    "arctan": ("atan", (-1e4, 1e4)),
    "sinh": ("sinh", (-88.0, 88.0)),
    "cosh": ("cosh", (-88.0, 88.0)),
    "tanh": ("tanh", (-10.0, 10.0)),
    "arcsinh": ("asinh", (-1e4, 1e4)),
    "arccosh": ("acosh", (1.0, 1e4)),
    "arctanh": ("atanh", (-1.0, 1.0)),
    "erf": ("erf", (-4.0, 4.0)),
    "erfc": ("erfc", (-4.0, 10.0)),
    "lgamma": ("lgamma", (-20.0, 1e4)),
    "digamma": ("digamma", (-20.0, 1e4)),
    "j0": ("j0", (-50.0, 50.0)),
    "j1": ("j1", (-50.0, 50.0)),
    "y0": ("y0", (0.0, 50.0)),
    "y1": ("y1", (0.0, 50.0)),
}


def correctly_rounded(name, values, format_):
    """What MPFR gives with the format's precision and exponents, subnormals too."""
    precision, emin, emax = FORMATS[format_]
    with gmpy2.context(precision=precision, emin=emin, emax=emax, subnormalize=True) as context:
        del context
        exact = gmpy2.context(precision=60, emin=-2000, emax=2000)
        found = []
        for value in values.tolist():
            with exact:
                argument = gmpy2.mpfr(value)
            result = getattr(gmpy2, name)(argument)
            found.append(float(result[0] if isinstance(result, tuple) else result))
    return np.array(found)


def arguments(low, high, format_, count):
    """Values of the format inside the domain: uniform, and of all exponents."""
    generator = np.random.default_rng(20)
    uniform = generator.uniform(low, high, count)
    exponents = np.exp2(generator.uniform(-30, 17, count)) * generator.choice([-1.0, 1.0], count)
    values = round_to_format(np.concatenate([uniform, exponents]), format_)
    return np.unique(values[(values > low) & (values < high)])


def tie_distance(values, format_):
    """Distance to the nearest tie, in ULP of a normal result."""
    scaled = np.ldexp(np.frexp(values)[0], FORMATS[format_][0])
    return np.abs(scaled - np.floor(scaled) - 0.5)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("format_", FORMATS)
def test_the_rounded_reference_is_mpfrs(name, format_):
    theirs, (low, high) = FUNCTIONS[name]
    x = arguments(low, high, format_, 200)
    (found,) = evaluate_reference(f"{name}(x)", {"x": x}, format_, elementwise=True)
    assert not found.undecided.any()
    np.testing.assert_array_equal(
        round_to_format(found.values, format_, found.low), correctly_rounded(theirs, x, format_)
    )


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "sin", "tanh", "arctan", "erf"])
@pytest.mark.parametrize("format_", ["float32", "float16"])
def test_the_reference_is_mpfrs_next_to_ties(name, format_):
    theirs, (low, high) = FUNCTIONS[name]
    x = arguments(low, high, format_, 30000)
    (found,) = evaluate_reference(f"{name}(x)", {"x": x}, format_, elementwise=True)
    hardest = np.argsort(tie_distance(found.values, format_))[:60]
    np.testing.assert_array_equal(
        round_to_format(found.values[hardest], format_, found.low[hardest]),
        correctly_rounded(theirs, x[hardest], format_),
    )


def test_what_only_looks_like_a_tie_is_decided_by_more_bits():
    # 1 + 2**-24 is half way between two float32 values; float64 and longdouble both lose the third term.
    terms = {"x": np.array([1.0]), "y": np.array([2.0**-24]), "z": np.array([2.0**-80])}
    (found,) = evaluate_reference("x + y + z", terms, "float32", elementwise=True)
    assert found.tier.tolist() == [3]
    assert round_to_format(found.values, "float32", found.low)[0] == 1 + 2.0**-23


def test_float64_itself_can_be_tested():
    x = np.random.default_rng(3).standard_normal(300) * 5
    (found,) = evaluate_reference("exp(x)", {"x": x}, "float64", elementwise=True)
    assert not found.undecided.any()
    assert (found.tier == 3).mean() > 0.9
    with gmpy2.context(precision=53):
        expected = [float(gmpy2.exp(gmpy2.mpfr(value))) for value in x.tolist()]
    assert round_to_format(found.values, "float64", found.low).tolist() == expected


def test_mpfr_rounds_to_the_format_here():
    assert correctly_rounded("exp", np.array([1.0]), "bfloat16")[0] == 2.71875
    assert correctly_rounded("exp", np.array([-17.0]), "float16")[0] == 2.0**-24  # 0.69 of the smallest subnormal
    assert correctly_rounded("exp", np.array([12.0]), "float16")[0] == np.inf


def test_the_far_tail_of_the_sine_is_reduced_exactly():
    # Kahan's argument for float64: 6381956970095103 * 2**797 is nearest to a multiple of pi/2.
    x = np.array([6381956970095103.0 * 2.0**797])
    (found,) = evaluate_reference("cos(x)", {"x": x}, "float32", elementwise=True)
    with gmpy2.context(precision=80):
        expected = float(gmpy2.cos(gmpy2.mpfr(float(x[0]))))
    assert abs(found.values[0] - expected) <= 2.0**-52 * abs(expected)
    assert abs(expected) < 5e-19
