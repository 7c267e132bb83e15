"""Faults, and which of them are of one cause: a story is what a reader is told once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscanner.dynamic.fault_kinds import Cause, Kind
from opscanner.measurements import Measurement, Verdict


@dataclass(frozen=True)
class Fault:
    """The smallest input found on which an operator is wrong.

    Parameters
    ----------
    inputs : dict of str to ndarray
        Floats are float64 arrays that hold values of ``format``.
    output, index : int
        Which output is wrong, and the flat position in it.
    exact, expected, got : float
        The reference there, the same rounded once to ``output_format``, and the result.
    upcast : float or None
        The same call in the next wider format, rounded once.
    error_ulp : float
        NaN for a class mismatch.
    bound_ulp : float
        What the reference is known to, at the worst, in ULP.
    kernels : tuple of str
        Operators of the framework that ran, those that only move data left out.
    measurement : Measurement
        The one whose inputs were reduced.
    """

    operator: str
    direction: str
    framework: str
    version: str
    format: str
    device: str
    layout: str
    verdict: Verdict
    expression: str
    inputs: dict[str, np.ndarray]
    output: int
    index: int
    output_format: str
    exact: float
    expected: float
    got: float
    upcast: float | None
    error_ulp: float
    budget_ulp: float
    bound_ulp: float
    cause: Cause
    kernels: tuple[str, ...]
    script: str
    measurement: Measurement

    @property
    def elements(self) -> int:
        """Values in all inputs."""
        return sum(array.size for array in self.inputs.values())


@dataclass(frozen=True)
class NotShown:
    """A faulty measurement of which no fault was made, and why."""

    operator: str
    framework: str
    format: str
    verdict: Verdict
    why: str

    @classmethod
    def of(cls, one: Measurement, why: str) -> NotShown:
        """That of a measurement."""
        return cls(one.operator, one.framework, one.format, one.verdict, why)


@dataclass(frozen=True)
class Story:
    """Faults of one cause: one framework and version, one device, one kind, and what they share.

    Parameters
    ----------
    core : str
        The operator of the framework that they share.
    faults : tuple of Fault
        The one to show first.
    """

    core: str
    kind: Kind
    faults: tuple[Fault, ...]

    @property
    def name(self) -> str:
        """Equal for faults of one cause: what the table ``fault`` holds as ``cause``."""
        first = self.faults[0]
        return f"{first.framework} {first.version} {first.device}: {self.core} {self.kind.value}"


#: For each fault places in sources that serve it, in any form that compares equal.
Places = Callable[[Fault], Sequence[Any]]


def group_faults(faults: Sequence[Fault], places: Places = lambda fault: ()) -> list[Story]:
    """Faults as stories: of one kind, in one release on one device, that share a kernel or a place in the sources.

    A composite joins the story of an operator that it ran and that fails in the same way alone; without one it stands
    for itself, with its variants. Stories whose cause is known come first, of these the ones that more operators share;
    those at the end of float32's range come last.
    """
    keyed: dict[tuple[Any, ...], list[Fault]] = defaultdict(list)
    for one in faults:
        formula = one.cause.remedy or one.cause.formula
        keyed[one.framework, one.version, one.device, one.cause.kind, formula].append(one)
    stories = []
    for (*_, kind, _formula), alike in keyed.items():
        cores: dict[str, list[Fault]] = {}
        kernels: set[str] = set()
        at: dict[Any, str] = {}
        for one in sorted(alike, key=lambda one: (not _alone(one), len(one.kernels))):
            shared = [at[place] for place in places(one) if place in at]
            names = [*shared, *(name for name in map(_base, one.kernels) if name in kernels)]
            own = _base(one.kernels[0]) if _alone(one) else one.operator.partition(".")[0]
            core = names[0] if names else own
            if _alone(one):
                kernels.update({core, *map(_base, one.kernels)} if core == own else {core})
            cores.setdefault(core, []).append(one)
            for place in places(one):
                at.setdefault(place, core)
        stories += [Story(core, kind, tuple(sorted(members, key=_telling))) for core, members in cores.items()]
    return sorted(stories, key=_rank)


def _alone(fault: Fault) -> bool:
    """Whether one operator of the framework did it all: itself, or by what it is called inside (``_softmax``)."""
    first = _base(fault.kernels[0]).strip("_") if fault.kernels else ""
    return bool(first) and all(first in name for name in fault.kernels)


def _base(kernel: str) -> str:
    """An operator without the mark of its in-place form."""
    return kernel.rstrip("_") or kernel


#: Kinds that tell less than the others, and how far back their stories stand.
_BACK = {
    Kind.CANCELLATION: 1, Kind.ROUNDED_INSIDE: 1, Kind.WRONG_FORMULA: 1, Kind.COMPOSED: 2, Kind.END_OF_RANGE: 3,
}  # fmt: skip


def _rank(story: Story) -> tuple[Any, ...]:
    operators = {one.operator for one in story.faults}
    back = 2 if all(map(_far_off, story.faults)) else 0
    return max(back, _BACK.get(story.kind, 0)), -len(operators), -len(story.faults), story.name


def _far_off(fault: Fault) -> bool:
    """Whether it takes infinities, NaN or subnormals of float32 as inputs: true, and of few readers' concern."""
    values = [array.ravel() for array in fault.inputs.values() if array.dtype.kind == "f"]
    joined = np.abs(np.concatenate(values)) if values else np.zeros(0)
    return bool((~np.isfinite(joined) | ((joined > 0) & (joined < 2.0**-126))).any())


def _telling(fault: Fault) -> tuple[Any, ...]:
    """Few operators, few values, a finite result, no variant: what a reader wants to see first."""
    return len(fault.kernels), fault.elements > 20, not np.isfinite(fault.got), *_order(fault)


def _order(fault: Fault) -> tuple[Any, ...]:
    return fault.layout != "contiguous", "." in fault.operator, fault.elements, fault.operator
