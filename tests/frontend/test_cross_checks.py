"""The casts of a scan beside those that clang itself tells of: in its warnings, and in the IR that it emits.

Neither comes out of this project's code. Warnings know built-in types only (``c10::Half`` is a class to them); IR knows
what is emitted only, so the snippets hold no literals and no dead branches.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from snippets import Scan, command_for
from warnings_of_clang import WARNINGS, warned

from compile_db import Toolchain
from opscanner.frontend.parse import parsed
from opscanner.ir import NodeKind

BUILTIN = """
struct S { float m; };
void take(float);
float helper(float x, double d) {
  float a = d;
  x += d;
  x *= a * 0.5;
  take(d * x);
  S s{x};
  s.m = d;
  float t[2] = {x, a};
  t[0] -= d;
  double sum = 0.0;
  for (int i = 0; i < 2; i++) sum += t[i];
  const float& r = d;
  return sum > x ? sum : x;
}
_Float16 sixteen(_Float16 h, float f, double d) {
  h = f;
  d = h;
  return d;
}
template <class T, class A> A accumulate(const T* p, int n) {
  A s = p[0];
  for (int i = 1; i < n; i++) s += p[i];
  auto narrow = [&](double x) -> float { return x + s; };
  return narrow(s);
}
float use(const float* f, const double* d) { return accumulate<float, double>(f, 2) + accumulate<double, float>(d, 3); }
"""


def test_every_warning_about_precision_stands_where_the_scan_has_that_cast(
    scan: Scan, tmp_path: Path, shim: Toolchain
) -> None:
    scanned = scan(BUILTIN, name="unit.cpp")
    file = tmp_path / "root" / "unit.cpp"
    command = command_for(file, shim)
    with parsed(command.file, [*command.arguments, *WARNINGS]) as unit:
        expected = {(line, source, target) for _, line, source, target in warned(unit)}
    found = {(c.line, c.from_format, c.to_format) for c in scanned.casts()}
    assert len(expected) > 15
    assert expected - found == set()


CLANG = shutil.which("clang++-22") or shutil.which("clang++-19") or shutil.which("clang++")
EMIT = ("-std=c++17", "-S", "-emit-llvm", "-g", "-O0", "-w", "-o", "-")
_LOCATION = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+),(?:.*?)scope: !(\d+)")
_CAST = re.compile(r"= (fpext|fptrunc|[su]itofp|fpto[su]i) (?:contract )?(\w+) [^,]*? to (\w+).*?!dbg !(\d+)")
_IR_FORMATS = {"float": "float32", "double": "float64", "half": "float16", "bfloat": "bfloat16", "i32": "int32"}

EMITTED = """
struct S { float m; void set(float x) { m = x; } };
float callee(float x);
float f(float x, double d, int n, S* s) {
  float a = d;
  x += d;
  double b = x * d;
  s->m = d;
  s->set(b);
  x = callee(d) + n;
  n = d;
  float t[1] = {a};
  t[0] -= b;
  float u{static_cast<float>(b)};
  return d > x
             ? d
             : u;
}
template <class T, class A> A accumulate(const T* p, int n) {
  A s = p[0];
  for (int i = 1; i < n; i++)
    s += p[i];
  auto narrow = [&](double x) -> float {
    return x + s;
  };
  return narrow(s);
}
float use(const float* f, const double* d) {
  return accumulate<float, double>(f, 2) +
         accumulate<double, float>(d, 3);
}
"""
KERNEL = """
template <class T> __global__ void kernel(T* p, double d, int n) {
  T s = p[0];
  for (int i = 0; i < n; i++) s += p[i] * d;
  p[0] = static_cast<T>(s);
  p[1] = n;
}
template __global__ void kernel<float>(float*, double, int);
template __global__ void kernel<double>(double*, double, int);
"""


def emitted(ir: str) -> set[tuple[int, str, str]]:
    """(line, from, to) of the casts in LLVM IR with debug locations."""
    lines = {m.group(1): int(m.group(2)) for m in map(_LOCATION.match, ir.splitlines()) if m}
    return {
        (lines[where], _IR_FORMATS[source], _IR_FORMATS[target])
        for _, source, target, where in _CAST.findall(ir)
        if source in _IR_FORMATS and target in _IR_FORMATS
    }


@pytest.mark.parametrize(("name", "text"), [("unit.cpp", EMITTED), ("unit.cu", KERNEL)])
def test_the_casts_are_those_of_the_ir_that_clang_emits(
    scan: Scan, tmp_path: Path, shim: Toolchain, name: str, text: str
) -> None:
    if CLANG is None:
        pytest.skip("NO clang++ ON PATH: the casts were not held against LLVM IR")
    scanned = scan(text, name=name, arguments=())
    file = tmp_path / "root" / name
    cuda = ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib"]
    cuda += ["-include", f"{shim.shim_dir}/cuda_shim.h", "-Xclang", "-target-sdk-version=12.0"]
    made = subprocess.run(
        [CLANG, *(cuda if name.endswith(".cu") else ()), *EMIT, str(file)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    found = {(c.line, c.from_format, c.to_format) for c in scanned.casts() if c.reached and not c.constant}
    expected = emitted(made.stdout)
    assert len(expected) >= 4
    assert found == expected


def test_kinds_of_nodes_that_compute_cover_the_arithmetic_of_the_ir(scan: Scan, tmp_path: Path) -> None:
    """``fadd``, ``fmul`` and so on stand on lines where the scan has arithmetic in that format."""
    if CLANG is None:
        pytest.skip("NO clang++ ON PATH: the arithmetic was not held against LLVM IR")
    scanned = scan(EMITTED, name="unit.cpp", arguments=())
    made = subprocess.run(
        [CLANG, *EMIT, str(tmp_path / "root" / "unit.cpp")], capture_output=True, text=True, check=True
    )
    lines = {m.group(1): int(m.group(2)) for m in map(_LOCATION.match, made.stdout.splitlines()) if m}
    operations = re.findall(r"= f(?:add|sub|mul|div|neg) (?:contract )?(\w+) .*?!dbg !(\d+)", made.stdout)
    expected = {(lines[where], _IR_FORMATS[format]) for format, where in operations}
    computed = (NodeKind.ARITHMETIC, NodeKind.REDUCTION)
    found = {(n.line, n.format) for n in scanned.nodes(*computed) if n.reached and not n.constant}
    assert len(expected) >= 5
    assert found == expected
