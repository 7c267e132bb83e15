"""A model of which some layers are computed in a wider format, and all others as they are.

Every operator belongs to one *unit*: the module whose code calls it, and not the modules that this code calls. So a
transformer block's residual additions are the block's own, and what its attention computes is not. A number changes
format where it passes from the code of one unit to that of another: it is cast up where an upcast unit takes it, and
rounded to the format it has in the plain run where one that is not upcast does, the model's caller among these. A unit
that is upcast alone is so ``layer(x.float()).to(x.dtype)``; two that are both upcast hand their numbers on unrounded,
unless the code between them computes or casts, and is not upcast (``nn.Sequential`` has no such code, a block with
residual additions does); and a model with all units upcast is its wide run, rounded once at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree

from opscanner.dynamic.running.calls import floats_of
from opscanner.dynamic.running.wide import Widening, format_of_most, run_wide, widened_dtype
from opscanner.errors import UsageError

#: The code outside of any unit: the model's caller, never upcast.
OUTSIDE = None


@dataclass(frozen=True)
class Call:
    """One call of a model.

    Parameters
    ----------
    args, kwargs : tuple, dict
        Its inputs.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def calls_of(inputs: Any) -> list[Call]:
    """The calls that inputs stand for: a tuple is positional arguments, a mapping keywords, a list several calls.

    Raises
    ------
    UsageError
        When a list is empty.
    """
    if isinstance(inputs, list):
        if not inputs:
            raise UsageError("the list of inputs is empty: there is nothing to run the model on")
        return [call for one in inputs for call in calls_of(one)]
    if isinstance(inputs, tuple) and not hasattr(inputs, "_fields"):
        return [Call(inputs, {})]
    if isinstance(inputs, Mapping):
        return [Call((), dict(inputs))]
    return [Call((inputs,), {})]


class SelectiveModel:
    """Runs a model with any set of its units upcast; the model is as it was after each run.

    Parameters
    ----------
    model : torch.nn.Module
        Its state, and the random state, are put back after each run; each begins with the same.
    to : torch.dtype
        What upcast units compute in.
    depth : int, optional
        Modules further than so many steps below the model are part of the module above them. By default each module
        is a unit of its own.

    Attributes
    ----------
    units : tuple of str
        Paths of the modules; the model itself is ``""``.
    calls : Counter
        How often each unit ran in the first plain run.
    computing : set of str
        Units whose code calls an operator that is no view: to upcast any other means nothing.
    formats : Counter
        How many operators gave a result of each floating-point format in plain runs.
    """

    def __init__(self, model: torch.nn.Module, to: torch.dtype, depth: int | None = None) -> None:
        self.model = model
        self.to = to
        self.narrow = format_of_most([*model.parameters(), *model.buffers()], to)
        self.modules = dict(_units(model, depth))
        self.units = tuple(self.modules)
        self.calls: Counter[str] = Counter()
        self.computing: set[str] = set()
        self.formats: Counter[torch.dtype] = Counter()
        self._owned = _owned(model, self.modules)
        self._formats: dict[tuple[str, int, str], list[torch.dtype | None]] = {}
        self._random = torch.get_rng_state()

    def plain(self, call: Call, number: int = 0) -> Any:
        """The outputs of the model as it is; notes which units are called, and with which formats.

        Parameters
        ----------
        number : int
            Which call this is, where the model is run on several.
        """
        return self._run(call, number, frozenset(), is_plain=True)

    def upcast(self, call: Call, units: Collection[str], number: int = 0) -> Any:
        """The outputs with some units upcast, in the formats of the plain run, which must have been made before."""
        return self._run(call, number, frozenset(units), is_plain=False)

    def reference(self, call: Call, to: torch.dtype = torch.float64) -> Any:
        """The outputs when everything is computed in ``to`` and nothing is rounded."""
        with self._same_random():
            return run_wide(self.model, call.args, call.kwargs, to)

    def calls_others(self, unit: str) -> bool:
        """True when other units below this one ran, so that its code is not all that it does."""
        return any(self.calls[other] for other in self.units if other != unit and _is_below(other, unit))

    def parameters_of(self, unit: str) -> int:
        """Elements of the parameters that are a unit's own.

        Modules that never ran count as part of the nearest above them that did: ``out_proj`` of attention.
        """
        ran = [other for other in self.units if self.calls[other] and other != unit and _is_below(other, unit)]
        return sum(
            one.numel()
            for path, module in self.model.named_modules()
            if _is_below(path, unit) and not any(_is_below(path, other) for other in ran)
            for one in module.parameters(recurse=False)
        )

    @contextmanager
    def _same_random(self) -> Iterator[None]:
        with torch.random.fork_rng():
            torch.set_rng_state(self._random)
            if torch.cuda.is_available():
                torch.cuda.manual_seed_all(0)
            yield

    def _run(self, call: Call, number: int, units: frozenset[str], *, is_plain: bool) -> Any:
        run = _Run(self, number, units, is_plain)
        args, kwargs = _pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (call.args, dict(call.kwargs)))
        with torch.no_grad(), self._same_random(), _state_kept(self.model), _uncached_autocast(), run.entered():
            outputs = self.model(*args, **kwargs)
            return _pytree.tree_map_only(torch.Tensor, lambda one: one.detach().clone(), outputs)


class _Run:
    """One run: which unit's code is running, and what its numbers are cast to."""

    def __init__(self, of: SelectiveModel, number: int, units: frozenset[str], is_plain: bool) -> None:
        self._of = of
        self._number = number
        self._units = units
        self.is_plain = is_plain
        self._default = torch.get_default_dtype()
        self._mode = _NotingWidening(self, of)
        self.running: str | None = OUTSIDE
        self._counts: Counter[str] = Counter()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The model's units call back to this run."""
        # In order of the units; an own forward that somebody has set on a module is put back.
        aside = [(module, module.__dict__.get("forward")) for module in self._of.modules.values()]
        try:
            for path, module in self._of.modules.items():
                module.forward = self._wrapped(path, module.forward)
            self._switch(OUTSIDE)
            with self._mode:
                yield
        finally:
            torch.set_default_dtype(self._default)
            for module, earlier in aside:
                if earlier is None:
                    module.__dict__.pop("forward", None)
                else:
                    module.forward = earlier

    def _wrapped(self, path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            caller, count = self.running, self._counts[path]
            self._counts[path] += 1
            if self.is_plain and self._number == 0:
                self._of.calls[path] += 1
            args, kwargs = self._handed((args, kwargs), path, (path, count, "inputs"))
            with ExitStack() as stack:
                self._switch(path)
                stack.callback(self._switch, caller)
                if path in self._units:
                    stack.enter_context(_wide_state(self._of._owned[path], self._of.to))
                result = forward(*args, **kwargs)
            return self._handed(result, caller, (path, count, "outputs"))

        return called

    def _switch(self, unit: str | None) -> None:
        self.running = unit
        self._mode.is_active = unit in self._units
        wide = self._mode.is_active and widened_dtype(self._default, self._of.to) is self._of.to
        torch.set_default_dtype(self._of.to if wide else self._default)

    def _handed(self, values: Any, taker: str | None, which: tuple[str, int, str]) -> Any:
        """Values as the unit that takes them needs them."""
        leaves, spec = _pytree.tree_flatten(values)
        key = (f"{self._number}:{which[0]}", which[1], which[2])
        if self.is_plain:
            self._of._formats[key] = [one.dtype if isinstance(one, torch.Tensor) else None for one in leaves]
            return values
        # Casts are this run's own, made past the mode.
        was_active, self._mode.is_active = self._mode.is_active, False
        try:
            if taker in self._units:
                handed = [_cast(one, self._of.to) for one in leaves]
            elif taker is not OUTSIDE and taker not in self._of.computing:
                handed = leaves
            else:
                formats = self._of._formats.get(key, [])
                formats = formats if len(formats) == len(leaves) else [None] * len(leaves)
                handed = [_rounded(*pair) for pair in zip(leaves, formats, strict=True)]
        finally:
            self._mode.is_active = was_active
        if all(one is other for one, other in zip(leaves, handed, strict=True)):
            return values
        return _pytree.tree_unflatten(handed, spec)


class _NotingWidening(Widening):
    """Notes, in a plain run, whose code computes."""

    def __init__(self, run: _Run, of: SelectiveModel) -> None:
        super().__init__(of.to, of.narrow, torch.get_default_dtype())
        self._run = run
        self._of = of

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if self._run.is_plain and self._run.running is not None and not getattr(func, "is_view", False):
            self._of.computing.add(self._run.running)
            self._of.formats.update({one.dtype for one in floats_of((result,))})
        return result


def _cast(value: Any, to: torch.dtype) -> Any:
    if not isinstance(value, torch.Tensor) or value.is_quantized:
        return value
    return value.to(widened_dtype(value.dtype, to))


def _rounded(value: Any, dtype: torch.dtype | None) -> Any:
    """A number in the format that it has in the plain run; itself where that is not known."""
    if dtype is None or not isinstance(value, torch.Tensor) or value.dtype is dtype:
        return value
    is_number = (value.is_floating_point() or value.is_complex()) and (dtype.is_floating_point or dtype.is_complex)
    return value.to(dtype) if is_number else value


def _is_below(path: str, unit: str) -> bool:
    """True for a module inside a unit, and for the unit itself."""
    return not unit or path == unit or path.startswith(f"{unit}.")


def _units(model: torch.nn.Module, depth: int | None) -> Iterator[tuple[str, torch.nn.Module]]:
    for path, module in model.named_modules():
        level = path.count(".") + 1 if path else 0
        # Compiled code calls its parts by itself; a container of torch's has no code to run.
        if isinstance(module, torch.jit.ScriptModule) or (depth is not None and level > depth):
            continue
        yield path, module


def _owned(model: torch.nn.Module, units: Mapping[str, torch.nn.Module]) -> dict[str, list[torch.nn.Module]]:
    """The modules whose parameters each unit's code uses: its own, and those of parts that are no unit."""
    owned: dict[str, list[torch.nn.Module]] = {path: [] for path in units}
    for path, module in model.named_modules():
        unit = path
        while unit not in units and unit:
            unit = unit.rpartition(".")[0]
        if unit in owned:
            owned[unit].append(module)
    return owned


@contextmanager
def _wide_state(modules: Sequence[torch.nn.Module], to: torch.dtype) -> Iterator[None]:
    """Parameters and buffers cast up, for code that looks at their format (``nn.LSTM``; attention over a cache)."""
    aside: list[tuple[Any, Any, Any]] = []
    flat: list[tuple[Any, Any]] = []
    try:
        for module in modules:
            for held in (module._parameters, module._buffers):
                for name, one in held.items():
                    if one is not None and widened_dtype(one.dtype, to) is not one.dtype:
                        aside.append((held, name, one))
                        held[name] = _wide_parameter(one, to)
            if isinstance(module, torch.nn.RNNBase):
                flat.append((module, module._flat_weights))
                module._flat_weights = [module._parameters.get(name) for name in module._flat_weights_names]
        yield
    finally:
        for held, name, one in aside:
            cast, held[name] = held[name], one
            if not isinstance(one, torch.nn.Parameter) and isinstance(cast, torch.Tensor) and cast.shape == one.shape:
                one.copy_(cast)  # what the code wrote there: a cache, running statistics
        for module, weights in flat:
            module._flat_weights = weights


def _wide_parameter(tensor: torch.Tensor, to: torch.dtype) -> torch.Tensor:
    cast = tensor.detach().to(widened_dtype(tensor.dtype, to), copy=True)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(cast, requires_grad=tensor.requires_grad)
    return cast


@contextmanager
def _state_kept(model: torch.nn.Module) -> Iterator[None]:
    """Buffers, such as running statistics, as they were; each run begins with the same."""
    before = [(one, one.detach().clone()) for one in model.buffers()]
    try:
        yield
    finally:
        for one, earlier in before:
            one.copy_(earlier)


@contextmanager
def _uncached_autocast() -> Iterator[None]:
    """A weight that autocast has cast down in one unit is not found again in an upcast one that shares it."""
    earlier = torch.is_autocast_cache_enabled()
    try:
        torch.set_autocast_cache_enabled(False)
        yield
    finally:
        torch.set_autocast_cache_enabled(earlier)
