"""Means, variances and other moments are computed in a wider format than the data.

The sums and products of a mean, a variance or a standard deviation: two-pass, sum of squares, Welford's update and the
merging of partial results.

Why it matters
    A variance is a small difference of large numbers: E[x^2] - E[x]^2 cancels, and squares overflow float16 above 255.
    Welford's update adds differences that are small against the mean; in bfloat16 the mean stops to move after 256
    values.

How it decides
    The cast's value enters arithmetic or a sum in the wider format, in a function whose name or class names moments
    (Welford, RowwiseMoments, var, mean, std): high confidence when it enters a sum or a Welford update there, medium
    otherwise. Elsewhere: high when it enters a sum whose variable, or a value made of the sum, is named mean, var, ...

What it cannot see
    Statistics under other names. Statistics of integers: a cast from an integer is mostly that of a count. Where a mean
    is only subtracted, see normalization-scale.

Source
    Chan, Golub, LeVeque, Algorithms for computing the sample variance, 1983; PyTorch ``ATen/native/SharedReduceOps.h``
    (WelfordOps).
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.evidence import NAMED
from opscanner.patterns.subjects import CastSubject
from opscanner.patterns.words import words_of, words_of_function

FUNCTIONS = frozenset(
    ("welford", "moments", "moment", "mean", "var", "std", "variance", "stats", "statistics", "stddev", "meanvar")
)
MOMENTS = frozenset(
    ("mean", "var", "variance", "std", "stddev", "m2", "moment", "moments", "mu", "sigma2", "sumsq", "rstd", "invstd")
)


def judge(cast: CastSubject) -> Verdict | None:
    """Widened for a moment."""
    if not cast.widens or not cast.computes:
        return None
    named = sorted(words_of_function(cast.function) & FUNCTIONS)
    if named:
        summed = cast.accumulation >= 0 or "welford" in named
        confidence, index = (Confidence.HIGH if summed else Confidence.MEDIUM), cast.effect
        why = f"in a function named for {', '.join(named)}"
    elif cast.accumulation >= 0:
        index, name = _named_after_sum(cast)
        if index < 0:
            return None
        confidence, why = Confidence.HIGH, f"for a sum that becomes {name}"
    else:
        return None
    return Verdict(
        confidence,
        cast.chain(index),
        f"{cast.from_format} becomes {cast.to_format} {why}: {cast.what(cast.effect)}",
    )


def _named_after_sum(cast: CastSubject) -> tuple[int, str]:
    """Nearest variable behind the sum, two operations away at most, whose name is a moment's."""
    graph, steps = cast.graph, cast.forward.steps
    limit = steps[cast.accumulation].operations + 2
    for index, step in enumerate(steps):
        node = step.node
        named = graph.kind[node] in NAMED - {"call", "math_call"}
        if step.summed and named and step.operations <= limit and words_of(graph.operation[node]) & MOMENTS:
            return index, graph.operation[node]
    return -1, ""


RULE = CastRule("statistics", "mean, variance and other moments", 90, judge)

EXAMPLES = (
    """
    __global__ void kernel(const c10::Half* x, float* out, int n) {
      float sum = 0;
      for (int i = 0; i < n; ++i)
        sum += static_cast<float>(x[i]);  // expect: statistics
      float mean = sum / 100.0f;
      out[0] = mean;
    }
    """,
    """
    struct WelfordData { float mean; float m2; };
    struct WelfordOps {
      __device__ WelfordData reduce(WelfordData a, c10::Half x) const {
        float delta = x  // expect: statistics
                      - a.mean;
        return {a.mean + delta * 0.5f, a.m2 + delta * delta};
      }
    };
    __global__ void kernel(const c10::Half* x, WelfordData* out) { out[0] = WelfordOps{}.reduce(out[0], x[0]); }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void welford(const float* x, float* out, int n) {
      float mean = 0;
      for (int i = 0; i < n; ++i)
        mean += (x[i] - mean) / (i + 1);
      out[0] = mean;
    }
    """,
    """
    __global__ void kernel(const c10::Half* x, float* out, int n) {
      float sum = 0;
      for (int i = 0; i < n; ++i)
        sum += static_cast<float>(x[i]);
      out[0] = sum;
    }
    """,
)
