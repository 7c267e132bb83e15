"""A result is narrowed before it is used in further arithmetic.

The value was computed in a wider format, is rounded to the narrow one, and is then an operand of arithmetic in the
narrow format.

Why it matters
    The arithmetic before the cast was done with care that the arithmetic after it throws away: there are two roundings
    or more, where keeping the value wide until the end would leave one. Cancellation after the cast lays the first
    rounding bare.

How it decides
    A narrowing cast to a 16-bit format whose value comes from an operation in the wider format and goes, through steps
    that only hand it on, into ``+ - * /``, an elementary function or a sum in the narrow format. High confidence;
    medium when the cast stands in a helper that several functions call.

What it cannot see
    Arithmetic after a store to memory, in another kernel.

Source
    Higham, Accuracy and Stability, 2nd ed., 1.13 and 2.3 (double rounding).
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import SIXTEEN_BIT
from opscanner.patterns.subjects import CastSubject, used_narrow


def judge(cast: CastSubject) -> Verdict | None:
    """Narrowed, then computed with."""
    if not cast.narrows or cast.to_format not in SIXTEEN_BIT or cast.computed_before < 0:
        return None
    path, unwound = used_narrow(cast)
    if not path:
        return None
    graph, used = cast.graph, path[-1]
    return Verdict(
        Confidence.MEDIUM if unwound else Confidence.HIGH,
        (*reversed(cast.backward.path(cast.computed_before)), *path[1:]),
        f"a result in {cast.from_format} is narrowed to {cast.to_format} and then used by {graph.operation[used]} in "
        f"{graph.format[used]} (line {graph.line[used]})",
    )


RULE = CastRule("premature-narrowing", "narrowed before further arithmetic", 40, judge)

EXAMPLES = (
    """
    __global__ void kernel(const float* x, const c10::Half* w, c10::Half* y) {
      c10::Half normed = x[0] * 0.125f;  // expect: premature-narrowing
      y[0] = normed * w[0];
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void kernel(const float* x, const float* w, c10::Half* y) {
      c10::Half result = x[0] * w[0];
      y[0] = result;
    }
    """,
)
