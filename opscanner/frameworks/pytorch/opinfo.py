"""What PyTorch's own database of operators (OpInfo) says: formats that each supports on a device, and how to call it.

OpInfo lives in ``torch.testing._internal.common_methods_invocations`` and is what PyTorch's tests run from. It is no
public interface: what it holds follows the release that is installed. Needs ``expecttest`` beside torch.
"""

from __future__ import annotations

import contextlib
import functools
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional

from opscanner.errors import OpscannerError

#: Samples of an operator that are looked at, those that become calls, and the values that a literal may hold.
_LOOKED_AT = 200
_CALLS = 4
_LITERAL = 256

_KINDS = {
    "UnaryUfuncInfo": "unary", "BinaryUfuncInfo": "binary", "ReductionOpInfo": "reduction", "SpectralFuncInfo": "fft",
}  # fmt: skip


@dataclass(frozen=True)
class OpInfoCall:
    """One call of an operator, read from one of its sample inputs.

    Parameters
    ----------
    operator : str
        As OpInfo names it: ``nn.functional.pairwise_distance``, ``linalg.norm.subgradients_at_zero``.
    number : int
        Position among the calls of the operator.
    kind : str
        In the words of ``data/operators_alone.csv``; ``random`` where two runs differ, or the memory is nobody's.
    inputs, call : str
        In the language of that table. Floats are drawn from the range of the sample's; where the operator refuses such
        values (no Cholesky factor), the sample's own stand in the inputs.
    gradient : str
        The call of its gradient, for an input ``dy`` more; empty where autograd or the output has none.
    gradient_inputs : str
    """

    operator: str
    number: int
    kind: str
    elementwise: bool
    inputs: str
    call: str
    gradient_inputs: str = ""
    gradient: str = ""


class _NoText(Exception):  # noqa: N818  (no error: the sample is left out)
    """A sample holds something that has no text in the language of the tables."""


@dataclass
class _Input:
    name: str
    value: torch.Tensor


def names() -> tuple[str, ...]:
    """All operators of the database, as it names them."""
    return tuple(_database())


def formats_of(operator: str, device: str, *, backward: bool = False) -> frozenset[str]:
    """Floating formats that PyTorch declares an operator to support on ``cpu`` or ``cuda``.

    What is declared for CUDA may depend on the device at hand: without one it is what OpInfo says of none.
    """
    entry = _database()[operator]
    kind = device.partition(":")[0]
    types = entry.supported_backward_dtypes(kind) if backward else entry.supported_dtypes(kind)
    return frozenset(str(one).removeprefix("torch.") for one in types if one.is_floating_point)


def aliases_of(operator: str) -> frozenset[str]:
    """Names by which the same operator goes: ``absolute`` of ``abs``, ATen's name, without the variant."""
    entry = _database()[operator]
    told = {entry.name, entry.aten_name or entry.name, *(alias.name for alias in entry.aliases)}
    return frozenset(name.removeprefix("torch.") for name in told)


def calls_of(operator: str) -> tuple[OpInfoCall, ...]:
    """Calls of an operator: of its sample inputs in float64 those that differ in more than values and sizes.

    The sample with most elements stands for each. None where the operator is no function of torch (a lambda of
    PyTorch's tests), or no sample can be written down.
    """
    entry = _database()[operator]
    path = _path_of(entry)
    if path is None:
        return ()
    found: dict[str, tuple[int, list[_Input], str]] = {}
    with _repeatable_samples():
        for sample in islice(entry.sample_inputs("cpu", torch.float64), _LOOKED_AT):
            inputs: list[_Input] = []
            try:
                call = _call(path, (sample.input, *sample.args), sample.kwargs, inputs)
            except _NoText:
                continue
            size = sum(one.value.numel() for one in inputs)
            if size and (call not in found or size > found[call][0]):
                found[call] = size, inputs, call
        ranked = sorted(found.values(), key=lambda one: -one[0])[:_CALLS]
        made = (_described(entry, number, inputs, call) for number, (_, inputs, call) in enumerate(ranked))
        return tuple(one for one in made if one is not None)


@functools.cache
def _database() -> dict[str, Any]:
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise OpscannerError(
            f"PyTorch's OpInfo database cannot be imported: {error}", "pip install expecttest, which it needs"
        ) from error
    # Operators that compile a kernel of their own for CUDA are no operators of the release.
    return {entry.full_name: entry for entry in op_db if not entry.name.startswith("jiterator")}


def _path_of(entry: Any) -> str | None:
    """How the operator is written, when it is a function of torch."""
    found: Any = torch
    for part in entry.name.split("."):
        found = getattr(found, part, None)
    if found is None or found is not entry.op:
        return None
    return "F." + entry.name.removeprefix("nn.functional.") if "nn.functional" in entry.name else f"torch.{entry.name}"


@contextlib.contextmanager
def _repeatable_samples() -> Iterator[None]:
    """Samples are random: the same ones whatever ran before, and nothing of it left behind."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch deprecates some of what it tests
        torch.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def _call(path: str, arguments: tuple[Any, ...], named: dict[str, Any], inputs: list[_Input]) -> str:
    written = [_text(one, inputs) for one in arguments]
    written += [f"{name}={_text(one, inputs)}" for name, one in named.items()]
    return f"{path}({', '.join(written)})"


def _text(value: Any, inputs: list[_Input]) -> str:
    """A value as the language of the tables writes it; tensors become inputs."""
    if isinstance(value, torch.Tensor):
        free = value.dtype is torch.float64
        listed = value.dtype in (torch.bool, torch.int32, torch.int64, torch.uint8) and value.numel() <= _LITERAL
        if value.layout != torch.strided or not (free or listed) or not value.numel() or not value.isfinite().all():
            raise _NoText
        inputs.append(_Input(f"x{len(inputs)}", value.detach()))
        return inputs[-1].name
    if isinstance(value, torch.Size):
        return repr(tuple(value))
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_text(one, inputs) for one in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, torch.dtype):
        return "dtype" if value is torch.float64 else str(value)
    if isinstance(value, torch.memory_format):
        return str(value)
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f"float('{value}')"
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    raise _NoText


def _described(entry: Any, number: int, inputs: list[_Input], call: str) -> OpInfoCall | None:
    """The call of a sample; None when the sample's own values are refused once they are written down."""
    kind = _KINDS.get(type(entry).__name__, "linear algebra" if entry.name.startswith("linalg") else "operator")
    elementwise = kind in ("unary", "binary") and len({one.value.shape for one in inputs}) == 1
    drawn = _outputs(call, {one.name: _drawn(one.value) for one in inputs})
    told = "; ".join(_range(one) for one in inputs)
    if drawn is None:
        if any(one.value.numel() > _LITERAL for one in inputs):
            return None
        told = "; ".join(_literal(one) for one in inputs)
        drawn = _outputs(call, {one.name: one.value for one in inputs})
        elementwise = False
    if drawn is None:
        return None
    if _differ(call, inputs) or "empty" in entry.name:
        kind = "random"
    gradient = _gradient(entry, inputs, call, drawn) if kind != "random" else None
    gradient_inputs = f"{told}; dy: float ({_shape(drawn[0].shape)}) in [-2, 2]" if gradient else ""
    return OpInfoCall(entry.full_name, number, kind, elementwise, told, call, gradient_inputs, gradient or "")


def _gradient(entry: Any, inputs: list[_Input], call: str, outputs: list[torch.Tensor]) -> str | None:
    """The gradient for all float inputs, where there is one of them all and one float output."""
    leaves = [one for one in inputs if one.value.is_floating_point()]
    if not (entry.supports_autograd and leaves and len(outputs) == 1 and outputs[0].is_floating_point()):
        return None
    told = ", ".join(one.name for one in leaves)
    text = f"grad(lambda {told}: {call}, ({told},), dy)"
    wanted = [one.value.clone().requires_grad_() for one in leaves]
    named = {one.name: one.value for one in inputs} | {one.name: w for one, w in zip(leaves, wanted, strict=True)}
    try:
        result = _evaluated(call, named)
        torch.autograd.grad(result, wanted, torch.ones_like(result))
    except Exception:  # noqa: BLE001  (whatever keeps torch from a gradient, there is none)
        return None
    return text


def _outputs(call: str, named: dict[str, torch.Tensor]) -> list[torch.Tensor] | None:
    """The results of a call; None when it raises, or gives no number for the values."""
    try:
        result = _evaluated(call, {name: value.clone() for name, value in named.items()})
    except Exception:  # noqa: BLE001  (an operator may refuse values with any words)
        return None
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    if not outputs or not all(isinstance(one, torch.Tensor) and one.layout == torch.strided for one in outputs):
        return None
    if any(not one.numel() or (one.is_floating_point() and bool(one.isnan().any())) for one in outputs):
        return None
    return outputs


def _differ(call: str, inputs: list[_Input]) -> bool:
    named = {one.name: one.value for one in inputs}
    first, second = _outputs(call, named), _outputs(call, named)
    if first is None or second is None:
        return False
    return any(not torch.equal(one, other) for one, other in zip(first, second, strict=True))


def _evaluated(call: str, named: dict[str, torch.Tensor]) -> Any:
    names = {"torch": torch, "F": torch.nn.functional, "np": np, "dtype": torch.float64, **named}
    return eval(call, names)  # noqa: S307  (made of OpInfo's own samples)


def _drawn(value: torch.Tensor) -> torch.Tensor:
    """Other values of the range that the sample's span; what is no float stays."""
    if not value.is_floating_point():
        return value
    low, high = _span(value)
    return low + (high - low) * torch.rand(value.shape, dtype=torch.float64)


def _range(one: _Input) -> str:
    if not one.value.is_floating_point():
        return _literal(one)
    low, high = _span(one.value)
    return f"{one.name}: float ({_shape(one.value.shape)}) in [{_number(low)}, {_number(high)}]"


def _shape(shape: torch.Size) -> str:
    return ", ".join(map(str, shape))


def _span(value: torch.Tensor) -> tuple[float, float]:
    """The smallest and the largest value, inwards to three digits, so that no end of a domain is passed."""
    low, high = float(value.min()), float(value.max())
    shorter = round(low + 0.0005, 3), round(high - 0.0005, 3)
    return shorter if shorter[0] < shorter[1] else (low, high)


def _number(value: float) -> str:
    return np.format_float_positional(value, trim="-")


def _literal(one: _Input) -> str:
    values = one.value.tolist()
    return f"{one.name} = np.array({values!r}, np.{str(one.value.dtype).removeprefix('torch.')})"
