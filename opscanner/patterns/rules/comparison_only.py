"""A value is widened and then only compared, chosen or rounded to an integer: the cast changes no result.

The cast's value is compared, selected (``max``, ``c ? x : y``), negated, or passed through functions that are exact
(``floor``, ``abs``); nothing that rounds is done with it. What comes back to the storage format is the value that was
there before.

Why it matters
    It does not: every value of the narrow format is one of the wide format, so comparisons agree and the way back is
    exact. Such casts are there because a function or an intrinsic exists only in the wider format. Studies of precision
    tuning leave them out, and counts of tuned places should too.

How it decides
    The whole forward slice holds at least one comparison, selection or exact function, and no arithmetic that rounds,
    no inexact function, no sum, no call whose body was not seen; asking isnan or isfinite, and a cast to bool, count as
    comparisons. High confidence when the walk ended by itself, low when a bound stopped it. A comparison whose other
    operand is not exact in the narrow format is still this pattern.

    The cast back counts when nothing but choices lie between it and the widening.

What it cannot see
    Comparisons with a value that only exists in the wider format (``x > 0.1f``): the branch taken can differ from one
    in the storage format for values next to the bound.

Source
    IEEE 754-2019, 5.3.1, 5.11 and 5.6.1.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.operations import EXACT_FUNCTIONS, accumulates, body_was_seen, changes_sign, elementary
from opscanner.patterns.slices import Step
from opscanner.patterns.subjects import CastSubject
from opscanner.patterns.words import last_parts, words_of_function

_DECIDING = frozenset(("comparison", "selection"))
#: Functions that ask what a number is; they give a bool, so that nothing flows on in the graph.
_ASKING = frozenset(("isnan", "isinf", "isfinite", "signbit", "isnormal"))


def judge(cast: CastSubject) -> Verdict | None:
    """Widened, then compared and nothing else; or back from there."""
    if cast.narrows:
        return _way_back(cast)
    if not cast.widens:
        return None
    graph = cast.graph
    decisive = 0
    for index, step in enumerate(cast.forward.steps[1:], start=1):
        node, kind = step.node, graph.kind[step.node]
        if kind in _DECIDING or elementary(graph, node) in EXACT_FUNCTIONS:
            decisive = decisive or index
        elif kind == "math_call" or kind == "arithmetic":
            if not changes_sign(graph, node):
                return None
        elif kind in ("reduction", "atomic"):
            if accumulates(graph, node):
                return None
            decisive = decisive or index
        elif kind == "call" and not body_was_seen(graph, node):
            return None
        elif kind == "parameter" and not words_of_function(graph.instance[node].function).isdisjoint(_ASKING):
            decisive = decisive or index
    if not decisive:
        return None
    node = cast.forward.steps[decisive].node
    what = graph.operation[node]
    if graph.kind[node] == "parameter":
        what = last_parts(graph.instance[node].function)[-1]
    return Verdict(
        Confidence.HIGH if cast.forward.whole else Confidence.LOW,
        cast.chain(decisive),
        f"{cast.from_format} is widened to {cast.to_format} and only compared or chosen ({what}): no result changes",
    )


def _way_back(cast: CastSubject) -> Verdict | None:
    """Narrowed to the format that the value was widened from, with nothing but choices in between."""
    graph = cast.graph

    def widened(step: Step) -> bool:
        facts = graph.cast[step.node]
        return (
            not step.operations
            and facts is not None
            and facts.direction == "widen"
            and facts.from_format == cast.to_format
        )

    index = cast.backward.first(graph, widened)
    if index < 0 or any(step.operations for step in cast.backward.steps[: index + 1]) or cast.computed_before >= 0:
        return None
    path = cast.backward.path(index)
    if not any(graph.kind[node] in _DECIDING for node in path):
        return None
    return Verdict(
        Confidence.HIGH if cast.backward.whole else Confidence.LOW,
        tuple(reversed(path)),
        f"back to {cast.to_format} with nothing done in {cast.from_format} but choosing",
    )


RULE = CastRule("comparison-only", "cast without numerical effect", 45, judge)

EXAMPLES = (
    """
    __global__ void relu(const c10::Half* x, c10::Half* y) {
      float value = x[0];  // expect: comparison-only
      y[0] = value > 0.0f ? value : 0.0f;  // expect: comparison-only
    }
    """,
    """
    __global__ void clamp(const c10::Half* x, c10::Half* y, bool low) {
      float value = x[0];  // expect: comparison-only
      float other = x[1];  // expect: comparison-only
      y[0] = static_cast<c10::Half>(low ? value : other);  // expect: comparison-only
    }
    """,
    """
    __global__ void largest(const c10::BFloat16* x, c10::BFloat16* y) {
      y[0] = fmaxf(x[0],  // expect: comparison-only
                   x[1]);  // expect: comparison-only
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void leaky(const c10::Half* x, c10::Half* y, float slope) {
      float value = x[0];
      y[0] = value > 0.0f ? value : value * slope;
    }
    """,
)
