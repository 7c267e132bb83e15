"""Which folders of a source tree its ``#include`` lines need: read, never executed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

SOURCE_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c++", ".c")
HEADER_SUFFIXES = (".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl", ".inc", ".ipp", ".tpp", ".in", "")
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.M)
# Folders without sources of their own: build products, other people's code, tests of other things.
NOT_SOURCES = {
    "build", "dist", "out", "cmake-build-debug", "node_modules", "venv", ".venv", "site-packages", "__pycache__",
    "third_party", "third-party", "thirdparty", "3rdparty", "external", "externals", "submodules", "cutlass",
    "composable_kernel", "pybind11", "bazel-out", "hip", "rocm",
}  # fmt: skip
LARGEST_BYTES = 4 << 20


def find_sources(root: Path) -> list[Path]:
    """C, C++ and CUDA sources below ``root`` that are its own, sorted; ``root`` itself when it is a file."""
    if root.is_file():
        return [root]
    found = []
    for folder, name in _walk(root, NOT_SOURCES):
        wanted = name.endswith(SOURCE_SUFFIXES) and "_hip." not in name and not folder.name.startswith("bazel-")
        # A dangling link has nothing to read, and a pipe is never done.
        if wanted and (folder / name).is_file():
            found.append(folder / name)
    return sorted(found)


def include_folders(root: Path, sources: Sequence[Path], elsewhere: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Folders below ``root`` that make the sources' includes resolve, and the includes that stay unresolved.

    An include that stands beside its includer, or in a folder of ``elsewhere`` (the installed framework, CUDA),
    needs nothing. For the others every header below ``root`` whose path ends in the included one offers the folder
    in front; folders called ``include`` come first, then the shallower ones.
    """
    top = root if root.is_dir() else root.parent
    headers = _index_headers(top)
    folders: list[Path] = []
    unresolved: set[str] = set()
    pending, seen = list(sources), set(sources)
    while pending:
        source = pending.pop()
        for name in _includes_of(source):
            beside = Path(os.path.normpath(source.parent / name))
            resolved = beside if beside.is_file() else next((d / name for d in folders if (d / name).is_file()), None)
            if resolved is None and not any(os.path.isfile(os.path.join(place, name)) for place in elsewhere):
                resolved = _offer(name, headers, top, folders)
                if resolved is None:
                    unresolved.add(name)
            if resolved is not None and resolved not in seen and top in resolved.parents:
                seen.add(resolved)
                pending.append(resolved)
    return folders, sorted(unresolved)


def _offer(name: str, headers: dict[str, list[Path]], top: Path, folders: list[Path]) -> Path | None:
    """The header below ``top`` that ``name`` means; the folder in front of it is added to ``folders``."""
    parts = Path(name).parts
    if not parts or ".." in parts or Path(name).is_absolute():
        return None
    matching = [path for path in headers.get(parts[-1], []) if path.parts[-len(parts) :] == parts]
    if not matching:
        return None

    def rank(path: Path) -> tuple[bool, int, str]:
        folder = path.parents[len(parts) - 1]
        return folder.name != "include", len(folder.parts), str(folder)

    best = min(matching, key=rank)
    folder = best.parents[len(parts) - 1]
    if folder not in folders and (folder == top or top in folder.parents):
        folders.append(folder)
    return best


def _index_headers(top: Path) -> dict[str, list[Path]]:
    index: dict[str, list[Path]] = {}
    for folder, name in _walk(top, {"build", "dist", "venv", ".venv", "node_modules", "site-packages"}):
        if os.path.splitext(name)[1] in (*HEADER_SUFFIXES, *SOURCE_SUFFIXES):
            index.setdefault(name, []).append(folder / name)
    return index


def _includes_of(path: Path) -> Iterable[str]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_BYTES:
            return []
        content = path.read_bytes()
    except OSError:
        return []
    return [os.fsdecode(name) for _, name in INCLUDE.findall(content) if b"\0" not in name]


def _walk(top: Path, without: set[str]) -> Iterator[tuple[Path, str]]:
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(
            name for name in folders
            if name not in without and not name.startswith(".") and not name.endswith(".egg-info")
        )  # fmt: skip
        for name in sorted(files):
            yield Path(folder), name
