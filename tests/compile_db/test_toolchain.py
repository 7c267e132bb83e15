"""Finding headers: wheels, toolkits of 11.8 to 13, and what is said when something is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from parsing import errors_of, parse, write_source

from compile_db import CompileDatabaseError, Toolchain, find_toolchain, translate
from compile_db.database import make_command


def make_toolkit(root: Path, version: int, *, cccl: bool = False, complete: bool = True) -> Path:
    headers = ["cuda_runtime.h", "cuda_fp16.h", "crt/host_defines.h", "crt/math_functions.hpp"] if complete else []
    for name in headers:
        write_source(root / "include", "", name)
    write_source(root / "include", f"#define CUDA_VERSION {version}\n", "cuda.h")
    write_source(root / "include", "", "cccl/thrust/tuple.h" if cccl else "thrust/tuple.h")
    write_source(root / "nvvm/libdevice", "", "libdevice.10.bc")
    return root


def make_wheels(site_packages: Path, version: int = 12040) -> Path:
    places = {
        "cuda_runtime": ["cuda_runtime.h", "cuda_fp16.h"],
        "cuda_nvcc": ["crt/host_defines.h", "crt/math_functions.hpp"],
    }
    for package, headers in places.items():
        for name in headers:
            write_source(site_packages / "nvidia" / package / "include", "", name)
    write_source(site_packages / "nvidia/cuda_runtime/include", f"#define CUDA_VERSION {version}\n", "cuda.h")
    return site_packages


def test_a_toolkit_that_is_given_wins_over_wheels(tmp_path: Path) -> None:
    toolkit = make_toolkit(tmp_path / "cuda", 11080)
    found = find_toolchain(str(toolkit), (str(make_wheels(tmp_path / "site")),))
    assert (found.cuda_version, found.cuda_root) == ("11.8", str(toolkit))
    assert found.cuda_include_dirs == (str(toolkit / "include"),)
    assert found.libdevice == str(toolkit / "nvvm/libdevice/libdevice.10.bc")


def test_cuda_13_keeps_cccl_apart_and_it_is_searched_first(tmp_path: Path) -> None:
    toolkit = make_toolkit(tmp_path / "cuda", 13000, cccl=True)
    assert find_toolchain(str(toolkit)).cuda_include_dirs == (str(toolkit / "include/cccl"), str(toolkit / "include"))


def test_the_environment_comes_before_wheels_and_wheels_before_the_usual_place(tmp_path: Path) -> None:
    site = (str(make_wheels(tmp_path / "site")),)
    toolkit = make_toolkit(tmp_path / "cuda", 12060)
    assert find_toolchain(None, site, {"CUDA_HOME": str(toolkit)}).cuda_version == "12.6"
    assert find_toolchain(None, site, {"CUDA_PATH": str(toolkit)}).cuda_version == "12.6"
    wheels = find_toolchain(None, site, {})
    assert (wheels.cuda_version, wheels.cuda_root) == ("12.4", None)
    assert [Path(place).parent.name for place in wheels.cuda_include_dirs] == ["cuda_runtime", "cuda_nvcc"]


def test_wheels_of_cuda_13_share_one_folder(tmp_path: Path) -> None:
    make_toolkit(tmp_path / "nvidia/cu13", 13000, cccl=True)
    found = find_toolchain(None, (str(tmp_path),), {})
    assert found.cuda_version == "13.0"
    assert found.cuda_include_dirs[0] == str(tmp_path / "nvidia/cu13/include/cccl")


def test_an_incomplete_set_of_wheels_is_passed_over_and_named(tmp_path: Path) -> None:
    make_toolkit(tmp_path / "cuda", 12040)
    write_source(tmp_path / "site/nvidia/cuda_runtime/include", "#define CUDA_VERSION 12040\n", "cuda.h")
    found = find_toolchain(None, (str(tmp_path / "site"),), {"CUDA_HOME": str(tmp_path / "nowhere")})
    reasons = [item.detail for item in found.findings if item.name in ("CUDA elsewhere", "CUDA headers")]
    assert any("lacks cuda_runtime.h" in reason for reason in reasons)


@pytest.mark.parametrize(("version", "name"), [(11070, "11.7"), (10020, "10.2"), (14000, "14.0")])
def test_a_version_that_is_not_supported_is_refused_with_the_range(tmp_path: Path, version: int, name: str) -> None:
    make_toolkit(tmp_path, version)
    with pytest.raises(CompileDatabaseError, match=rf"CUDA {name} is not supported, 11.8 to 13 are"):
        find_toolchain(str(tmp_path))


def test_a_cuda_path_without_cuda_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileDatabaseError, match=r"include/cuda\.h"):
        find_toolchain(str(tmp_path))


def test_every_finding_says_what_its_absence_costs(toolchain: Toolchain) -> None:
    names = [item.name for item in toolchain.findings]
    for name in ("libclang", "builtin headers", "C++ headers", "C headers", "CUDA headers"):
        assert name in names
    assert all(item.detail and item.cost_of_absence for item in toolchain.findings)


def test_finding_headers_imports_neither_clang_nor_torch() -> None:
    look = "[name for name in ('clang', 'torch', 'opscanner') if name in sys.modules]"
    code = f"import sys, compile_db; compile_db.find_toolchain(); print({look})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("cuda_pass", ["device", "host"])
def test_cuda_headers_parse_without_an_error_and_without_libclangs_own_cxx_library(
    tmp_path: Path, toolchain: Toolchain, cuda_pass: str
) -> None:
    write_source(
        tmp_path, "#include <cuda_fp16.h>\n#include <cub/cub.cuh>\n#include <vector>\n__global__ void k() {}\n"
    )
    command = translate(make_command(str(tmp_path), "a.cu", ("nvcc", "-std=c++17", "a.cu")), toolchain, cuda_pass)  # type: ignore[arg-type]
    assert errors_of(command) == []


def test_the_bundled_cxx_library_serves_where_the_system_has_none(
    tmp_path: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compile_db.toolchain.GCC_DIRECTORY", str(tmp_path / "no-gcc"))
    without = find_toolchain()
    assert "libc++" in without.cxx_include_dirs[0] or "libcxx" in without.cxx_include_dirs[0]
    write_source(
        tmp_path, "#include <cuda_fp16.h>\n#include <cmath>\n#include <thrust/tuple.h>\n__global__ void k() {}\n"
    )
    command = translate(make_command(str(tmp_path), "a.cu", ("nvcc", "-std=c++17", "a.cu")), without)
    assert errors_of(command) == []
    assert any("libcxx" in item.include.name for item in parse(command).get_includes())


def test_the_systems_cxx_library_serves_cxx_units(tmp_path: Path, toolchain: Toolchain) -> None:
    if "libstdc++" not in " ".join(item.detail for item in toolchain.findings):
        pytest.skip("this machine has no libstdc++")
    write_source(tmp_path, "#include <vector>\nstd::vector<int> v;\n", "a.cpp")
    unit = parse(translate(make_command(str(tmp_path), "a.cpp", ("g++", "a.cpp")), toolchain))
    assert not [item for item in unit.get_includes() if "libcxx" in item.include.name]
