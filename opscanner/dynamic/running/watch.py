"""A model watched while it runs: every operator that reaches a kernel is run a second time, and both are compared.

A ``TorchDispatchMode`` stands below autograd and autocast: it sees the casts of autocast, the kernel that scaled
dot-product attention chose, what gradient checkpointing computes again, and the whole backward pass, and nothing
that it computes is recorded for gradients. The first result is what the model goes on with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from opscanner.dynamic.running.calls import floats_of, format_of, tensors_of
from opscanner.dynamic.running.cancellation import largest_terms
from opscanner.dynamic.running.examine import Examiner, Sampling
from opscanner.dynamic.running.judge import Judgement, judge
from opscanner.dynamic.running.kinds import Kind, is_random, kind_of, writes_lists
from opscanner.dynamic.running.noise import NoiseSource
from opscanner.dynamic.running.parts import Part, part_of
from opscanner.dynamic.running.places import Frame, ModulePlaces, location
from opscanner.dynamic.running.random_state import RandomState
from opscanner.dynamic.running.saving import CallSaver
from opscanner.dynamic.running.second import (
    Perturbed,
    Second,
    Substituted,
    as_they_are,
    in_second_run,
    moved_arguments,
    second_run,
)
from opscanner.watched import AlertKind, Direction, Site, WatchReport

_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})


class OperatorWatch(TorchDispatchMode):  # type: ignore[misc]
    """Runs every operator again, as a :class:`Second` says, and keeps the worst of each site in a report.

    Parameters
    ----------
    noise : NoiseSource
        Moves inputs where a result is judged by what that does.
    """

    def __init__(
        self,
        report: WatchReport,
        places: ModulePlaces,
        second: Second,
        *,
        examiner: Examiner,
        noise: NoiseSource,
        sampling: Sampling,
        saver: CallSaver | None = None,
        optimizers: bool = False,
    ) -> None:
        super().__init__()
        self._report = report
        self._places = places
        self._second = second
        self._examiner = examiner
        self._noise = noise
        self._sampling = sampling
        self._saver = saver
        self._optimizers = optimizers
        self._optimizing = 0
        self._sites: dict[Any, Site] = {}
        self._order: dict[int, int] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> Any:
        self._handles = [
            register_optimizer_step_pre_hook(self._optimizer_began),
            register_optimizer_step_post_hook(self._optimizer_ended),
        ]
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _optimizer_began(self, *step: Any) -> None:
        self._optimizing += 1

    def _optimizer_ended(self, *step: Any) -> None:
        self._optimizing -= 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if in_second_run():  # of another watch around this one
            return func(*args, **kwargs)
        reason = self._why_not(func, types)
        if reason:
            self._report.unchecked[reason] += 1
            return func(*args, **kwargs)
        frame, backward = self._places.current()
        where = ""
        if frame.is_outside:  # no module says where a step begins: what a loop calls again is told by its line
            number, where = 1, "" if backward else location()
        else:
            number = frame.counts[func] = frame.counts[func] + 1
        key = (frame.path, backward, func, number, where)
        site = self._sites.get(key)
        if site is None:
            if not floats_of(args, kwargs):
                self._report.unchecked[Kind.EXACT.value] += 1
                return func(*args, **kwargs)
            site = self._sites[key] = self._new_site(func, frame, backward, number, where)
        site.count += 1
        if not self._sampling.takes(site.count - 1, self._order[id(site)]):
            return func(*args, **kwargs)
        if any(one.is_nested for one in tensors_of(args, kwargs)):
            self._report.unchecked["on nested tensors"] += 1
            return func(*args, **kwargs)
        return self._check(site, func, args, kwargs)

    def _why_not(self, func: Any, types: Any) -> str:
        kind = kind_of(func)
        if kind is not Kind.ROUNDS:
            return str(kind.value)
        if self._optimizing and not self._optimizers:
            return "of an optimizer"
        if writes_lists(func):
            return "write lists of tensors"
        if types and not _PLAIN_TENSORS.issuperset(types):
            return "on subclasses of Tensor"
        return ""

    def _new_site(self, func: Any, frame: Frame, backward: bool, number: int, where: str) -> Site:
        module = frame.module
        site = Site(
            module=frame.path,
            operator=str(func),
            direction=Direction.BACKWARD if backward else Direction.FORWARD,
            number=number,
            module_type=type(module).__name__ if module is not None else "",
            location=where or ("" if backward else location()),
        )
        self._order[id(site)] = len(self._report.sites)
        self._report.sites.append(site)
        return site

    def _check(self, site: Site, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        before = RandomState.of(args, kwargs) if is_random(func) else None
        try:
            part = self._part(site, func, args, kwargs)
            given, words = (args, kwargs) if part is None else part.of((list(args), dict(kwargs)))
            again = self._second.arrange(func, given, words)
        except Exception as error:  # noqa: BLE001 - a second run is a trial: what it raises is a fact of its site
            self._note_failure(site, error)
            again = None
        if again is None:
            self._report.unchecked[f"without a second run in mode {self._report.mode.value}"] += 1
            return func(*args, **kwargs)
        if self._saver is not None or self._second.is_reference:
            given, words = as_they_are(func, given, words)
        first = func(*args, **kwargs)
        after = RandomState.of(args, kwargs) if before is not None else None
        try:
            if before is not None:
                before.put_back()
            with second_run():
                second = again()
        except Exception as error:  # noqa: BLE001 - a second run is a trial: what it raises is a fact of its site
            self._note_failure(site, error)
            return first
        finally:
            if after is not None:
                after.put_back()
        site.checked += 1
        try:
            with second_run():
                self._compare(site, func, (given, words), first, second, before, part)
        except Exception as error:  # noqa: BLE001 - as above; what on_alert raises comes after it
            self._note_failure(site, error)
        self._examiner.deliver()
        return first

    def _part(self, site: Site, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Part | None:
        """Of an elementwise operator's elements all at the first check of a site, then a part in turn."""
        if not site.checked or isinstance(self._second, Substituted):
            return None
        return part_of(func, args, kwargs, site.checked)

    def _note_failure(self, site: Site, error: Exception) -> None:
        """A second run that a kernel refuses is a fact of the site; the model's own run goes on."""
        text = f"the second run raised {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if text not in site.notes:
            site.notes.append(text)
        self._report.unchecked["whose second run raised"] += 1

    def _compare(
        self, site: Site, func: Any, call: Any, first: Any, second: Any, random: RandomState | None, part: Part | None
    ) -> None:
        if part is not None:
            first = part.of(first)
        ours, theirs = floats_of((first,)), floats_of((second,))
        inputs = floats_of(*call)
        if not site.formats:
            site.formats = tuple(dict.fromkeys(format_of(one) for one in inputs))
            site.shapes = tuple(tuple(one.shape) for one in inputs)
        for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            if one.shape != other.shape:
                continue
            self._examiner.examine(
                site,
                place,
                one,
                other,
                inputs=inputs,
                judged=functools.partial(self._judged, func, call, place, one, other),
                terms=functools.partial(self._terms, site, func, call, place),
                save=functools.partial(self._save, site, func, call, first, random),
                again=self._carefully(func, call, place),
                located=None if part is None else part.index,
            )

    def _carefully(self, func: Any, call: Any, place: int) -> Callable[[], torch.Tensor] | None:
        second = self._second
        if not isinstance(second, Perturbed) or not second.may_be_asked_again(func):
            return None
        return lambda: floats_of((second.arrange_again(func, *call)(),))[place]

    def _judged(self, func: Any, call: Any, place: int, one: torch.Tensor, other: torch.Tensor) -> Judgement:
        def again() -> torch.Tensor:
            run = self._second.arrange(func, *moved_arguments(self._noise, func, *call))
            assert run is not None
            return floats_of((run(),))[place]

        return judge(one, other, again)

    def _terms(self, site: Site, func: Any, call: Any, place: int) -> float | None:
        try:
            return largest_terms(func, call, place)
        except Exception as error:  # noqa: BLE001 - a kernel that refuses magnitudes leaves the difference as it is
            self._note_failure(site, error)
            return None

    def _save(
        self, site: Site, func: Any, call: Any, first: Any, random: RandomState | None, kind: AlertKind, message: str
    ) -> str:
        if self._saver is None:
            return ""
        return self._saver.save(site, func, call, kind, message, result=first, random=random)
