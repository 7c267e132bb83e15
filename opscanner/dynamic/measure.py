"""One operator in one format: made inputs, every framework's results, the reference, and what is said of them.

Runs in the process that calls it; :mod:`opscanner.dynamic.campaign` runs it in workers with limits.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from opscanner.dynamic.budgets import Budget, budget_for
from opscanner.dynamic.campaign import Task
from opscanner.dynamic.inputs import Batch, generate
from opscanner.dynamic.oracle.oracle import TIER_FLOAT64, TIER_LONGDOUBLE, Reference, evaluate_reference
from opscanner.dynamic.trial import Outcome, run_call
from opscanner.dynamic.verdict import WIDER, Judgement, judge
from opscanner.errors import OpscannerError
from opscanner.frameworks.runners import runner_of
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators import opinfo
from opscanner.operators.catalog import Operator, load_catalog
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_distance

#: Budget class of an operator whose row names none: that of its pair's error class.
_CLASS_OF_PAIR = {
    "float32_constant": "loose", "float32_inside": "loose", "approximation": "loose", "table_lookup": "loose",
}  # fmt: skip
OWN = "own float64"


@dataclass(frozen=True)
class Plan:
    """What to measure. ``scale`` multiplies the number of inputs; ``strategies`` None means all that fit.

    ``time_s`` ends the batches of an operator early, with a message in the last row; None never does.
    """

    frameworks: tuple[str, ...]
    device: str = "cpu"
    strategies: tuple[str, ...] | None = None
    seed: int = 0
    size: str = "default"
    time_s: float | None = None
    cache: str = ""


def measure_operator(operator: Operator, format_: str, plan: Plan) -> list[Measurement]:
    """Measurements of one operator in one format: a row for each framework, strategy and layout.

    A framework that does not support the format on the device is one row that says so.
    """
    frameworks = [name for name in plan.frameworks if name in operator.calls]
    if (
        any(item.kind == "complex" for item in operator.inputs)
        and FORMATS[format_].precision < FORMATS["float32"].precision
    ):
        return [_no_format(operator, format_, plan, name) for name in frameworks]
    rows: dict[tuple[str, str, str], Measurement] = {}
    refused: dict[str, Measurement] = {}
    started = time.monotonic()
    for batch in generate(operator, format_, plan.strategies, seed=plan.seed, size=plan.size):
        running = [name for name in frameworks if name not in refused]
        if not running:
            break
        if plan.time_s is not None and time.monotonic() - started > plan.time_s:
            for key, row in rows.items():
                rows[key] = replace(
                    row, message=row.message or f"ended after {plan.time_s:g} s, before {batch.strategy}"
                )
            break
        trial = _Trial(operator, format_, plan, batch)
        for one in trial.measure(running):
            if one.status is Status.UNSUPPORTED and batch.layout == "contiguous":
                refused.setdefault(one.framework, one)
            if one.status is Status.UNSUPPORTED and batch.layout != "contiguous":
                continue
            key = (one.framework, one.strategy, one.layout)
            rows[key] = combine(rows[key], one) if key in rows else one
    kept = [row for row in rows.values() if row.status is not Status.UNSUPPORTED]
    silent = [row for name, row in refused.items() if not any(one.framework == name for one in kept)]
    return [*kept, *silent]


def _no_format(operator: Operator, format_: str, plan: Plan, framework: str) -> Measurement:
    """The row of an operator of complex numbers, whose parts are float32 or float64 in both frameworks."""
    return Measurement(
        operator=operator.id,
        direction=operator.direction,
        framework=framework,
        version=version_of(framework),
        format=format_,
        device=plan.device,
        layout="contiguous",
        strategy="",
        seed=plan.seed,
        status=Status.UNSUPPORTED,
        verdict=Verdict.NOT_MEASURED,
        message=f"complex numbers have no parts in {format_}",
        expression=operator.calls[framework],
    )


def measure_task(task: Task, *, size: str, time_s: float | None, cache: str) -> list[Measurement]:
    """As :func:`measure_operator`, for a campaign's workers."""
    operator = operator_by_id(task.operator)
    plan = Plan(task.frameworks, task.device, task.strategies or None, task.seed, size, time_s, cache)
    return measure_operator(operator, task.format, plan)


@functools.cache
def operator_by_id(identifier: str) -> Operator:
    """The catalog's row of that id; for an id of OpInfo what the release that is installed says of it."""
    if identifier.startswith(opinfo.PREFIX):
        return opinfo.opinfo_operator(identifier)
    return {one.id: one for one in load_catalog()}[identifier]


def combine(first: Measurement, second: Measurement) -> Measurement:
    """Two measurements of the same strategy as one: counts add up, the worse one gives the rest."""
    order = list(Verdict)
    for one in (first, second):
        if one.status is not Status.RAN:
            return one
    worse = min((first, second), key=lambda row: (order.index(row.verdict), -_number(row.max_ulp)))
    count = first.count + second.count
    quantiles = tuple(map(max, zip(first.quantiles_ulp, second.quantiles_ulp, strict=False)))
    upcasts = [one for one in (first.upcast_max_ulp, second.upcast_max_ulp) if one is not None]
    others = [one for one in (first.other_max_ulp, second.other_max_ulp) if one is not None]
    return replace(
        worse,
        count=count,
        max_ulp=_larger(first.max_ulp, second.max_ulp),
        mean_ulp=(_number(first.mean_ulp) * first.count + _number(second.mean_ulp) * second.count) / max(count, 1),
        quantiles_ulp=quantiles,
        over_1_ulp=first.over_1_ulp + second.over_1_ulp,
        max_absolute_error=_larger(first.max_absolute_error, second.max_absolute_error),
        max_relative_error=_larger(first.max_relative_error, second.max_relative_error),
        max_scaled_ulp=_larger(first.max_scaled_ulp, second.max_scaled_ulp),
        nan_mismatches=first.nan_mismatches + second.nan_mismatches,
        infinity_mismatches=first.infinity_mismatches + second.infinity_mismatches,
        sign_mismatches=first.sign_mismatches + second.sign_mismatches,
        flushed_subnormals=first.flushed_subnormals + second.flushed_subnormals,
        undecided=first.undecided + second.undecided,
        upcast_max_ulp=max(upcasts, default=None),
        beyond_upcast=first.beyond_upcast + second.beyond_upcast,
        other_max_ulp=max(others, default=None),
        elapsed_s=first.elapsed_s + second.elapsed_s,
    )


def budget_of(operator: Operator, format_: str) -> Budget:
    """The budget of an operator's class in a format."""
    name = operator.budget or (operator.pair.error_class if operator.pair else "")
    return budget_for(_CLASS_OF_PAIR.get(name, name) or "elementary", format_)


class _Trial:
    """One batch of one operator in all frameworks."""

    def __init__(self, operator: Operator, format_: str, plan: Plan, batch: Batch) -> None:
        self._operator = operator
        self._format = format_
        self._plan = plan
        self._batch = batch
        self._budget = budget_of(operator, format_)

    def measure(self, frameworks: Sequence[str]) -> list[Measurement]:
        outcomes = {name: self._run(name, self._format) for name in frameworks}
        ran = {name: outcome for name, outcome in outcomes.items() if outcome.status is Status.RAN}
        references = flushed = None
        if ran and self._operator.reference:
            references = self._references(self._batch.inputs)
            if (zeroed := _without_subnormals(self._batch.inputs, self._format)) is not None:
                flushed = self._references(zeroed)
        found = []
        for name in frameworks:
            if name not in ran:
                found.append(self._row(name, outcomes[name]))
                continue
            others = [outcome for other, outcome in ran.items() if other != name]
            found.append(self._judge(name, outcomes[name], references, flushed, others))
        return found

    def _run(self, framework: str, format_: str) -> Outcome:
        batch = self._batch
        call = self._operator.calls[framework]
        return run_call(framework, call, batch.inputs, format_, self._plan.device, batch.layout)

    def _references(self, inputs: Mapping[str, np.ndarray]) -> tuple[Reference, ...]:
        cache = Path(self._plan.cache) if self._plan.cache else None
        operator = self._operator
        return evaluate_reference(
            operator.reference, inputs, self._format, elementwise=operator.elementwise, cache=cache
        )

    def _judge(
        self,
        framework: str,
        outcome: Outcome,
        references: tuple[Reference, ...] | None,
        flushed: tuple[Reference, ...] | None,
        others: Sequence[Outcome],
    ) -> Measurement:
        wider = WIDER.get(self._format)
        upcast = self._run(framework, wider) if wider else None
        if references is None and self._operator.kind == "random":
            return replace(self._row(framework, outcome), message="random numbers: nothing to compare with")
        if references is None:
            references, upcast = self._own_references(framework, outcome, upcast)
        if len(references) != len(outcome.outputs):
            raise OpscannerError(
                f"{self._operator.id}: {framework} gives {len(outcome.outputs)} outputs, the reference "
                f"{len(references)}",
                "mend the row in data/references",
            )
        rows = []
        for position, reference in enumerate(references):
            zeroed = flushed[position] if flushed is not None else None
            row = self._judge_output(framework, outcome, upcast, reference, zeroed, others, position)
            if row is not None:
                rows.append(row)
        if not rows:
            return replace(self._row(framework, outcome), message="no output is floating")
        order = list(Verdict)
        return min(rows, key=lambda row: (order.index(row.verdict), -_number(row.max_ulp)))

    def _judge_output(
        self,
        framework: str,
        outcome: Outcome,
        upcast: Outcome | None,
        reference: Reference,
        flushed: Reference | None,
        others: Sequence[Outcome],
        position: int,
    ) -> Measurement | None:
        got = outcome.outputs[position]
        if got.dtype.kind != "f":
            return None
        format_ = outcome.formats[position]
        if got.shape != np.shape(reference.values):
            raise OpscannerError(
                f"{self._operator.id}: output {position} of {framework} has shape {got.shape}, its reference "
                f"{np.shape(reference.values)}",
                "mend the row in data/references",
            )
        rounded = None
        if upcast is not None and upcast.status is Status.RAN and upcast.outputs[position].shape == got.shape:
            rounded = round_to_format(upcast.outputs[position], format_)
        budget = self._budget if format_ == self._format else budget_of(self._operator, format_)
        terms = sum(array.size for array in self._batch.inputs.values()) / max(got.size, 1)
        verdict = judge(
            got,
            reference,
            rounded,
            format_,
            budget,
            elementwise=self._operator.elementwise,
            terms=terms,
            flushed_reference=flushed,
        )
        distances = [
            ulp_distance(got, other.outputs[position], format_).max(initial=0)
            for other in others
            if len(other.outputs) > position
            and other.outputs[position].shape == got.shape
            and other.formats[position] == format_
        ]
        row = self._judged(self._row(framework, outcome), verdict, reference, got, format_, budget, position)
        return replace(row, other_max_ulp=float(max(distances)) if distances else None)

    def _own_references(
        self, framework: str, outcome: Outcome, upcast: Outcome | None
    ) -> tuple[tuple[Reference, ...], Outcome | None]:
        """The operator's own float64 run in place of a reference: no independent oracle, and it says so."""
        wide = self._run(framework, "float64")
        if wide.status is not Status.RAN:
            wide, upcast = (upcast, None) if upcast is not None and upcast.status is Status.RAN else (outcome, None)
        assert wide is not None
        return tuple(
            Reference(
                values=np.asarray(array, float),
                low=np.zeros(np.shape(array)),
                undecided=np.zeros(np.shape(array), bool),
                tier=np.zeros(np.shape(array), np.uint8),
                bound_ulp=float("inf"),
            )
            for array in wide.outputs
        ), upcast

    def _row(self, framework: str, outcome: Outcome) -> Measurement:
        batch = self._batch
        return Measurement(
            operator=self._operator.id,
            direction=self._operator.direction,
            framework=framework,
            version=version_of(framework),
            format=self._format,
            device=self._plan.device,
            layout=batch.layout,
            strategy=batch.strategy,
            seed=self._plan.seed,
            status=outcome.status,
            verdict=Verdict.NOT_MEASURED,
            message=outcome.message,
            expression=self._operator.calls[framework],
            batch=batch.why,
            elapsed_s=outcome.elapsed_s,
        )

    def _judged(
        self,
        row: Measurement,
        judgement: Judgement,
        reference: Reference,
        got: np.ndarray,
        format_: str,
        budget: Budget,
        position: int,
    ) -> Measurement:
        errors = judgement.errors
        index = int(judgement.faulty[0]) if judgement.faulty.size else errors.worst_index
        expected = float(np.ravel(reference.values)[index]) if index >= 0 else 0.0
        return replace(
            row,
            verdict=judgement.verdict,
            output=position,
            count=errors.count,
            max_ulp=errors.max_ulp,
            mean_ulp=errors.mean_ulp,
            quantiles_ulp=tuple(errors.quantiles_ulp.values()),
            over_1_ulp=errors.over_1_ulp,
            max_absolute_error=errors.max_absolute_error,
            max_relative_error=errors.max_relative_error,
            max_scaled_ulp=errors.max_scaled_ulp,
            nan_mismatches=errors.nan_mismatches,
            infinity_mismatches=errors.infinity_mismatches,
            sign_mismatches=errors.sign_mismatches,
            flushed_subnormals=errors.flushed_subnormals,
            undecided=errors.undecided,
            budget_ulp=budget.ulp,
            upcast_max_ulp=judgement.upcast_max_ulp,
            beyond_upcast=judgement.beyond_upcast,
            tier=_tier(reference),
            worst_index=index,
            worst_expected=float(round_to_format(np.asarray(expected), format_)),
            worst_got=float(np.ravel(got)[index]) if index >= 0 else 0.0,
            worst_inputs=self._inputs_at(index, got.shape),
        )

    def _inputs_at(self, index: int, shape: tuple[int, ...]) -> dict[str, Any]:
        """The inputs of an elementwise operator at a flat position of its output."""
        if not self._operator.elementwise or index < 0:
            return {}
        found: dict[str, Any] = {}
        for name, value in self._batch.inputs.items():
            array = np.asarray(value)
            if array.ndim <= len(shape) and array.dtype.kind in "fiub":
                found[name] = float(np.ravel(np.broadcast_to(array, shape))[index])
        return found


def _without_subnormals(inputs: Mapping[str, np.ndarray], format_: str) -> dict[str, np.ndarray] | None:
    """The inputs with float32's subnormals as zeros of their sign; None without any, or where the format has others."""
    smallest = FORMATS["float32"].emin
    if FORMATS[format_].emin != smallest:
        return None
    found, any_there = {}, False
    for name, array in inputs.items():
        small = (array != 0) & (np.abs(array) < 2.0**smallest) if array.dtype.kind == "f" else np.zeros(1, bool)
        any_there |= bool(small.any())
        found[name] = np.where(small, np.copysign(0.0, array), array) if small.any() else array
    return found if any_there else None


def _number(value: float) -> float:
    """0 for NaN, which stands for an empty mean."""
    return 0.0 if math.isnan(value) else value


def _larger(first: float, second: float) -> float:
    """The larger one; NaN, which stands for an empty maximum, is no number to compare with."""
    return max((one for one in (first, second) if not math.isnan(one)), default=math.nan)


def _tier(reference: Reference) -> str:
    """The highest tier that an element of a reference needed, as a word."""
    highest = int(reference.tier.max(initial=0))
    return {0: OWN, TIER_FLOAT64: "float64", TIER_LONGDOUBLE: "float64 and longdouble"}.get(highest, "balls")


def version_of(framework: str) -> str:
    """The release of a framework that is installed here."""
    key = {"pytorch": "torch"}.get(framework, framework)
    version: str = runner_of(framework).versions()[key]
    return version
