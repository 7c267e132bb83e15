"""Functions for workers that do what operators of frameworks do to a process; tests and workers import them."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from opscanner.dynamic.campaign import Task


def task(operator: str, *, frameworks: str = "one", strategies: str = "random") -> Task:
    """A task of frameworks that are none, so that no worker imports one."""
    return Task(operator, "forward", "float16", "cpu", tuple(frameworks.split()), tuple(strategies.split()))


def measure(given: Task) -> list[str]:
    """Does what the operator's name says where framework "two" and strategy "bad" meet; else gives a row a strategy.

    An operator's name without a colon does it wherever it runs.
    """
    action, _, where = given.operator.partition(":")
    if not where or ("two" in given.frameworks and "bad" in given.strategies):
        _ACTIONS[action](given)
    return [f"{action} {framework} {strategy}" for framework in given.frameworks for strategy in given.strategies]


def _abort(_: Task) -> None:
    print("terminate called after throwing an instance of 'std::logic_error'", file=sys.stderr, flush=True)
    os.abort()


def _segfault(_: Task) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _leave(_: Task) -> None:
    os._exit(3)


def _hang(_: Task) -> None:
    time.sleep(600)


def _spin(_: Task) -> None:
    while True:
        pass


def _hog(_: Task) -> None:
    kept = []
    while True:
        kept.append(bytearray(16 * 1024 * 1024))


def _hog_in_c(_: Task) -> None:
    print("terminate called after throwing an instance of 'std::bad_alloc'", file=sys.stderr, flush=True)
    os.abort()


def _raise(_: Task) -> None:
    raise ArithmeticError("no such thing")


def _killed(_: Task) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _nothing(_: Task) -> None:
    return


def _slow(_: Task) -> None:
    time.sleep(0.5)


_ACTIONS = {
    "abort": _abort,
    "segfault": _segfault,
    "leave": _leave,
    "hang": _hang,
    "spin": _spin,
    "hog": _hog,
    "hog_in_c": _hog_in_c,
    "raise": _raise,
    "killed": _killed,
    "fine": _nothing,
    "slow": _slow,
}


def pid(_: Task) -> list[int]:
    """The worker's own number."""
    return [os.getpid()]


def threads(_: Task) -> list[str]:
    """What a worker is told of threads."""
    return [os.environ["OMP_NUM_THREADS"], os.environ["TF_NUM_INTEROP_THREADS"]]


def run_and_keep_keys(kept: str, count: int) -> None:
    """A campaign of slow tasks that writes the keys of those that are done, and workers' numbers, to files."""
    from opscanner.dynamic.campaign import run_campaign

    done = Path(kept)

    def on_rows(ended: Task, rows: list[str]) -> None:
        with done.open("a") as stream:
            stream.write(ended.key + "\n")

    summary = run_campaign(
        [task(f"slow:{number}", frameworks="two", strategies="bad") for number in range(count)],
        measure,
        jobs=1,
        time_limit_s=60,
        memory_limit_mib=None,
        on_rows=on_rows,
    )
    print(summary.interrupted, summary.tasks, flush=True)
