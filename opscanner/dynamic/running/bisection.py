"""Which layers of a model must be upcast for its output to come within a tolerance of its float64 run.

Each layer is judged twice: upcast alone (what that gains), and left as it is while all others are upcast (what it still
costs: the layer's own share, in which no other layer's error hides it). A smallest set is then searched by delta
debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002,
doi 10.1109/32.988498), which ends at a set that suffices and of which no layer can be taken away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree

from opscanner.dynamic.running.compare import compare
from opscanner.dynamic.running.selective import SelectiveModel, calls_of
from opscanner.dynamic.running.smallest import Tries, smallest_set
from opscanner.dynamic.running.wide import WideRefusedError, name_of, wide_format, widened_dtype
from opscanner.errors import UsageError
from opscanner.precision.formats import FORMATS, part_format

METRICS = ("ulp", "relative", "norm")

DEFAULT_TOLERANCE_ULP = 1.0
DEFAULT_RUNS = 500


@dataclass(frozen=True)
class UpcastLayer:
    """What upcasting one layer does.

    Errors are in the unit of the metric; infinity where a result is not finite and the float64 run's is.

    Parameters
    ----------
    path : str
        As ``named_modules`` names it; empty for the model itself.
    kind : str
        Its class.
    is_own_code : bool
        True where the module calls others, which are layers of their own: only the code between is meant.
    calls : int
        How often it ran in the first call of the model.
    parameters : int
        Elements of its own parameters.
    error_alone : float or None
        The output's error when this layer alone is upcast.
    error_without : float or None
        The output's error when all layers but this one are upcast.
    gain, cost : float or None
        What upcasting it alone takes from the model's error; what it adds to the error of everything upcast.
    is_in_smallest : bool
        True in the smallest set found.
    refused : str
        Why it cannot be upcast; empty where it can.
    """

    path: str
    kind: str
    is_own_code: bool
    calls: int
    parameters: int
    error_alone: float | None
    error_without: float | None
    gain: float | None
    cost: float | None
    is_in_smallest: bool
    refused: str = ""


@dataclass(frozen=True)
class Bisection:
    """Which layers must be upcast.

    Parameters
    ----------
    format : str
        The model's own format, in whose ULP is counted.
    to : str
        What layers are upcast to.
    metric, tolerance : str, float
        How the output is held against the float64 run, and how close it must come.
    error : float
        Of the model as it is.
    error_everything : float
        With every layer upcast that can be.
    error_rounding : float
        Of the float64 run itself, rounded to the output's format: nothing comes closer, but by chance.
    layers : tuple of UpcastLayer
        Those of the smallest set first, then by what they cost, then by what they gain.
    smallest : tuple of str or None
        Paths of a smallest set. Empty when nothing need be upcast; None when not even everything upcast suffices.
    error_smallest : float or None
        With that set upcast.
    is_proven_smallest : bool
        True when all smaller sets were tried too.
    is_minimal : bool
        True when no single layer can be taken away; False when the budget of runs ended the search early.
    runs : int
        Runs of the model with different sets upcast.
    notes : tuple of str
        What a reader must know.
    """

    format: str
    to: str
    metric: str
    tolerance: float
    error: float
    error_everything: float
    error_rounding: float
    layers: tuple[UpcastLayer, ...]
    smallest: tuple[str, ...] | None
    error_smallest: float | None
    is_proven_smallest: bool
    is_minimal: bool
    runs: int
    notes: tuple[str, ...] = ()


def bisect_precision(
    model: torch.nn.Module,
    inputs: Any,
    *,
    tolerance: float | None = None,
    metric: str = "ulp",
    to: str | None = None,
    depth: int | None = None,
    max_runs: int = DEFAULT_RUNS,
    progress: Callable[[str], None] = lambda text: None,
) -> Bisection:
    """Rank a model's layers by what their precision costs, and find a smallest set to upcast.

    The model is run in its mode (``eval`` or ``train``) without gradients, each time from the same random state; its
    state is put back. Deterministic: the same model and inputs give the same answer.

    Parameters
    ----------
    inputs : Any
        A tensor, a tuple of positional arguments, a dictionary of keyword arguments, or a list of such: the largest
        error of all calls counts.
    tolerance : float, optional
        In the unit of the metric; 1 by default for ``ulp``.
    metric : str
        ``ulp``: largest difference of an output tensor in ULP of the model's format at the tensor's largest element.
        ``relative``: largest relative error, elements next to zero left out. ``norm``: norm of the difference by the
        norm of the reference.
    to : str, optional
        A format; by default the one wider than the model's.
    depth : int, optional
        Modules further than so many steps below the model count as part of those above them.
    max_runs : int
        Runs after which the search for a smallest set stops with what it has.

    Raises
    ------
    UsageError
        For options that mean nothing, a model that computes nothing in a narrower format than ``to``, or outputs
        without floating-point tensors.

    Notes
    -----
    See :mod:`opscanner.dynamic.running.selective` for where numbers change format.
    """
    if metric not in METRICS:
        raise UsageError(f"no metric is named {metric!r}", f"one of {', '.join(METRICS)}")
    if tolerance is None and metric != "ulp":
        raise UsageError(f"a tolerance must be given for the metric {metric}", "--tolerance 1e-3, for example")
    tolerance = DEFAULT_TOLERANCE_ULP if tolerance is None else tolerance
    if not 0 < tolerance < math.inf:
        raise UsageError(f"a tolerance of {tolerance} tells nothing apart", "a positive number")
    narrow, wide = _formats(model, to)
    runner = SelectiveModel(model, getattr(torch, wide), depth)
    outputs = _Outputs(runner, inputs, metric, narrow)
    progress(f"{len(outputs.layers)} layers run, {outputs.format} -> {wide}")
    return _search(runner, outputs, tolerance, Tries(outputs.error, max_runs), progress)


def _formats(model: torch.nn.Module, to: str | None) -> tuple[str, str]:
    """The format of most of the model's parameters, and the one to upcast to."""
    counts: dict[str, int] = {}
    for one in [*model.parameters(), *model.buffers()]:
        if one.is_floating_point() or one.is_complex():
            name = part_format(name_of(one.dtype))
            counts[name] = counts.get(name, 0) + one.numel()
    narrow = max(counts, key=lambda name: (counts[name], name), default=name_of(torch.get_default_dtype()))
    wide = wide_format(narrow) if to is None else to
    if wide not in FORMATS or not isinstance(getattr(torch, wide, None), torch.dtype):
        raise UsageError(f"no format is named {wide!r}", "float32 or float64")
    return narrow, wide


def _format_under_test(runner: SelectiveModel, narrow: str) -> str:
    """That of the parameters; where they are as wide as what is upcast to, what autocast or the code makes of them."""

    def is_narrower(dtype: torch.dtype) -> bool:
        return widened_dtype(dtype, runner.to) is not dtype

    if is_narrower(getattr(torch, narrow)):
        return narrow
    computed = {name_of(dtype): count for dtype, count in runner.formats.items() if is_narrower(dtype)}
    if not computed:
        raise UsageError(
            f"nothing that the model computes is narrower than {name_of(runner.to)}: its parameters are {narrow}",
            "--to float64, or the model in the format that is in question",
        )
    return part_format(max(computed, key=lambda name: (computed[name], name)))


class _Outputs:
    """A model's outputs with sets of layers upcast, held against its float64 run."""

    def __init__(self, runner: SelectiveModel, inputs: Any, metric: str, narrow: str) -> None:
        self._runner = runner
        self._calls = calls_of(inputs)
        self.metric = metric
        self.notes: list[str] = []
        plain = [self._plain(number) for number in range(len(self._calls))]
        self.format = _format_under_test(runner, narrow)
        self._references = [_floats(runner.reference(call)) for call in self._calls]
        rounded = [
            [one.to(other.dtype) for one, other in zip(*pair, strict=True)]
            for pair in zip(self._references, plain, strict=True)
        ]
        self.rounding = self._worst(rounded)
        self.layers = tuple(path for path in runner.units if path in runner.computing)

    def _plain(self, number: int) -> list[torch.Tensor]:
        first = _floats(self._runner.plain(self._calls[number], number))
        again = _floats(self._runner.upcast(self._calls[number], (), number))
        if not all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in zip(first, again, strict=True)):
            self.notes.append(
                f"the model gives other results each time (input {number + 1}): errors below its spread mean nothing"
            )
        if not first:
            raise UsageError("the model's outputs hold no floating-point tensors", "return logits, not their argmax")
        return first

    def error(self, layers: frozenset[str]) -> float:
        """The largest error of all outputs of all calls with these layers upcast."""
        return self._worst(
            [_floats(self._runner.upcast(call, layers, number)) for number, call in enumerate(self._calls)]
        )

    def _worst(self, outputs: Sequence[Sequence[torch.Tensor]]) -> float:
        errors = [
            _distance(one, other, self.metric, self.format)
            for call, reference in zip(outputs, self._references, strict=True)
            for one, other in zip(call, reference, strict=True)
        ]
        return max(errors, default=0.0)


def _floats(outputs: Any) -> list[torch.Tensor]:
    return [
        one for one in _pytree.tree_leaves(outputs)
        if isinstance(one, torch.Tensor) and (one.is_floating_point() or one.is_complex())
    ]  # fmt: skip


def _distance(got: torch.Tensor, reference: torch.Tensor, metric: str, format_: str) -> float:
    """How far an output is from the float64 run; infinity where only one of them is no finite number."""
    if got.numel() == 0:
        return 0.0
    found = compare(got, reference, format_)
    if found.nan_mismatches or found.infinity_mismatches:
        return math.inf
    if metric == "ulp":
        return found.max_scaled_ulp
    if metric == "relative":
        return found.max_relative_to_reference
    finite = reference.isfinite()
    wide = torch.complex128 if reference.is_complex() else torch.float64
    difference = torch.where(finite, got.to(wide) - reference.to(wide), 0).norm().item()
    norm = torch.where(finite, reference.to(wide), 0).norm().item()
    return float(difference / norm) if norm else (0.0 if difference == 0 else math.inf)


@dataclass
class _Judged:
    """What each layer does alone, and what it costs alone."""

    alone: dict[str, float] = field(default_factory=dict)
    without: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def _judged(layers: Sequence[str], tries: Tries, progress: Callable[[str], None]) -> _Judged:
    judged = _Judged()
    for number, layer in enumerate(layers, 1):
        try:
            judged.alone[layer] = tries([layer])
        except WideRefusedError as error:
            judged.refused[layer] = error.what
        _tell(progress, "upcast alone", number, len(layers))
    for number, layer in enumerate(judged.alone, 1):
        judged.without[layer] = tries(one for one in judged.alone if one != layer)
        _tell(progress, "left as it is alone", number, len(judged.alone))
    return judged


def _tell(progress: Callable[[str], None], what: str, number: int, of: int) -> None:
    if number % 10 == 0 or number == of:
        progress(f"{what}: {number} of {of}")


def _search(
    runner: SelectiveModel, outputs: _Outputs, tolerance: float, tries: Tries, progress: Callable[[str], None]
) -> Bisection:
    judged = _judged(outputs.layers, tries, progress)
    alone, without = judged.alone, judged.without
    place = {layer: at for at, layer in enumerate(outputs.layers)}
    by_cost = sorted(alone, key=lambda one: (-without[one], alone[one], place[one]))
    by_gain = sorted(alone, key=lambda one: (alone[one], -without[one], place[one]))
    found = smallest_set(tries, (by_cost, by_gain), tolerance)
    chosen = () if found is None else found.items
    ranked = [*chosen, *(one for one in by_cost if one not in chosen), *judged.refused]
    return Bisection(
        format=outputs.format,
        to=name_of(runner.to),
        metric=outputs.metric,
        tolerance=tolerance,
        error=tries(()),
        error_everything=tries(alone),
        error_rounding=outputs.rounding,
        layers=tuple(_layer(runner, judged, one, tries, one in chosen) for one in ranked),
        smallest=None if found is None else found.items,
        error_smallest=None if found is None else tries(chosen),
        is_proven_smallest=found is not None and found.is_proven,
        is_minimal=found is not None and found.is_minimal,
        runs=tries.count,
        notes=tuple(outputs.notes),
    )


def _layer(runner: SelectiveModel, judged: _Judged, path: str, tries: Tries, is_chosen: bool) -> UpcastLayer:
    module = runner.modules[path]
    alone, without = judged.alone.get(path), judged.without.get(path)
    return UpcastLayer(
        path=path,
        kind=type(module).__name__,
        is_own_code=runner.calls_others(path),
        calls=runner.calls[path],
        parameters=runner.parameters_of(path),
        error_alone=alone,
        error_without=without,
        gain=None if alone is None else _difference(tries(()), alone),
        cost=None if without is None else _difference(without, tries(judged.alone)),
        is_in_smallest=is_chosen,
        refused=judged.refused.get(path, ""),
    )


def _difference(first: float, second: float) -> float:
    """Of errors; 0 where both are infinite."""
    return 0.0 if first == second else first - second
