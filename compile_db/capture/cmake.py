"""Where a CMake (or any other) build left its compile database."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "compile_commands.json"
USUAL = ("", "build", "out", "_build", "Build", "build/release", "build/debug", "cmake-build-release",
         "cmake-build-debug", "out/build", "build/Release", "build/Debug", "build/RelWithDebInfo")  # fmt: skip


def find_databases(root: str | os.PathLike[str]) -> list[str]:
    """Compile databases at the usual places below ``root``, newest first."""
    top = Path(os.path.abspath(root))
    places = [top / folder / NAME for folder in USUAL]
    places += (
        sorted(top.glob(f"build*/{NAME}"))
        + sorted(top.glob(f"cmake-build*/{NAME}"))
        + sorted(top.glob(f"build/*/{NAME}"))
    )
    found: dict[Path, str] = {}
    for place in places:
        if place.is_file():
            found.setdefault(place.resolve(), str(place))
    return sorted(found.values(), key=lambda path: (-os.path.getmtime(path), path))
