"""Arithmetic is done in a wider format than its operands are stored in.

The general case: the cast's value enters ``+ - * /`` or ``fma`` in the wider format. More special rules (sums,
elementary functions, statistics ...) give the cast its category where they apply as well.

Why it matters
    With n operations in the storage format there are n roundings; computed in a wider format and rounded once at the
    end there is one, and products and quotients that leave the range of float16 (above 65504, below 6e-8) survive in
    between.

How it decides
    Forward from the cast, across calls, to the nearest arithmetic that rounds and whose format is wider than the cast's
    source; a unary minus rounds nothing. High confidence when two or more operations are done before the value is
    stored or narrowed, or one whose other operand is the result of an operation; medium when the cast stands in a
    helper that several functions call; low when one operation on values of the storage format is all: c10::Half's own
    operators widen inside, so that it gives the same bits either way.

What it cannot see
    Whether the operation is exact for the values that occur (a product by a power of two). For a helper shared by
    several callers, how many operations each of them does.

Source
    IEEE 754-2019, 5.4.1; S. Figueroa, When is double rounding innocuous?, SIGNUM 1995 (one operation in float32,
    rounded to float16, equals the float16 operation).
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import is_inexact_function, is_rounding_arithmetic, operands_computed
from opscanner.patterns.slices import widens
from opscanner.patterns.subjects import CastSubject


def judge(cast: CastSubject) -> Verdict | None:
    """Widened, then + - * /."""
    index = cast.arithmetic
    if not cast.widens or index < 0:
        return None
    graph, step = cast.graph, cast.forward.steps[index]
    computed = graph.format[step.node]
    if not widens(cast.from_format, computed):
        return None
    rounded = {
        step.node
        for step in cast.forward.steps[1:]
        if is_rounding_arithmetic(graph, step.node)
        or is_inexact_function(graph, step.node)
        or graph.kind[step.node] in ("reduction", "atomic")
    }
    alone = len(rounded) == 1 and not operands_computed(graph, step.node)
    if alone:
        confidence = Confidence.LOW
    else:
        confidence = Confidence.MEDIUM if step.unwound else Confidence.HIGH
    if len(rounded) > 1:
        count = f"{len(rounded)} operations or more"
    else:
        count = "one operation" if alone else "one operation with a wide result"
    return Verdict(
        confidence,
        cast.chain(index),
        f"{cast.from_format} is widened to {cast.to_format} for {graph.operation[step.node]} computed in {computed} "
        f"(line {graph.line[step.node]}), {count} before it is rounded",
    )


RULE = CastRule("widened-arithmetic", "arithmetic in a wider format", 140, judge)

EXAMPLES = (
    """
    __global__ void lerp(const c10::Half* x, const c10::Half* y, c10::Half* out, float w) {
      float a = static_cast<float>(x[0]);  // expect: widened-arithmetic
      float b = static_cast<float>(y[0]);  // expect: widened-arithmetic
      out[0] = a + w * (b - a);
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void negate(const c10::Half* x, c10::Half* y) {
      y[0] = -static_cast<float>(x[0]);
    }
    """,
    """
    __global__ void in_half(const c10::Half* x, c10::Half* y) {
      y[0] = x[0] * x[1] + x[2];
    }
    """,
)
