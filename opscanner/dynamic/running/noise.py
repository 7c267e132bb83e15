"""Tensors moved by one step of their own format, signs at random: what rounding alone could have made of them.

Nothing here draws from torch's global generator: signs are made once for each format and device, by a generator of
their own, and reused from changing places.
"""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Any

import torch

from opscanner.errors import UsageError
from opscanner.precision.relative import FUMI_NOISE

KINDS = ("ulp", "fumi")

#: Bytes moved at a time, so that on a CPU source, result and signs stay in the second-level cache; and signs kept.
CHUNK_BYTES = 1 << 18
SIGNS = 1 << 18
#: Elements that :meth:`NoiseSource.perturbed_quickly` takes at a time on a CPU.
CHUNK_OF_SIGNS = 1 << 17
CHUNK_BYTES_OF_DEVICE = 1 << 26
SIGNS_OF_DEVICE = 1 << 25

_PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
#: x + c * x with c this share of the format's epsilon adds 0.74 to 1.48 ULP, which round to one step.
STEP = 0.74
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PLAIN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_NARROW = tuple(
    getattr(torch, name)
    for name in ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz")
    if hasattr(torch, name)
)


class NoiseSource:
    """Perturbed tensors, the same for the same seed and the same sequence of calls.

    Parameters
    ----------
    seed : int
        Of the signs.
    kind : str
        ``"ulp"``: by ``amount`` steps of the format, up or down at random. ``"fumi"``: by the absolute constants of
        FuMi (doi 10.1145/3734866), upwards, and only elements above the square root of the constant. Most additions
        of that kind are lost in rounding: in float32 those to elements of 0.25 and more.
    amount : float
        Steps, a whole number, for ``"ulp"``; a factor to the constants for ``"fumi"``.
    """

    def __init__(self, seed: int = 0, kind: str = "ulp", amount: float = 1.0) -> None:
        if kind not in KINDS:
            raise UsageError(f"no kind of noise is named {kind!r}", f"one of {', '.join(KINDS)}")
        if kind == "ulp" and not (amount >= 1 and float(amount).is_integer()):
            raise UsageError(f"noise of {amount} ULP: numbers lie whole steps apart", "1, 2, 3 ...")
        if not 0 < amount < math.inf:
            raise UsageError(f"noise of amount {amount} moves nothing anywhere", "a positive number")
        self.seed, self.kind, self.amount = seed, kind, amount
        self._places = random.Random(seed)  # noqa: S311 - for reproducible signs, not for secrets
        self._signs: dict[tuple[Any, Any], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Signs are made again where they are needed."""
        return self.__dict__ | {"_signs": {}}

    def perturbs(self, dtype: Any) -> bool:
        """True for the formats whose elements are moved; all others stay as they are."""
        part = _PARTS.get(dtype, dtype)
        return part in _PLAIN or (self.kind == "ulp" and part in _NARROW)

    def perturbed(self, tensor: Any) -> Any:
        """A new tensor of the same strides where they are dense, without a gradient's history.

        With ``"ulp"``, each finite element is moved by exactly ``amount`` representable values: one ULP, and downwards
        from a power of two half of one. The smallest subnormal number may so become zero. Zeros of either sign,
        infinities, NaN, integers and formats without a rule stay; so that nothing turns into infinity, the largest
        number of the format stays too. With an amount of more than one, and in float8, an element that would leave
        the range, or pass zero, moves the other way.

        Passes over memory: one that reads and writes, and three over chunks that are in cache by then. In a chunk
        with an infinity, NaN or the largest number, five.
        """
        source = tensor.detach()
        if not self.perturbs(source.dtype):
            return source.clone()
        if source.is_complex():
            parts = torch.view_as_real(source.resolve_conj())
            return torch.view_as_complex(self.perturbed(parts).contiguous())
        if source.is_neg():
            source = source.resolve_neg()
        if self.kind == "fumi":
            constant = FUMI_NOISE[str(source.dtype).removeprefix("torch.")] * self.amount
            noise = torch.tensor(constant, dtype=source.dtype, device=source.device)
            return torch.where(source > constant**0.5, source + noise, source)
        if source.layout is not torch.strided:
            return source.clone()
        move = _one_step if self.amount == 1 and source.dtype in _PLAIN else self._steps
        result = torch.empty_like(source)
        if result.stride() != source.stride():
            source = source.clone(memory_format=torch.contiguous_format)
            result = torch.empty_like(source)
        size, integer = source.numel(), _INTEGERS[source.element_size()]
        on_cpu = source.device.type == "cpu"
        chunk = (CHUNK_BYTES if on_cpu else CHUNK_BYTES_OF_DEVICE) // source.element_size()
        if size <= chunk:
            signs, place = self._signs_for(integer, source.device, size)
            move(source, signs.as_strided(source.shape, source.stride(), place), result)
            return result
        for part, moved in zip(_flat(source).split(chunk), _flat(result).split(chunk), strict=True):
            signs, place = self._signs_for(integer, source.device, len(part))
            move(part, signs.as_strided(part.shape, (1,), place), moved)
        return result

    def perturbed_quickly(self, tensor: Any) -> Any:
        """As :meth:`perturbed`, in one pass over memory, for tensors in which there is no infinity.

        Adds 0.74 of the format's epsilon, up or down, to each element in proportion to it: 0.74 to 1.48 ULP, which
        round to the next number (from a power of two downwards, to the second next). An infinity may turn into NaN,
        as the largest number may into an infinity: ask for :meth:`perturbed` where a result is not finite. -0 may turn
        into 0, and subnormal numbers stay.
        """
        source = tensor.detach()
        if self.kind != "ulp" or self.amount != 1 or source.dtype not in _PLAIN or source.is_neg():
            return self.perturbed(tensor)
        result = torch.empty_like(source)
        if result.stride() != source.stride():  # not dense
            return self.perturbed(tensor)
        flat, flat_result, size = _flat(source), _flat(result), source.numel()
        value = STEP * torch.finfo(source.dtype).eps
        chunk = CHUNK_OF_SIGNS if source.device.type == "cpu" else SIGNS_OF_DEVICE // 2
        for start in range(0, size, chunk):
            count = min(chunk, size - start)
            signs, place = self._signs_for(source.dtype, source.device, count)
            part = flat if count == size else flat[start : start + count]
            out = flat_result if count == size else flat_result[start : start + count]
            torch.addcmul(part, part, signs[place : place + count], value=value, out=out)
        return result

    def _signs_for(self, dtype: Any, device: Any, size: int) -> tuple[Any, int]:
        """Signs of one format on one device, and where to start in them."""
        signs = self._signs.get((dtype, device))
        if signs is None:
            number = SIGNS if device.type == "cpu" else SIGNS_OF_DEVICE
            generator = torch.Generator().manual_seed(self.seed)
            bits = torch.randint(0, 2, (number,), generator=generator, dtype=torch.int8)
            signs = self._signs[dtype, device] = (bits * 2 - 1).to(dtype).to(device)
        return signs, int(self._places.random() * (signs.numel() - size + 1))

    def _steps(self, source: Any, signs: Any, result: Any) -> None:
        """Move by any number of steps, on the encodings: a few passes more."""
        bits = source.view(_INTEGERS[source.element_size()])
        largest = _encoding_of_largest(source.dtype)
        # Steps beyond half of all positive numbers would leave the range on both sides.
        steps = min(int(self.amount), largest // 2)
        magnitude = bits & torch.iinfo(bits.dtype).max
        moves = (magnitude > 0) & (magnitude <= largest)
        down = (signs < 0) & (magnitude > steps) | (magnitude > largest - steps)
        shift = torch.where(down, -steps, steps).to(bits.dtype) * moves.to(bits.dtype)
        torch.add(bits, shift, out=result.view(bits.dtype))


def _one_step(source: Any, signs: Any, result: Any) -> None:
    """Add a sign to each encoding: that of a magnitude grows with it, one by one (IEEE 754-2019, 3.4)."""
    integer = _INTEGERS[source.element_size()]
    bits, moves = source.view(integer), result.view(integer)
    largest = _encoding_of_largest(source.dtype)
    torch.abs(source, out=result)
    # A device is not waited for.
    if source.device.type != "cpu" or source.numel() == 0 or moves.max().item() >= largest:
        torch.minimum(moves, largest - moves, out=moves)
        moves.clamp_(0, 1)
    else:
        moves.clamp_(max=1)
    torch.addcmul(bits, moves, signs, out=moves)


@cache
def _encoding_of_largest(dtype: Any) -> int:
    largest = torch.tensor(torch.finfo(dtype).max, dtype=dtype)
    return int(largest.view(_INTEGERS[largest.element_size()]).item())


def _flat(tensor: Any) -> Any:
    """The elements of a dense tensor in the order of memory, as a view."""
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
