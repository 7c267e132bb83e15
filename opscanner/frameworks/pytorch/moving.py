"""Operators that make, move or look at tensors."""

from __future__ import annotations

#: A composite operator that calls these does not compute by them: the call says nothing about its precision.
MOVING = frozenset((
    "_conj", "_indices", "_neg_view", "_values", "alias", "arange", "as_strided", "broadcast_tensors",
    "broadcast_to", "can_cast", "cat", "ccol_indices", "chunk", "clone", "col_indices", "conj", "contiguous", "copy",
    "copy_", "cpu", "crow_indices", "cuda", "data", "detach", "detach_", "dim", "empty", "empty_like",
    "empty_strided", "empty_symint", "expand", "expand_as", "fill", "fill_", "flatten", "full", "full_like", "imag",
    "index_select", "indices", "is_complex", "is_contiguous", "is_floating_point", "is_inference", "is_nonzero",
    "is_same_size", "is_sparse", "item", "lift", "masked_fill", "masked_fill_", "moveaxis", "movedim", "narrow",
    "new_empty", "new_full", "new_ones", "new_zeros", "numel", "ones", "ones_like", "permute", "promote_types",
    "real", "record_stream", "requires_grad_", "reshape", "reshape_as", "resize", "resize_", "resize_as_",
    "resolve_conj", "resolve_neg", "result_type", "row_indices", "scalar_tensor", "select", "set_", "size", "sizes",
    "slice", "split", "squeeze", "squeeze_", "stack", "storage_offset", "stride", "strides", "swapaxes", "swapdims",
    "t", "tensor", "to", "to_dense", "transpose", "transpose_", "type", "type_as", "unbind", "unflatten",
    "unsqueeze", "unsqueeze_", "values", "view", "view_as", "view_as_complex", "view_as_real", "where", "zero_",
    "zeros", "zeros_like"
))  # fmt: skip
