"""How well findings of a scan predict what measurements show: the static stage held against the dynamic one.

For every operator, framework and 16-bit format that both know, the scan gives a score (``operators.risk``) and a cause,
and the measurements say whether a fault was seen. The scan's kernels and the measured ones may be of different devices
or releases: what is compared says so, and such rows can be wrong without either stage being so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators.comparison import Comparison, Side


@dataclass(frozen=True)
class Prediction:
    """One operator of one framework in one format, as both stages see it.

    Parameters
    ----------
    score : float
        What the scan says may be lost, 0 to 1; 0 where it saw only wide computations or single roundings.
    cause : str
        ``operators.risk.Cause`` of the score; empty without one.
    fault : bool
        A measurement had a faulty verdict.
    worst : Measurement
        The worst measurement.
    """

    operator: str
    framework: str
    format: str
    direction: str
    device: str
    score: float
    cause: str
    fault: bool
    worst: Measurement


@dataclass(frozen=True)
class Agreement:
    """How well a ranking finds faults.

    Parameters
    ----------
    known, faults, suspected : int
        Rows that both stages know; with a fault; with a score above 0.
    hits : int
        Suspected rows with a fault.
    average_precision : float
        The mean, over the faults, of the precision at the rank where each is found; rows of equal score share the
        expected value of a random order. NaN without faults.
    """

    known: int
    faults: int
    suspected: int
    hits: int
    average_precision: float

    @property
    def precision(self) -> float:
        """Share of the suspected rows that have a fault."""
        return self.hits / self.suspected if self.suspected else math.nan

    @property
    def recall(self) -> float:
        """Share of the faults that were suspected."""
        return self.hits / self.faults if self.faults else math.nan

    @property
    def base_rate(self) -> float:
        """Share of all rows that have a fault: the precision of guessing."""
        return self.faults / self.known if self.known else math.nan


def predictions(comparisons: Iterable[Comparison], measured: Iterable[Measurement]) -> list[Prediction]:
    """The rows that both stages know, the highest score first.

    Calls that this project put together of several of a framework's are left out: no kernel of a finding runs in them
    alone, and what they round in between is no fault of the framework.
    A comparison stands for a group of rows of the table of pairs, which run the same kernels: its fault is that of any.
    """
    by_key: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for one in measured:
        unknown = one.verdict in (Verdict.NOT_MEASURED, Verdict.UNDECIDED, Verdict.EMPTY)
        if one.status is Status.RAN and not unknown and not one.composite:
            by_key[one.operator, one.framework, one.format].append(one)
    found = []
    for comparison in comparisons:
        for side in (comparison.first, comparison.second):
            rows = [
                row for pair in comparison.pairs for row in by_key.get((pair, side.framework, comparison.format), ())
            ]
            if side.known and rows:
                found.append(_predict(comparison, side, rows))
    return sorted(found, key=lambda one: (-one.score, one.operator, one.framework, one.format))


def _predict(comparison: Comparison, side: Side, rows: Sequence[Measurement]) -> Prediction:
    order = list(Verdict)
    worst = min(rows, key=lambda row: (order.index(row.verdict), -row.max_ulp))
    cause = side.risk.cause
    return Prediction(
        operator=comparison.pairs[0],
        framework=side.framework,
        format=comparison.format,
        direction=comparison.direction,
        device=comparison.device,
        score=side.risk.score,
        cause=cause.value if cause is not None and side.risk.score > 0 else "",
        fault=worst.verdict.is_fault,
        worst=worst,
    )


def agreement(rows: Sequence[Prediction]) -> Agreement:
    """How well the scores of rows find their faults.

    >>> agreement([])
    Agreement(known=0, faults=0, suspected=0, hits=0, average_precision=nan)
    """
    suspected = [one for one in rows if one.score > 0]
    return Agreement(
        known=len(rows),
        faults=sum(one.fault for one in rows),
        suspected=len(suspected),
        hits=sum(one.fault for one in suspected),
        average_precision=_average_precision([(one.score, one.fault) for one in rows]),
    )


def agreement_by(rows: Sequence[Prediction], attribute: str) -> Mapping[str, Agreement]:
    """The same for each value of an attribute (``framework``, ``format``, ``cause``, ``direction``)."""
    groups: dict[str, list[Prediction]] = defaultdict(list)
    for one in rows:
        groups[str(getattr(one, attribute))].append(one)
    return {name: agreement(group) for name, group in sorted(groups.items())}


def precision_at(rows: Sequence[Prediction], k: int) -> float:
    """Share of faults among the ``k`` highest scores; of rows that tie at the end, the expected share counts.

    NaN when there are fewer than ``k`` rows.
    """
    if k <= 0 or len(rows) < k:
        return math.nan
    ordered = sorted(rows, key=lambda one: -one.score)
    last = ordered[k - 1].score
    above = [one for one in ordered if one.score > last]
    tied = [one for one in ordered if one.score == last]
    expected = (k - len(above)) * sum(one.fault for one in tied) / len(tied)
    return (sum(one.fault for one in above) + expected) / k


def _average_precision(scored: Sequence[tuple[float, bool]]) -> float:
    """With groups of equal score in a random order: M. McSherry, M. Najork, Computing information retrieval performance
    measures efficiently in the presence of tied scores, ECIR 2008, equation for average precision."""
    groups: dict[float, list[bool]] = defaultdict(list)
    for score, fault in scored:
        groups[score].append(fault)
    total = sum(fault for _, fault in scored)
    if not total:
        return math.nan
    before = before_hits = 0
    summed = 0.0
    for score in sorted(groups, reverse=True):
        size, hits = len(groups[score]), sum(groups[score])
        for place in range(1, size + 1):
            # One of the group's hits stands here with probability hits / size; then (place - 1) * (hits - 1) /
            # (size - 1) others of them are expected before it.
            others = (place - 1) * (hits - 1) / (size - 1) if size > 1 else 0
            summed += hits / size * (before_hits + others + 1) / (before + place)
        before += size
        before_hits += hits
    return summed / total
