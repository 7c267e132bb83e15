"""Many measurements over worker processes: what crashes is told apart and is a row, the rest still gives results."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from opscanner.dynamic.workers import Ended, Work, Workers
from opscanner.frameworks.runners import FRAMEWORKS
from opscanner.measurements import Measurement, Status, Verdict


class Unit(Work, Protocol):
    """What a campaign runs: the unit of work, of limits, and of resuming."""

    @property
    def key(self) -> str:
        """Tells units of a campaign apart: what is kept of one that is done."""

    def parts(self) -> Sequence[Unit]:
        """Smaller units that make up this one, for when it is lost; empty when there are none."""

    def lost(self, status: Status, message: str, elapsed_s: float) -> list[Any]:
        """Rows that say how it ended, of a unit that gave none of its own and has no parts."""


_Unit = TypeVar("_Unit", bound=Unit)
_Row = TypeVar("_Row")


@dataclass(frozen=True)
class Task:
    """One operator in one format.

    Parameters
    ----------
    operator : str
        Id of the catalog's row.
    strategies : tuple of str
        Input strategies by name; empty for all that fit, which cannot be taken apart.
    """

    operator: str
    direction: str
    format: str
    device: str
    frameworks: tuple[str, ...]
    strategies: tuple[str, ...]
    seed: int = 0

    @property
    def key(self) -> str:
        """Tells tasks of a campaign apart: what is kept of a task that is done."""
        parts = (self.operator, self.direction, self.format, self.device, "+".join(self.frameworks))
        return "/".join((*parts, "+".join(self.strategies), str(self.seed)))

    def parts(self) -> tuple[Task, ...]:
        """Smaller tasks that make up this one: a framework each, then a strategy each; empty when there are none."""
        if len(self.frameworks) > 1:
            return tuple(replace(self, frameworks=(name,)) for name in self.frameworks)
        if len(self.strategies) > 1:
            return tuple(replace(self, strategies=(name,)) for name in self.strategies)
        return ()

    def lost(self, status: Status, message: str, elapsed_s: float) -> list[Measurement]:
        """What is known of a task that gave no rows of its own."""
        return [
            Measurement(
                operator=self.operator,
                direction=self.direction,
                framework=framework,
                version=release_of(framework),
                format=self.format,
                device=self.device,
                layout="contiguous",
                strategy="+".join(self.strategies),
                seed=self.seed,
                status=status,
                verdict=Verdict.NOT_MEASURED,
                message=message,
                elapsed_s=elapsed_s,
            )
            for framework in self.frameworks
        ]


@dataclass
class CampaignSummary:
    """How a campaign went.

    Parameters
    ----------
    tasks : int
        Tasks that were done, parts of lost ones counted for themselves.
    already_done : int
        Tasks left out because their key was among those done.
    lost : Counter of Status
        Parts that gave no rows of their own, by the way they ended.
    interrupted : str
        Name of the signal that ended the campaign early; empty when it ran to its end.
    """

    tasks: int = 0
    already_done: int = 0
    rows: int = 0
    lost: Counter[Status] = field(default_factory=Counter)
    interrupted: str = ""
    elapsed_s: float = 0.0


def run_campaign(
    tasks: Sequence[_Unit],
    function: Callable[[_Unit], list[_Row]],
    *,
    jobs: int,
    time_limit_s: float,
    memory_limit_mib: int | None,
    on_rows: Callable[[_Unit, list[_Row]], None],
    done: Collection[str] = frozenset(),
    recycle_after: int = 200,
) -> CampaignSummary:
    """Runs ``function`` over tasks in worker processes.

    A task that raises, hangs, aborts or outgrows its memory is taken apart (a :class:`Task` by framework and then by
    strategy); a part that cannot be taken apart any further becomes rows that say how it ended. Ctrl-C and SIGTERM end
    a campaign after the rows at hand are given on; a second one ends it at once.

    Parameters
    ----------
    tasks : sequence of Unit
        :class:`Task` or any other: what their parts are, ``function`` and ``on_rows`` must take.
    function : callable
        Rows of a task. Workers import it: a function of a module, or a ``functools.partial`` of one.
    memory_limit_mib : int or None
        None for no limit, as GPUs need: their drivers reserve far more than they use.
    on_rows : callable
        Called in this process with each task that ended and its rows, in order of their end. The task's key can then go
        into ``done`` of a later run. A task that was taken apart comes after its parts, without rows of its own.
    done : collection of str
        Keys of tasks to leave out.
    """
    campaign = _Campaign(on_rows, frozenset(done))
    for task in tasks:
        campaign.plan(task)
    started = time.monotonic()
    workers = Workers(
        function,
        jobs=jobs,
        time_limit_s=time_limit_s,
        memory_limit_mib=memory_limit_mib,
        recycle_after=recycle_after,
    )
    with workers, _signals_noted() as noted:
        while (campaign.waiting or workers.busy) and not noted:
            while campaign.waiting and workers.free:
                workers.give(campaign.waiting.popleft())
            for ended in workers.collect():
                campaign.take(ended)
    campaign.summary.interrupted = noted[0] if noted else ""
    campaign.summary.elapsed_s = time.monotonic() - started
    return campaign.summary


class _Campaign:
    """What is still to be done, and whose part it is."""

    def __init__(self, on_rows: Callable[[Any, list[Any]], None], done: frozenset[str]) -> None:
        self._on_rows = on_rows
        self._done = done
        self._whole: dict[str, Unit] = {}  # key of a part: the task that it is of
        self._open: Counter[str] = Counter()  # key of a task taken apart: parts that have not ended
        self.waiting: deque[Unit] = deque()
        self.summary = CampaignSummary()

    def plan(self, task: Unit) -> None:
        """Puts a task in the queue, or those of its parts that an earlier run has not done."""
        if task.key in self._done:
            self.summary.already_done += 1
        elif any(map(self._touched, task.parts())):
            self._take_apart(task)
        else:
            self.waiting.append(task)

    def take(self, ended: Ended) -> None:
        """Gives on the rows of a task that ended, or takes it apart."""
        task: Unit = ended.task
        if ended.status is Status.RAN:
            self._finish(task, ended.rows)
        elif task.parts():
            self._take_apart(task)
        else:
            self.summary.lost[ended.status] += 1
            self._finish(task, task.lost(ended.status, ended.message, ended.elapsed_s))

    def _touched(self, task: Unit) -> bool:
        return task.key in self._done or any(map(self._touched, task.parts()))

    def _take_apart(self, task: Unit) -> None:
        left = [part for part in task.parts() if part.key not in self._done]
        for part in left:
            self._whole[part.key] = task
        self._open[task.key] = len(left)
        for part in left:
            self.plan(part)
        if not left:
            self._finish(task, [])

    def _finish(self, task: Unit, rows: list[Any]) -> None:
        self._on_rows(task, rows)
        self.summary.tasks += 1
        self.summary.rows += len(rows)
        whole = self._whole.pop(task.key, None)
        if whole is not None:
            self._open[whole.key] -= 1
            if self._open[whole.key] == 0:
                self._finish(whole, [])


@contextlib.contextmanager
def _signals_noted() -> Iterator[list[str]]:
    """Names of the signals that came, instead of what they do; the second of a kind does what it always does."""
    noted: list[str] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield noted
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _frame: object) -> None:
        noted.append(signal.Signals(number).name)
        signal.signal(number, former[signal.Signals(number)])

    for number in former:
        signal.signal(number, note)
    try:
        yield noted
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def release_of(framework: str) -> str:
    """Release of an installed framework, without an import of it; empty when it is not there."""
    package = FRAMEWORKS.get(framework, framework)
    for distribution in (package, *(f"{package}-{kind}" for kind in ("cpu", "gpu", "intel", "rocm"))):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(distribution)
    return ""


def machine_name() -> str:
    """The processor as Linux names it, or the machine's kind, and the system."""
    processor = platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    return f"{processor}, {platform.system()}"
