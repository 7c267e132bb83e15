"""Terms along the axis that is summed, multiplied up or normalized: what an accumulator of the format loses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from opscanner.dynamic.inputs.fitting import Case
from opscanner.dynamic.inputs.patterns import Draft, along, filled, is_wide, largest_fed, sums
from opscanner.dynamic.inputs.values import inside, stratified
from opscanner.precision.formats import FORMATS
from opscanner.precision.layout import layout_of
from opscanner.precision.rounding import round_to_format, step


def ones(case: Case) -> Iterator[Draft]:
    """Counts: in a format of precision p, 2**p + 1 rounds back to 2**p (2048 in float16, 256 in bfloat16)."""
    stall = 2 ** FORMATS[case.format_].precision
    why = f"a count stalls at {stall}"
    yield from _each(case, _ones, case.size.many, f"{case.size.many} ones: {why}")
    if _reaches(case):
        yield from _each(case, _ones, case.size.past, f"{case.size.past} ones: {why}, and passes 65504", every=True)


def one_and_crumbs(case: Case) -> Iterator[Draft]:
    """1 and many halves of its last place, in both orders: added one by one to 1, each is absorbed."""
    crumb = max(2.0 ** -FORMATS[case.format_].precision, layout_of(case.format_).smallest)

    def first(count: int) -> np.ndarray:
        line = np.full(count, crumb)
        line[:1] = 1.0
        return line

    yield from _each(case, first, case.size.many, f"1, then crumbs of {crumb:g}, each absorbed by 1")
    yield from _each(case, lambda n: first(n)[::-1], case.size.many, f"crumbs of {crumb:g}, then 1")
    few = 2 ** (FORMATS[case.format_].precision - 3)
    short = min(case.size.many, max(8, few))
    yield from _each(case, first, short, f"1, then {short - 1} crumbs of {crumb:g}", every=True)


def large_mean(case: Case) -> Iterator[Draft]:
    """Equal large terms: the sum passes the format's largest, the mean does not."""
    for value in dict.fromkeys((1e4, largest_fed(case) / 4)):
        yield from _equal(case, value)


def squares(case: Case) -> Iterator[Draft]:
    """Terms whose squares overflow, or vanish, where the root of the mean square does not.

    In formats as wide as float32 accumulators overflow likewise: :func:`end_of_range`.
    """
    if not is_wide(case.format_):
        yield from _extreme_squares(case)


def end_of_range(case: Case) -> Iterator[Draft]:
    """Magnitudes whose sums and squares overflow, or vanish, in float32 as well; formats that reach so far alone."""
    if not (is_wide(case.format_) and sums(case)):
        return
    arrays = filled(case, lambda count: stratified(case.generator, count, case.format_), 300)
    if arrays is not None:
        yield Draft(arrays, "exponents spread evenly, up to the largest value")
    yield from _equal(case, layout_of(case.format_).largest / 4)
    yield from _extreme_squares(case)


def _equal(case: Case, value: float) -> Iterator[Draft]:
    held = float(inside(np.array(value), case.format_))
    for count in (8, case.size.many):
        passes = ": its sum passes the largest value" if held * count > layout_of(case.format_).largest else ""
        yield from _each(case, partial(_full, held), count, f"{held:g} throughout{passes}")


def _extreme_squares(case: Case) -> Iterator[Draft]:
    layout = layout_of(case.format_)
    over = float(round_to_format(1.25 * np.exp2((layout.emax + 1) / 2), case.format_))
    under = float(round_to_format(1.25 * np.exp2((layout.emin - layout.precision) / 2 - 1), case.format_))
    for value, why in ((over, "overflows"), (under, "vanishes")):
        for count in (8, case.size.many):
            every = count == 8
            yield from _each(case, partial(_full, value), count, f"{value:g} throughout: its square {why}", every)


def cancellation(case: Case) -> Iterator[Draft]:
    """Pairs that cancel but for one unit in the last place: neighbours in the line, or its two halves."""

    def halves(count: int) -> tuple[np.ndarray, np.ndarray]:
        upper = inside(np.exp2(case.generator.uniform(-3, 6, count // 2)), case.format_)
        move = case.generator.integers(-1, 2, count // 2)
        return upper, -step(upper, move, case.format_)

    def neighbours(count: int) -> np.ndarray:
        line = np.zeros(count)
        line[0 : count // 2 * 2 : 2], line[1 : count // 2 * 2 : 2] = halves(count)
        return line

    def apart(count: int) -> np.ndarray:
        result: np.ndarray = np.r_[np.zeros(count % 2), np.concatenate(halves(count))]
        return result

    yield from _each(case, neighbours, case.size.many, "neighbours that cancel but for their last place")
    yield from _each(case, apart, case.size.many, "halves that cancel but for their last places")


def alternating(case: Case) -> Iterator[Draft]:
    """Plus and minus of one large value, a small one at the end: what is left is the small one."""
    large = float(inside(np.array(1e4), case.format_))
    small = float(round_to_format(1 / 3, case.format_))

    def line(count: int) -> np.ndarray:
        found = np.where(np.arange(count) % 2 == 0, large, -large)
        found[count // 2 * 2 :] = 0.0
        result: np.ndarray = np.r_[found[:-2], [0.0, small]][:count] if count > 2 else found
        return result

    yield from _each(case, line, case.size.many, f"{large:g} and -{large:g} in turn, then {small:g}")


def geometric(case: Case) -> Iterator[Draft]:
    """Powers of two, growing and shrinking: the order decides what is absorbed."""
    layout = layout_of(case.format_)
    depth = min(2 * layout.precision, layout.precision - layout.emin)

    def falling(count: int) -> np.ndarray:
        result: np.ndarray = np.exp2(-np.sort(np.arange(count) % depth).astype(float))
        return result

    yield from _each(case, falling, case.size.many, "powers of two, falling")
    yield from _each(case, lambda n: falling(n)[::-1], case.size.many, "powers of two, rising")


def large_n(case: Case) -> Iterator[Draft]:
    """More than 65535 terms: counts, indices and sums past float16; zeros, whose exponentials are ones."""
    if not sums(case) or not _reaches(case):
        return
    count = case.size.past
    yield from _each(case, np.zeros, count, f"{count} zeros: a sum of their exponentials passes 65504", every=True)
    positive = filled(case, lambda number: inside(case.generator.random(number), case.format_), count)
    if positive is not None:
        yield Draft(positive, f"{count} terms, uniform in [0, 1)")


def _reaches(case: Case) -> bool:
    """True when the growing axis can hold more terms than float16 counts, within the size's limit."""
    length = case.length(case.size.past) if case.size.past else None
    return length is not None and case.growth is not None and length**case.growth.axes > 65504


def _each(
    case: Case, pattern: Callable[[int], np.ndarray], wanted: int, why: str, every: bool = False
) -> Iterator[Draft]:
    if sums(case):
        for arrays in along(case, pattern, wanted, every):
            yield Draft(arrays, why)


def _ones(count: int) -> np.ndarray:
    return _full(1.0, count)


def _full(value: float, count: int) -> np.ndarray:
    line: np.ndarray = np.full(count, value)
    return line
