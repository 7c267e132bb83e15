"""Float64 arithmetic in device code whose data is not float64.

A float is promoted to double, by a literal without ``f`` (``x * 0.5``), by a function that takes or gives double, or by
a double parameter or variable; the result is narrowed again.

Why it matters
    GPUs for graphics and inference compute float64 at 1/32 or 1/64 of the rate of float32 (1/2 on data-centre parts).
    Where nobody wanted it, it is time lost for digits that are rounded away at the next store. Where it was wanted
    (sums of squares, Bessel functions), float32 alone would lose digits, and a rewrite must know.

How it decides
    A widening cast to float64 in a function that device code reaches and none of whose format bindings is float64,
    whose value is used in arithmetic, a function, a sum or a comparison in float64. High confidence when the cast is
    implicit; medium when the author wrote it, because then it may be meant. The message says what the other operand is.

What it cannot see
    Whether a compiler evaluates the expression in float32 after all (it may not, by the rules of C++, unless told so).
    Host code is left out: doubles there cost nothing that matters.

Source
    CUDA C++ Best Practices Guide 12.4, 11.1.2 and 15.4; clang's ``-Wdouble-promotion``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.subjects import CastSubject

_USES = frozenset(("arithmetic", "math_call", "reduction", "atomic", "comparison"))
_WRITTEN = frozenset(("static_cast", "c_style", "functional"))


def judge(cast: CastSubject) -> Verdict | None:
    """Promoted to double."""
    if not (cast.widens and cast.to_format == "float64" and cast.device):
        return None
    bindings = cast.instance.bindings
    if "float64" in bindings or "complex128" in bindings:
        return None
    graph = cast.graph
    index = cast.forward.first(
        graph, lambda step: graph.kind[step.node] in _USES and (graph.format[step.node] in ("float64", "complex128"))
    )
    if index < 0:
        return None
    node = cast.forward.steps[index].node
    others = [source for source, flow in graph.predecessors[node] if flow == "def_use" and source != cast.node]
    if graph.kind[node] == "math_call":
        why = f"by the function {graph.operation[node]}"
    elif any(graph.kind[other] == "literal" for other in others):
        why = "by a literal"
    else:
        why = f"for {graph.operation[node]}"
    written = cast.cast.form in _WRITTEN
    return Verdict(
        Confidence.MEDIUM if written or cast.forward.steps[index].unwound else Confidence.HIGH,
        cast.chain(index),
        f"{cast.from_format} is promoted to float64 {why} on the device (line {graph.line[node]})",
    )


RULE = CastRule("double-promotion", "float64 arithmetic in a float kernel", 10, judge)

EXAMPLES = (
    """
    __global__ void scale(const float* x, float* y) {
      y[0] = x[0] * 0.3;  // expect: double-promotion
    }
    """,
    """
    __device__ double pi();
    __global__ void turn(const float* x, float* y) {
      double factor = pi();
      y[0] = x[0] / factor;  // expect: double-promotion
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void scale(const float* x, float* y) {
      y[0] = x[0] * 0.3f;
    }
    """,
    """
    template <typename scalar_t>
    __global__ void scale(const scalar_t* x, float w, scalar_t* y) {
      y[0] = x[0] * w;
    }
    void launch(const double* x, double* y) { scale<double><<<1, 1>>>(x, 0.3f, y); }
    """,
    """
    float on_the_host(float x) { return x * 0.3; }
    """,
)
