"""One operator in one format: made inputs, every framework's results, the reference, and what is said of them.

Runs in the process that calls it; :mod:`opscanner.dynamic.campaign` runs it in workers with limits.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from opscanner.dynamic.batch_trial import EVALUATIONS, BatchTrial, Plan, budget_of, number, version_of
from opscanner.dynamic.campaign import Task
from opscanner.dynamic.coverage import Coverage
from opscanner.dynamic.guided import SEARCH, STARTS, Search, is_searched
from opscanner.dynamic.inputs import STRATEGIES, Batch, generate
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators import opinfo
from opscanner.operators.catalog import Operator, load_catalog
from opscanner.precision.formats import FORMATS

__all__ = [
    "STRATEGY_IDS", "Plan", "budget_of", "combine", "measure_operator", "measure_task", "operator_by_id", "remake",
    "version_of",
]  # fmt: skip

#: What inputs may be asked for: the strategies by name, and the search, which comes after them.
STRATEGY_IDS = (*(strategy.id for strategy in STRATEGIES), SEARCH)


def measure_operator(operator: Operator, format_: str, plan: Plan) -> list[Measurement]:
    """Measurements of one operator in one format: a row for each framework, strategy and layout.

    A framework that does not support the format on the device is one row that says so.
    """
    frameworks = [name for name in plan.frameworks if name in operator.calls]
    if (
        any(item.kind == "complex" for item in operator.inputs)
        and FORMATS[format_].precision < FORMATS["float32"].precision
    ):
        return [_no_format(operator, format_, plan, name) for name in frameworks]
    return _Measuring(operator, format_, plan, frameworks).rows()


class _Measuring:
    """One operator in one format, batch by batch."""

    def __init__(self, operator: Operator, format_: str, plan: Plan, frameworks: Sequence[str]) -> None:
        self._operator, self._format, self._plan, self._frameworks = operator, format_, plan, frameworks
        self._rows: dict[tuple[str, str, str], Measurement] = {}
        self._refused: dict[str, Measurement] = {}
        self._coverage = Coverage(operator, format_)
        self._started = time.monotonic()
        wanted = plan.strategies or STRATEGY_IDS
        self._strategies = [name for name in wanted if name != SEARCH]
        searched = SEARCH in wanted and plan.evaluations > 0 and is_searched(operator, format_)
        self._search = Search(operator, format_, plan) if searched else None

    def rows(self) -> list[Measurement]:
        ended = False
        for batch in self._batches(self._strategies):
            if not self._running():
                break
            if ended := self._out_of_time():
                self._say(f"ended after {self._plan.time_s:g} s, before {batch.strategy}")
                break
            trial = BatchTrial(self._operator, self._format, self._plan, batch)
            for one in trial.measure(self._running()):
                self._keep(one, batch)
            if self._search is not None:
                self._search.take(batch, trial.excess)
        if self._search is not None and not ended:
            self._run_search(self._search)
        rows = [self._with_coverage(key, row) for key, row in self._rows.items()]
        kept = [row for row in rows if row.status is not Status.UNSUPPORTED]
        silent = [row for name, row in self._refused.items() if not any(one.framework == name for one in kept)]
        return [*kept, *silent]

    def _run_search(self, search: Search) -> None:
        for batch in self._batches([name for name in STARTS if name not in self._strategies]):
            if not self._running() or self._out_of_time():
                return
            if search.takes(batch):
                trial = BatchTrial(self._operator, self._format, self._plan, batch)
                for one in trial.measure(self._running()):
                    if one.status is Status.UNSUPPORTED:
                        self._refused.setdefault(one.framework, one)
                search.take(batch, trial.excess)
        for framework in self._running():
            if self._out_of_time():
                self._say(f"ended after {self._plan.time_s:g} s, before the search")
                return
            found = search.run(framework)
            if found is not None:
                trial = BatchTrial(self._operator, self._format, self._plan, found)
                (one,) = trial.measure(self._running(), only=framework)
                self._keep(one, found)

    def _batches(self, strategies: Sequence[str]) -> Iterator[Batch]:
        return generate(self._operator, self._format, strategies, seed=self._plan.seed, size=self._plan.size)

    def _running(self) -> list[str]:
        return [name for name in self._frameworks if name not in self._refused]

    def _out_of_time(self) -> bool:
        return self._plan.time_s is not None and time.monotonic() - self._started > self._plan.time_s

    def _say(self, message: str) -> None:
        for key, row in self._rows.items():
            self._rows[key] = replace(row, message=row.message or message)

    def _keep(self, one: Measurement, batch: Batch) -> None:
        if one.status is Status.UNSUPPORTED and batch.layout == "contiguous":
            self._refused.setdefault(one.framework, one)
        if one.status is Status.UNSUPPORTED and batch.layout != "contiguous":
            return
        key = (one.framework, one.strategy, one.layout)
        self._rows[key] = combine(self._rows[key], one) if key in self._rows else one
        if one.status is Status.RAN:
            self._coverage.feed(key, batch.inputs)

    def _with_coverage(self, key: tuple[str, str, str], row: Measurement) -> Measurement:
        every = [other for other in self._rows if other[0] == key[0]]
        return replace(row, coverage=self._coverage.of([key]), coverage_in_all=self._coverage.of(every))


def remake(one: Measurement, size: str, cache: str = "") -> Iterator[Batch]:
    """The batches of a measurement's strategy and layout again; ``batch_number`` tells which of them was the worst.

    Those of a search are found by the search again, in as many calls; it runs the operator.
    """
    operator = operator_by_id(one.operator)
    if one.strategy != SEARCH:
        batches = generate(operator, one.format, [one.strategy], seed=one.seed, size=size)
        yield from (batch for batch in batches if batch.layout == one.layout)
        return
    plan = Plan((one.framework,), one.device, (SEARCH,), one.seed, size, None, cache, one.batch_number)
    search = Search(operator, one.format, plan)
    for batch in generate(operator, one.format, STARTS, seed=one.seed, size=size):
        if search.takes(batch):
            trial = BatchTrial(operator, one.format, plan, batch)
            trial.measure([one.framework])
            search.take(batch, trial.excess)
    if (found := search.run(one.framework)) is not None:
        yield found


def _no_format(operator: Operator, format_: str, plan: Plan, framework: str) -> Measurement:
    """The row of an operator of complex numbers, whose parts are float32 or float64 in both frameworks."""
    return Measurement(
        operator=operator.id,
        direction=operator.direction,
        framework=framework,
        version=version_of(framework),
        format=format_,
        device=plan.device,
        layout="contiguous",
        strategy="",
        seed=plan.seed,
        status=Status.UNSUPPORTED,
        verdict=Verdict.NOT_MEASURED,
        message=f"complex numbers have no parts in {format_}",
        expression=operator.calls[framework],
    )


def measure_task(
    task: Task, *, size: str, time_s: float | None, cache: str, evaluations: int = EVALUATIONS
) -> list[Measurement]:
    """As :func:`measure_operator`, for a campaign's workers."""
    operator = operator_by_id(task.operator)
    plan = Plan(task.frameworks, task.device, task.strategies or None, task.seed, size, time_s, cache, evaluations)
    return measure_operator(operator, task.format, plan)


@functools.cache
def operator_by_id(identifier: str) -> Operator:
    """The catalog's row of that id; for an id of OpInfo what the release that is installed says of it."""
    if identifier.startswith(opinfo.PREFIX):
        return opinfo.opinfo_operator(identifier)
    return {one.id: one for one in load_catalog()}[identifier]


def combine(first: Measurement, second: Measurement) -> Measurement:
    """Two measurements of the same strategy as one: counts add up, the worse one gives the rest."""
    order = list(Verdict)
    for one in (first, second):
        if one.status is not Status.RAN:
            return one
    worse = min((first, second), key=lambda row: (order.index(row.verdict), -number(row.max_ulp)))
    count = first.count + second.count
    quantiles = tuple(map(max, zip(first.quantiles_ulp, second.quantiles_ulp, strict=False)))
    upcasts = [one for one in (first.upcast_max_ulp, second.upcast_max_ulp) if one is not None]
    others = [one for one in (first.other_max_ulp, second.other_max_ulp) if one is not None]
    return replace(
        worse,
        count=count,
        max_ulp=_larger(first.max_ulp, second.max_ulp),
        mean_ulp=(number(first.mean_ulp) * first.count + number(second.mean_ulp) * second.count) / max(count, 1),
        quantiles_ulp=quantiles,
        over_1_ulp=first.over_1_ulp + second.over_1_ulp,
        max_absolute_error=_larger(first.max_absolute_error, second.max_absolute_error),
        max_relative_error=_larger(first.max_relative_error, second.max_relative_error),
        max_scaled_ulp=_larger(first.max_scaled_ulp, second.max_scaled_ulp),
        nan_mismatches=first.nan_mismatches + second.nan_mismatches,
        infinity_mismatches=first.infinity_mismatches + second.infinity_mismatches,
        sign_mismatches=first.sign_mismatches + second.sign_mismatches,
        flushed_subnormals=first.flushed_subnormals + second.flushed_subnormals,
        undecided=first.undecided + second.undecided,
        upcast_max_ulp=max(upcasts, default=None),
        beyond_upcast=first.beyond_upcast + second.beyond_upcast,
        other_max_ulp=max(others, default=None),
        elapsed_s=first.elapsed_s + second.elapsed_s,
    )


def _larger(first: float, second: float) -> float:
    """The larger one; NaN, which stands for an empty maximum, is no number to compare with."""
    return max((one for one in (first, second) if not math.isnan(one)), default=math.nan)
