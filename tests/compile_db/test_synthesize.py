"""Compile databases for trees that nobody has built, on small trees made here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from parsing import errors_of, write_source

from compile_db import CompileDatabaseError, Toolchain, detect, synthesize, translate
from compile_db.synthesize.cache import generated
from compile_db.synthesize.portability import CORRECTIONS, overlay_arguments
from compile_db.synthesize.setup_script import macros_and_standard
from compile_db.synthesize.templates import fill_in
from compile_db.synthesize.torchgen import DRIVER, generate_headers, site_packages_of_torchgen


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (["aten/src/ATen/native/native_functions.yaml"], "pytorch"),
        (["tensorflow/core/kernels/x.cc", "tensorflow/tensorflow.bzl"], "tensorflow"),
        (["setup.py", "csrc/a.cu"], "torch_extension"),
        (["csrc/a.cu"], "torch_extension"),
        (["a.cpp"], "sources"),
    ],
)
def test_the_kind_of_a_tree_is_told_by_what_it_holds(tmp_path: Path, files: list[str], kind: str) -> None:
    text = {
        "setup.py": "from torch.utils.cpp_extension import CUDAExtension",
        "csrc/a.cu": "#include <torch/extension.h>",
    }
    for name in files:
        write_source(tmp_path, text.get(name, ""), name)
    assert detect(tmp_path) == kind


def test_a_folder_of_sources_gets_the_include_folders_that_its_includes_need(
    tmp_path: Path, toolchain: Toolchain
) -> None:
    write_source(tmp_path, '#include "own/types.h"\n#include "near.h"\nreal x = near();\n', "src/deep/a.cpp")
    write_source(tmp_path, "inline int near() { return 1; }\n", "src/deep/near.h")
    write_source(tmp_path, "#include <base.h>\nusing real = base_real;\n", "include/own/types.h")
    write_source(tmp_path, "using base_real = double;\n", "lib/base.h")
    write_source(tmp_path, "broken", "build/generated.cpp")
    (command,) = synthesize(tmp_path, tmp_path / "cache", toolchain).commands
    assert command.file == str(tmp_path / "src/deep/a.cpp")
    assert errors_of(translate(command, toolchain)) == []
    assert not (tmp_path / "cache").exists()


def test_a_single_file_is_scanned_without_any_knowledge(tmp_path: Path, toolchain: Toolchain) -> None:
    path = write_source(tmp_path, "__global__ void k(float* p) { p[0] = 0.5 * p[1]; }\n", "k.cu")
    (command,) = synthesize(path, tmp_path / "cache", toolchain).commands
    assert errors_of(translate(command, toolchain)) == []


@pytest.mark.parametrize(
    ("name", "words"), [("nowhere", "does not exist"), ("empty", "holds no C, C++ or CUDA source")]
)
def test_a_root_without_sources_is_refused(tmp_path: Path, toolchain: Toolchain, name: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CompileDatabaseError, match=words.replace("+", r"\+")):
        synthesize(tmp_path / name, tmp_path / "cache", toolchain)


def test_cmake_templates_are_filled_in_as_cmake_does() -> None:
    template = (
        '#cmakedefine A\n#cmakedefine B\n#cmakedefine01 C\n  # cmakedefine D @V@\n#define E() @V@\n#define F "${W}"\n'
    )
    assert fill_in(template, {"A": "1", "C": "ON", "D": "1", "V": "7", "B": "OFF"}) == (
        '#define A\n/* #undef B */\n#define C 1\n  # define D 7\n#define E() 7\n#define F "0"\n'
    )


def test_setup_py_is_read_and_never_executed(tmp_path: Path) -> None:
    script = f"""
open({str(tmp_path / "executed")!r}, "w")
raise SystemExit("executed")
define_macros = [("WITH_PYTHON", None)]
if suffix == "cuda":
    define_macros += [("WITH_CUDA", None), ("N", "3"), ("USE_ROCM", None)]
flags = {{"nvcc": ["-O3", "-std=c++17", "-U__CUDA_NO_HALF_OPERATORS__", "-DX_DISABLE", "-DOK=1", "-fplugin=evil.so"]}}
"""
    path = Path(write_source(tmp_path, script, "setup.py"))
    macros, standard = macros_and_standard(path)
    assert set(macros) == {"-DWITH_PYTHON", "-DWITH_CUDA", "-DN=3", "-U__CUDA_NO_HALF_OPERATORS__", "-DOK=1"}
    assert standard == "c++17"
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("script", ["", "def (", "\0", "(" * 5000, "x = 1\n" * 10])
def test_a_setup_py_that_is_no_python_says_nothing(tmp_path: Path, script: str) -> None:
    assert macros_and_standard(Path(write_source(tmp_path, script, "setup.py"))) == ((), None)


def test_a_cache_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise CompileDatabaseError("stop")

    with pytest.raises(CompileDatabaseError, match="stop"):
        generated(tmp_path, "x", fail)
    assert os.listdir(tmp_path) == []
    made = generated(tmp_path, "x", lambda folder: (folder / "whole").touch())
    assert os.listdir(made) == ["whole"]
    assert generated(tmp_path, "x", fail) == made


def test_a_cache_that_cannot_be_written_is_named_with_what_to_try(tmp_path: Path) -> None:
    write_source(tmp_path, "", "file")
    with pytest.raises(CompileDatabaseError, match=r"cannot write the cache(?s:.*)writable folder"):
        generated(tmp_path / "file" / "cache", "x", lambda folder: None)


def test_corrections_reach_clang_under_the_files_own_name_and_line(tmp_path: Path, toolchain: Toolchain) -> None:
    body = "void set_slice_3x3(int);\n  void f() { this->set_slice3x3(1); undeclared; }"
    text = f"template <class T> struct M {{\n  {body}\n}};\n"
    write_source(tmp_path, text, "include/cutlass/matrix.h")
    write_source(tmp_path, '#include "cutlass/matrix.h"\n', "a.cpp")
    overlay = overlay_arguments([tmp_path / "include"], tmp_path / "cache")
    (command,) = synthesize(tmp_path, tmp_path / "cache", toolchain).commands
    from dataclasses import replace

    before = errors_of(translate(command, toolchain))
    after = errors_of(translate(replace(command, trusted_arguments=overlay), toolchain))
    assert len(before) == 2
    assert after == ["matrix.h:3: use of undeclared identifier 'undeclared'"]
    assert (tmp_path / "include/cutlass/matrix.h").read_text() == text
    assert overlay_arguments([tmp_path / "nowhere"], tmp_path / "cache") == ()


def test_no_correction_moves_a_line() -> None:
    assert all(row.written.count("\n") == row.meant.count("\n") == 0 and row.why for row in CORRECTIONS)


def run_driver(*arguments: str) -> subprocess.CompletedProcess[str]:
    place = str(site_packages_of_torchgen())
    command = [sys.executable, "-I", "-B", str(DRIVER), place, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_torchgens_driver_refuses_operators_whose_name_is_a_path(tmp_path: Path) -> None:
    for name in ("../../../evil", "a/b", "x;y"):
        yaml = f"- func: {name}(Tensor self) -> Tensor\n  variants: function\n"
        write_source(tmp_path, yaml, "native/native_functions.yaml")
        done = run_driver(str(tmp_path), str(tmp_path / "out"))
        assert done.returncode != 0
        assert "is not an operator's name" in done.stderr


def test_torchgens_driver_can_neither_write_elsewhere_nor_start_a_program(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    code = f"""
import os, subprocess, sys
sys.path.insert(0, {str(DRIVER.parent)!r})
from pathlib import Path
import torchgen_driver
torchgen_driver.refuse_writes_outside(Path({str(tmp_path / "out")!r}))
open({str(tmp_path / "out" / "fine")!r}, "w").close()
for attempt in (
    lambda: open({str(tmp_path / "elsewhere")!r}, "w"),
    lambda: os.open({str(tmp_path / "elsewhere")!r}, os.O_CREAT | os.O_WRONLY),
    lambda: os.mkdir({str(tmp_path / "folder")!r}),
    lambda: os.rename({str(tmp_path / "out" / "fine")!r}, {str(tmp_path / "moved")!r}),
    lambda: os.symlink("/etc", {str(tmp_path / "out" / ".." / "link")!r}),
    lambda: subprocess.run(["true"]),
    lambda: os.system("true"),
):
    try:
        attempt()
    except PermissionError:
        print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * 7
    assert sorted(os.listdir(tmp_path)) == ["out"]


def test_what_torchgen_refuses_is_told_in_its_own_words(tmp_path: Path) -> None:
    write_source(tmp_path, "- func: f(NoSuchType x) -> Tensor\n", "aten/src/ATen/native/native_functions.yaml")
    write_source(tmp_path, "[]", "aten/src/ATen/native/tags.yaml")
    (tmp_path / "out").mkdir()
    with pytest.raises(CompileDatabaseError, match=r"NoSuchType(?s:.*)pip install torch"):
        generate_headers(tmp_path / "aten/src/ATen", tmp_path / "out")
