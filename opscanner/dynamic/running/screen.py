"""The cheapest look at two results that is enough to say that nothing is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from opscanner.dynamic.running.calls import format_of
from opscanner.precision.formats import FORMATS

#: Elements that are subtracted at a time: the difference stays in the cache of a core.
_CHUNK = 1 << 17


@dataclass(frozen=True)
class Screening:
    """The largest difference of two tensors and their largest element; NaN or infinite when an element is."""

    format: str
    difference: float
    largest: float

    @property
    def finite(self) -> bool:
        """True when all elements of both are finite and none of the differences overflows."""
        return math.isfinite(self.difference) and math.isfinite(self.largest)

    @property
    def scaled_ulp(self) -> float:
        """The largest difference in ULP of the largest element."""
        return self.difference / ulp_at(self.largest, self.format)


def screen(first: torch.Tensor, second: torch.Tensor) -> Screening:
    """Reads both tensors once; the second may be of a wider format."""
    format_ = format_of(first)
    if first.numel() == 0:
        return Screening(format_, 0.0, 0.0)
    if first.is_complex():
        first, second = torch.view_as_real(first), torch.view_as_real(second)
    ours, theirs = _flat(first, second)
    if first.is_cuda:  # one wait for the device
        low, high = torch.aminmax(torch.sub(ours, theirs))
        least, most = torch.aminmax(ours)
        return Screening(format_, *torch.stack([torch.maximum(-low, high), torch.maximum(-least, most)]).tolist())
    size = ours.numel()
    difference = largest = 0.0
    buffer = torch.empty(min(size, _CHUNK), dtype=torch.promote_types(ours.dtype, theirs.dtype))
    for at in range(0, size, _CHUNK):
        one = ours[at : at + _CHUNK] if size > _CHUNK else ours
        other = theirs[at : at + _CHUNK] if size > _CHUNK else theirs
        out = torch.sub(one, other, out=buffer if one.numel() == buffer.numel() else buffer[: one.numel()])
        difference = _larger(difference, out)
        largest = _larger(largest, one)
    return Screening(format_, difference, largest)


def _larger(so_far: float, values: torch.Tensor) -> float:
    """The larger of a number and the largest magnitude; NaN once there is one."""
    low, high = torch.aminmax(values)
    found = max(-low.item(), high.item())
    return found if found > so_far or found != found else so_far


def _flat(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as vectors in one order, copied only where their memory is not dense or differently ordered."""
    if first.is_contiguous() and second.is_contiguous():
        return first.view(-1), second.view(-1)
    if first.stride() == second.stride() and _is_dense(first):
        size = first.numel()
        return first.as_strided((size,), (1,)), second.as_strided((size,), (1,))
    return first.reshape(-1), second.reshape(-1)


def _is_dense(tensor: torch.Tensor) -> bool:
    """True when the elements fill their memory without gaps, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def ulp_at(value: float, format_: str) -> float:
    """ULP of a format at a number (``precision.ulp.ulp_of`` for one Python float)."""
    shape = FORMATS[format_]
    if value == 0 or not math.isfinite(value):
        exponent = shape.emin if value == 0 else shape.emax
    else:
        exponent = min(max(math.frexp(value)[1] - 1, shape.emin), shape.emax)
    return math.ldexp(1.0, exponent - shape.precision + 1)
