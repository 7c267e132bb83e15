"""What a watch of a running model found: rows that need neither torch nor TensorFlow to be read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Mode(Enum):
    """How a second result is got, to hold the first against."""

    #: The same operator on inputs moved by one unit in the last place: how much it makes of what rounding does to them.
    PERTURB = "perturb"
    #: The same code one format wider: what its own roundings cost.
    UPCAST = "upcast"
    #: Another implementation on the same inputs.
    SUBSTITUTE = "substitute"
    #: The same operator on inputs in another order, where order must not matter.
    PERMUTE = "permute"


class Level(Enum):
    """What is run a second time."""

    #: Each operator that reaches a kernel, forward and backward.
    OPERATOR = "operator"
    #: The code of each module between the modules it calls, forward.
    MODULE = "module"


class Direction(Enum):
    """Which pass a call belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"


class AlertKind(Enum):
    """Why a call is told of."""

    #: The two results are further from each other than the tolerance.
    DEVIATION = "deviation"
    #: NaN in one result alone.
    NAN = "nan"
    #: An infinity in one result alone, or opposite ones.
    INFINITY = "infinity"
    #: Infinities or NaN made of finite inputs, in both results.
    NON_FINITE = "made non-finite"
    #: The wider result is finite and beyond the largest number of the format.
    OVERFLOW = "overflow"


@dataclass(frozen=True)
class Alert:
    """One call that was past the tolerance.

    Parameters
    ----------
    call : int
        Which call of its site, from 1.
    step : int
        Which call of the outermost module, from 1; 0 outside of any.
    saved : str
        File with the inputs, for ``opscanner replay``; empty when none was kept.
    """

    site: Site = field(repr=False)
    kind: AlertKind
    call: int
    step: int
    message: str
    saved: str = ""


@dataclass
class Site:
    """One place where a model calls an operator, or one module, with the worst that was seen there.

    Errors are over all calls that were checked. Relative errors are lower bounds of what inputs can bring about, and
    are taken as Zhang et al. do (FuMi, doi 10.1145/3734866): |a - b| / |a + b| over elements of which the
    smaller magnitude exceeds the format's absolute tolerance.

    Parameters
    ----------
    module : str
        Path of the module whose code makes the call, as ``named_modules`` gives it; empty outside of modules.
    operator : str
        Such as ``aten.addmm.default``; for a module its class.
    number : int
        Which of the calls of that operator in one call of the module, from 1.
    location : str
        ``file:line`` of the innermost frame that is not torch's; empty in a backward pass.
    max_ulp : float
        Largest difference in ULP of the element itself.
    max_scaled_ulp : float
        Largest difference in ULP of the tensor's largest element.
    nan_mismatches, infinity_mismatches : int
        Elements that are NaN, or infinite, in one result alone. They are in no other figure.
    """

    module: str
    operator: str
    direction: Direction = Direction.FORWARD
    number: int = 1
    module_type: str = ""
    location: str = ""
    formats: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    count: int = 0
    checked: int = 0
    max_relative_error: float = 0.0
    max_ulp: float = 0.0
    max_scaled_ulp: float = 0.0
    worst_ratio: float = 0.0
    worst_index: tuple[int, ...] = ()
    worst: tuple[float, float] = (math.nan, math.nan)
    nan_mismatches: int = 0
    infinity_mismatches: int = 0
    alerts: int = 0
    first_alert: Alert | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The site in one line."""
        number = f" #{self.number}" if self.number > 1 else ""
        back = " (backward)" if self.direction is Direction.BACKWARD else ""
        return f"{self.module or '(outside of modules)'}: {self.operator}{number}{back}"

    def as_json(self) -> dict[str, Any]:
        """The site as JSON can hold it; numbers that are none are strings."""
        first = self.first_alert
        return {
            "module": self.module,
            "module_type": self.module_type,
            "operator": self.operator,
            "number": self.number,
            "direction": self.direction.value,
            "location": self.location,
            "formats": list(self.formats),
            "shapes": [list(shape) for shape in self.shapes],
            "count": self.count,
            "checked": self.checked,
            "max_relative_error": _json_number(self.max_relative_error),
            "max_ulp": _json_number(self.max_ulp),
            "max_scaled_ulp": _json_number(self.max_scaled_ulp),
            "worst_ratio": _json_number(self.worst_ratio),
            "worst_index": list(self.worst_index),
            "worst": [_json_number(value) for value in self.worst],
            "nan_mismatches": self.nan_mismatches,
            "infinity_mismatches": self.infinity_mismatches,
            "alerts": self.alerts,
            "first_alert": None
            if first is None
            else {
                "kind": first.kind.value,
                "call": first.call,
                "step": first.step,
                "message": first.message,
                "saved": first.saved,
            },
            "notes": self.notes,
        }


@dataclass
class WatchReport:
    """All sites of a watch, and what it did not see.

    Parameters
    ----------
    unchecked : Counter
        Reason -> calls that were seen and not run a second time.
    notes : list of str
        What the reader must know of this watch: code that ran otherwise than it would unwatched, or was not seen.
    """

    mode: Mode
    level: Level
    settings: dict[str, Any] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    unchecked: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    steps: int = 0

    def __iter__(self) -> Iterator[Site]:
        return iter(self.sites)

    @property
    def failing(self) -> list[Site]:
        """Sites with alerts, in the order in which they first failed."""
        order = {id(alert.site): place for place, alert in reversed(list(enumerate(self.alerts)))}
        return sorted((site for site in self.sites if site.alerts), key=lambda site: order.get(id(site), len(order)))

    def worst(self, count: int | None = None, by: str = "max_scaled_ulp") -> list[Site]:
        """Sites, those with alerts first, then by a figure of :class:`Site` falling."""
        return sorted(self.sites, key=lambda site: (not site.alerts, -_rank(getattr(site, by))))[:count]

    def summary_line(self) -> str:
        """One line for people."""
        calls = sum(site.count for site in self.sites)
        checked = sum(site.checked for site in self.sites)
        failing = sum(1 for site in self.sites if site.alerts)
        parts = [
            f"{calls} calls at {len(self.sites)} sites in {self.steps} steps, {checked} checked",
            f"{sum(site.alerts for site in self.sites)} alerts at {failing} sites" if failing else "no alert",
        ]
        if self.unchecked:
            parts.append(", ".join(f"{number} {reason}" for reason, number in self.unchecked.most_common()))
        return "; ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """The report as JSON can hold it."""
        return {
            "mode": self.mode.value,
            "level": self.level.value,
            "settings": self.settings,
            "steps": self.steps,
            "alerts": sum(site.alerts for site in self.sites),
            "unchecked": dict(self.unchecked),
            "notes": self.notes,
            "sites": [site.as_json() for site in self.worst()],
        }


def _rank(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _json_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
