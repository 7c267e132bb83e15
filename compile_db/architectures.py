"""GPU architectures: which of those in a command clang shall take."""

from __future__ import annotations

import re
from collections.abc import Iterable

DEFAULT_ARCHITECTURE = "sm_80"

# First LLVM release that knows the architecture (clang/lib/Basic/OffloadArch.cpp and its predecessor Cuda.cpp).
# An architecture that libclang does not know makes the parse fail without a diagnostic.
FIRST_LLVM = {
    50: 14, 52: 14, 53: 14, 60: 14, 61: 14, 62: 14, 70: 14, 72: 14, 75: 14, 80: 14, 86: 14, 87: 16, 89: 16, 90: 16,
    100: 20, 101: 20, 103: 21, 120: 20, 121: 21,
}  # fmt: skip
SPELLING = re.compile(r"^(?:sm|compute|lto)_(\d{2,3})([af]?)$")


def newest_known(spellings: Iterable[str], llvm_major: int | None = None) -> str | None:
    """The newest of ``spellings`` as ``sm_XX`` that this libclang knows; older where it does not know one.

    ``["compute_70", "sm_86"]`` gives ``sm_86``; ``["sm_120a"]`` gives ``sm_90`` with LLVM 18, whose last one that is.
    Nothing recognisable gives None. The suffixes ``a`` and ``f`` are left out: they add instructions, no type.
    """
    numbers = [int(found[1]) for found in map(SPELLING.match, spellings) if found]
    if not numbers:
        return None
    known = [number for number, first in FIRST_LLVM.items() if llvm_major is None or first <= llvm_major]
    wanted = max(numbers)
    return f"sm_{max((number for number in known if number <= wanted), default=min(known))}"


def in_specification(text: str) -> list[str]:
    """Architectures in a value of ``-gencode`` or ``-code``: ``arch=compute_80,code=[sm_80,compute_80]``."""
    return re.findall(r"\b(?:sm|compute|lto)_\d{2,3}[af]?\b", text)
