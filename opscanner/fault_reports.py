"""Faults of a campaign from the database to reports: both wings meet here, as in :mod:`opscanner.testing`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from opscanner.dynamic.fault_kinds import Kind
from opscanner.dynamic.fault_script import run_script
from opscanner.dynamic.fault_shrinking import TRIALS
from opscanner.dynamic.fault_stories import Fault, NotShown, Story, group_faults
from opscanner.dynamic.faults import fault_tasks, find_faults
from opscanner.errors import DatabaseError, UsageError
from opscanner.graph.queries import reading
from opscanner.graph.trial_store import TrialStore, campaigns, find_measurements
from opscanner.graph.trial_store import find_faults as stored_faults
from opscanner.operators.explanations import Explanation, explain_kernels
from opscanner.report.faults import FaultReport
from opscanner.results import FaultRow, MeasurementRow
from opscanner.testing import size_of_budget

_Found = dict[tuple[str, str, str], tuple[Explanation, ...]]


@contextlib.contextmanager
def _tested(database: str) -> Iterator[Any]:
    """As ``reading``; a database that is not there yet, or empty, is made by measuring, and needs no scan."""
    try:
        with reading(database) as connection:
            yield connection
    except DatabaseError as error:
        if error.hint.startswith("scan first"):
            raise DatabaseError(error.what, "test first: opscanner test OPERATOR --db FILE") from error
        raise


def report_faults(
    database: str,
    scans: Sequence[str],
    *,
    campaign: int | None,
    framework: str | None,
    operators: Sequence[str] = (),
    jobs: int | None = None,
    time_limit_s: float = 120.0,
    scale: float = 1.0,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[list[FaultReport], list[NotShown]]:
    """Reports of a campaign's faults, kept in the database too, and the faulty measurements that gave none.

    Parameters
    ----------
    scans : sequence of str
        Databases that may hold scans, the first that explains a kernel is believed.
    scale : float
        So many times the usual number of trials to make each input small.

    Raises
    ------
    UsageError
        When the campaign holds no faulty measurement that is asked for.
    """
    with _tested(database) as connection:
        measured = find_measurements(connection, campaign_id=campaign, framework=framework)
        known = {row.id: row for row in campaigns(connection)}
        if not measured:
            raise UsageError("the campaign measured nothing of that framework", "opscanner test OPERATOR")
        campaign_id = measured[0].campaign_id
        former = stored_faults(connection, campaign_id=campaign_id)
    wanted = [row for row in measured if not operators or row.measurement.operator in operators]
    faulty = [row for row in wanted if row.measurement.is_fault]
    if not faulty:
        raise UsageError(f"campaign {campaign_id} holds no faulty measurement of what is asked for", "opscanner test")
    size = size_of_budget(float(known[campaign_id].options.get("budget", 1.0)))
    trials = max(1, round(TRIALS * scale))
    tasks, left = fault_tasks([row.measurement for row in faulty], size=size, trials=trials)
    progress(f"{len(faulty)} faulty measurements, {len(tasks)} operators, formats and verdicts to make small")
    workers = jobs or len(os.sched_getaffinity(0))
    faults, lost = find_faults(tasks, jobs=workers, time_limit_s=time_limit_s, progress=progress)
    explained = _explained(scans, faults)
    stories = group_faults(faults, lambda fault: _places(fault, explained))
    progress(f"{len(faults)} faults of {len(stories)} causes; running their scripts")
    with ThreadPoolExecutor(workers) as pool:  # a script is a process of its own
        reports = list(pool.map(lambda story: _report(story, faulty, explained), stories))
    again = {(fault.operator, fault.framework, fault.format) for fault in faults}
    kept = [row for row in former if (row.operator, row.framework, row.format) not in again]
    written = [_row(story, fault, faulty, explained) for story in stories for fault in story.faults]
    with TrialStore(database) as store:
        store.write_faults(campaign_id, [*kept, *written])
    return reports, [*lost, *left]


def _explained(scans: Sequence[str], faults: Sequence[Fault]) -> _Found:
    wanted = {(one.framework, kernel.rstrip("_"), one.format) for one in faults for kernel in one.kernels}
    device = faults[0].device.partition(":")[0] if faults else "cpu"
    found: _Found = {}
    for database in scans:
        left = sorted(wanted - set(found))
        found.update(explain_kernels(database, left, device) if left else {})
    return found


def _of(fault: Fault, explained: _Found) -> list[Explanation]:
    """What explains a fault: findings of what it ran, those that fit its kind first."""
    found = [
        item
        for kernel in fault.kernels
        for item in explained.get((fault.framework, kernel.rstrip("_"), fault.format), ())
    ]
    fitting = "untuned-accumulation" if fault.cause.kind is Kind.ACCUMULATION else "untuned-arithmetic"
    return sorted(dict.fromkeys(found), key=lambda item: (item.pattern != fitting, item.confidence == "low"))


def _places(fault: Fault, explained: _Found) -> list[Any]:
    """Places that tell faults of one cause: in kernels of the device that was measured, no other's."""
    device = fault.device.partition(":")[0]
    return [(item.pattern, item.file, item.function) for item in _of(fault, explained) if item.device == device]


def _report(story: Story, faulty: Sequence[MeasurementRow], explained: _Found) -> FaultReport:
    shown = {(one.operator, one.framework, one.format, one.verdict) for one in story.faults}
    measured = [row.measurement for row in faulty]
    rows = [one for one in measured if (one.operator, one.framework, one.format, one.verdict) in shown]
    first = story.faults[0]
    return FaultReport(story, run_script(first.script), tuple(rows), tuple(_of(first, explained)))


def _row(story: Story, fault: Fault, faulty: Sequence[MeasurementRow], explained: _Found) -> FaultRow:
    key = (fault.operator, fault.framework, fault.format, fault.verdict)
    shown = [
        row.id
        for row in faulty
        for one in (row.measurement,)
        if (one.operator, one.framework, one.format, one.verdict) == key
    ]
    return FaultRow(
        cause=story.name, framework=fault.framework, version=fault.version, operator=fault.operator,
        direction=fault.direction, format=fault.format, device=fault.device, layout=fault.layout,
        verdict=fault.verdict.value, expression=fault.expression,
        inputs={name: (array.shape, tuple(array.ravel().tolist())) for name, array in fault.inputs.items()},
        expected=(fault.expected,), got=(fault.got,),
        error_ulp=None if fault.error_ulp != fault.error_ulp else fault.error_ulp,
        explanation=tuple(vars(item) for item in _of(fault, explained)), script=fault.script,
        measurements=tuple(shown),
    )  # fmt: skip


def write_pages(reports: Sequence[FaultReport], folder: Path) -> list[Path]:
    """A page a report, and the stand-alone script beside it; the pages' paths."""
    from opscanner.report.faults import render_markdown

    folder.mkdir(parents=True, exist_ok=True)
    pages: list[Path] = []
    for report in reports:
        name, number = report.file_name, 2
        while folder / name in pages:
            name, number = report.file_name.replace(".md", f"-{number}.md"), number + 1
        page = folder / name
        with page.open("w", encoding="utf-8") as stream:
            render_markdown(report, stream)
        page.with_suffix(".py").write_text(report.story.faults[0].script, encoding="utf-8")
        pages.append(page)
    return pages
