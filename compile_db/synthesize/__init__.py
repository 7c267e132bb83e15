"""Compile databases for trees that nobody has built: which kind a tree is, and who synthesizes that kind."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from compile_db.database import CompileDatabase
from compile_db.errors import CompileDatabaseError
from compile_db.synthesize import extension, installed, pytorch, sources, tensorflow
from compile_db.synthesize.includes import find_sources
from compile_db.toolchain import Toolchain


class Synthesizer(Protocol):
    """Makes a compile database; writes below ``cache_dir`` only."""

    def __call__(
        self,
        root: str | os.PathLike[str],
        cache_dir: str | os.PathLike[str],
        toolchain: Toolchain,
        log: Callable[[str], None] = ...,
    ) -> CompileDatabase: ...


SYNTHESIZERS: dict[str, Synthesizer] = {
    "pytorch": pytorch.synthesize,
    "tensorflow": tensorflow.synthesize,
    "torch_extension": extension.synthesize,
    "installed": installed.synthesize,
    "sources": sources.synthesize,
}


def detect(root: str | os.PathLike[str]) -> str:
    """The kind of tree: ``pytorch``, ``tensorflow``, ``installed``, ``torch_extension`` or ``sources``."""
    top = Path(root)
    if installed.is_installed(top):
        return "installed"
    if (top / "aten/src/ATen/native/native_functions.yaml").is_file():
        return "pytorch"
    if (top / "tensorflow/core/kernels").is_dir() and (top / "tensorflow/tensorflow.bzl").is_file():
        return "tensorflow"
    for name in ("setup.py", "pyproject.toml"):
        script = top / name
        if script.is_file() and re.search(rb"cpp_extension|CUDAExtension|CppExtension", script.read_bytes()):
            return "torch_extension"
    includes_torch = re.compile(rb'#[ \t]*include[ \t]*[<"](torch|ATen|c10)/')
    for path in find_sources(top)[:200] if top.exists() else ():
        if includes_torch.search(_beginning(path)):
            return "torch_extension"
    return "sources"


def _beginning(path: Path) -> bytes:
    """The first 64 KiB of a file; nothing of one that cannot be read, which becomes a skipped unit later."""
    try:
        with path.open("rb") as stream:
            return stream.read(1 << 16)
    except OSError:
        return b""


def synthesize(
    root: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str],
    toolchain: Toolchain,
    log: Callable[[str], None] = lambda message: None,
    kind: str = "auto",
) -> CompileDatabase:
    """The compile database of an unbuilt tree, of the kind given or detected.

    Raises
    ------
    CompileDatabaseError
        The tree is missing, nothing synthesizes its kind, or its synthesizer cannot do it.
    """
    if not os.path.exists(root):
        raise CompileDatabaseError("does not exist", where=os.fspath(root), hint="check the path")
    chosen = detect(root) if kind == "auto" else kind
    if chosen not in SYNTHESIZERS:
        raise CompileDatabaseError(f"nothing synthesizes the kind {chosen!r}", hint=f"one of {', '.join(SYNTHESIZERS)}")
    return SYNTHESIZERS[chosen](root, cache_dir, toolchain, log)
