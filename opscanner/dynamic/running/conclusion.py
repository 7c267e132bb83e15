"""What a replay's figures mean together, in a sentence or two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from opscanner.dynamic.running.calls import format_of
from opscanner.dynamic.running.judge import WORST

if TYPE_CHECKING:
    from opscanner.dynamic.running.replayed import Replayed
    from opscanner.dynamic.running.true_error import TrueError

#: From so many ULP on, what one ULP of the inputs does is worth a sentence.
_AMPLIFIED = 16.0


def conclude(found: Replayed, results: Sequence[torch.Tensor], doubles: Sequence[torch.Tensor] | None) -> str:
    """Is it the operator, its inputs, or the format?

    Parameters
    ----------
    doubles : sequence of torch.Tensor or None
        The outputs of the float64 run; the best that is known where there is no exact result.
    """
    for output, one in enumerate(results):
        places = (~torch.isfinite(one)).nonzero()
        if len(places) and not one.is_complex():
            index = tuple(int(at) for at in places[0])
            truth = next((item for item in found.truths if item.output == output), None)
            return _of_non_finite(one, index, truth, doubles[output] if doubles else None)
    if found.truths:
        worst = max(found.truths, key=lambda item: (not item.within_budget, _over(item)))
        return _of_truth(found, worst)
    return _of_judgement(found)


def _of_non_finite(
    result: torch.Tensor, index: tuple[int, ...], truth: TrueError | None, double: torch.Tensor | None
) -> str:
    got, format_ = float(result[index]), format_of(result)
    largest = torch.finfo(result.dtype).max
    if truth is None and double is None:
        return f"The result is {got} at {list(index)}; nothing better is known."
    exact = float(truth.values[index]) if truth is not None else float(double[index])  # type: ignore[index]
    what = "the exact result" if truth is not None else "the float64 run"
    if math.isnan(exact) or (math.isinf(exact) and truth is not None):
        return f"The operator is right: {what} at {list(index)} is {exact} too. Look at what makes its inputs."
    if math.isinf(exact):
        return f"{what[0].upper()}{what[1:]} at {list(index)} is {exact} too: nothing better is known."
    if abs(exact) > largest:
        return (
            f"The format is too narrow: {what} at {list(index)} is {exact:.6g}, beyond {largest:.6g}, the largest "
            f"number of {format_}."
        )
    return (
        f"The operator is wrong: it gives {got} at {list(index)}, where {what} is {exact:.6g}, a number that {format_} "
        "holds."
    )


def _over(item: TrueError) -> float:
    return (item.difference.max_scaled_ulp if item.by_row else item.difference.max_ulp) / max(item.budget_ulp, 0.5)


def _of_truth(found: Replayed, worst: TrueError) -> str:
    error = worst.difference.max_scaled_ulp if worst.by_row else worst.difference.max_ulp
    unit = "ULP of the largest element" if worst.by_row else "ULP"
    figures = f"its true error is {error:.3g} {unit}, of {worst.budget_ulp:g} that a right implementation may err"
    if worst.within_budget:
        return f"The operator is right: {figures}. {_of_inputs(found)}"
    judgement = found.judgement
    if judgement is None or worst.wrong_kinds:
        return f"The operator loses precision: {figures}."
    times = f"{judgement.worst:.3g} times what one ULP of its inputs does ({WORST:g} allowed)"
    if judgement.worst <= WORST:
        return f"The inputs are ill-conditioned: {figures}, but {times}. Look at what makes them."
    if judgement.is_good:
        return (
            f"The operator loses precision where it does not show: {figures}, and {times}, but at most "
            f"{worst.difference.max_scaled_ulp:.3g} ULP of the largest element."
        )
    return f"The operator loses precision: {figures}, and {times}."


def _of_inputs(found: Replayed) -> str:
    moved = [
        item.comparison.max_scaled_ulp
        for item in found.beside
        if item.against.startswith("all inputs moved") and item.comparison is not None
    ]
    largest = max(moved, default=0.0)
    if largest < _AMPLIFIED:
        return f"One ULP of its inputs moves the result by no more than {largest:.3g} ULP of its largest element."
    return (
        f"But one ULP of its inputs moves the result by {largest:.3g} ULP of its largest element: look at what makes "
        "the inputs, whose rounding errors grow that much here."
    )


def _of_judgement(found: Replayed) -> str:
    if found.judgement is None:
        return "Nothing better than the result itself is known."
    if found.judgement.is_good:
        return f"As far as float64 tells, the operator is as good as its inputs allow. {_of_inputs(found)}"
    return "As far as float64 tells, the operator loses precision, and more than its inputs explain."
