"""The snippets' stand-in headers beside what they stand for: CUDA's, and c10's from the installed torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from snippets import TORCH_TYPES, Scan, command_for

from compile_db import Toolchain
from opscanner.frontend import scan_units
from opscanner.ir import NodeKind

KERNELS = """
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cuda_fp16.h>
template <typename scalar_t, typename acc_t> __global__ void kernel(scalar_t* p, int n, double d) {
  acc_t s = 0;                                  // cast: int32 -> float32 implicit constant
  for (int i = 0; i < n; i++)
    s += static_cast<acc_t>(p[i]);              // cast: float16 -> float32 static_cast as acc_t; bfloat16 -> float32 static_cast as acc_t
  p[0] = s;                                     // cast: float32 -> float16 converting_constructor; float32 -> bfloat16 converting_constructor
  p[1] = p[2] * s;                              // cast: float16 -> float32 mixed_operator; bfloat16 -> float32 mixed_operator; float32 -> float16 converting_constructor; float32 -> bfloat16 converting_constructor
  p[2] += p[3];
  d = d * p[4];                                 // cast: float16 -> float64 mixed_operator; bfloat16 -> float64 mixed_operator
  p[5] = static_cast<scalar_t>(n);              // cast: int32 -> float32 implicit; float32 -> float16 static_cast as scalar_t; float32 -> bfloat16 static_cast as scalar_t
  if (p[6] < s) p[6] = p[7];                    // cast: float16 -> float32 conversion_function; bfloat16 -> float32 conversion_function
}
__global__ void intrinsics(__half* h, __half2* h2, float2 f2, float f) {
  f = __half2float(h[0]);                       // cast: float16 -> float32 intrinsic
  h[1] = __float2half(f);                       // cast: float32 -> float16 intrinsic
  f2 = __half22float2(h2[0]);                   // cast: float16 -> float32 intrinsic
  atomicAdd(h, h[1]);
}
void launch(c10::Half* h, c10::BFloat16* b) {
  kernel<c10::Half, float><<<1, 32>>>(h, 3, 0.5);
  kernel<c10::BFloat16, float><<<1, 32>>>(b, 3, 0.5);
}
"""  # noqa: E501


@pytest.fixture
def with_cuda(toolchain: Toolchain) -> Toolchain:
    if toolchain.cuda_version is None:
        pytest.skip("NO CUDA HEADERS: nothing was tried on them (pip install 'opscanner[cuda-headers]')")
    return toolchain


def test_stand_ins_give_the_casts_of_these_kernels(golden: Scan) -> None:
    golden(KERNELS, arguments=TORCH_TYPES)


def test_the_headers_of_torch_and_cuda_give_the_same(golden: Scan, with_cuda: Toolchain, torch_headers: str) -> None:
    golden(KERNELS, arguments=("-I", torch_headers), toolchain=with_cuda)


def test_cuda_math_of_half_goes_to_float64_inside_the_wrapper(
    golden: Scan, with_cuda: Toolchain, torch_headers: str
) -> None:
    """clang's CUDA wrapper promotes every type with ``numeric_limits`` that is no builtin to double."""
    golden(
        """
        #include <cmath>
        #include <c10/util/Half.h>
        __global__ void k(c10::Half* p, float f, double d) {
          f = std::fmod(p[0], p[1]);  // cast: float16 -> float32 library_call; float32 -> float64 library_call; float64 -> float32 implicit
          f = std::pow(f, d);         // cast: float32 -> float64 library_call; float64 -> float32 implicit
          f = std::sqrt(p[0]);        // cast: float16 -> float32 conversion_function
          f = ::sqrt(f);
          f = sinf(f);                // cast: float64 -> float32 library_call
        }
        """,  # noqa: E501
        arguments=("-I", torch_headers),
        toolchain=with_cuda,
    )


def test_a_precompiled_header_of_real_headers_changes_no_cast(
    tmp_path: Path, with_cuda: Toolchain, torch_headers: str
) -> None:
    for number in range(2):
        (tmp_path / f"{number}.cu").write_text(KERNELS.replace("kernel", f"kernel{number}"))
    commands = [command_for(tmp_path / f"{number}.cu", with_cuda, "-I", torch_headers) for number in range(2)]
    found = []
    for precompiled in (False, True):
        units = scan_units(commands, str(tmp_path), precompiled_header=precompiled, cache_dir=str(tmp_path / "cache"))
        found.append({node for unit in units for i in unit.instances for node in i.nodes if node.kind is NodeKind.CAST})
    assert found[0] == found[1]
    assert len(list((tmp_path / "cache" / "pch").glob("*.pch"))) == 1
