"""Compile commands from builds: CMake's file, Bazel's answer, what a build printed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from parsing import errors_of, write_source

from compile_db import CompileDatabaseError, Toolchain, translate
from compile_db.capture import find_databases, read_any, read_aquery, read_log


def test_cmakes_databases_are_found_newest_first(tmp_path: Path) -> None:
    for age, name in enumerate(("build", "build-cuda", "cmake-build-debug", "build/Release")):
        path = Path(write_source(tmp_path / name, "[]", "compile_commands.json"))
        os.utime(path, (1000 - age, 1000 - age))
    found = [str(Path(path).parent.relative_to(tmp_path)) for path in find_databases(tmp_path)]
    assert found == ["build", "build-cuda", "cmake-build-debug", "build/Release"]
    assert find_databases(tmp_path / "nowhere") == []


def test_a_make_log_gives_commands_with_the_directories_it_entered(tmp_path: Path) -> None:
    for name in ("src/a.cu", "src/sub/b.cpp", "c.cc"):
        write_source(tmp_path, "", name)
    log = f"""
make[1]: Entering directory '{tmp_path}/src'
[ 10%] Building CUDA object a.o
cd {tmp_path}/src && /usr/local/cuda/bin/nvcc -DX="a b" \\
   -Iinc -c a.cu -o a.o
make[2]: Entering directory '{tmp_path}/src/sub'
g++ -c b.cpp -o b.o; echo done
make[2]: Leaving directory '{tmp_path}/src/sub'
make[1]: Leaving directory '{tmp_path}/src'
[3/9] ccache g++ -MF c.cc.d -c c.cc -o c.o && :
g++ -o program a.o b.o c.o
cc: warning: it's odd
"""
    write_source(tmp_path, log, "build.log")
    commands = read_log(tmp_path / "build.log").commands
    assert [(os.path.relpath(c.file, tmp_path), os.path.relpath(c.directory, tmp_path)) for c in commands] == [
        ("src/a.cu", "src"),
        ("src/sub/b.cpp", "src/sub"),
        ("c.cc", "."),
    ]
    assert commands[0].arguments[1:3] == ("-DX=a b", "-Iinc")
    assert [c.output for c in commands] == ["a.o", "b.o", "c.o"]


def test_bazels_subcommands_give_commands_without_their_environment(tmp_path: Path) -> None:
    write_source(tmp_path, "", "tensorflow/core/kernels/relu_op_gpu.cu.cc")
    log = f"""
SUBCOMMAND: # //tensorflow/core/kernels:relu_op_gpu [action 'Compiling relu_op_gpu.cu.cc', configuration: 1]
(cd {tmp_path} && \\
  exec env - \\
    PATH=/bin \\
  external/local_config_cuda/crosstool/clang/bin/crosstool_wrapper_driver_is_not_gcc -MD -MF x.d \\
    '-DGOOGLE_CUDA=1' -x cuda -c tensorflow/core/kernels/relu_op_gpu.cu.cc -o x.o)
"""
    write_source(tmp_path, log, "subcommands.log")
    (command,) = read_log(tmp_path / "subcommands.log").commands
    assert command.file == str(tmp_path / "tensorflow/core/kernels/relu_op_gpu.cu.cc")
    assert "-DGOOGLE_CUDA=1" in command.arguments


def test_bazels_aquery_gives_compile_actions_and_skips_what_is_not_there(tmp_path: Path) -> None:
    write_source(tmp_path, "", "a.cc")
    actions = [
        {"mnemonic": "CppCompile", "arguments": ["gcc", "-DX", "-c", "a.cc", "-o", "bazel-out/a.o"]},
        {"mnemonic": "CppCompile", "arguments": ["gcc", "-c", "bazel-out/k8/gen.cc"]},
        {"mnemonic": "CppCompile", "arguments": ["gcc", "-xc++-header", "-fsyntax-only", "a.h"]},
        {"mnemonic": "CppCompile"},
        {"mnemonic": "CppLink", "arguments": ["gcc", "a.o"]},
    ]
    write_source(tmp_path, json.dumps({"actions": actions}), "aquery.json")
    database = read_aquery(tmp_path / "aquery.json", tmp_path)
    assert [command.file for command in database.commands] == [str(tmp_path / "a.cc")]
    assert [entry.index for entry in database.skipped] == [1, 2, 3]


# As `bazel aquery 'mnemonic("CppCompile", //tensorflow/core/kernels:relu_op_gpu)'` prints them: with nvcc behind
# TensorFlow's wrapper, and with clang as the CUDA compiler.
WRAPPER = "external/local_config_cuda/crosstool/clang/bin/crosstool_wrapper_driver_is_not_gcc"
OUTPUT = "bazel-out/k8-opt/bin/tensorflow/core/kernels/_objs/relu_op_gpu/relu_op_gpu.cu.pic"
COMMON = [
    "-MD", "-MF", f"{OUTPUT}.d", f"-frandom-seed={OUTPUT}.o", "-fPIC", "-DTF_USE_SNAPPY", "-DEIGEN_MAX_ALIGN_BYTES=64",
    "-iquote", ".", "-iquote", "bazel-out/k8-opt/bin", "-iquote", "external/com_google_absl", "-iquoteexternal/nsync",
    "-Ibazel-out/k8-opt/bin/external/local_config_cuda/cuda/_virtual_includes/cuda_headers_virtual",
    "-isystem", "external/nsync/public", "-isystem", "external/local_config_cuda/cuda/cuda/include",
    "-Wno-builtin-macro-redefined", '-D__DATE__="redacted"', "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=1",
    "-fstack-protector", "-no-canonical-prefixes", "-fno-canonical-system-headers", "-DNDEBUG", "-g0", "-O2",
    "-ffunction-sections", "-fdata-sections", "-std=c++17", "-DEIGEN_AVOID_STL_ARRAY", "-Iexternal/gemmlowp",
    "-Wno-sign-compare", "-ftemplate-depth=900", "-fno-exceptions", "-DGOOGLE_CUDA=1", "-msse3", "-pthread",
]  # fmt: skip
BY_NVCC = [
    "-x", "cuda", "-DGOOGLE_CUDA=1", "-Xcuda-fatbinary=--compress-all", "-nvcc_options=expt-relaxed-constexpr",
    "-DTENSORFLOW_USE_NVCC=1", "-nvcc_options=relaxed-constexpr", "-nvcc_options=ftz=true",
]  # fmt: skip
BY_CLANG = [
    "-x", "cuda", "-Xcuda-fatbinary", "--compress-all", "--cuda-path=external/local_config_cuda/cuda",
    "--no-cuda-include-ptx=all", "--cuda-include-ptx=sm_86", "--cuda-gpu-arch=sm_86", "-fcuda-flush-denormals-to-zero",
]  # fmt: skip
SOURCE = "tensorflow/core/kernels/relu_op_gpu.cu.cc"
RELU = """\
#include "absl/base.h"
#include "nsync.h"
#include "third_party/gpus/cuda/include/cuda.h"
#include "tensorflow/core/own.h"
#ifndef GOOGLE_CUDA
#error
#endif
__global__ void relu(absl_real* p) { p[0] = TF_USE_SNAPPY * own * NSYNC; }
"""


@pytest.mark.parametrize(("compiler", "more"), [(WRAPPER, BY_NVCC), ("/usr/lib/llvm-16/bin/clang", BY_CLANG)])
def test_a_cuda_action_of_tensorflow_parses_with_what_bazel_gave_it(
    tmp_path: Path, toolchain: Toolchain, compiler: str, more: list[str]
) -> None:
    virtual = "bazel-out/k8-opt/bin/external/local_config_cuda/cuda/_virtual_includes/cuda_headers_virtual"
    for name, text in {
        SOURCE: RELU,
        "external/com_google_absl/absl/base.h": "using absl_real = float;",
        "external/nsync/public/nsync.h": "#define NSYNC 1",
        f"{virtual}/third_party/gpus/cuda/include/cuda.h": "",
        "bazel-out/k8-opt/bin/tensorflow/core/own.h": "constexpr float own = 1;",
    }.items():
        write_source(tmp_path, text + "\n", name)
    arguments = [compiler, *COMMON, *more, "-c", SOURCE, "-o", f"{OUTPUT}.o"]
    action = {"targetId": 1, "actionKey": "9", "mnemonic": "CppCompile", "arguments": arguments}
    write_source(tmp_path, json.dumps({"actions": [action], "targets": []}), "aquery.json")
    (command,) = read_aquery(tmp_path / "aquery.json", tmp_path).commands
    clang = translate(command, toolchain)
    assert (clang.language, clang.cuda_pass) == ("cuda", "device")
    assert clang.file == str(tmp_path / SOURCE)
    assert errors_of(clang) == []
    assert ("--cuda-gpu-arch=sm_86" in clang.arguments) == (more is BY_CLANG)
    assert not any("fatbinary" in one or "nvcc_options" in one for one in clang.arguments)


def test_bazels_parameter_files_are_read_from_the_answer_or_from_disk(tmp_path: Path) -> None:
    for name in ("a.cc", "b.cc"):
        write_source(tmp_path, "", name)
    write_source(tmp_path, "-DON_DISK -c b.cc", "bazel-out/b.params")
    actions = [
        {"mnemonic": "CppCompile", "arguments": ["gcc", "@bazel-out/a.params"],
         "paramFiles": [{"execPath": "bazel-out/a.params", "arguments": ["-DIN_ANSWER", "-c", "a.cc"]}]},
        {"mnemonic": "CppCompile", "arguments": ["gcc", "@bazel-out/b.params"]},
    ]  # fmt: skip
    write_source(tmp_path, json.dumps({"actions": actions}), "aquery.json")
    commands = read_aquery(tmp_path / "aquery.json", tmp_path).commands
    assert [(Path(command.file).name, command.arguments[1]) for command in commands] == [
        ("a.cc", "-DIN_ANSWER"),
        ("b.cc", "-DON_DISK"),
    ]


@pytest.mark.parametrize("content", ["", "{}", '{"actions": 3}', "{", '{"actions": []}'])
def test_what_is_no_aquery_is_refused_with_the_command_that_makes_one(tmp_path: Path, content: str) -> None:
    write_source(tmp_path, content, "aquery.json")
    with pytest.raises(CompileDatabaseError, match=r"bazel aquery .*--output=jsonproto"):
        read_aquery(tmp_path / "aquery.json", tmp_path)


def test_a_log_without_a_command_is_refused_with_the_way_to_a_verbose_build(tmp_path: Path) -> None:
    write_source(tmp_path, "[1/2] Building a.o\n", "build.log")
    with pytest.raises(CompileDatabaseError, match=r"ninja -v"):
        read_log(tmp_path / "build.log")


def test_the_kind_of_file_is_told_by_its_content(tmp_path: Path) -> None:
    write_source(tmp_path, "", "a.cc")
    entry = {"directory": str(tmp_path), "file": "a.cc", "command": "gcc a.cc"}
    contents = {
        "one.json": json.dumps([entry]),
        "two": json.dumps([entry], indent=1),
        "three.json": json.dumps({"actions": [{"mnemonic": "CppCompile", "arguments": ["gcc", "a.cc"]}]}),
        "four.txt": "[1/2] gcc -c a.cc\n",
    }
    for name, content in contents.items():
        write_source(tmp_path, content, name)
        assert [Path(command.file).name for command in read_any(tmp_path / name, tmp_path).commands] == ["a.cc"], name
