"""Worker processes with limits: a task that hangs, aborts or outgrows its memory is lost alone, and says how.

A worker is a fresh interpreter, as in ``frontend/pool.py``: unlike ``multiprocessing``'s it does not import the
caller's main module, and its number, error output and exit code are at hand when a task is lost. (The pool of pebble
5.2 gives neither for a task that took too long, and breaks when a worker dies before its first message was read.)
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from opscanner.frameworks.refusals import text_of
from opscanner.frameworks.runners import FRAMEWORKS, runner_of
from opscanner.measurements import Status

_START = "import sys; from opscanner.dynamic.workers import serve; serve(sys.argv[1])"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
#: Imports of frameworks do not count as a task's time; a worker that needs longer than this for them is given up.
_START_LIMIT_S = 600.0
_TAIL_LINES, _TAIL_CHARACTERS = 15, 2000
_WANT_OF_MEMORY = re.compile(
    r"MemoryError|bad_alloc|can't allocate memory|[Cc]annot allocate memory|out of memory|ResourceExhausted"
)
#: One thread a worker: with more, OpenMP's barriers took 2,000 times the time of small operators on a busy machine.
_ENVIRONMENT = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"), "1"
    ),
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # else the first worker takes the whole GPU
}  # fmt: skip


class Work(Protocol):
    """What a worker can be given."""

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Frameworks that are imported, and told to use one thread, before the task's time begins."""


@dataclass(frozen=True)
class Ended:
    """How a task ended: with rows, or lost (``status`` says how, ``message`` with the last of the error output)."""

    task: Any
    status: Status
    rows: list[Any]
    message: str
    elapsed_s: float


@dataclass
class _Process:
    process: subprocess.Popen[bytes]
    connection: Connection
    output: Path
    task: Any = None
    began_s: float = 0.0
    prepared: bool = False  # frameworks are imported: the task's time runs
    output_before: int = 0
    tasks: int = 0


class Workers:
    """A pool of worker processes; a context manager, which leaves none behind.

    Parameters
    ----------
    function : callable
        Makes a list of rows of a task; from a module, because workers import it.
    time_limit_s : float
        For one task, by the clock, imports of frameworks left out.
    memory_limit_mib : int or None
        Limit of a worker's data (RLIMIT_DATA: heap and private mappings); None for no limit, as GPUs need.
    recycle_after : int
        Tasks after which a worker is replaced by a fresh one.
    """

    def __init__(
        self,
        function: Callable[[Any], list[Any]],
        *,
        jobs: int,
        time_limit_s: float,
        memory_limit_mib: int | None,
        recycle_after: int,
    ) -> None:
        self._function = pickle.dumps(function)
        self._jobs = jobs
        self._time_limit_s = time_limit_s
        self._memory_limit_mib = memory_limit_mib
        self._recycle_after = recycle_after
        self._processes: list[_Process] = []
        self._started = 0

    def __enter__(self) -> Workers:
        self._folder = tempfile.TemporaryDirectory(prefix="opscanner-workers-")
        return self

    def __exit__(self, *_: object) -> None:
        for worker in list(self._processes):
            self._end(worker)
        self._folder.cleanup()

    @property
    def free(self) -> int:
        """How many more tasks can be given now."""
        return self._jobs - self.busy

    @property
    def busy(self) -> int:
        """How many tasks are being worked on."""
        return sum(worker.task is not None for worker in self._processes)

    def give(self, task: Work) -> None:
        """Hands a task to a free worker, which is started when there is none."""
        worker = next((one for one in self._processes if one.task is None), None) or self._start()
        worker.task = task
        worker.began_s, worker.prepared = time.monotonic(), False
        worker.output_before = worker.output.stat().st_size
        # A worker that died idle takes nothing: its end of the pipe is closed, which collect() sees.
        with contextlib.suppress(OSError):
            worker.connection.send(task)

    def collect(self, wait_s: float = 0.2) -> list[Ended]:
        """Tasks that ended; waits so long for one, and comes back without when none did."""
        busy = [worker for worker in self._processes if worker.task is not None]
        ready = wait([worker.connection for worker in busy], timeout=wait_s) if busy else []
        ended = []
        for worker in busy:
            if worker.connection in ready:
                ended += self._receive(worker)
            else:
                limit_s = self._time_limit_s if worker.prepared else max(_START_LIMIT_S, self._time_limit_s)
                if time.monotonic() - worker.began_s > limit_s:
                    ended.append(self._overdue(worker, limit_s))
        return ended

    def _receive(self, worker: _Process) -> list[Ended]:
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            return [self._died(worker)]
        if kind == "prepared":
            worker.began_s, worker.prepared = time.monotonic(), True
            return []
        ended = self._ended(worker, Status.RAN, content, "")
        if kind == "raised":
            status = Status.OUT_OF_MEMORY if _WANT_OF_MEMORY.search(content) else Status.RAISED
            ended = self._ended(worker, status, [], content)
        worker.task = None
        worker.tasks += 1
        if worker.tasks >= self._recycle_after or ended.status is Status.OUT_OF_MEMORY:
            self._end(worker)
        return [ended]

    def _ended(self, worker: _Process, status: Status, rows: list[Any], message: str) -> Ended:
        return Ended(worker.task, status, rows, message, time.monotonic() - worker.began_s)

    def _died(self, worker: _Process) -> Ended:
        worker.connection.close()
        code = worker.process.wait()
        tail = _tail(worker.output, worker.output_before)
        if code == -signal.SIGKILL:  # nobody of ours: so the system ends processes when memory is short
            status, reason = Status.OUT_OF_MEMORY, "killed from outside (SIGKILL), as by a system short of memory"
        else:
            status = Status.OUT_OF_MEMORY if _WANT_OF_MEMORY.search(tail) else Status.ABORTED
            reason = f"ended by {signal.Signals(-code).name}" if code < 0 else f"the process ended with code {code}"
        ended = self._ended(worker, status, [], f"{reason}\n{tail}".strip())
        self._end(worker)
        return ended

    def _overdue(self, worker: _Process, limit_s: float) -> Ended:
        with contextlib.suppress(OSError):
            worker.process.send_signal(signal.SIGUSR1)  # faulthandler writes where it is, also inside of C
            time.sleep(0.3)
        tail = _tail(worker.output, worker.output_before)
        ended = self._ended(worker, Status.TIMED_OUT, [], f"took longer than {limit_s:g} s\n{tail}".strip())
        self._end(worker)
        return ended

    def _start(self) -> _Process:
        ours, theirs = Pipe()
        descriptor = theirs.fileno()
        self._started += 1
        output = Path(self._folder.name, f"{self._started}.txt")
        settings = json.dumps([descriptor, self._memory_limit_mib])
        with output.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, settings],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                pass_fds=[descriptor],
                env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        theirs.close()
        worker = _Process(process, ours, output)
        self._processes.append(worker)
        with contextlib.suppress(OSError):
            ours.send_bytes(self._function)
        return worker

    def _end(self, worker: _Process) -> None:
        self._processes.remove(worker)
        worker.connection.close()
        worker.process.kill()
        worker.process.wait()
        worker.output.unlink(missing_ok=True)


def _tail(output: Path, before: int) -> str:
    """The last lines that a worker wrote since ``before`` bytes."""
    with output.open("rb") as stream:
        stream.seek(before)
        lines = stream.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])[-_TAIL_CHARACTERS:]


def serve(settings: str) -> None:
    """A worker's life: a function, then tasks; for each what it gave, or what it raised."""
    descriptor, memory_limit_mib = json.loads(settings)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # no orphan goes on when the parent is killed
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_limit_mib is not None:
        limit = memory_limit_mib * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    connection = Connection(descriptor)
    prepared: set[str] = set()
    try:
        function = pickle.loads(connection.recv_bytes())  # noqa: S301  (our own parent wrote it)
        while True:
            connection.send(_answer(function, connection.recv(), connection, prepared))
    except (EOFError, ConnectionError):  # the parent has no more tasks, or is gone
        return


def _answer(
    function: Callable[[Any], list[Any]], task: Work, connection: Connection, prepared: set[str]
) -> tuple[str, Any]:
    try:
        for framework in task.frameworks:
            if framework in FRAMEWORKS and framework not in prepared:
                runner_of(framework).run_reproducibly()
                prepared.add(framework)
        connection.send(("prepared", None))
        return "done", function(task)
    except Exception as error:  # noqa: BLE001  (one bad task is a row, not the end of the run)
        return "raised", text_of(error)[:_TAIL_CHARACTERS]
