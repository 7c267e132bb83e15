"""Is a result as good as its inputs allow? The error beside what one unit in the last place of the inputs does.

A wider run of the same code is near to the exact result of that code on those inputs. How far a good implementation
may be from it is not one number: next to a zero of the result, or in the tail of a function, one ULP of the inputs
moves the result by many. So the inputs are moved by one ULP, several times, and what that does to the wider result is
the measure (a backward error in the sense of Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition,
section 1.5):

    ratio = |result - wider| / (ULP of the wider result + the largest change of the wider result)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from opscanner.dynamic.running.calls import format_of, index_at
from opscanner.dynamic.running.screen import ulp_at
from opscanner.precision.formats import FORMATS

#: Runs with moved inputs. Of a million normally distributed changes the smallest of 6 at a time is about a sixteenth
#: of the usual one.
PROBES = 6
#: Runs with moved inputs before an element alone is told of. The difference of two products may be moved by neither, by
#: chance: once in 64 in six runs, once in 16 million in these.
MOST_PROBES = 24
#: An element may be that many times as far off as the inputs explain, three bits, if it has lost half of its digits.
WORST = 8.0
#: Half of the elements may be that many times as far off, if they have lost a quarter of their digits: a bias that no
#: element shows alone. (Digits: a rotation by 256 radians in float32 is off by 256 ULP, as every such code is.)
MEDIAN = 2.0
#: Results within so many ULP are good whatever the inputs.
_FINE_ULP = 2.0


@dataclass(frozen=True)
class Judgement:
    """How far off the worst element and half of the elements are, in ULP and beside what the inputs explain.

    Parameters
    ----------
    worst, ulp : float
        Ratio and error in ULP of the element with the largest ratio, among those that lost half of their digits where
        there is one.
    lost : bool
        There is one, and a sum over the tensor can show it.
    median, median_ulp : float
        Ratio and error that half of the elements exceed.
    """

    format: str
    worst: float
    ulp: float
    lost: bool
    median: float
    median_ulp: float
    index: tuple[int, ...]
    got: float
    expected: float

    @property
    def is_good(self) -> bool:
        """False past the limits; NaN is past them."""
        return self.most_are_good and (self.worst <= WORST or not self.lost)

    @property
    def most_are_good(self) -> bool:
        """False where half of the elements are past their limit."""
        return self.median <= MEDIAN or self.median_ulp <= 2.0 ** (FORMATS[self.format].precision / 4)

    def __str__(self) -> str:
        return (
            f"{self.got:.6g} where the wider run gives {self.expected:.6g} ({self.ulp:.3g} ULP) at {list(self.index)}, "
            f"{self.worst:.3g} times what one ULP of the inputs does ({WORST:g} allowed); half of the elements are off "
            f"by {self.median_ulp:.2g} ULP and more, {self.median:.2g} times that ({MEDIAN:g} allowed)"
        )


def is_fine(max_ulp: float) -> bool:
    """True for errors that need no judgement."""
    return max_ulp <= _FINE_ULP


def judge(got: torch.Tensor, wider: torch.Tensor, again: Callable[[], torch.Tensor]) -> Judgement:
    """Holds a result against the wider one, with as many runs on moved inputs as it takes to be sure of a fault.

    Parameters
    ----------
    got, wider : torch.Tensor
        The result, and that of the same code one format wider, of one shape.
    again : callable
        The wider result of inputs moved by one ULP of their own formats, anew with each call.
    """
    format_ = format_of(got)
    ours, reference = _parts(got), _parts(wider)
    change = torch.zeros_like(reference)
    for number in range(1, MOST_PROBES + 1):
        moved = (_parts(again()) - reference).abs()
        change = torch.maximum(change, torch.nan_to_num(moved, nan=0.0, posinf=0.0))
        if number >= PROBES:
            found = _judged(ours, reference, change, format_)
            if found.is_good or not found.most_are_good:
                break
    return found


def _judged(ours: torch.Tensor, reference: torch.Tensor, change: torch.Tensor, format_: str) -> Judgement:
    unit = ulp_tensor(reference, format_)
    error = (ours - reference).abs()
    ratio = error / (unit + change)
    finite = torch.isfinite(ours) & torch.isfinite(reference)
    ratio, units = torch.where(finite, ratio, 0.0), torch.where(finite, error / unit, 0.0)
    lost = (units > 2.0 ** (FORMATS[format_].precision / 2)) & (error > _least_visible(reference, format_))
    any_lost = bool(lost.any())
    place = int((torch.where(lost, ratio, 0.0) if any_lost else ratio).reshape(-1).argmax())
    return Judgement(
        format=format_,
        worst=float(ratio.reshape(-1)[place]),
        ulp=float(units.reshape(-1)[place]),
        lost=any_lost,
        median=float(ratio.median()),
        median_ulp=float(units.median()),
        index=index_at(place, ratio.shape),
        got=float(ours.reshape(-1)[place]),
        expected=float(reference.reshape(-1)[place]),
    )


def _least_visible(reference: torch.Tensor, format_: str) -> float:
    """The error of one element that matters beside the largest: half of the digits where sums are held in that format.

    So much every code loses that rotates by angles of some thousand radians in float32. Sums of 16-bit and narrower
    formats are held in float32: there a 32nd of the largest element's ULP is seen.
    """
    finite = torch.where(torch.isfinite(reference), reference.abs(), 0.0)
    largest = ulp_at(float(finite.max()), format_) if finite.numel() else 0.0
    precision = FORMATS[format_].precision
    return largest * 2.0 ** (precision / 2) if precision > FORMATS["float16"].precision else largest / 32


def ulp_tensor(reference: torch.Tensor, format_: str) -> torch.Tensor:
    """ULP of a format at each element (``precision.ulp.ulp_of``); at infinities and NaN that of the largest numbers."""
    shape = FORMATS[format_]
    finite = torch.nan_to_num(reference, nan=torch.finfo(reference.dtype).max)
    exponent = torch.frexp(finite).exponent - 1
    exponent = torch.where(finite == 0, shape.emin, exponent).clamp(shape.emin, shape.emax)
    return torch.ldexp(torch.ones_like(reference), exponent - shape.precision + 1)


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach()
    return torch.view_as_real(plain).double() if plain.is_complex() else plain.double()
