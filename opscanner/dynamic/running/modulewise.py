"""The code of each module, run a second time between the modules that it calls.

A rotation of queries computed in bfloat16, or a variance as E[x^2] - E[x]^2, is a chain of operators each of which
rounds as well as its format allows; only the chain is wrong. So a module's own ``forward`` is run again as a whole, in
a wider format, with the results that its submodules really gave put in their places. What it hands to each submodule,
and what it returns, is compared with what it handed over and returned the first time. Every line of code runs twice,
once for its own module, and what a submodule did wrong is charged to no other.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils._python_dispatch import TorchDispatchMode

from opscanner.dynamic.running.calls import floats_of, format_of, replaced, tensors_of
from opscanner.dynamic.running.changed import Change, autocast_format
from opscanner.dynamic.running.examine import Examiner, Sampling
from opscanner.dynamic.running.judge import Judgement, judge
from opscanner.dynamic.running.module_state import (
    calls_answered,
    defined_at,
    holds_dictionary,
    may_change,
    state_kept,
)
from opscanner.dynamic.running.noise import NoiseSource
from opscanner.dynamic.running.places import ModulePlaces
from opscanner.dynamic.running.random_state import RandomState
from opscanner.dynamic.running.second import WIDER, in_second_run, second_run
from opscanner.dynamic.running.wide import flat_weights_kept, format_of_most, hooks_aside, widened
from opscanner.watched import Site, WatchReport

#: Elements of a buffer that is copied before a call, in case the call writes to it.
_MOST_BUFFER = 1 << 16


@dataclass
class _Child:
    """A call that a module made of another."""

    module: torch.nn.Module
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    output: Any
    after: RandomState


@dataclass
class _Call:
    """One call of a module, as far as it has come."""

    module: torch.nn.Module
    sites: _Sites | None
    before: RandomState | None
    args: Sequence[Any]
    rounded_to: str = ""
    children: list[_Child] = field(default_factory=list)
    original: Sequence[Any] = ()
    given: list[int] = field(default_factory=list)
    buffers: dict[int, torch.Tensor] = field(default_factory=dict)
    versions: dict[int, tuple[torch.Tensor, int]] = field(default_factory=dict)

    def remember(self, values: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> None:
        """Notes how often tensors were written to, so that a later write is seen."""
        for one in tensors_of(values, kwargs):
            self.versions[id(one)] = (one, _version(one))

    def written(self) -> list[torch.Tensor]:
        """Tensors that were written to since."""
        return [one for one, version in self.versions.values() if _version(one) != version]


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


@dataclass
class _Sites:
    """What is kept of one module between its calls."""

    path: str
    module_type: str
    location: str
    place: int
    calls: int = 0
    found: dict[str, Site] = field(default_factory=dict)
    copies_inputs: bool = False
    copies_results: set[int] = field(default_factory=set)


class _RunsOtherwiseError(Exception):
    """The second run called other modules than the first."""


class ModuleWatch(TorchDispatchMode):  # type: ignore[misc]
    """Runs the code of every module again.

    It is a dispatch mode that changes nothing, so that compiled modules run operator by operator here as well.

    Parameters
    ----------
    wide : bool
        One format wider than the module's inputs, parameters and results; else in the same formats on inputs moved by
        ``noise``.
    """

    def __init__(
        self,
        report: WatchReport,
        places: ModulePlaces,
        *,
        examiner: Examiner,
        noise: NoiseSource,
        sampling: Sampling,
        wide: bool,
    ) -> None:
        super().__init__()
        self._report = report
        self._places = places
        self._examiner = examiner
        self._noise = noise
        self._sampling = sampling
        self._wide = wide
        self._sites: dict[str, _Sites] = {}
        self._stack: list[_Call] = []
        self._handles: list[Any] = []
        self._thread = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Any:
        self._thread = threading.get_ident()
        self._handles = [
            hooks.register_module_forward_pre_hook(self._entered),
            hooks.register_module_forward_hook(self._left, with_kwargs=True, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.clear()

    def _is_elsewhere(self) -> bool:
        """True in a second run, and in other threads, of which this watch knows nothing."""
        return in_second_run() or threading.get_ident() != self._thread

    def _entered(self, module: torch.nn.Module, args: Any) -> Any:
        if self._is_elsewhere():
            return
        sites = self._sites_of(module)
        due = self._sampling.takes(sites.calls, sites.place) and not isinstance(module, torch.jit.ScriptModule)
        if due and torch._C._functorch.peek_interpreter_stack() is not None:
            self._report.unchecked["of modules inside of torch.func"] += 1
            due = False
        sites.calls += 1
        call = _Call(module, sites if due else None, None, args)
        if due:
            call.original, call.given = args, [id(one) for one in tensors_of(args)]
            call.before = RandomState.of(args, {})
            call.buffers = {id(one): one.clone() for one in module.buffers() if one.numel() <= _MOST_BUFFER}
            call.rounded_to = autocast_format(args)
            if sites.copies_inputs or getattr(module, "inplace", False):
                call.args = replaced(args, torch.clone)
        if due or (self._stack and self._stack[-1].sites is not None):
            call.remember(args)
        self._stack.append(call)

    def _left(self, module: torch.nn.Module, args: Any, *rest: Any) -> None:
        """With keyword arguments and the result; after an error without the former (torch.nn.Module._call_impl)."""
        if self._is_elsewhere():
            return
        kwargs, output = rest if len(rest) == 2 else ({}, None)
        while self._stack:
            call = self._stack.pop()
            if call.module is module:
                break
        else:
            return
        if self._stack and self._stack[-1].sites is not None and len(rest) == 2:
            self._hand_up(self._stack[-1], module, args, kwargs, output)
        if call.sites is not None and output is not None:
            args = call.args if call.args is not args and len(call.args) == len(args) else args
            try:
                with second_run():
                    self._check(call, call.sites, args, kwargs, output)
            except Exception as error:  # noqa: BLE001 - a check is a trial; what on_alert raises comes after it
                self._note_failure(call.sites, error)
            self._examiner.deliver()

    def _hand_up(self, parent: _Call, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Keeps a call for the module that made it."""
        assert parent.sites is not None
        number = len(parent.children)
        kept = replaced(output, torch.clone) if number in parent.sites.copies_results else output
        parent.children.append(_Child(module, args, kwargs, kept, RandomState.of(args, kwargs)))
        # What the submodule wrote over itself, it would write over again: only later writes count.
        parent.remember(args, kwargs)
        if kept is output:
            parent.remember((output,))

    def _check(self, call: _Call, sites: _Sites, args: Any, kwargs: Any, output: Any) -> None:
        if may_change(args) or may_change(tuple(kwargs.values())):
            self._report.unchecked["of modules that are given objects with a state"] += 1
            return
        if [id(one) for one in tensors_of(call.original)] != call.given or holds_dictionary(kwargs):
            self._report.unchecked["of modules whose arguments may have been changed"] += 1
            return
        written = {id(one) for one in call.written()}
        own = {id(one) for one in tensors_of(args, kwargs)}
        if written and not (written & own and call.args is not args):
            self._note_writes(call, sites, written, args, kwargs)
            if written:
                self._report.unchecked["of modules that write over tensors, in their first call"] += 1
                return
        labelled = [
            (f"{sites.module_type} before {self._name_within(sites, child.module)}", one.detach())
            for child in call.children
            for one in floats_of(child.args, child.kwargs)
        ]
        labelled += [(sites.module_type, one.detach()) for one in floats_of((output,))]
        if any(one.is_nested for one in tensors_of((output, args), kwargs)):
            self._report.unchecked["of modules on nested tensors"] += 1
            return
        if not labelled:
            return
        to = self._wider_than([one for _, one in labelled] + floats_of(args, kwargs)) if self._wide else None
        run = functools.partial(self._run, call, args, kwargs, to)
        try:
            references = run(None if self._wide else self._noise)
        except Exception as error:  # noqa: BLE001 - the second run is a trial: what it raises is a fact of the module
            self._note_failure(sites, error)
            return
        if [tuple(one.shape) for one in references] != [tuple(one.shape) for _, one in labelled]:
            self._note(sites, "the second run gave tensors of other shapes")
            self._report.unchecked["of modules whose second run went otherwise"] += 1
            return
        inputs = floats_of(args, kwargs) + floats_of([child.output for child in call.children])
        self._compare(sites, labelled, references, inputs, run)

    def _compare(
        self,
        sites: _Sites,
        labelled: Sequence[tuple[str, torch.Tensor]],
        references: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        run: Callable[[NoiseSource], list[torch.Tensor]],
    ) -> None:
        counted: set[int] = set()
        moved: list[list[torch.Tensor]] = []
        for place, ((label, one), reference) in enumerate(zip(labelled, references, strict=True)):
            site = self._site(sites, label)
            if id(site) not in counted:
                counted.add(id(site))
                site.count = sites.calls
                site.checked += 1
            if not site.formats:
                site.formats = tuple(dict.fromkeys(format_of(item) for item in (*inputs, one)))
                site.shapes = (tuple(one.shape),)
            self._examiner.examine(
                site,
                place,
                one,
                reference,
                inputs=inputs,
                judged=functools.partial(self._judged, moved, place, one, reference, run),
                terms=lambda: None,
                save=lambda kind, message: "",
            )

    def _judged(
        self,
        moved: list[list[torch.Tensor]],
        place: int,
        one: torch.Tensor,
        reference: torch.Tensor,
        run: Callable[[NoiseSource], list[torch.Tensor]],
    ) -> Judgement:
        """Judges one result; the runs on moved inputs are shared by all results of a call."""
        asked = iter(range(1 << 30))

        def again() -> torch.Tensor:
            number = next(asked)
            if number == len(moved):
                moved.append(run(self._noise))
            return moved[number][place]

        return judge(one, reference, again)

    def _run(
        self, call: _Call, args: Any, kwargs: Any, to: torch.dtype | None, noise: NoiseSource | None
    ) -> list[torch.Tensor]:
        """Runs a module's own code; gives all tensors of floating point that it hands to submodules, and returns."""
        change = Change(to, noise, call.rounded_to)
        handed: list[torch.Tensor] = []
        expected = iter([(child, replaced(child.output, change)) for child in call.children])

        def answer(module: torch.nn.Module, given: Any, words: Any) -> Any:
            child, output = next(expected, (None, None))
            if child is None or child.module is not module:
                raise _RunsOtherwiseError(f"calls {type(module).__name__} where the first run did not")
            handed.extend(floats_of(given, words))
            child.after.put_back()
            return output

        now = RandomState.of(args, kwargs)
        assert call.before is not None
        with torch.no_grad(), state_kept(call.module), contextlib.ExitStack() as stack:
            stack.callback(now.put_back)
            call.before.put_back()
            state = dict(self._own_state(call))
            parameters = {name: change.of_state(one) for name, one in state.items()}
            given, words = replaced(list(args), change), replaced(dict(kwargs), change)
            stack.enter_context(hooks_aside(None, own_hooks=True))
            stack.enter_context(_reparametrize_module(call.module, parameters))
            stack.enter_context(flat_weights_kept(call.module, parameters))
            stack.enter_context(calls_answered([child.module for child in call.children], answer))
            if to is not None:
                drawn = format_of_most([*state.values(), *floats_of(args, kwargs)], to)
                stack.enter_context(widened(to, drawn=drawn))
            result = call.module.forward(*given, **words)
        if next(expected, None) is not None:
            raise _RunsOtherwiseError("calls fewer modules than the first run did")
        return [one.clone() for one in handed] + floats_of((result,)) if noise else handed + floats_of((result,))

    def _own_state(self, call: _Call) -> Iterator[tuple[str, torch.Tensor]]:
        """Parameters and buffers that the second run reads: those of submodules that answer for themselves are not."""
        answering = {id(inner) for child in call.children for inner in child.module.modules()}
        for path, module in call.module.named_modules():
            if id(module) in answering and module is not call.module:
                continue
            prefix = f"{path}." if path else ""
            for name, value in (*module._parameters.items(), *module._buffers.items()):
                if value is not None:
                    yield prefix + name, call.buffers.get(id(value), value)

    def _wider_than(self, tensors: Sequence[torch.Tensor]) -> torch.dtype:
        """One format wider than the widest of the tensors."""
        wide = [WIDER.get(one.dtype, torch.float64) for one in tensors]
        real = [{torch.complex128: torch.float64}.get(one, one) for one in wide]
        return max(real, key=lambda one: torch.finfo(one).bits)

    def _sites_of(self, module: torch.nn.Module) -> _Sites:
        path = self._places.path_of(module)
        found = self._sites.get(path)
        if found is None:
            kind = type(module)
            found = self._sites[path] = _Sites(path, kind.__name__, defined_at(kind), len(self._sites))
        return found

    def _site(self, sites: _Sites, label: str) -> Site:
        site = sites.found.get(label)
        if site is None:
            site = sites.found[label] = Site(
                module=sites.path, operator=label, module_type=sites.module_type, location=sites.location
            )
            self._report.sites.append(site)
        return site

    def _name_within(self, sites: _Sites, module: torch.nn.Module) -> str:
        return self._places.path_of(module).removeprefix(f"{sites.path}.")

    def _note_failure(self, sites: _Sites, error: Exception) -> None:
        self._note(sites, f"the second run raised {type(error).__name__}: {str(error).splitlines()[0:1]}")
        self._report.unchecked["of modules whose second run raised"] += 1

    def _note(self, sites: _Sites, text: str) -> None:
        site = self._site(sites, sites.module_type)
        if text not in site.notes:
            site.notes.append(text)

    def _note_writes(self, call: _Call, sites: _Sites, written: set[int], args: Any, kwargs: Any) -> None:
        """From the next call on, copies are kept of what is written over; those of now are gone."""
        for number, child in enumerate(call.children):
            if any(id(one) in written for one in tensors_of((child.output,))):
                sites.copies_results.add(number)
        if any(id(one) in written for one in tensors_of(args, kwargs)):
            sites.copies_inputs = True
