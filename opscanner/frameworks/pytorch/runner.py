"""Runs PyTorch operators: the one place of the package that imports torch.

Calls are expressions of the project's own tables (``data/operator_pairs.csv``), never of a user.
"""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# Read once, at import: the profiler of torch 2.13 else writes two lines to stderr for each use.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

import numpy as np
import torch
import torch.nn.functional
from torch.profiler import ProfilerActivity, profile, record_function

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


def evaluate(expression: str, inputs: Mapping[str, np.ndarray], format_name: str) -> list[np.ndarray]:
    """The values of an expression over ``inputs``, floats among them in the named format; one array an output."""
    names = _namespace(format_name)
    names.update({name: _tensor(value, format_name) for name, value in inputs.items()})
    result = eval(expression, names)  # noqa: S307  (the project's own table)
    return [_array(tensor) for tensor in _flat(result)]


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
    """What a result depends on: the release and the vector instructions that its CPU kernels use."""
    return {"torch": torch.__version__, "torch_cpu": torch.backends.cpu.get_cpu_capability()}


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
        "grad": _grad,
        "updated": _updated,
        "stepped": _stepped,
    }


def _grad(function: Callable[..., torch.Tensor], arguments: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Gradients of ``function`` at ``arguments``, a tensor or a tuple of them, for an upstream gradient."""
    leaves = [a.detach().clone().requires_grad_() for a in _flat(arguments)]
    result = function(*leaves)
    with record_function(_BACKWARD):
        return tuple(torch.autograd.grad(result, leaves, upstream))


def _updated(function: Callable[..., Any], *tensors: torch.Tensor) -> list[torch.Tensor]:
    """What ``function`` leaves in copies of ``tensors`` that it changes in place."""
    copies = [tensor.clone() for tensor in tensors]
    function(*copies)
    return copies


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
    tensor = torch.from_numpy(np.array(value)).clone()  # aligned as torch's own: LAPACK's order of sums depends on it
    if tensor.is_complex():
        return tensor.to(torch.complex128 if format_name == "float64" else torch.complex64)
    return tensor.to(getattr(torch, format_name)) if tensor.is_floating_point() else tensor


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = torch.as_tensor(tensor).detach()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    array: np.ndarray = tensor.resolve_conj().resolve_neg().numpy()
    return array


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
