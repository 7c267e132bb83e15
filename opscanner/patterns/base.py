"""What a rule is, and what it says.

A rule is a module of ``opscanner.patterns.rules`` with a docstring (its manual page), a ``RULE``, and ``EXAMPLES`` and
``COUNTEREXAMPLES``: CUDA or C++ text in which a line that the rule must report ends in ``// expect: ID``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from opscanner.patterns.subjects import CastSubject, OperationSubject


class Confidence(Enum):
    """How sure a rule is; HIGH when the graph alone shows it."""

    HIGH = "high"  #: the flow of values in the graph shows it
    MEDIUM = "medium"  #: the flow allows it, and names or unseen callees speak for it
    LOW = "low"  #: names alone speak for it, or its effect is at most one rounding

    @property
    def rank(self) -> int:
        """0 for the surest."""
        return _RANKS[self]


_RANKS = {Confidence.HIGH: 0, Confidence.MEDIUM: 1, Confidence.LOW: 2}


class Verdict(NamedTuple):
    """A rule's yes.

    Parameters
    ----------
    confidence : Confidence
    chain : tuple of int
        The nodes that the rule followed, in the order the value flows.
    message : str
        What is seen, in one sentence without the place.
    """

    confidence: Confidence
    chain: tuple[int, ...]
    message: str


@dataclass(frozen=True)
class CastRule:
    """A rule that judges casts.

    Parameters
    ----------
    id : str
        Stable: databases and reports keep it.
    title : str
        What is seen, in a few words.
    precedence : int
        Of several findings of a cast the one with the smallest number gives the cast its category.
    judge : callable
        Verdict on a cast, or None.
    """

    id: str
    title: str
    precedence: int
    judge: Callable[[CastSubject], Verdict | None]
    #: It judges casts in helpers that only cast, too; what is done with the value is then its callers' business.
    helpers: bool = False


@dataclass(frozen=True)
class OperationRule:
    """A rule that judges operations; fields as for :class:`CastRule`."""

    id: str
    title: str
    precedence: int
    judge: Callable[[OperationSubject], Verdict | None]


AnyRule = CastRule | OperationRule


class Finding(NamedTuple):
    """An occurrence of a pattern at a site. ``primary``: it gives the site its category."""

    pattern: str
    node: int
    device: bool
    primary: bool
    verdict: Verdict
