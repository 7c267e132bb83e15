"""How far the results of two runs are from each other: in relative error, in ULP, and in kind.

:func:`compare` says everything, in float64, a chunk at a time. :func:`quick_relative_error` and :func:`quick_errors`
say in a few passes over memory that there is nothing to tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from opscanner.errors import UsageError
from opscanner.precision.formats import FORMATS, is_floating, part_format
from opscanner.precision.layout import BIAS, STORED_BITS
from opscanner.precision.relative import FUMI_TOLERANCE, absolute_tolerance

__all__ = ["FUMI_TOLERANCE", "Comparison", "QuickErrors", "absolute_tolerance", "compare", "format_of", "quick_errors"]
__all__ += ["quick_relative_error"]

#: Elements at a time: a handful of buffers of this length stay in a core's second-level cache.
CHUNK = 1 << 15
CHUNK_BYTES = 1 << 18
CHUNK_OF_DEVICE = 1 << 24
EXPONENT_BITS = 0x7FF << STORED_BITS
NAN = math.nan
SMALLEST = math.ulp(0.0)

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_PLAIN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True)
class Comparison:
    """What two results differ by, the second being the reference.

    Figures are over pairs of finite numbers; where there is none they are 0. A complex number is two elements.

    Parameters
    ----------
    format : str
        The format under test, in whose ULP is counted.
    max_relative_error : float
        Largest ``|a - b| / |a + b|`` over the elements of which the smaller magnitude exceeds the format's absolute
        tolerance (:data:`FUMI_TOLERANCE`): FuMi's metric. A lower bound of what any input can bring about. Infinity
        where ``a = -b``.
    max_relative_to_reference : float
        Largest ``|a - b| / |b|`` over the same elements.
    max_ulp : float
        Largest ``|a - b|`` in ULP of the format at b, as :mod:`opscanner.precision.ulp` defines it.
    max_scaled_ulp : float
        Largest ``|a - b|`` in ULP of the format at the largest finite ``|b|``: what remains of errors next to zero.
    over : int
        Elements whose relative error is not at most the tolerance, differences in kind among them.
    worst_index : tuple of int
        The first element that differs in kind; else that of the largest relative error; where that is 0, that of the
        largest difference. Empty for scalars, and for nothing to compare.
    worst : tuple of float
        The two values there.
    nan_mismatches : int
        Elements that are NaN in one result alone.
    infinity_mismatches : int
        Elements that are infinite in one result alone, the other being a number, or infinities of opposite sign.
    """

    format: str
    elements: int
    max_relative_error: float
    max_relative_to_reference: float
    max_ulp: float
    max_scaled_ulp: float
    over: int
    worst_index: tuple[int, ...]
    worst: tuple[float, float]
    nan_mismatches: int
    infinity_mismatches: int


@dataclass(frozen=True)
class QuickErrors:
    """What a few passes over memory tell.

    NaN in all where any element of either result is no finite number, and where a difference exceeds the format.

    Parameters
    ----------
    relative : float
        At least FuMi's largest relative error, and next to it where it is small; infinity where it may exceed 1/2.
    absolute : float
        Largest ``|a - b|``.
    largest : float
        Largest ``|b|``.
    """

    relative: float
    absolute: float
    largest: float


def format_of(tensor: Any) -> str:
    """The name of a tensor's format, as the rest of opscanner spells it."""
    return str(tensor.dtype).removeprefix("torch.")


def compare(first: Any, second: Any, format_: str | None = None, *, tolerance: float | None = None) -> Comparison:
    """All that is to be said about the difference of two tensors of one shape.

    Parameters
    ----------
    first, second : torch.Tensor
        The result under test, and what it is held against: of the same format or a wider one; integers count as
        numbers with an ULP of 1. Temporaries are a few chunks of float64.
    format_ : str, optional
        The format under test, by default that of ``first``.
    tolerance : float, optional
        For the relative error, by default the format's absolute tolerance as well.

    >>> found = compare(torch.tensor([1.0, 0.0]), torch.tensor([3.0, 1e-9]))
    >>> found.max_relative_error, found.max_relative_to_reference, found.worst_index, found.over
    (0.5, 0.6666666666666666, (0,), 1)
    """
    name = part_format(format_of(first) if format_ is None else format_)
    floor = absolute_tolerance(name)
    tally = _Tally(name, floor, floor if tolerance is None else tolerance)
    flat_first, flat_second, shape = _as_flat(first, second)
    size = flat_first.numel()
    chunk = CHUNK if flat_first.device.type == "cpu" else CHUNK_OF_DEVICE
    for start in range(0, size, chunk):
        part = slice(start, min(start + chunk, size))
        tally.add(flat_first[part].to(torch.float64), flat_second[part].to(torch.float64), start)
    place, values = tally.worst()
    index = _unraveled(place, shape) if place >= 0 else ()
    return Comparison(
        format=name,
        elements=size,
        max_relative_error=tally.relative,
        max_relative_to_reference=tally.to_reference,
        max_ulp=tally.ulp,
        max_scaled_ulp=tally.scaled_ulp(),
        over=tally.over,
        worst_index=index[: first.dim()],
        worst=values,
        nan_mismatches=tally.nan_mismatches,
        infinity_mismatches=tally.infinity_mismatches,
    )


def _as_flat(first: Any, second: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """Two tensors as rows of real numbers, and the shape that indices are in."""
    if first.shape != second.shape:
        raise UsageError(f"results differ in shape: {tuple(first.shape)} and {tuple(second.shape)}")
    first, second = first.detach(), second.detach()
    if first.device != second.device:
        second = second.to(first.device)
    if first.device.type == "mps":
        # It has no float64.
        first, second = first.cpu(), second.cpu()
    if first.is_complex() or second.is_complex():
        first, second = (one if one.is_complex() else one.to(torch.complex128) for one in (first, second))
        first, second = torch.view_as_real(first.resolve_conj()), torch.view_as_real(second.resolve_conj())
    return first.reshape(-1), second.reshape(-1), tuple(first.shape)


class _Tally:
    """What is counted a chunk at a time."""

    def __init__(self, format_: str, floor: float, tolerance: float) -> None:
        self.floor, self.tolerance = floor, tolerance
        self.layout = FORMATS[format_] if is_floating(format_) and format_ in FORMATS else None
        self.relative = self.to_reference = self.ulp = self.absolute = self.largest = 0.0
        self.over = self.nan_mismatches = self.infinity_mismatches = 0
        self._mismatch: tuple[int, tuple[float, float]] | None = None
        self._by_relative: tuple[int, tuple[float, float]] | None = None
        self._by_absolute: tuple[int, tuple[float, float]] | None = None

    def add(self, first: Any, second: Any, start: int) -> None:
        """Add one chunk of float64, which begins at element ``start``."""
        difference = (first - second).abs_()
        if not math.isfinite(difference.sum().item()):
            first, second, difference = self._without_specials(first, second, difference, start)
        magnitude = second.abs()
        self.largest = max(self.largest, magnitude.max().item())
        worst = difference.max().item()
        if worst > self.absolute or self._by_absolute is None:
            self.absolute, self._by_absolute = worst, _place(difference, worst, first, second, start)
        if worst == 0.0:
            return
        self.ulp = max(self.ulp, difference.div(self._units(magnitude)).max().item())
        # In place, where comparisons of floats are vectorised and where() is not needed: 1 for what is counted.
        counted = torch.minimum(first.abs(), magnitude).gt_(self.floor)
        difference.mul_(counted)
        # Zero by zero is no error.
        relative = (first + second).abs_().clamp_(min=SMALLEST)
        torch.div(difference, relative, out=relative)
        worst = relative.max().item()
        if worst > self.relative:
            self.relative, self._by_relative = worst, _place(relative, worst, first, second, start)
        if not worst <= self.tolerance:
            self.over += int(relative.gt_(self.tolerance).sum().item())
        worst = difference.div_(magnitude.clamp_(min=SMALLEST)).max().item()
        self.to_reference = max(self.to_reference, worst)

    def _without_specials(self, first: Any, second: Any, difference: Any, start: int) -> tuple[Any, Any, Any]:
        """Count differences in kind, and put 0 on both sides wherever one is no finite number."""
        nan_first, nan_second = first.isnan(), second.isnan()
        nan = nan_first != nan_second
        infinity = (first.isinf() | second.isinf()) & ~(nan_first | nan_second) & (first != second)
        self.nan_mismatches += int(nan.sum())
        self.infinity_mismatches += int(infinity.sum())
        apart = (nan | infinity).nonzero()
        self.over += len(apart)
        if len(apart) and self._mismatch is None:
            at = apart[0, 0]
            self._mismatch = start + int(at), (first[at].item(), second[at].item())
        finite = first.isfinite() & second.isfinite()
        first, second = torch.where(finite, first, 0.0), torch.where(finite, second, 0.0)
        # Differences and sums of the largest float64 exceed it: bounded, they are the largest.
        return first, second, torch.where(finite, difference, 0.0).clamp_(max=torch.finfo(torch.float64).max)

    def _units(self, magnitude: Any) -> Any:
        """The ULP of the format at each magnitude; 1 for integers."""
        if self.layout is None:
            return torch.ones_like(magnitude)
        bits = magnitude.view(torch.int64) & EXPONENT_BITS
        bits.clamp_((self.layout.emin + BIAS) << STORED_BITS, (self.layout.emax + BIAS) << STORED_BITS)
        return bits.view(torch.float64).mul(2.0 ** (1 - self.layout.precision))

    def scaled_ulp(self) -> float:
        """The largest difference in ULP of the largest reference."""
        if self.layout is None:
            return self.absolute
        exponent = min(max(math.frexp(self.largest)[1] - 1, self.layout.emin), self.layout.emax)
        return self.absolute / math.ldexp(1.0, exponent - self.layout.precision + 1)

    def worst(self) -> tuple[int, tuple[float, float]]:
        """Where the worst element lies among all, and its two values; -1 and NaN for no element."""
        return self._mismatch or self._by_relative or self._by_absolute or (-1, (NAN, NAN))


def _unraveled(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element by its place in the order of rows; of a part of a complex number, that of the number."""
    index = []
    for length in reversed(shape):
        place, at = divmod(place, length)
        index.append(at)
    return tuple(reversed(index))


def _place(values: Any, worst: float, first: Any, second: Any, start: int) -> tuple[int, tuple[float, float]]:
    """The first place of a value, counted from ``start``, and the two results there."""
    at = int((values == worst).nonzero()[0, 0])
    return start + at, (first[at].item(), second[at].item())


def quick_relative_error(first: Any, second: Any) -> float:
    """A figure not below FuMi's largest relative error: where it is at most the tolerance, so is the error.

    See :class:`QuickErrors`; NaN, which is at most nothing, asks for :func:`compare`.
    """
    return quick_errors(first, second).relative


def quick_errors(first: Any, second: Any) -> QuickErrors:
    """What can be said in a few passes; see :class:`QuickErrors`.

    One pass over both tensors that reads memory, and eight over chunks that are in cache by then. All in the format
    of the tensors, with its roundings allowed for; where the two differ in format, in the wider one.
    """
    if first.shape != second.shape:
        raise UsageError(f"results differ in shape: {tuple(first.shape)} and {tuple(second.shape)}")
    floor = absolute_tolerance(format_of(first))
    first, second = _alike(first.detach(), second.detach())
    if first.numel() == 0:
        return QuickErrors(0.0, 0.0, 0.0)
    integer = _INTEGERS[second.element_size()]
    limits = torch.finfo(second.dtype)
    infinity = _encoding(math.inf, second.dtype)
    chunk = CHUNK_BYTES // second.element_size() if second.device.type == "cpu" else CHUNK_OF_DEVICE
    if second.numel() <= chunk:
        figures = _largest_of_chunk(first, second, integer, _encoding(floor, second.dtype), infinity)
    else:
        figures = [0, 0, 0]
        for one, other in zip(_in_order(first, second, chunk), _in_order(second, first, chunk), strict=True):
            of_chunk = _largest_of_chunk(one, other, integer, _encoding(floor, second.dtype), infinity)
            figures = [max(pair) for pair in zip(figures, of_chunk, strict=True)]
            if figures[0] >= infinity or figures[1] >= infinity:
                break
    difference, largest, ratio = torch.tensor(figures, dtype=integer).view(second.dtype).tolist()
    if figures[0] >= infinity or figures[1] >= infinity:
        return QuickErrors(NAN, NAN, NAN)
    # Two roundings up to here, and what underflows.
    ratio = ratio * (1 + 2 * limits.eps) + limits.smallest_normal
    return QuickErrors(ratio / (2 - ratio) if ratio < 2 / 3 else math.inf, difference, largest)


def _alike(first: Any, second: Any) -> tuple[Any, Any]:
    """Both as real tensors of one format that arithmetic knows, on one device."""
    if first.is_complex() or second.is_complex():
        first, second = (one if one.is_complex() else one.to(torch.complex128) for one in (first, second))
        first, second = torch.view_as_real(first.resolve_conj()), torch.view_as_real(second.resolve_conj())
    if first.dtype != second.dtype or first.dtype not in _PLAIN:
        formats = {first.dtype, second.dtype}
        wide = torch.float32 if all(one.is_floating_point and one.itemsize < 4 for one in formats) else torch.float64
        wide = torch.float32 if formats <= {torch.float32, torch.float16, torch.bfloat16} else wide
        first, second = first.to(wide), second.to(wide)
    if first.device != second.device:
        second = second.to(first.device)
    return first, second


def _in_order(tensor: Any, other: Any, chunk: int) -> Any:
    """The elements of a tensor in chunks, in an order that a tensor of the same strides shares."""
    if tensor.is_contiguous():
        return tensor.view(-1).split(chunk)
    dense = tensor.stride() == other.stride() and tensor.is_contiguous(memory_format=torch.channels_last)
    if dense:
        return tensor.permute(0, 2, 3, 1).reshape(-1).split(chunk)
    return tensor.reshape(-1).split(chunk)


def _largest_of_chunk(first: Any, second: Any, integer: Any, floor: int, infinity: int) -> list[int]:
    """The encodings of the largest difference, reference and ratio of the two; those of NaN are the largest of all.

    Magnitudes are compared as integers, whose maximum takes a third of the time of that of floats. References up to
    the floor are taken for infinite, so that their ratio is 0.
    """
    magnitude = second.abs()
    encoded = magnitude.view(integer)
    largest = encoded.max()
    torch.threshold_(encoded, floor, infinity)
    difference = torch.sub(first, second).abs_()
    encoded = difference.view(integer)
    farthest = encoded.max()
    difference.div_(magnitude)
    figures = (farthest, largest, encoded.max())
    return [int(figure) for figure in figures] if second.device.type == "cpu" else torch.stack(figures).tolist()


@cache
def _encoding(value: float, dtype: Any) -> int:
    """The encoding of a positive number as an integer."""
    return int(torch.tensor(value, dtype=dtype).view(_INTEGERS[dtype.itemsize]).item())
