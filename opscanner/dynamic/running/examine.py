"""What is said of two results: kept in their site, and told of when they are too far apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from opscanner.dynamic.running.calls import format_of
from opscanner.dynamic.running.compare import Comparison, compare
from opscanner.dynamic.running.judge import Judgement, is_fine
from opscanner.dynamic.running.parts import Part
from opscanner.dynamic.running.screen import Screening, screen, ulp_at
from opscanner.precision.formats import FORMATS
from opscanner.watched import Alert, AlertKind, Site, WatchReport

#: Of the calls of a site that are checked, each so-manieth has a part of its elements compared in full, a different
#: part each time; the others are screened. Relative errors are lower bounds either way.
_PART_EVERY = 16
_PART = 1 << 12
#: Alerts of one site that are kept one by one; all are counted.
_MOST_ALERTS = 16

Told = tuple[AlertKind, str]


@dataclass(frozen=True)
class Sampling:
    """Which calls of a site are checked: the first ``first``, then every ``every``-th; ``every`` 0 means no more.

    Sites take turns, so that no step is much slower than others.
    """

    every: int = 1
    first: int = 0

    def takes(self, call: int, place: int) -> bool:
        """Whether to check a call, counted from 0, of the site with that place in the list of sites."""
        return call < self.first or (self.every > 0 and (call + place) % self.every == 0)


@dataclass(frozen=True)
class Tolerance:
    """When a call is told of.

    Parameters
    ----------
    scaled_ulp : float or None
        Differences in ULP of the tensor's largest element. None: half of the format's digits, 2**(precision/2).
    relative_error : float or None
        FuMi's measure, |a - b| / |a + b|; None: not asked for. Asking for it compares every checked call in full.
    """

    scaled_ulp: float | None = None
    relative_error: float | None = None

    @property
    def is_given(self) -> bool:
        """True when either was asked for."""
        return self.scaled_ulp is not None or self.relative_error is not None

    def scaled_ulp_of(self, format_: str, inputs: Sequence[torch.Tensor] = ()) -> float:
        """The tolerance in a format: half of the digits of it, or of the narrowest input, whose ULP is larger."""
        if self.scaled_ulp is not None:
            return self.scaled_ulp
        digits = FORMATS[format_].precision
        narrowest = min([digits, *(FORMATS[name].precision for one in inputs if (name := format_of(one)) in FORMATS)])
        return math.ldexp(2.0 ** (-narrowest / 2), digits)


class Examiner:
    """Compares results, keeps the worst of each site, and alerts.

    Parameters
    ----------
    is_reference : bool
        The second result is nearer to the truth than the first. Where no tolerance is given, the first is then judged
        by what one ULP of its inputs does (:mod:`opscanner.dynamic.running.judge`).
    step : callable
        Gives the number of the current step.
    """

    def __init__(
        self,
        report: WatchReport,
        tolerance: Tolerance,
        *,
        is_reference: bool,
        step: Callable[[], int],
        on_alert: Callable[[Alert], None],
    ) -> None:
        self._report = report
        self._tolerance = tolerance
        self._is_reference = is_reference
        self._judges = is_reference and not tolerance.is_given
        self._step = step
        self._on_alert = on_alert
        self._good_up_to: dict[tuple[int, int], float] = {}
        self._undelivered: list[Alert] = []

    def examine(
        self,
        site: Site,
        place: int,
        one: torch.Tensor,
        other: torch.Tensor,
        *,
        inputs: Sequence[torch.Tensor],
        judged: Callable[[], Judgement],
        terms: Callable[[], float | None],
        save: Callable[[AlertKind, str], str],
        again: Callable[[], torch.Tensor] | None = None,
        located: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None,
    ) -> None:
        """Compares one output of a call.

        Parameters
        ----------
        place : int
            Which of the outputs.
        judged : callable
            Gives the judgement of the first result; asked for only when it is suspicious.
        terms : callable
            Gives the largest magnitude behind the result, where the operator is a sum; asked for only when needed.
        save : callable
            Keeps the call, and gives the file's path.
        again : callable, optional
            Gives the second result made with more care; asked for only when something is not finite.
        located : callable, optional
            From an index in these tensors to that in the operator's own result.
        """
        seen = screen(one, other)
        if not seen.finite and again is not None:
            other = again()
            seen = screen(one, other)
        if seen.finite and seen.difference == 0 and one.dtype == other.dtype:
            return
        suspicious = self._judges or not (
            seen.finite and seen.scaled_ulp <= self._tolerance.scaled_ulp_of(seen.format, inputs)
        )
        full = None
        if suspicious or self._tolerance.relative_error is not None:
            full = _located(compare(one, other), located)
            _keep_worst(site, full)
        elif site.checked % _PART_EVERY == 1:
            _keep_worst(site, _located(_compare_part(one, other, site.checked // _PART_EVERY), located))
        if seen.finite:
            site.max_scaled_ulp = max(site.max_scaled_ulp, seen.scaled_ulp)
        if full is None:
            return
        told = None if seen.finite else self._non_finite(one, full, inputs)
        if told is None:
            told = (
                self._judge(site, place, full, judged) if self._judges else self._past(site, seen, full, terms, inputs)
            )
        if told is not None:
            self._alert(site, *told, save)

    def _non_finite(self, one: torch.Tensor, full: Comparison, inputs: Sequence[torch.Tensor]) -> Told | None:
        """What is to be told of infinities and NaN in a result; None for those that the inputs had already."""
        at = f"at {list(full.worst_index)}"
        if full.nan_mismatches:
            which = "in the result, not in the wider one" if self._is_reference else "in one result alone"
            return AlertKind.NAN, f"{full.nan_mismatches} elements are NaN {which}, first {at}"
        if full.infinity_mismatches and self._is_reference:
            return AlertKind.OVERFLOW, (
                f"{full.infinity_mismatches} elements are infinite in {full.format}; the wider result is "
                f"{full.worst[1]:.6g} {at}"
            )
        if full.infinity_mismatches:
            return AlertKind.INFINITY, (
                f"{full.infinity_mismatches} elements are infinite in one result alone, first {at}"
            )
        if bool(torch.isfinite(one).all()) or not all(bool(torch.isfinite(item).all()) for item in inputs):
            return None
        return AlertKind.NON_FINITE, f"{int((~torch.isfinite(one)).sum())} elements are not finite, all inputs are"

    def _judge(self, site: Site, place: int, full: Comparison, judged: Callable[[], Judgement]) -> Told | None:
        """By what one ULP of the inputs does; a site that was good is judged again when it is twice as far off."""
        if is_fine(full.max_ulp) or full.max_ulp <= self._good_up_to.get((id(site), place), 0.0):
            return None
        found = judged()
        site.worst_ratio = max(site.worst_ratio, found.worst)
        if found.is_good:
            self._good_up_to[id(site), place] = 2 * full.max_ulp
            return None
        return AlertKind.DEVIATION, str(found)

    def _past(
        self,
        site: Site,
        seen: Screening,
        full: Comparison,
        terms: Callable[[], float | None],
        inputs: Sequence[torch.Tensor],
    ) -> Told | None:
        """By the tolerances."""
        limit = self._tolerance.scaled_ulp_of(full.format, inputs)
        where = f"such as {full.worst[0]:.6g} and {full.worst[1]:.6g} at {list(full.worst_index)}"
        if not full.max_scaled_ulp <= limit:
            magnitude = terms()
            if magnitude is None or not seen.difference <= limit * ulp_at(magnitude, seen.format):
                return AlertKind.DEVIATION, (
                    f"{full.max_scaled_ulp:.3g} ULP of the largest element ({limit:.3g} allowed), {where}"
                )
            note = "sums that cancel: the difference is small beside the terms"
            if note not in site.notes:
                site.notes.append(note)
        relative = self._tolerance.relative_error
        if relative is not None and not full.max_relative_error <= relative:
            return AlertKind.DEVIATION, (
                f"relative error at least {full.max_relative_error:.3g} ({relative:g} allowed), {where}"
            )
        return None

    def _alert(self, site: Site, kind: AlertKind, message: str, save: Callable[[AlertKind, str], str]) -> None:
        alert = Alert(site, kind, site.count, self._step(), message, save(kind, message))
        site.alerts += 1
        site.first_alert = site.first_alert or alert
        if site.alerts <= _MOST_ALERTS:
            self._report.alerts.append(alert)
        self._undelivered.append(alert)

    def deliver(self) -> None:
        """Hands the alerts since the last time to whom they are for; what that raises ends the model's run."""
        alerts, self._undelivered = self._undelivered, []
        for alert in alerts:
            self._on_alert(alert)


def _compare_part(one: torch.Tensor, other: torch.Tensor, turn: int) -> Comparison:
    """As :func:`compare` for a part of the elements, those that have their turn."""
    size = one.numel()
    if size <= _PART or not (one.is_contiguous() and other.is_contiguous()):
        return compare(one, other) if size <= 4 * _PART else compare(one[:1], other[:1])
    start = min(turn * _PART % size, size - _PART)
    part = Part(start, start + _PART, tuple(one.shape))
    return _located(compare(part.of(one), part.of(other)), part.index)


def _located(found: Comparison, located: Callable[[tuple[int, ...]], tuple[int, ...]] | None) -> Comparison:
    return found if located is None else replace(found, worst_index=located(found.worst_index))


def _keep_worst(site: Site, found: Comparison) -> None:
    site.max_relative_error = max(site.max_relative_error, found.max_relative_error)
    site.max_ulp = max(site.max_ulp, found.max_ulp)
    mismatches = found.nan_mismatches + found.infinity_mismatches
    if found.max_scaled_ulp > site.max_scaled_ulp or mismatches or not site.worst_index:
        site.worst_index, site.worst = found.worst_index, found.worst
    site.max_scaled_ulp = max(site.max_scaled_ulp, found.max_scaled_ulp)
    site.nan_mismatches += found.nan_mismatches
    site.infinity_mismatches += found.infinity_mismatches
