"""One batch of one operator, run and judged: a measurement for each framework, or what a search climbs on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from opscanner.dynamic.budgets import Budget, budget_for
from opscanner.dynamic.inputs import Batch
from opscanner.dynamic.oracle.magnitudes import scale_of_output, terms_of_output
from opscanner.dynamic.oracle.oracle import TIER_FLOAT64, TIER_LONGDOUBLE, Reference, evaluate_reference
from opscanner.dynamic.trial import Outcome, run_call
from opscanner.dynamic.verdict import WIDER, Judgement, excess_ulp, judge
from opscanner.errors import OpscannerError
from opscanner.frameworks.runners import runner_of
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators.catalog import Operator
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_distance

#: Budget class of an operator whose row names none: that of its pair's error class.
_CLASS_OF_PAIR = {
    "float32_constant": "loose", "float32_inside": "loose", "approximation": "loose", "table_lookup": "loose",
}  # fmt: skip
OWN = "own float64"

#: Calls that a search spends at ``--budget 1``.
EVALUATIONS = 14


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Parameters
    ----------
    strategies : tuple of str or None
        Of :data:`opscanner.dynamic.measure.STRATEGY_IDS`; None means all that fit.
    size : str
        Of inputs (``dynamic.inputs.batch.SIZES``).
    time_s : float or None
        Ends the batches of an operator early, with a message in its rows; None never does.
    evaluations : int
        Calls that the search may spend in each framework.
    """

    frameworks: tuple[str, ...]
    device: str = "cpu"
    strategies: tuple[str, ...] | None = None
    seed: int = 0
    size: str = "default"
    time_s: float | None = None
    cache: str = ""
    evaluations: int = EVALUATIONS


def budget_of(operator: Operator, format_: str) -> Budget:
    """The budget of an operator's class in a format."""
    name = operator.budget or (operator.pair.error_class if operator.pair else "")
    return budget_for(_CLASS_OF_PAIR.get(name, name) or "elementary", format_)


class BatchTrial:
    """One batch of one operator in all frameworks.

    Parameters
    ----------
    quickly : bool
        References without balls and without the cache: what is in doubt is undecided.
    """

    def __init__(self, operator: Operator, format_: str, plan: Plan, batch: Batch, *, quickly: bool = False) -> None:
        self._operator = operator
        self._format = format_
        self._plan = plan
        self._batch = batch
        self._budget = budget_of(operator, format_)
        self._quickly = quickly
        #: What a search climbs on in each framework that ran: for each floating output, see ``verdict.excess_ulp``.
        self.excess: dict[str, list[np.ndarray]] = {}

    def measure(self, frameworks: Sequence[str], only: str = "") -> list[Measurement]:
        """A measurement for each framework, or for one of them, beside the results of all."""
        outcomes = {name: self._run(name, self._format) for name in frameworks}
        ran = {name: outcome for name, outcome in outcomes.items() if outcome.status is Status.RAN}
        references = flushed = None
        if ran and self._operator.reference:
            references, flushed = self._both_references()
        found = []
        for name in [only] if only else frameworks:
            if name not in ran:
                found.append(self._row(name, outcomes[name]))
                continue
            others = [outcome for other, outcome in ran.items() if other != name]
            found.append(self._judge(name, outcomes[name], references, flushed, others))
        return found

    def excess_in(self, framework: str) -> list[np.ndarray]:
        """:attr:`excess` alone, in one framework of an operator with a reference; empty where it does not run.

        Of an elementwise operator without what balls or another reference would have to excuse: it is 0 where an input
        is subnormal, and NaN where terms cancel to 0 in float64 and longdouble, which is no answer.
        """
        outcome = self._run(framework, self._format)
        if outcome.status is not Status.RAN:
            return []
        upcast = self._upcast(framework)
        flushed = None
        small: np.ndarray = np.zeros((), bool)
        if self._operator.elementwise:
            references = self._references(self._batch.inputs)
            small = _has_subnormal(self._batch.inputs, self._format)
        else:
            references, flushed = self._both_references()
        found = []
        for position, reference in enumerate(references):
            got = outcome.outputs[position]
            if got.dtype.kind != "f" or got.shape != np.shape(reference.values):
                continue
            excess = excess_ulp(got, reference, **self._beside(outcome, upcast, flushed, position))
            if self._operator.elementwise:
                lost = ((reference.values == 0) & (got != 0)).ravel()
                excess = np.where(lost, np.nan, excess)
                excess[np.broadcast_to(small, got.shape).ravel()] = 0.0
            found.append(excess)
        return found

    def _both_references(self) -> tuple[tuple[Reference, ...], tuple[Reference, ...] | None]:
        """For the inputs, and for them with subnormals as zeros; None where there are none of float32's."""
        zeroed = _without_subnormals(self._batch.inputs, self._format)
        return self._references(self._batch.inputs), None if zeroed is None else self._references(zeroed)

    def _upcast(self, framework: str) -> Outcome | None:
        wider = WIDER.get(self._format)
        return self._run(framework, wider) if wider else None

    def _run(self, framework: str, format_: str) -> Outcome:
        batch = self._batch
        call = self._operator.calls[framework]
        return run_call(framework, call, batch.inputs, format_, self._plan.device, batch.layout)

    def _references(self, inputs: Mapping[str, np.ndarray]) -> tuple[Reference, ...]:
        operator, format_ = self._operator, self._format
        if self._quickly:
            return evaluate_reference(operator.reference, inputs, format_, operator.elementwise, decide_limit=0)
        cache = Path(self._plan.cache) if self._plan.cache else None
        return evaluate_reference(operator.reference, inputs, format_, operator.elementwise, cache=cache)

    def _judge(
        self,
        framework: str,
        outcome: Outcome,
        references: tuple[Reference, ...] | None,
        flushed: tuple[Reference, ...] | None,
        others: Sequence[Outcome],
    ) -> Measurement:
        upcast = self._upcast(framework)
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
            row = self._judge_output(framework, outcome, upcast, reference, flushed, others, position)
            if row is not None:
                rows.append(row)
        if not rows:
            return replace(self._row(framework, outcome), message="no output is floating")
        order = list(Verdict)
        return min(rows, key=lambda row: (order.index(row.verdict), -number(row.max_ulp)))

    def _judge_output(
        self,
        framework: str,
        outcome: Outcome,
        upcast: Outcome | None,
        reference: Reference,
        flushed: tuple[Reference, ...] | None,
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
        side = self._beside(outcome, upcast, flushed, position)
        verdict = judge(got, reference, **side)
        self.excess.setdefault(framework, []).append(verdict.excess)
        distances = [
            ulp_distance(got, other.outputs[position], format_).max(initial=0)
            for other in others
            if len(other.outputs) > position
            and other.outputs[position].shape == got.shape
            and other.formats[position] == format_
        ]
        row = self._judged(self._row(framework, outcome), verdict, reference, got, format_, side["budget"], position)
        return replace(row, other_max_ulp=float(max(distances)) if distances else None)

    def _beside(
        self, outcome: Outcome, upcast: Outcome | None, flushed: tuple[Reference, ...] | None, position: int
    ) -> dict[str, Any]:
        """What an output is judged with, beside its reference: arguments of ``judge``."""
        got, format_ = outcome.outputs[position], outcome.formats[position]
        rounded = None
        if upcast is not None and upcast.status is Status.RAN and upcast.outputs[position].shape == got.shape:
            rounded = round_to_format(upcast.outputs[position], format_)
        return {
            "upcast": rounded,
            "format_": format_,
            "budget": self._budget if format_ == self._format else budget_of(self._operator, format_),
            "elementwise": self._operator.elementwise,
            "terms": sum(array.size for array in self._batch.inputs.values()) / max(got.size, 1),
            "flushed_reference": flushed[position] if flushed is not None else None,
            "sum_of": lambda: terms_of_output(
                self._operator.reference, self._batch.inputs, self._format, position, got.shape
            ),
            "scale": scale_of_output(self._operator.scale, self._batch.inputs, self._format, position, got.shape),
        }

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
            batch_number=batch.number,
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


def _has_subnormal(inputs: Mapping[str, np.ndarray], format_: str) -> np.ndarray:
    """Places where an input is one of float32's subnormals, in a format whose subnormals those are."""
    smallest = FORMATS["float32"].emin
    found: np.ndarray = np.zeros((), bool)
    if FORMATS[format_].emin == smallest:
        for array in inputs.values():
            if array.dtype.kind == "f":
                found = found | ((array != 0) & (np.abs(array) < 2.0**smallest))
    return found


def number(value: float) -> float:
    """0 for NaN, which stands for an empty mean."""
    return 0.0 if math.isnan(value) else value


def _tier(reference: Reference) -> str:
    """The highest tier that an element of a reference needed, as a word."""
    highest = int(reference.tier.max(initial=0))
    return {0: OWN, TIER_FLOAT64: "float64", TIER_LONGDOUBLE: "float64 and longdouble"}.get(highest, "balls")


def version_of(framework: str) -> str:
    """The release of a framework that is installed here."""
    key = {"pytorch": "torch"}.get(framework, framework)
    version: str = runner_of(framework).versions()[key]
    return version
