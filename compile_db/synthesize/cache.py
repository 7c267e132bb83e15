"""A folder of generated files: whole or not there at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from compile_db.errors import CompileDatabaseError


def generated(cache_dir: str | os.PathLike[str], name: str, make: Callable[[Path], None]) -> Path:
    """``cache_dir/name``, made by ``make`` if it is not there yet.

    ``name`` must say what the content depends on. ``make`` fills a temporary folder beside it, which is then renamed:
    a process that is killed, or two at a time, leave nothing half-written.

    Raises
    ------
    CompileDatabaseError
        The cache folder cannot be written.
    """
    final = Path(os.path.abspath(cache_dir), name)
    if final.is_dir():
        return final
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=final.parent))
    except OSError as error:
        raise CompileDatabaseError(
            f"cannot write the cache: {error.strerror}", where=os.fspath(cache_dir),
            hint="give a writable folder (OPSCANNER_CACHE, or XDG_CACHE_HOME)",
        ) from error  # fmt: skip
    try:
        make(temporary)
        temporary.chmod(0o755)
        try:
            temporary.rename(final)
        except OSError:
            if not final.is_dir():  # another process may have been quicker
                raise
    except OSError as error:
        raise CompileDatabaseError(
            f"cannot write {error.filename}: {error.strerror}", where=os.fspath(cache_dir), hint="free some space"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final
