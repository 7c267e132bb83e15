"""The second result of inputs in another order, for operators whose result must not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opscanner.dynamic.running.kinds import base_name

Call = tuple[list[Any], dict[str, Any]]
#: From the arguments and a maker of permutations to other arguments and what puts the result in order again.
Rule = Callable[
    [list[Any], dict[str, Any], Callable[[int, Any], torch.Tensor]], "tuple[Call, Callable[[Any], Any]] | None"
]


class Permuted:
    """Sums over the same terms in another order.

    Reductions over their dimensions, softmax along its own, matrix products over the inner dimension, convolutions over
    the input's channels, normalizations over what they take the mean of, attention over keys and values. Other
    operators have no second result in this mode.
    """

    is_reference = False

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._orders: dict[tuple[int, Any], torch.Tensor] = {}

    def arrange(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
        rule = _RULES.get(base_name(operator))
        if rule is None:
            return None
        found = rule(list(args), dict(kwargs), self._order)
        if found is None:
            return None
        (others, words), back = found
        return lambda: back(operator(*others, **words))

    def _order(self, size: int, device: Any) -> torch.Tensor:
        order = self._orders.get((size, device))
        if order is None:
            generator = torch.Generator().manual_seed(self._seed + size)
            order = self._orders[size, device] = torch.randperm(size, generator=generator).to(device)
        return order


def _same(result: Any) -> Any:
    return result


def _reduction(args: list[Any], kwargs: dict[str, Any], order: Any) -> Any:
    """``sum(x, dims)``: every dimension that is summed over gets another order."""
    x = args[0]
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    if dims is None or dims == [] or not isinstance(dims, (int, list, tuple)) or isinstance(dims, bool):
        dims = list(range(x.dim()))
    for dim in [dims] if isinstance(dims, int) else dims:
        x = x.index_select(dim, order(x.shape[dim], x.device)) if x.dim() else x
    return ([x, *args[1:]], kwargs), _same


def _softmax(args: list[Any], kwargs: dict[str, Any], order: Any) -> Any:
    x, dim = args[0], args[1]
    if not x.dim():
        return None
    places = order(x.shape[dim], x.device)
    back = torch.argsort(places)
    return ([x.index_select(dim, places), *args[1:]], kwargs), lambda result: result.index_select(dim, back)


def _product(left: int, right: int) -> Rule:
    """Matrix products of two arguments: columns of the left and rows of the right one in another order."""

    def rule(args: list[Any], kwargs: dict[str, Any], order: Any) -> Any:
        a, b = args[left], args[right]
        places = order(a.shape[-1], a.device)
        args[left], args[right] = a.index_select(-1, places), b.index_select(-2 if b.dim() > 1 else -1, places)
        return (args, kwargs), _same

    return rule


def _convolution(args: list[Any], kwargs: dict[str, Any], order: Any) -> Any:
    """``convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)``."""
    transposed, groups = args[6], args[8]
    if transposed or groups != 1:
        return None
    places = order(args[0].shape[1], args[0].device)
    args[0], args[1] = args[0].index_select(1, places), args[1].index_select(1, places)
    return (args, kwargs), _same


def _layer_norm(args: list[Any], kwargs: dict[str, Any], order: Any) -> Any:
    """``native_layer_norm(input, normalized_shape, weight, bias, eps)``."""
    dims = range(-len(args[1]), 0)
    places = {dim: order(args[0].shape[dim], args[0].device) for dim in dims}
    for place in (0, 2, 3):
        for dim in dims:
            args[place] = None if args[place] is None else args[place].index_select(dim, places[dim])

    def back(result: Any) -> Any:
        ordered = result[0]
        for dim in dims:
            ordered = ordered.index_select(dim, torch.argsort(places[dim]))
        return (ordered, *result[1:])

    return (args, kwargs), back


def _attention(args: list[Any], kwargs: dict[str, Any], order: Any) -> Any:
    """``_scaled_dot_product_...(query, key, value, ...)`` without a mask: keys and values in another order."""
    causal = next((one for one in args[3:] if isinstance(one, bool) and one), False)
    masked = any(isinstance(one, torch.Tensor) for one in args[3:]) or kwargs.get("attn_mask") is not None
    if causal or masked:
        return None
    places = order(args[1].shape[-2], args[1].device)
    args[1], args[2] = args[1].index_select(-2, places), args[2].index_select(-2, places)
    return (args, kwargs), lambda result: result[:1] if isinstance(result, tuple) else result


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("sum", "mean", "logsumexp", "prod", "var", "std", "norm", "linalg_vector_norm"), _reduction),
    **dict.fromkeys(("_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("mm", "bmm", "dot", "mv"), _product(0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _product(1, 2)),
    "convolution": _convolution,
    "native_layer_norm": _layer_norm,
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
        ),
        _attention,
    ),
}  # fmt: skip
