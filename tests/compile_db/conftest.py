"""A toolchain that does not depend on this machine, for tests of pure translation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compile_db.toolchain import Toolchain

sys.path.insert(0, str(Path(__file__).parent))  # parsing.py, the tests' own module


@pytest.fixture
def plain_toolchain() -> Toolchain:
    return Toolchain(
        cuda_version="12.4",
        cuda_include_dirs=("/cuda/include",),
        cuda_root=None,
        libdevice=None,
        resource_dir="/clang/resource",
        cxx_include_dirs=(),
        c_include_dirs=(),
        findings=(),
        llvm_major=22,
    )
