"""From compile commands to function instances: the only room that knows clang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compile_db import ClangCommand
from opscanner.frontend import libclang
from opscanner.frontend.pool import Pool, make_groups
from opscanner.ir import UnitResult

__all__ = ["library_versions", "scan_units"]


def scan_units(
    commands: Sequence[ClangCommand],
    root: str,
    *,
    jobs: int = 1,
    precompiled_header: bool = True,
    cache_dir: str,
    timeout_s: float = 600.0,
    memory_mib: int = 4096,
) -> Iterator[UnitResult]:
    """Scan translation units over worker processes.

    Parameters
    ----------
    commands : sequence of ClangCommand
        What to parse, as :func:`compile_db.translate` gives it.
    root : str
        Absolute path; functions written below it are followed.
    jobs : int
        Worker processes.
    precompiled_header : bool
        Make one for every group of units with equal arguments.
    cache_dir : str
        Where precompiled headers are kept.
    timeout_s, memory_mib : float, int
        What one unit may take, of CPU time (see ``pool``) and of memory; past it it is skipped with that reason.

    Yields
    ------
    UnitResult
        As units finish, one for every command. Closing the generator stops the workers.

    Raises
    ------
    FrontendError
        There is no usable libclang.
    """
    libclang.load()
    pool = Pool(
        root.rstrip("/"), max(1, jobs), cache_dir, timeout_s, memory_mib, make_groups(commands, precompiled_header)
    )
    yield from pool.run()


def library_versions() -> dict[str, str]:
    """Versions of what the frontend stands on: libclang itself, and the packages that brought it."""
    return {"libclang": libclang.version(), **libclang.installed_packages()}
