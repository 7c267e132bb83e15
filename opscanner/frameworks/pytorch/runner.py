"""Runs PyTorch operators: the one place of the package that imports torch.

Calls are expressions of the project's own tables (``data/operator_pairs.csv``), never of a user.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

# Read once, at import: the profiler of torch 2.13 else writes two lines to stderr for each use.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import numpy as np
import torch
import torch.nn.functional
from torch.profiler import ProfilerActivity, profile, record_function

from opscanner.frameworks.layouts import LAYOUTS, can_take, check_layout
from opscanner.frameworks.pytorch.refusals import OUT_OF_MEMORY, REFUSALS
from opscanner.frameworks.refusals import explain, text_of
from opscanner.frameworks.runners import check_device

#: Operators that allocate, view or copy and compute nothing.
BOOKKEEPING = frozenset(
    {
        *("alias", "as_strided", "clone", "contiguous", "copy_", "detach", "detach_", "empty", "empty_like"),
        *("empty_strided", "expand", "expand_as", "fill_", "is_nonzero", "item", "_local_scalar_dense"),
        *("lift_fresh", "movedim", "narrow", "new_empty", "new_empty_strided", "new_zeros", "ones", "ones_like"),
        *("permute", "_reshape_alias", "reshape", "resize_", "resolve_conj", "resolve_neg", "result_type"),
        *("select", "set_", "slice", "squeeze", "t", "to", "_to_copy", "transpose", "unflatten", "unsqueeze"),
        *("_unsafe_view", "view", "view_as_real", "view_as_complex", "zero_", "zeros", "zeros_like"),
        *("broadcast_tensors", "broadcast_to", "flatten", "_conj", "conj", "_has_compatible_shallow_copy_type"),
        *("scalar_tensor", "full", "full_like", "_has_same_storage_numel", "swapaxes", "adjoint", "mT", "mH"),
        *("split", "unbind", "chunk", "real"),
    }
)

#: What the profiler calls a backward pass.
_BACKWARD = "opscanner::backward"

#: Arguments that say where and how a result is stored, not what it is.
_NO_ATTRIBUTES = frozenset(
    {
        *("inplace", "out", "dtype", "layout", "device", "pin_memory", "memory_format", "generator", "_stacklevel"),
        *("size_average", "reduce", "names", "non_blocking", "copy", "implicit", "requires_grad"),
    }
)


def evaluate(
    expression: str,
    inputs: Mapping[str, np.ndarray],
    format_name: str,
    *,
    device: str = "cpu",
    layout: str = "contiguous",
) -> list[np.ndarray]:
    """The values of an expression over ``inputs``, floats among them in the named format; one array an output.

    Results in 8 and 16 bit come as float32, which holds them exactly.

    Parameters
    ----------
    device : str
        ``cpu``, ``cuda`` or ``cuda:N``. Inputs go there once and results come back once.
    layout : str
        How inputs lie in memory, one of :data:`~opscanner.frameworks.layouts.LAYOUTS`; inputs that cannot take it stay
        as they are.

    Raises
    ------
    UsageError
        When there is no such device.
    LayoutError
        When no input can take the layout.
    """
    named = evaluate_named(expression, inputs, format_name, device=device, layout=layout)
    return [array for _, array in named]


def evaluate_named(
    expression: str,
    inputs: Mapping[str, np.ndarray],
    format_name: str,
    *,
    device: str = "cpu",
    layout: str = "contiguous",
) -> list[tuple[str, np.ndarray]]:
    """As :func:`evaluate`, each output with the name of the format that it came in: ``float16``, ``int64`` ..."""
    check_device("torch", device, devices())
    check_layout((np.shape(value) for value in inputs.values()), layout, LAYOUTS)
    names = _namespace(format_name)
    for name, value in inputs.items():
        names[name] = _laid_out(_tensor(value, format_name).to(device), layout)
    # What an expression makes itself lies there too. Not for the CPU: a function mode closes some fast paths.
    with contextlib.nullcontext() if device == "cpu" else torch.device(device):
        result = eval(_compiled(expression), names)  # noqa: S307  (the project's own table)
    return [(_format_of(tensor), _array(tensor)) for tensor in _flat(result)]


def evaluate_compiled(
    expression: str, inputs: Mapping[str, np.ndarray], format_name: str, *, device: str = "cpu"
) -> list[tuple[str, np.ndarray]]:
    """As :func:`evaluate_named`, through ``torch.compile``: seconds a call, and a C++ compiler must be there."""
    check_device("torch", device, devices())
    tensors = [_tensor(value, format_name).to(device) for value in inputs.values()]
    function = eval(f"lambda {', '.join(inputs)}: {expression}", _namespace(format_name))  # noqa: S307
    torch.compiler.reset()  # each call would else count towards the limit of recompilations
    result = torch.compile(function, dynamic=False)(*tensors)
    return [(_format_of(tensor), _array(tensor)) for tensor in _flat(result)]


def unsupported(error: BaseException) -> str | None:
    """What is missing, when an error says that torch has no such operator, format, device or layout; else None."""
    return explain(text_of(error), REFUSALS)


def out_of_memory(error: BaseException) -> bool:
    """True when an error says that memory did not suffice."""
    return re.search(OUT_OF_MEMORY, text_of(error)) is not None


@functools.cache
def devices() -> list[str]:
    """``cpu``, and ``cuda:0`` and so on."""
    return ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]


@functools.lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<call>", "eval")


def _laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values, lying in memory as ``layout`` says where their shape allows it."""
    if not can_take(tuple(tensor.shape), layout):
        return tensor
    if layout == "strided":
        wide = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]))
        return wide[..., ::2].copy_(tensor)
    if layout == "transposed":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "offset":
        return tensor.new_zeros(tensor.numel() + 1)[1:].view(tensor.shape).copy_(tensor)
    if layout == "channels_last":
        form = torch.channels_last if tensor.ndim == 4 else torch.channels_last_3d
        return tensor.contiguous(memory_format=form)
    if layout == "zero_dim":
        return tensor.reshape(())
    return tensor


def operators_run(expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> tuple[str, ...]:
    """Names of the ATen operators that run for an expression, nested calls too, as torch.profiler sees them.

    In order of first call, without the ``aten::``; :data:`BOOKKEEPING` names those that compute nothing.
    """
    events = _events(expression, inputs, format_name)
    found = [event.name.removeprefix("aten::") for event in events if event.name.startswith("aten::")]
    return tuple(dict.fromkeys(found))


def backward_operators_run(expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> tuple[str, ...]:
    """Names of the ATen operators that the backward passes of an expression's ``grad(...)`` run themselves.

    Those that call another operator that computes are left out: what they do, their callees do. So is
    :data:`BOOKKEEPING`. In order of first call; empty for an expression without ``grad``.
    """
    events = _events(expression, inputs, format_name)
    passes = [event.time_range for event in events if event.name == _BACKWARD]
    computing = [
        (event.name.removeprefix("aten::"), event.time_range)
        for event in events
        if event.name.startswith("aten::") and event.name.removeprefix("aten::") not in BOOKKEEPING
    ]
    found = [
        name
        for number, (name, lasts) in enumerate(computing)
        if any(one.start <= lasts.start <= one.end for one in passes)
        # Sorted by start: a callee comes right behind its caller.
        and not (number + 1 < len(computing) and computing[number + 1][1].start < lasts.end)
    ]
    return tuple(dict.fromkeys(found))


def _events(expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> list[Any]:
    """What the profiler saw of an expression, callers before their callees."""
    names = _namespace(format_name)
    names.update({name: _tensor(value, format_name) for name, value in inputs.items()})
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        eval(expression, names)  # noqa: S307  (the project's own table)
    return sorted(recorded.events(), key=lambda event: (event.time_range.start, -event.time_range.end))


def unset_attributes(expression: str) -> tuple[str, ...]:
    """Attributes with a default that an expression leaves to torch, as ``function.attribute``."""
    missing = []
    for call in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(call, ast.Call) and (path := _path(call.func)) and path[0] in ("torch", "F", "aten"):
            given = {keyword.arg for keyword in call.keywords if keyword.arg}
            left = _left_to_default(path, len(call.args), given)
            missing += [f"{'.'.join(path)}.{name}" for name in left]
    return tuple(missing)


def versions() -> dict[str, str]:
    """What a result depends on: the release, the vector instructions of its CPU kernels, CUDA and the GPU if any."""
    found = {"torch": torch.__version__, "torch_cpu": torch.backends.cpu.get_cpu_capability()}
    if torch.cuda.is_available():
        found |= {"torch_cuda": str(torch.version.cuda), "gpu": torch.cuda.get_device_name(0)}
    return found


def run_reproducibly() -> None:
    """Make results independent of the number of cores and of where arrays lie; before the first operator."""
    os.environ.setdefault("MKL_CBWR", "COMPATIBLE")
    torch.set_num_threads(1)


def _namespace(format_name: str) -> dict[str, Any]:
    return {
        "torch": torch,
        "F": torch.nn.functional,
        "aten": torch.ops.aten,
        "np": np,
        "dtype": getattr(torch, format_name),
        "bits_dtype": getattr(torch, f"int{8 * getattr(torch, format_name).itemsize}"),
        "grad": _grad,
        "updated": _updated,
        "stepped": _stepped,
    }


def _grad(function: Callable[..., torch.Tensor], arguments: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Gradients of ``function`` at ``arguments``, a tensor or a tuple of them, for an upstream gradient."""
    leaves = [a.detach().requires_grad_() for a in _flat(arguments)]  # no copies: they would lose the layout
    result = function(*leaves)
    with record_function(_BACKWARD):
        return tuple(torch.autograd.grad(result, leaves, upstream))


def _updated(function: Callable[..., Any], *tensors: torch.Tensor) -> list[torch.Tensor]:
    """What ``function`` leaves in copies of ``tensors`` that it changes in place."""
    copies = [_copy(tensor) for tensor in tensors]
    function(*copies)
    return copies


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides; ``clone`` closes gaps between elements."""
    if 0 in tensor.stride() or tensor.is_sparse:
        return tensor.clone()
    same = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return same.copy_(tensor)


def _stepped(
    make: Callable[[list[torch.Tensor]], Any], value: torch.Tensor, gradient: torch.Tensor, state: Mapping[str, Any]
) -> torch.Tensor:
    """The parameter after one step of a ``torch.optim`` optimizer that starts from ``state``."""
    parameter = value.clone().requires_grad_()
    parameter.grad = gradient.clone()
    optimizer = make([parameter])
    optimizer.state[parameter].update(
        {name: entry.clone() if isinstance(entry, torch.Tensor) else entry for name, entry in state.items()}
    )
    optimizer.step()
    return parameter.detach()


def _tensor(value: np.ndarray, format_name: str) -> torch.Tensor:
    # Packed, and cloned to be aligned as torch's own: paths of kernels and LAPACK's order of sums depend on both.
    tensor = torch.from_numpy(np.array(value, order="C")).clone()
    if tensor.is_complex():
        return tensor.to(torch.complex128 if format_name == "float64" else torch.complex64)
    return tensor.to(getattr(torch, format_name)) if tensor.is_floating_point() else tensor


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = torch.as_tensor(tensor).detach().cpu()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.is_floating_point() and tensor.dtype.itemsize < 4:
        tensor = tensor.float()
    elif tensor.dtype == torch.complex32:
        tensor = tensor.to(torch.complex64)
    array: np.ndarray = tensor.resolve_conj().resolve_neg().numpy()
    return array


def _format_of(tensor: torch.Tensor) -> str:
    return str(torch.as_tensor(tensor).dtype).removeprefix("torch.")


def _flat(value: Any) -> Iterable[Any]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _flat(part)
    elif value is not None:
        yield value


def _path(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute) and (path := _path(node.value)):
        return (*path, node.attr)
    return ()


def _left_to_default(path: tuple[str, ...], positional: int, given: set[str]) -> tuple[str, ...]:
    overloads = list(_parameters(path))
    fitting = [o for o in overloads if given <= {name for name, _ in o}]
    left = [
        tuple(
            name
            for place, (name, default) in enumerate(overload)
            if default and name not in given and place >= positional and name not in _NO_ATTRIBUTES
        )
        for overload in fitting
    ]
    return min(left, key=len, default=())


def _parameters(path: tuple[str, ...]) -> Iterable[list[tuple[str, bool]]]:
    """For each overload its parameters and whether they have a default other than None."""
    if path[0] == "F" or path[:2] == ("torch", "optim"):
        room = torch.nn.functional if path[0] == "F" else torch.optim
        try:
            signature = inspect.signature(getattr(room, path[-1]))
        except (TypeError, ValueError):
            pass
        else:
            yield [(p.name, p.default not in (None, inspect.Parameter.empty)) for p in signature.parameters.values()]
            return
    prefix = f"{path[1]}_" if len(path) == 3 and path[1] in ("linalg", "fft", "special") else ""
    name = path[1] if path[0] == "aten" else prefix + path[-1]
    packet = getattr(torch.ops.aten, name, None)
    for overload in packet.overloads() if packet is not None else ():
        if overload.endswith("out"):
            continue
        if path[0] == "aten" and len(path) == 3 and overload != path[2]:
            continue
        arguments = getattr(packet, overload)._schema.arguments
        yield [(a.name, a.has_default_value() and a.default_value is not None) for a in arguments]
