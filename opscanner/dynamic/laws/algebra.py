"""Laws of functions: symmetries, order, scales and sums, wherever the operator's own function obeys them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from opscanner.dynamic.inputs.domain import allowed_places
from opscanner.dynamic.laws.judging import holdable
from opscanner.dynamic.laws.law import Arrays, Call, Claim, Outputs, same, then
from opscanner.dynamic.laws.places import changed, mapped, named, sliced
from opscanner.dynamic.laws.subject import Start, Subject
from opscanner.precision.formats import FORMATS
from opscanner.precision.layout import layout_of

#: Powers of a factor 4 that a result may scale with: 1/2 for a root, -1/2 for its reciprocal.
_DEGREES = (1.0, 0.0, -1.0, 0.5, -0.5, 2.0, -2.0)
_FACTOR = 4.0


def negated(subject: Subject) -> Iterator[Claim]:
    """Odd and even functions: the sign of an input, or of all of them, turned round."""
    for start, slots in _starts_and_slots(subject):
        kept = _kept(subject, start, lambda value: -value, slots)
        if kept is None:
            continue
        for word, sign in (("odd", -1.0), ("even", 1.0)):
            expect = partial(_times, sign)
            if _obeys(subject, slots, lambda value: -value, expect):
                yield _claim(f"-{', -'.join(slots)}: {word}", start, *kept, expect)
                break


def scaled(subject: Subject) -> Iterator[Claim]:
    """Homogeneous functions: inputs times 4, which is exact away from overflow and subnormals."""
    for start, slots in _starts_and_slots(subject):
        kept = _kept(subject, _moderate(subject, start), lambda value: value * _FACTOR, slots)
        if kept is None:
            continue
        for degree in _DEGREES:
            expect = partial(_times, _FACTOR**degree)
            if _obeys(subject, slots, lambda value: value * _FACTOR, expect):
                what = f"{', '.join(slots)} times {_FACTOR:g}: results times {_FACTOR**degree:g}"
                yield _claim(what, start, *kept, partial(_held, subject.format_, expect))
                break


def shifted(subject: Subject) -> Iterator[Claim]:
    """Functions that a shift of their input leaves alone (softmax, variances) or that follow it (means)."""
    if subject.flat:
        return
    precision = FORMATS[subject.format_].precision
    for slot in subject.slots:
        for bits, unit in ((precision - 3, 2.0 ** (5 - precision)), (precision - 5, 1.0)):
            shift = 2.0 ** (precision - 2) * unit

            def pair(inputs: Arrays, bits: int = bits, unit: float = unit, shift: float = shift) -> list[Arrays]:
                steps = subject.case.generator.integers(-(2**bits), 2**bits, inputs[slot].shape)  # noqa: B023
                return [{**inputs, slot: steps * unit}, {**inputs, slot: steps * unit + shift}]  # noqa: B023

            sample = pair(subject.sample)
            for word, by, slack in (("unchanged", 0.0, 0.0), ("shifted", shift, 1.0)):
                expect = partial(_plus, by)
                if not all(_fits(subject, one) for one in sample) or not subject.holds(sample[:1], sample[1], expect):
                    continue
                for start in subject.starts:
                    first, second = pair(start.inputs)
                    if _fits(subject, first) and _fits(subject, second):
                        what = f"{slot} + {shift:g}: results {word}"
                        yield Claim(what, (Call(first),), then(Call(second)), expect, slack_ulp=slack)
                break


def swapped(subject: Subject) -> Iterator[Claim]:
    """Functions of two inputs of one shape that may change places."""
    for start in subject.starts:
        for one, other in itertools.combinations(subject.slots, 2):
            if start.inputs[one].shape != start.inputs[other].shape:
                continue
            second = {**start.inputs, one: start.inputs[other], other: start.inputs[one]}
            sample = subject.sample
            exchanged = {**sample, one: sample[other], other: sample[one]}
            if not (subject.allowed(second) and subject.within(second)):
                continue
            for word, sign in (("", 1.0), (", sign turned", -1.0)):
                expect = partial(_times, sign)
                if subject.holds((sample,), exchanged, expect):
                    what = f"{one} and {other} exchanged{word}"
                    yield Claim(what, (start.call,), then(Call(second)), expect, exact=start.exact)
                    break


def permuted(subject: Subject) -> Iterator[Claim]:
    """Axes in another order: results stay, or come in that order."""
    # A swap of two places and a step round make up every order there is.
    tried = (lambda size: np.r_[1, 0, 2:size], lambda size: np.r_[1:size, 0])
    yield from _reordered(subject, "in random order", subject.case.generator.permutation, tried)


def reversed_(subject: Subject) -> Iterator[Claim]:
    """Axes from back to front: results stay, or come from back to front."""
    yield from _reordered(subject, "from back to front", _backwards, (_backwards,))


def _backwards(size: int) -> np.ndarray:
    return np.arange(size)[::-1]


def in_parts(subject: Subject) -> Iterator[Claim]:
    """Sums: the result of the whole is the sum of the results of both parts."""
    if subject.flat:
        return
    for axes in subject.groups:
        if not subject.holds(_halves(subject.sample, axes), subject.sample, _added):
            continue
        for start in _with_positive(subject):
            first = tuple(Call(part) for part in _halves(start.inputs, axes))
            # Each part and the whole are rounded: half an ULP of the largest of them each.
            what = f"{start.why}: both halves of {named(axes)}, added"
            yield Claim(what, first, then(start.call), _added, slack_ulp=1.5)


def twice(subject: Subject) -> Iterator[Claim]:
    """Functions that leave their own results alone."""
    if not subject.flat or len(subject.slots) != 1 or len(subject.operator.inputs) != 1:
        return
    slot = subject.slots[0]
    if subject.operator.kind == "cast":  # results come in another format
        return
    once = subject.ideal(subject.sample)
    if once is None or len(once) != 1 or once[0].dtype.kind != "f":
        return
    if once[0].shape == subject.sample[slot].shape and subject.holds((subject.sample,), {slot: once[0]}, same):
        start = subject.starts[0]
        yield Claim("of its own results", (start.call,), lambda ran: (Call(_again(slot, ran)),), same, exact=True)


def ordered(subject: Subject) -> Iterator[Claim]:
    """Monotone functions of one input: results in the order of the inputs.

    Faithful results need not be in order: they are where each is the correctly rounded one, for rounding is monotone;
    a careful implementation may step back by one value where two float32 results lie next to a rounding boundary.
    """
    if not subject.flat or len(subject.slots) != 1 or len(subject.operator.inputs) != 1:
        return
    slot = subject.slots[0]
    values = subject.starts[0].inputs[slot]
    every = np.unique(values[~np.isnan(values)])
    for part in (every, every[every < 0], every[every > 0]):
        inputs = {slot: _defined(subject, slot, part.reshape((1,) * (values.ndim - 1) + (-1,)))}
        if inputs[slot].size < 2:
            continue
        ideal = subject.ideal(inputs)
        if ideal is None or any(one.dtype.kind != "f" or one.shape != inputs[slot].shape for one in ideal):
            return
        for word, running in (("rising", np.fmax), ("falling", np.fmin)):
            if all(bool((running(one[..., 1:], one[..., :-1]) == one[..., 1:]).all()) for one in ideal):
                where = f"from {inputs[slot].ravel()[0]:g} to {inputs[slot].ravel()[-1]:g}"
                what = f"{word} with {slot}, {where}"
                yield Claim(what, (Call(inputs),), then(Call(inputs)), partial(_running, running))
                if part is every:
                    return


def _defined(subject: Subject, slot: str, values: np.ndarray) -> np.ndarray:
    """The values at which the function is a number."""
    ideal = subject.ideal({slot: values})
    if ideal is None or any(one.shape != values.shape for one in ideal):
        return values[..., :0]
    kept = ~np.logical_or.reduce([np.isnan(one) for one in ideal])
    return values[..., kept.ravel()]


def _reordered(
    subject: Subject,
    word: str,
    order: Callable[[int], np.ndarray],
    tried: Sequence[Callable[[int], np.ndarray]],
) -> Iterator[Claim]:
    """Claims for the axes of which the function obeys every order that is ``tried``."""
    if subject.flat or not subject.starts:
        return
    for axes in subject.groups:
        if any(name in subject.sorted_lists for name, _ in axes):
            continue
        name, axis = axes[0]
        size = subject.sample[name].shape[axis]
        answers = [mapped(subject, axes, one(size)) for one in tried]
        found = answers[0]
        if not found or all(one is None for one in found) or any(answer != found for answer in answers):
            continue
        for start in subject.starts:
            places = np.asarray(order(start.inputs[name].shape[axis]))
            second = then(Call(sliced(start.inputs, axes, places)))
            what = f"{start.why}, {named(axes)} {word}"
            yield Claim(what, (start.call,), second, partial(changed, found, places), exact=start.exact)


def _starts_and_slots(subject: Subject) -> Iterator[tuple[Start, tuple[str, ...]]]:
    """Each start with every float input alone, then with all of them."""
    choices = dict.fromkeys([(slot,) for slot in subject.slots] + [subject.slots])
    for start in subject.starts:
        for slots in choices:
            if slots and all(slot in start.inputs for slot in slots):
                yield start, slots


def _kept(
    subject: Subject, start: Start, change: Callable[[np.ndarray], np.ndarray], slots: Sequence[str]
) -> tuple[Call, Arrays] | None:
    """The first call and the changed inputs; of elementwise operators without the places that leave the domain."""
    inputs = start.inputs
    second = _moved(inputs, slots, change, subject)
    if second is None:
        return None
    if subject.flat and not (subject.allowed(second) and subject.within(second)):
        count = max(array.size for array in inputs.values())
        allowed = allowed_places(subject.operator.domain, second, inputs[slots[0]].shape)
        kept = np.flatnonzero(allowed.ravel())
        if not kept.size or not subject.operator.reference:
            return None
        inputs = {name: array[..., kept] if array.size == count else array for name, array in inputs.items()}
        second = {name: array[..., kept] if array.size == count else array for name, array in second.items()}
        return Call(inputs), second
    if not (_fits(subject, second) and subject.within(second)):
        return None
    return start.call, second


def _moved(
    inputs: Arrays, slots: Sequence[str], change: Callable[[np.ndarray], np.ndarray], subject: Subject
) -> Arrays | None:
    """The changed inputs; None where an expression of them would have to change as well."""
    for item in subject.operator.inputs:
        if item.kind == "expression" and any(slot in item.expression for slot in slots):
            return None
    return {name: change(array) if name in slots else array for name, array in inputs.items()}


def _obeys(
    subject: Subject,
    slots: Sequence[str],
    change: Callable[[np.ndarray], np.ndarray],
    expect: Callable[[Sequence[Outputs]], Outputs],
) -> bool:
    sample = subject.sample
    second = _moved(sample, slots, change, subject)
    return second is not None and subject.holds((sample,), second, expect)


def _moderate(subject: Subject, start: Start) -> Start:
    """The start without values whose products of a few would overflow or be subnormal."""
    limit = 2.0 ** (layout_of(subject.format_).emax / 5)
    if not subject.flat:
        return start
    count = max(array.size for array in start.inputs.values())
    kept: np.ndarray = np.ones(count, bool)
    for slot in subject.slots:
        size = np.abs(start.inputs[slot].ravel())
        if size.size == count:
            kept &= (size == 0) | ((size <= limit) & (size >= 1 / limit))
    inputs = {name: array[..., kept] if array.size == count else array for name, array in start.inputs.items()}
    return Start(Call(inputs), start.why, start.exact)


def _fits(subject: Subject, inputs: Arrays) -> bool:
    """True when every value is one of the format, and in the domain."""
    largest = layout_of(subject.format_).largest
    return subject.allowed(inputs) and all(
        bool((np.abs(inputs[slot]) <= largest).all()) for slot in subject.slots if not subject.flat
    )


def _with_positive(subject: Subject) -> Iterator[Start]:
    """The starts, then ones throughout: sums of one sign lose nothing by cancellation."""
    for start in subject.starts:
        values = {slot: np.abs(start.inputs[slot]) for slot in subject.slots}
        for made, why in ((values, "magnitudes"), ({slot: np.ones_like(v) for slot, v in values.items()}, "ones")):
            inputs = {**start.inputs, **made}
            if subject.allowed(inputs) and subject.within(inputs):
                yield Start(Call(inputs), why)


def _halves(inputs: Arrays, axes: Sequence[tuple[str, int]]) -> list[Arrays]:
    name, axis = axes[0]
    half = inputs[name].shape[axis] // 2
    return [sliced(inputs, axes, part) for part in (slice(0, half), slice(half, None))]


def _claim(
    what: str, start: Start, first: Call, second: Arrays, expect: Callable[[Sequence[Outputs]], Outputs]
) -> Claim:
    return Claim(f"{start.why}: {what}", (first,), then(Call(second)), expect, exact=start.exact)


def _times(factor: float, ran: Sequence[Outputs]) -> Outputs:
    return [None if one is None or one.dtype.kind != "f" else one * factor for one in ran[0]]


def _held(format_: str, expect: Callable[[Sequence[Outputs]], Outputs], ran: Sequence[Outputs]) -> Outputs:
    """The expectation, masked where it is not exact."""
    made: list[np.ndarray | None] = []
    for one, expected in zip(ran[0], expect(ran), strict=True):
        if one is None or expected is None:
            made.append(None)
        else:
            made.append(np.ma.masked_array(expected, ~holdable(expected, one, format_)))
    return made


def _plus(shift: float, ran: Sequence[Outputs]) -> Outputs:
    return [None if one is None or one.dtype.kind != "f" else one + shift for one in ran[0]]


def _added(ran: Sequence[Outputs]) -> Outputs:
    first, second = ran
    pairs = zip(first, second, strict=True)
    return [None if a is None or b is None or a.dtype.kind != "f" or a.shape != b.shape else a + b for a, b in pairs]


def _again(slot: str, ran: Sequence[Outputs]) -> Arrays:
    value = ran[0][0]
    assert value is not None
    return {slot: value}


def _running(extreme: np.ufunc, ran: Sequence[Outputs]) -> Outputs:
    return [None if one is None else extreme.accumulate(one, axis=-1) for one in ran[0]]
