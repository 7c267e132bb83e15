"""From faulty measurements to faults: inputs made again, reduced to the smallest that still fails, and their cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opscanner.dynamic.campaign import Task, run_campaign
from opscanner.dynamic.fault_causes import find_cause
from opscanner.dynamic.fault_kinds import Kind, Subject
from opscanner.dynamic.fault_probe import Probe, errors_of
from opscanner.dynamic.fault_script import Shown, write_script
from opscanner.dynamic.fault_shrinking import TRIALS, make_small
from opscanner.dynamic.fault_stories import Fault, NotShown
from opscanner.dynamic.guided import SEARCH
from opscanner.dynamic.inputs import STRATEGIES
from opscanner.dynamic.measure import budget_of, operator_by_id, remake
from opscanner.dynamic.verdict import WIDER
from opscanner.frameworks.runners import runner_of
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.precision.rounding import round_to_format

#: Strategies whose inputs tell a story by themselves, tried first.
_PLAIN = ("ones", "one_and_crumbs", "exhaustive", "large_n")
#: Causes that a second measurement of the same operator, format and verdict may tell better.
_VAGUE = (Kind.ROUNDED_INSIDE, Kind.COMPOSED, Kind.END_OF_RANGE)


@dataclass(frozen=True)
class FaultTask(Task):
    """Measurements of one operator, framework, format and verdict that are to become a fault.

    Parameters
    ----------
    measurements : tuple of Measurement
        The second is tried where the first shows nothing, or nothing telling.
    trials : int
        The most trials that making one measurement small takes.
    shapes_kept : bool
        Only values are simplified: for operators that abort the process when their inputs are cut.
    """

    measurements: tuple[Measurement, ...] = ()
    size: str = "default"
    trials: int = TRIALS
    shapes_kept: bool = False

    @property
    def key(self) -> str:
        """As a task's, for each verdict."""
        return f"{super().key}/{self.measurements[0].verdict.value}" + ("/shapes kept" if self.shapes_kept else "")

    def parts(self) -> tuple[Task, ...]:
        """The same with shapes kept: cutting the inputs is what made it crash or hang."""
        return () if self.shapes_kept else (replace(self, shapes_kept=True),)

    def lost(self, status: Status, message: str, elapsed_s: float) -> list[Any]:
        """That it is not shown, and how its process ended."""
        return [NotShown.of(self.measurements[0], f"{status.value} while it was made small")]


def fault_tasks(
    measured: Sequence[Measurement], *, size: str = "default", trials: int = TRIALS
) -> tuple[list[FaultTask], list[NotShown]]:
    """What is to be made small, and what cannot be.

    A task for each operator, framework, format, device and verdict, with two of its measurements. Left out are rows of
    operators without a reference (nothing independent says what they should have given), and rows whose inputs are
    no input strategy's nor a search's (laws, which compare two calls).
    """
    groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    left: dict[tuple[str, ...], NotShown] = {}
    # A search's inputs come last: nobody chose them, and finding them again takes as many calls as it took.
    order = {name: place for place, name in enumerate([*(strategy.id for strategy in STRATEGIES), SEARCH])}
    for one in measured:
        if not one.verdict.is_fault:
            continue
        why = _why_not(one, order)
        if why:
            left[one.operator, one.framework, one.format, one.verdict.value, why] = NotShown.of(one, why)
        else:
            groups[one.operator, one.framework, one.format, one.device, one.verdict.value].append(one)

    def plain(one: Measurement) -> tuple[Any, ...]:
        place = _PLAIN.index(one.strategy) if one.strategy in _PLAIN else len(_PLAIN)
        return one.layout != "contiguous", place, order[one.strategy]

    tasks = []
    for rows in groups.values():
        first = min(rows, key=plain)
        worst = min(rows, key=lambda one: (one.layout != "contiguous", -np.nan_to_num(one.max_ulp)))
        chosen = (first, *([worst] if worst is not first else []))
        tasks.append(
            FaultTask(
                first.operator, first.direction, first.format, first.device, (first.framework,),
                tuple(one.strategy for one in chosen), first.seed, chosen, size, trials,
            )
        )  # fmt: skip
    return tasks, list(left.values())


def _why_not(one: Measurement, strategies: Mapping[str, int]) -> str:
    """Why a row cannot be made small; empty when it can."""
    if one.strategy not in strategies:
        return f"inputs that no strategy makes: {one.strategy}"
    if one.format not in WIDER:
        return f"nothing wider than {one.format}"
    return "" if operator_by_id(one.operator).reference else "no reference that is independent of the framework"


def find_faults(
    tasks: Sequence[FaultTask],
    *,
    jobs: int,
    time_limit_s: float = 120.0,
    memory_limit_mib: int | None = 6144,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[list[Fault], list[NotShown]]:
    """Faults of tasks in worker processes, and the tasks that gave none: they crashed, hung, or showed it no more.

    In the order of the tasks, whatever the order in which they end.
    """
    place = {task.key: number for number, task in enumerate(tasks)}
    found: list[tuple[int, Any]] = []

    def keep(task: Task, rows: list[Any]) -> None:
        number = place.get(task.key.removesuffix("/shapes kept"), len(place))
        found.extend((number, row) for row in rows)
        for row in rows:
            said = f"{row.elements} values, {row.cause.kind.value}" if isinstance(row, Fault) else row.why
            progress(f"{task.operator} {task.frameworks[0]} {task.format}: {said}")

    run_campaign(tasks, _reduce, jobs=jobs, time_limit_s=time_limit_s, memory_limit_mib=memory_limit_mib, on_rows=keep)
    found.sort(key=lambda one: one[0])
    faults = [row for _, row in found if isinstance(row, Fault)]
    return faults, [row for _, row in found if isinstance(row, NotShown)]


def _reduce(task: Task) -> list[Any]:
    assert isinstance(task, FaultTask)
    return list(reduce_task(task)) or [NotShown.of(task.measurements[0], "not shown again")]


def reduce_task(task: FaultTask) -> list[Fault]:
    """The faults of a task, one of each kind of cause."""
    found: dict[Kind, Fault] = {}
    for one in task.measurements:
        if not found or all(kind in _VAGUE for kind in found):
            fault = reduce_measurement(one, size=task.size, trials=task.trials, shapes_kept=task.shapes_kept)
            if fault is not None:
                kept = found.get(fault.cause.kind)
                if kept is None or fault.elements < kept.elements:
                    found[fault.cause.kind] = fault
    # Of the same operator, format and verdict: a cause that is known stands for one that is not.
    known = {kind: fault for kind, fault in found.items() if kind not in _VAGUE}
    return list((known or found).values())


def reduce_measurement(
    one: Measurement, *, size: str = "default", trials: int = TRIALS, shapes_kept: bool = False
) -> Fault | None:
    """The fault that a measurement shows; None when it does not show any more."""
    probe = Probe(one)
    for batch in remake(one, size):
        if batch.why != one.batch:
            continue
        judged = probe.judged(batch.inputs, one.layout)
        if judged is not None and judged.judgement.verdict is one.verdict:
            inputs, layout = make_small(probe, dict(batch.inputs), judged, trials, shapes_kept)
            return _fault(probe, inputs, layout)
    return None


def _fault(probe: Probe, inputs: dict[str, np.ndarray], layout: str) -> Fault | None:
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
    kernels = _kernels(one, inputs)
    subject = Subject(
        inputs, one.format, layout, probe.operator.elementwise, index, exact, expected, got,
        one.verdict is Verdict.BEYOND_BUDGET, floats, probe.run, probe.reference, kernels,
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
        error_ulp=float(errors_of(judged).ravel()[index]), budget_ulp=budget, bound_ulp=judged.reference.bound_ulp,
        cause=find_cause(subject), kernels=kernels, script=write_script(shown), measurement=one,
    )  # fmt: skip


def _kernels(one: Measurement, inputs: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """The framework's operators that ran; empty when it cannot be seen."""
    runner: Any = runner_of(one.framework)
    try:
        ran = runner.operators_run(one.expression, inputs, one.format)
    except Exception:  # noqa: BLE001  (a trial of its own: what it raises is no reason to lose the fault)
        return ()
    return tuple(name for name in ran if name not in runner.BOOKKEEPING)
