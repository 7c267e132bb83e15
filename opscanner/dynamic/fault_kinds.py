"""What a fault's smallest input shows of its cause, each answer by a check that could have come out otherwise.

No check knows an operator by name. A sum is told by adding its terms up in the storage format and comparing bits; a
formula by evaluating it step by step and comparing bits at every value near by; a matter of range by a format of fewer
digits and more exponents that gets the same input right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from opscanner.errors import OpscannerError
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import finite_values, round_to_format

Arrays = dict[str, np.ndarray]

#: A sum of more terms is not added up again.
_MOST_TERMS = 300
#: Values near the failing one at which a formula is compared; so many of the wrong ones must agree in every bit.
_NEIGHBOURS, _FEWEST, _AGREEING = 4096, 4, 0.95
_OCTAVES = 6


class Kind(Enum):
    """Kinds of cause; the values stand in tables and reports."""

    LAYOUT = "another path for this memory layout"
    SIZE = "another path for this size"
    ACCUMULATION = "accumulates in the storage format"
    FORMULA = "formula rounded to the storage format at each step"
    RANGE = "an intermediate leaves the range of the storage format"
    FLUSHED = "flushes subnormals"
    CANCELLATION = "cancels what was rounded to the storage format"
    WRONG_FORMULA = "as wrong in the next wider format"
    ROUNDED_INSIDE = "something inside is rounded to the storage format"


@dataclass(frozen=True)
class Cause:
    """A kind, and what was seen.

    Parameters
    ----------
    evidence : str
        The check and its outcome, a sentence.
    formula, remedy : str
        What is computed step by step, and the function that does not lose; both empty unless it is known.
    """

    kind: Kind
    evidence: str
    formula: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Subject:
    """A fault's smallest input and the ways to try others.

    Parameters
    ----------
    index : int
        Flat position of the wrong element in its output.
    exact, expected, got : float
        The reference there, the same rounded to ``format_``, and the result.
    floats : tuple of str
        The inputs that are free values of the format.
    run : callable
        The output that fails, of other inputs, in a format and layout; None where it does not run.
    reference : callable
        The exact output of other inputs.
    """

    inputs: Arrays
    format_: str
    layout: str
    elementwise: bool
    index: int
    exact: float
    expected: float
    got: float
    upcast_fails: bool
    floats: tuple[str, ...]
    run: Callable[[Mapping[str, np.ndarray], str, str], np.ndarray | None]
    reference: Callable[[Mapping[str, np.ndarray]], np.ndarray]


def find_cause(subject: Subject) -> Cause:
    """The first check that answers, from the most to the least telling."""
    for check in (_layout, _size, _accumulation, _flushed, _formula, _wrong_formula, _range, _cancellation):
        with np.errstate(all="ignore"):
            found = check(subject)
        if found is not None:
            return found
    return Cause(
        Kind.ROUNDED_INSIDE,
        "the next wider format, rounded once, is right; no simpler check explains it",
    )


def _layout(subject: Subject) -> Cause | None:
    if subject.layout == "contiguous":
        return None
    plain = subject.run(subject.inputs, subject.format_, "contiguous")
    if plain is None or not _same(float(plain.ravel()[subject.index]), subject.expected):
        return None
    return Cause(Kind.LAYOUT, f"the same values give the right result contiguous, and a wrong one {subject.layout}")


def _size(subject: Subject) -> Cause | None:
    sizes = {array.shape for array in subject.inputs.values() if array.shape}
    if not subject.elementwise or len(sizes) != 1 or int(np.prod(next(iter(sizes)))) == 1:
        return None
    alone = {
        name: array.ravel()[subject.index : subject.index + 1] if array.shape else array
        for name, array in subject.inputs.items()
    }
    single = subject.run(alone, subject.format_, subject.layout)
    if single is None or not _same(float(single.ravel()[0]), subject.expected):
        return None
    return Cause(Kind.SIZE, "the wrong element's inputs give the right result when they are alone")


def _flushed(subject: Subject) -> Cause | None:
    smallest = 2.0 ** FORMATS[subject.format_].emin
    flushed = {
        name: np.where(np.abs(array) < smallest, 0.0, array) if name in subject.floats else array
        for name, array in subject.inputs.items()
    }
    if subject.got == 0 and 0 < abs(subject.exact) < smallest and FORMATS[subject.format_].emin == -126:
        return Cause(Kind.FLUSHED, "the right result is subnormal, and zero is given")
    if any(not np.array_equal(flushed[name], subject.inputs[name], equal_nan=True) for name in subject.floats):
        value = float(round_to_format(subject.reference(flushed).ravel()[subject.index], subject.format_))
        if _same(value, subject.got):
            return Cause(Kind.FLUSHED, "the result is right for zero in the place of subnormal inputs")
    return None


def _range(subject: Subject) -> Cause | None:
    """A format of fewer digits is nearer: only its exponents can be the reason."""
    if subject.format_ != "float16" or not np.isfinite(subject.exact) or subject.exact == 0:
        return None
    other = subject.run(subject.inputs, "bfloat16", subject.layout)
    if other is None:
        return None
    value = float(other.ravel()[subject.index])
    error, here = abs(value - subject.exact), abs(subject.got - subject.exact)
    if not error <= 2.0**-6 * abs(subject.exact) or here <= 4 * error:
        return None
    way = "overflows" if not np.isfinite(subject.got) else "falls below the smallest values of"
    return Cause(
        Kind.RANGE,
        f"bfloat16, which has fewer digits and more exponents, gives {value:.6g} for the same input: "
        f"an intermediate {way} float16",
    )


def _wrong_formula(subject: Subject) -> Cause | None:
    if not subject.upcast_fails:
        return None
    return Cause(Kind.WRONG_FORMULA, "the same call in the next wider format errs as much: the formula is at fault")


def _cancellation(subject: Subject) -> Cause | None:
    """The error is at most a last place of the largest input, the result much smaller than that input."""
    values = [np.abs(subject.inputs[name][np.isfinite(subject.inputs[name])]) for name in subject.floats]
    largest = max((float(array.max()) for array in values if array.size), default=0.0)
    step = largest * 2.0 ** (1 - FORMATS[subject.format_].precision)
    if not abs(subject.exact) < largest / 8 or not abs(subject.got - subject.exact) <= step:
        return None
    return Cause(
        Kind.CANCELLATION,
        f"the error is below the last place of the largest input ({largest:.6g}), the result much smaller than it",
    )


# Sums


def _accumulation(subject: Subject) -> Cause | None:
    groups = [subject.floats, *((name,) for name in subject.floats if len(subject.floats) > 1)]
    for names in groups:
        terms = _terms(subject, names)
        if terms is None:
            continue
        for what, values, factor in _summands(subject, names, terms):
            for order, total in _totals(values, subject.format_):
                if _same(float(round_to_format(total * factor, subject.format_)), subject.got):
                    return _summed(subject, f"its {len(values)} {what} {order}", values, factor)
    return _equal_terms(subject)


def _summed(subject: Subject, what: str, values: Sequence[float], factor: float) -> Cause:
    """A sum in the storage format; of range alone where float32 would leave its range just so."""
    if subject.format_ == "bfloat16" and not np.isfinite(subject.got):
        wide = {float(round_to_format(total * factor, subject.format_)) for _, total in _totals(values, "float32")}
        if subject.got in wide or (np.isnan(subject.got) and any(map(np.isnan, wide))):
            return Cause(Kind.RANGE, f"adding {what} leaves the range of float32, which is bfloat16's, on the way")
    return Cause(
        Kind.ACCUMULATION, f"adding {what}, each partial sum rounded to {subject.format_}, gives the same bits"
    )


def _equal_terms(subject: Subject) -> Cause | None:
    """Too many terms to take apart, but all equal: so many times that value is the exact result."""
    arrays = [subject.inputs[name] for name in subject.floats]
    values = set(np.concatenate([array.ravel() for array in arrays]).tolist()) - {0.0} if arrays else set()
    if len(values) != 1 or sum(array.size for array in arrays) <= _MOST_TERMS:
        return None
    value = values.pop()
    count = subject.exact / value if np.isfinite(subject.exact) else 0.0
    if count != round(count) or not 2 <= count <= 1 << 20:
        return None
    total = 0.0
    for _ in range(int(count)):
        following = float(round_to_format(total + value, subject.format_))
        if following == total:  # it stalls
            break
        total = following
    if not _same(total, subject.got):
        return None
    return Cause(
        Kind.ACCUMULATION,
        f"adding {int(count)} times {value:g} one after the other, each partial sum rounded to {subject.format_}, "
        "gives the same bits",
    )


def _terms(subject: Subject, names: Sequence[str]) -> list[float] | None:
    """What each value of these inputs adds to the wrong element, in order; None when that is not a sum of them."""
    size = sum(subject.inputs[name].size for name in names)
    if not names or not 2 <= size <= _MOST_TERMS:
        return None
    if not all(np.isfinite(subject.inputs[name]).all() for name in names):
        return None
    empty = {**subject.inputs, **{name: np.zeros_like(subject.inputs[name]) for name in names}}

    def value(inputs: Arrays) -> float:
        return float(subject.reference(inputs).ravel()[subject.index])

    try:
        base = value(empty)
        terms = []
        for name in names:
            for place in range(subject.inputs[name].size):
                one = np.zeros_like(subject.inputs[name])
                one.ravel()[place] = subject.inputs[name].ravel()[place]
                terms.append(value({**empty, name: one}) - base)
    except (OpscannerError, IndexError):
        return None
    kept = [base, *terms] if base != 0 else terms
    total, size_of_all = sum(kept), sum(map(abs, kept))
    added = abs(total - subject.exact) <= 2.0**-40 * size_of_all or (
        abs(total) > FORMATS[subject.format_].emax and np.isinf(subject.exact)
    )
    return kept if np.isfinite(size_of_all) and added and sum(term != 0 for term in kept) > 1 else None


def _summands(
    subject: Subject, names: Sequence[str], terms: Sequence[float]
) -> Iterator[tuple[str, list[float], float]]:
    """Values to add up, and the factor of their sum: the terms, or the inputs where all share one (means)."""
    kept = [term for term in terms if term != 0]
    yield "terms", kept, 1.0
    if len(names) == 1:
        values = [float(value) for value in subject.inputs[names[0]].ravel()]
        pairs = [(value, term) for value, term in zip(values, terms, strict=False) if term != 0]
        factors = {term / value for value, term in pairs if value != 0}
        if len(terms) == len(values) and len(factors) == 1 and factors != {1.0}:
            yield "values", [value for value, _ in pairs], factors.pop()


def _totals(values: Sequence[float], format_: str) -> Iterator[tuple[str, float]]:
    """The sum in the format, in the orders that kernels use."""

    def add(first: float, second: float) -> float:
        return float(round_to_format(first + second, format_))

    def in_order(some: Sequence[float]) -> float:
        total = some[0]
        for value in some[1:]:
            total = add(total, value)
        return total

    rounded = [float(value) for value in round_to_format(np.asarray(values, float), format_)]
    yield "one after the other", in_order(rounded)
    yield "one after the other from the last to the first", in_order(rounded[::-1])
    yield "pairwise", _pairwise(rounded, add)
    yield "one after the other, to zero", in_order([0.0, *rounded])
    for lanes in (2, 4, 8, 16, 32):
        if lanes < len(rounded):
            whole = len(rounded) // lanes * lanes
            sums = [in_order(rounded[lane:whole:lanes]) for lane in range(lanes)]
            rest = rounded[whole:]
            yield f"in {lanes} lanes", in_order([_halved(sums, add), *rest])
            yield f"in {lanes} lanes", in_order([in_order(sums), *rest])


def _pairwise(values: Sequence[float], add: Callable[[float, float], float]) -> float:
    if len(values) == 1:
        return values[0]
    half = (len(values) + 1) // 2
    return add(_pairwise(values[:half], add), _pairwise(values[half:], add))


def _halved(values: Sequence[float], add: Callable[[float, float], float]) -> float:
    """Lane i and lane i + n/2 first, as vector units reduce."""
    while len(values) > 1:
        half = len(values) // 2
        values = [add(first, second) for first, second in zip(values[:half], values[half:], strict=True)]
    return values[0]


# Formulas

#: What kernels write, and what does not lose (empty: only a wider format helps).
FORMULAS = (
    ("exp(x) - 1", "expm1(x)"),
    ("1 - exp(x)", "-expm1(x)"),
    ("log(1 + x)", "log1p(x)"),
    ("log(1 + exp(x))", "log1p(exp(x))"),
    ("log(exp(x) + 1)", "log1p(exp(x))"),
    ("log(1 + exp(-x))", "log1p(exp(-x))"),
    ("-log(1 + exp(-x))", "-log1p(exp(-x))"),
    ("1 / (1 + exp(-x))", ""),
    ("exp(x) / (1 + exp(x))", ""),
    ("x / (1 + exp(-x))", ""),
    ("x * (1 / (1 + exp(-x)))", ""),
    ("x * tanh(log(1 + exp(x)))", "x * tanh(log1p(exp(x)))"),
    ("1 - tanh(x) * tanh(x)", ""),
    ("1 - x * x", "(1 - x) * (1 + x)"),
    ("1 - erf(x)", "erfc(x)"),
    ("0.5 * log((1 + x) / (1 - x))", "atanh(x)"),
    ("log(x + sqrt(x * x + 1))", "asinh(x)"),
    ("log(x + sqrt(x * x - 1))", "acosh(x)"),
    ("(exp(x) - exp(-x)) / 2", "sinh(x)"),
    ("(exp(x) + exp(-x)) / 2", "cosh(x)"),
    ("log(x) - log(1 - x)", "log(x) - log1p(-x)"),
    ("log(x / (1 - x))", ""),
    ("log(x) / log(2)", "log2(x)"),
    ("exp(x * log(2))", "exp2(x)"),
    ("sin(x) / x", ""),
    ("1 / sqrt(x)", ""),
    ("sqrt(1 / x)", ""),
    ("1 / (1 + x * x)", ""),
    ("1 / sqrt(1 - x * x)", ""),
    ("x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))", ""),
    ("x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * pow3(x))))", ""),
    ("x * (1 + erf(x * 0.7071067811865476))", "x * erfc(-x * 0.7071067811865476)"),
    ("x * x * x", ""),
)


class _Stepwise:
    """Values that are rounded to a format after every operation."""

    __array_priority__ = 1000

    def __init__(self, values: np.ndarray, format_: str) -> None:
        self.values, self.format_ = round_to_format(values, format_), format_

    def of(self, values: np.ndarray) -> _Stepwise:
        return _Stepwise(values, self.format_)

    def _other(self, other: object) -> np.ndarray:
        if isinstance(other, _Stepwise):
            return other.values
        return round_to_format(np.asarray(other, float), self.format_)

    def __add__(self, other: object) -> _Stepwise:
        return self.of(self.values + self._other(other))

    def __sub__(self, other: object) -> _Stepwise:
        return self.of(self.values - self._other(other))

    def __rsub__(self, other: object) -> _Stepwise:
        return self.of(self._other(other) - self.values)

    def __mul__(self, other: object) -> _Stepwise:
        return self.of(self.values * self._other(other))

    def __truediv__(self, other: object) -> _Stepwise:
        return self.of(self.values / self._other(other))

    def __rtruediv__(self, other: object) -> _Stepwise:
        return self.of(self._other(other) / self.values)

    def __neg__(self) -> _Stepwise:
        return self.of(-self.values)

    __radd__, __rmul__ = __add__, __mul__


def _functions() -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    from scipy.special import erf

    return {
        "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "erf": erf,
        "pow3": lambda x: x * x * x,
    }  # fmt: skip


def evaluate_stepwise(formula: str, values: np.ndarray, format_: str) -> np.ndarray:
    """A formula of :data:`FORMULAS` with every step rounded to a format; ``float64``: as numpy does it.

    >>> evaluate_stepwise("exp(x) - 1", np.array([-(2.0**-12)]), "float16").tolist()
    [0.0]
    """

    def rounding(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[object], object]:
        return lambda x: x.of(function(x.values)) if isinstance(x, _Stepwise) else function(np.asarray(x, float))

    names = {name: rounding(function) for name, function in _functions().items()}
    with np.errstate(all="ignore"):
        result = eval(formula, {**names, "x": _Stepwise(values, format_)})  # noqa: S307  (our own table)
    found: np.ndarray = result.values
    return found


def _formula(subject: Subject) -> Cause | None:
    """Compares formulas at all values near the failing one, in that input alone which makes any of them fit."""
    if not subject.elementwise:
        return None
    for name in subject.floats:
        places = _neighbours(subject, name)
        if places is None:
            continue
        values, exact, got = places
        wrong = round_to_format(exact, subject.format_) != got
        if wrong.sum() < _FEWEST:
            continue
        for formula, remedy in FORMULAS:
            factor = _factor(formula, values, exact)
            if factor is None:
                continue
            steps = evaluate_stepwise(formula, values, subject.format_)
            constant = float(round_to_format(factor, subject.format_))
            same = (round_to_format(steps * constant, subject.format_) == got)[wrong].mean()
            if same >= _AGREEING:
                scaled = "" if constant == 1 else f" (times {constant:.6g})"
                said = (
                    f"`{formula}`{scaled}, every step rounded to {subject.format_}, gives the same bits at {same:.1%} "
                    f"of the {int(wrong.sum())} wrong results near this one"
                )
                return Cause(Kind.FORMULA, said, formula, remedy)
    return None


def _neighbours(subject: Subject, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Values of the input within some octaves of the failing one, with exact results and what came."""
    array = subject.inputs[name]
    value = float(array.ravel()[0 if array.size == 1 else subject.index]) if array.size else 0.0
    if value == 0 or not np.isfinite(value) or subject.format_ == "float32":
        return None
    every = finite_values(subject.format_)
    near = every[(np.abs(every) >= abs(value) / 2**_OCTAVES) & (np.abs(every) <= abs(value) * 2**_OCTAVES)]
    near = near[np.sign(near) == np.sign(value)]
    near = near[:: max(1, near.size // _NEIGHBOURS)]
    inputs = {}
    for other, held in subject.inputs.items():
        if not held.shape or (held.size > 1 and other not in subject.floats):
            inputs[other] = held
        else:
            place = 0 if held.size == 1 else subject.index
            inputs[other] = near if other == name else np.full(near.shape, held.ravel()[place])
    got = subject.run(inputs, subject.format_, "contiguous")
    try:
        exact = subject.reference(inputs)
    except OpscannerError:
        return None
    if got is None or got.shape != near.shape or exact.shape != near.shape:
        return None
    usable = np.isfinite(exact) & np.isfinite(got)
    return near[usable], exact[usable], np.asarray(got, float)[usable]


def _factor(formula: str, values: np.ndarray, exact: np.ndarray) -> float | None:
    """The constant between the operator and the formula, both exact; None when they are not proportional."""
    made = _plain(formula, values)
    sound = np.isfinite(made) & (made != 0) & (np.abs(made) > 2.0**-20) & (exact != 0)
    if sound.sum() < _FEWEST:
        sound = np.isfinite(made) & (made != 0) & (exact != 0)
    if sound.sum() < _FEWEST:
        return None
    ratio = exact[sound] / made[sound]
    middle = float(np.median(ratio))
    close = np.abs(ratio - middle) <= 1e-6 * abs(middle)
    return (1.0 if abs(middle - 1) < 1e-6 else middle) if middle != 0 and close.mean() > 0.9 else None


def _plain(formula: str, values: np.ndarray) -> np.ndarray:
    names = {**_functions(), "x": np.asarray(values, np.longdouble)}
    names["erf"] = lambda x: _functions()["erf"](np.asarray(x, float))
    made: np.ndarray = np.asarray(eval(formula, names), float)  # noqa: S307  (our own table)
    return made


def _same(first: float, second: float) -> bool:
    """Equal, NaN too; zeros of both signs are equal."""
    return first == second or (np.isnan(first) and np.isnan(second))


def orders(values: Sequence[float], format_: str) -> dict[str, float]:
    """The sum of values in a format, by the order in which they are added (for reports and tests).

    >>> orders([2048.0, 1.0, 1.0], "float16")["one after the other"]
    2048.0
    """
    return dict(itertools.chain(_totals(values, format_)))
