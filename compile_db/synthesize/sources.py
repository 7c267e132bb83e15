"""A compile database for a folder, or a single file, of which no build is known."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from compile_db.database import CompileDatabase, SkippedEntry, make_command
from compile_db.errors import CompileDatabaseError
from compile_db.synthesize.includes import find_sources, include_folders
from compile_db.toolchain import Toolchain

STANDARD = "c++17"


def synthesize(
    root: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str],
    toolchain: Toolchain,
    log: Callable[[str], None] = lambda message: None,
) -> CompileDatabase:
    """One command for each source below ``root``; include folders are worked out from the ``#include`` lines.

    Raises
    ------
    CompileDatabaseError
        ``root`` does not exist, or holds no C, C++ or CUDA source.
    """
    top = Path(os.path.abspath(root))
    sources = sources_or_error(top)
    elsewhere = (*toolchain.cuda_include_dirs, *toolchain.cxx_include_dirs, *toolchain.c_include_dirs)
    folders, unresolved = include_folders(top, sources, elsewhere)
    directory = str(top if top.is_dir() else top.parent)
    search = tuple(argument for folder in folders for argument in ("-I", str(folder)))
    commands = tuple(
        make_command(directory, str(path), ("c++", *_standard(path), *search, "-c", str(path)), None, "no build known")
        for path in sources
    )
    return CompileDatabase(commands, missing_headers(unresolved, log), f"synthesized for {top}")


def sources_or_error(top: Path) -> list[Path]:
    """The sources below ``top``; an error when there are none."""
    if not top.exists():
        raise CompileDatabaseError("does not exist", where=str(top), hint="check the path")
    sources = find_sources(top)
    if not sources:
        raise CompileDatabaseError(
            "holds no C, C++ or CUDA source", where=str(top), hint="give the folder of the sources"
        )
    return sources


def missing_headers(unresolved: list[str], log: Callable[[str], None]) -> tuple[SkippedEntry, ...]:
    """A note for each include that names a header which is nowhere, as far as its name tells a library."""
    skipped = tuple(SkippedEntry(name, None, "this header was found nowhere") for name in unresolved if "/" in name)
    if skipped:
        log(f"{len(skipped)} headers were found nowhere, among them {skipped[0].file}")
    return skipped


def _standard(path: Path) -> tuple[str, ...]:
    return () if path.suffix == ".c" else (f"-std={STANDARD}",)
