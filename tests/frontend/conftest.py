"""Scans of snippets of about ten lines. They need no CUDA: the stand-in headers of ``compile_db/shim`` serve."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from compile_db import Toolchain

sys.path.insert(0, str(Path(__file__).parent))  # snippets.py, the tests' own module

from snippets import TORCH_TYPES, Scan, Scanned, command_for, scan_file


@pytest.fixture(scope="session")
def shim(toolchain: Toolchain) -> Toolchain:
    """This machine's toolchain as if it had no CUDA: snippets parse in milliseconds, everywhere alike."""
    return dataclasses.replace(toolchain, cuda_version=None, cuda_include_dirs=(), cuda_root=None, libdevice=None)


@pytest.fixture
def scan(tmp_path: Path, shim: Toolchain) -> Scan:
    """Scans a snippet: ``scan(text, name="unit.cu", files={"more.h": ...})``."""

    def scan(
        text: str,
        name: str = "unit.cu",
        files: Mapping[str, str] | None = None,
        arguments: tuple[str, ...] = TORCH_TYPES,
        cuda_pass: str = "device",
        standard: str = "c++17",
        toolchain: Toolchain = shim,
    ) -> Scanned:
        root = tmp_path / "root"
        texts = {file: textwrap.dedent(content).lstrip("\n") for file, content in {name: text, **(files or {})}.items()}
        for file, content in texts.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(content)
        command = command_for(root / name, toolchain, *arguments, cuda_pass=cuda_pass, standard=standard)
        return Scanned(scan_file(root, command), texts)

    return scan


@pytest.fixture
def golden(scan: Scan) -> Scan:
    """Scans a snippet and holds its casts against its comments."""

    def golden(text: str, *arguments: object, **options: object) -> Scanned:
        return scan(text, *arguments, **options).check()

    return golden


@pytest.fixture(scope="session")
def torch_headers() -> str:
    """Include folder of the installed torch, found without importing it."""
    spec = importlib.util.find_spec("torch")
    folders = [Path(place, "include") for place in (spec.submodule_search_locations or () if spec else ())]
    found = [str(folder) for folder in folders if (folder / "c10/util/Half.h").is_file()]
    if not found:
        pytest.skip("TORCH IS NOT INSTALLED: nothing was tried on its own headers")
    return found[0]
