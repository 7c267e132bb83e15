"""Campaigns: every way in which a process can end is a row, the rest still gives results, and nothing is done twice."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opscanner.dynamic.campaign import CampaignSummary, Task, run_campaign
from opscanner.dynamic.trial import run_call
from opscanner.measurements import Measurement, Status, Verdict
from tests.dynamic import fake_tasks
from tests.dynamic.fake_tasks import task

LIMIT_S = 3.0


def run(
    *tasks: Task, function: Callable[[Task], list[Any]] = fake_tasks.measure, done: tuple[str, ...] = (), **options: Any
) -> tuple[CampaignSummary, list[tuple[Task, list[Any]]]]:
    ended: list[tuple[Task, list[Any]]] = []
    settings = {"jobs": 2, "time_limit_s": LIMIT_S, "memory_limit_mib": 512, **options}
    summary = run_campaign(tasks, function, on_rows=lambda one, rows: ended.append((one, rows)), done=done, **settings)
    return summary, ended


def all_rows(ended: list[tuple[Task, list[Any]]]) -> list[Any]:
    return [row for _, rows in ended for row in rows]


WAYS = {
    "abort": (Status.ABORTED, "ended by SIGABRT", "std::logic_error"),
    "segfault": (Status.ABORTED, "ended by SIGSEGV", "_segfault"),  # faulthandler names the Python function
    "leave": (Status.ABORTED, "the process ended with code 3", ""),
    "hang": (Status.TIMED_OUT, "took longer than 3 s", "_hang"),
    "spin": (Status.TIMED_OUT, "took longer than 3 s", "_spin"),
    "hog": (Status.OUT_OF_MEMORY, "MemoryError", ""),
    "hog_in_c": (Status.OUT_OF_MEMORY, "ended by SIGABRT", "std::bad_alloc"),
    "killed": (Status.OUT_OF_MEMORY, "killed from outside (SIGKILL)", ""),
    "raise": (Status.RAISED, "ArithmeticError: no such thing", ""),
}


def test_every_way_to_end_is_a_row_that_says_how_and_the_others_give_theirs() -> None:
    tasks = [task(name) for name in WAYS] + [task("fine")]
    summary, ended = run(*tasks)
    found = {one.operator: rows for one, rows in ended}
    assert found.pop("fine") == ["fine one random"]
    assert set(found) == set(WAYS)
    for name, (status, message, output) in WAYS.items():
        (row,) = found[name]
        assert isinstance(row, Measurement)
        assert (row.status, row.verdict, row.framework, row.strategy) == (status, Verdict.NOT_MEASURED, "one", "random")
        assert row.message.startswith(message), name
        assert output in row.message, name
    assert (summary.tasks, sum(summary.lost.values()), summary.interrupted) == (10, 9, "")


@pytest.mark.parametrize("way", ["abort", "hang", "raise"])
def test_a_task_that_is_lost_is_taken_apart_until_only_the_bad_part_is(way: str) -> None:
    whole = task(f"{way}:two", frameworks="one two", strategies="random bad")
    summary, ended = run(whole)
    rows = all_rows(ended)
    lost = [row for row in rows if isinstance(row, Measurement)]
    assert sorted(row for row in rows if isinstance(row, str)) == [
        f"{way} one bad",
        f"{way} one random",
        f"{way} two random",
    ]
    assert [(row.framework, row.strategy, row.status) for row in lost] == [("two", "bad", WAYS[way][0])]
    assert ended[-1] == (whole, [])
    # one, two/random, two/bad, two, the whole
    assert (summary.tasks, summary.rows) == (5, 4)


def test_what_is_done_is_not_done_again_also_within_a_task_that_was_taken_apart() -> None:
    whole = task("abort:two", frameworks="one two", strategies="random bad")
    other = task("fine")
    _, first = run(whole, other)
    keys = [one.key for one, _ in first]
    summary, again = run(whole, other, done=tuple(keys))
    assert (again, summary.already_done) == ([], 2)
    without_whole = [key for key in keys if key not in (whole.key, other.key)]
    _, again = run(whole, done=tuple(without_whole))
    assert again == [(whole, [])]
    bad = task("abort:two", frameworks="two", strategies="bad")
    pair = task("abort:two", frameworks="two", strategies="random bad")
    left_out = [key for key in without_whole if key not in (bad.key, pair.key)]
    _, again = run(whole, done=tuple(left_out))
    assert [one for one, _ in again] == [bad, pair, whole]


def test_a_worker_is_replaced_after_so_many_tasks() -> None:
    tasks = [task(f"t{number}") for number in range(6)]
    _, ended = run(*tasks, function=fake_tasks.pid, jobs=1, recycle_after=2)
    numbers = all_rows(ended)
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3] != numbers[4] == numbers[5]
    assert os.getpid() not in numbers


def test_workers_use_one_thread() -> None:
    _, ended = run(task("any"), function=fake_tasks.threads)
    assert all_rows(ended) == ["1", "1"]


def test_no_worker_is_left_behind() -> None:
    _, ended = run(*(task(f"t{number}") for number in range(4)), function=fake_tasks.pid)
    for number in set(all_rows(ended)):
        assert is_gone(number)


def test_a_partial_of_a_function_goes_to_workers_and_one_that_they_cannot_import_ends_as_rows() -> None:
    _, ended = run(task("fine"), function=functools.partial(fake_tasks.measure))
    assert all_rows(ended) == ["fine one random"]
    lost = type(fake_tasks.measure)(fake_tasks.measure.__code__, fake_tasks.__dict__, "gone")
    fake_tasks.gone = lost  # type: ignore[attr-defined]  # in this process alone
    lost.__module__, lost.__qualname__ = fake_tasks.__name__, "gone"
    _, ended = run(task("fine"), function=lost)
    (row,) = all_rows(ended)
    assert row.status is Status.ABORTED
    assert "Can't get attribute 'gone'" in row.message or "has no attribute 'gone'" in row.message


def is_gone(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def start_campaign(kept: Path) -> subprocess.Popen[str]:
    code = f"from tests.dynamic.fake_tasks import run_and_keep_keys; run_and_keep_keys({str(kept)!r}, 8)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (kept.exists() and len(kept.read_text().splitlines()) >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def children(number: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_campaign_that_was_killed_is_resumed_and_its_workers_are_gone(tmp_path: Path) -> None:
    kept = tmp_path / "keys"
    process = start_campaign(kept)
    workers = children(process.pid)
    assert workers
    process.kill()
    process.wait()
    time.sleep(0.3)
    assert all(is_gone(number) for number in workers)
    keys = kept.read_text().splitlines()
    assert 2 <= len(keys) < 8
    tasks = [task(f"slow:{number}", frameworks="two", strategies="bad") for number in range(8)]
    summary, ended = run(*tasks, done=tuple(keys))
    assert summary.already_done == len(keys)
    assert sorted(keys + [one.key for one, _ in ended]) == sorted(one.key for one in tasks)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_campaign_with_what_was_done_kept(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "keys"
    process = start_campaign(kept)
    process.send_signal(signal.Signals[name])
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    said, count = output.split()
    assert said == name
    assert len(kept.read_text().splitlines()) == int(count)
    assert 2 <= int(count) < 8


def test_the_release_of_a_framework_is_known_without_an_import() -> None:
    code = (
        "import sys; from opscanner.dynamic.campaign import machine_name, release_of;"
        "print(release_of('pytorch'), release_of('nosuch') == '', machine_name() != '');"
        "print(sorted({'torch', 'tensorflow'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    import torch

    assert said == f"{torch.__version__} True True\n[]\n"


def test_a_call_of_torch_in_this_process_is_an_outcome_whatever_it_raises() -> None:
    import numpy as np

    inputs = {"x": np.array([1.0, 2.0])}
    ran = run_call("pytorch", "(x + x, x > 1)", inputs, "bfloat16")
    assert (ran.status, ran.formats) == (Status.RAN, ("bfloat16", "bool"))
    assert [array.tolist() for array in ran.outputs] == [[2.0, 4.0], [False, True]]
    assert ran.elapsed_s > 0
    for call, layout, status, words in (
        ("torch.gcd(x, x)", "contiguous", Status.UNSUPPORTED, "not implemented for 'BFloat16'"),
        ("x + x", "transposed", Status.UNSUPPORTED, "no input can be transposed"),
        ("torch.mm(x, x)", "contiguous", Status.RAISED, "RuntimeError: self must be a matrix"),
        ("torch.empty(1 << 50)", "contiguous", Status.OUT_OF_MEMORY, "can't allocate memory"),
    ):
        outcome = run_call("pytorch", call, inputs, "bfloat16", layout=layout)
        assert (outcome.status, outcome.outputs) == (status, ())
        assert words in outcome.message


def measure_with_torch(given: Task) -> list[Any]:
    """In a worker: a call, and one that needs more memory than it has."""
    import numpy as np

    call = "torch.ones(1 << 29).sum()" if given.operator == "large" else "x + x"
    outcome = run_call("pytorch", call, {"x": np.ones(2)}, "float32")
    return [(outcome.status, sys.modules["torch"].get_num_threads())]


@pytest.mark.slow
def test_torch_in_a_worker_uses_one_thread_and_says_when_memory_does_not_suffice() -> None:
    tasks = [Task(name, "forward", "float32", "cpu", ("pytorch",), ()) for name in ("large", "small")]
    _, ended = run(*tasks, function=measure_with_torch, jobs=1, memory_limit_mib=1536, time_limit_s=60)
    assert {one.operator: rows for one, rows in ended} == {
        "large": [(Status.OUT_OF_MEMORY, 1)],
        "small": [(Status.RAN, 1)],
    }
