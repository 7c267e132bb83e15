"""Compile commands from builds: what CMake left, what Bazel answers, what a build printed."""

from __future__ import annotations

import os
from pathlib import Path

from compile_db.capture.bazel import read_aquery
from compile_db.capture.build_log import read_log
from compile_db.capture.cmake import find_databases
from compile_db.database import CompileDatabase, load

__all__ = ["find_databases", "read_any", "read_aquery", "read_log"]


def read_any(path: str | os.PathLike[str], root: str | os.PathLike[str]) -> CompileDatabase:
    """The compile commands of a file of any known kind, told by its content: JSON list, aquery JSON, or a log.

    Raises
    ------
    CompileDatabaseError
        As the reader of that kind does.
    """
    place = Path(path)
    if not place.is_file():
        return load(place, root)
    with place.open("rb") as stream:
        start = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        return read_aquery(place, root)
    if (
        place.suffix == ".json"
        or start.startswith((b"[{", b"[\n", b"[\r", b"[ ", b"\xff\xfe", b"\xfe\xff"))
        or not start
    ):
        return load(place, root)
    return read_log(place, root)
