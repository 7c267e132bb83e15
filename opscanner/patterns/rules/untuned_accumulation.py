"""A sum is held in the 16-bit storage format.

There is no cast to find: the accumulator itself is float16 or bfloat16, in a loop, an atomic addition, or a function
that merges partial results.

Why it matters
    Every addition rounds to 11 (float16) or 8 (bfloat16) bits, and the sum stalls: in bfloat16 256 + 1 is 256. For n
    terms of one size the relative error grows to n times the unit roundoff, 2**-11 or 2**-8: after a few hundred terms
    no digit of a bfloat16 sum need be right. Atomic additions make the result depend on the order as well.

How it decides
    A reduction ``+= -= *=`` or an atomic addition whose accumulator is float16 or bfloat16, or a ``+`` in 16 bit that
    comes back to itself round a loop (high confidence); a ``+`` in 16 bit in a function whose name says that it merges
    partial results, such as a reducer's ``combine`` (medium); a reduction of an expression, ``x.sum(axes)`` (high).
    ``x[i] /= n`` is no sum, and ``min`` and ``max`` lose nothing.

What it cannot see
    How many terms there are: an array element that is added to once is reported as well. That a caller adds
    compensation terms (Kahan). Format switches that make the 16-bit instance unreachable at run time.

Source
    Higham, 4.2; PyTorch issue 41485 (cumsum), and operators' documentation of ``index_add`` and ``scatter_add``.
"""

from __future__ import annotations

from opscanner.patterns.base import Confidence, OperationRule, Verdict
from opscanner.patterns.operations import SIXTEEN_BIT, accumulates
from opscanner.patterns.subjects import OperationSubject

_WORDS = {
    "loop": "is carried round a loop",
    "element": "adds to an array's element in a loop",
    "atomic": "is an atomic addition",
    "combine": "merges partial results",
    "expression": "reduces an expression",
}


def judge(operation: OperationSubject) -> Verdict | None:
    """A sum in 16 bit."""
    held = operation.accumulator or operation.format
    if held not in SIXTEEN_BIT:
        return None
    how = accumulates(operation.graph, operation.node)
    if how not in _WORDS:
        return None
    return Verdict(
        Confidence.HIGH if how in ("loop", "atomic", "expression") else Confidence.MEDIUM,
        operation.chain(),
        f"{operation.operation} {_WORDS[how]} and is held in {held}",
    )


RULE = OperationRule("untuned-accumulation", "sum held in the 16-bit storage format", 10, judge)

EXAMPLES = (
    """
    __global__ void sum(const c10::Half* x, c10::Half* y, int n) {
      c10::Half total = 0;
      for (int i = 0; i < n; ++i)
        total += x[i];  // expect: untuned-accumulation
      y[0] = total;
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void sum(const c10::Half* x, float* y, int n) {
      float total = 0;
      for (int i = 0; i < n; ++i)
        total += static_cast<float>(x[i]);
      y[0] = total;
    }
    """,
    """
    __global__ void add(const c10::Half* x, c10::Half* y) {
      y[threadIdx.x] = x[threadIdx.x] + x[0];
    }
    """,
)
