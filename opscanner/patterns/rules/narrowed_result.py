"""The result of a computation in a wider format is rounded to the storage format.

The other end of a widening: the value was computed (or held) in a wider format and is narrowed where it is stored,
returned or handed to an array of the narrow format.

Why it matters
    This rounding is the one that remains, at most half a unit in the last place, and the place where float16 overflows:
    a float32 above 65520 becomes infinity here. A computation with several of these has rounded several times: see
    premature-narrowing.

How it decides
    A narrowing cast to a format of a tensor whose value comes from an operation in the wider format (high confidence),
    or is a constant or a parameter in the wider format (medium), and which goes to a store or out of the function.
    Narrowing from float64 to float32 counts as well; where nobody wanted the float64, see double-promotion.

What it cannot see
    Whether the value fits the narrow format's range.

Source
    IEEE 754-2019, 5.4.2 and 7.4.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.subjects import CastSubject


def judge(cast: CastSubject) -> Verdict | None:
    """Computed wide, then narrowed."""
    if not cast.narrows:
        return None
    origin = cast.computed_before
    if origin < 0:
        return None
    graph, step = cast.graph, cast.backward.steps[origin]
    return Verdict(
        Confidence.MEDIUM if step.unwound else Confidence.HIGH,
        (*reversed(cast.backward.path(origin)), *cast.forward.path(min(1, len(cast.forward.steps) - 1))[1:]),
        f"computed in {cast.from_format} ({graph.operation[step.node]}, line {graph.line[step.node]}), rounded to "
        f"{cast.to_format}",
    )


RULE = CastRule("narrowed-result", "result rounded to the storage format", 170, judge)

EXAMPLES = (
    """
    __global__ void scale(const c10::Half* x, c10::Half* y, float factor) {
      float value = static_cast<float>(x[0]) * factor;
      y[0] = static_cast<c10::Half>(value);  // expect: narrowed-result
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void copy(const float* x, c10::Half* y) {
      y[0] = static_cast<c10::Half>(x[0]);
    }
    """,
)
