"""What a replay found: rows that say it, and nothing that computes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opscanner.dynamic.running.compare import Comparison
from opscanner.dynamic.running.judge import Judgement
from opscanner.dynamic.running.named_call import NamedCall
from opscanner.dynamic.running.true_error import TrueError


@dataclass(frozen=True)
class Beside:
    """A result held against another one; ``comparison`` is None where the other was not to be had, and why.

    Parameters
    ----------
    against : str
        What the other result is of, in words.
    output : int
        Which of the outputs that are of floating point.
    """

    against: str
    output: int
    comparison: Comparison | None
    why_not: str = ""


@dataclass(frozen=True)
class Smallest:
    """The smallest inputs that still bring the alert.

    Parameters
    ----------
    message : str
        What the watch's check says of them.
    got : float
        The element of the result that is worst, at ``index``.
    expected : float
        That of the exact result, or of the float64 run.
    """

    call: NamedCall
    message: str
    output: int
    format: str
    index: tuple[int, ...]
    got: float
    expected: float
    truth: TrueError | None


@dataclass
class Replayed:
    """What a replay found.

    Parameters
    ----------
    seen : dict
        What the file says of the watch: site, kind of alert, message, mode, versions.
    same_bits : bool or None
        The result has the bits that the watch saw; None where the file does not say.
    draws_random : bool
        The operator drew random numbers, with the random state of the file if it has one.
    alert : str
        What the watch's check says now; empty when it says nothing, or cannot be made.
    judgement : Judgement or None
        Of the first output beside its float64 run; None where there is no wider run.
    truths : list of TrueError
        For each output that has a reference; empty otherwise, and ``why_no_truth`` says why.
    """

    path: str
    operator: str
    device: str
    inputs: list[str]
    seen: dict[str, Any]
    same_bits: bool | None = None
    draws_random: bool = False
    alert: str = ""
    notes: list[str] = field(default_factory=list)
    beside: list[Beside] = field(default_factory=list)
    judgement: Judgement | None = None
    truths: list[TrueError] = field(default_factory=list)
    why_no_truth: str = ""
    smallest: Smallest | None = None
    why_not_smaller: str = ""
    conclusion: str = ""
