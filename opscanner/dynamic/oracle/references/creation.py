"""Arrays made from attributes alone: each element is the exact fraction, rounded once to float64."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from opscanner.dynamic.oracle.references.arrays import Array


def arange(start: float, end: float, step: float) -> Array:
    """``start + i * step`` below ``end``."""
    first, distance = Fraction(start), Fraction(step)
    count = max(math.ceil((Fraction(end) - first) / distance), 0)
    return np.array([float(first + i * distance) for i in range(count)])


def linspace(start: float, end: float, count: int) -> Array:
    """``count`` numbers at equal distances, both ends among them."""
    first, distance = Fraction(start), Fraction(end) - Fraction(start)
    return np.array([float(first + distance * Fraction(i, max(count - 1, 1))) for i in range(count)])


def logspace(start: float, end: float, count: int, base: float) -> Array:
    """``base`` to the powers of :func:`linspace`."""
    return np.power(base, linspace(start, end, count))


def window(kind: str, count: int, periodic: bool = True) -> Array:
    """Hann, Hamming (0.54, 0.46) or Blackman (0.42, 0.5, 0.08) windows: sums of cosines."""
    weights = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08)}[kind]
    turns = [Fraction(i, count if periodic else count - 1) for i in range(count)]
    terms = [
        [(-1) ** k * weight * math.cos(2 * math.pi * float(k * turn % 1)) for k, weight in enumerate(weights)]
        for turn in turns
    ]
    return np.array([math.fsum(row) for row in terms])
