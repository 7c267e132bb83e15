"""An operator in a format as the laws see it: inputs to start from, and the mathematical function behind it.

Which laws an operator's function obeys is not listed by hand. The reference expression of the catalog (the operator's
own float64 call, where there is none) is evaluated in float64 before and after a change of the inputs; a law applies
where it holds there to :data:`_HOLDS`. Whether the operator obeys it in its own format is then another question.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType

import numpy as np

from opscanner.dynamic.inputs.domain import allowed_places
from opscanner.dynamic.inputs.fitting import Case, make_case
from opscanner.dynamic.inputs.patterns import sums
from opscanner.dynamic.inputs.values import boundary_values, every_value, listable, stratified
from opscanner.dynamic.laws.law import Arrays, Call, Outputs
from opscanner.dynamic.oracle.namespace import reference_names
from opscanner.dynamic.trial import run_call
from opscanner.errors import OpscannerError
from opscanner.measurements import Status
from opscanner.operators.catalog import Operator
from opscanner.precision.formats import FORMATS
from opscanner.precision.layout import layout_of
from opscanner.precision.rounding import round_to_format

#: Relative to the largest result: float64 sums of thousands of terms err by less, and no wrong law comes as near.
_HOLDS = 1e-9
#: Terms along a growing axis: odd and past a vector; past the counts at which float16 (2048) and bfloat16 (256) stall.
_SHORT, _LONG = 131, 2600
_MIXED = 20_000


@dataclass(frozen=True, eq=False)
class Start:
    """Inputs that a law starts from.

    Parameters
    ----------
    exact : bool
        True when every sum of them, in any order, is a float32 number: values are small multiples of one power of two.
    """

    call: Call
    why: str
    exact: bool = False

    @property
    def inputs(self) -> Arrays:
        return self.call.inputs


@dataclass(frozen=True, eq=False)
class Subject:
    """One operator in one format and framework."""

    operator: Operator
    format_: str
    framework: str
    device: str
    seed: int = 0
    case: Case = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "case", make_case(self.operator, self.format_, "law", self.seed, "small"))

    @property
    def flat(self) -> bool:
        """True when the inputs may be lists of values, each place by itself."""
        return self.case.flat and bool(self.case.slots)

    @property
    def slots(self) -> tuple[str, ...]:
        """The free float inputs; parts of complex ones are left out."""
        return tuple(slot for slot in self.case.slots if "." not in slot)

    @functools.cached_property
    def starts(self) -> tuple[Start, ...]:
        """Inputs of every kind that suits the operator."""
        if self.flat:
            made = self.case.list_of(self._lists())
            return () if made is None else (Start(Call(made), self._listed()),)
        return tuple(self._rows())

    @functools.cached_property
    def sample(self) -> Arrays:
        """Inputs on which to look at the float64 function."""
        own = self.values if self.flat else self.case.shaped({})
        return own or self.starts[0].inputs

    @functools.cached_property
    def groups(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """Axes of equal size in the operator's row, in whatever inputs, as (input, axis): they are taken for one."""
        found: dict[int, list[tuple[str, int]]] = {}
        for name, array in self.sample.items():
            for axis, size in enumerate(array.shape):
                if size > 1:
                    found.setdefault(size, []).append((name, axis))
        return tuple(map(tuple, found.values()))

    @functools.cached_property
    def values(self) -> Arrays:
        """For elementwise operators: few hundred values, those of the row's range among them."""
        ordinary = {slot: self.case.typical(slot, (300,)) for slot in self.case.slots}
        spread = {slot: self._mixed(300) for slot in self.case.slots}
        whole = {slot: np.rint(self.case.generator.uniform(-999, 999, 300)) for slot in self.case.slots}
        lists = {
            slot: round_to_format(np.concatenate([ordinary[slot], spread[slot], whole[slot]]), self.format_)
            for slot in self.case.slots
        }
        order = self.case.generator.permutation(900)
        return self.case.list_of({slot: value[order] for slot, value in lists.items()}) or {}

    @functools.cached_property
    def affine(self) -> bool:
        """True when results are linear, or linear and a constant, in each float input alone: sums of products."""
        if self.flat or not self.slots or len(self.slots) != len(self.case.slots):
            return False
        made = self.case.shaped({})
        return made is not None and all(self._affine_in(slot, made) for slot in self.slots)

    @functools.cached_property
    def sorted_lists(self) -> frozenset[str]:
        """Lists that the operator's row states and that ascend in it: its calls may ask for sorted ones."""
        made = self.case.shaped({}) or {}
        stated = {item.name for item in self.operator.inputs if item.kind == "expression"}
        return frozenset(
            name
            for name, array in made.items()
            if name in stated and array.dtype.kind in "iuf" and array.ndim
            if bool((np.diff(array, axis=-1) >= 0).all()) or bool((np.diff(array, axis=0) >= 0).all())
        )

    def ideal(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
        """The function's values in float64; None where it refuses the inputs."""
        key = _digest(inputs)
        if key not in self._known:
            self._known[key] = self._evaluated(inputs)
        return self._known[key]

    @functools.cached_property
    def _known(self) -> dict[str, list[np.ndarray] | None]:
        return _known_of(self.operator.id, "" if self.operator.reference else self.framework)

    def _evaluated(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
        if not self.operator.reference:
            call = self.operator.calls[self.framework]
            outcome = run_call(self.framework, call, inputs, "float64", self.device)
            return [np.asarray(one) for one in outcome.outputs] if outcome.status is Status.RAN else None
        names = {**reference_names(), "format_": self.format_, **inputs}
        try:
            with np.errstate(all="ignore"):
                found = eval(_compiled(self.operator.reference), names)  # noqa: S307  (the project's own tables)
            return [np.asarray(one) for one in _flat(found)]
        except (ArithmeticError, AttributeError, LookupError, OpscannerError, TypeError, ValueError):
            return None

    def holds(self, first: Sequence[Arrays], second: Arrays, expect: Callable[[Sequence[Outputs]], Outputs]) -> bool:
        """True when the law is true of the float64 function, of every output that is expected at all.

        Outside of the domain nobody says what comes, and some of scipy's functions never come back.
        """
        if not all(self.allowed(one) for one in (*first, second)):
            return False
        ran = [self.ideal(one) for one in first]
        got = self.ideal(second)
        known = [one for one in ran if one is not None]
        if got is None or len(known) != len(ran):
            return False
        expected = expect(known)
        pairs = [(one, other) for one, other in zip(got, expected, strict=True) if other is not None]
        return bool(pairs) and all(agree(one, other, each=self.flat) for one, other in pairs)

    def allowed(self, inputs: Arrays) -> bool:
        """True when the inputs lie in the operator's domain, all of them."""
        return bool(allowed_places(self.operator.domain, inputs, ()).all())

    def within(self, inputs: Arrays) -> bool:
        """True for operators whose values may be anything, or lie in the ranges of the operator's row."""
        if self.operator.reference:
            return True
        return all(
            bool(((inputs[item.name] >= item.low) & (inputs[item.name] <= item.high)).all())
            for item in self.operator.float_inputs
        )

    def _lists(self) -> dict[str, np.ndarray]:
        slots = self.case.slots
        if len(slots) == 1 and listable(self.format_):
            return {slots[0]: every_value(self.format_)}
        if len(slots) == 2 and slots[1] == "dy" and listable(self.format_):
            values = every_value(self.format_)
            return {slots[0]: values, "dy": self.case.typical("dy", values.shape)}
        order = self.case.generator.permutation(2 * _MIXED)
        return {
            slot: np.concatenate([self.case.typical(slot, (_MIXED,)), self._mixed(_MIXED)])[order] for slot in slots
        }

    def _listed(self) -> str:
        if listable(self.format_) and (len(self.case.slots) == 1 or self.case.slots[1:] == ("dy",)):
            return f"every value of {self.format_}"
        return "values of the row's range, exponents spread evenly, boundary values"

    def _mixed(self, count: int) -> np.ndarray:
        generator = self.case.generator
        spread = stratified(generator, count // 2, self.format_)
        listed = generator.choice(boundary_values(self.format_), count - count // 2)
        result: np.ndarray = generator.permutation(np.concatenate([spread, listed]))
        return result

    def _rows(self) -> Iterator[Start]:
        for length in dict.fromkeys((self.case.length(_SHORT), self.case.length(_LONG) if sums(self.case) else None)):
            made = self.case.shaped({}, length)
            if made is not None:
                yield Start(Call(made), "values of the row's range")
        if self.affine:
            for fill, why in ((self._multiples, "small multiples of a power of two"), (self._crumbs, "1 and crumbs")):
                length = self.case.length(_LONG)
                shapes = {slot: self.case.shape(slot, length) for slot in self.slots}
                made = self.case.shaped({slot: fill(shape) for slot, shape in shapes.items()}, length, strict=True)
                if made is not None and self._stays_exact(made):
                    yield Start(Call(made), why, exact=True)

    def _multiples(self, shape: tuple[int, ...]) -> np.ndarray:
        # One input: full mantissas below 2. Several: products of 3 bits each. Sums of 4,096 stay below 2**24 steps.
        precision = FORMATS[self.format_].precision
        bits = min(precision, 11) if len(self.slots) == 1 else 3
        steps = self.case.generator.integers(-(2**bits) + 1, 2**bits, shape)
        values: np.ndarray = steps * 2.0 ** (1 - bits)
        return values

    def _crumbs(self, shape: tuple[int, ...]) -> np.ndarray:
        """1 in front along the longest axis, then half a unit in its last place; 1 throughout in further inputs."""
        crumb = 2.0 ** -FORMATS[self.format_].precision
        value = np.full(shape, crumb if len(shape) else 1.0)
        if len(shape):
            value[(slice(None),) * int(np.argmax(shape)) + (0,)] = 1.0
        return value

    def _stays_exact(self, inputs: Arrays) -> bool:
        """True when the largest sum of products is below 2**24 of the smallest step: float32 holds every part of it."""
        magnitudes = {name: np.abs(array) if array.dtype.kind == "f" else array for name, array in inputs.items()}
        ideal = self.ideal(magnitudes)
        step = 1.0
        for slot in self.slots:
            used = inputs[slot][inputs[slot] != 0]
            step *= float(_lowest_bit(used).min()) if used.size else 1.0
        largest = layout_of(self.format_).largest
        if ideal is None:
            return False
        tops = [float(np.max(np.abs(one), initial=0.0)) for one in ideal if one.dtype.kind == "f"]
        return bool(tops) and max(tops) < min(step * 2.0**24, largest / 2)

    def _affine_in(self, slot: str, inputs: Arrays) -> bool:
        value = inputs[slot]
        other = self.case.generator.permutation(value.ravel()).reshape(value.shape) * 0.5

        def at(array: np.ndarray) -> list[np.ndarray] | None:
            return self.ideal({**inputs, slot: array})

        found = [at(value), at(other), at(value + other), at(np.zeros_like(value))]
        if any(one is None or any(part.dtype.kind != "f" for part in one) for one in found):
            return False
        first, second, both, none = found
        assert first is not None and second is not None and both is not None and none is not None
        return all(agree(b, f + s - z) for f, s, b, z in zip(first, second, both, none, strict=True))


def agree(got: np.ndarray, expected: np.ndarray, *, each: bool = False) -> bool:
    """True when both are the same but for float64's rounding: ``each`` for itself, else measured by a middling one."""
    if got.shape != expected.shape or not got.size:
        return False
    if got.dtype.kind not in "fc":
        return bool(np.array_equal(got, expected))
    with np.errstate(all="ignore"):
        finite = np.isfinite(got) & np.isfinite(expected)
        alike = (got == expected) | (np.isnan(got) & np.isnan(expected))
        near = np.abs(got - expected) <= _HOLDS * np.maximum(np.abs(got), 0.0 if each else _scale(got, finite))
    return bool((alike | (finite & near)).all()) and bool(finite.any())


def _scale(values: np.ndarray, finite: np.ndarray) -> float:
    """A middling magnitude: the largest would hide what is wrong in all smaller ones."""
    kept = np.abs(values[finite])
    kept = kept[kept > 0]
    return float(np.median(kept)) if kept.size else 0.0


def _lowest_bit(values: np.ndarray) -> np.ndarray:
    """The power of two at the last bit that is set."""
    mantissa, exponent = np.frexp(np.abs(values))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    result: np.ndarray = np.ldexp((whole & -whole).astype(float), exponent - 53)
    return result


@functools.lru_cache(maxsize=4)
def _known_of(operator: str, framework: str) -> dict[str, list[np.ndarray] | None]:
    """Values of an operator's function that were asked for before, by its inputs: laws ask for the same ones."""
    return {}


def _digest(inputs: Mapping[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name, array in inputs.items():
        found.update(f"{name}{array.dtype.str}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


@functools.lru_cache(maxsize=1024)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<reference>", "eval")


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)
    else:
        yield value
