"""The second run of a torch layer, which leaves no trace: copies, buffers, the random state, autocast's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

#: Checks within a layer under test are asleep in its second run.
in_second_run: ContextVar[bool] = ContextVar("in_second_run", default=False)


def copied(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same lists, tuples (named ones too) and dictionaries with each tensor changed, each object once."""
    done: dict[int, Any] = {}

    def visit(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            if id(one) not in done:
                done[id(one)] = change(one.detach()) if one.layout is torch.strided else one.detach()
            return done[id(one)]
        if isinstance(one, (list, tuple)):
            parts = [visit(part) for part in one]
            return type(one)(*parts) if hasattr(one, "_fields") else type(one)(parts)
        if isinstance(one, dict):
            return {key: visit(part) for key, part in one.items()}
        return one

    return visit(value)


def tensors_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in what a layer gives, by their path; objects of dataclass-like outputs are dictionaries."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from tensors_in(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for at, part in enumerate(value):
            yield from tensors_in(part, f"{path}.{at}" if path else str(at))


def buffers_of(layer: Any) -> dict[str, Any]:
    """Copies of the buffers of a module, such as running statistics."""
    if not isinstance(layer, nn.Module):
        return {}
    return {name: buffer.detach().clone() for name, buffer in layer.named_buffers() if buffer is not None}


def with_buffers(layer: Any, buffers: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The layer's result with other buffers in place of its own, which so stay as the first run left them."""
    if buffers:
        return torch.func.functional_call(layer, buffers, args, kwargs)
    return layer(*args, **kwargs)


def random_state_of(devices: set[Any]) -> dict[Any, Any]:
    """The state of the generators that a layer may draw from."""
    states = {"cpu": torch.get_rng_state()}
    for device in devices:
        if device.type == "cuda":
            states[device] = torch.cuda.get_rng_state(device)
    return states


def _set_random_state(states: dict[Any, Any]) -> None:
    for device, state in states.items():
        if device == "cpu":
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


@contextmanager
def second_run(before: dict[Any, Any], with_gradients: bool) -> Iterator[None]:
    """No gradients unless asked for, the random state of the first run, and no trace of it all afterwards."""
    after = random_state_of({device for device in before if device != "cpu"})
    cached = torch.is_autocast_cache_enabled()
    inner = in_second_run.set(True)
    _set_random_state(before)
    # A weight that autocast casts and keeps without a gradient would lose it for the rest of the model.
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.set_grad_enabled(with_gradients):
            yield
    finally:
        in_second_run.reset(inner)
        torch.set_autocast_cache_enabled(cached)
        _set_random_state(after)


def equal(first: Any, second: Any) -> bool:
    """True for equal tensors; NaN equals NaN."""
    if first.shape != second.shape or first.dtype != second.dtype or first.layout is not torch.strided:
        return bool(first.shape == second.shape and first.dtype == second.dtype)
    if torch.equal(first, second):
        return True
    if not (first.is_floating_point() or first.is_complex()):
        return False
    either_nan = first.isnan() & second.isnan()
    return bool(((first == second) | either_nan).all())
