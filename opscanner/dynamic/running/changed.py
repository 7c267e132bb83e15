"""Tensors as the second run of a module's code gets them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opscanner.dynamic.running.calls import format_of, is_float, tensors_of
from opscanner.dynamic.running.noise import NoiseSource
from opscanner.precision.formats import FORMATS


class Change:
    """Tensors as the second run gets them: moved, and wider; the same for a tensor that comes twice."""

    def __init__(self, to: torch.dtype | None, noise: NoiseSource | None, rounded_to: str) -> None:
        self._to = to
        self._noise = noise
        self._rounded_to = rounded_to
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self._made.get(id(tensor))
        if known is None:
            known = self._made[id(tensor)] = (tensor, self._changed(tensor))
        return known[1]

    def of_state(self, tensor: torch.Tensor) -> torch.Tensor:
        """A parameter or buffer: never itself, because a second run may write to it."""
        made = self(tensor)
        return made.clone() if made is tensor else made

    def _changed(self, tensor: torch.Tensor) -> torch.Tensor:
        if not is_float(tensor):
            return tensor
        made = tensor.detach()
        if self._noise is not None:
            made = self._moved(made)
        if self._to is None:
            return made if made is not tensor and self._noise is not None else made.clone()
        to = (
            {torch.float64: torch.complex128, torch.float32: torch.complex64}[self._to]
            if made.is_complex()
            else self._to
        )
        return made.to(to) if torch.finfo(made.dtype).bits < torch.finfo(to).bits else made.clone()

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """By one ULP; under autocast by one of the format that kernels round their inputs to."""
        assert self._noise is not None
        lost = FORMATS[format_of(tensor)].precision - FORMATS[self._rounded_to].precision if self._rounded_to else 0
        if lost <= 0 or tensor.is_complex():
            return self._noise.perturbed(tensor)
        signs = self._noise.perturbed(tensor) - tensor
        return tensor + signs * 2.0**lost


def autocast_format(values: Sequence[Any]) -> str:
    """The format that autocast rounds to where it is on; empty where it is off."""
    device = next((one.device.type for one in tensors_of(values)), "cpu")
    if not torch.is_autocast_enabled(device):
        return ""
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
