"""A wrong sum told by its bits: its terms are added up in the storage format, in the orders that kernels use."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opscanner.dynamic.fault_kinds import Arrays, Cause, Kind, Subject, same
from opscanner.errors import OpscannerError
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import round_to_format

#: A sum of more terms is not added up again.
_MOST_TERMS = 300


def find_accumulation(subject: Subject) -> Cause | None:
    groups = [subject.floats, *((name,) for name in subject.floats if len(subject.floats) > 1)]
    for names in groups:
        terms = _terms(subject, names)
        if terms is None:
            continue
        for what, values, factor in _summands(subject, names, terms):
            for order, total in _totals(values, subject.format_):
                if same(float(round_to_format(total * factor, subject.format_)), subject.got):
                    return Cause(
                        Kind.ACCUMULATION,
                        f"adding its {len(values)} {what} {order}, each partial sum rounded to {subject.format_}, "
                        "gives the same bits",
                    )
    return _equal_terms(subject)


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
    if not same(total, subject.got):
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


def orders(values: Sequence[float], format_: str) -> dict[str, float]:
    """The sum of values in a format, by the order in which they are added (for reports and tests).

    >>> orders([2048.0, 1.0, 1.0], "float16")["one after the other"]
    2048.0
    """
    return dict(itertools.chain(_totals(values, format_)))
