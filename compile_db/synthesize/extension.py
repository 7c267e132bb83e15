"""A compile database for an unbuilt torch extension: a folder with ``setup.py`` and C++ or CUDA sources.

The installed torch's headers serve (found, not imported); ``setup.py`` is parsed for macros, never executed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sysconfig
from collections.abc import Callable
from pathlib import Path

from compile_db.database import CompileDatabase, make_command
from compile_db.errors import CompileDatabaseError
from compile_db.synthesize.cache import generated
from compile_db.synthesize.includes import include_folders
from compile_db.synthesize.setup_script import macros_and_standard
from compile_db.synthesize.sources import missing_headers, sources_or_error
from compile_db.toolchain import Toolchain

# torch/utils/cpp_extension.py: COMMON_NVCC_FLAGS. An extension's own -U… come after and win.
CUDA_MACROS = (
    "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)  # fmt: skip
TORCH_MACROS = ("-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=extension")
# A CPU wheel of torch lacks these. They are what a CUDA build of torch has, without cuDNN and MAGMA.
MISSING_IN_CPU_WHEELS = {
    "c10/cuda/impl/cuda_cmake_macros.h": "#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n",
    "ATen/cuda/CUDAConfig.h": (
        "#pragma once\n#define AT_CUDNN_ENABLED() 0\n#define AT_CUSPARSELT_ENABLED() 0\n"
        "#define AT_HIPSPARSELT_ENABLED() 0\n"
        "#define AT_ROCM_ENABLED() 0\n#define AT_MAGMA_ENABLED() 0\n#define NVCC_FLAGS_EXTRA \"\"\n"
    ),
}  # fmt: skip
GENERATED = "torch-extension-1"


def synthesize(
    root: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str],
    toolchain: Toolchain,
    log: Callable[[str], None] = lambda message: None,
    *,
    extra_site_packages: tuple[str, ...] = (),
) -> CompileDatabase:
    """One command for each source of the extension; all CUDA sources get equal arguments.

    Raises
    ------
    CompileDatabaseError
        No torch is installed, the folder holds no source, or the cache cannot be written.
    """
    top = Path(os.path.abspath(root))
    sources = sources_or_error(top)
    torch = find_torch(extra_site_packages)
    if torch is None:
        raise CompileDatabaseError(
            "its sources include torch's headers, and no torch is installed", where=str(top),
            hint="pip install torch (the CPU wheel will do)",
        )  # fmt: skip
    borrowed = stand_ins(cache_dir, torch)
    torch_dirs = [str(torch / "include"), str(torch / "include/torch/csrc/api/include")]
    elsewhere = [*torch_dirs, str(borrowed), *toolchain.cuda_include_dirs, *toolchain.cxx_include_dirs,
                 *toolchain.c_include_dirs, sysconfig.get_path("include")]  # fmt: skip
    folders, unresolved = include_folders(top, sources, elsewhere)
    macros, standard = macros_and_standard(top / "setup.py")
    if macros:
        log(f"macros that setup.py names: {' '.join(macros)}")
    search = [argument for folder in [*map(str, folders), *torch_dirs] for argument in ("-I", folder)]
    search += ["-isystem", sysconfig.get_path("include"), "-idirafter", str(borrowed)]
    if any(path.suffix == ".cu" for path in sources):  # CUDAExtension gives them to host sources too
        search += [part for folder in toolchain.cuda_include_dirs for part in ("-isystem", folder)]
    language = f"-std={max(standard or '', standard_of(torch))}"
    commands = []
    for path in sources:
        is_cuda = path.suffix == ".cu"
        arguments = ["nvcc" if is_cuda else "c++", language, *TORCH_MACROS, *(CUDA_MACROS if is_cuda else ())]
        arguments += [*macros, *search, "-c", str(path)]
        commands.append(make_command(str(top), str(path), tuple(arguments), None, "synthesized for a torch extension"))
    return CompileDatabase(tuple(commands), missing_headers(unresolved, log), f"synthesized for {top}")


def find_torch(extra_site_packages: tuple[str, ...] = ()) -> Path | None:
    """The installed torch's folder; torch is not imported."""
    places = [Path(place, "torch") for place in extra_site_packages]
    spec = importlib.util.find_spec("torch")
    places += [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    return next((place for place in places if (place / "include").is_dir()), None)


def stand_ins(cache_dir: str | os.PathLike[str], torch: Path) -> Path:
    """A folder with the headers that this torch lacks when it is a CPU wheel."""
    missing = {name: text for name, text in MISSING_IN_CPU_WHEELS.items() if not (torch / "include" / name).is_file()}

    def make(folder: Path) -> None:
        for name, text in missing.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")

    return generated(cache_dir, f"{GENERATED}-{len(missing)}", make)


def standard_of(torch: Path) -> str:
    """The standard that this torch's extensions are compiled with: ``c++17`` up to 2.10, ``c++20`` later."""
    script = torch / "utils" / "cpp_extension.py"
    text = script.read_text(encoding="utf-8", errors="replace") if script.is_file() else ""
    return max(re.findall(r"-std=(c\+\+\d\d)", text), default="c++17")
