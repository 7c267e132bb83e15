"""How C++ and the frameworks spell floating-point types: one row a spelling.

Keys are canonical qualified names without template arguments. Sources: PyTorch ``c10/util``, CUDA's ``cuda_fp16.h``,
``cuda_bf16.h`` and ``cuda_fp8.h``, Eigen's ``arch/Default/Half.h`` and ``BFloat16.h``, ml_dtypes' ``float8.h``,
CUTLASS' ``half.h`` and ``float8.h``.
"""

from __future__ import annotations

#: Class types that hold one number.
SCALARS: dict[str, str] = {
    "c10::Half": "float16",
    "__half": "float16",
    "__half_raw": "float16",
    "half": "float16",
    "Eigen::half": "float16",
    "Eigen::half_impl::half_base": "float16",
    "Eigen::half_impl::__half_raw": "float16",
    "cutlass::half_t": "float16",
    "onnxruntime::MLFloat16": "float16",
    "_Float16": "float16",
    "__fp16": "float16",
    "c10::BFloat16": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "__nv_bfloat16_raw": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__bf16": "bfloat16",
    "Eigen::bfloat16": "bfloat16",
    "Eigen::bfloat16_impl::bfloat16_base": "bfloat16",
    "tensorflow::bfloat16": "bfloat16",
    "cutlass::bfloat16_t": "bfloat16",
    "onnxruntime::BFloat16": "bfloat16",
    "cutlass::tfloat32_t": "tfloat32",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2": "float4_e2m1fn",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "__nv_fp8_e8m0": "float8_e8m0fnu",
    "cutlass::float_e4m3_t": "float8_e4m3fn",
    "cutlass::float_e5m2_t": "float8_e5m2",
    "ml_dtypes::float8_internal::float8_e4m3fn": "float8_e4m3fn",
    "ml_dtypes::float8_internal::float8_e4m3fnuz": "float8_e4m3fnuz",
    "ml_dtypes::float8_internal::float8_e5m2": "float8_e5m2",
    "ml_dtypes::float8_internal::float8_e5m2fnuz": "float8_e5m2fnuz",
    "tsl::float8_internal::float8_e4m3fn": "float8_e4m3fn",
    "tsl::float8_internal::float8_e5m2": "float8_e5m2",
}

#: Class templates whose first argument is the format of the parts of a complex number.
COMPLEX_TEMPLATES = frozenset({"c10::complex", "std::complex", "thrust::complex", "cuda::std::complex"})

#: Complex format by the format of its parts.
COMPLEX: dict[str, str] = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}

#: Class types that hold several numbers: (format, lanes; 0 where the platform decides).
VECTORS: dict[str, tuple[str, int]] = {
    **{f"float{n}": ("float32", n) for n in (1, 2, 3, 4)},
    **{f"double{n}": ("float64", n) for n in (1, 2, 3, 4)},
    "__half2": ("float16", 2),
    "half2": ("float16", 2),
    "__half2_raw": ("float16", 2),
    "__nv_bfloat162": ("bfloat16", 2),
    "nv_bfloat162": ("bfloat16", 2),
    "__nv_bfloat162_raw": ("bfloat16", 2),
    "__nv_fp8x2_e4m3": ("float8_e4m3fn", 2),
    "__nv_fp8x2_e5m2": ("float8_e5m2", 2),
    "__nv_fp8x4_e4m3": ("float8_e4m3fn", 4),
    "__nv_fp8x4_e5m2": ("float8_e5m2", 4),
}

#: Class templates that hold several numbers of the format of their first argument.
VECTOR_TEMPLATES = frozenset(
    {
        "at::vec::Vectorized",
        "at::vec::DEFAULT::Vectorized",
        "at::vec::CPU_CAPABILITY::Vectorized",
        "at::native::memory::aligned_vector",
        "cutlass::Array",
        "cutlass::AlignedArray",
    }
)

#: Headers that implement the float types themselves: what happens there is the type's own business.
OWN_HEADERS = (
    r"(^|/)(c10|torch/headeronly)/util/(Half|BFloat16|Float8|Float4|complex|floating_point_utils)[\w.-]*\.h$"
    r"|(^|/)cuda_(fp16|bf16|fp8|fp6|fp4)\.hpp?$|(^|/)Eigen/src/Core/arch/"
)
