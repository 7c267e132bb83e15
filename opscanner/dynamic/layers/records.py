"""What a check layer writes down, and how it says that something is past its tolerance."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class PrecisionAlert(UserWarning):
    """Two results of one layer are further apart than the tolerance, or differ in kind.

    Parameters
    ----------
    record : LayerRecord, optional
        Of the output that it concerns.
    """

    def __init__(self, message: str, record: LayerRecord | None = None) -> None:
        super().__init__(message)
        self.record = record

    def __reduce__(self) -> tuple[type[PrecisionAlert], tuple[str, LayerRecord | None]]:
        return type(self), (str(self), self.record)


class NotDeterministic(UserWarning):
    """A layer under test gives two results for equal inputs: what perturbed ones give says nothing."""


#: What to do on an alert: ``"warn"`` at the first of each output, ``"raise"`` at each, or call a function at each.
OnAlert = str | Callable[[PrecisionAlert], Any]


@dataclass
class LayerRecord:
    """The worst of one output of a layer under test, over all calls.

    ``max_relative_error`` is a lower bound of the layer's maximal relative error: what was found, where inputs not seen
    may be worse. It is FuMi's (doi 10.1145/3734866): ``|a - b| / |a + b|`` over elements whose smaller magnitude
    exceeds the format's absolute tolerance. The figures in ULP are those of the calls that were a new maximum.

    Parameters
    ----------
    output : str
        Where the tensor is in what the layer returns, such as ``"1"`` or ``"hidden.0"``; empty for a lone one.
    count, checked : int
        Calls, and those in which two results were compared.
    max_ulp, max_scaled_ulp : float
        In ULP of the element, and in ULP of the tensor's largest element.
    worst_index, worst : tuple
        Where the largest relative error was, and the two values; where results differed in kind, the first such.
    nan_mismatches, infinity_mismatches : int
        Elements that are NaN, or infinite, in one result alone, in all calls; they are in no other figure.
    alerts : int
        Calls past the tolerance.
    first_failing_call : int
        From 1; 0 for none.
    notes : list of str
        Why calls were not compared, and what the reader must know.
    """

    layer: str
    output: str = ""
    format: str = ""
    shape: tuple[int, ...] = ()
    count: int = 0
    checked: int = 0
    max_relative_error: float = 0.0
    max_ulp: float = 0.0
    max_scaled_ulp: float = 0.0
    worst_index: tuple[int, ...] = ()
    worst: tuple[float, float] = (math.nan, math.nan)
    nan_mismatches: int = 0
    infinity_mismatches: int = 0
    alerts: int = 0
    first_failing_call: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, found: Any, tolerance: float) -> str:
        """Take in one comparison; what to alert of, or an empty text.

        Parameters
        ----------
        found : Comparison
            See :class:`opscanner.dynamic.running.compare.Comparison`.
        """
        apart = found.nan_mismatches + found.infinity_mismatches
        if found.max_relative_error > self.max_relative_error or (
            apart and not self.nan_mismatches + self.infinity_mismatches
        ):
            self.worst_index, self.worst = found.worst_index, found.worst
        self.max_relative_error = max(self.max_relative_error, found.max_relative_error)
        self.max_ulp = max(self.max_ulp, found.max_ulp)
        self.max_scaled_ulp = max(self.max_scaled_ulp, found.max_scaled_ulp)
        self.nan_mismatches += found.nan_mismatches
        self.infinity_mismatches += found.infinity_mismatches
        if not apart and found.max_relative_error <= tolerance:
            return ""
        self.alerts += 1
        self.first_failing_call = self.first_failing_call or self.count
        place = f"output {self.output} of {self.layer}" if self.output else self.layer
        values = f"{found.worst[0]:.6g} and {found.worst[1]:.6g} at {list(found.worst_index)}"
        if apart:
            return (
                f"{place}, call {self.count}: {found.nan_mismatches} elements are NaN and "
                f"{found.infinity_mismatches} infinite in one result alone: {values}"
            )
        return (
            f"{place}, call {self.count}: the maximal relative error is at least {found.max_relative_error:.3g} "
            f"({found.max_scaled_ulp:.3g} ULP of the largest element of {self.format}), past {tolerance:.3g}: {values}"
        )

    def note(self, text: str) -> bool:
        """Add a note; False when it stands there already."""
        if text in self.notes:
            return False
        self.notes.append(text)
        return True


def tell(message: str, record: LayerRecord, on_alert: OnAlert) -> None:
    """Warn, raise or call, as was asked for."""
    alert = PrecisionAlert(message, record)
    if callable(on_alert):
        on_alert(alert)
    elif on_alert == "raise":
        raise alert
    elif record.alerts == 1:
        warnings.warn(alert, stacklevel=3)
