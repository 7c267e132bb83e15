"""Checking the laws on an operator: calls are run, their results compared, and told of as measurements."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from opscanner.dynamic.laws.judging import Comparison, Tolerance, compare, tolerance_for, verdict_of
from opscanner.dynamic.laws.law import Call, Claim, Law, Outputs
from opscanner.dynamic.laws.subject import Subject
from opscanner.dynamic.laws.table import EXCUSED, LAWS
from opscanner.dynamic.measure import Plan, budget_of, combine, version_of
from opscanner.dynamic.trial import Outcome, run_call
from opscanner.dynamic.verdict import WIDER
from opscanner.errors import UsageError
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators.catalog import Operator
from opscanner.precision.formats import FORMATS
from opscanner.precision.rounding import round_to_format, to_bits

#: What stands in front of a law's id where measurements name their strategy.
PREFIX = "law:"


def check_laws(operator: Operator, format_: str, plan: Plan, laws: Collection[str] | None = None) -> list[Measurement]:
    """A measurement for each framework and law that applies to the operator in a format; none of random operators.

    ``max_ulp`` is how far the two results lie apart in representable values, ``budget_ulp`` how far they may, and
    ``worst_expected`` what the law asks for: neither side of it is known to be right.

    Parameters
    ----------
    laws : collection of str, optional
        Ids of :data:`~opscanner.dynamic.laws.table.LAWS`; all that need not be asked for otherwise.

    Raises
    ------
    UsageError
        For a law that does not exist.
    """
    if unknown := set(laws or ()) - {law.id for law in LAWS}:
        raise UsageError(f"no law is called {sorted(unknown)[0]!r}", f"one of {', '.join(law.id for law in LAWS)}")
    if operator.kind == "random":
        return []
    wanted = [law for law in LAWS if (law.id in laws if laws is not None else not law.asked)]
    found: list[Measurement] = []
    for framework in plan.frameworks:
        if framework in operator.calls:
            subject = Subject(operator, format_, framework, plan.device, plan.seed)
            found += _Check(subject, plan).rows(wanted)
    return found


class _Check:
    """The laws on one operator in one format and framework."""

    def __init__(self, subject: Subject, plan: Plan) -> None:
        self._subject = subject
        self._plan = plan
        self._ran: dict[tuple[Call, str], Outcome] = {}

    def rows(self, laws: Sequence[Law]) -> list[Measurement]:
        found: list[Measurement] = []
        started = time.monotonic()
        for law in laws:
            framework, identifier = self._subject.framework, self._subject.operator.id
            if (law.frameworks and framework not in law.frameworks) or _excused(law.id, framework, identifier):
                continue
            if self._plan.time_s is not None and time.monotonic() - started > self._plan.time_s:
                found.append(self._row(law, Status.TIMED_OUT, f"ended after {self._plan.time_s:g} s, before this law"))
                break
            made = [row for claim in law.claims(self._subject) for row in self._claimed(law, claim)]
            refusals = [row for row in made if row.status is Status.UNSUPPORTED]
            kept = [row for row in made if row.status is not Status.UNSUPPORTED]
            if kept:
                whole = kept[0]
                for row in kept[1:]:
                    whole = combine(whole, row)
                found.append(whole)
            elif refusals and not found:
                return refusals[:1]
            if found and all(row.status is not Status.RAN for row in found):
                break  # not even the first law's first call ran
        return found

    def _claimed(self, law: Law, claim: Claim) -> Iterator[Measurement]:
        """The measurement of one claim; none where a call that only this law makes is refused."""
        started = time.monotonic()
        first = [self._run(call) for call in claim.first]
        if lost := next((one for one in first if one.status is not Status.RAN), None):
            if claim.first[0] in {start.call for start in self._subject.starts}:
                yield replace(self._row(law, lost.status, lost.message), batch=claim.what)
            return
        calls = claim.second(_outputs(first))
        second = [self._run(call) for call in calls]
        if lost := next((one for one in second if one.status is not Status.RAN), None):
            # Other arrays may not fit a call that names sizes, or wants a list sorted: nobody is to blame for that.
            if lost.status is not Status.UNSUPPORTED and law.keeps_arrays:
                yield replace(self._row(law, lost.status, lost.message), batch=claim.what)
            return
        made = [self._judged(law, claim, calls, first, second, position) for position in range(len(second[0].outputs))]
        judged = [row for row in made if row is not None]
        if judged:
            order = list(Verdict)
            worst = min(judged, key=lambda row: (order.index(row.verdict), -row.max_ulp))
            yield replace(worst, elapsed_s=time.monotonic() - started)

    def _run(self, call: Call, format_: str = "") -> Outcome:
        subject = self._subject
        format_ = format_ or subject.format_
        key = (call, format_)
        if key not in self._ran:
            expression = subject.operator.calls[subject.framework]
            device = call.device or self._plan.device
            # In rows one behind the other: the runners keep the order in memory that a slice of numpy's has.
            inputs = {name: np.array(array, order="C") for name, array in call.inputs.items()}
            self._ran[key] = run_call(
                subject.framework, expression, inputs, format_, device, call.layout, compiled=call.compiled
            )
        return self._ran[key]

    def _judged(
        self,
        law: Law,
        claim: Claim,
        calls: Sequence[Call],
        first: Sequence[Outcome],
        second: Sequence[Outcome],
        position: int,
    ) -> Measurement | None:
        format_ = second[0].formats[position]
        subject = self._subject
        elementwise = subject.operator.elementwise
        tolerance = self._tolerance(claim, format_)
        own = self._compared(claim, calls, first, second, position, format_, tolerance)
        if own is None:
            return None
        comparison, kept = own
        wider = None
        if comparison.broken.any() and format_ == subject.format_:
            wider = self._in_wider_format(claim, position, tolerance, kept)
        verdict, places = verdict_of(comparison, wider, elementwise=elementwise)
        row = self._row(law, Status.RAN, "")
        return self._told(
            law, row, claim, calls, comparison, wider, verdict, places, format_, tolerance, position, kept
        )

    def _tolerance(self, claim: Claim, format_: str) -> Tolerance:
        operator = self._subject.operator
        if format_ not in WIDER and format_ != "float64":
            return Tolerance(0.0, 0.0)  # whole numbers, truth values
        budgets = budget_of(operator, format_), budget_of(operator, "float32")
        return tolerance_for(*budgets, format_, exact=claim.exact, elementwise=operator.elementwise)

    def _in_wider_format(
        self, claim: Claim, position: int, tolerance: Tolerance, kept: np.ndarray
    ) -> Comparison | None:
        wide = WIDER.get(self._subject.format_)
        if wide is None:
            return None
        first = [self._run(call, wide) for call in claim.first]
        if any(one.status is not Status.RAN for one in first):
            return None
        calls = claim.second(_outputs(first))
        second = [self._run(call, wide) for call in calls]
        if any(one.status is not Status.RAN or len(one.outputs) <= position for one in second):
            return None
        if second[0].formats[position] != wide:
            return None
        compared = self._compared(claim, calls, first, second, position, self._subject.format_, tolerance, kept)
        return None if compared is None else compared[0]

    def _compared(
        self,
        claim: Claim,
        calls: Sequence[Call],
        first: Sequence[Outcome],
        second: Sequence[Outcome],
        position: int,
        format_: str,
        tolerance: Tolerance,
        kept: np.ndarray | None = None,
    ) -> tuple[Comparison, np.ndarray] | None:
        """Both sides of one output and which of its flat places are compared; None where the law says nothing of it."""
        ran = _outputs(first)
        whole = claim.expect(ran)[position]
        if whole is None:
            return None
        got = _joined([np.asarray(one.outputs[position]) for one in second])
        masked = np.ma.getmaskarray(whole).ravel() if np.ma.isMaskedArray(whole) else np.zeros(np.size(whole), bool)
        expected = np.asarray(np.ma.getdata(whole))
        if got.size != expected.size or (len(second) == 1 and got.shape != expected.shape):
            return None
        if not got.size or got.dtype.kind == "c":
            return None
        got = got.astype(float).reshape(expected.shape)
        expected = expected.astype(float)
        floating = format_ in WIDER or format_ == "float64"
        if not floating:
            return _whole_numbers(got.ravel(), expected.ravel()), np.arange(got.size)
        if second[0].formats[position] != format_:
            got = round_to_format(got, format_)
            expected = expected if claim.slack_ulp else round_to_format(expected, format_)
        parts = [np.abs(one[position]) for one in ran if one[position] is not None]
        scale = np.maximum.reduce(parts) if claim.slack_ulp and all(p.shape == got.shape for p in parts) else None
        terms = sum(array.size for array in claim.first[0].inputs.values()) / got.size
        places = np.flatnonzero(~masked) if kept is None else kept
        if not places.size:
            return None
        if places.size < got.size:  # rows come apart: each place is then a row of its own
            got, expected = got.ravel()[places], expected.ravel()[places]
            scale = None if scale is None else scale.ravel()[places]
        by_row = not self._subject.operator.elementwise
        comparison = compare(
            got,
            expected,
            format_,
            tolerance,
            slack_ulp=claim.slack_ulp,
            scale=scale,
            by_row=by_row,
            terms=terms,
            flushable=self._subnormal(calls, whole.size)[places],
        )
        return comparison, places

    def _subnormal(self, calls: Sequence[Call], count: int) -> np.ndarray:
        """Elements of an elementwise operator with an input that float32's units may flush."""
        found: np.ndarray = np.zeros(count, bool)
        subject = self._subject
        if not subject.operator.elementwise or FORMATS[subject.format_].emin != FORMATS["float32"].emin:
            return found
        smallest = 2.0 ** FORMATS["float32"].emin
        for name in calls[0].inputs:
            joined = np.concatenate([np.ravel(call.inputs[name]) for call in calls])
            if joined.dtype.kind == "f" and joined.size in (1, count):
                found |= (joined != 0) & (np.abs(joined) < smallest)
        return found

    def _row(self, law: Law, status: Status, message: str) -> Measurement:
        subject = self._subject
        return Measurement(
            operator=subject.operator.id,
            direction=subject.operator.direction,
            framework=subject.framework,
            version=version_of(subject.framework),
            format=subject.format_,
            device=self._plan.device,
            layout="contiguous",
            strategy=f"{PREFIX}{law.id}",
            seed=self._plan.seed,
            status=status,
            verdict=Verdict.NOT_MEASURED,
            message=message,
            expression=subject.operator.calls[subject.framework],
        )

    def _told(
        self,
        law: Law,
        row: Measurement,
        claim: Claim,
        calls: Sequence[Call],
        comparison: Comparison,
        wider: Comparison | None,
        verdict: Verdict,
        places: np.ndarray,
        format_: str,
        tolerance: Tolerance,
        position: int,
        kept: np.ndarray,
    ) -> Measurement:
        distance = comparison.distance
        numbers = distance[~np.isnan(distance)]
        order = np.where(np.isnan(distance[places]), np.inf, distance[places])
        worst = int(places[np.argmax(order)]) if places.size else -1
        differing = int((~(distance == 0)).sum())
        mismatched = np.isnan(comparison.got) != np.isnan(comparison.expected)
        infinite = ~mismatched & (np.isinf(comparison.got) != np.isinf(comparison.expected))
        return replace(
            row,
            verdict=verdict,
            layout=calls[0].layout,
            output=position,
            count=comparison.got.size,
            max_ulp=float(numbers.max(initial=0.0)),
            mean_ulp=float(numbers.mean()) if numbers.size else 0.0,
            over_1_ulp=int((distance > 1).sum()),
            nan_mismatches=int(mismatched.sum()),
            infinity_mismatches=int(infinite.sum()),
            sign_mismatches=comparison.zero_signs,
            flushed_subnormals=int(comparison.flushed.sum()),
            budget_ulp=claim.slack_ulp + tolerance.spread_ulp if claim.slack_ulp else tolerance.ulp,
            upcast_max_ulp=None if wider is None else float(np.nanmax(wider.distance, initial=0.0)),
            beyond_upcast=int(comparison.broken.sum()) if verdict.is_fault else 0,
            tier="law",
            batch=claim.what,
            worst_index=int(kept[worst]) if worst >= 0 else -1,
            worst_expected=float(comparison.expected[worst]) if worst >= 0 else 0.0,
            worst_got=float(comparison.got[worst]) if worst >= 0 else 0.0,
            worst_inputs=self._inputs_at(calls, int(kept[worst]), comparison.got.size) if worst >= 0 else {},
            message=_message(law, comparison, worst, differing, format_),
        )

    def _inputs_at(self, calls: Sequence[Call], place: int, count: int) -> dict[str, Any]:
        """The second call's inputs at an element of an elementwise operator."""
        if not self._subject.operator.elementwise:
            return {}
        found: dict[str, Any] = {}
        for name in calls[0].inputs:
            joined = np.concatenate([np.ravel(call.inputs[name]) for call in calls])
            if joined.dtype.kind in "fiub" and joined.size in (1, count):
                found[name] = float(joined[place if joined.size > 1 else 0])
        return found


def _message(law: Law, comparison: Comparison, worst: int, differing: int, format_: str) -> str:
    """The law, and the two results with their bits where they differ."""
    if worst < 0:
        return f"{law.says} It holds."
    sides = []
    for value in (comparison.expected[worst], comparison.got[worst]):
        whole = format_ not in WIDER and format_ != "float64"
        bits = "" if whole else f" ({int(to_bits(round_to_format(value, format_), format_)):#x})"
        sides.append(f"{value:.9g}{bits}")
    return (
        f"{law.says} Here {sides[0]} was to be expected, and {sides[1]} came; {differing} of {comparison.got.size} "
        f"differ."
    )


def _whole_numbers(got: np.ndarray, expected: np.ndarray) -> Comparison:
    distance = np.abs(got - expected)
    none = np.zeros(got.shape, bool)
    return Comparison(got, expected, distance, distance != 0, none, none, 0)


def _outputs(outcomes: Sequence[Outcome]) -> list[Outputs]:
    return [
        [np.asarray(one, float) if one.dtype.kind == "f" else np.asarray(one) for one in outcome.outputs]
        for outcome in outcomes
    ]


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    joined: np.ndarray = np.concatenate([np.atleast_1d(part) for part in parts], axis=-1)
    return joined


def _excused(law: str, framework: str, operator: str) -> bool:
    return any(
        fnmatch.fnmatchcase(law, one) and fnmatch.fnmatchcase(framework, where) and fnmatch.fnmatchcase(operator, which)
        for one, where, which, _ in EXCUSED
    )
