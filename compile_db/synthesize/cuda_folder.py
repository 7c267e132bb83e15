"""CUDA's headers under the paths that TensorFlow includes them by."""

from __future__ import annotations

import os
from pathlib import Path

from compile_db.synthesize.cache import generated
from compile_db.synthesize.tensorflow_headers import fingerprint
from compile_db.toolchain import Toolchain

# Libraries whose headers Bazel's repositories place elsewhere than a toolkit does.
MOVED = {"cudnn.h": "third_party/gpus/cudnn/cudnn.h", "nccl.h": "third_party/nccl/nccl.h"}
# What third_party/gpus/cuda_configure.bzl would write. The values only choose libraries to load at run time.
CUDA_CONFIG = "third_party/gpus/cuda/cuda_config.h"
COMPUTE_CAPABILITIES = "CudaVersion(8, 0)"


def cuda_folder(toolchain: Toolchain, cache_dir: str | os.PathLike[str]) -> Path:
    """A folder in which ``third_party/gpus/cuda/include/cuda.h`` and its neighbours are links to this machine's CUDA.

    cuDNN and NCCL stand beside it where the machine has them, as Bazel's repositories place them. Links, not copies:
    clang knows a file by its inode, so a header that is included by both of its names is read once.
    """
    shim = Path(toolchain.shim_dir)
    rest = shim / ("cuda_libraries" if toolchain.cuda_version else "no_cuda")
    folders = [*map(Path, toolchain.cuda_include_dirs), rest]
    found = _files_of(folders)
    version = toolchain.cuda_version or "12.0"
    config = _cuda_config(version)
    digest = fingerprint([config, *(f"{name}={path}" for name, path in sorted(found.items()))])

    def make(folder: Path) -> None:
        for name, path in found.items():
            _link(folder / "third_party/gpus/cuda/include" / name, path)
        for name, place in MOVED.items():
            if name in found:
                _link(folder / place, found[name])
        (folder / CUDA_CONFIG).write_text(config, encoding="utf-8")

    return generated(cache_dir, f"tensorflow-cuda-{version}-{digest}", make)


def _files_of(folders: list[Path]) -> dict[str, Path]:
    """Files below the folders by their path in them; the first folder that has one wins."""
    found: dict[str, Path] = {}
    for top in folders:
        for folder, _, files in os.walk(top):
            for file in files:
                found.setdefault(os.path.relpath(os.path.join(folder, file), top), Path(folder, file))
    return found


def _link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target.resolve())


def _cuda_config(version: str) -> str:
    libraries = ("CUDA", "CUDART", "CUPTI", "CUBLAS", "CUSOLVER", "CURAND", "CUFFT", "CUSPARSE", "CUDNN")
    lines = [f'#define TF_{library}_VERSION "{version.partition(".")[0]}"' for library in libraries]
    return "\n".join([
        "#ifndef CUDA_CUDA_CONFIG_H_", "#define CUDA_CUDA_CONFIG_H_", *lines, '#define TF_CUDA_TOOLKIT_PATH ""',
        f"#define TF_CUDA_COMPUTE_CAPABILITIES {COMPUTE_CAPABILITIES}", "#endif", "",
    ])  # fmt: skip
