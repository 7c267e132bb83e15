"""A whole Python script, watched while it runs as ``python script.py`` would run it."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscanner.dynamic.running.session import watch
from opscanner.errors import UsageError
from opscanner.watched import WatchReport


@dataclass(frozen=True)
class WatchedScript:
    """What a script did, and how it ended.

    Parameters
    ----------
    error : BaseException or None
        What the script raised; its exit with status 0 is none.
    """

    report: WatchReport
    error: BaseException | None


def watch_script(
    script: str, arguments: Sequence[str] = (), *, is_module: bool = False, **options: Any
) -> WatchedScript:
    """Runs a script, or with ``is_module`` a module as ``python -m`` does, inside :func:`watch`.

    What the script prints goes to stderr: stdout is for the report.

    Raises
    ------
    UsageError
        When there is no such script; for options that :func:`watch` refuses.
    """
    if not is_module and not Path(script).is_file():
        raise UsageError(f"there is no script {script}", "opscanner watch SCRIPT.py -- ARGUMENTS")
    with watch(**options) as report:
        error = _run(script, arguments, is_module)
    return WatchedScript(report, error)


def _run(script: str, arguments: Sequence[str], is_module: bool) -> BaseException | None:
    process = os.getpid()
    earlier_arguments, earlier_path = sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path[0:0] = [""] if is_module else [str(Path(script).resolve().parent)]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if is_module:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if os.getpid() != process:  # a child that the script forked: the report is its parent's
            raise
        return ended if ended.code else None
    except BaseException as error:  # noqa: BLE001 - the script's own, told of after what was seen until then
        return error
    finally:
        sys.argv, sys.path[:] = earlier_arguments, earlier_path
    return None
