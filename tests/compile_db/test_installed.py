"""Driver units for headers that an installed framework ships: declarations read, bound, and whole packages."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest
from parsing import command_of, errors_of, write_source

import compile_db
from compile_db import CompileDatabaseError, Toolchain, find_installed, synthesize, translate
from compile_db.synthesize import declarations
from compile_db.synthesize.declarations import Parameter, read_declarations
from compile_db.synthesize.instantiations import PYTORCH, TENSORFLOW_GPU, Spelling, bindings, make_driver

HEADER = """\
#ifndef A_H_
#define A_H_
#include <vector>  // template <typename T> struct InAComment { };
namespace outer::inner {
template <typename T> struct Declared;
template <typename Device, typename T>
struct Selu {  // body { with } braces
  void operator()(const Device& d, T x) { auto f = [](T y) { return y; }; }
};
template <typename T> struct Selu<int, T> {};
template <> struct Selu<int, int> {};
namespace {
template <class T, int NDIMS = 2, bool is_log = false> class alignas(8) Hidden final : public std::vector<T> {};
}
#ifdef USE_ROCM
template <typename T> struct OnlyOnAMD { ;
#else
template <typename T, typename = std::enable_if_t<(sizeof(T) > 2)>>
__device__ __forceinline__ T twice(T x, int n = (1, 2)) { return x + x; }
#endif
const char* text = "template <typename T> struct InAString { };";
inline float plain(float a, std::vector<int> b = {1, 2}) { return a; }
float declared_only(float a);
template <typename... Args> void pack(Args... args) {}
template <template <typename> class F, typename T> void of_template(T x) {}
template <typename T> template <typename U> void Selu<T, T>::member(U u) {}
template <typename T> T operator+(T a, T b) { return a; }
template <typename T> constexpr T zero = T(0);
template <typename T> using alias = T;
extern template struct Selu<int, float>;
int counter[] = {1, 2};
}  // namespace outer::inner
extern "C" { inline double in_c(double x) { return x; } }
template <typename scalar_t> __global__ void __launch_bounds__(128) kernel(scalar_t* p) { p[0] = 1; }
#endif
"""


def test_definitions_at_namespace_scope_are_read_and_nothing_else() -> None:
    found = [(d.kind, d.qualified, [p.name for p in d.parameters]) for d in read_declarations(HEADER)]
    assert found == [
        ("class", "outer::inner::Selu", ["Device", "T"]),
        ("class", "outer::inner::Hidden", ["T", "NDIMS", "is_log"]),
        ("function", "outer::inner::twice", ["T", ""]),
        ("function", "outer::inner::plain", []),
        ("function", "outer::inner::pack", ["Args"]),
        ("function", "outer::inner::of_template", ["F", "T"]),
        ("function", "in_c", []),
        ("function", "kernel", ["scalar_t"]),
    ]


def test_a_functions_parameters_are_read_without_their_default_values() -> None:
    arguments = {d.name: d.arguments for d in read_declarations(HEADER)}
    assert arguments["twice"] == "T x, int n"
    assert arguments["plain"] == "float a, std :: vector < int > b"


def test_lines_are_those_of_the_header() -> None:
    assert {d.name: d.line for d in read_declarations(HEADER)}["Selu"] == 7


@pytest.mark.parametrize(
    "text", ["template <", "template <typename T", "struct {", "}}}", "namespace", "f(", "#if", "'"]
)
def test_a_torn_header_is_read_to_its_end(text: str) -> None:
    assert read_declarations(text) == []


def test_the_readers_examples_hold() -> None:
    assert doctest.testmod(declarations).failed == 0


def parameter(name: str, kind: str = "typename", has_default: bool = False) -> Parameter:
    return Parameter("type" if kind == "typename" else "value", name, kind, has_default)


TWO = Spelling(("half", "double"), "Gpu")


@pytest.mark.parametrize(
    ("parameters", "bound"),
    [
        ([], [{}]),
        (
            [("Device", "typename"), ("T", "typename")],
            [{"Device": "Gpu", "T": "half"}, {"Device": "Gpu", "T": "double"}],
        ),
        (
            [("scalar_t", "typename"), ("acc_t", "typename")],
            [{"scalar_t": "half", "acc_t": "float"}, {"scalar_t": "double", "acc_t": "double"}],
        ),
        ([("Index", "typename"), ("NDIMS", "int")], [{"Index": "int64_t", "NDIMS": "2"}]),
        ([("is_log", "bool")], [{"is_log": "false"}, {"is_log": "true"}]),
        ([("Functor", "typename")], ["typename Functor"]),
        ([("op", "UpdateOp")], ["UpdateOp op"]),
    ],
)
def test_parameters_are_bound_by_their_names(parameters: list[tuple[str, str]], bound: list[object]) -> None:
    assert list(bindings([parameter(name, kind) for name, kind in parameters], TWO)) == bound


def test_what_has_a_default_and_fits_no_row_keeps_its_default() -> None:
    found = list(bindings([parameter("T"), parameter("Functor", has_default=True)], TWO))
    assert found == [{"T": "half"}, {"T": "double"}]


def test_a_driver_of_device_code_parses_and_reaches_what_it_instantiates(tmp_path: Path, toolchain: Toolchain) -> None:
    text = """\
#pragma once
namespace at { using Half = _Float16; using BFloat16 = short; }
namespace n {
template <typename Device, typename T> struct Elu { void operator()(const Device& d, T x) { x + x; } };
template <typename T> __device__ T twice(T x) { return x + x; }
template <typename T> __device__ T over(T x) { return x; }
template <typename T> __device__ T over(T x, int n) { return x; }
__device__ inline float near(float x) { return x; }
__device__ inline double near(double x, int n = 1) { return x; }
namespace { template <typename scalar_t, int vec_size> __global__ void kernel(scalar_t* p) { p[0] = vec_size; } }
template <typename Functor> void unknown(Functor f) {}
inline float on_host(float x) { return x; }
}
"""
    write_source(tmp_path, text, "n.h")
    spelling = Spelling(PYTORCH.formats, "int")
    driver = make_driver("n.h", read_declarations(text), spelling, cuda=True)
    assert driver.left_out == ("unknown (typename Functor)",)
    assert driver.instances == 4 + 4 + 4 + 4 + 2 + 4 + 1
    write_source(tmp_path, driver.text, "n.h.cu")
    command = command_of(tmp_path, "clang++", "-x", "cuda", "-I", str(tmp_path), file="n.h.cu")
    assert errors_of(translate(command, toolchain)) == []


TORCH = {
    "include/ATen/core/TensorBody.h": "",
    "include/ATen/core/Tensor.h": "#pragma once\n"
    "namespace at { using Half = _Float16; struct BFloat16 { short x; }; }\n",
    "include/ATen/AccumulateType.h": "",
    "include/ATen/OpMathType.h": "",
    "include/ATen/Dispatch.h": "",
    "include/ATen/native/TensorIterator.h": "",
    "include/ATen/cuda/CUDAContext.h": "",
    "include/ATen/native/cuda/Twice.cuh": "template <typename T> __device__ T twice(T x) { return x; }\n",
    "include/ATen/native/cpu/Half.h": "template <class T> struct Halved { T of(T x) { return x; } };\n"
    "template <class Op> struct Other {};\n",
    "include/ATen/native/Stub.h": "void declared(float x);\n",
    "version.py": "__version__ = '9.8.7+cpu'\n",
    "__init__.py": "raise SystemExit('imported')\n",
    "utils/cpp_extension.py": "flags = ['-std=c++20']\n",
}


@pytest.fixture
def fake_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed torch with two kernels' headers; importing it ends the process."""
    for name, text in TORCH.items():
        write_source(tmp_path / "site", text, f"torch/{name}")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return tmp_path / "site/torch/include"


def test_an_installed_torchs_headers_become_units_that_parse(
    tmp_path: Path, toolchain: Toolchain, fake_torch: Path
) -> None:
    assert find_installed("installed:torch") == fake_torch
    database = synthesize(fake_torch, tmp_path / "cache", toolchain)
    names = {command.file.split("/ATen/")[1]: translate(command, toolchain) for command in database.commands}
    assert {name: command.language for name, command in names.items()} == {
        "native/cuda/Twice.cuh.cu": "cuda",
        "native/cpu/Half.h.cc": "c++",
    }
    assert [errors_of(command) for command in names.values()] == [[], []]
    assert [(entry.file, entry.reason) for entry in database.skipped] == [
        (str(fake_torch / "ATen/native/cpu/Half.h"), "not instantiated: Other (class Op)")
    ]
    assert list(fake_torch.rglob("*.cu")) == []
    drivers = [path.name for path in (tmp_path / "cache").glob("installed-*/**/*.*")]
    assert sorted(drivers) == ["Half.h.cc", "Twice.cuh.cu"]


def test_a_package_that_is_not_installed_or_not_known_is_an_error_that_says_what_to_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    with pytest.raises(CompileDatabaseError, match="not installed") as caught:
        find_installed("installed:tensorflow")
    assert "site-packages/tensorflow/include/tensorflow" in (caught.value.hint or "")
    with pytest.raises(CompileDatabaseError, match="no package whose headers are known"):
        find_installed("installed:numpy")


def test_tensorflows_functors_are_instantiated_for_the_gpu() -> None:
    text = "template <typename Device, typename T> struct Selu { void f(const Device& d, T x) {} };\n"
    driver = make_driver(
        "tensorflow/core/kernels/relu_op_functor.h", read_declarations(text), TENSORFLOW_GPU, cuda=True
    )
    assert driver.text.splitlines()[1:] == [
        "template struct Selu<Eigen::GpuDevice, Eigen::half>;",
        "template struct Selu<Eigen::GpuDevice, Eigen::bfloat16>;",
        "template struct Selu<Eigen::GpuDevice, float>;",
        "template struct Selu<Eigen::GpuDevice, double>;",
    ]


def test_the_installed_torch_of_this_environment_has_units(tmp_path: Path, toolchain: Toolchain) -> None:
    """``grid_sampler_unnormalize`` of ``ATen/native/cuda/GridSampler.cuh`` is a template over ``scalar_t``."""
    database = compile_db.synthesize(find_installed("installed:torch"), tmp_path, toolchain)
    (command,) = (c for c in database.commands if c.file.endswith("native/cuda/GridSampler.cuh.cu"))
    text = Path(command.file).read_text()
    assert "using scalar_t = at::Half; __device__ auto *const address" in text
    assert "grid_sampler_unnormalize<scalar_t>" in text
    assert len({c.arguments[:-1] for c in database.commands}) == 2
