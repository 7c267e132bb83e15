"""A batch: the inputs of one call, where they came from, and how they are to lie in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

#: How a runner lays out the arrays of a batch; values and shapes are those of the batch in every one.
#: ``strided``: every second element of a longer array; ``transposed``: the last two axes swapped in memory;
#: ``offset``: begins one element after an aligned address; ``channels_last``: axis 1 innermost in memory;
#: ``zero_dim``: arrays without axes.
LAYOUTS = ("contiguous", "strided", "transposed", "offset", "channels_last", "zero_dim")


@dataclass(frozen=True)
class Batch:
    """The inputs of one call of an operator.

    Parameters
    ----------
    strategy : str
        Id in :data:`opscanner.dynamic.inputs.STRATEGIES`.
    inputs : dict of str to ndarray
        All inputs of the operator in its order. Floats are float64 arrays that hold values of the format (complex:
        their parts); integers and booleans have the type that the operator's row states.
    layout : str
        One of :data:`LAYOUTS`.
    why : str
        What the values are there to show, for people.
    seed : int
        The seed that :func:`~opscanner.dynamic.inputs.generate` was given.
    number : int
        Position among the batches of its strategy: with operator, format, strategy and seed it names the batch.
    """

    strategy: str
    inputs: dict[str, np.ndarray] = field(repr=False)
    layout: str
    why: str
    seed: int
    number: int = 0

    @property
    def elements(self) -> int:
        """Values in all inputs together."""
        return sum(array.size for array in self.inputs.values())

    def digest(self) -> str:
        """The same for equal inputs and layouts: 16 hexadecimal digits."""
        found = hashlib.sha256(self.layout.encode())
        for name, array in self.inputs.items():
            found.update(f"{name}{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:16]


@dataclass(frozen=True)
class Size:
    """How much a run may cost.

    Parameters
    ----------
    many : int
        Terms of a sum that outgrow a 16-bit accumulator: float16 counts stall at 2048, bfloat16's at 256.
    past : int
        Terms past 65504, float16's largest value; 0 leaves such sums out.
    elements : int
        The most values in one input.
    samples : int
        Random values of an elementwise operator.
    exponents : int
        The most exponents of a format that are paired with each other.
    probes : int
        Calls with a single value.
    tails : tuple of int
        Sizes around the widths of vector units.
    """

    many: int
    past: int
    elements: int
    samples: int
    exponents: int
    probes: int
    tails: tuple[int, ...]


SIZES: dict[str, Size] = {
    "small": Size(640, 0, 1 << 16, 2_000, 12, 2, (1, 3, 17)),
    "default": Size(4_096, 70_000, 1 << 19, 20_000, 40, 4, (1, 3, 8, 17, 33, 67)),
    "large": Size(16_384, 1 << 18, 1 << 22, 200_000, 160, 12, tuple(range(1, 68))),
}
