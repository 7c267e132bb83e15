"""Single values: boundary lists, random ones over exponents, ties, subnormals, and plain random numbers as baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from opscanner.dynamic.inputs.fitting import Case
from opscanner.dynamic.inputs.patterns import Draft, along, filled, largest_fed, sums
from opscanner.dynamic.inputs.values import boundary_values, inside, stratified, subnormals
from opscanner.precision.formats import FORMATS
from opscanner.precision.layout import layout_of
from opscanner.precision.rounding import round_to_format, step

#: Terms of a filled axis: past bfloat16's 256, and quick.
_MODERATE = 300
#: Repetitions of the list of boundary values, each time paired anew, for several inputs.
_PAIRINGS = 16


def boundary(case: Case) -> Iterator[Draft]:
    """The boundary list of the format; for several inputs paired at random; in arrays finite values of moderate size,
    all finite ones, and at last all."""
    values = boundary_values(case.format_)
    if case.flat:
        if len(case.slots) == 1:
            yield from _listed(case, {case.slots[0]: values}, "boundary values of the format, and cut-offs of kernels")
        elif case.slots:
            lists = {slot: _shuffled(case, values, _PAIRINGS) for slot in case.slots}
            yield from _listed(case, lists, "boundary values of the format, and cut-offs of kernels, paired at random")
        return
    most = largest_fed(case)
    values = values[~np.isfinite(values) | (np.abs(values) <= most)]
    finite = values[np.isfinite(values)]
    moderate = finite[np.abs(finite) <= np.sqrt(layout_of(case.format_).largest) / 16]
    for chosen, which in ((moderate, "of moderate size"), (finite, "that are finite"), (values, "with inf and nan")):
        yield from _filled(case, partial(_picked, case, chosen), f"boundary values {which}")


def stratified_values(case: Case) -> Iterator[Draft]:
    """Exponents spread evenly over the format: floats that uniform or normal numbers never reach.

    For sums in formats as wide as float32, up to what :func:`largest_fed` says.
    """
    if case.flat and case.slots:
        count = case.size.samples
        lists = {slot: stratified(case.generator, count, case.format_) for slot in case.slots}
        yield from _listed(case, lists, "exponents spread evenly over the format")
        if len(case.slots) > 1:
            yield from _listed(
                case, _close_exponents(case, count), "exponents spread evenly, those of the inputs close"
            )
        return
    most = largest_fed(case)

    def spread(count: int) -> np.ndarray:
        value = stratified(case.generator, count, case.format_)
        moved: np.ndarray = np.where(np.abs(value) > most, value * 2.0**-72, value)  # from 2**128 to 2**56, exactly
        return moved

    yield from _filled(case, spread, "exponents spread evenly")

    def near_one(count: int) -> np.ndarray:
        sign = case.generator.choice([-1.0, 1.0], count)
        return inside(sign * np.exp2(case.generator.uniform(-7, 7, count)), case.format_)

    yield from _filled(case, near_one, "exponents spread evenly from -7 to 7")


def random_values(case: Case) -> Iterator[Draft]:
    """What most tests feed: values in the row's range, standard normal ones times 10."""
    if case.flat and case.slots:
        count = case.size.samples
        shape = (count,)
        lists = {slot: case.typical(slot, shape) for slot in case.slots}
        yield from _listed(case, lists, "uniform in the range of the operator's row")
        lists = {slot: _normal(case, count) for slot in case.slots}
        yield from _listed(case, lists, "standard normal times 10")
        return
    if (arrays := case.shaped({})) is not None:
        yield Draft(arrays, "uniform in the ranges of the operator's row, in its shapes")
    if case.slots:
        yield from _filled(case, lambda count: _normal(case, count), "standard normal times 10")


def ties(case: Case) -> Iterator[Draft]:
    """Results half-way between two values: what rounds twice, or not to even, shows."""
    precision = FORMATS[case.format_].precision
    count = min(case.size.samples, 4096)
    if case.flat:
        if len(case.slots) == 1:
            yield from _listed(
                case,
                {case.slots[0]: _midpoints(case)},
                "half-way between integers, and between values of narrower formats",
            )
        elif case.slots:
            for pair, why in ((_tied_sums(case, count), "sums"), (_tied_products(case, count), "products")):
                rest = {slot: case.typical(slot, pair[0].shape) for slot in case.slots[2:]}
                lists = dict(zip(case.slots[:2], pair, strict=True)) | rest
                yield from _listed(case, lists, f"{why} exactly half-way between two values")
            if len(case.slots) > 2:
                value, crumb = _tied_sums(case, count)
                lists = dict.fromkeys(case.slots, crumb) | {case.slots[0]: value}
                yield from _listed(case, lists, "a value and several halves of its last place")
    elif sums(case):
        half = 2.0**-precision
        speck = _speck(case.format_)
        for terms, why in (
            ([1.0, half], "exactly half-way: 1"),
            ([1.0 + 2 * half, half], "exactly half-way: an odd value"),
            ([1.0, half, speck], "a speck above half-way: 1"),
        ):
            for arrays in along(case, partial(_padded, np.array(terms)), 8):
                yield Draft(arrays, f"{why} and 2**-{precision}")


def _padded(terms: np.ndarray, count: int) -> np.ndarray:
    """The terms, then zeros, or only the first terms."""
    line: np.ndarray = np.zeros(count)
    line[: terms.size] = terms[: line.size]
    return line


def subnormal(case: Case) -> Iterator[Draft]:
    """Subnormal values, and products and quotients that become subnormal: what flushes to zero shows."""
    layout = layout_of(case.format_)
    count = min(case.size.samples, 4096)
    if case.flat and case.slots:
        lists = {slot: subnormals(case.generator, count, case.format_) for slot in case.slots}
        yield from _listed(case, lists, "subnormal inputs")
        if len(case.slots) > 1:
            exponent = case.generator.integers(layout.emin, 1, count)
            target = case.generator.integers(layout.emin - layout.precision, layout.emin + 1, count)
            pair = [_with_exponent(case, exponent), _with_exponent(case, target - exponent)]
            rest = {slot: case.typical(slot, (count,)) for slot in case.slots[2:]}
            lists = dict(zip(case.slots[:2], pair, strict=True)) | rest
            yield from _listed(case, lists, "products near and below the smallest normal")
    elif not case.flat:
        yield from _filled(case, lambda n: subnormals(case.generator, n, case.format_), "subnormal inputs")


def _listed(case: Case, lists: dict[str, np.ndarray], why: str) -> Iterator[Draft]:
    if (arrays := case.list_of(lists)) is not None:
        yield Draft(arrays, why)


def _filled(case: Case, make: Callable[[int], np.ndarray], why: str) -> Iterator[Draft]:
    if case.slots and (arrays := filled(case, make, _MODERATE)) is not None:
        yield Draft(arrays, why)


def _shuffled(case: Case, values: np.ndarray, times: int) -> np.ndarray:
    result: np.ndarray = np.concatenate([case.generator.permutation(values) for _ in range(times)])
    return result


def _picked(case: Case, values: np.ndarray, count: int) -> np.ndarray:
    picked: np.ndarray = case.generator.choice(values, count)
    return picked


def _normal(case: Case, count: int) -> np.ndarray:
    # Rounded before it is multiplied, as in the study's experiment: bfloat16(randn) * 10.
    rounded = round_to_format(case.generator.standard_normal(count), case.format_)
    return inside(rounded * 10, case.format_)


def _close_exponents(case: Case, count: int) -> dict[str, np.ndarray]:
    first = stratified(case.generator, count, case.format_)
    shift = {slot: np.exp2(case.generator.uniform(-4, 4, count)) for slot in case.slots[1:]}
    sign = {slot: case.generator.choice([-1.0, 1.0], count) for slot in case.slots[1:]}
    return {case.slots[0]: first} | {slot: inside(first * shift[slot] * sign[slot], case.format_) for slot in shift}


def _midpoints(case: Case) -> np.ndarray:
    """Values with a half, and values half-way between two of a narrower format that the format holds."""
    own = FORMATS[case.format_]
    halves = np.arange(-300, 300) + 0.5
    found = [halves, halves * 64]
    for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        if own.holds(FORMATS[name]) and own.precision > FORMATS[name].precision:
            lower = stratified(case.generator, 1024, name)
            upper = step(lower, 1, name)
            middle = (lower + upper) / 2
            found += [middle, step(middle, 1, case.format_), step(middle, -1, case.format_)]
    values = np.concatenate(found)
    result: np.ndarray = values[round_to_format(values, case.format_) == values]
    return result


def _tied_sums(case: Case, count: int) -> tuple[np.ndarray, np.ndarray]:
    """x and half a unit in the last place of x."""
    layout = layout_of(case.format_)
    exponent = case.generator.integers(max(layout.emin, -20) + layout.precision, min(layout.emax, 20), count)
    first = _with_exponent(case, exponent)
    half = np.ldexp(case.generator.choice([-1.0, 1.0], count), exponent - layout.precision)
    return first, half


def _tied_products(case: Case, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Odd integers whose product has one bit more than the format: its last bit is half a unit."""
    precision = FORMATS[case.format_].precision
    bits = case.generator.integers(2, precision, 4 * count)
    first = 2 * case.generator.integers(0, 2 ** (bits - 1)) + 1
    second = 2 * case.generator.integers(0, 2 ** (precision - bits)) + 1
    product = first.astype(float) * second
    tied = (product >= 2.0**precision) & (product < 2.0 ** (precision + 1))
    scale = 2.0 ** -(precision // 2)
    return first[tied][:count] * scale, second[tied][:count] * scale


def _with_exponent(case: Case, exponent: np.ndarray) -> np.ndarray:
    sign = case.generator.choice([-1.0, 1.0], exponent.size)
    return inside(sign * np.ldexp(1 + case.generator.random(exponent.size), exponent), case.format_)


def _speck(format_: str) -> float:
    """What lifts a sum above a tie, and is lost in the next wider format: half a unit of it, or the smallest value."""
    wider = 24 if FORMATS[format_].precision < 24 else 53
    return max(2.0**-wider, layout_of(format_).smallest)
