"""Kinds of cause, and what a check is given to tell one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

Arrays = dict[str, np.ndarray]


class Kind(Enum):
    """Kinds of cause; the values stand in tables and reports."""

    LAYOUT = "another path for this memory layout"
    SIZE = "another path for this size"
    ACCUMULATION = "accumulates in the storage format"
    FORMULA = "formula rounded to the storage format at each step"
    RANGE = "an intermediate leaves the range of the storage format"
    FLUSHED = "flushes subnormals"
    CANCELLATION = "cancels what was rounded to the storage format"
    WRONG_FORMULA = "as wrong in the next wider format"
    ROUNDED_INSIDE = "something inside is rounded to the storage format"
    COMPOSED = "rounds between the operators that it is made of"
    END_OF_RANGE = "overflows at the end of the range of float32"


@dataclass(frozen=True)
class Cause:
    """A kind, and what was seen.

    Parameters
    ----------
    evidence : str
        The check and its outcome, a sentence.
    formula, remedy : str
        What is computed step by step, and the function that does not lose; both empty unless it is known.
    """

    kind: Kind
    evidence: str
    formula: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Subject:
    """A fault's smallest input and the ways to try others.

    Parameters
    ----------
    index : int
        Flat position of the wrong element in its output.
    exact, expected, got : float
        The reference there, the same rounded to ``format_``, and the result.
    floats : tuple of str
        The inputs that are free values of the format.
    run : callable
        The output that fails, of other inputs, in a format and layout; None where it does not run.
    reference : callable
        The exact output of other inputs.
    kernels : tuple of str
        Operators of the framework that ran for it.
    """

    inputs: Arrays
    format_: str
    layout: str
    elementwise: bool
    index: int
    exact: float
    expected: float
    got: float
    upcast_fails: bool
    floats: tuple[str, ...]
    run: Callable[[Mapping[str, np.ndarray], str, str], np.ndarray | None]
    reference: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    kernels: tuple[str, ...] = ()


def same(first: float, second: float) -> bool:
    """Equal, NaN too; zeros of both signs are equal."""
    return first == second or (np.isnan(first) and np.isnan(second))
