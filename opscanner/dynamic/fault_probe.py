"""One output of one call, judged on any inputs: what making inputs small asks again and again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscanner.dynamic.measure import budget_of, operator_by_id
from opscanner.dynamic.oracle.magnitudes import scale_of_output, terms_of_output
from opscanner.dynamic.oracle.oracle import Reference, evaluate_reference
from opscanner.dynamic.trial import Outcome, run_call
from opscanner.dynamic.verdict import WIDER, Judgement, judge
from opscanner.measurements import Measurement, Status
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_error


@dataclass(frozen=True)
class Judged:
    """A call's outcome and what is said of one of its outputs."""

    outcome: Outcome
    output: int
    reference: Reference
    upcast: np.ndarray | None
    judgement: Judgement


class Probe:
    """One output of one call, judged on any inputs."""

    def __init__(self, one: Measurement) -> None:
        self.operator = operator_by_id(one.operator)
        self.one = one

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

    def judged(self, inputs: Mapping[str, np.ndarray], layout: str) -> Judged | None:
        """What is said of it; None where it does not run."""
        one, operator = self.one, self.operator
        outcome = self._call(inputs, one.format, layout)
        if outcome.status is not Status.RAN:
            return None
        got, format_ = outcome.outputs[one.output], outcome.formats[one.output]
        reference = self._reference(inputs)
        if got.shape != reference.values.shape:
            return None
        wide = self._call(inputs, WIDER[one.format], layout)
        upcast = round_to_format(wide.outputs[one.output], format_) if wide.status is Status.RAN else None
        sides: dict[str, Any] = {
            "elementwise": operator.elementwise,
            "terms": sum(array.size for array in inputs.values()) / max(got.size, 1),
            "sum_of": lambda: terms_of_output(operator.reference, inputs, one.format, one.output, got.shape),
            "scale": scale_of_output(operator.scale, inputs, one.format, one.output, got.shape),
        }
        judgement = judge(got, reference, upcast, format_, budget_of(operator, format_), **sides)
        zeroed = self._without_subnormals(inputs) if judgement.verdict.is_fault else None
        if zeroed is not None:  # a fault that flushing explains is none, as in a campaign
            sides["flushed_reference"] = self._reference(zeroed)
            judgement = judge(got, reference, upcast, format_, budget_of(operator, format_), **sides)
        return Judged(outcome, one.output, reference, upcast, judgement)

    def _reference(self, inputs: Mapping[str, np.ndarray]) -> Reference:
        operator = self.operator
        found = evaluate_reference(operator.reference, inputs, self.one.format, elementwise=operator.elementwise)
        return found[self.one.output]

    def _without_subnormals(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The inputs with zeros for float32's subnormals; None where there are none, or the format has no such."""
        smallest = FORMATS["float32"].emin
        if FORMATS[self.one.format].emin != smallest:
            return None
        zeroed, changed = dict(inputs), False
        for name, array in inputs.items():
            small = (np.abs(array) < 2.0**smallest) & (array != 0) if array.dtype.kind == "f" else np.zeros(1, bool)
            if small.any():
                zeroed[name], changed = np.where(small, np.copysign(0.0, array), array), True
        return zeroed if changed else None

    def _call(self, inputs: Mapping[str, np.ndarray], format_: str, layout: str) -> Outcome:
        return run_call(self.one.framework, self.one.expression, inputs, format_, self.one.device, layout)


def errors_of(judged: Judged) -> np.ndarray:
    """ULP of every element."""
    got = judged.outcome.outputs[judged.output]
    return ulp_error(got, judged.reference.values, judged.outcome.formats[judged.output], low=judged.reference.low)


def error_of(judged: Judged) -> float:
    """The error of the worst element."""
    faulty = judged.judgement.faulty
    return float(errors_of(judged).ravel()[faulty[0]]) if faulty.size else 0.0


def class_of(judged: Judged) -> tuple[bool, bool]:
    """Whether the worst element is NaN, or infinite."""
    value = judged.outcome.outputs[judged.output].ravel()[judged.judgement.faulty[0]]
    return bool(np.isnan(value)), bool(np.isinf(value))
