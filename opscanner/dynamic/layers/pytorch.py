"""Layers that test layers, as torch modules: Fuzz perturbs, Check compares, FuzzCheck wraps a layer with both.

The manner of FuMi (Zhang et al., doi 10.1145/3734866). A model computes the same bits with them and without them,
forward and backward: the second run is on copies, without gradients, with the random state and the buffers that the
first run had, which are put back.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._compile import _disable_dynamo

from opscanner.dynamic.layers.records import LayerRecord, NotDeterministic, OnAlert, tell
from opscanner.dynamic.layers.two_runs import (
    buffers_of,
    copied,
    equal,
    in_second_run,
    random_state_of,
    second_run,
    tensors_in,
    with_buffers,
)
from opscanner.dynamic.running.compare import absolute_tolerance, compare, format_of, quick_errors
from opscanner.dynamic.running.noise import NoiseSource
from opscanner.errors import UsageError
from opscanner.precision.formats import FORMATS, part_format

MODES = ("perturb", "upcast", "substitute")


class FuzzLayer(nn.Module):  # type: ignore[misc]
    """A pair of inputs for a layer under test: the same, and perturbed.

    Parameters
    ----------
    noise, amount, seed
        As for :class:`~opscanner.dynamic.running.noise.NoiseSource`: ``"ulp"`` or ``"fumi"``.

    >>> same, moved = FuzzLayer(seed=1)(torch.ones(2, dtype=torch.float16))
    >>> same.tolist(), sorted(set(moved.tolist()) | {1.0})
    ([1.0, 1.0], [0.99951171875, 1.0, 1.0009765625])
    """

    def __init__(self, noise: str = "ulp", amount: float = 1.0, seed: int = 0) -> None:
        super().__init__()
        self.source = NoiseSource(seed, noise, amount)

    def forward(self, *inputs: Any) -> tuple[Any, Any]:
        """The inputs and their perturbed copies; of several inputs, two tuples.

        Lists, tuples and dictionaries keep their form. Integer tensors and all else stay as they are. The copies have
        no gradient's history.
        """
        first = inputs[0] if len(inputs) == 1 else inputs
        return first, self.perturbed(first)

    def perturbed(self, value: Any) -> Any:
        """A copy with every floating-point tensor moved, each object once: equal inputs stay equal."""
        return copied(value, self.source.perturbed)

    def extra_repr(self) -> str:
        return f"noise={self.source.kind!r}, amount={self.source.amount:g}, seed={self.source.seed}"


class CheckLayer(nn.Module):  # type: ignore[misc]
    """Compares two results, writes down the worst, and gives the first on as it is.

    Parameters
    ----------
    tolerance : float, optional
        Largest relative error without an alert; by default FuMi's tolerance of the result's format.
    on_alert : str or function
        ``"warn"`` once for each output, ``"raise"``, or a function that takes a
        :class:`~opscanner.dynamic.layers.records.PrecisionAlert`. NaN or infinity on one side always alerts.
    name : str
        What to call the layer under test.

    Attributes
    ----------
    records : dict of str to LayerRecord
        By the place of the output in the result, which is empty for a lone tensor.
    enabled : bool
        Set it to False, and results pass through.
    """

    def __init__(self, tolerance: float | None = None, on_alert: OnAlert = "warn", name: str = "layer") -> None:
        super().__init__()
        if isinstance(on_alert, str) and on_alert not in ("warn", "raise"):
            raise UsageError(f"on_alert is {on_alert!r}", '"warn", "raise" or a function')
        self.tolerance, self.on_alert, self.name = tolerance, on_alert, name
        self.records: dict[str, LayerRecord] = {}
        self.enabled = True

    def forward(self, first: Any, second: Any) -> Any:
        """``first``, the very object, after comparing all its floating-point tensors with those of ``second``."""
        if not self.enabled:
            return first
        if torch.compiler.is_compiling():
            return _check_outside_of_graphs(self, first, second)
        self.check(first, second)
        return first

    def check(self, first: Any, second: Any) -> None:
        """Compare, write down, alert; nothing within the second run of a layer around it."""
        if in_second_run.get():
            return
        others = dict(tensors_in(second))
        told = []
        with torch.no_grad():
            for output, tensor in tensors_in(first):
                record = self.record(output)
                record.count += 1
                if not (tensor.is_floating_point() or tensor.is_complex()):
                    record.note("integers are not compared")
                elif tensor.layout is not torch.strided:
                    record.note("sparse tensors are not compared")
                elif output not in others or others[output].shape != tensor.shape:
                    record.note("the second result has another form")
                elif message := self._compare(record, tensor, others[output]):
                    told.append((message, record))
        for message, record in told:
            tell(message, record, self.on_alert)

    def record(self, output: str) -> LayerRecord:
        """The record of one output, made where there is none."""
        return self.records.setdefault(output, LayerRecord(self.name, output))

    def _compare(self, record: LayerRecord, first: Any, second: Any) -> str:
        record.checked += 1
        record.format, record.shape = format_of(first), tuple(first.shape)
        tolerance = absolute_tolerance(record.format) if self.tolerance is None else self.tolerance
        quick = quick_errors(first, second)
        # Nothing at all, or neither an alert nor a maximum that is more than 1 % new; NaN is none of these.
        scaled_ulp = _scaled_ulp(quick.absolute, quick.largest, record.format)
        no_maximum = quick.relative <= 1.01 * record.max_relative_error and scaled_ulp <= 1.01 * record.max_scaled_ulp
        if quick.absolute == 0 or (quick.relative <= tolerance and no_maximum):
            return ""
        return record.add(compare(first, second, tolerance=tolerance), tolerance)

    def extra_repr(self) -> str:
        return f"name={self.name!r}, tolerance={self.tolerance}, on_alert={self.on_alert!r}"


class FuzzCheck(nn.Module):  # type: ignore[misc]
    """A layer or function under test, between a fuzz layer and a check layer: in its place, it computes the same.

    Parameters
    ----------
    layer : module or function
        Deterministic but for torch's own random numbers, such as dropout's: both runs draw the same. One that is not
        is said so at the first call that is checked, and not checked.
    mode : str
        ``"perturb"``: the second run is on perturbed inputs. ``"upcast"``: it is one format wider, in inputs,
        parameters and computation. ``"substitute"``: ``substitute`` runs on the same inputs.
    tolerance, on_alert, name
        As for :class:`CheckLayer`.
    noise, amount, seed
        As for :class:`FuzzLayer`.
    every, first : int
        Check every so many calls, the first among them, and all of the first so many.

    Attributes
    ----------
    enabled : bool
        Set it to False, and the layer runs alone.

    Notes
    -----
    The state dict is that of the layer alone. Attributes that are not found here are the layer's. Hooks on the layer
    run in both runs. Python attributes that a layer changes in its forward are changed twice.

    Under :func:`torch.compile` the layer and its check run outside of graphs: the graph breaks there, and
    ``fullgraph=True`` is an error. What surrounds them is compiled, other than within one ``nn.Sequential``.
    """

    def __init__(
        self,
        layer: Any,
        mode: str = "perturb",
        *,
        tolerance: float | None = None,
        on_alert: OnAlert = "warn",
        name: str = "",
        noise: str = "ulp",
        amount: float = 1.0,
        seed: int = 0,
        substitute: Callable[..., Any] | None = None,
        every: int = 1,
        first: int = 1,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise UsageError(f"no mode is named {mode!r}", f"one of {', '.join(MODES)}")
        if (mode == "substitute") != (substitute is not None):
            raise UsageError("mode 'substitute', and no other, runs a substitute", "substitute=another layer")
        if not callable(layer) or every < 1:
            raise UsageError("FuzzCheck takes a module or function, and every=1 or more")
        # A function is no submodule, and no substitute has a place in the state dict.
        if isinstance(layer, nn.Module):
            self.layer = layer
        else:
            self.__dict__["layer"] = layer
        self.__dict__["substitute"] = substitute
        self.mode, self.every, self.first = mode, every, first
        self.fuzz = FuzzLayer(noise, amount, seed)
        self.check = CheckLayer(tolerance, on_alert, name or _name_of(layer))
        self.enabled = True
        self.calls = 0
        self.deterministic: bool | None = None
        self.with_gradients = False
        self.tested_with_gradients: set[bool] = set()

    @property
    def records(self) -> dict[str, LayerRecord]:
        """By the place of the output in the result, which is empty for a lone tensor."""
        return self.check.records

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer gives."""
        if not self.enabled:
            return self.layer(*args, **kwargs)
        if torch.compiler.is_compiling():
            return _run_outside_of_graphs(self, args, kwargs)
        return self.run(args, kwargs)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the layer, and where this call is one to check, a second time beside it."""
        if in_second_run.get():
            return self.layer(*args, **kwargs)
        self.calls += 1
        if self.calls > self.first and (self.calls - 1) % self.every:
            return self._alone(args, kwargs)
        # Kernels may be others where gradients are wanted, so each case is tested once.
        untested = self.deterministic is not False and torch.is_grad_enabled() not in self.tested_with_gradients
        with torch.no_grad():
            copies = copied((args, kwargs), torch.clone) if untested else None
            # Before the first run, which may change its inputs in place.
            change = self.fuzz.source.perturbed if self.mode == "perturb" else torch.clone
            second_args, second_kwargs = copied((args, kwargs), change)
        devices = {tensor.device for _, tensor in tensors_in((args, kwargs))}
        before, buffers = random_state_of(devices), buffers_of(self.layer)
        result = self.layer(*args, **kwargs)
        try:
            if copies is not None:
                self._test_determinism(result, copies, before, buffers)
            if not self.deterministic:
                self._count(result)
                return result
            with second_run(before, self.with_gradients and torch.is_grad_enabled()):
                second = self._second(second_args, second_kwargs, buffers)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            # The model runs on without its test.
            self._count(result, f"the second run failed: {type(error).__name__}: {error}")
            return result
        return self.check(result, second)

    def _alone(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self.layer(*args, **kwargs)
        self._count(result)
        return result

    def _count(self, result: Any, note: str = "") -> None:
        """Count a call that was not checked."""
        for output, _ in tensors_in(result):
            record = self.check.record(output)
            record.count += 1
            if note and record.note(note):
                warnings.warn(f"{self.check.name} is not checked: {note}", stacklevel=4)

    def _second(self, args: tuple[Any, ...], kwargs: dict[str, Any], buffers: dict[str, Any]) -> Any:
        match self.mode:
            case "upcast":
                from opscanner.dynamic.running.wide import run_wide, wide_format

                # The format of the first floating-point input, or else parameter, says how wide to go.
                given = [one for _, one in tensors_in((args, kwargs))]
                given += self.layer.parameters() if isinstance(self.layer, nn.Module) else []
                formats = [format_of(one) for one in given if one.is_floating_point()]
                to = getattr(torch, wide_format(formats[0] if formats else "float32"))
                return run_wide(self.layer, args, kwargs, to)
            case "substitute":
                assert self.substitute is not None
                if isinstance(self.substitute, nn.Module):
                    return with_buffers(self.substitute, buffers_of(self.substitute), args, kwargs)
                return self.substitute(*args, **kwargs)
            case _:
                return with_buffers(self.layer, buffers, args, kwargs)

    def _test_determinism(self, result: Any, copies: Any, before: Any, buffers: dict[str, Any]) -> None:
        """Run the layer on equal inputs: what is not the same then is not for its inputs.

        Some kernels are others where a gradient is wanted (oneDNN's LSTM): a second run has to record one then too,
        though nobody asks for it.
        """
        self.tested_with_gradients.add(torch.is_grad_enabled())
        for with_gradients in (False, True) if torch.is_grad_enabled() else (False,):
            self.with_gradients |= with_gradients
            with second_run(before, with_gradients):
                args, kwargs = copied(copies, torch.clone)
                again = with_buffers(self.layer, {k: v.clone() for k, v in buffers.items()}, args, kwargs)
                others = {output: tensor.detach() for output, tensor in tensors_in(again)}
            self.deterministic = all(
                output in others and equal(tensor.detach(), others[output]) for output, tensor in tensors_in(result)
            )
            if self.deterministic:
                return
        note = "it gives two results for equal inputs"
        for output, _ in tensors_in(result):
            self.check.record(output).note(note)
        warnings.warn(NotDeterministic(f"{self.check.name} is not checked: {note}"), stacklevel=4)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            layer = self.__dict__.get("layer", self.__dict__.get("_modules", {}).get("layer"))
            # A method's object has no class to look in while it is being made again.
            if layer is None or name.startswith("__"):
                raise
            return getattr(layer, name)

    def __getitem__(self, key: Any) -> Any:
        return self.layer[key]

    def __len__(self) -> int:
        return len(self.layer)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.layer)

    def __bool__(self) -> bool:
        return True  # whatever its length

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the layer: a model's is the same with its checks and without."""
        if isinstance(self.layer, nn.Module):
            return self.layer.state_dict(*args, **kwargs)
        return super().state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """Give the keys of a plain model the name that the layer has inside of its check."""
        if isinstance(self.layer, nn.Module):
            for key in [key for key in state_dict if key.startswith(prefix)]:
                state_dict[f"{prefix}layer.{key[len(prefix) :]}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def extra_repr(self) -> str:
        function = "" if isinstance(self.layer, nn.Module) else f", layer={_name_of(self.layer)}"
        return f"mode={self.mode!r}{function}"


def _check_eagerly(check: CheckLayer, first: Any, second: Any) -> Any:
    check.check(first, second)
    return first


# torch.compiler.disable would load the compiler, two seconds of it, where nobody compiles.
_run_outside_of_graphs = _disable_dynamo(FuzzCheck.run)
_check_outside_of_graphs = _disable_dynamo(_check_eagerly)


# -- Wrapping and unwrapping models ----------------------------------------------------------------------------------


def add_fuzz_checks(model: Any, chosen: Callable[[str, Any], bool] | type | tuple[type, ...], **settings: Any) -> Any:
    """Wrap modules of a model in place, each in a :class:`FuzzCheck` named by its path; the model.

    Parameters
    ----------
    chosen : class, classes, or function of path and module
        Which modules; inside of one that is wrapped no other is.
    settings
        As for :class:`FuzzCheck`.
    """
    wanted = chosen if callable(chosen) and not isinstance(chosen, type) else lambda _, one: isinstance(one, chosen)
    wrapped: dict[int, FuzzCheck] = {}

    def visit(module: Any, path: str) -> Any:
        if isinstance(module, FuzzCheck):
            return module
        if id(module) in wrapped:
            return wrapped[id(module)]
        if path and wanted(path, module):
            return wrapped.setdefault(id(module), FuzzCheck(module, **{"name": path} | settings))
        for name, child in [(name, child) for name, child in module._modules.items() if child is not None]:
            setattr(module, name, visit(child, f"{path}.{name}" if path else name))
        return module

    return visit(model, "")


def fuzz_checks(model: Any) -> dict[str, FuzzCheck]:
    """All checks of a model by their path."""
    return {path: module for path, module in model.named_modules() if isinstance(module, FuzzCheck)}


def remove_fuzz_checks(model: Any) -> Any:
    """Put every layer under test back in the place of its check, in place; the model, or its layer if it is a check.

    A function under test takes the place of its check as an attribute. In containers such as ``nn.Sequential``, which
    hold modules alone, the check of a function stays, switched off.
    """
    if isinstance(model, FuzzCheck):
        return remove_fuzz_checks(model.layer) if isinstance(model.layer, nn.Module) else model.layer
    for module in list(model.modules()):
        # The same module may have two names.
        for name, child in [(name, child) for name, child in module._modules.items() if isinstance(child, FuzzCheck)]:
            layer = child.layer
            while isinstance(layer, FuzzCheck):
                layer = layer.layer
            if isinstance(layer, nn.Module):
                setattr(module, name, layer)
            elif isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict)):
                child.enabled = False
            else:
                delattr(module, name)
                setattr(module, name, layer)
    return model


def _scaled_ulp(absolute: float, largest: float, format_: str) -> float:
    """A difference in ULP of the largest element; formats without ULP have none."""
    layout = FORMATS.get(part_format(format_))
    if layout is None or not largest < math.inf:
        return absolute
    return absolute / math.ldexp(1.0, max(math.frexp(largest)[1] - 1, layout.emin) - layout.precision + 1)


def _name_of(layer: Any) -> str:
    if isinstance(layer, nn.Module) or not inspect.isroutine(layer):
        return type(layer).__name__
    return getattr(layer, "__name__", "function")
