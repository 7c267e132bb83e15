"""From faulty measurements to faults: inputs made again, reduced to the smallest that still fails, and their cause."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opscanner.dynamic.campaign import Task, run_campaign
from opscanner.dynamic.fault_kinds import Cause, Kind, Subject, find_cause
from opscanner.dynamic.fault_script import Shown, write_script
from opscanner.dynamic.inputs import STRATEGIES, generate
from opscanner.dynamic.measure import budget_of, operator_by_id
from opscanner.dynamic.minimize import minimize
from opscanner.dynamic.oracle.oracle import Reference, evaluate_reference
from opscanner.dynamic.trial import Outcome, run_call
from opscanner.dynamic.verdict import WIDER, Judgement, judge
from opscanner.frameworks.runners import runner_of
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_error

#: Strategies whose inputs tell a story by themselves, tried first.
_PLAIN = ("ones", "one_and_crumbs", "exhaustive", "large_n")
#: So many strategies of an operator, format and verdict are reduced.
_CANDIDATES = 2
#: Of an elementwise operator's error this part is kept; of any other's so many times the budget.
_KEPT_PART, _KEPT_BUDGETS = 4.0, 4.0
_TRIALS, _SECONDS = 500, 10.0


@dataclass(frozen=True)
class FaultTask(Task):
    """Measurements of one operator, framework, format and verdict that are to become a fault."""

    measurements: tuple[Measurement, ...] = ()
    size: str = "default"
    cache: str = ""

    @property
    def key(self) -> str:
        """As a task's, for each verdict."""
        return f"{super().key}/{self.measurements[0].verdict.value}"

    def parts(self) -> tuple[Task, ...]:
        """None: a fault is lost as a whole."""
        return ()

    def lost(self, status: Status, message: str, elapsed_s: float) -> list[Any]:
        """No rows: what crashes when it is made smaller stays a measurement."""
        return []


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
class _Judged:
    outcome: Outcome
    output: int
    reference: Reference
    upcast: np.ndarray | None
    judgement: Judgement


class _Probe:
    """One output of one call, judged on any inputs."""

    def __init__(self, one: Measurement, cache: str) -> None:
        self.operator = operator_by_id(one.operator)
        self.one = one
        self.cache = Path(cache) if cache else None

    def run(self, inputs: Mapping[str, np.ndarray], format_: str, layout: str) -> np.ndarray | None:
        """The output, or None where it does not run."""
        outcome = self._call(inputs, format_, layout)
        return outcome.outputs[self.one.output] if outcome.status is Status.RAN else None

    def reference(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its exact values."""
        found = evaluate_reference(
            self.operator.reference, inputs, self.one.format, elementwise=self.operator.elementwise, decide_limit=256
        )
        return found[self.one.output].values

    def judged(self, inputs: Mapping[str, np.ndarray], layout: str) -> _Judged | None:
        """What is said of it; None where it does not run."""
        one, operator = self.one, self.operator
        outcome = self._call(inputs, one.format, layout)
        if outcome.status is not Status.RAN:
            return None
        got, format_ = outcome.outputs[one.output], outcome.formats[one.output]
        reference = evaluate_reference(operator.reference, inputs, one.format, elementwise=operator.elementwise)[
            one.output
        ]
        if got.shape != reference.values.shape:
            return None
        wide = self._call(inputs, WIDER[one.format], layout)
        upcast = round_to_format(wide.outputs[one.output], format_) if wide.status is Status.RAN else None
        judgement = judge(
            got, reference, upcast, format_, budget_of(operator, format_), elementwise=operator.elementwise,
            terms=sum(array.size for array in inputs.values()) / max(got.size, 1),
        )  # fmt: skip
        return _Judged(outcome, one.output, reference, upcast, judgement)

    def _call(self, inputs: Mapping[str, np.ndarray], format_: str, layout: str) -> Outcome:
        return run_call(self.one.framework, self.one.expression, inputs, format_, self.one.device, layout)


def fault_tasks(measured: Sequence[Measurement], *, size: str = "default", cache: str = "") -> list[FaultTask]:
    """What is to be made small: for each operator, framework, format, device and verdict a few of its measurements.

    Operators without a reference are left out: nothing says what they should have given. So are rows of no input
    strategy (laws).
    """
    groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    order = {strategy.id: place for place, strategy in enumerate(STRATEGIES)}
    for one in measured:
        made_again = one.strategy in order and one.format in WIDER
        if one.verdict.is_fault and made_again and operator_by_id(one.operator).reference:
            groups[one.operator, one.framework, one.format, one.device, one.verdict.value].append(one)

    def plain(one: Measurement) -> tuple[Any, ...]:
        place = _PLAIN.index(one.strategy) if one.strategy in _PLAIN else len(_PLAIN)
        return one.layout != "contiguous", place, order.get(one.strategy, 99)

    tasks = []
    for rows in groups.values():
        first = min(rows, key=plain)
        worst = min(rows, key=lambda one: (one.layout != "contiguous", -np.nan_to_num(one.max_ulp)))
        chosen = [first, *([worst] if worst is not first else [])][:_CANDIDATES]
        tasks.append(
            FaultTask(
                first.operator, first.direction, first.format, first.device, (first.framework,),
                tuple(one.strategy for one in chosen), first.seed, tuple(chosen), size, cache,
            )
        )  # fmt: skip
    return tasks


def find_faults(
    tasks: Sequence[FaultTask],
    *,
    jobs: int,
    time_limit_s: float = 120.0,
    memory_limit_mib: int | None = 6144,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[list[Fault], int]:
    """Faults of tasks in worker processes, and how many tasks gave none: they crashed, hung, or showed it no more."""
    found: list[Fault] = []
    silent = 0

    def keep(task: Task, rows: list[Any]) -> None:
        nonlocal silent
        found.extend(rows)
        silent += not rows
        said = ", ".join(f"{row.elements} values, {row.cause.kind.value}" for row in rows) or "nothing: not shown again"
        progress(f"{task.operator} {task.frameworks[0]} {task.format}: {said}")

    summary = run_campaign(
        tasks, _reduce, jobs=jobs, time_limit_s=time_limit_s, memory_limit_mib=memory_limit_mib, on_rows=keep
    )
    place = {task.key: number for number, task in enumerate(tasks)}
    found.sort(key=lambda one: min(n for key, n in place.items() if key.startswith(f"{one.operator}/")))
    return found, max(silent, sum(summary.lost.values()))


def _reduce(task: Task) -> list[Any]:
    assert isinstance(task, FaultTask)
    return list(reduce_task(task))


def reduce_task(task: FaultTask) -> list[Fault]:
    """The faults of a task, one of each kind of cause: the one of fewest values."""
    found: dict[Kind, Fault] = {}
    for one in task.measurements:
        fault = reduce_measurement(one, size=task.size, cache=task.cache)
        if fault is not None:
            kept = found.get(fault.cause.kind)
            if kept is None or fault.elements < kept.elements:
                found[fault.cause.kind] = fault
    if len(found) > 1:  # of the same operator, format and verdict: a cause that is known stands for one that is not
        found.pop(Kind.ROUNDED_INSIDE, None)
    return list(found.values())


def reduce_measurement(one: Measurement, *, size: str = "default", cache: str = "") -> Fault | None:
    """The fault that a measurement shows; None when it does not show any more."""
    probe = _Probe(one, cache)
    for batch in generate(probe.operator, one.format, [one.strategy], seed=one.seed, size=size):
        if batch.layout != one.layout or batch.why != one.batch:
            continue
        judged = probe.judged(batch.inputs, one.layout)
        if judged is not None and judged.judgement.verdict is one.verdict:
            inputs, layout = _smallest(probe, dict(batch.inputs), judged)
            return _fault(probe, inputs, layout)
    return None


def _smallest(probe: _Probe, inputs: dict[str, np.ndarray], judged: _Judged) -> tuple[dict[str, np.ndarray], str]:
    one, layout = probe.one, probe.one.layout
    largest = _error(judged)
    budget = budget_of(probe.operator, one.format).ulp
    floor = largest / _KEPT_PART if probe.operator.elementwise else min(largest, _KEPT_BUDGETS * budget)
    kind = _class(judged)

    def fails(tried: Mapping[str, np.ndarray], where: str) -> bool:
        if time.monotonic() > until:
            return False
        again = probe.judged(tried, where)
        if again is None or again.judgement.verdict is not one.verdict:
            return False
        if one.verdict is Verdict.CLASS_MISMATCH:
            return _class(again) == kind
        return bool(_error(again) >= min(floor, largest))

    until = time.monotonic() + _SECONDS
    if layout != "contiguous" and fails(inputs, "contiguous"):
        layout = "contiguous"
    if probe.operator.elementwise:
        for place in _simple_places(inputs, judged, floor):
            single = _at(inputs, place, judged.reference.values.shape)
            if single is not None and fails(single, layout):
                inputs = single
                break
    else:
        inputs = _row_alone(inputs, judged, lambda tried: fails(tried, layout))
    small = minimize(inputs, lambda tried: fails(tried, layout), one.format, probe.operator, _TRIALS)
    return small, layout


def _row_alone(
    inputs: dict[str, np.ndarray], judged: _Judged, fails: Callable[[Mapping[str, np.ndarray]], bool]
) -> dict[str, np.ndarray]:
    """The inputs cut to the wrong element's place along axes of the output, where that still fails."""
    shape = judged.reference.values.shape
    places = np.unravel_index(int(judged.judgement.faulty[0]), shape) if shape else ()
    for size, place in zip(shape, places, strict=True):
        axes = [(name, axis) for name, array in inputs.items() for axis, n in enumerate(array.shape) if n == size > 1]
        cut = dict(inputs)
        for name, axis in axes:
            cut[name] = np.take(cut[name], [int(place)], axis)
        with contextlib.suppress(Exception):  # what a trial raises is its result, as in minimize
            inputs = cut if axes and fails(cut) else inputs
    return inputs


def _simple_places(inputs: Mapping[str, np.ndarray], judged: _Judged, floor: float) -> list[int]:
    """A few of the wrong elements with a large error: those whose inputs are written shortest, first."""
    faulty = judged.judgement.faulty
    errors = _errors(judged).ravel()[faulty]
    large = faulty[np.isnan(errors) | (errors >= floor)][:2000]
    shape = judged.reference.values.shape

    def length(place: int) -> int:
        single = _at(inputs, place, shape) or {}
        return sum(len(repr(value)) for array in single.values() for value in array.ravel().tolist())

    return sorted((int(place) for place in large), key=length)[:8]


def _at(inputs: Mapping[str, np.ndarray], place: int, shape: tuple[int, ...]) -> dict[str, np.ndarray] | None:
    """The inputs of one element of an elementwise operator; None when they have several shapes."""
    if any(array.shape not in ((), shape) for array in inputs.values()):
        return None
    return {
        name: array.ravel()[place : place + 1].reshape((1,) * array.ndim) if array.shape else array
        for name, array in inputs.items()
    }


def _fault(probe: _Probe, inputs: dict[str, np.ndarray], layout: str) -> Fault | None:
    one = probe.one
    judged = probe.judged(inputs, layout)
    if judged is None or not judged.judgement.faulty.size:
        return None
    index = int(judged.judgement.faulty[0])
    format_ = judged.outcome.formats[one.output]
    exact = float(judged.reference.values.ravel()[index])
    low = float(judged.reference.low.ravel()[index])
    expected = float(round_to_format(np.asarray(exact), format_, low=np.asarray(low)))
    got = float(np.asarray(judged.outcome.outputs[one.output], float).ravel()[index])
    floats = tuple(item.name for item in probe.operator.float_inputs)
    subject = Subject(
        inputs, one.format, layout, probe.operator.elementwise, index, exact, expected, got,
        one.verdict is Verdict.BEYOND_BUDGET, floats, probe.run, probe.reference,
    )  # fmt: skip
    budget = budget_of(probe.operator, format_).ulp
    shown = Shown(
        one.framework, one.expression, inputs, one.format, one.device, layout, one.output, index, format_, exact,
        expected, got, budget,
    )  # fmt: skip
    return Fault(
        operator=one.operator, direction=one.direction, framework=one.framework, version=one.version,
        format=one.format, device=one.device, layout=layout, verdict=judged.judgement.verdict,
        expression=one.expression, inputs=inputs, output=one.output, index=index, output_format=format_, exact=exact,
        expected=expected, got=got, upcast=None if judged.upcast is None else float(judged.upcast.ravel()[index]),
        error_ulp=float(_errors(judged).ravel()[index]), budget_ulp=budget, bound_ulp=judged.reference.bound_ulp,
        cause=find_cause(subject), kernels=_kernels(one, inputs), script=write_script(shown), measurement=one,
    )  # fmt: skip


def _kernels(one: Measurement, inputs: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The framework's operators that ran; empty when it cannot be seen."""
    runner: Any = runner_of(one.framework)
    try:
        ran = runner.operators_run(one.expression, inputs, one.format)
    except Exception:  # noqa: BLE001  (a trial of its own: what it raises is no reason to lose the fault)
        return ()
    return tuple(name for name in ran if name not in runner.BOOKKEEPING)


def _errors(judged: _Judged) -> np.ndarray:
    """ULP of every element."""
    got = judged.outcome.outputs[judged.output]
    return ulp_error(got, judged.reference.values, judged.outcome.formats[judged.output], low=judged.reference.low)


def _error(judged: _Judged) -> float:
    """The error of the worst element."""
    faulty = judged.judgement.faulty
    return float(_errors(judged).ravel()[faulty[0]]) if faulty.size else 0.0


def _class(judged: _Judged) -> tuple[bool, bool]:
    """Whether the worst element is NaN, or infinite."""
    value = judged.outcome.outputs[judged.output].ravel()[judged.judgement.faulty[0]]
    return bool(np.isnan(value)), bool(np.isinf(value))


# Stories


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

    A composite joins the story of an operator that it ran and that fails in the same way alone; else the first operator
    that it ran tells it apart.
    """
    keyed: dict[tuple[Any, ...], list[Fault]] = defaultdict(list)
    for one in faults:
        formula = one.cause.remedy or one.cause.formula
        keyed[one.framework, one.version, one.device, one.cause.kind, formula].append(one)
    stories = []
    for (*_, kind, _formula), alike in keyed.items():
        cores: dict[str, list[Fault]] = {}
        at: dict[Any, str] = {}
        for one in sorted(alike, key=lambda one: len(one.kernels)):
            shared = [at[place] for place in places(one) if place in at]
            names = [name for name in (*shared, *map(_base, one.kernels)) if name in cores]
            core = names[0] if names else _base(one.kernels[0]) if one.kernels else one.operator
            cores.setdefault(core, []).append(one)
            for place in places(one):
                at.setdefault(place, core)
        stories += [Story(core, kind, tuple(sorted(members, key=_telling))) for core, members in cores.items()]
    return sorted(stories, key=lambda story: (-len(story.faults), story.name))


def _base(kernel: str) -> str:
    """An operator without the mark of its in-place form."""
    return kernel.rstrip("_") or kernel


def _telling(fault: Fault) -> tuple[Any, ...]:
    """Few operators, few values, a finite result, no variant: what a reader wants to see first."""
    return len(fault.kernels), fault.elements > 20, not np.isfinite(fault.got), *_order(fault)


def _order(fault: Fault) -> tuple[Any, ...]:
    return fault.layout != "contiguous", "." in fault.operator, fault.elements, fault.operator
