"""Commands for an unbuilt TensorFlow, and where its headers come from: on small trees and wheels made here."""

from __future__ import annotations

import dataclasses
import stat
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from parsing import command_of, errors_of, write_source

from compile_db import CompileDatabase, CompileDatabaseError, Toolchain, synthesize, translate
from compile_db.synthesize import tensorflow_headers
from compile_db.synthesize.cuda_folder import cuda_folder
from compile_db.synthesize.protobuf_stand_in import stand_in
from compile_db.synthesize.tensorflow_headers import (
    WHEEL_VARIABLE,
    checkout_version,
    find_headers,
    headers_at_hand,
    unpack_headers,
)

OP_KERNEL = "#pragma once\nnamespace tensorflow { class OpKernel {}; }\n"
TYPES = "#pragma once\nenum DataType { DT_HALF = 19 };\n"


def write_wheel(folder: Path, version: str = "2.14.1", entries: Mapping[str, str] | None = None) -> Path:
    path = folder / f"tensorflow_cpu-{version}-cp311-cp311-manylinux_2_17_x86_64.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tensorflow/include/tensorflow/core/framework/op_kernel.h", OP_KERNEL)
        archive.writestr("tensorflow/include/tensorflow/core/framework/types.pb.h", TYPES)
        archive.writestr("tensorflow/libtensorflow.so", "not wanted")
        archive.writestr("tensorflow/include/external/ml_dtypes/_custom_floats.so", "not wanted")
        for name, text in (entries or {}).items():
            archive.writestr(name, text)
    return path


def write_checkout(folder: Path, version: tuple[int, int, int] = (2, 14, 1), suffix: str = "") -> Path:
    names = zip(("MAJOR", "MINOR", "PATCH"), version, strict=True)
    text = "".join(f"#define TF_{name}_VERSION {number}\n" for name, number in names)
    write_source(folder, f'{text}#define TF_VERSION_SUFFIX "{suffix}"\n', "tensorflow/core/public/version.h")
    write_source(folder, "", "tensorflow/tensorflow.bzl")
    write_source(folder, "build:linux --cxxopt=-std=c++17\n", ".bazelrc")
    return folder


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """pip finds nothing; what it was asked for."""
    asked: list[list[str]] = []

    def run(arguments: list[str], **_named: Any) -> subprocess.CompletedProcess[str]:
        asked.append(arguments)
        return subprocess.CompletedProcess(arguments, 1, "", "ERROR: No matching distribution found for it\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(tensorflow_headers, "installed_tensorflow", lambda: None)
    monkeypatch.delenv(WHEEL_VARIABLE, raising=False)
    return asked


@pytest.fixture
def synthesized(
    tmp_path: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch, no_network: list[list[str]]
) -> CompileDatabase:
    root = write_checkout(tmp_path / "checkout")
    kernels = "tensorflow/core/kernels"
    include = '#include "tensorflow/core/framework/op_kernel.h"\n#include "tensorflow/core/framework/types.pb.h"\n'
    cuda = '#include "third_party/gpus/cuda/include/cuda.h"\n'
    write_source(root, f"#define EIGEN_USE_GPU\n{include}{cuda}int v = CUDA_VERSION;\n", f"{kernels}/a_gpu.cu.cc")
    write_source(root, f"{include}{cuda}int d = DT_HALF;\n", f"{kernels}/a.cc")
    for name in ("a_test.cc", "mkl/mkl_a.cc", "fuzzing/a_fuzz.cc", "b_test.cc"):
        write_source(root, "", f"{kernels}/{name}")
    write_source(root, "", "tensorflow/python/framework/test_ops.cu.cc")
    write_source(root, "", "tensorflow/core/util/port.cc")
    monkeypatch.setenv(WHEEL_VARIABLE, str(write_wheel(tmp_path / "wheels")))
    return synthesize(root, tmp_path / "cache", toolchain)


def test_every_kernel_gets_a_command_and_parses(synthesized: CompileDatabase, toolchain: Toolchain) -> None:
    names = [Path(command.file).name for command in synthesized.commands]
    assert names == ["a.cc", "a_gpu.cu.cc", "test_ops.cu.cc"]
    clang = [translate(command, toolchain) for command in synthesized.commands]
    assert [command.language for command in clang] == ["c++", "cuda", "cuda"]
    assert [errors_of(command) for command in clang] == [[], [], []]


def test_units_of_a_kind_have_equal_arguments(synthesized: CompileDatabase, toolchain: Toolchain) -> None:
    _, first, second = (translate(command, toolchain) for command in synthesized.commands)
    assert first.arguments == second.arguments
    assert "-DGOOGLE_CUDA=1" in first.arguments
    assert "-std=c++17" in first.arguments


def test_what_is_left_out_of_a_tensorflow_checkout_is_said_with_the_reason(synthesized: CompileDatabase) -> None:
    said = {entry.reason.split(":")[0]: entry.file for entry in synthesized.skipped}
    assert said == {
        "tests and benchmarks": "2 sources",
        "oneDNN's kernels": "1 sources",
        "fuzzers": "1 sources",
    }


@pytest.mark.parametrize(("suffix", "version"), [("", "2.14.1"), ("-rc1", "2.14.1rc1")])
def test_the_version_is_read_from_the_checkouts_header(tmp_path: Path, suffix: str, version: str) -> None:
    assert checkout_version(write_checkout(tmp_path, suffix=suffix)) == version


def test_a_wheels_headers_are_unpacked_once_and_its_libraries_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[list[str]]
) -> None:
    wheel = write_wheel(tmp_path / "wheels")
    monkeypatch.setenv(WHEEL_VARIABLE, str(wheel.parent))
    found = find_headers("2.14.1", tmp_path / "cache")
    assert (found.include / "tensorflow/core/framework/types.pb.h").read_text() == TYPES
    assert list((tmp_path / "cache").rglob("*.so")) == []
    monkeypatch.delenv(WHEEL_VARIABLE)
    assert headers_at_hand("2.14.1", tmp_path / "cache") == find_headers("2.14.1", tmp_path / "cache")
    assert no_network == []


def test_the_nearest_patch_release_stands_in_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[list[str]]
) -> None:
    write_wheel(tmp_path / "wheels", "2.13.1")
    write_wheel(tmp_path / "wheels", "2.14.0")
    monkeypatch.setenv(WHEEL_VARIABLE, str(tmp_path / "wheels"))
    said: list[str] = []
    assert find_headers("2.14.1", tmp_path / "cache", said.append).version == "2.14.0"
    assert "warning: headers of TensorFlow 2.14.0 stand in for those of 2.14.1" in said[-1]


def test_without_a_wheel_the_error_says_what_to_try(tmp_path: Path, no_network: list[list[str]]) -> None:
    with pytest.raises(CompileDatabaseError, match="No matching distribution") as caught:
        find_headers("2.14.1", tmp_path / "cache")
    assert WHEEL_VARIABLE in (caught.value.hint or "")
    assert not (tmp_path / "cache").exists()
    asked = [command[-1] for command in no_network]
    assert asked[0] == "tensorflow-cpu==2.14.1"
    assert asked[-1] == "tensorflow-cpu==2.14.*"
    # A wheel for another interpreter serves as well.
    assert any("--abi" in command and "cp310" in command for command in no_network)


@pytest.mark.parametrize("name", ["tensorflow/include/../../../escaped.h", "tensorflow/include/a\\..\\..\\escaped.h"])
def test_no_entry_of_a_wheel_is_written_outside_of_its_folder(tmp_path: Path, name: str) -> None:
    wheel = write_wheel(tmp_path / "wheels", entries={name: "escaped"})
    with pytest.raises(CompileDatabaseError, match="leads out of its folder"):
        unpack_headers(wheel, tmp_path / "deep/deep/include")
    assert list(tmp_path.rglob("*escaped.h")) == []


def test_a_link_in_a_wheel_is_refused(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    link = zipfile.ZipInfo("tensorflow/include/link.h")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(CompileDatabaseError, match="link"):
        unpack_headers(wheel, tmp_path / "include")


@pytest.mark.parametrize("content", [b"", b"no zip file", b"PK\x03\x04torn"])
def test_a_torn_wheel_is_an_error_and_leaves_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[list[str]], content: bytes
) -> None:
    wheel = tmp_path / "tensorflow_cpu-2.14.1-cp311-cp311-linux.whl"
    wheel.write_bytes(content)
    monkeypatch.setenv(WHEEL_VARIABLE, str(wheel))
    with pytest.raises(CompileDatabaseError, match="no wheel that can be read"):
        find_headers("2.14.1", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_cuda_headers_of_several_wheels_stand_under_tensorflows_path(
    tmp_path: Path, plain_toolchain: Toolchain
) -> None:
    write_source(tmp_path, "first", "runtime/cuda.h")
    write_source(tmp_path, "second", "nvcc/cuda.h")
    write_source(tmp_path, "crt", "nvcc/crt/host_defines.h")
    dirs = (str(tmp_path / "runtime"), str(tmp_path / "nvcc"))
    toolchain = dataclasses.replace(plain_toolchain, cuda_include_dirs=dirs)
    include = cuda_folder(toolchain, tmp_path / "cache") / "third_party/gpus/cuda/include"
    assert (include / "cuda.h").read_text() == "first"
    assert (include / "crt/host_defines.h").read_text() == "crt"
    assert (include / "cublas_v2.h").is_file()  # the stand-in
    assert '"12"' in (include.parent / "cuda_config.h").read_text()


PROTO = """\
syntax = "proto3";
package outer.inner;
import public "types.proto";
// message NotThis { int32 a = 1; }
message Parameters {
  option deprecated = true;
  enum Mode { NONE = 0; FAST = 1; }
  message Fusion { double scale = 1; }  /* Fusion { } */
  reserved 4, 5;
  repeated int64 in = 6;
  map<string, Fusion> fusions = 7;
  oneof choice { Fusion fusion = 8; string Name = 9 [json_name = "a;b"]; }
  Mode mode = 10;
  other.Kind kind = 11;
  repeated string labels = 12;
}
service Unused { rpc Do(Parameters) returns (Parameters) { option x = 1; } }
"""
# As far as the stand-in needs protobuf's own headers: the abstract base class, and containers.
PROTOBUF = {
    "message": """\
#include <cstddef>
#include <cstdint>
namespace google { namespace protobuf {
class Arena; class Descriptor; struct Metadata {}; namespace internal { class ParseContext; }
namespace io { class EpsCopyOutputStream; }
class Message {
 public:
  virtual ~Message() {}
  virtual Message* New(Arena* arena) const = 0;
  virtual size_t ByteSizeLong() const = 0;
  virtual Metadata GetMetadata() const = 0;
};
}}""",
    "repeated_field": """\
namespace google { namespace protobuf {
template <class T> struct RepeatedField { const T* begin() const; const T* end() const; };
template <class T> struct RepeatedPtrField { const T* begin() const; const T* end() const; };
}}""",
    "map": """\
namespace google { namespace protobuf {
template <class K, class V> struct Map { V& operator[](const K&); };
}}""",
    "unknown_field_set": "",
}
USE = """\
#include "a/parameters.pb.h"
using outer::inner::Parameters;
double use(Parameters& p, const Parameters& q) {
  p.add_in(q.in(0) + q.in_size());
  for (long one : q.in()) p.set_in(0, one);
  p.set_mode(q.mode() == Parameters::FAST ? Parameters::NONE : outer::inner::Parameters_Mode_FAST);
  p.set_kind(other::A);
  p.set_name(q.name() + Parameters::Mode_Name(1));
  *p.add_labels() = q.labels(0);
  (*p.mutable_fusions())["x"].set_scale(0.5);
  Parameters copy(q);
  copy.mutable_fusion()->CopyFrom(q.fusion());
  return copy.has_fusion() ? copy.fusion().scale() : Parameters::Fusion().scale();
}
"""


def test_a_proto_without_its_generated_header_gets_one_that_its_users_parse_with(
    tmp_path: Path, toolchain: Toolchain
) -> None:
    write_source(tmp_path, PROTO, "a/parameters.proto")
    write_source(tmp_path, 'syntax = "proto3";\npackage other;\nenum Kind { A = 0; }\n', "types.proto")
    for name in ("a/parameters", "types"):
        write_source(tmp_path, stand_in(f"{name}.proto", tmp_path), f"{name}.pb.h")
    for name, text in PROTOBUF.items():
        write_source(tmp_path, f"#pragma once\n{text}\n", f"google/protobuf/{name}.h")
    write_source(tmp_path, USE, "use.cc")
    command = command_of(tmp_path, "c++", "-std=c++17", "-I", str(tmp_path), file="use.cc")
    assert errors_of(translate(command, toolchain)) == []
    assert "NotThis" not in (tmp_path / "a/parameters.pb.h").read_text()
