"""A scalar parameter of an operator (alpha, beta, eps ...) is kept in a wider format than the data.

The scalar that a user gives, or that the host computed, is widened from 16 bit, or comes from double and is held in the
accumulator's or the operator's math type.

Why it matters
    Rounded to bfloat16 a factor of 0.1 is off by 0.1 % for every element, and an eps of 1e-8 is zero in float16, which
    makes a division that it should guard one by zero. Kept in float32 it costs one register.

How it decides
    Back from the cast, through steps that only hand the value on, the value is no element of an array: it is a captured
    variable of a lambda, a kernel's parameter by value, or a parameter of a function on the host (high confidence), or
    a parameter whose callers were not seen and whose name is a scalar's (medium). Widening casts count, and casts from
    float64 whose target is written as an accumulator's or math type (``acc_t``, ``opmath_t``).

What it cannot see
    Scalars that go through ``Scalar::to<opmath_t>()``: there the cast stands in a helper, and the call is no cast.

Source
    PyTorch ``ATen/OpMathType.h``; its ``ActivationEluKernel.cu`` and ``group_norm_kernel.cu``.
"""

from __future__ import annotations

import re

from opscanner.patterns.base import CastRule, Verdict
from opscanner.patterns.scalars import scalar_origin
from opscanner.patterns.subjects import CastSubject

_MATH_TYPE = re.compile(r"acc|opmath|compute|factor", re.IGNORECASE)


def judge(cast: CastSubject) -> Verdict | None:
    """A scalar, kept wide."""
    held = cast.narrows and cast.from_format == "float64" and _MATH_TYPE.search(cast.cast.written_type)
    if not (cast.widens or held):
        return None
    index, confidence = scalar_origin(cast)
    if index < 0 or confidence is None or (cast.widens and not (cast.computes or cast.compares)):
        return None
    graph = cast.graph
    name = graph.operation[cast.backward.steps[index].node]
    how = f"widened from {cast.from_format}" if cast.widens else f"given in {cast.from_format}"
    return Verdict(
        confidence,
        (*reversed(cast.backward.path(index)), *cast.forward.path(cast.end)[1:]),
        f"the scalar {name} is {how} and kept in {cast.to_format}",
    )


RULE = CastRule("scalar-parameter", "scalar parameter kept wide", 80, judge)

EXAMPLES = (
    """
    template <typename T>
    __global__ void scale(T eps, const float* x, T* y) {
      y[0] = x[0] + static_cast<float>(eps);  // expect: scalar-parameter
    }
    void launch(c10::Half eps, const float* x, c10::Half* y) { scale<c10::Half><<<1, 1>>>(eps, x, y); }
    """,
    """
    using opmath_t = float;
    __global__ void kernel(float factor, c10::Half* y) { y[0] = y[0] * factor; }
    void launch(double alpha, c10::Half* y) {
      kernel<<<1, 1>>>(static_cast<opmath_t>(alpha), y);  // expect: scalar-parameter
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void scale(const c10::Half* x, c10::Half* y) {
      y[0] = static_cast<float>(x[0]) * 3.0f;
    }
    """,
)
