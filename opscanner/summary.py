"""Summaries of scans: the one that comes with opscanner, unpacked at first use, and writing others."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from opscanner.errors import OpscannerError, UsageError
from opscanner.graph import summarize
from opscanner.operators.pairs import data_folder
from opscanner.results import SummarizedScan
from opscanner.scanning import default_cache_dir

#: What ``--db`` takes instead of a file: the summary that comes with opscanner.
RESERVED_NAME = "summary"
_FILE = "summary.sqlite.xz"
_PACKED = ".xz"


def packed_summary() -> Path:
    """The packed summary that comes with opscanner, in a checkout or an installed wheel.

    Raises
    ------
    OpscannerError
        When it is not there.
    """
    path = data_folder() / _FILE
    if not path.is_file():
        raise OpscannerError(
            f"there is no {path}, the summary that --db {RESERVED_NAME} means",
            "get it with a clone of the repository, or scan: opscanner scan ROOT",
        )
    return path


def open_summary(packed: Path | None = None) -> str:
    """The summary as a database file; unpacked at first use, into the cache.

    The file in the cache is named by the hash of the packed one: a newer release of opscanner unpacks its own, and two
    processes that unpack at the same time write the same.

    Raises
    ------
    OpscannerError
        When it is not there, broken, or the cache cannot be written.
    """
    packed = packed or packed_summary()
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:16]
    folder = Path(default_cache_dir()) / "summary"
    unpacked = folder / f"{digest}.sqlite"
    if not unpacked.is_file():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _replace(unpacked, lambda temporary: _unpack(packed, temporary))
        except OSError as error:
            raise OpscannerError(
                f"cannot unpack {packed} into {folder}: {error.strerror or error}",
                "OPSCANNER_CACHE with a folder you may write",
            ) from error
    return str(unpacked)


def write_summary(target: Path, databases: Sequence[str]) -> list[SummarizedScan]:
    """Writes the facts of the databases' finished scans into ``target``, packed when its name ends in ``.xz``.

    Raises
    ------
    UsageError
        When ``target`` is there, a scan is not finished, or a database is a summary itself.
    OpscannerError
        When ``target`` cannot be written, or a database not be read.
    """
    if target.exists():
        raise UsageError(f"{target} is there already", "delete it, or name another file")
    scans: list[SummarizedScan] = []

    def write(temporary: Path) -> None:
        if target.suffix != _PACKED:
            scans.extend(summarize.summarize(databases, temporary))
            return
        with tempfile.TemporaryDirectory(dir=temporary.parent) as folder:
            plain = Path(folder) / "summary.sqlite"
            scans.extend(summarize.summarize(databases, plain))
            with plain.open("rb") as source, lzma.open(temporary, "wb", preset=9) as packed:
                shutil.copyfileobj(source, packed, 1 << 20)

    try:
        _replace(target, write)
    except OSError as error:
        raise OpscannerError(
            f"cannot write {target}: {error.strerror or error}", "name a place you may write"
        ) from error
    return scans


def _unpack(packed: Path, temporary: Path) -> None:
    try:
        with lzma.open(packed) as source, temporary.open("wb") as plain:
            shutil.copyfileobj(source, plain, 1 << 20)
    except (lzma.LZMAError, EOFError) as error:
        hint = "get the file anew: it is broken or cut short"
        raise OpscannerError(f"{packed} cannot be unpacked: {error}", hint) from error


def _replace(target: Path, write: Callable[[Path], None]) -> None:
    """Has a file written beside ``target``, and puts it there when it is whole."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        temporary = Path(folder) / target.name
        write(temporary)
        os.replace(temporary, target)
