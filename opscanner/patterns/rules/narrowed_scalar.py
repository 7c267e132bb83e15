"""A scalar parameter of an operator (alpha, beta, eps ...) is rounded to the storage format.

The host holds the scalar as double (or float), and rounds it to the format of the data before the kernel uses it.

Why it matters
    The rounding is the same for every element, so that it does not average out: a factor of 0.1 becomes 0.1001 in
    bfloat16. An eps below 6e-8 becomes zero in float16. Where the data is float32 the loss is 2**-24 and hardly ever
    matters.

How it decides
    A narrowing cast whose value, through steps that only hand it on, is a scalar (see scalar-parameter) and no result
    of an operation. High confidence for a 16-bit target when it is seen where the scalar comes from; low for float64 to
    float32.

What it cannot see
    Scalars that go through ``Scalar::to<scalar_t>()``: there the cast stands in a helper.

Source
    PyTorch issue 113934 (scalars in half precision); ``PointwiseOpsKernel.cu`` (``scalar_t beta_val(beta)``).
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import SIXTEEN_BIT
from opscanner.patterns.scalars import scalar_origin
from opscanner.patterns.subjects import CastSubject


def judge(cast: CastSubject) -> Verdict | None:
    """A scalar, rounded."""
    if not cast.narrows:
        return None
    index, confidence = scalar_origin(cast)
    if index < 0 or confidence is None:
        return None
    name = cast.graph.operation[cast.backward.steps[index].node]
    return Verdict(
        confidence if cast.to_format in SIXTEEN_BIT else Confidence.LOW,
        (*reversed(cast.backward.path(index)), *cast.forward.path(cast.end)[1:]),
        f"the scalar {name} is rounded from {cast.from_format} to {cast.to_format}",
    )


RULE = CastRule("narrowed-scalar", "scalar parameter rounded to the storage format", 165, judge)

EXAMPLES = (
    """
    __global__ void kernel(c10::Half factor, c10::Half* y) { y[0] = y[0] * factor; }
    void launch(float alpha, c10::Half* y) {
      kernel<<<1, 1>>>(static_cast<c10::Half>(alpha), y);  // expect: narrowed-scalar
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void store(const float* x, c10::Half* y) {
      y[0] = static_cast<c10::Half>(x[0]);
    }
    """,
)
