"""Commands for the kernels that an installed torch or tensorflow ships as headers.

Templates in headers are instantiated by nobody: for each header a driver unit is written into the cache that includes
it and instantiates what it declares (:mod:`compile_db.synthesize.instantiations`). The package is found, never
imported.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compile_db.command import CompileCommand
from compile_db.database import CompileDatabase, SkippedEntry
from compile_db.errors import CompileDatabaseError
from compile_db.synthesize import extension, tensorflow
from compile_db.synthesize.cache import generated
from compile_db.synthesize.cuda_folder import cuda_folder
from compile_db.synthesize.declarations import read_declarations
from compile_db.synthesize.instantiations import PYTORCH, TENSORFLOW_CPU, TENSORFLOW_GPU, Driver, Spelling, make_driver
from compile_db.synthesize.tensorflow_headers import fingerprint
from compile_db.toolchain import Toolchain

PREFIX = "installed:"
# What is scanned, below the package: torch's own headers, and tensorflow's, but not those of others beside them.
ROOTS = {"torch": "include", "tensorflow": "include/tensorflow"}
TORCH_FOLDERS = ("ATen/native/cuda", "ATen/native/cpu", "ATen/native")
TORCH_FIRST = ("tuple", "ATen/core/Tensor.h", "ATen/AccumulateType.h", "ATen/OpMathType.h", "ATen/Dispatch.h")
TORCH_FIRST_CUDA = (*TORCH_FIRST, "ATen/native/TensorIterator.h", "ATen/cuda/CUDAContext.h")
TORCH_DEFINES = ("-DAT_PER_OPERATOR_HEADERS", "-DNDEBUG")
# Kernels under native/cpu are compiled once for each instruction set: the widest that all x86 servers have.
TORCH_CPU = ("-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2", "-DHAVE_AVX2_CPU_DEFINITION",
             "-mavx2", "-mfma", "-mf16c")  # fmt: skip
TENSORFLOW_FIRST = ("unsupported/Eigen/CXX11/Tensor", "tensorflow/core/framework/op_kernel.h",
                    "tensorflow/core/framework/register_types.h")  # fmt: skip
TENSORFLOW_FIRST_CUDA = (*TENSORFLOW_FIRST, "tensorflow/core/util/gpu_kernel_helper.h")
ON_DEVICE = re.compile(
    r"__device__|__global__|\b(C10_HOST_DEVICE|C10_DEVICE|EIGEN_DEVICE_FUNC|EIGEN_USE_GPU|GpuDevice|GPUDevice)\b"
    r"|(typename|class)\s+Device\b"
)
ON_HOST_ALONE = re.compile(r"_cpu(_impl)?\.h$|\bThreadPoolDevice\b|\bCPUDevice\b")


@dataclass(frozen=True)
class _Header:
    path: Path
    included: str  # as a source includes it
    cuda: bool
    driver: Driver


def find_installed(name: str) -> Path:
    """The folder to scan for ``installed:torch`` or ``installed:tensorflow``.

    Raises
    ------
    CompileDatabaseError
        It is another name, or the package is not installed with its headers.
    """
    package = name.removeprefix(PREFIX)
    if package not in ROOTS:
        known = " and ".join(f"{PREFIX}{known}" for known in ROOTS)
        raise CompileDatabaseError(f"{name!r} is no package whose headers are known", hint=f"there are {known}")
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if Path(place, ROOTS[package]).is_dir():
            return Path(place, ROOTS[package])
    raise CompileDatabaseError(
        f"{package} is not installed in this environment, or without its headers",
        hint=f"pip install {package} (a CPU build will do), or give the folder of another environment's:"
        f" .../site-packages/{package}/{ROOTS[package]}",
    )


def is_torch(top: Path) -> bool:
    """Whether a folder is the ``include`` of an installed torch."""
    return (top / "ATen/core/TensorBody.h").is_file() and (top / "ATen/native").is_dir()


def is_tensorflow(top: Path) -> bool:
    """Whether a folder is the ``include/tensorflow`` of an installed tensorflow."""
    return (top / "core/framework/types.pb.h").is_file() and (top / "core/kernels").is_dir()


def is_installed(top: Path) -> bool:
    """Whether a folder is what :func:`find_installed` finds, of this environment or another."""
    return is_torch(top) or is_tensorflow(top)


def synthesize(
    root: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str],
    toolchain: Toolchain,
    log: Callable[[str], None] = lambda message: None,
) -> CompileDatabase:
    """One command for each header that declares something that can be instantiated.

    Headers with device code are CUDA units; all of a kind have equal arguments. What no row of
    :mod:`compile_db.synthesize.instantiations` fits is among ``skipped``, by header.

    Raises
    ------
    CompileDatabaseError
        ``root`` is no folder of an installed framework, or the cache cannot be written.
    """
    top = Path(os.path.abspath(root))
    if is_torch(top):
        headers, arguments = list(_torch_headers(top)), _torch_arguments(top, cache_dir, toolchain)
    elif is_tensorflow(top):
        headers, arguments = list(_tensorflow_headers(top)), _tensorflow_arguments(top, cache_dir, toolchain)
    else:
        raise CompileDatabaseError("holds no headers of an installed framework", where=str(top))
    folder = _write_drivers(headers, cache_dir)
    commands, skipped = [], []
    for number, header in enumerate(headers):
        if header.driver.instances:
            source = str(folder / _driver_name(header))
            language = ("clang++", "-x", "cuda") if header.cuda else ("clang++",)
            words = (*language, *arguments[header.cuda], "-c", source)
            commands.append(CompileCommand(str(folder), source, words, None, "a driver of an installed header"))
        if header.driver.left_out:
            reason = f"not instantiated: {', '.join(header.driver.left_out)}"
            skipped.append(SkippedEntry(str(header.path), number, reason))
    instances = sum(header.driver.instances for header in headers)
    log(f"{instances} instantiations of {len(commands)} headers; {len(skipped)} headers hold templates that were not")
    return CompileDatabase(tuple(commands), tuple(skipped), f"headers of {top}")


def _torch_headers(top: Path) -> Iterator[_Header]:
    for folder in TORCH_FOLDERS:
        for path in sorted((top / folder).glob("*.*")):
            if path.suffix in (".h", ".cuh"):
                text = path.read_text(encoding="utf-8", errors="replace")
                cuda = folder.endswith("cuda") or (folder == "ATen/native" and bool(ON_DEVICE.search(text)))
                first = TORCH_FIRST_CUDA if cuda else TORCH_FIRST
                yield _header(path, str(path.relative_to(top)), text, PYTORCH, cuda, first)


def _torch_arguments(
    top: Path, cache_dir: str | os.PathLike[str], toolchain: Toolchain
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Arguments of host units, and of CUDA units."""
    stand_ins = extension.stand_ins(cache_dir, top.parent)
    search = ("-I", str(top), "-I", str(top / "torch/csrc/api/include"), "-idirafter", str(stand_ins))
    common = (f"-std={extension.standard_of(top.parent)}", *TORCH_DEFINES)
    host = tuple(part for folder in toolchain.cuda_include_dirs for part in ("-isystem", folder))
    return (*common, *TORCH_CPU, *search, *host), (*common, "-DUSE_CUDA", *extension.CUDA_MACROS, *search)


def _tensorflow_headers(top: Path) -> Iterator[_Header]:
    for path in sorted((top / "core/kernels").rglob("*.h")):
        name = str(path.relative_to(top.parent))
        if any(pattern.search(f"/{name}") for pattern, _ in tensorflow.LEFT_OUT) or "test" in path.name:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        cuda = bool(ON_DEVICE.search(text)) and not ON_HOST_ALONE.search(path.name)
        cuda = cuda and not (ON_HOST_ALONE.search(text) and not re.search(r"GpuDevice|GPUDevice|GOOGLE_CUDA", text))
        spelling, first = (TENSORFLOW_GPU, TENSORFLOW_FIRST_CUDA) if cuda else (TENSORFLOW_CPU, TENSORFLOW_FIRST)
        yield _header(path, name, text, spelling, cuda, first)


def _tensorflow_arguments(
    top: Path, cache_dir: str | os.PathLike[str], toolchain: Toolchain
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Arguments of host units, and of CUDA units."""
    searched = [cuda_folder(toolchain, cache_dir), *tensorflow.wheel_folders(top.parent), tensorflow.STAND_INS]
    search = tuple(part for folder in searched for part in ("-I", str(folder)))
    host = tuple(part for folder in toolchain.cuda_include_dirs for part in ("-isystem", folder))
    common = ("-std=c++17", *tensorflow.DEFINES, *tensorflow.OPTIONS, *search)
    return (*common, *host), common


def _header(path: Path, included: str, text: str, spelling: Spelling, cuda: bool, first: tuple[str, ...]) -> _Header:
    driver = make_driver(included, read_declarations(text), spelling, cuda=cuda, first=first)
    return _Header(path, included, cuda, driver)


def _driver_name(header: _Header) -> str:
    return f"{header.included}{'.cu' if header.cuda else '.cc'}"


def _write_drivers(headers: list[_Header], cache_dir: str | os.PathLike[str]) -> Path:
    def make(folder: Path) -> None:
        for header in (header for header in headers if header.driver.instances):
            source = folder / _driver_name(header)
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(header.driver.text, encoding="utf-8")

    digest = fingerprint([part for header in headers for part in (_driver_name(header), header.driver.text)])
    return generated(cache_dir, f"installed-{digest}", make)
