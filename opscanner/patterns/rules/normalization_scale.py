"""Data is widened to be normalized: shifted by a mean, scaled by an inverse deviation, a weight or a norm.

The element-wise half of batch, layer, group and RMS normalization, of weight normalization and renormalization, forward
and backward.

Why it matters
    (x - mean) * rstd cancels where x is near the mean, and rstd can be large: rounded to 16 bit in between, the digits
    that are left are those of the rounding. With eps under the root, 1/sqrt(var + eps) leaves float16's range for
    variances below 2.4e-10.

How it decides
    The cast's value enters arithmetic in the wider format in a function, class or file whose name says that it
    normalizes. High confidence when it is, or is combined with, a value named ``rstd``, ``invstd``, ``mean``, ``gamma``
    ..., or the result of ``rsqrt``; medium otherwise. Elsewhere: high when it is combined with a value named ``rstd``
    or ``invstd``.

What it cannot see
    Normalization under other names. Sums for the statistics themselves are statistics.

Source
    Ba et al., Layer normalization, 2016; PyTorch ``ATen/native/cuda/layer_norm_kernel.cu`` and ``Normalization.cuh``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.subjects import CastSubject

FUNCTIONS = frozenset(
    (
        "norm", "layernorm", "batchnorm", "groupnorm", "rmsnorm", "normalization", "normalize", "renorm",
        "instancenorm",
        "lrn", "bn",
    )
)  # fmt: skip
DEVIATIONS = frozenset(("rstd", "invstd", "inv_std", "invvar", "inv_var", "rsqrt", "inv_stddev"))
QUANTITIES = DEVIATIONS | {"mean", "var", "gamma", "weight", "bias", "scale", "shift", "norm", "norms", "std", "dgamma"}


def judge(cast: CastSubject) -> Verdict | None:
    """Widened to be normalized."""
    if not cast.widens or not cast.computes:
        return None
    named = sorted(cast.function_words & FUNCTIONS)
    deviations, words = sorted(cast.words & DEVIATIONS), sorted(cast.words & QUANTITIES)
    if deviations or (named and words):
        confidence, why = Confidence.HIGH, f"with {', '.join((deviations or words)[:3])}"
    elif named:
        confidence, why = Confidence.MEDIUM, f"in a function named for {', '.join(named)}"
    else:
        return None
    return Verdict(
        confidence,
        cast.chain(cast.effect),
        f"{cast.from_format} is widened to {cast.to_format} to be normalized {why}: {cast.what(cast.effect)}",
    )


RULE = CastRule("normalization-scale", "normalization and its scale", 100, judge)

EXAMPLES = (
    """
    __global__ void apply(const c10::Half* x, const float* mean, const float* rstd, c10::Half* y) {
      float value = static_cast<float>(x[0]);  // expect: normalization-scale
      y[0] = (value - mean[0]) * rstd[0];
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void apply(const c10::Half* x, const float* offset, c10::Half* y) {
      float value = static_cast<float>(x[0]);
      y[0] = (value - offset[0]) * 2.0f;
    }
    """,
)
