"""Odd compile commands from public reports. The number in a test's name is that of its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from parsing import command_of, errors_of, write_source

from compile_db import CompileDatabase, CompileDatabaseError, Toolchain, load, translate
from compile_db.database import make_command

KERNEL = """
__global__ void k(float* p) { p[threadIdx.x] = 1.5 * p[0]; }
void launch(float* p) { k<<<1, 32>>>(p); }
"""


def arguments_of(toolchain: Toolchain, *arguments: str, file: str = "a.cu") -> tuple[str, ...]:
    return translate(make_command("/d", file, arguments), toolchain).arguments


def dropped_of(toolchain: Toolchain, *arguments: str, file: str = "a.cu") -> dict[str, str]:
    dropped = translate(make_command("/d", file, arguments), toolchain).dropped
    return {item.argument: item.reason for item in dropped}


def architecture_of(toolchain: Toolchain, *arguments: str) -> list[str]:
    found = arguments_of(toolchain, "nvcc", *arguments, "-c", "a.cu")
    return [item.removeprefix("--cuda-gpu-arch=") for item in found if "gpu-arch" in item]


def test_c1_unknown_options_are_dropped_with_a_reason_and_do_not_reach_clang(plain_toolchain: Toolchain) -> None:
    command = ("nvcc", "-forward-unknown-to-host-compiler", "--no-such-option=3", "-c", "a.cu")
    assert not {"-forward-unknown-to-host-compiler", "--no-such-option=3"} & {*arguments_of(plain_toolchain, *command)}
    dropped = dropped_of(plain_toolchain, *command)
    assert dropped["-forward-unknown-to-host-compiler"]
    assert dropped["--no-such-option=3"]


@pytest.mark.parametrize(
    ("arguments", "architecture"),
    [
        (("-gencode", "arch=compute_86,code=sm_86"), "sm_86"),
        (("-gencode=arch=compute_70,code=sm_70", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"), "sm_90"),
        (("--generate-code", "arch=compute_75,code=compute_75", "-gencode", "arch=compute_60,code=sm_60"), "sm_75"),
        (("-arch=sm_70",), "sm_70"),
        (("-arch", "compute_70"), "sm_70"),
        (("--gpu-architecture=sm_61", "--gpu-code=sm_61,sm_72"), "sm_72"),
        (("-arch=native",), "sm_80"),
        ((), "sm_80"),
    ],
)
def test_c2_the_newest_of_several_architectures_is_taken(
    plain_toolchain: Toolchain, arguments: tuple[str, ...], architecture: str
) -> None:
    assert architecture_of(plain_toolchain, *arguments) == [architecture]
    assert "arch=compute_86,code=sm_86" not in arguments_of(plain_toolchain, "nvcc", *arguments, "a.cu")


def test_c4_nvcc_wrappers_go_in_pairs_and_host_options_are_unwrapped(plain_toolchain: Toolchain) -> None:
    given = (
        "nvcc", "-Xptxas", "-O3", "-Xcompiler=-fPIC", "-Xcompiler", "-fno-exceptions,-Wall,-DHOST",
        "--expt-relaxed-constexpr", "--extended-lambda", "-rdc=true", "--default-stream", "per-thread",
        "--include-path", "inc", "--define-macro", "A=1", "--define-macro=B", "-ccbin=g++", "-c", "a.cu",
    )  # fmt: skip
    found = arguments_of(plain_toolchain, *given)
    for wanted in (
        "-fPIC",
        "-fno-exceptions",
        "-DHOST",
        "-I/d/inc",
        "-DA=1",
        "-DB",
        "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1",
    ):
        assert wanted in found
    for unwanted in ("-O3", "-Wall", "-Xcompiler", "per-thread", "inc", "-rdc=true", "-ccbin=g++", "--extended-lambda"):
        assert unwanted not in found
    assert "-Xptxas -O3" in dropped_of(plain_toolchain, *given)


def test_c5_options_of_nvccs_parts_are_dropped_with_their_values(plain_toolchain: Toolchain) -> None:
    given = (
        "nvcc", "-Xcudafe", "--diag_suppress=cc_clobber_ignored,--diag_suppress=set_but_not_used", "-Xfatbin",
        "-compress-all", "--threads=2", "--use_fast_math", "-arch=sm_70", "-c", "a.cu",
    )  # fmt: skip
    found = arguments_of(plain_toolchain, *given)
    assert not [item for item in found if "diag" in item or "compress" in item or "threads" in item]
    assert "-fgpu-approx-transcendentals" in found
    assert "--cuda-gpu-arch=sm_70" in found


def test_c6_an_architecture_is_always_given_and_the_version_check_is_off(plain_toolchain: Toolchain) -> None:
    found = arguments_of(plain_toolchain, "nvcc", "-c", "a.cu")
    assert "--cuda-gpu-arch=sm_80" in found
    assert "--no-cuda-version-check" in found


@pytest.mark.parametrize(
    ("asked", "llvm", "given"),
    [("compute_80", 18, "sm_80"), ("sm_120", 18, "sm_90"), ("sm_120a", 22, "sm_120"), ("sm_100f", 22, "sm_100"),
     ("sm_999", 22, "sm_121"), ("sm_35", 22, "sm_50"), ("sm_88", 22, "sm_87")],
)  # fmt: skip
def test_c7_architectures_are_clamped_to_those_that_libclang_knows(
    plain_toolchain: Toolchain, asked: str, llvm: int, given: str
) -> None:
    assert architecture_of(replace(plain_toolchain, llvm_major=llvm), f"-arch={asked}") == [given]


@pytest.mark.parametrize(
    "given", [("-arch=sm_999",), ("-gencode", "arch=compute_120a,code=sm_120a"), ("-arch=compute_80",)]
)
def test_c7_any_architecture_parses(tmp_path: Path, toolchain: Toolchain, given: tuple[str, ...]) -> None:
    write_source(tmp_path, KERNEL)
    assert errors_of(translate(command_of(tmp_path, "nvcc", *given, "-c", "a.cu"), toolchain)) == []


def test_c9_c10_a_cuda_path_in_the_command_is_not_followed(tmp_path: Path, toolchain: Toolchain) -> None:
    write_source(tmp_path, KERNEL)
    command = translate(command_of(tmp_path, "clang++", "--cuda-path=/nonexistent", "-c", "a.cu"), toolchain)
    assert "chosen by this scan" in [item.reason for item in command.dropped]
    assert errors_of(command) == []


@pytest.mark.parametrize("cuda_pass", ["device", "host"])
def test_c10_without_cuda_a_shim_lets_simple_kernels_parse(
    tmp_path: Path, toolchain: Toolchain, cuda_pass: str
) -> None:
    text = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #include <cmath>
    #include <algorithm>
    template <class T> __global__ void k(T* p, const float* q, int n) {
      __shared__ float s[32];
      float acc = 0;
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        acc += static_cast<float>(p[i]) * std::exp(q[i]) + expf(q[i]);
      s[threadIdx.x] = acc;
      __syncthreads();
      acc = std::max(__shfl_down_sync(0xffffffff, acc, 16), fmaxf(1.f, std::fabs(acc)));
      p[0] = static_cast<T>(acc);
    }
    __global__ void h(__half* p, __nv_bfloat16* b, float* f) {
      f[0] = __half2float(p[0]) + __bfloat162float(b[0]);
      p[1] = __float2half(f[1]);
      p[2] = p[0] * p[1];
      atomicAdd(f, 1.f);
    }
    void f(__half* p, float* q, int n, cudaStream_t s) {
      k<__half><<<dim3(n), 256, 0, s>>>(p, q, n);
      k<float><<<1, 1>>>(q, q, n);
    }
    """
    write_source(tmp_path, text)
    without = replace(toolchain, cuda_version=None, cuda_include_dirs=(), cuda_root=None)
    command = translate(command_of(tmp_path, "nvcc", "-std=c++17", "-c", "a.cu"), without, cuda_pass)  # type: ignore[arg-type]
    assert errors_of(command) == []


def test_c12_response_files_are_read_where_they_stand(tmp_path: Path, plain_toolchain: Toolchain) -> None:
    write_source(tmp_path, "")
    write_source(tmp_path, '-I"C:/Program Files/dlib/include" -DFROM_FILE @more.rsp\n', "x.rsp")
    write_source(tmp_path, "-DNESTED\n", "more.rsp")
    entry = {"directory": str(tmp_path), "file": "a.cu", "command": "nvcc @x.rsp @missing.rsp -c a.cu"}
    command = load_entries(tmp_path, [entry]).commands[0]
    clang = translate(command, plain_toolchain)
    assert f"-I{tmp_path}/C:/Program Files/dlib/include" in clang.arguments
    assert {"-DFROM_FILE", "-DNESTED"} <= {*clang.arguments}
    assert [item.reason for item in clang.dropped if item.argument == "@missing.rsp"] == [
        "response file that could not be read"
    ]


def test_c12_options_files_of_nvcc_are_read(tmp_path: Path, plain_toolchain: Toolchain) -> None:
    write_source(tmp_path, "")
    write_source(tmp_path, "-DONE", "one.txt")
    write_source(tmp_path, "-DTWO --options-file two.txt", "two.txt")  # names itself
    entry = {"directory": str(tmp_path), "file": "a.cu", "command": "nvcc --options-file one.txt -optf=two.txt -c a.cu"}
    clang = translate(load_entries(tmp_path, [entry]).commands[0], plain_toolchain)
    assert {"-DONE", "-DTWO"} <= {*clang.arguments}


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/ccache  nvcc -DX -c a.cu",
        "sccache /usr/local/cuda/bin/nvcc -DX -c a.cu",
        "distcc g++ -DX -c a.cu",
        "icecc /usr/bin/c++ -DX -c a.cu",
        "gomacc clang++ -DX -c a.cu",
        "env A=B CCACHE_DIR=/x ccache nvcc -DX -c a.cu",
        "A=B nvcc -DX -c a.cu",
        "cmake -E env A=B -- nvcc -DX -c a.cu",
        "/usr/bin/cmake -E env A=B nvcc -DX -c a.cu",
        "/usr/bin/cmake -E __run_co_compile --launcher=ccache --tidy=x --source=a.cu -- nvcc -DX -c a.cu",
        "nice -n 10 ionice -c 3 nvcc -DX -c a.cu",
        "python3 crosstool_wrapper_driver_is_not_gcc -DX -c a.cu",
        "external/local_config_cuda/crosstool/clang/bin/crosstool_wrapper_driver_is_not_gcc -DX -c a.cu",
        "ccache.exe nvcc.exe -DX -c a.cu",
    ],
)
def test_c13_launchers_are_stripped(plain_toolchain: Toolchain, command: str) -> None:
    clang = translate(make_command("/d", "a.cu", tuple(command.split(" "))), plain_toolchain)
    assert "-DX" in clang.arguments
    assert not {"a.cu", "nvcc", "g++", "clang++", "A=B"} & {*clang.arguments}
    assert not [item for item in clang.dropped if item.reason.startswith("not an option")]


def test_c15_options_that_only_gcc_has_are_dropped(plain_toolchain: Toolchain) -> None:
    assert "-fno-canonical-system-headers" in dropped_of(
        plain_toolchain, "g++", "-fno-canonical-system-headers", "-c", "a.cu"
    )


def test_c17_an_entry_without_directory_starts_at_the_database(tmp_path: Path) -> None:
    write_source(tmp_path, "")
    entries: list[Mapping[str, object]] = [
        {"file": "a.cu", "arguments": ["nvcc", "-Iinc", "a.cu"]},
        {"directory": "/x", "arguments": ["nvcc", "b.cu"]},
    ]
    database = load_entries(tmp_path, entries)
    assert [command.file for command in database.commands] == [str(tmp_path / "a.cu")]
    assert [(entry.index, entry.reason) for entry in database.skipped] == [(1, 'has no "file"')]


def test_c20_arguments_are_taken_as_they_are_and_win_over_command(tmp_path: Path) -> None:
    write_source(tmp_path, "")
    write_source(tmp_path, "", "b.cu")
    entries: list[Mapping[str, object]] = [
        {"directory": str(tmp_path), "file": "a.cu", "arguments": ["g++", '-DTEST="FOOBAR"'], "command": "g++ -DWRONG"},
        {"directory": str(tmp_path), "file": "b.cu", "command": "g++ -DMODNAME='\"name\"' -DP=a\\ b"},
    ]
    first, second = load_entries(tmp_path, entries).commands
    assert first.arguments == ("g++", '-DTEST="FOOBAR"')
    assert second.arguments == ("g++", '-DMODNAME="name"', "-DP=a b")


def test_c22_one_file_compiled_twice_keeps_both_with_distinct_configurations(tmp_path: Path) -> None:
    for name in ("a.cu", "K.cpp.DEFAULT.cpp", "K.cpp.AVX2.cpp"):
        write_source(tmp_path, "", name)
    entries: list[Mapping[str, object]] = [
        {"directory": str(tmp_path), "file": "a.cu", "command": "nvcc -DX -o 1.o a.cu", "output": "1.o"},
        {"directory": str(tmp_path), "file": "a.cu", "command": "nvcc -DX -DPIC -o 2.o a.cu", "output": "2.o"},
        {"directory": str(tmp_path), "file": "a.cu", "command": "nvcc -DX -o 3.o a.cu", "output": "3.o"},
        {"directory": str(tmp_path), "file": "K.cpp.DEFAULT.cpp", "command": "g++ K.cpp.DEFAULT.cpp"},
        {"directory": str(tmp_path), "file": "K.cpp.AVX2.cpp", "command": "g++ -mavx2 K.cpp.AVX2.cpp"},
    ]
    commands = load_entries(tmp_path, entries).commands
    assert [(Path(c.file).name, "-DPIC" in c.arguments) for c in commands[:2]] == [("a.cu", False), ("a.cu", True)]
    assert commands[0].configuration != commands[1].configuration
    assert [c.configuration for c in commands[2:]] == ["DEFAULT", "AVX2"]


def test_c22_ninja_multi_config_entries_are_named_by_their_configuration(tmp_path: Path) -> None:
    write_source(tmp_path, "")
    entries: list[Mapping[str, object]] = [
        {
            "directory": str(tmp_path),
            "file": "a.cu",
            "command": f"nvcc {flag} a.cu",
            "output": f"CMakeFiles/x.dir/{name}/a.cu.o",
        }
        for name, flag in (("Debug", "-g -DDEBUG"), ("Release", "-DNDEBUG"))
    ]
    assert [command.configuration for command in load_entries(tmp_path, entries).commands] == ["Debug", "Release"]


def test_c24_the_file_key_counts_wherever_the_file_stands_in_the_command(plain_toolchain: Toolchain) -> None:
    clang = translate(make_command("/d", "src/a.cu", ("nvcc", "src/a.cu", "-DX", "-c", "-o", "a.o")), plain_toolchain)
    assert clang.file == "/d/src/a.cu"
    assert not [item for item in clang.arguments if item.endswith((".cu", ".o"))]


def test_c26_cuda_sources_without_an_entry_are_warned_of(tmp_path: Path) -> None:
    write_source(tmp_path, "", "native/k.cu")
    write_source(tmp_path, "", "a.cpp")
    database = load_entries(
        tmp_path, [{"directory": str(tmp_path), "file": "a.cpp", "command": "g++ a.cpp"}], root=tmp_path
    )
    assert len(database.warnings) == 1
    assert "1 CUDA sources" in database.warnings[0]


def test_c27_entries_whose_file_is_not_there_are_skipped_with_that_reason(tmp_path: Path) -> None:
    name = "bazel-out/k8-fastbuild/bin/external/x.cc"
    database = load_entries(tmp_path, [{"directory": str(tmp_path), "file": name, "command": f"gcc {name}"}])
    assert database.commands == ()
    assert database.skipped[0].file == str(tmp_path / name)
    assert "does not exist" in database.skipped[0].reason


def test_c27_a_header_action_is_parsed_as_a_source(plain_toolchain: Toolchain) -> None:
    clang = translate(make_command("/d", "x.h", ("gcc", "-xc++-header", "-fsyntax-only", "x.h")), plain_toolchain)
    assert clang.arguments[:2] == ("-x", "c++")


def test_c30_all_errors_of_a_unit_are_reported(tmp_path: Path, toolchain: Toolchain) -> None:
    write_source(
        tmp_path, '#include "missing.h"\n' + "".join(f"int v{i} = undeclared{i};\n" for i in range(60)), "a.cpp"
    )
    errors = errors_of(translate(command_of(tmp_path, "g++", "-c", "a.cpp", file="a.cpp"), toolchain))
    assert errors[0] == "a.cpp:1: 'missing.h' file not found"
    assert len(errors) == 61


def test_c31_macros_that_decide_which_casts_exist_are_kept_in_order(plain_toolchain: Toolchain) -> None:
    macros = ["-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__",
              "-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-U__CUDA_NO_HALF_OPERATORS__"]  # fmt: skip
    found = arguments_of(plain_toolchain, "nvcc", *macros, "-c", "a.cu")
    assert [item for item in found if "CUDA_NO" in item] == macros


def test_tensorflows_cuda_sources_are_cuda_when_the_command_says_so(plain_toolchain: Toolchain) -> None:
    command = make_command("/d", "relu_op_gpu.cu.cc", ("clang++", "-x", "cuda", "-DGOOGLE_CUDA=1", "relu_op_gpu.cu.cc"))
    clang = translate(command, plain_toolchain)
    assert (clang.language, clang.cuda_pass) == ("cuda", "device")
    host = translate(make_command("/d", "a.cc", ("gcc", "a.cc")), plain_toolchain)
    assert (host.language, host.cuda_pass) == ("c++", "none")


def test_a_language_that_is_none_of_ours_is_refused_by_name(plain_toolchain: Toolchain) -> None:
    with pytest.raises(CompileDatabaseError, match=r"(?s)hip.*--only"):
        translate(make_command("/d", "a.cu", ("hipcc", "-x", "hip", "a.cu")), plain_toolchain)


def load_entries(folder: Path, entries: Sequence[Mapping[str, object]], root: Path | None = None) -> CompileDatabase:
    path = folder / "compile_commands.json"
    path.write_text(json.dumps(entries))
    return load(path, root)
