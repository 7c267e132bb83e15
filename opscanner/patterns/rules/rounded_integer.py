"""An integer becomes a 16-bit float, which cannot hold it exactly.

A count, an index or a size is converted to float16 or bfloat16 and used there.

Why it matters
    float16 holds all integers up to 2048 and overflows above 65504, bfloat16 holds them up to 256. Dividing a sum by
    its count in bfloat16 divides by a count that is off by up to 0.4 %; an index of an arange repeats.

How it decides
    A cast from int32, int64, uint32 or uint64 to float16 or bfloat16, directly or by way of float32, whose value is no
    constant. High confidence when it enters arithmetic there, medium when it is stored or handed on.

What it cannot see
    How large the integer gets.

Source
    IEEE 754-2019, 5.4.1 (convertFromInt) and table 3.5.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import SIXTEEN_BIT
from opscanner.patterns.subjects import CastSubject

_LARGE = frozenset(("int32", "int64", "uint32", "uint64"))


def judge(cast: CastSubject) -> Verdict | None:
    """An integer, rounded."""
    if cast.from_format not in _LARGE:
        return None
    if cast.to_format in SIXTEEN_BIT:
        index, held = cast.end, cast.to_format
        used = cast.computes
    else:
        # static_cast<Half>(n) goes by way of float: the second cast rounds.
        index = cast.forward.first(cast.graph, lambda step: cast.graph.cast[step.node] is not None)
        facts = None if index < 0 else cast.graph.cast[cast.forward.steps[index].node]
        if facts is None or facts.to_format not in SIXTEEN_BIT or cast.forward.steps[index].parent != 0:
            return None
        held, used = facts.to_format, False
    return Verdict(
        Confidence.HIGH if used else Confidence.MEDIUM,
        cast.chain(index),
        f"an {cast.from_format} is rounded to {held}" + (f" for {cast.what(cast.effect)}" if used else ""),
    )


RULE = CastRule("rounded-integer", "integer in a 16-bit float", 190, judge)

EXAMPLES = (
    """
    __global__ void average(const c10::BFloat16* sum, c10::BFloat16* y, int n) {
      y[0] = sum[0] / static_cast<c10::BFloat16>(n);  // expect: rounded-integer
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void average(const float* sum, float* y, int n) {
      y[0] = sum[0] / static_cast<float>(n);
    }
    """,
)
