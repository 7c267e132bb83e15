"""Coverage of a format's exponent range: which (sign, exponent) cells inputs have fed.

A cell is an exponent of normal numbers, the subnormals, zero, or infinity, with a sign; NaN is one more.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Mapping

import numpy as np

from opscanner.operators.catalog import Operator
from opscanner.precision.layout import Overflow, layout_of

#: float64's bits above its mantissa: a sign and 11 bits of exponent, its bias, and what stands for NaN beside them.
_PATTERNS, _BIAS, _NAN = 1 << 12, 1023, 1 << 12
_SPECIAL = 0x7FF


class Coverage:
    """What the float inputs of one operator were fed in one format, by any key."""

    def __init__(self, operator: Operator, format_: str) -> None:
        self._names = tuple(item.name for item in operator.float_inputs)
        self._format = format_
        self._fed: dict[Hashable, dict[str, np.ndarray]] = {}

    def feed(self, key: Hashable, inputs: Mapping[str, np.ndarray]) -> None:
        """Notes the inputs of one call under a key."""
        fed = self._fed.setdefault(key, {})
        for name in self._names:
            cells = cells_of(inputs[name], self._format)
            fed[name] = fed[name] | cells if name in fed else cells

    def of(self, keys: Iterable[Hashable]) -> dict[str, float]:
        """For each float input the share of the format's cells that were fed under any of the keys."""
        shares: dict[str, float] = {}
        found = [self._fed[key] for key in keys if key in self._fed]
        for name in self._names if found else ():
            fed = np.logical_or.reduce([one[name] for one in found])
            shares[name] = float(fed.sum() / fed.size)
        return shares


def cells_of(values: np.ndarray, format_: str) -> np.ndarray:
    """Which cells of a format its values, held as float64, lie in: booleans, those that the format has alone."""
    flat = np.ascontiguousarray(values, np.float64).ravel()
    patterns = np.bincount((flat.view(np.uint64) >> np.uint64(52)).astype(np.int64), minlength=_PATTERNS) > 0
    special = [_SPECIAL, _SPECIAL | 1 << 11]
    nan = False
    if patterns[special].any():
        nan = bool(np.isnan(flat).any())
        patterns[special] = [bool((flat == np.inf).any()), bool((flat == -np.inf).any())]
    return _cells(patterns, nan, format_)


def _cells(patterns: np.ndarray, nan: bool, format_: str) -> np.ndarray:
    cell_of, count = _table(format_)
    fed: np.ndarray = np.zeros(count, bool)
    found = cell_of[np.append(patterns, nan)]
    fed[found[found >= 0]] = True
    return fed


@functools.cache
def _table(format_: str) -> tuple[np.ndarray, int]:
    """The cell of each pattern of float64's upper bits and of NaN, -1 for those that the format has not; how many."""
    layout = layout_of(format_)
    exponent: np.ndarray = np.arange(_PATTERNS) % (1 << 11) - _BIAS
    infinite = exponent == _SPECIAL - _BIAS
    # Zero, the subnormals, the normal numbers, infinity: two cells each.
    kind = np.maximum(exponent - layout.emin + 2, 1)
    kind[exponent == -_BIAS] = 0
    kind[infinite] = layout.emax - layout.emin + 3
    held = (exponent <= layout.emax) | (infinite & (layout.overflow is Overflow.INFINITY))
    numbers = np.where(held, 2 * kind + (np.arange(_PATTERNS) >> 11), -1)
    return np.append(numbers, numbers.max() + 1), int(numbers.max()) + 2
