"""Reference results with a known error: what an operator should have given, for the values that it received.

Three tiers: float64 on everything; longdouble on everything; balls (:mod:`opscanner.dynamic.oracle.balls`, 113, 200 and
400 bits) on the elements where those two differ by more than 2**-6 ULP of the tested format, or where what they agree
on lies so near a rounding tie that the correctly rounded result would be a guess. An element that is not decided then
is undecided, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flint import ctx

from opscanner.dynamic.oracle import balls
from opscanner.dynamic.oracle.cache import load_references, reference_key, store_references
from opscanner.dynamic.oracle.functions import NoSecondOpinion
from opscanner.dynamic.oracle.namespace import reference_names
from opscanner.errors import OpscannerError
from opscanner.precision.formats import FORMATS

#: Two tiers agree when they lie within this many ULP of the tested format.
AGREEMENT_ULP = 2.0**-6

#: Working precisions of balls, in bits; the next one where the one before leaves a doubt.
PRECISIONS = (113, 200, 400)

#: Balls are evaluated this many at a time: one doubt makes a chunk be halved until the element in doubt is alone.
_CHUNK = 4096

#: Nearer to a tie than this part of the value, agreement of float64 and longdouble decides nothing.
_TIE_MARGIN = 2.0**-49

TIER_FLOAT64, TIER_LONGDOUBLE, TIER_BALLS = 1, 2, 3


@dataclass(frozen=True)
class Reference:
    """One output's exact values, as far as they are known.

    Parameters
    ----------
    values, low : ndarray of float64 (complex128 for complex outputs)
        The value is their unevaluated sum; ``low`` is 0 where ``values`` is NaN or infinite.
    undecided : ndarray of bool
        True where the oracle cannot say: such elements must not be judged.
    tier : ndarray of uint8
        What decided: 1 float64 alone (integers and booleans), 2 float64 and longdouble agree, 3 balls.
    bound_ulp : float
        No decided element is known worse than this: the largest distance of the tiers that agree, or radius of a ball,
        in ULP of the tested format.
    """

    values: np.ndarray
    low: np.ndarray
    undecided: np.ndarray
    tier: np.ndarray
    bound_ulp: float


def evaluate_reference(
    expression: str,
    inputs: Mapping[str, np.ndarray],
    format_: str,
    elementwise: bool,
    decide_limit: int = 20000,
    cache: Path | None = None,
) -> tuple[Reference, ...]:
    """The reference results of an expression, one for each of its outputs.

    Parameters
    ----------
    expression : str
        In the language of :func:`~opscanner.dynamic.oracle.namespace.reference_names`, over ``inputs``; ``format_``
        in it is the tested format's name.
    inputs : mapping of str to ndarray
        The values that the operator received; floats as float64 (or complex128).
    format_ : str
        The tested format.
    elementwise : bool
        True when each element of an output depends on the inputs' elements at its place alone: then balls recompute
        single elements, else the whole expression.
    decide_limit : int
        Balls are asked for at most so many elements; of an expression that is not elementwise, only when its inputs
        have at most so many. What is left untrusted is undecided.
    cache : Path, optional
        A folder where results are kept between runs.

    Raises
    ------
    OpscannerError
        When the expression cannot be evaluated.
    """
    key = reference_key(expression, inputs, format_, elementwise, decide_limit)
    if cache is not None and (kept := load_references(cache, key)) is not None:
        return tuple(Reference(**fields) for fields in kept)
    with np.errstate(all="ignore"):
        made = _Evaluation(expression, inputs, format_).references(elementwise, decide_limit)
    if cache is not None:
        store_references(cache, key, [vars(reference) for reference in made])
    return made


def refine(
    expression: str, inputs: Mapping[str, np.ndarray], format_: str, indices: np.ndarray
) -> tuple[Reference, ...]:
    """The reference results of an elementwise expression at flat ``indices`` of its output, decided by balls."""
    evaluation = _Evaluation(expression, inputs, format_)
    first = evaluation.run("float64")
    picked = evaluation.at(np.asarray(indices), first[0].shape)
    doubles = [np.asarray(output).reshape(-1)[indices] for output in first]
    with np.errstate(all="ignore"):
        return _Evaluation(expression, picked, format_).decided(doubles)


class _Evaluation:
    """One expression over one set of inputs."""

    def __init__(self, expression: str, inputs: Mapping[str, np.ndarray], format_: str) -> None:
        self.expression, self.inputs, self.format = expression, inputs, format_
        self.code = compile(expression, "<reference>", "eval")

    def run(self, tier: str) -> list[Any]:
        """The outputs in one arithmetic: ``float64``, ``longdouble`` or ``balls``."""
        names = {**reference_names(), "format_": self.format}
        with np.errstate(all="ignore"):
            names.update({name: _convert(np.asarray(value), tier) for name, value in self.inputs.items()})
            try:
                found = _flat(eval(self.code, names))  # noqa: S307  (our own tables)
                # In rows one behind the other: answers are put in by flat index, which a copy would swallow.
                return [np.array(part, order="C") for part in found]
            except NoSecondOpinion:
                raise
            except Exception as error:
                raise OpscannerError(
                    f"the reference {self.expression!r} cannot be evaluated in {tier}: {type(error).__name__}: {error}",
                    "the functions it may call are in opscanner/dynamic/oracle",
                ) from error

    def at(self, indices: np.ndarray, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The inputs of the elements at flat ``indices`` of an output of ``shape``."""
        return {
            name: np.broadcast_to(value, shape).reshape(-1)[indices]
            for name, value in ((name, np.asarray(value)) for name, value in self.inputs.items())
        }

    def minus_zero(self, shape: tuple[int, ...]) -> np.ndarray:
        """Where an input is -0."""
        found: np.ndarray = np.zeros(shape, dtype=bool)
        for value in map(np.asarray, self.inputs.values()):
            if value.dtype.kind == "f":
                found |= (value == 0) & np.signbit(value)
        return found

    def references(self, elementwise: bool, decide_limit: int) -> tuple[Reference, ...]:
        doubles = self.run("float64")
        try:
            longs: Sequence[Any] = self.run("longdouble")
        except NoSecondOpinion:
            longs = [None] * len(doubles)
        made = [_agree(double, long, self.format) for double, long in zip(doubles, longs, strict=True)]
        if any(np.iscomplexobj(value) for value in self.inputs.values()):  # balls are real: there is no third tier
            return tuple(draft.finish() for draft in made)
        if elementwise and all(output.shape == doubles[0].shape for output in doubles):
            return self._decide_elements(doubles, made, decide_limit)
        return self._decide_all(doubles, made, decide_limit)

    def decided(self, doubles: Sequence[np.ndarray]) -> tuple[Reference, ...]:
        """All elements by balls; undecided where they cannot."""
        empty = [_Draft.of(np.asarray(double, dtype=np.float64), self.format) for double in doubles]
        return self._decide_elements(doubles, empty, np.asarray(doubles[0]).size)

    def _decide_elements(
        self, doubles: Sequence[np.ndarray], made: Sequence[_Draft], limit: int
    ) -> tuple[Reference, ...]:
        shape = doubles[0].shape
        wrong = np.logical_or.reduce([draft.untrusted for draft in made]).reshape(-1)
        near = np.logical_or.reduce([draft.near_tie for draft in made]).reshape(-1) & ~wrong
        lost = np.logical_or.reduce([draft.all_lost for draft in made]).reshape(-1) & ~wrong & ~near
        wanted = np.concatenate([np.flatnonzero(wrong), np.flatnonzero(near), np.flatnonzero(lost)])[:limit]
        if not any(draft.complex for draft in made):
            for start in range(0, len(wanted), _CHUNK):
                self._decide_chunk(wanted[start : start + _CHUNK], shape, made, 0)
        return tuple(draft.finish() for draft in made)

    def _decide_chunk(self, indices: np.ndarray, shape: tuple[int, ...], made: Sequence[_Draft], level: int) -> None:
        """Put the balls' answers for ``indices`` in the drafts; more bits, or halves, where there is a doubt."""
        part = _Evaluation(self.expression, self.at(indices, shape), self.format)
        outputs, doubt = part._balls(PRECISIONS[level])
        last = level + 1 == len(PRECISIONS)
        if doubt and len(indices) > 1:
            half = len(indices) // 2
            self._decide_chunk(indices[:half], shape, made, level)
            self._decide_chunk(indices[half:], shape, made, level)
            return
        if doubt and last:
            for draft in made:
                draft.untrusted.reshape(-1)[indices] |= draft.all_lost.reshape(-1)[indices]
            return
        if doubt:
            self._decide_chunk(indices, shape, made, level + 1)
            return
        again: np.ndarray = np.zeros(len(indices), dtype=bool)
        for draft, output in zip(made, outputs, strict=True):
            again |= draft.take(indices, output, part.minus_zero(indices.shape))
        if not last and np.any(again):
            self._decide_chunk(indices[again], shape, made, level + 1)

    def _decide_all(self, doubles: Sequence[np.ndarray], made: Sequence[_Draft], limit: int) -> tuple[Reference, ...]:
        size = sum(np.asarray(value).size for value in self.inputs.values())
        if any(np.any(draft.untrusted) for draft in made) and size <= limit and not any(d.complex for d in made):
            for precision in PRECISIONS:
                try:
                    outputs, doubt = self._balls(precision)
                except NoSecondOpinion:  # what is untrusted stays undecided
                    break
                if doubt:
                    continue
                again = [
                    bool(np.any(draft.take(np.arange(draft.values.size), output, np.asarray(False))))
                    for draft, output in zip(made, outputs, strict=True)
                ]
                if not any(again):
                    break
        return tuple(draft.finish() for draft in made)

    def _balls(self, precision: int) -> tuple[list[tuple[np.ndarray, np.ndarray, np.ndarray]], str]:
        before, ctx.prec = ctx.prec, precision
        balls.clear_doubts()
        try:
            return [balls.from_balls(output) for output in self.run("balls")], balls.doubted()
        finally:
            ctx.prec = before


@dataclass
class _Draft:
    """A reference in the making."""

    values: np.ndarray
    low: np.ndarray
    untrusted: np.ndarray
    near_tie: np.ndarray
    all_lost: np.ndarray  # exact zeros, which both arithmetics give too where everything cancels
    tier: np.ndarray
    distance_ulp: np.ndarray
    format: str = ""
    complex: bool = False

    @staticmethod
    def of(double: np.ndarray, format_: str = "") -> _Draft:
        """All untrusted."""
        shape = double.shape
        return _Draft(
            values=double.copy(),
            low=np.zeros(shape, dtype=double.dtype),
            untrusted=np.ones(shape, dtype=bool),
            near_tie=np.zeros(shape, dtype=bool),
            all_lost=np.zeros(shape, dtype=bool),
            tier=np.full(shape, TIER_FLOAT64, dtype=np.uint8),
            distance_ulp=np.zeros(shape),
            format=format_,
            complex=double.dtype.kind == "c",
        )

    def take(
        self, indices: np.ndarray, output: tuple[np.ndarray, np.ndarray, np.ndarray], minus_zero: np.ndarray
    ) -> np.ndarray:
        """Take over what balls say for flat ``indices``; True where more bits are wanted.

        Balls know no -0: the sign of a zero, and of an infinity that a zero gave, are float64's, and where an input is
        -0 float64 has the last word on results that are quite different (the angle of (-1, -0)).
        """
        high, low, radius = (np.broadcast_to(part.reshape(-1), indices.shape) for part in output)
        before = self.values.reshape(-1)[indices]
        signed = (high == 0) | (np.isinf(high) & np.isinf(before))
        high = np.where(signed, np.copysign(high, before), high)
        alike = np.abs(high - before) <= 2.0**-10 * np.maximum(np.abs(high), np.abs(before))
        other = minus_zero & ~alike
        high, low, radius = np.where(other, before, high), np.where(other, 0, low), np.where(other, 0, radius)
        unit = _unit(high, self.format)
        radius = np.where((np.abs(high) >= 2 * _beyond(self.format)) & (radius < np.abs(high) / 4), 0.0, radius)
        wide = ~(radius <= AGREEMENT_ULP / 2 * unit)
        away = _tie_distance(high, low, unit)
        unsure = wide | ((radius > 0) & (away <= radius))
        for target, source in (
            (self.values, high),
            (self.low, low),
            (self.untrusted, wide),
            (self.near_tie, unsure & ~wide),
            (self.tier, np.uint8(TIER_BALLS)),
            (self.distance_ulp, radius / unit),
        ):
            target.reshape(-1)[indices] = source
        answer: np.ndarray = unsure
        return answer

    def finish(self) -> Reference:
        decided = self.distance_ulp[~self.untrusted]
        return Reference(
            values=self.values,
            low=self.low,
            undecided=self.untrusted,
            tier=self.tier,
            bound_ulp=float(np.max(decided, initial=0.0)),
        )


def _agree(double: np.ndarray, long: np.ndarray | None, format_: str) -> _Draft:
    """What float64 and longdouble say together."""
    if double.dtype.kind not in "fc":
        draft = _Draft.of(double.astype(np.float64), format_)
        draft.untrusted[...] = False
        return draft
    draft = _Draft.of(double.astype(np.complex128 if double.dtype.kind == "c" else np.float64), format_)
    if long is None:
        return draft
    if long.shape != double.shape:
        raise OpscannerError(f"float64 gives shape {double.shape}, longdouble {long.shape}", "correct the reference")
    high = long.astype(draft.values.dtype)
    finite = np.isfinite(high)
    low = np.where(finite, long - high, 0).astype(draft.values.dtype)
    unit = _unit(np.abs(high) if draft.complex else high, format_)
    largest = _beyond(format_)
    distance = np.abs((double - high) - low)
    same = (double == high) | (np.isnan(double) & np.isnan(high))
    if not draft.complex:  # what rounds to infinity is infinity, however large
        same |= (np.abs(double) >= largest) & (np.abs(high) >= largest) & (np.sign(double) == np.sign(high))
    distance = np.where(same, np.where(np.abs(high) < largest, np.abs(low), 0.0), distance)
    draft.untrusted = np.asarray(~(distance <= AGREEMENT_ULP * unit))  # an array also where the shape is ()
    draft.values, draft.low = np.asarray(high), np.asarray(low)
    draft.distance_ulp = np.asarray(distance / unit)
    draft.tier[...] = TIER_LONGDOUBLE
    if not draft.complex:
        margin = np.maximum(distance, np.abs(high) * _TIE_MARGIN)
        draft.all_lost = (double == 0) & (long == 0)
        inside = np.abs(high) < largest
        draft.near_tie = np.asarray(inside & ~draft.untrusted & (_tie_distance(high, low, unit) <= margin))
    return draft


def _beyond(format_: str) -> float:
    """Twice the largest power of two of the format: what is as large rounds to infinity, if the format has one."""
    return float(np.ldexp(1.0, min(FORMATS[format_].emax + 1, 1023)))


def _unit(values: np.ndarray, format_: str) -> np.ndarray:
    """The ULP of the format at ``values`` (of its largest exponent beyond, and for infinities and NaN)."""
    row = FORMATS[format_]
    _, exponent = np.frexp(values)
    exponent = np.where(values == 0, row.emin, np.where(np.isfinite(values), exponent - 1, row.emax))
    answer: np.ndarray = np.ldexp(1.0, np.clip(exponent, row.emin, row.emax) - row.precision + 1)
    return answer


def _tie_distance(high: np.ndarray, low: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """How far ``high + low`` is from the nearest midpoint of two neighbours; infinity beyond the format."""
    scaled = np.abs(high) / unit
    part = scaled - np.floor(scaled) - 0.5
    answer: np.ndarray = np.where(scaled < 2.0**52, np.abs(part + np.copysign(1.0, high) * low / unit) * unit, np.inf)
    return answer


def _convert(value: np.ndarray, tier: str) -> Any:
    """An input in the tier's arithmetic; integers and booleans as they are."""
    if value.dtype.kind == "c":
        if tier == "balls":
            raise OpscannerError("balls are real: a complex input has no third tier", "")
        return value.astype(np.clongdouble if tier == "longdouble" else np.complex128)
    if value.dtype.kind != "f":
        return value
    if tier == "balls":
        return balls.to_balls(value)
    return value.astype(np.longdouble if tier == "longdouble" else np.float64)


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)
    else:
        yield value
