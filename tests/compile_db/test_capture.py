"""Compile commands from builds: CMake's file, Bazel's answer, what a build printed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from parsing import write_source

from compile_db import CompileDatabaseError
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
