"""A loss, or a gradient that is scaled or unscaled, is computed in a wider format.

Loss functions (cross entropy, smooth L1, CTC ...) and the scaling of gradients in automatic mixed precision.

Why it matters
    A mean over a batch divides small by large; log of a probability that was rounded to 0 is infinite. Loss scaling
    exists because gradients below 6e-8 vanish in float16: unscaling in float16 would lose what scaling has saved.

How it decides
    The cast's value enters arithmetic in the wider format. High confidence when a value it is combined with is named as
    a gradient scale (``inv_scale``, ``grad_scale``, ``found_inf``). Medium when the function's, class's or file's name
    names a loss, or its operators are of the group loss.

What it cannot see
    Losses that are composed of other operators.

Source
    Micikevicius et al., Mixed precision training, ICLR 2018, 3.2; PyTorch ``ATen/native/cuda/AmpKernels.cu``.
"""

from __future__ import annotations

from opscanner.patterns.base import CastRule, Confidence, Verdict
from opscanner.patterns.subjects import CastSubject

SCALES = frozenset(
    ("inv_scale", "inv_scale_ptr", "invscale", "grad_scale", "grad_scale_ptr", "found_inf", "loss_scale")
)
#: What quantization names an inverse scale has nothing to do with gradients.
_QUANTIZING = frozenset(("quant", "quantize", "quantized", "quantizer", "quantization"))
LOSSES = frozenset(
    (
        "loss", "losses", "nll", "bce", "criterion", "crossentropy", "xent", "ctc", "huber", "smoothl1", "mse",
        "hinge", "unscale", "amp",
    )
)  # fmt: skip


def judge(cast: CastSubject) -> Verdict | None:
    """Widened for a loss, or for a gradient's scale."""
    if not cast.widens or not cast.computes:
        return None
    scales = sorted((cast.own_words | cast.partner_words) & SCALES)
    named = sorted(cast.function_words & LOSSES)
    if cast.function_words & _QUANTIZING:
        return None
    if scales:
        confidence, why = Confidence.HIGH, f"with the gradient scale {scales[0]}"
    elif named:
        confidence, why = Confidence.MEDIUM, f"in a function named for {', '.join(named)}"
    elif cast.groups == {"loss"}:
        confidence, why = Confidence.MEDIUM, "in a function that serves losses"
    else:
        return None
    return Verdict(
        confidence,
        cast.chain(cast.effect),
        f"{cast.from_format} is widened to {cast.to_format} {why}: {cast.what(cast.effect)}",
    )


RULE = CastRule("loss-scaling", "losses, and scaling of gradients", 70, judge)

EXAMPLES = (
    """
    __global__ void unscale(c10::Half* grads, const float* inv_scale) {
      float value = static_cast<float>(grads[0]);  // expect: loss-scaling
      grads[0] = value * inv_scale[0];
    }
    """,
    """
    __global__ void nll_loss_forward(const c10::Half* input, c10::Half* output, int n) {
      float total = 0;
      for (int i = 0; i < n; ++i)
        total -= static_cast<float>(input[i]);  // expect: loss-scaling
      output[0] = total / n;
    }
    """,
)
COUNTEREXAMPLES = (
    """
    __global__ void halve(c10::Half* x, const float* factor) {
      x[0] = static_cast<float>(x[0]) * factor[0];
    }
    """,
)
