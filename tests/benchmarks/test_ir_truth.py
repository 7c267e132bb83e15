"""Ground truth from LLVM IR: on modules of a few lines, and on kernels that clang compiles here."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"

MODULE = """
define dso_local void @_Z6kernelPf(ptr noundef %0) #0 !dbg !10 {
  %2 = load float, ptr %0, align 4, !dbg !20
  %3 = fpext contract float %2 to double, !dbg !20
  %4 = call contract noundef float @_ZN3c104HalfcvfEv(ptr noundef %0) #1, !dbg !21
  call void @_ZN3c104HalfC1Ef(ptr noundef %0, float noundef 5.000000e-01), !dbg !22
  %5 = call float @_ZSt4fmodf(float %4), !dbg !23
  %6 = fptrunc double %3 to float, !dbg !24
  ret void, !dbg !25
}

define internal float @_ZSt4fmodf(float noundef %0) #0 !dbg !11 {
  %2 = fpext float %0 to double, !dbg !26
  ret float %0, !dbg !26
}

!1 = !DIFile(filename: "a.cuh", directory: "/root")
!2 = !DIFile(filename: "cmath", directory: "/usr/include")
!10 = distinct !DISubprogram(name: "kernel<float>", scope: !15, file: !1, line: 3, unit: !99)
!11 = distinct !DISubprogram(name: "fmod", linkageName: "_ZSt4fmodf", scope: !16, file: !2, line: 90, unit: !99)
!15 = !DINamespace(name: "at", scope: null)
!16 = !DINamespace(name: "std", scope: null)
!17 = distinct !DILexicalBlock(scope: !10, file: !1, line: 3, column: 1)
!20 = !DILocation(line: 4, column: 9, scope: !17)
!21 = !DILocation(line: 5, column: 9, scope: !10)
!22 = !DILocation(line: 6, column: 9, scope: !10)
!23 = !DILocation(line: 7, column: 9, scope: !10)
!24 = !DILocation(line: 91, column: 3, scope: !11, inlinedAt: !27)
!25 = !DILocation(line: 9, column: 1, scope: !10)
!26 = !DILocation(line: 92, column: 3, scope: !11)
!27 = distinct !DILocation(line: 8, column: 5, scope: !10)
"""


@pytest.fixture(scope="module")
def ir_truth() -> Iterator[ModuleType]:
    sys.path.insert(0, str(BENCHMARKS))
    yield importlib.import_module("ir_truth")
    sys.path.remove(str(BENCHMARKS))


def rows(unit: dict[str, Any]) -> list[tuple[int, str, str, str, bool]]:
    return [(r["line"], r["from"], r["to"], r["how"], r["constant"]) for r in unit["casts"]]


def test_every_kind_of_change_is_told_at_the_frameworks_line(ir_truth: ModuleType) -> None:
    unit = ir_truth.Analysis(ir_truth.Module(MODULE.splitlines()), "/root").run()
    assert rows(unit) == [
        (4, "float32", "float64", "direct", False),
        (5, "float16", "float32", "direct", False),
        (6, "float32", "float16", "direct", True),
        (7, "float32", "float64", "library_call", False),
        (8, "float64", "float32", "library_call", False),
    ]
    assert {row["function"] for row in unit["casts"]} == {"at::kernel"}
    assert unit["device_lines"] == {"a.cuh": [4, 5, 6, 7, 8, 9]}


@pytest.mark.parametrize(
    ("demangled", "pair"),
    [
        ("c10::Half::Half(float)", ("float32", "float16")),
        ("c10::BFloat16::operator float() const", ("bfloat16", "float32")),
        ("c10::Float8_e4m3fn::Float8_e4m3fn(float)", ("float32", "float8_e4m3fn")),
        ("c10::complex<c10::Half>::complex(c10::complex<float> const&)", ("complex64", "complex32")),
        ("c10::operator*(double, c10::Half)", ("float16", "float64")),
        ("c10::operator+=(float&, c10::BFloat16 const&)", ("bfloat16", "float32")),
        ("__half2float(__half)", ("float16", "float32")),
        ("__bfloat1622float2(__nv_bfloat162)", ("bfloat16", "float32")),
        ("__float22bfloat162_rn(float2)", ("float32", "bfloat16")),
        ("__low2float(__half2)", ("float16", "float32")),
        ("c10::operator*(c10::Half const&, c10::Half const&)", None),
        ("c10::Half::Half(unsigned short, c10::Half::from_bits_t)", None),
        ("at::native::AUnaryFunctor<c10::Half, float>::operator()(float) const", None),
    ],
)
def test_functions_of_float_types_that_only_convert(
    ir_truth: ModuleType, demangled: str, pair: tuple[str, str] | None
) -> None:
    assert ir_truth.conversion(demangled) == pair


def test_c10_convert_is_a_helper_and_its_arguments_are_target_then_source(ir_truth: ModuleType) -> None:
    assert ir_truth.helper("float c10::convert<float, c10::Half>(c10::Half)") == ("float16", "float32")
    assert ir_truth.helper("c10::static_cast_with_inter_type<c10::Half, double>::apply(double)") == (
        "float64",
        "float16",
    )
    assert ir_truth.helper("at::native::convert<float, c10::Half>(c10::Half)") is None


def test_what_a_library_function_takes_back_is_no_change(ir_truth: ModuleType) -> None:
    back = ("float32", "float64")
    assert ir_truth._for_good({("float64", "float32"), back, ("float16", "float32")}) == {("float16", "float32")}


def test_real_ir_of_a_kernel(ir_truth: ModuleType, tmp_path: Path) -> None:
    try:
        clang = ir_truth.newest_clang()
    except SystemExit as error:
        pytest.skip(str(error))
    source = tmp_path / "k.cu"
    source.write_text(
        "template <class T> __attribute__((device)) T half_of(T x) {\n"
        "  return x * 0.5;\n"
        "}\n"
        "#define WIDE(x) \\\n"
        "  static_cast<double>(x)\n"
        '__attribute__((global)) extern "C" void kernel(float* a, double* b) {\n'
        "  *b = WIDE(\n"
        "      a[1]);\n"
        "  a[0] = half_of(a[2]);\n"
        "}\n"
    )
    target = ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib"]
    output = tmp_path / "k.ll"
    command = [clang, *target, "-S", "-emit-llvm", "-g", "-O0", "-o", str(output), str(source)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this clang has no CUDA device target: {done.stderr[:200]}")
    unit = ir_truth.truth_of(output, str(tmp_path))
    assert [row for row in rows(unit) if row[0] < 4] == [
        (2, "float32", "float64", "direct", False),
        (2, "float64", "float32", "direct", False),
    ]
    assert [row[1:4] for row in rows(unit) if row[0] > 4] == [("float32", "float64", "direct")]
    assert [row["function"] for row in unit["casts"]] == ["half_of", "half_of", "kernel"]
