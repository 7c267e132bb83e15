"""The state of torch's random numbers, kept and put back around a second run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from opscanner.dynamic.running.calls import tensors_of


class RandomState:
    """torch's random state of the CPU and of the devices that a call's tensors are on."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = [(device, torch.cuda.get_rng_state(device)) for device in devices]

    @classmethod
    def of(cls, args: Sequence[Any], kwargs: Mapping[str, Any]) -> RandomState:
        """The state before a call with such arguments."""
        return cls(list({one.device for one in tensors_of(args, kwargs) if one.is_cuda}))

    def put_back(self) -> None:
        """The state as it was."""
        torch.set_rng_state(self._cpu)
        for device, state in self._cuda:
            torch.cuda.set_rng_state(state, device)

    def saved(self) -> dict[str, torch.Tensor]:
        """The state by type of device; of several devices that of the first."""
        return {"cpu": self._cpu, **{device.type: state for device, state in self._cuda[:1]}}
