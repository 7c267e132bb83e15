"""Run a command and say what it cost; find the sources, the commands and the clang that benchmarks use."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).resolve().parent.parent
DONE_IN_PART = 3  # opscanner's exit code when something was skipped
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Cost:
    """What a command and every process that it started used.

    Parameters
    ----------
    cpu_s : float
        User and system time of all of them.
    elapsed_s : float
    peak_mib : float
        Largest resident set of any single one.
    """

    cpu_s: float
    elapsed_s: float
    peak_mib: float


def cost_of(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    accepted: Sequence[int] = (0, DONE_IN_PART),
    log: IO[bytes] | None = None,
) -> Cost:
    """Run ``command`` to its end, and count its descendants too, waited for by it or not.

    Its output goes to ``log``, or else to stderr.

    Raises
    ------
    SystemExit
        Its exit code is none of those ``accepted``; opscanner's 3 says that something was skipped, and what.
    """
    # Orphans (a pool's fork server outlives its parent) become our children, so that wait4 tells their share as well.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=log or sys.stderr,
        stderr=log or sys.stderr,
    )
    cpu_s, peak_kib, status = 0.0, 0, 0
    try:
        while True:
            try:
                pid, waited, usage = os.wait4(-1, 0)
            except ChildProcessError:
                break
            cpu_s += usage.ru_utime + usage.ru_stime
            peak_kib = max(peak_kib, usage.ru_maxrss)
            if pid == process.pid:
                status = process.returncode = os.waitstatus_to_exitcode(waited)
    except BaseException:
        process.send_signal(signal.SIGINT)
        raise
    if status not in accepted:
        sys.exit(f"{' '.join(command[:4])} ... ended with {status}")
    return Cost(cpu_s, time.monotonic() - start, peak_kib / 1024)


def sources(name: str, folder: str) -> Path:
    """Where release ``name`` is unpacked, brought first when it is not there."""
    destination = Path(os.environ.get("OPSCANNER_SOURCES") or "~/.cache/opscanner-sources").expanduser()
    script = REPOSITORY / "scripts" / "get_sources.sh"
    subprocess.run([script, destination, name], check=True, env={**os.environ, "PYTHON": sys.executable})
    return destination / folder


def opscanner_program() -> str:
    """The command of this interpreter's own environment."""
    return str(Path(sys.executable).with_name("opscanner"))


#: Release whose units a ground truth names, and the folder it unpacks to, by framework.
RELEASES = {"pytorch": ("pytorch-2.6.0", "pytorch-v2.6.0"), "tensorflow": ("tensorflow-2.14.1", "tensorflow-2.14.1")}


def framework_of(units: Iterable[str]) -> str:
    """``tensorflow`` for its kernels, else ``pytorch``."""
    return "tensorflow" if any(unit.startswith("tensorflow/") for unit in units) else "pytorch"


def scan_command(root: Path, units: Iterable[str], database: str, *more: str) -> list[str]:
    """``opscanner scan`` of exactly ``units``."""
    only = [word for unit in units for word in ("--only", unit)]
    return [opscanner_program(), "scan", str(root), "--framework", framework_of(units), "--db", database, *only, *more]


def read_json(*arguments: str) -> str:
    """What an ``opscanner`` command prints with ``--format json``."""
    command = [opscanner_program(), *arguments, "--format", "json"]
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout


def newest_clang() -> str:
    """``clang++`` of the highest version on PATH or where Debian keeps them.

    Raises
    ------
    SystemExit
        There is none.
    """
    found: dict[int, str] = {}
    for path in (*Path("/usr/lib").glob("llvm-*/bin/clang++"), shutil.which("clang++")):
        if path is None or not os.access(path, os.X_OK):
            continue
        text = subprocess.run([path, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
        if version := re.search(r"clang version (\d+)", text):
            found.setdefault(int(version[1]), str(path))
    if not found:
        sys.exit("no clang++ to compare with\n  try: apt-get install clang-19, or any newer one")
    return found[max(found)]
