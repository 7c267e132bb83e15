"""Arithmetic is done in the 16-bit storage format, each operation rounded by itself.

There is no cast to find: the operands are float16 or bfloat16 and so is the operation. c10::Half's and Eigen's own
operators widen inside and round after every operation; seen from the kernel that is arithmetic in 16 bit.

Why it matters
    Every operation adds a rounding of 2**-11 (float16) or 2**-8 (bfloat16), cancellation lays earlier ones bare, and
    intermediate results overflow where the final one would not. An operator that computes like this differs from one
    that widens first in the last digits at best, and in all of them where it subtracts.

How it decides
    An operation in float16 or bfloat16 that rounds. High confidence when it is an elementary function, or when its
    operand or its result is, with no cast between, another operation that rounds in 16 bit, or itself round a loop
    (Horner's scheme): there is more than one rounding. Low when it stands alone: one correctly rounded operation gives
    the same bits as computing wider and rounding once. Comparisons, selections, changes of sign and exact functions are
    not reported; sums are untuned-accumulation.

What it cannot see
    Operations that are exact for the values that occur (times two, index arithmetic on small numbers). Fused forms that
    a compiler makes of two operations. Chains that run through memory.

Source
    IEEE 754-2019, 5.4.1; Figueroa, SIGNUM 1995; tensorflow issue 67440 (SeluGrad, Elu, Softplus in bfloat16).
"""

from __future__ import annotations

from opscanner.patterns.base import Confidence, OperationRule, Verdict
from opscanner.patterns.operations import (
    SIXTEEN_BIT,
    accumulates,
    comes_back,
    is_inexact_function,
    is_rounding_arithmetic,
)
from opscanner.patterns.subjects import OperationSubject


def judge(operation: OperationSubject) -> Verdict | None:
    """+ - * / or a function in 16 bit."""
    graph, node = operation.graph, operation.node
    function = is_inexact_function(graph, node)
    if operation.format not in SIXTEEN_BIT or not (function or is_rounding_arithmetic(graph, node)):
        return None
    if accumulates(graph, node):
        return None
    neighbour = operation.rounded_neighbour
    if function:
        confidence, why = Confidence.HIGH, "an elementary function"
    elif neighbour or comes_back(graph, node):
        confidence, why = Confidence.HIGH, "one of several operations in a row"
    else:
        confidence, why = Confidence.LOW, "a single operation, rounded once"
    return Verdict(
        confidence, neighbour or operation.chain(), f"{operation.operation} is computed in {operation.format}: {why}"
    )


RULE = OperationRule("untuned-arithmetic", "arithmetic in the 16-bit storage format", 20, judge)

EXAMPLES = (
    """
    __global__ void selu_grad(const c10::BFloat16* gradient, const c10::BFloat16* y, c10::BFloat16* out) {
      c10::BFloat16 sum = y[0] + y[1];  // expect: untuned-arithmetic
      out[0] = gradient[0] * sum;  // expect: untuned-arithmetic
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void wide(const c10::Half* x, c10::Half* y) {
      y[0] = static_cast<float>(x[0]) * static_cast<float>(x[1]);
    }
    """,
    """
    __global__ void smaller(const c10::Half* x, c10::Half* y) {
      y[0] = x[0] < x[1] ? x[0] : -x[1];
    }
    """,
)
