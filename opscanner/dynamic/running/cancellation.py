"""Sums that cancel: the magnitude of what was added, where the sum itself is near zero.

The gradient of a bias before a batch normalization is a sum that is zero but for rounding. Its relative error says
nothing of the operator: the error of any sum in floating point is bounded by the sum of magnitudes (Higham, Accuracy
and Stability of Numerical Algorithms, 2nd edition, sections 3.1 and 4.2).
"""

from __future__ import annotations

from typing import Any

import torch

from opscanner.dynamic.running.calls import floats_of, is_float, replaced
from opscanner.dynamic.running.kinds import base_name
from opscanner.dynamic.running.second import as_they_are

#: Operators whose outputs are sums of products of their inputs: of magnitudes they give the sums of magnitudes.
_SUMS = frozenset({
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "conv1d", "conv2d", "conv3d", "convolution",
    "convolution_backward", "cudnn_convolution", "dot", "embedding_dense_backward", "index_add", "index_put",
    "index_put_", "linear", "linear_backward", "mean", "mkldnn_convolution", "mkldnn_linear", "mm", "mv",
    "scatter_add", "scatter_add_", "sum", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward",
})  # fmt: skip


#: Backward passes of normalizations -> positions of the reciprocal deviations and the weight among their arguments.
_NORMALIZATIONS = {
    "native_layer_norm_backward": (4, 5),
    "native_group_norm_backward": (3, 4),
    "native_batch_norm_backward": (6, 2),
    "_fused_rms_norm_backward": (3, 4),
}

#: Normalizations that give, after their result, the mean of what they are given.
_GIVE_MEANS = frozenset({
    "cudnn_batch_norm", "native_batch_norm", "native_group_norm", "native_layer_norm", "_native_batch_norm_legit",
})  # fmt: skip


def largest_terms(operator: Any, call: tuple[Any, Any], place: int) -> float | None:
    """The largest magnitude among the terms behind an operator's output; None where no bound is known.

    Parameters
    ----------
    place : int
        Which of the outputs that are of floating point.
    """
    name = base_name(operator)
    if name in _SUMS:
        return _sum_of_magnitudes(operator, call, place)
    if name in _NORMALIZATIONS:
        return _terms_of_normalization(*_NORMALIZATIONS[name], call[0], place)
    if name in _GIVE_MEANS and place == 1:
        return _largest(call[0][0])
    if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        return _largest(call[0][0])  # gradient times a probability, minus a mean of gradients
    return None


def _largest(tensor: torch.Tensor | None) -> float:
    return (
        1.0 if tensor is None or not tensor.numel() else float(torch.linalg.vector_norm(tensor.double(), float("inf")))
    )


def _terms_of_normalization(reciprocals: int, weight: int, args: Any, place: int) -> float:
    """``rstd * weight * (gradient - mean - xhat * mean)`` for the input; sums of gradients over rows for the rest."""
    gradient, values = args[0], args[1]
    if place == 0:
        return _largest(gradient) * _largest(args[weight]) * _largest(args[reciprocals])
    normalized = 2 * _largest(values) * _largest(args[reciprocals])
    rows = max(1, gradient.numel() // max(1, args[weight].numel() if args[weight] is not None else 1))
    return float(_largest(gradient) * rows * max(1.0, normalized))


def _sum_of_magnitudes(operator: Any, call: tuple[Any, Any], place: int) -> float | None:
    args, kwargs = as_they_are(operator, *call)
    args, kwargs = replaced((list(args), dict(kwargs)), lambda one: one.abs() if is_float(one) else one)
    outputs = floats_of((operator(*args, **kwargs),))
    return _largest(outputs[place]) if place < len(outputs) else None
