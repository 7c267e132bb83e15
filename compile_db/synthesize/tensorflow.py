"""A compile database for a TensorFlow checkout that nobody has built.

Headers that a build would generate or fetch come from the wheel of the checkout's own version
(:mod:`compile_db.synthesize.tensorflow_headers`), CUDA's from this machine under the paths that TensorFlow includes
them by (:mod:`compile_db.synthesize.cuda_folder`). The checkout is read, never executed, never written to.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from compile_db.command import CompileCommand
from compile_db.database import CompileDatabase, SkippedEntry
from compile_db.errors import CompileDatabaseError
from compile_db.synthesize import protobuf_stand_in
from compile_db.synthesize.cache import generated
from compile_db.synthesize.cuda_folder import cuda_folder
from compile_db.synthesize.portability import overlay_arguments
from compile_db.synthesize.tensorflow_headers import checkout_version, find_headers, fingerprint
from compile_db.toolchain import Toolchain

KERNELS = "tensorflow/core/kernels"
PROTOS = ("tensorflow/core", "tensorflow/tsl", "tensorflow/compiler/xla", "third_party/xla/xla")
# For libraries that no wheel ships and Bazel fetches.
STAND_INS = Path(__file__).resolve().parents[1] / "shim" / "tensorflow"

# tf_copts of tensorflow/tensorflow.bzl, for Linux on x86 with CUDA and -c opt. No XLA, TensorRT, oneDNN: none of them
# has kernels here. EIGEN_USE_* are what most sources define themselves; given to all, all can share one precompiled
# header. They declare Eigen's devices and change no code that does not name one. Empty, as the sources define them.
DEFINES = (
    "-DGOOGLE_CUDA=1", "-DTENSORFLOW_USE_NVCC=1", "-DEIGEN_AVOID_STL_ARRAY", "-DEIGEN_USE_THREADS=", "-DEIGEN_USE_GPU=",
    "-DNDEBUG",
)  # fmt: skip
OPTIONS = ("-ftemplate-depth=900", "-msse3", "-pthread")
# Folders of the wheel's include/external that Bazel puts on the search path of those that depend on them.
EXTERNAL = (
    "gemmlowp", "farmhash_archive/src", "nsync/public", "double_conversion", "highwayhash", "com_googlesource_code_re2",
    "icu/icu4c/source/common", "png", "gif", "libjpeg_turbo", "zlib", "snappy", "org_sqlite", "curl/include",
    "dlpack/include", "ml_dtypes", "llvm-project/llvm/include", "llvm-project/mlir/include", "tf_runtime/include",
    "stablehlo", "com_github_grpc_grpc/include", "boringssl/src/include",
)  # fmt: skip
# Sources that are no kernels, or those of a back end whose headers no CUDA build has: pattern of the path, reason.
LEFT_OUT = (
    (re.compile(r"_test(_gpu)?\.(cu\.)?cc$|/(cuda_test|ops_testutil|batch_kernel_test_util|spectrogram_test_utils"
                r"|spectrogram_convert_test_data|fake_clock_env)\.(cu\.)?cc$|benchmark[^/]*\.cc$"),
     "tests and benchmarks: they need googletest, which a wheel does not ship"),
    (re.compile(r"/fuzzing/"), "fuzzers: they need FuzzTest, and hold no kernel"),
    (re.compile(r"/mkl/"), "oneDNN's kernels: a build with INTEL_MKL has them"),
    (re.compile(r"/rocm/"), "ROCm's kernels: a build for AMD's GPUs has them"),
    (re.compile(r"_sycl\.cc$"), "SYCL's kernels: no build of this release has them"),
)  # fmt: skip

Log = Callable[[str], None]


def synthesize(
    root: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str],
    toolchain: Toolchain,
    log: Log = lambda message: None,
) -> CompileDatabase:
    """One command for each ``.cu.cc`` and for each ``.cc`` under ``tensorflow/core/kernels``.

    All ``.cu.cc`` have equal arguments, and so have all ``.cc``. What is left out is among ``skipped``, by reason.

    Raises
    ------
    CompileDatabaseError
        ``root`` is no TensorFlow checkout, its version's headers are nowhere, or the cache cannot be written.
    """
    checkout = Path(os.path.abspath(root))
    if not (checkout / KERNELS).is_dir():
        raise CompileDatabaseError(
            f"{KERNELS} is not there: no TensorFlow checkout", where=str(checkout),
            hint="give the checkout's top folder",
        )  # fmt: skip
    version = checkout_version(checkout)
    if not version:
        raise CompileDatabaseError(
            "tensorflow/core/public/version.h names no version", where=str(checkout), hint="give a released checkout"
        )
    headers = find_headers(version, cache_dir, log)
    log(f"generated and third-party headers: TensorFlow {headers.version}, from {headers.origin}")
    messages = _messages(checkout, headers.include, cache_dir)
    searched = [checkout, cuda_folder(toolchain, cache_dir), messages, *wheel_folders(headers.include), STAND_INS]
    search = tuple(part for folder in searched for part in ("-I", str(folder)))
    corrected = [checkout, headers.include, *map(Path, toolchain.cuda_include_dirs)]
    overlay = overlay_arguments(corrected, cache_dir)
    common = (f"-std={_standard(checkout)}", *DEFINES, *OPTIONS, *search)
    # Host sources include CUDA's headers too; nvcc's crosstool finds them under the toolkit.
    host = tuple(part for folder in toolchain.cuda_include_dirs for part in ("-isystem", folder))
    commands, left_out = [], Counter[str]()
    for path in _sources(checkout):
        reason = next((reason for pattern, reason in LEFT_OUT if pattern.search(path)), None)
        if reason is not None:
            left_out[reason] += 1
            continue
        is_cuda = path.endswith(".cu.cc")
        arguments = ("clang++", "-x", "cuda", *common) if is_cuda else ("clang++", *common, *host)
        commands.append(replace(_command(checkout, path, arguments), trusted_arguments=overlay))
    skipped = tuple(SkippedEntry(f"{count} sources", None, reason) for reason, count in sorted(left_out.items()))
    for entry in skipped:
        log(f"{entry.file} left out: {entry.reason}")
    return CompileDatabase(tuple(commands), skipped, f"synthesized for {checkout}")


def wheel_folders(include: Path) -> list[Path]:
    """Folders to search below a wheel's ``include``."""
    external = [include / "external" / name for name in EXTERNAL]
    return [include, include / "include", *(folder for folder in external if folder.is_dir())]


def _messages(checkout: Path, include: Path, cache_dir: str | os.PathLike[str]) -> Path:
    """Headers for the ``.proto`` files of the checkout that the wheel has no ``.pb.h`` of."""
    paths = [path for folder in PROTOS for path in sorted((checkout / folder).rglob("*.proto"))]
    names = [str(path.relative_to(checkout)) for path in paths]
    missing = [name for name in names if not (include / name).with_suffix(".pb.h").is_file()]
    texts = [(checkout / name).read_text(encoding="utf-8", errors="replace") for name in names]
    program = Path(protobuf_stand_in.__file__).read_text(encoding="utf-8")

    def make(folder: Path) -> None:
        for name in missing:
            header = (folder / name).with_suffix(".pb.h")
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(protobuf_stand_in.stand_in(name, checkout), encoding="utf-8")

    return generated(cache_dir, f"tensorflow-messages-{fingerprint([program, *missing, *texts])}", make)


def _sources(checkout: Path) -> list[str]:
    """Every ``.cu.cc`` of the checkout and every ``.cc`` of its kernels, absolute, sorted."""
    found = []
    for folder, folders, files in os.walk(checkout / "tensorflow"):
        folders.sort()
        in_kernels = Path(folder).is_relative_to(checkout / KERNELS)
        wanted = (".cc",) if in_kernels else (".cu.cc",)
        found += [os.path.join(folder, file) for file in files if file.endswith(wanted)]
    return sorted(found)


def _standard(checkout: Path) -> str:
    """``c++17``: what the checkout's ``.bazelrc`` sets for Linux."""
    path = checkout / ".bazelrc"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = re.search(r"^build:linux\s+--cxxopt=-std=(c\+\+\d\d)", text, re.M)
    return found[1] if found else "c++17"


def _command(checkout: Path, path: str, arguments: tuple[str, ...]) -> CompileCommand:
    return CompileCommand(
        directory=str(checkout), file=path, arguments=(*arguments, "-c", path), output=None,
        origin="synthesized for TensorFlow",
    )  # fmt: skip
