"""Functions whose meaning their name tells: cast intrinsics, elementary functions, atomics. One row a function.

Sources: CUDA Math API 12.4 (``cuda_fp16.h``, ``cuda_bf16.h``), C++17 ``<cmath>``, PyTorch ``c10/cuda/CUDAMathCompat.h``
and ``ATen/cuda/Atomic.cuh``, TensorFlow ``util/gpu_device_functions.h``.
"""

from __future__ import annotations

import re

_HALF, _BFLOAT = "float16", "bfloat16"
_ROUNDINGS = ("", "_rn", "_rz", "_rd", "_ru")


def _intrinsics() -> dict[str, tuple[str, str]]:
    table: dict[str, tuple[str, str]] = {
        "__half2float": (_HALF, "float32"),
        "__half22float2": (_HALF, "float32"),
        "__low2float": (_HALF, "float32"),
        "__high2float": (_HALF, "float32"),
        "__float22half2_rn": ("float32", _HALF),
        "__floats2half2_rn": ("float32", _HALF),
        "__float2half2_rn": ("float32", _HALF),
        "__double2half": ("float64", _HALF),
        "__bfloat162float": (_BFLOAT, "float32"),
        "__bfloat1622float2": (_BFLOAT, "float32"),
        "__float22bfloat162_rn": ("float32", _BFLOAT),
        "__floats2bfloat162_rn": ("float32", _BFLOAT),
        "__float2bfloat162_rn": ("float32", _BFLOAT),
        "__double2bfloat16": ("float64", _BFLOAT),
        "convert_half_float": (_HALF, "float32"),
        "convert_float_half": ("float32", _HALF),
        "convert_bfloat16_float": (_BFLOAT, "float32"),
        "convert_float_bfloat16": ("float32", _BFLOAT),
    }
    for rounding in _ROUNDINGS:
        table[f"__float2half{rounding}"] = ("float32", _HALF)
        table[f"__float2bfloat16{rounding}"] = ("float32", _BFLOAT)
        table[f"__double2float{rounding}"] = ("float64", "float32")
        for integer, name in (
            ("int", "int32"),
            ("uint", "uint32"),
            ("short", "int16"),
            ("ushort", "uint16"),
            ("ll", "int64"),
            ("ull", "uint64"),
        ):
            for spelled, float_format in (
                ("half", _HALF),
                ("bfloat16", _BFLOAT),
                ("float", "float32"),
                ("double", "float64"),
            ):
                table[f"__{spelled}2{integer}{rounding}"] = (float_format, name)
                table[f"__{integer}2{spelled}{rounding}"] = (name, float_format)
    return table


#: Cast intrinsics by name: (source format, target format).
CAST_INTRINSICS: dict[str, tuple[str, str]] = _intrinsics()

_ELEMENTARY = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "cospi",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp",
    "exp10",
    "exp2",
    "expm1",
    "fabs",
    "abs",
    "fdim",
    "floor",
    "fma",
    "fmod",
    "fmax",
    "fmin",
    "hypot",
    "ilogb",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "nearbyint",
    "nextafter",
    "norm",
    "normcdf",
    "normcdfinv",
    "pow",
    "remainder",
    "remquo",
    "rint",
    "round",
    "rsqrt",
    "rcp",
    "rcbrt",
    "sin",
    "sincos",
    "sinh",
    "sinpi",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
    "lrint",
    "llrint",
    "lround",
    "llround",
    "modf",
    "frexp",
    "ldexp",
    "scalbn",
    "j0",
    "j1",
    "jn",
    "y0",
    "y1",
    "yn",
    "cyl_bessel_i0",
    "cyl_bessel_i1",
    "digamma",
    "i0",
    "i0e",
    "i1",
    "i1e",
]
#: float32 functions of CUDA's libdevice that compute in float64 inside and narrow (the slow path of their argument
#: reduction): every ``__nv_*`` function of libdevice.10.bc (nvidia-cuda-nvcc 12.4.131) that holds an fptrunc and no
#: fpext, as ``scripts/libdevice_casts.py`` lists them.
LIBDEVICE_NARROWS = frozenset(["cos", "sin", "sincos", "tan", "j0", "j1", "jn", "y0", "y1", "yn"])

_MATH = frozenset(_ELEMENTARY)
_MATH_NAME = re.compile(r"^(?:__nv_|__builtin_|__ocml_|__|h2|h)?([a-z][a-z0-9]*?)(f|l|_rn|_rz|_ru|_rd)?$")
_ATOMIC = re.compile(
    r"^(?:fast|gpu|Gpu)?[aA]tomic(Add|Sub|Mul|Div|Max|Min|Exch|CAS|And|Or|Xor|Inc|Dec)(?:NoReturn|Local)?(?:_block|_system)?$"
)


def elementary_function(name: str) -> str:
    """The elementary function that ``name`` computes, or an empty string.

    >>> elementary_function("__expf"), elementary_function("hexp"), elementary_function("resize")
    ('exp', 'exp', '')
    """
    if name in _MATH:
        return name
    found = _MATH_NAME.match(name)
    return found.group(1) if found and found.group(1) in _MATH else ""


def atomic_operation(name: str) -> str:
    """What an atomic function of this name does (``add``, ``max`` ...), or an empty string.

    >>> atomic_operation("gpuAtomicAddNoReturn"), atomic_operation("atomicCAS")
    ('add', 'cas')
    """
    found = _ATOMIC.match(name)
    return found.group(1).lower() if found else ""
