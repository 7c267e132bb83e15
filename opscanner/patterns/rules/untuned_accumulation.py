"""A sum is held in the 16-bit storage format.

There is no cast to find: the accumulator itself is float16 or bfloat16, in a loop, an atomic addition, or a function
that merges partial results.

Why it matters
    Every addition rounds to 11 (float16) or 8 (bfloat16) bits, and the sum stalls: in bfloat16 256 + 1 is 256. For n
    terms of one size the relative error grows to n times the unit roundoff, 2**-11 or 2**-8: after a few hundred terms
    no digit of a bfloat16 sum need be right. Atomic additions make the result depend on the order as well.

How it decides
    A reduction or an atomic addition whose accumulator is float16 or bfloat16, or a ``+`` in 16 bit that comes back to
    itself round a loop (high confidence): ``sum += x``, ``sum = fma(a, b, sum)``, ``y[0] = y[0] + x[i]``, a tree in
    shared memory, a loop round ``atomicCAS``. Medium when the index leaves open whether an element is met again
    (``y[bin[i]] += x[i]``), when two threads' values are added outside of a loop (a shuffle, two elements of shared
    memory), and for a ``+`` in a function whose name says that it merges partial results, such as a reducer's
    ``combine``. A reduction of an expression, ``x.sum(axes)``, is high. ``y[i] += x[i]`` over all ``i`` adds once to
    each element and is no sum, nor are ``x[i] /= n`` and Horner's ``r = r * x + c``; ``min`` and ``max`` lose nothing.

What it cannot see
    How many terms there are. That the loop adds compensation terms (Kahan). A sum that a function keeps in what a
    reference or a pointer names, where the loop is its caller's. Format switches that make the 16-bit instance
    unreachable at run time.

Source
    Higham, 4.2; PyTorch issue 41485 (cumsum), and operators' documentation of ``index_add`` and ``scatter_add``.
"""

from __future__ import annotations

from opscanner.patterns.base import Confidence, OperationRule, Verdict
from opscanner.patterns.operations import SIXTEEN_BIT, accumulates
from opscanner.patterns.subjects import OperationSubject

_WORDS = {
    "loop": "is carried round a loop",
    "element": "adds to an array's element",
    "atomic": "is an atomic addition",
    "combine": "merges partial results",
    "expression": "reduces what a library is given",
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
    """
    __global__ void tree(const c10::Half* x, c10::Half* y) {
      __shared__ unsigned short storage[256];
      c10::Half* s = reinterpret_cast<c10::Half*>(storage);
      const int t = threadIdx.x;
      s[t] = x[t];
      for (int stride = 128; stride > 0; stride >>= 1)
        if (t < stride) s[t] = s[t] + s[t + stride];  // expect: untuned-accumulation
      y[0] = s[0];
    }
    """,
    """
    __global__ void histogram(const c10::Half* x, const int* bin, c10::Half* y, int n) {
      for (int i = 0; i < n; ++i)
        y[bin[i]] += x[i];  // expect: untuned-accumulation
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
    __global__ void scale(const c10::Half* x, c10::Half* y, int n) {
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i] *= x[0];
        y[i] += x[i];
      }
    }
    """,
    """
    __global__ void horner(const c10::Half* c, c10::Half x, c10::Half* y) {
      c10::Half r = c[0];
      for (int i = 1; i < 6; ++i)
        r = r * x + c[i];
      y[0] = r;
    }
    """,
    """
    __global__ void add(const c10::Half* x, c10::Half* y) {
      y[threadIdx.x] = x[threadIdx.x] + x[0];
    }
    """,
)
