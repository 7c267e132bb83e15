"""A formula told by its bits: evaluated step by step in the storage format at every value near the failing one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opscanner.dynamic.fault_kinds import Cause, Kind, Subject
from opscanner.errors import OpscannerError
from opscanner.precision.rounding import finite_values, round_to_format

#: Values near the failing one at which a formula is compared; so many of the wrong ones must agree in every bit.
_NEIGHBOURS, _FEWEST, _AGREEING = 4096, 4, 0.95
_OCTAVES = 6

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


def find_formula(subject: Subject) -> Cause | None:
    """Compares formulas at all values near the failing one, in that input alone which makes any of them fit."""
    if not subject.elementwise:
        return None
    for name in subject.floats:
        places = _neighbours(subject, name)
        if places is None:
            continue
        values, exact, got = places
        wrong = round_to_format(exact, subject.format_) != got
        if wrong.sum() < _FEWEST or _is_multiple(values, got, subject.format_):
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


def _is_multiple(values: np.ndarray, got: np.ndarray, format_: str) -> bool:
    """Whether the results are a constant times the input, which many formulas are for large ones: they tell nothing."""
    factor = round_to_format(np.median(got / values), format_)
    return bool(factor != 0 and (round_to_format(values * factor, format_) == got).mean() >= _AGREEING)


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
