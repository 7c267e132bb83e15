"""How far the results of a call are from the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from opscanner.dynamic.oracle.oracle import Reference
from opscanner.dynamic.running.calls import format_of
from opscanner.dynamic.running.named_call import NamedCall, as_array
from opscanner.dynamic.running.truth import NoTruthError, Truth, true_results
from opscanner.precision.formats import FORMATS
from opscanner.precision.relative import Difference, difference_of
from opscanner.precision.rounding import round_to_format
from opscanner.precision.ulp import ulp_error


@dataclass(frozen=True)
class TrueError:
    """One output beside its exact values; elements that the oracle cannot decide are left out.

    Parameters
    ----------
    row, reference, tier : str
        The catalog's row, the reference as it was evaluated, and the best arithmetic that it needed.
    bound_ulp : float
        No exact value is known worse than this.
    difference : Difference
        With the exact values as reference; ``max_ulp`` is the true error.
    budget_ulp : float
        ULP that a right implementation may err, of the element or, where ``by_row``, of the largest one of a row.
    wrong_kinds : int
        Elements that are NaN or infinite and should not be in this format, or the other way about.
    """

    output: int
    row: str
    reference: str
    tier: str
    bound_ulp: float
    undecided: int
    difference: Difference
    budget_ulp: float
    by_row: bool
    wrong_kinds: int
    values: np.ndarray = field(repr=False)

    @property
    def within_budget(self) -> bool:
        """As good as a right implementation must be."""
        error = self.difference.max_scaled_ulp if self.by_row else self.difference.max_ulp
        return not self.wrong_kinds and error <= self.budget_ulp


def true_errors(call: NamedCall, results: Sequence[torch.Tensor]) -> list[TrueError]:
    """The true errors of the outputs that have a reference.

    Raises
    ------
    NoTruthError
        When none has.
    """
    format_ = format_of(results[0])
    if format_ not in FORMATS or results[0].is_complex():
        raise NoTruthError(f"its result is of {format_}")
    truth = true_results(call.operator, call.arguments, call.arrays(), format_)
    found = []
    for output, (one, reference) in enumerate(zip(results, truth.references, strict=False)):
        got, exact = as_array(one), np.asarray(reference.values, float)
        if got.shape != exact.shape:
            raise NoTruthError(f"the reference of {truth.row.id} gives the shape {list(exact.shape)}")
        if reference.undecided.all() and got.size:
            raise NoTruthError("the oracle cannot decide any element")
        found.append(_true_error(output, got, format_of(one), reference, truth))
    return found


def _true_error(output: int, got: np.ndarray, format_: str, reference: Reference, truth: Truth) -> TrueError:
    exact, unknown = np.asarray(reference.values, float), np.asarray(reference.undecided, bool)
    # What rounds to infinity is no mistake of the operator's; beside the exact number it is none either.
    rounded = round_to_format(exact, format_)
    wrong = ~unknown & ((np.isnan(got) != np.isnan(rounded)) | ((np.isinf(got) | np.isinf(rounded)) & (got != rounded)))
    wrong &= ~(np.isnan(got) & np.isnan(rounded))
    known = ~unknown & np.isfinite(got) & np.isfinite(exact)
    errors = ulp_error(np.where(known, got, 0.0), np.where(known, exact, 0.0), format_, low=reference.low)
    difference = difference_of(np.where(unknown, 0.0, got), np.where(unknown, 0.0, exact), format_)
    budget = truth.budget(format_)
    return TrueError(
        output=output,
        row=truth.row.id,
        reference=truth.expression,
        tier=truth.tier,
        bound_ulp=reference.bound_ulp,
        undecided=int(unknown.sum()),
        difference=replace(difference, max_ulp=float(np.where(known, errors, 0.0).max(initial=0.0))),
        budget_ulp=budget.ulp,
        by_row=budget.by_row,
        wrong_kinds=int(wrong.sum()),
        values=exact,
    )
