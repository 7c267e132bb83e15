"""Which operators round: what a call of each ATen operator can do to precision, from its schema and one table."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import torch

from opscanner.dynamic.running.calls import tensors_of


class Kind(Enum):
    """What an operator does to floating-point values."""

    #: Computes and rounds: worth a second run.
    ROUNDS = "rounds"
    #: Gives values that it was given, or signs, comparisons and sizes of them: nothing is rounded.
    EXACT = "moves, selects or compares"
    #: Changes the format.
    CAST = "casts"
    #: Makes values of nothing, or of random numbers.
    MAKES = "makes values"


_EXACT = frozenset({
    "_local_scalar_dense", "_reshape_alias", "abs", "abs_", "absolute", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "alias", "all", "amax", "amin", "aminmax", "any", "argmax",
    "argmin", "argsort", "as_strided", "bitwise_and", "bitwise_not", "bitwise_or", "bucketize", "cat", "ceil",
    "channel_shuffle", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clone", "concat",
    "constant_pad_nd", "contiguous", "copy", "copy_", "copysign", "cummax", "cummin", "detach", "diag_embed",
    "diagonal_copy", "embedding", "embedding_renorm_", "eq", "equal", "expand_copy", "fill", "fill_", "flip",
    "floor", "fmax", "fmin", "frac", "gather", "ge", "glu_select", "gt", "hardtanh", "hardtanh_",
    "hardtanh_backward", "heaviside", "histc", "index", "index_copy", "index_copy_", "index_fill", "index_fill_",
    "index_select", "isfinite", "isin", "isinf", "isnan", "kthvalue", "le", "lift", "lift_fresh",
    "lift_fresh_copy", "linalg_diagonal", "logical_and", "logical_not", "logical_or", "logical_xor", "lt",
    "masked_fill", "masked_fill_", "masked_scatter", "masked_select", "max", "max_pool1d", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool2d", "maximum", "median",
    "min", "minimum", "mode", "msort", "nan_to_num", "nan_to_num_", "ne", "neg", "neg_", "nextafter", "nonzero",
    "numpy_T", "one_hot", "pad", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "positive", "real",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "relu", "relu_", "repeat", "repeat_interleave",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "reshape", "resize_", "roll", "rot90", "round",
    "scatter", "scatter_", "select_backward_copy", "select_scatter", "set_", "sgn", "sign", "signbit",
    "slice_scatter", "sort", "split_copy", "split_with_sizes_copy", "squeeze_copy", "stack", "t_copy", "take",
    "take_along_dim", "threshold", "threshold_", "threshold_backward", "topk", "tril", "tril_", "triu", "triu_",
    "trunc", "unbind_copy", "unfold_copy", "unique_consecutive", "unsqueeze_copy", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "view_as_complex", "view_as_real", "where", "zero_", "detach_",
    "requires_grad_", "is_same_size", "sym_size", "_unsafe_view", "select_backward", "slice_backward",
    "diagonal_backward", "unfold", "_unique2", "_assert_async", "record_stream",
})  # fmt: skip

_MAKES = frozenset({
    "arange", "bernoulli", "bernoulli_", "cauchy_", "empty", "empty_like", "empty_permuted", "empty_strided",
    "exponential_", "eye", "full", "full_like", "geometric_", "hann_window", "hamming_window", "linspace",
    "log_normal_", "logspace", "multinomial", "new_empty", "new_empty_strided", "new_full", "new_ones",
    "new_zeros", "normal", "normal_", "ones", "ones_like", "poisson", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "randperm", "random_", "scalar_tensor", "tril_indices", "triu_indices",
    "uniform_", "zeros", "zeros_like", "_efficientzerotensor",
})  # fmt: skip

_CASTS = frozenset({"_to_copy", "to", "_autocast_to_reduced_precision", "_autocast_to_full_precision", "type_as"})

#: Arguments that a kernel writes although its schema does not say so (native_functions.yaml, torch 2.13).
_WRITTEN_UNSAID = {
    "native_batch_norm": (3, 4),
    "cudnn_batch_norm": (3, 4),
    "miopen_batch_norm": (3, 4),
    "batch_norm_gather_stats": (3, 4),
    "batch_norm_gather_stats_with_counts": (3, 4),
}


@functools.cache
def kind_of(operator: torch._ops.OpOverload) -> Kind:
    """What a call of an operator does to precision; those of others than ATen and torch round until told otherwise."""
    name = base_name(operator)
    if name in _CASTS:
        return Kind.CAST
    if name in _MAKES:
        return Kind.MAKES
    if (name in _EXACT and "reduce" not in operator._overloadname) or _is_view(operator):
        return Kind.EXACT
    return Kind.ROUNDS


def base_name(operator: torch._ops.OpOverload) -> str:
    """``addmm`` of ``aten::addmm.out``."""
    return str(operator._schema.name).rpartition("::")[2]


@functools.cache
def written_arguments(operator: torch._ops.OpOverload) -> tuple[int, ...]:
    """Positions in the schema of the arguments that a call writes to."""
    said = tuple(
        place
        for place, argument in enumerate(operator._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    return said + tuple(place for place in _WRITTEN_UNSAID.get(base_name(operator), ()) if place not in said)


@functools.cache
def written_names(operator: torch._ops.OpOverload) -> frozenset[str]:
    """Names of the arguments that a call writes to, for those that come as keywords."""
    arguments = operator._schema.arguments
    return frozenset(arguments[place].name for place in written_arguments(operator))


def written_tensors(
    operator: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[torch.Tensor]:
    """The tensors that a call writes to, those in lists too."""
    yield from tensors_of([args[place] for place in written_arguments(operator) if place < len(args)])
    yield from tensors_of([value for name, value in kwargs.items() if name in written_names(operator)])


@functools.cache
def is_random(operator: torch._ops.OpOverload) -> bool:
    """True for operators that may draw from the random state: dropout inside attention, random slopes."""
    return torch.Tag.nondeterministic_seeded in operator.tags


@functools.cache
def has_workspace(operator: torch._ops.OpOverload) -> bool:
    """True for operators that read bytes which another left, laid out for its format (oneDNN's and cuDNN's gradients).

    In another format they read and write past its end.
    """
    return any(one.name.lower().startswith(("workspace", "reserve")) for one in operator._schema.arguments)


@functools.cache
def writes_lists(operator: torch._ops.OpOverload) -> bool:
    """True for the updates of whole lists of tensors in place, as optimizers make them (``_foreach_add_``)."""
    arguments = operator._schema.arguments
    return any(
        "[]" in str(arguments[place].type) or "List" in str(arguments[place].type)
        for place in written_arguments(operator)
    )


def _is_view(operator: torch._ops.OpOverload) -> bool:
    returns = operator._schema.returns
    return bool(returns) and all(one.alias_info is not None and not one.alias_info.is_write for one in returns)
