"""What a fault's smallest input shows of its cause, each answer by a check that could have come out otherwise.

No check knows an operator by name. A sum is told by adding its terms up in the storage format and comparing bits; a
formula by evaluating it step by step and comparing bits at every value near by; a matter of range by a format of fewer
digits and more exponents that gets the same input right.
"""

from __future__ import annotations

import numpy as np

from opscanner.dynamic.fault_formulas import find_formula
from opscanner.dynamic.fault_kinds import Cause, Kind, Subject, same
from opscanner.dynamic.fault_sums import find_accumulation
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import round_to_format

#: An input within so many octaves of the largest value of its format is at the end of its range.
_NEAR_THE_END = 9
#: So many operators are more than one and its own parts: torch names ``layer_norm`` and ``native_layer_norm`` both.
_SEVERAL = 3


def find_cause(subject: Subject) -> Cause:
    """The first check that answers, from the most to the least telling."""
    for check in _CHECKS:
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
    if plain is None or not same(float(plain.ravel()[subject.index]), subject.expected):
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
    if single is None or not same(float(single.ravel()[0]), subject.expected):
        return None
    return Cause(Kind.SIZE, "the wrong element's inputs give the right result when they are alone")


def _end_of_range(subject: Subject) -> Cause | None:
    """Sums of the largest values of bfloat16, which are float32's, overflow in float32 in one order or another."""
    if subject.elementwise or FORMATS[subject.format_].emax != FORMATS["float32"].emax:
        return None
    if np.isfinite(subject.got) and np.isfinite(subject.expected):
        return None
    finite = [np.abs(subject.inputs[name][np.isfinite(subject.inputs[name])]) for name in subject.floats]
    largest = max((float(array.max()) for array in finite if array.size), default=0.0)
    if largest < 2.0 ** (FORMATS["float32"].emax - _NEAR_THE_END):
        return None
    return Cause(
        Kind.END_OF_RANGE,
        f"an input of {largest:.6g} is at the end of {subject.format_}'s range, which is float32's: partial sums in "
        "float32 leave it in one order of adding and not in another",
    )


def _flushed(subject: Subject) -> Cause | None:
    if FORMATS[subject.format_].emin != FORMATS["float32"].emin:
        return None  # processors flush in float32 alone: what vanishes in float16 is a matter of range
    smallest = 2.0 ** FORMATS[subject.format_].emin
    flushed = {
        name: np.where(np.abs(array) < smallest, 0.0, array) if name in subject.floats else array
        for name, array in subject.inputs.items()
    }
    if subject.got == 0 and 0 < abs(subject.exact) < smallest and FORMATS[subject.format_].emin == -126:
        return Cause(Kind.FLUSHED, "the right result is subnormal, and zero is given")
    if any(not np.array_equal(flushed[name], subject.inputs[name], equal_nan=True) for name in subject.floats):
        value = float(round_to_format(subject.reference(flushed).ravel()[subject.index], subject.format_))
        if same(value, subject.got):
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


def _composed(subject: Subject) -> Cause | None:
    """Several operators ran, and no check found one of them at fault."""
    if len(subject.kernels) < _SEVERAL:
        return None
    ran = ", ".join(f"`{name}`" for name in subject.kernels)
    return Cause(
        Kind.COMPOSED,
        f"the next wider format, rounded once, is right; {ran} ran, and what one hands to the next is rounded to "
        f"{subject.format_}",
    )


#: From the most to the least telling.
_CHECKS = (
    _layout, _size, _end_of_range, find_accumulation, _flushed, find_formula, _wrong_formula, _range, _cancellation,
    _composed,
)  # fmt: skip
