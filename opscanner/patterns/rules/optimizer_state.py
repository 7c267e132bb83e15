"""An optimizer's state, gradient or learning rate is widened for the update of a parameter.

Momentum, first and second moments, their bias corrections, weight decay and learning rate of SGD, Adam, Adagrad,
RMSprop and their kin.

Why it matters
    An update is small against what it is added to: with a learning rate of 1e-4 it is lost in bfloat16 whenever it is
    below 2**-9 of the parameter, and squares of gradients below 2.4e-4 underflow to zero in float16. Training in 16 bit
    keeps state and arithmetic in float32 for that reason.

How it decides
    The cast's value enters arithmetic in the wider format, in a function whose name, class or file names an optimizer,
    or which is attributed to an operator of that group. High confidence when the value or one it is combined with is
    named as an optimizer's quantity (``exp_avg``, ``momentum``, ``lr``, ``beta1`` ...), medium otherwise.

What it cannot see
    Optimizers that are composed of generic operators (foreach kernels), which look like any arithmetic.

Source
    Micikevicius et al., Mixed precision training, ICLR 2018, 3.1; PyTorch ``ATen/native/cuda/fused_adam_utils.cuh``;
    TensorFlow ``core/kernels/training_ops_gpu.cu.cc``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.subjects import CastSubject

OPTIMIZERS = frozenset(
    (
        "adam", "adamw", "sgd", "adagrad", "rmsprop", "adadelta", "ftrl", "adamax", "nadam", "lamb", "rprop", "asgd",
        "optimizer", "optimizers", "amsgrad", "powersign", "addsign", "training",
    )
)  # fmt: skip
QUANTITIES = frozenset(
    (
        "lr", "beta1", "beta2", "avg", "momentum", "decay", "exp_avg", "moment", "learning", "rate", "step", "grad",
        "param", "accum", "state", "velocity", "var", "ms", "mom", "rho", "epsilon", "eps", "bias",
    )
)  # fmt: skip


def judge(cast: CastSubject) -> Verdict | None:
    """Widened in an optimizer's update."""
    if not cast.widens or not cast.computes:
        return None
    named = sorted(cast.function_words & OPTIMIZERS)
    if not named and "optimizer" not in cast.groups:
        return None
    quantities = sorted(cast.words & QUANTITIES)
    where = f"in an update of {', '.join(named)}" if named else "in a function of an optimizer"
    what = f" ({', '.join(quantities[:3])})" if quantities else ""
    return Verdict(
        Confidence.HIGH if quantities else Confidence.MEDIUM,
        cast.chain(cast.effect),
        f"{cast.from_format} is widened to {cast.to_format} {where}{what}: {cast.what(cast.effect)}",
    )


RULE = CastRule("optimizer-state", "optimizer state and learning-rate arithmetic", 60, judge)

EXAMPLES = (
    """
    __device__ void sgd_math(c10::Half* param, const c10::Half* grad, float lr) {
      float value = static_cast<float>(param[0]);  // expect: optimizer-state
      float slope = static_cast<float>(grad[0]);  // expect: optimizer-state
      param[0] = value - lr * slope;
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __device__ void axpy(c10::Half* y, const c10::Half* x, float a) {
      y[0] = static_cast<float>(y[0]) + a * static_cast<float>(x[0]);
    }
    """,
)
