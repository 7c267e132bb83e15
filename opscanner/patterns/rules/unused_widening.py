"""A value is widened and narrowed again with nothing computed in between.

The wide type is written (``acc_t(x[i])``), and the function or variable that takes the value is narrow after all.

Why it matters
    The widening has no effect: what looks like arithmetic in the wider format is done in the narrow one. Where the
    author meant to accumulate in float32, a sum in float16 is left. Through memory or a buffer in the wide format the
    way there and back costs time and changes nothing.

How it decides
    Forward from a widening cast, through steps that only hand the value on, to a cast back to its own format, and to no
    operation, comparison or selection on any other way. High confidence; medium when the cast stands in a helper that
    several functions call.

What it cannot see
    Whether the callee that takes the narrow value widens again inside, which then is a second, effective widening.

Source
    Seen in PyTorch 2.6.0, ``aten/src/ATen/native/sparse/cuda/SparseCsrTensorMath.cu:554`` and ``UpSample.cuh:353``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import body_was_seen
from opscanner.patterns.slices import OPERATIONS, Step
from opscanner.patterns.subjects import CastSubject

_DECIDING = frozenset((*OPERATIONS, "comparison", "selection"))


def judge(cast: CastSubject) -> Verdict | None:
    """Widened, then narrowed to where it was."""
    if not cast.widens:
        return None
    graph = cast.graph

    def back(step: Step) -> bool:
        facts = graph.cast[step.node]
        return facts is not None and facts.to_format == cast.from_format

    index = cast.forward.first(graph, back)
    if index < 0:
        return None
    for step in cast.forward.steps[1:]:
        kind = graph.kind[step.node]
        if kind in _DECIDING or (kind == "call" and not body_was_seen(graph, step.node)):
            return None
    step = cast.forward.steps[index]
    return Verdict(
        Confidence.MEDIUM if step.unwound else Confidence.HIGH,
        cast.chain(index),
        f"{cast.from_format} is widened to {cast.to_format} and narrowed again at line {graph.line[step.node]} with "
        "nothing computed in between",
    )


RULE = CastRule("unused-widening", "widened and narrowed again", 20, judge)

EXAMPLES = (
    """
    __device__ c10::Half add(c10::Half a, c10::Half b) { return a + b; }
    __global__ void sum(const c10::Half* x, c10::Half* y) {
      y[0] = add(y[0], float(x[0]));  // expect: unused-widening
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void scale(const c10::Half* x, c10::Half* y) {
      float value = x[0];
      y[0] = value * 3.0f;
    }
    """,
)
