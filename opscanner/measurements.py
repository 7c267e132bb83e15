"""What measuring operators gives: the rows that the dynamic stage, the database and reports hand to each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from opscanner.composition import is_composite


class Status(Enum):
    """How a trial ended; the values stand in tables and reports."""

    RAN = "ran"
    UNSUPPORTED = "not supported"  #: the framework has no kernel for this format on this device
    RAISED = "raised"  #: an exception that says something else
    ABORTED = "aborted"  #: the process ended by a signal, or by itself
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


class Verdict(Enum):
    """What is said of a measurement, the worst first; the values stand in tables and reports."""

    CLASS_MISMATCH = "class mismatch"  #: NaN or infinity where a number is right, or the other way round
    BEYOND_UPCAST = "beyond upcast"  #: worse than computing in the next wider format and rounding once
    NEAR_ZERO = "near zero"  #: beyond the budget in ULP of the element, within it in ULP of the largest of its row
    BEYOND_BUDGET = "beyond budget"  #: an elementwise operator as wrong in the next wider format: the formula's fault
    FLUSHED = "flushed"  #: nothing worse than subnormal values taken or given as zero
    INHERENT = "inherent"  #: beyond the budget, and the next wider format is no better: the input's condition
    UNDECIDED = "undecided"  #: the oracle cannot decide enough of it
    WITHIN_BUDGET = "within budget"
    CORRECT = "correctly rounded"  #: every decided element is within half a ULP
    EMPTY = "no elements"  #: the result has none: it ran, and nothing can be right or wrong
    NOT_MEASURED = "not measured"  #: it did not run

    @property
    def is_fault(self) -> bool:
        """True for what a maintainer would want to know."""
        return self in (Verdict.CLASS_MISMATCH, Verdict.BEYOND_UPCAST, Verdict.BEYOND_BUDGET)


@dataclass(frozen=True)
class Measurement:
    """One operator in one framework, format and layout, on the batches of one input strategy.

    Parameters
    ----------
    operator : str
        Id of the catalog's row.
    direction : str
        ``forward`` or ``backward``.
    output : int
        Position of the output that is told of: the worst one of a call with several.
    max_ulp, mean_ulp : float
        ULP of the format at the reference (see ``precision.ulp``); elements with a class mismatch are left out.
    quantiles_ulp : tuple of float
        At 0.5, 0.9, 0.99 and 0.999.
    max_scaled_ulp : float
        The same error in ULP of the largest reference value of its row.
    upcast_max_ulp : float or None
        Error of the same call in the next wider format, rounded once; None where it does not run.
    beyond_upcast : int
        Elements over the budget where the upcast result is within it.
    other_max_ulp : float or None
        Largest distance to the other framework's result, in representable values.
    tier : str
        What the reference is: ``float64``, ``arb`` ..., or ``own float64`` for the operator's own float64 run, which is
        no independent oracle.
    worst_inputs : dict
        Name of an input to the value at the worst element, for elementwise operators.
    batch_number : int
        Position of the worst element's batch among those of its strategy: makes it again, with operator, format,
        strategy, seed and size. Of a search, the call that found it (see ``dynamic.measure.remake``).
    coverage : dict
        Name of a float input to the share of the format's (sign, exponent) cells that this row's batches fed it:
        exponents of normal numbers, the subnormals, zero, infinity, each with either sign, and NaN.
    coverage_in_all : dict
        The same for all batches of this operator, format and framework that were run together.
    """

    operator: str
    direction: str
    framework: str
    version: str
    format: str
    device: str
    layout: str
    strategy: str
    seed: int
    status: Status
    verdict: Verdict
    message: str = ""
    output: int = 0
    count: int = 0
    max_ulp: float = 0.0
    mean_ulp: float = 0.0
    quantiles_ulp: tuple[float, ...] = ()
    over_1_ulp: int = 0
    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    max_scaled_ulp: float = 0.0
    nan_mismatches: int = 0
    infinity_mismatches: int = 0
    sign_mismatches: int = 0
    flushed_subnormals: int = 0
    undecided: int = 0
    budget_ulp: float = 0.0
    upcast_max_ulp: float | None = None
    beyond_upcast: int = 0
    other_max_ulp: float | None = None
    tier: str = ""
    expression: str = ""
    batch: str = ""
    worst_index: int = -1
    worst_expected: float = 0.0
    worst_got: float = 0.0
    worst_inputs: dict[str, Any] = field(default_factory=dict)
    elapsed_s: float = 0.0
    batch_number: int = 0
    coverage: dict[str, float] = field(default_factory=dict)
    coverage_in_all: dict[str, float] = field(default_factory=dict)

    @property
    def composite(self) -> bool:
        """True when the call is put together of several of the framework's, so that its error is none of theirs."""
        return is_composite(self.expression)

    @property
    def is_fault(self) -> bool:
        """True for what a maintainer of the framework would want to know."""
        return self.verdict.is_fault and not self.composite

    def as_texts(self) -> dict[str, str]:
        """The fields as texts, for tables: what holds several values as JSON, None as nothing, floats exactly."""
        row = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, Enum):
                value = value.value
            elif isinstance(value, (tuple, dict)):
                value = json.dumps(value)
            row[one.name] = "" if value is None else str(value)
        return row

    @classmethod
    def from_texts(cls, row: Mapping[str, str]) -> Measurement:
        """What :meth:`as_texts` gave; without the fields that earlier releases did not write.

        Raises
        ------
        KeyError, ValueError
            When a field is missing, or its text is no value of it.
        """
        read: dict[str, Any] = {}
        for one in fields(cls):
            if one.name in _LATER and one.name not in row:
                continue
            text = row[one.name]
            read[one.name] = _READERS.get(str(one.type), str)(text)
        return cls(**read)

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner test --format json`` prints."""
        row = dict(self.__dict__)
        row["status"], row["verdict"] = self.status.value, self.verdict.value
        row["composite"] = self.composite
        row["quantiles_ulp"] = dict(zip(("0.5", "0.9", "0.99", "0.999"), self.quantiles_ulp, strict=False))
        return row


#: Fields that tables of earlier releases lack.
_LATER = ("batch_number", "coverage", "coverage_in_all")

_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "float | None": lambda text: float(text) if text else None,
    "Status": Status,
    "Verdict": Verdict,
    "tuple[float, ...]": lambda text: tuple(json.loads(text)),
    "dict[str, Any]": json.loads,
    "dict[str, float]": json.loads,
}
