"""Lines of the scanned sources, read when they are shown: the database holds facts and no source text."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

#: Characters of a line that are shown.
WIDTH = 100
#: A larger file is no source that a person wrote.
_LARGEST = 1 << 26


class SourceLines:
    """Reads each file once, and only while it is as long as it was when it was scanned.

    Parameters
    ----------
    root : str
        Scanned folder; relative paths are relative to it.
    sizes : mapping of str to int or None
        Bytes of each file when it was scanned; a file that is not in it, or with None, is not read.
    """

    def __init__(self, root: str, sizes: Mapping[str, int | None]) -> None:
        self.root = root
        self.sizes = sizes
        self._lines: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """A line (from 1) without its margins, on at most ``WIDTH`` columns; empty when the file is gone or changed.

        Control characters become blanks: a scanned checkout may come from anyone, and they could move a cursor.
        """
        if file not in self._lines:
            self._lines[file] = self._read(file)
        lines = self._lines[file]
        if not 0 < number <= len(lines):
            return ""
        text = " ".join("".join(sign if sign.isprintable() else " " for sign in lines[number - 1]).split())
        return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"

    def _read(self, file: str) -> list[str]:
        size = self.sizes.get(file)
        if size is None or size > _LARGEST:
            return []
        try:
            # Not blocking: what was a file may be a pipe by now.
            descriptor = os.open(os.path.join(self.root, file), os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, "rb") as stream:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                    return []
                return stream.read(size).decode("utf-8", "replace").split("\n")
        except (OSError, ValueError):
            return []
