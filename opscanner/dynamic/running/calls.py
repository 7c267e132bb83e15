"""The tensors among an operator's arguments, and arguments made again with other tensors in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

FLOATS = frozenset({
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
})  # fmt: skip


def is_float(value: Any) -> bool:
    """True for a plain tensor of numbers that rounding concerns."""
    if not isinstance(value, torch.Tensor) or value.dtype not in FLOATS:
        return False
    # Tensors that are nested say that they are strided, and have no shape.
    return value.layout is torch.strided and not value.is_nested


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Iterator[torch.Tensor]:
    """All tensors of a call, those in lists and dictionaries too, in order."""
    for value in args:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_of(value)
        elif isinstance(value, dict):
            yield from tensors_of(tuple(value.values()))
    if kwargs:
        yield from tensors_of(tuple(kwargs.values()))


def floats_of(args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[torch.Tensor]:
    """The tensors of a call that rounding concerns."""
    return [one for one in tensors_of(args, kwargs) if is_float(one)]


def replaced(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same lists, tuples (named ones too) and dictionaries, with ``change`` of each tensor."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        parts = [replaced(one, change) for one in value]
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts)
    if isinstance(value, dict):
        return {name: replaced(one, change) for name, one in value.items()}
    return value


def format_of(tensor: torch.Tensor) -> str:
    """``float16``; of complex numbers the format of their parts."""
    name = str(tensor.dtype).removeprefix("torch.")
    return {"complex32": "float16", "complex64": "float32", "complex128": "float64"}.get(name, name)


def once(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same change for a tensor that is given twice: ``sub(x, x)`` stays 0."""
    made: dict[int, torch.Tensor] = {}

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        found = made.get(id(tensor))
        if found is None:
            found = made[id(tensor)] = change(tensor)
        return found

    return changed


def index_at(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The index of an element that is counted in the order of a contiguous tensor's memory."""
    return tuple(int(at) for at in torch.unravel_index(torch.tensor(place), tuple(shape)))
