"""Units over worker processes: one that crashes libclang, hangs or outgrows its memory is lost alone."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

from compile_db import ClangCommand
from opscanner.errors import FrontendError
from opscanner.frontend.joining import KnownInstance
from opscanner.frontend.precompiled import PrecompiledHeader, explain, make
from opscanner.frontend.scan_unit import Worker, peak_rss_mib, skipped
from opscanner.ir import UnitResult

_START = "import sys; from opscanner.frontend.pool import serve; serve(sys.argv[1])"
Known = dict[str, KnownInstance]
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_RECURSION_LIMIT = 100_000
_STACK_BYTES = 512 * 1024 * 1024
#: A unit's time is the CPU's, so that a busy machine costs no units; one that waits for something is given up after so
#: many times its time by the clock.
_WALL_FACTOR = 6
#: A group of fewer units is parsed without a precompiled header.
_GROUP = 2


@dataclass
class Task:
    """Either units to scan, or (``files`` given) a precompiled header to make for them."""

    command: ClangCommand
    group: int
    files: tuple[str, ...] = ()


@dataclass
class Group:
    """Units with equal arguments: they share a precompiled header, and what is known of instances.

    ``news`` is what each unit brought, in the order of arrival: a body that is known need not be walked again, and its
    result is given on before that of any unit that relies on it.
    """

    commands: list[ClangCommand]
    header: PrecompiledHeader | None = None
    ready: bool = True
    news: list[Known] = field(default_factory=list)


@dataclass
class Process:
    """One worker, and what it is busy with."""

    process: subprocess.Popen[bytes]
    connection: Connection
    task: Task | None = None
    began_s: float = 0.0  # by the clock
    began_cpu_s: float | None = None  # none where the system does not tell
    told: dict[int, int] = field(default_factory=dict)  # how many of a group's news it has had


@dataclass
class Pool:
    """Hands tasks to workers and takes results back; see :func:`scan_units`."""

    root: str
    jobs: int
    cache_dir: str
    timeout_s: float
    memory_mib: int
    groups: list[Group]
    waiting: deque[Task] = field(default_factory=deque)
    workers: list[Process] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self) -> Iterator[UnitResult]:
        """Results in the order in which units finish."""
        try:
            self._fill()
            while self.waiting or any(worker.task for worker in self.workers):
                self._hand_out()
                yield from self._collect()
        finally:
            self._stop()

    def _fill(self) -> None:
        for number, group in enumerate(self.groups):
            if not group.ready:
                files = tuple(command.file for command in group.commands)
                self.waiting.append(Task(group.commands[0], number, files))
        for number, group in enumerate(self.groups):
            self.waiting.extend(Task(command, number) for command in group.commands)

    def _next(self) -> Task | None:
        for _ in range(len(self.waiting)):
            task = self.waiting.popleft()
            if task.files or self.groups[task.group].ready:
                return task
            self.waiting.append(task)
        return None

    def _hand_out(self) -> None:
        while len(self.workers) < min(self.jobs, max(1, len(self.waiting))):
            self.workers.append(self._start())
        for worker in self.workers:
            if worker.task is None:
                task = self._next()
                if task is None:
                    return
                worker.task = task
                worker.began_s, worker.began_cpu_s = time.monotonic(), _cpu_s(worker.process.pid)
                group = self.groups[task.group]
                news = group.news[worker.told.get(task.group, 0) :]
                worker.told[task.group] = len(group.news)
                worker.connection.send((task, group.header, news))

    def _start(self) -> Process:
        """A fresh interpreter: unlike ``multiprocessing``'s, it does not import the caller's main module."""
        ours, theirs = Pipe()
        descriptor = theirs.fileno()
        settings = json.dumps([descriptor, self.root, self.cache_dir, self.memory_mib])
        process = subprocess.Popen(
            [sys.executable, "-c", _START, settings],
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        theirs.close()
        return Process(process, ours)

    def _collect(self) -> Iterator[UnitResult]:
        busy = [worker for worker in self.workers if worker.task is not None]
        ready = wait([worker.connection for worker in busy], timeout=0.5)
        for worker in busy:
            if worker.connection in ready:
                yield from self._receive(worker)
            elif reason := self._overdue(worker):
                yield from self._lose(worker, reason)

    def _overdue(self, worker: Process) -> str:
        """Why a worker is to be stopped; empty while it may go on."""
        elapsed_s = time.monotonic() - worker.began_s
        if elapsed_s <= self.timeout_s:  # one thread works: it has not had more of the CPU
            return ""
        now_s = _cpu_s(worker.process.pid)
        if now_s is None or worker.began_cpu_s is None:
            return f"took longer than {self.timeout_s:g} s"
        if now_s - worker.began_cpu_s > self.timeout_s:
            return f"took longer than {self.timeout_s:g} s of CPU time"
        if elapsed_s > _WALL_FACTOR * self.timeout_s:
            return f"took longer than {_WALL_FACTOR * self.timeout_s:g} s, most of them waiting"
        return ""

    def _receive(self, worker: Process) -> Iterator[UnitResult]:
        task = worker.task
        assert task is not None
        try:
            answer, fresh, rss_mib = worker.connection.recv()
        except (EOFError, ConnectionError):
            yield from self._lose(worker, _why_dead(worker.process.wait(), self.memory_mib))
            return
        worker.task = None
        if task.files:
            self._header_made(task, answer)
        else:
            if fresh:
                self.groups[task.group].news.append(fresh)
            yield answer
        if rss_mib > self.memory_mib:  # glibc keeps what clang frees: a fresh process is the way to give it back
            self._end(worker)

    def _header_made(self, task: Task, answer: PrecompiledHeader | str | None) -> None:
        group = self.groups[task.group]
        group.ready = True
        if isinstance(answer, str):
            self.notes.append(answer)
        else:
            group.header = answer

    def _lose(self, worker: Process, reason: str) -> Iterator[UnitResult]:
        task = worker.task
        assert task is not None
        self._end(worker)
        if task.files:
            self._header_made(task, f"no precompiled header: clang {reason}")
        else:
            yield skipped(task.command, self.root, reason)

    def _end(self, worker: Process) -> None:
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.kill()
        worker.process.wait()

    def _stop(self) -> None:
        for worker in list(self.workers):
            self._end(worker)


def _cpu_s(pid: int) -> float | None:
    """CPU seconds that a process has had, from Linux's /proc/PID/stat (proc(5): utime and stime); none elsewhere."""
    try:
        # The name, in parentheses, may hold anything; the fields behind it are numbers.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def _why_dead(exit_code: int, memory_mib: int) -> str:
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        return f"libclang crashed the worker ({name}); out of memory ({memory_mib} MiB allowed) looks alike"
    return f"the worker ended with exit code {exit_code}"


def serve(settings: str) -> None:
    """A worker's life. The walk runs in a thread with a stack deep enough for any expression clang accepts."""
    descriptor, root, cache_dir, memory_mib = json.loads(settings)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    _die_with_parent()
    limit = memory_mib * 3 * 1024 * 1024  # address space: maps of files and stacks count, not only what is touched
    resource.setrlimit(resource.RLIMIT_AS, (limit + _STACK_BYTES, limit + _STACK_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(_RECURSION_LIMIT)
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=_serve_tasks, args=(Connection(descriptor), root, cache_dir))
    thread.start()
    thread.join()


def _die_with_parent() -> None:
    """End when the scan is killed, in the middle of a parse too (Linux; elsewhere at the end of the unit)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve_tasks(connection: Connection, root: str, cache_dir: str) -> None:
    worker = Worker(root, {})
    while True:
        try:
            task, header, news = connection.recv()
        except (EOFError, OSError):
            return
        memory = worker.memory(task.command)
        memory.fresh = {}
        for known in news:
            memory.known.update(known)
        answer: UnitResult | PrecompiledHeader | str | None
        if task.files:
            answer = _make_header(task, cache_dir)
        else:
            fits = header is not None and header.serves(task.command.file, task.command.arguments)
            answer = worker.scan(task.command, header if fits else None)
        try:
            connection.send((answer, memory.fresh, peak_rss_mib()))
        except ConnectionError:  # the scan is gone
            return


def _make_header(task: Task, cache_dir: str) -> PrecompiledHeader | str | None:
    """The header, or the reason why there is none: a scan goes on without."""
    try:
        return make(task.files, task.command.arguments, cache_dir)
    except (FrontendError, OSError) as error:
        return explain(error)


def make_groups(commands: Sequence[ClangCommand], precompiled_header: bool) -> list[Group]:
    """Commands grouped by equal arguments, in order of first appearance."""
    groups: dict[tuple[str, ...], Group] = {}
    for command in commands:
        key = (command.cuda_pass, command.language, *command.arguments)
        groups.setdefault(key, Group([])).commands.append(command)
    for group in groups.values():
        group.ready = not (precompiled_header and len(group.commands) >= _GROUP)
    return list(groups.values())
