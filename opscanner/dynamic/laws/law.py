"""What a law is made of: calls, claims over their results, and the law that makes claims for an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from opscanner.dynamic.laws.subject import Subject

Arrays = dict[str, np.ndarray]
#: Laws whose second call has the first one's arrays.
_SAME_ARRAYS = frozenset({"repeated", "strided", "transposed", "offset", "channels_last", "compiled", "gpu"})
#: One array an output, float64 where floating; None for an output that a claim says nothing of.
Outputs = Sequence["np.ndarray | None"]


@dataclass(frozen=True, eq=False)
class Call:
    """One call of the operator; two claims that hold the same object share its result.

    Parameters
    ----------
    device : str
        Empty: the device of the plan.
    compiled : bool
        Through the framework's compiler instead of operator by operator.
    """

    inputs: Arrays = field(repr=False)
    layout: str = "contiguous"
    device: str = ""
    compiled: bool = False


@dataclass(frozen=True, eq=False)
class Claim:
    """One application of a law: what a second call must give, from what the first gave.

    Parameters
    ----------
    what : str
        What was done to the inputs, for people.
    first : tuple of Call
        Usually one; the parts, for laws over parts.
    second : callable
        The second call, from the first one's outputs; the results of several are joined along their last axis.
    expect : callable
        The second call's outputs as they must be, from the first one's.
    exact : bool
        True when two careful implementations cannot differ at all: nothing is rounded but the result, and it once.
    slack_ulp : float
        How far the expectation itself may be off because it is made of rounded results, in ULP of the largest value
        in it; 0 where the expectation is a value that the format holds.
    """

    what: str
    first: tuple[Call, ...]
    second: Callable[[Sequence[Outputs]], tuple[Call, ...]]
    expect: Callable[[Sequence[Outputs]], Outputs]
    exact: bool = False
    slack_ulp: float = 0.0


@dataclass(frozen=True)
class Law:
    """A law that results obey whatever they are: no oracle is needed to see it broken.

    Parameters
    ----------
    says : str
        The law in one sentence.
    applies : str
        To which operators, and how that is known.
    broken : str
        What it means when an operator breaks it.
    claims : callable
        Its applications to an operator in a format; none where it does not apply.
    frameworks : tuple of str
        Where the two calls differ at all; empty for every framework.
    asked : bool
        True for laws that are checked only when they are asked for: slow, or in need of a compiler.
    """

    id: str
    says: str
    applies: str
    broken: str
    claims: Callable[[Subject], Iterator[Claim]]
    frameworks: tuple[str, ...] = ()
    asked: bool = False

    @property
    def keeps_arrays(self) -> bool:
        """True when the second call's arrays are the first one's: where it does not run, that is a result."""
        return self.id in _SAME_ARRAYS


def same(ran: Sequence[Outputs]) -> Outputs:
    """The first call's outputs as they are."""
    return ran[0]


def then(*calls: Call) -> Callable[[Sequence[Outputs]], tuple[Call, ...]]:
    """A second call that does not depend on the first one's results."""
    return lambda _: calls
