"""Precision tests from a request to rows: which operators, in which workers, and where the rows are kept.

The two wings meet here: findings of a scan choose operators, and measurements go into the same database.
"""

from __future__ import annotations

import functools
import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscanner.dynamic.batch_trial import EVALUATIONS
from opscanner.dynamic.campaign import CampaignSummary, Task, machine_name, release_of, run_campaign
from opscanner.dynamic.inputs import FURTHER_STRATEGIES
from opscanner.dynamic.laws import check_laws
from opscanner.dynamic.measure import STRATEGY_IDS, Plan, measure_task, operator_by_id
from opscanner.dynamic.verdict import WIDER
from opscanner.errors import OpscannerError, UsageError
from opscanner.frameworks.runners import FRAMEWORKS, check_device, is_installed, runner_of
from opscanner.graph.queries import reading
from opscanner.graph.trial_store import TrialStore, differences, find_measurements
from opscanner.measurements import Measurement, Status
from opscanner.operators import opinfo
from opscanner.operators.catalog import Operator, find_operators, load_catalog

#: Formats that are tested: those that have a wider one to be judged against.
FORMATS = tuple(WIDER)

#: ``--budget`` from which a size of inputs is used (``dynamic.inputs.batch.SIZES``).
_SIZES = ((4.0, "large"), (1.0, "default"), (0.0, "small"))

#: Seconds an operator's batches in one format may take at ``--budget 1``.
SECONDS_AN_OPERATOR = 20.0

#: Seeds are kept as the database's integers.
_SEEDS = 2**63


@dataclass(frozen=True)
class TestRequest:
    """What to test.

    Parameters
    ----------
    operators : tuple of Operator
    formats, frameworks : tuple of str
    device : str
        ``auto`` takes a GPU where there is one.
    strategies : tuple of str or None
        None: all that fit.
    budget : float
        Scales sizes of inputs, calls of the search, and time.
    """

    __test__ = False  # pytest would take it for a test

    operators: tuple[Operator, ...]
    formats: tuple[str, ...]
    frameworks: tuple[str, ...]
    device: str = "auto"
    strategies: tuple[str, ...] | None = None
    seed: int = 0
    budget: float = 1.0
    jobs: int | None = None
    time_limit_s: float = 120.0
    memory_limit_mib: int = 6144
    cache: str = ""
    laws: bool = False


@dataclass
class TestResult:
    """What was measured, and how the campaign went."""

    __test__ = False

    measurements: list[Measurement] = field(default_factory=list)
    summary: CampaignSummary = field(default_factory=CampaignSummary)
    left_out: tuple[str, ...] = ()

    @property
    def skipped(self) -> int:
        """Operators and formats that gave no rows: they crashed, hung, or the campaign was interrupted."""
        return sum(self.summary.lost.values()) + bool(self.summary.interrupted)

    def summary_line(self) -> str:
        """One line for people."""
        verdicts = Counter(one.verdict.value for one in self.measurements if one.status is Status.RAN)
        counted = ", ".join(f"{number} {name}" for name, number in verdicts.most_common())
        lost = ", ".join(f"{number} {status.value}" for status, number in self.summary.lost.items())
        parts = [f"{len(self.measurements)} measurements in {self.summary.elapsed_s:.0f} s", counted]
        if fed := self._coverage():
            parts.append(f"fed {fed:.0%} of signs and exponents")
        if lost:
            parts.append(f"ended otherwise: {lost}")
        if self.summary.interrupted:
            parts.append(f"interrupted by {self.summary.interrupted}: --resume goes on")
        return "; ".join(part for part in parts if part)

    def _coverage(self) -> float:
        """The mean over operators, formats, frameworks and inputs of the share of (sign, exponent) cells fed."""
        fed: dict[tuple[str, ...], float] = {}
        for one in self.measurements:
            for name, share in one.coverage_in_all.items():
                key = (one.operator, one.format, one.framework, one.device, name)
                fed[key] = max(fed.get(key, 0.0), share)
        return sum(fed.values()) / len(fed) if fed else 0.0


def choose_operators(names: Sequence[str], *, everything: bool, backward: bool) -> tuple[Operator, ...]:
    """The operators of the catalog that names mean, or all of them; of names it lacks, what PyTorch's OpInfo says.

    Raises
    ------
    UsageError
        When neither is asked for, or a name means nothing.
    """
    if everything:
        return load_catalog()
    found: dict[str, Operator] = {}
    for name in names:
        found.update((one.id, one) for one in _operators_of(name, backward))
    if not found:
        raise UsageError("no operator is named", "name one (opscanner test softmax), or give --all or --from-findings")
    return tuple(found.values())


def _operators_of(name: str, backward: bool) -> tuple[Operator, ...]:
    if name.startswith(opinfo.PREFIX):
        return opinfo.find_opinfo_operators(name, backward)
    try:
        return find_operators(name, backward)
    except UsageError as unknown:
        try:
            return opinfo.find_opinfo_operators(name, backward)
        except OpscannerError:  # nor does OpInfo know it, or it is not there
            raise unknown from None


def check_request(request: TestRequest) -> None:
    """Refuses what would measure nothing, or what nothing can be made of.

    Raises
    ------
    UsageError
        For a format, framework, strategy or device that there is not, and for numbers out of their range.
    """
    for what, given, known in (
        ("format that can be tested", request.formats, FORMATS),
        ("framework", request.frameworks, tuple(FRAMEWORKS)),
    ):
        if not given:
            raise UsageError(f"no {what} is named", f"one of {', '.join(known)}")
    if not (math.isfinite(request.budget) and request.budget > 0):
        raise UsageError(f"a budget of {request.budget} scales nothing", "a number above 0; 1 is the default")
    if not (math.isfinite(request.time_limit_s) and request.time_limit_s > 0):
        raise UsageError(f"a time limit of {request.time_limit_s:g} s leaves no time", "seconds an operator, above 0")
    if not 0 <= request.seed < _SEEDS:
        raise UsageError(f"the seed {request.seed} is out of range", f"from 0 to {_SEEDS - 1}")
    tasks_of(request, request.frameworks)
    _check_device(request)


def _check_device(request: TestRequest) -> None:
    kind, colon, number = request.device.partition(":")
    if request.device == "cpu":
        return
    if kind != "cuda" or (colon and not number.isdecimal()):
        raise UsageError(f"there is no device {request.device!r}", "auto, cpu, cuda or cuda:N")
    for name in _installed(request.frameworks)[0]:
        check_device(name, request.device, runner_of(name).devices())


def run_tests(
    request: TestRequest,
    *,
    on_rows: Callable[[Task, list[Measurement]], None] | None = None,
    done: frozenset[str] = frozenset(),
    progress: Callable[[str], None] = lambda text: None,
) -> TestResult:
    """Measures every operator of a request in every format.

    Parameters
    ----------
    on_rows : callable, optional
        Called with each task that ended, and its rows, before they are added to the result.
    done : frozenset of str
        Keys of tasks to leave out (see :func:`tasks_of`).

    Raises
    ------
    UsageError
        For what :func:`check_request` refuses, or a framework that is not installed.
    """
    check_request(request)
    frameworks, missing = _installed(request.frameworks)
    tasks = tasks_of(request, frameworks)
    result = TestResult(left_out=missing)
    for name in missing:
        progress(f"{FRAMEWORKS[name]} is not installed: nothing of {name} is tested")

    def keep(task: Task, rows: list[Measurement]) -> None:
        if on_rows is not None:
            on_rows(task, rows)
        result.measurements.extend(rows)
        if not rows:  # its parts have been told of
            return
        ended = sum(1 for one in rows if one.status is not Status.RAN)
        progress(f"{task.operator} {task.format}: {len(rows)} rows" + (f", {ended} did not run" if ended else ""))

    size = size_of_budget(request.budget)
    time_s = SECONDS_AN_OPERATOR * request.budget
    function = functools.partial(
        test_task,
        size=size,
        time_s=time_s,
        cache=request.cache,
        laws=request.laws,
        evaluations=evaluations_of_budget(request.budget),
    )
    result.summary = run_campaign(
        tasks,
        function,
        jobs=request.jobs or len(os.sched_getaffinity(0)),
        time_limit_s=request.time_limit_s * max(1.0, request.budget),
        memory_limit_mib=None if request.device.startswith("cuda") else request.memory_limit_mib,
        on_rows=keep,
        done=done,
    )
    order = {task.operator: place for place, task in enumerate(tasks)}
    if without := _without_inputs(request, tasks, result, done):
        progress(without)
    result.measurements.sort(key=lambda one: (order.get(one.operator, len(order)), one.format, one.framework))
    return result


def _without_inputs(request: TestRequest, tasks: Sequence[Task], result: TestResult, done: frozenset[str]) -> str:
    """A line on tasks that came to their end without a row: no strategy that was asked for makes inputs for them."""
    if request.strategies is None or result.summary.interrupted or result.summary.lost:
        return ""
    measured = {(one.operator, one.format) for one in result.measurements}
    empty = [f"{one.operator} {one.format}" for one in tasks if one.key not in done]
    empty = [name for name in empty if tuple(name.split(" ")) not in measured]
    if not empty:
        return ""
    more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
    return f"no inputs of {', '.join(request.strategies)} for {', '.join(empty[:3])}{more}: not measured"


def test_task(
    task: Task, *, size: str, time_s: float | None, cache: str, laws: bool, evaluations: int = EVALUATIONS
) -> list[Measurement]:
    """The rows of a task: every input strategy, the search, and the laws where they are asked for."""
    rows = measure_task(task, size=size, time_s=time_s, cache=cache, evaluations=evaluations)
    if laws:
        plan = Plan(task.frameworks, task.device, None, task.seed, size, time_s, cache)
        rows += check_laws(operator_by_id(task.operator), task.format, plan)
    return rows


test_task.__test__ = False  # type: ignore[attr-defined]  # as the classes


def run_kept_tests(
    request: TestRequest,
    database: str,
    *,
    resume: bool,
    progress: Callable[[str], None] = lambda text: None,
) -> TestResult:
    """As :func:`run_tests`, and keeps the rows of each task in a database when it ends.

    Parameters
    ----------
    resume : bool
        Go on with the last campaign there, which did not come to its end; the result holds its earlier rows too.

    Raises
    ------
    UsageError
        When there is nothing to resume, or the last campaign was asked for otherwise.
    """
    check_request(request)
    frameworks, _ = _installed(request.frameworks)
    began: dict[str, Any] = {
        "versions": {name: release_of(name) for name in frameworks},
        "device": request.device,
        "seed": request.seed,
        "options": {
            "operators": [operator.id for operator in request.operators],
            "formats": list(request.formats),
            "strategies": list(request.strategies or ()),
            "budget": request.budget,
            "laws": request.laws,
        },
    }
    with TrialStore(database) as store:
        done: frozenset[str] = frozenset()
        earlier: list[Measurement] = []
        if resume:
            campaign_id = _resumable(store, database, began)
            done = frozenset(store.done_keys(campaign_id))
            with reading(database) as connection:
                earlier = [row.measurement for row in find_measurements(connection, campaign_id=campaign_id)]
        else:
            campaign_id = store.begin_campaign(machine=machine_name(), **began)
        result = run_tests(
            request,
            on_rows=lambda task, rows: _write(store, campaign_id, task, rows),
            done=done,
            progress=progress,
        )
        if not result.summary.interrupted:
            store.finish_campaign(campaign_id)
    result.measurements[:0] = earlier
    return result


def _write(store: TrialStore, campaign_id: int, task: Task, rows: list[Measurement]) -> None:
    store.write_task(campaign_id, task.key, rows)


def _resumable(store: TrialStore, database: str, began: dict[str, Any]) -> int:
    last = store.unfinished_campaign()
    if last is None:
        raise UsageError(
            f"the last campaign in {database} came to its end: there is nothing to resume", "leave --resume out"
        )
    if changed := differences(last, **began):
        raise UsageError(
            f"the campaign that did not end was asked for otherwise ({'; '.join(changed)})",
            "ask for the same, or leave --resume out",
        )
    return last.id


def tasks_of(request: TestRequest, frameworks: Sequence[str]) -> list[Task]:
    """The units of a campaign, in the order of the request's operators."""
    for name in request.formats:
        if name not in FORMATS:
            raise UsageError(f"{name!r} is no format that can be tested", f"one of {', '.join(FORMATS)}")
    for name in request.strategies or ():
        known = {*STRATEGY_IDS, *(one.id for one in FURTHER_STRATEGIES)}
        if name not in known:
            raise UsageError(f"no input strategy is called {name!r}", f"one of {', '.join(sorted(known))}")
    return [
        Task(
            operator=operator.id,
            direction=operator.direction,
            format=format_,
            device=request.device,
            frameworks=running,
            strategies=request.strategies or STRATEGY_IDS,
            seed=request.seed,
        )
        for operator in request.operators
        for format_ in request.formats
        if (running := tuple(name for name in frameworks if name in operator.calls))
    ]


def size_of_budget(budget: float) -> str:
    """The size of inputs (``dynamic.inputs.batch.SIZES``) that a ``--budget`` stands for."""
    return next(name for least, name in _SIZES if budget >= least)


def evaluations_of_budget(budget: float) -> int:
    """Calls that a search may spend on an operator, format and framework at a ``--budget``."""
    return max(4, round(EVALUATIONS * budget))


def choose_device(device: str, frameworks: Sequence[str]) -> str:
    """The device that ``auto`` stands for: ``cuda`` where every framework that is installed finds one."""
    if device != "auto":
        return device
    if not Path("/dev/nvidia0").exists():  # spares importing the frameworks here
        return "cpu"
    there = [name for name in frameworks if name in FRAMEWORKS and is_installed(name)]
    return "cuda" if there and all("cuda:0" in runner_of(name).devices() for name in there) else "cpu"


def cache_folder(parent: Path) -> str:
    """Where reference results are kept between runs."""
    return str(parent / "references")


def _installed(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for name in names:
        if name not in FRAMEWORKS:
            raise UsageError(f"there is no framework {name!r}", f"one of {', '.join(FRAMEWORKS)}")
    there = tuple(name for name in names if is_installed(name))
    if not there:
        packages = " or ".join(FRAMEWORKS[name] for name in names)
        raise UsageError(f"nothing can be tested: {packages} is not installed", "pip install 'opscanner[torch]'")
    return there, tuple(name for name in names if name not in there)
