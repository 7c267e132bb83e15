"""What PyTorch says where it has no such kernel; the examples are of 2.13.0 on a CPU."""

from __future__ import annotations

from opscanner.frameworks.refusals import Refusal

REFUSALS = (
    Refusal(
        r"not implemented for '\w+'",
        "kernel",
        "NotImplementedError: \"acos_vml_cpu\" not implemented for 'Float8_e4m3fn'",
    ),
    Refusal(
        r"Could not run '[\w:.]+' with arguments from the '\w+' backend",
        "kernel",
        "NotImplementedError: Could not run 'quantized::add_relu' with arguments from the 'CPU' backend. This could be "
        "because the operator doesn't exist for this backend",
    ),
    Refusal(
        r"Expected mat\d to be Float8 matrix got \w+",
        "format",
        "RuntimeError: Expected mat1 to be Float8 matrix got Half",
    ),
    Refusal(r"[Uu]nsupported (dtype|ScalarType) \w+", "format", "RuntimeError: Unsupported dtype Half"),
    Refusal(
        r"to have one of the following scalar types",
        "format",
        "RuntimeError: Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
        "BFloat16, Float, Double; but got CPUFloat8_e4m3fnType instead (while checking arguments for embedding_bag)",
    ),
    Refusal(
        r"doesn't handle types other than float and double",
        "format",
        "RuntimeError: This function doesn't handle types other than float and double",
    ),
    Refusal(
        r"Expected both inputs to be Half, Float or Double tensors but got",
        "format",
        "RuntimeError: Expected both inputs to be Half, Float or Double tensors but got BFloat16 and BFloat16",
    ),
    Refusal(
        r"Low precision dtypes not supported",
        "format",
        "RuntimeError: linalg.inv: Low precision dtypes not supported. Got Half",
    ),
    Refusal(
        r"Unknown Complex ScalarType for",
        "format",
        "RuntimeError: Unknown Complex ScalarType for Float8_e5m2",
    ),
    Refusal(
        r"input tensor must be either float or double dtype",
        "format",
        "RuntimeError: quantile() input tensor must be either float or double dtype",
    ),
    Refusal(
        r"Expected self dtype to be .* but got c10::",
        "format",
        "RuntimeError: int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got c10::Half",
    ),
    Refusal(
        r"Promotion for Float8 Types is not supported",
        "format",
        "RuntimeError: Promotion for Float8 Types is not supported, attempted to promote Float8_e5m2 and Float",
    ),
    Refusal(
        r"derivative for [\w:]+ is not implemented",
        "gradient",
        "RuntimeError: derivative for aten::floor_divide is not implemented",
    ),
    Refusal(
        r"does not require grad and does not have a grad_fn",
        "gradient",
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    Refusal(
        r"AttributeError: module 'torch[\w.]*' has no attribute",
        "symbol",
        "AttributeError: module 'torch.special' has no attribute 'nosuch'",
    ),
    Refusal(
        r"AttributeError: '_OpNamespace' '\w+' object has no attribute",
        "symbol",
        "AttributeError: '_OpNamespace' 'aten' object has no attribute 'nosuch'",
    ),
    Refusal(
        r"AttributeError: The underlying op of '[\w.]+' has no overload name",
        "symbol",
        "AttributeError: The underlying op of 'aten.add' has no overload name 'nosuch'",
    ),
    Refusal(
        r"AttributeError: 'Tensor' object has no attribute",
        "symbol",
        "AttributeError: 'Tensor' object has no attribute 'nosuch'",
    ),
    Refusal(
        r"TypeError: .*got an unexpected keyword argument",
        "symbol",
        "TypeError: cumsum() got an unexpected keyword argument 'nosuch'",
    ),
    Refusal(r"Torch not compiled with CUDA enabled", "device", "AssertionError: Torch not compiled with CUDA enabled"),
    Refusal(
        r"^LayoutError: ",
        "layout",
        "LayoutError: no input can be transposed: shapes [(4,)]\n  try: contiguous",
    ),
)

#: What PyTorch says where memory did not suffice, on CPU and GPU.
OUT_OF_MEMORY = (
    r"DefaultCPUAllocator: can't allocate memory|^OutOfMemoryError|CUDA out of memory|^MemoryError|bad_alloc"
)
