"""Elementwise operators on a part of their elements: as good a trial, at a part of the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from opscanner.dynamic.running.calls import index_at, replaced, tensors_of

#: From so many elements on a part is taken, an eighth: a different one at each check of a site.
LEAST = 1 << 16
SHARE = 8


@dataclass(frozen=True)
class Part:
    """A run of elements of tensors of one shape, counted in the order of memory."""

    start: int
    stop: int
    shape: tuple[int, ...]

    def of(self, value: Any) -> Any:
        """The same structure with that part of each tensor of the shape; other tensors as they are."""
        return replaced(value, lambda one: one.view(-1)[self.start : self.stop] if one.shape == self.shape else one)

    def index(self, place: tuple[int, ...]) -> tuple[int, ...]:
        """Where in the whole tensor an element of the part is."""
        return index_at(self.start + place[0], self.shape) if place else place


def part_of(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], turn: int) -> Part | None:
    """The part that has its turn; None for operators that are not elementwise, and for tensors of several shapes."""
    if torch.Tag.pointwise not in operator.tags:
        return None
    tensors = [one for one in tensors_of(args, kwargs) if one.dim()]
    if not tensors or tensors[0].numel() < LEAST:
        return None
    shape = tensors[0].shape
    if not all(one.shape == shape and one.is_contiguous() for one in tensors):
        return None
    size = tensors[0].numel()
    length = -(-size // SHARE)
    start = turn % SHARE * length
    return Part(start, min(start + length, size), tuple(shape))
