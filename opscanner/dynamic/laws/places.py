"""Laws of places: an element's result does not depend on where it lies, what lies beside it, or who computes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from opscanner.dynamic.laws.law import Arrays, Call, Claim, Outputs, same, then
from opscanner.dynamic.laws.subject import Subject, agree
from opscanner.frameworks.layouts import can_take
from opscanner.frameworks.runners import runner_of

#: Odd, so that among copies one behind the other a value comes to lie at every position modulo a vector's width.
_DISTINCT = 1025
#: At most so many elements in a vector register: 64 bytes of an 8-bit format.
_WIDTH = 64
#: Sizes below, at and above the widths of vector units.
_SIZES = (2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65)
_SINGLE = 600
_WITHOUT_AXES = 48


def in_layout(layout: str, subject: Subject) -> Iterator[Claim]:
    """The same values in another layout."""
    for start in subject.starts:
        inputs = _with_axes(start.inputs, layout) if subject.flat else start.inputs
        if any(can_take(array.shape, layout) for array in inputs.values()):
            first = start.call if inputs is start.inputs else Call(inputs)
            yield Claim(f"{start.why}, {layout}", (first,), then(Call(inputs, layout)), same, exact=start.exact)


def repeated(subject: Subject) -> Iterator[Claim]:
    """The same call once more."""
    starts = subject.starts
    made = [start.call for start in starts] or [Call(one) for one in (subject.case.shaped({}),) if one is not None]
    for call in made:
        yield Claim("the same call again", (call,), then(Call(call.inputs)), same, exact=True)


def one_element(subject: Subject) -> Iterator[Claim]:
    """Arrays of one element each against the elements of a long one."""
    inputs, count = _values(subject, _SINGLE)
    if count:
        second = then(*(Call(_cut(inputs, slice(k, k + 1), count)) for k in range(min(count, _SINGLE))))
        many = slice(0, min(count, _SINGLE))
        yield Claim("each value in an array of its own", (Call(inputs),), second, partial(_taken, many, count))


def first_of_n(subject: Subject) -> Iterator[Claim]:
    """The first n elements alone against the first n of a long array."""
    inputs, count = _values(subject, _SINGLE)
    sizes = [size for size in _SIZES if size < count]
    if sizes:
        second = then(*(Call(_cut(inputs, slice(0, size), count)) for size in sizes))
        places = np.concatenate([np.arange(size) for size in sizes])
        what = f"the first {', '.join(map(str, sizes))} of {count} values"
        yield Claim(what, (Call(inputs),), second, partial(_taken, places, count))


def without_axes(subject: Subject) -> Iterator[Claim]:
    """Arrays without axes against arrays of one element."""
    inputs, count = _values(subject, _WITHOUT_AXES)
    if count:
        single = [_cut(inputs, slice(k, k + 1), count) for k in range(min(count, _WITHOUT_AXES))]
        bare = [{name: array.reshape(()) for name, array in one.items()} for one in single]
        first = tuple(Call(one) for one in single)
        yield Claim("each value without axes", first, then(*(Call(one, "zero_dim") for one in bare)), _joined)


def any_position(subject: Subject) -> Iterator[Claim]:
    """Every value at every position modulo the width of a vector, and in the odd tail behind the last whole one."""
    if not subject.flat:
        return
    inputs, count = _values(subject, _DISTINCT)
    count = min(count, _DISTINCT)
    count -= 1 - count % 2
    if count < 3:
        return
    places: np.ndarray = np.resize(np.arange(count), count * _WIDTH + 13)
    whole = max(array.size for array in inputs.values())
    few = {name: array[..., :count] if array.size == whole else array for name, array in inputs.items()}
    many = {name: array[..., places] if array.size == count else array for name, array in few.items()}
    what = f"{count} values, {_WIDTH} times one behind the other"
    yield Claim(what, (Call(few),), then(Call(many)), partial(_taken, places, count))


def one_for_all(subject: Subject) -> Iterator[Claim]:
    """An input of one element that is broadcast against an array that repeats it."""
    # Fused optimizers read one array by the size of another: nothing is defined there.
    if not subject.flat or len(subject.slots) < 2 or subject.operator.kind == "optimizer":
        return
    if any(item.kind == "expression" for item in subject.operator.inputs):
        return
    inputs, count = _values(subject, _SINGLE)
    for slot in subject.slots:
        for place in range(0, count, max(1, count // 8)):
            value = inputs[slot][..., place : place + 1]
            full = {**inputs, slot: np.broadcast_to(value, inputs[slot].shape).copy()}
            single = {**inputs, slot: value}
            if subject.allowed(full) and subject.holds((full,), single, same):
                what = f"{slot} of one element, {value.ravel()[0]:g}, against an array full of it"
                yield Claim(what, (Call(full),), then(Call(single)), same)


def one_row(subject: Subject) -> Iterator[Claim]:
    """One slice along an axis alone against the same slice among others, where the function treats slices apart."""
    if subject.flat or not subject.starts:
        return
    for axes in subject.groups:
        found = mapped(subject, axes, slice(0, 1))
        if found is None or not any(axis is not None and axis >= 0 for axis in found):
            continue
        kept = [axis if axis is not None and axis >= 0 else None for axis in found]
        for start in subject.starts:
            for place in (0, _length(start.inputs, axes) - 1):
                part = slice(place, place + 1)
                what = f"{start.why}: slice {place} of {named(axes)} alone"
                second = then(Call(sliced(start.inputs, axes, part)))
                yield Claim(what, (start.call,), second, partial(changed, kept, part), exact=start.exact)


def compiled(subject: Subject) -> Iterator[Claim]:
    """The same call through the compiler."""
    for start in subject.starts[:2]:
        second = then(Call(start.inputs, compiled=True))
        yield Claim(f"{start.why}, compiled", (start.call,), second, same, exact=start.exact)


def on_gpu(subject: Subject) -> Iterator[Claim]:
    """The same call on the first GPU, where there is one."""
    if subject.device != "cpu" or "cuda:0" not in runner_of(subject.framework).devices():
        return
    for start in subject.starts:
        second = then(Call(start.inputs, device="cuda:0"))
        yield Claim(f"{start.why}, on a GPU", (start.call,), second, same, exact=start.exact)


def along(values: np.ndarray, axis: int, places: np.ndarray | slice) -> np.ndarray:
    """Elements at ``places`` of an axis."""
    result: np.ndarray = values[(slice(None),) * axis + (places,)]
    return result


def sliced(inputs: Arrays, axes: Sequence[tuple[str, int]], places: np.ndarray | slice) -> Arrays:
    """The inputs with those places of the axes alone."""
    made = dict(inputs)
    for name, axis in axes:
        made[name] = along(made[name], axis, places)
    return made


def mapped(subject: Subject, axes: Sequence[tuple[str, int]], places: np.ndarray | slice) -> list[int | None] | None:
    """For each output the axis along which it changes as the inputs do; -1 where it stays, None where neither.

    None in all when the function refuses the inputs.
    """
    sample = subject.sample
    before, after = subject.ideal(sample), subject.ideal(sliced(sample, axes, places))
    if before is None or after is None or len(before) != len(after):
        return None
    size = _length(sample, axes)
    found: list[int | None] = []
    for one, other in zip(before, after, strict=True):
        fitting = [
            axis for axis, length in enumerate(one.shape) if length == size and agree(other, along(one, axis, places))
        ]
        found.append(fitting[0] if fitting else (-1 if agree(other, one) else None))
    return found


def changed(axes: Sequence[int | None], places: np.ndarray | slice, ran: Sequence[Outputs]) -> Outputs:
    """The outputs with those places of their axes alone; as they are where the axis is -1."""
    return [
        None if axis is None or one is None else (one if axis < 0 else along(one, axis, places))
        for axis, one in zip(axes, ran[0], strict=True)
    ]


def named(axes: Sequence[tuple[str, int]]) -> str:
    """Axes in words: ``axis 0 of x, axis 1 of y``."""
    return ", ".join(f"axis {axis} of {name}" for name, axis in axes)


def _length(inputs: Arrays, axes: Sequence[tuple[str, int]]) -> int:
    name, axis = axes[0]
    return int(inputs[name].shape[axis])


def _values(subject: Subject, most: int) -> tuple[Arrays, int]:
    """Few hundred values of a flat operator, and how many; more only for those of one input."""
    if not subject.flat:
        return {}, 0
    inputs = subject.values
    count = max((array.size for array in inputs.values()), default=0)
    if most > count and subject.starts:
        longer = subject.starts[0].inputs
        total = max(array.size for array in longer.values())
        places = np.unique(np.linspace(0, total - 1, min(total, most)).astype(int))
        picked = {name: array[..., places] if array.size == total else array for name, array in longer.items()}
        return picked, places.size
    return inputs, count


def _cut(inputs: Arrays, places: slice, count: int) -> Arrays:
    """Those places of every array that has one for each value."""
    return {name: array[..., places] if array.size == count else array for name, array in inputs.items()}


def _taken(places: np.ndarray | slice, count: int, ran: Sequence[Outputs]) -> Outputs:
    """Those places of the results, as one row."""
    return [None if one is None or one.shape[-1:] != (count,) else one[..., places] for one in ran[0]]


def _joined(ran: Sequence[Outputs]) -> Outputs:
    """Results of single elements in one row."""
    columns = zip(*ran, strict=True)
    return [np.concatenate([np.ravel(one) for one in column if one is not None]) for column in columns]


def _with_axes(inputs: Arrays, layout: str) -> Arrays:
    """Lists of values in as many axes as the layout is about, cut where they do not come out even."""
    count = max(array.size for array in inputs.values())
    match layout:
        case "transposed":
            rows = max(1, int(np.sqrt(count)) | 1)
            shape: tuple[int, ...] = (rows, count // rows)
        case "channels_last":
            rows = max(1, int(np.sqrt(count / 10)) | 1)
            shape = (2, 5, rows, count // (10 * rows))
        case _:
            return inputs
    if not np.prod(shape):
        return inputs
    return {name: np.resize(array, shape) if array.size == count else array for name, array in inputs.items()}
