"""A value changes its format and nothing is computed with it on either side: a conversion of data.

Copies between tensors of different formats, ``to``, loads and stores through ``fetch_and_cast`` and ``cast_and_store``.

Why it matters
    A widening conversion loses nothing, a narrowing one rounds once. It is what the user asked for, or a library's way
    to bring operands to one format; no computation was tuned here.

How it decides
    The function that holds the cast does nothing else: it computes, compares and chooses nothing, and the value is
    handed in or loaded, and handed out or stored. In a function that computes, a value that is stored can be read again
    by way of shared memory, which the graph does not follow. High confidence when the value goes from a load to a store
    and no operation is seen either way, medium otherwise: what callers do with the value is seen at their own places.

What it cannot see
    What kernels do with the value after it was stored.

Source
    PyTorch ``c10/core/DynamicCast.h`` and ``c10/util/TypeCast.h``; IEEE 754-2019, 5.4.2.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import body_was_seen, only_converts
from opscanner.patterns.slices import OPERATIONS, Slice
from opscanner.patterns.subjects import CastSubject

_DECIDING = frozenset((*OPERATIONS, "comparison", "selection"))


def judge(cast: CastSubject) -> Verdict | None:
    """Loaded, cast, stored."""
    if not (cast.widens or cast.narrows):
        return None
    graph = cast.graph
    alone = only_converts(graph, cast.node)
    if not alone and (_something_is_done(cast, cast.forward) or _something_is_done(cast, cast.backward)):
        return None
    ends = cast.forward.first(
        graph, lambda step: graph.kind[step.node] in ("store", "return") and graph.format[step.node] != ""
    )
    if not alone and (graph.instance[cast.node].id in graph.computing or ends < 0 or len(cast.backward.steps) == 1):
        return None
    loaded = cast.backward.first(graph, lambda step: graph.kind[step.node] == "load")
    stored = cast.forward.first(graph, lambda step: graph.kind[step.node] == "store")
    sure = loaded >= 0 and stored >= 0 and not alone
    return Verdict(
        Confidence.HIGH if sure else Confidence.MEDIUM,
        cast.chain(stored if sure else min(1, len(cast.forward.steps) - 1)),
        f"{cast.from_format} becomes {cast.to_format} and nothing is computed with it"
        + (" in this function" if alone else ""),
    )


def _something_is_done(cast: CastSubject, slice_: Slice) -> bool:
    graph = cast.graph
    return any(
        graph.kind[step.node] in _DECIDING
        or graph.cast[step.node] is not None
        or (graph.kind[step.node] == "call" and not body_was_seen(graph, step.node))
        for step in slice_.steps[1:]
    )


RULE = CastRule("format-conversion", "conversion of data, nothing computed", 25, judge, helpers=True)

EXAMPLES = (
    """
    __global__ void copy(const float* x, c10::Half* y) {
      y[threadIdx.x] = static_cast<c10::Half>(x[threadIdx.x]);  // expect: format-conversion
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void copy(const float* x, c10::Half* y) {
      y[threadIdx.x] = static_cast<c10::Half>(x[threadIdx.x] * 2.0f);
    }
    """,
)
