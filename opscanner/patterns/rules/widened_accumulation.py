"""A value is widened before it is added to a running sum.

The cast's value enters, in the wider format, a sum or product that is carried round a loop, an atomic addition, or the
step that merges partial results of a reduction or a scan: reductions, dot products, cumulative sums, block and warp
reductions.

Why it matters
    A sum of n terms held in the storage format loses up to n - 1 roundings, and stalls: in float16 a sum of ones stays
    at 2048, in bfloat16 at 256, because half a unit in the last place is then as large as the next term. Held in
    float32 the same sum is exact up to 2**24, and one rounding to the storage format is left.

How it decides
    Forward from the cast, across calls, through at most six operations and no other sum, to a reduction, an atomic
    addition or a ``+`` that comes back to itself round a loop, whose format is wider than the cast's source. High
    confidence when that is seen in the graph. Medium when an element of an array is added to, of which the graph does
    not say whether it is the same one each time, when two threads' values are merged outside of a loop, when the sum is
    known by its function's name only (``combine``, ``reduce``, ``WarpReduceSum``), or when the cast stands in a helper
    that several functions call. ``y[i] += x[i]`` over all ``i`` is no sum: each element is added to once.

What it cannot see
    How many terms a sum has. Sums inside libraries whose bodies are not scanned (cuBLAS, CUB on the host), unless the
    call's name says so.

Source
    N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 4.2; PyTorch ``c10/util/AccumulateType.h``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import accumulates
from opscanner.patterns.slices import widens
from opscanner.patterns.subjects import CastSubject

_WORDS = {
    "loop": "a sum carried round a loop",
    "element": "a sum in an array's element",
    "atomic": "an atomic addition",
    "combine": "a merge of partial results",
    "call": "a reduction in a call",
    "expression": "a library's reduction",
}


def judge(cast: CastSubject) -> Verdict | None:
    """Widened, then summed."""
    index = cast.accumulation
    if not cast.widens or index < 0:
        return None
    graph, step = cast.graph, cast.forward.steps[index]
    facts = graph.computed[step.node]
    held = (facts.accumulator if facts is not None else "") or graph.format[step.node]
    if not widens(cast.from_format, held):
        return None
    how = accumulates(graph, step.node)
    sure = how in ("loop", "atomic", "expression") and not step.unwound
    return Verdict(
        Confidence.HIGH if sure else Confidence.MEDIUM,
        cast.chain(index),
        f"{cast.from_format} is widened to {cast.to_format} for {_WORDS[how]} held in {held} "
        f"({graph.operation[step.node]}, line {graph.line[step.node]})",
    )


RULE = CastRule("widened-accumulation", "sum held in a wider format", 110, judge)

EXAMPLES = (
    """
    __device__ float sum(const c10::Half* x, int n) {
      float total = 0;
      for (int i = 0; i < n; ++i)
        total += static_cast<float>(x[i]);  // expect: widened-accumulation
      return total;
    }
    """,
    """
    template <typename scalar_t, typename acc_t>
    __global__ void dot(const scalar_t* x, const scalar_t* y, scalar_t* out, int n) {
      acc_t total = 0;
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        acc_t a = static_cast<acc_t>(x[i]);  // expect: widened-accumulation
        acc_t b = static_cast<acc_t>(y[i]);  // expect: widened-accumulation
        total = total + a * b;
      }
      out[0] = total;
    }
    void launch(const c10::Half* x, const c10::Half* y, c10::Half* out) {
      dot<c10::Half, float><<<1, 32>>>(x, y, out, 100);
    }
    """,
    """
    __global__ void tree(const c10::Half* x, c10::Half* y) {
      __shared__ float s[256];
      const int t = threadIdx.x;
      s[t] = x[t];  // expect: widened-accumulation
      for (int stride = 128; stride > 0; stride >>= 1)
        if (t < stride) s[t] = s[t] + s[t + stride];
      y[0] = s[0];
    }
    """,
    """
    __global__ void add(float* total, const c10::BFloat16* x) {
      atomicAdd(total, static_cast<float>(x[0]));  // expect: widened-accumulation
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void add_to_each(const c10::Half* x, float* y, int n) {
      for (int i = threadIdx.x; i < n; i += blockDim.x)
        y[i] += static_cast<float>(x[i]);
    }
    """,
    """
    __global__ void scale(const c10::Half* x, c10::Half* y, int n) {
      for (int i = 0; i < n; ++i)
        y[i] = static_cast<float>(x[i]) * 2.0f;
    }
    """,
    """
    __device__ float largest(const c10::Half* x, int n) {
      float found = 0;
      for (int i = 0; i < n; ++i) {
        float value = x[i];
        found = value > found ? value : found;
      }
      return found;
    }
    """,
)
