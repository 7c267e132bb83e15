"""What a replay found, as rows and in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from opscanner.dynamic.fault_script import bits_of

if TYPE_CHECKING:
    from opscanner.dynamic.running.judge import Judgement
    from opscanner.dynamic.running.replayed import Beside, Replayed, Smallest
    from opscanner.dynamic.running.true_error import TrueError

COLUMNS = ("beside", "output", "rel. error >=", "ULP", "ULP of largest", "nan/inf", "result", "other", "at")

#: Elements of an input that are written out.
_MOST_WRITTEN = 8


def rows(found: Replayed) -> Iterator[Sequence[Any]]:
    """Cells of :data:`COLUMNS`: the result beside others, the exact one last."""
    for one in found.beside:
        cells = _cells(one.comparison) if one.comparison is not None else (*[""] * 6, one.why_not)
        yield (one.against, one.output, *cells)
    for truth in found.truths:
        yield ("the exact result", truth.output, *_cells(truth.difference))


def _cells(difference: Any) -> tuple[Any, ...]:
    first, second = difference.worst
    return (
        f"{difference.max_relative_error:.2g}",
        f"{difference.max_ulp:.3g}",
        f"{difference.max_scaled_ulp:.3g}",
        f"{difference.nan_mismatches}/{difference.infinity_mismatches}",
        f"{first:.6g}",
        f"{second:.6g}",
        str(list(difference.worst_index)),
    )


def head_lines(found: Replayed) -> Iterator[str]:
    """What was called, what the watch saw, and whether it comes again."""
    yield f"{found.operator} of {', '.join(found.inputs)}"
    seen = found.seen
    at = f" at {seen['location']}" if seen.get("location") else ""
    mode = f" in mode {seen['mode']}" if "mode" in seen else ""
    yield f"a watch{mode} saw {seen.get('site', 'a call')}{at}"
    if "message" in seen:
        yield f"  {seen.get('kind', 'alert')}: {seen['message']}"
    bits = {True: "the same bits", False: "other bits", None: "nothing to compare bits with"}[found.same_bits]
    yield f"called again on {found.device}: {bits}; {found.alert or 'no alert'}"
    for note in found.notes:
        yield f"note: {note}"


def lines(found: Replayed) -> Iterator[str]:
    """What the figures mean, and the smallest inputs."""
    for truth in found.truths:
        yield _truth_line(truth)
    if found.why_no_truth:
        best = "; float64 is the best that is known" if found.judgement is not None else ""
        yield f"no exact result: {found.why_no_truth}{best}"
    if found.judgement is not None:
        yield f"finite elements judged by what one ULP of the inputs does: {_judged(found.judgement)}"
    yield found.conclusion
    if found.smallest is not None:
        yield from _smallest_lines(found.smallest)
    elif found.why_not_smaller:
        yield f"no smaller inputs: {found.why_not_smaller}"


def _judged(judgement: Judgement) -> str:
    if judgement.is_good and not judgement.worst:
        return "good, none is off"
    if judgement.is_good:
        return f"good, at most {judgement.worst:.3g} times that"
    return f"not good: {judgement}"


def _truth_line(truth: TrueError) -> str:
    left_out = f", {truth.undecided} elements undecided" if truth.undecided else ""
    return (
        f"exact result of output {truth.output}: {truth.reference} ({truth.row} in the catalog), by {truth.tier}, "
        f"known to {truth.bound_ulp:.2g} ULP{left_out}; a right implementation may err {truth.budget_ulp:g} ULP"
        f"{' of the largest element' if truth.by_row else ''}"
    )


def _smallest_lines(small: Smallest) -> Iterator[str]:
    yield "smallest inputs that alert:"
    for name, array in small.call.arrays().items():
        values = array.ravel().tolist()
        written = ", ".join(
            f"{value:.9g}" if isinstance(value, float) else str(value) for value in values[:_MOST_WRITTEN]
        )
        more = ", ..." if len(values) > _MOST_WRITTEN else ""
        yield f"  {name} {list(array.shape)} = {written}{more}"
    format_ = small.format
    what = "exact" if small.truth is not None else "float64 gives"
    yield (f"  got {small.got!r} ({bits_of(small.got, format_)}) at {list(small.index)}, {what} {small.expected!r}")
    yield f"  {small.message}"


def as_json(found: Replayed) -> dict[str, Any]:
    """The replay as JSON can hold it; numbers that are none are strings."""
    return {
        "file": found.path,
        "operator": found.operator,
        "device": found.device,
        "inputs": found.inputs,
        "seen": found.seen,
        "same_bits": found.same_bits,
        "draws_random": found.draws_random,
        "alert": found.alert,
        "notes": found.notes,
        "beside": [_beside_json(one) for one in found.beside],
        "judgement": None
        if found.judgement is None
        else _plain({**asdict(found.judgement), "is_good": found.judgement.is_good}),
        "exact": [_truth_json(one) for one in found.truths],
        "why_no_exact": found.why_no_truth,
        "smallest": None if found.smallest is None else _smallest_json(found.smallest),
        "why_not_smaller": found.why_not_smaller,
        "conclusion": found.conclusion,
    }


def _beside_json(one: Beside) -> dict[str, Any]:
    figures = {} if one.comparison is None else _plain(asdict(one.comparison))
    return {"against": one.against, "output": one.output, **figures, "why_not": one.why_not}


def _truth_json(one: TrueError) -> dict[str, Any]:
    return {
        "output": one.output,
        "row": one.row,
        "reference": one.reference,
        "tier": one.tier,
        "bound_ulp": _plain(one.bound_ulp),
        "undecided": one.undecided,
        "budget_ulp": one.budget_ulp,
        "budget_is_of_largest": one.by_row,
        "within_budget": one.within_budget,
        **_plain(asdict(one.difference)),
    }


def _smallest_json(small: Smallest) -> dict[str, Any]:
    return {
        "inputs": {
            name: {"shape": list(array.shape), "values": _plain(array.ravel().tolist())}
            for name, array in small.call.arrays().items()
        },
        "message": small.message,
        "output": small.output,
        "index": list(small.index),
        "got": _plain(small.got),
        "got_bits": bits_of(small.got, small.format),
        "expected": _plain(small.expected),
        "expected_is_exact": small.truth is not None,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
