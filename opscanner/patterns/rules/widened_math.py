"""An elementary function is computed in a wider format than its argument is stored in.

The cast's value, as it is or after some arithmetic, is the argument of ``exp``, ``log``, ``tanh``, ``pow``, ``erf``,
``rsqrt``, ``sqrt``, a trigonometric function or their like, computed in the wider format.

Why it matters
    Elementary functions are not rounded correctly, and their arguments amplify errors: exp turns an absolute error of
    its argument into a relative one of its result, which at x = 10 makes half a unit in the last place of float16
    (2**-8) an error of 0.4 %, four units. Intermediate results overflow, too: exp(12) is no float16.

How it decides
    Forward from the cast, across calls, through at most six operations and no sum, to a call of an elementary function
    in a format wider than the cast's source. High confidence, medium when the cast stands in a helper that several
    functions call. A cast of the form library_call counts when its own line computes the function.

What it cannot see
    Functions that are written out as arithmetic (polynomials, Newton steps) count as arithmetic. What a library
    function does inside.

Source
    IEEE 754-2019, 9.2; CUDA C++ Programming Guide, Mathematical Functions (maximal errors in ULP); PyTorch
    ``ATen/OpMathType.h``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.slices import widens
from opscanner.patterns.subjects import CastSubject


def judge(cast: CastSubject) -> Verdict | None:
    """Widened, then exp and the like."""
    index = cast.inexact_function
    if not cast.widens or index < 0:
        return None
    graph, step = cast.graph, cast.forward.steps[index]
    computed = graph.format[step.node]
    if not widens(cast.from_format, computed):
        return None
    return Verdict(
        Confidence.MEDIUM if step.unwound else Confidence.HIGH,
        cast.chain(index),
        f"{cast.from_format} is widened to {cast.to_format} for {graph.operation[step.node]} computed in {computed} "
        f"(line {graph.line[step.node]})",
    )


RULE = CastRule("widened-math", "elementary function in a wider format", 120, judge)

EXAMPLES = (
    """
    __global__ void softplus(const c10::Half* x, c10::Half* y) {
      float value = static_cast<float>(x[threadIdx.x]);  // expect: widened-math
      y[threadIdx.x] = ::log1p(::exp(value));
    }
    """,
    """
    __device__ float gelu(float x) { return x * 0.5f * (1.0f + erff(x * 0.70710678f)); }
    __global__ void kernel(const c10::BFloat16* x, c10::BFloat16* y) {
      y[0] = gelu(x[0]);  // expect: widened-math
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void rounded(const c10::Half* x, c10::Half* y) {
      y[0] = floorf(x[0]);
    }
    """,
    """
    __global__ void scaled(const c10::Half* x, c10::Half* y) {
      y[0] = static_cast<float>(x[0]) * 3.0f;
    }
    """,
)
