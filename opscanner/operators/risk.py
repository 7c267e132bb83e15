"""How much of a result an operator may lose because it computes in the storage format: an estimate that can be derived.

The score is the share of the format's significand, from 0 to 1, that a computation in the storage format may lose
against one that computes in the next wider format and rounds once. It orders tests: what may lose most is run first.
It is no bound on an error: that is what the tests measure.

For a format of precision p (float16: 11, bfloat16: 8) and k operations that round in it, N. J. Higham, Accuracy and
Stability of Numerical Algorithms (2nd edition, SIAM 2002), gives

accumulation (section 4.2)
    a sum of n terms errs by up to n units roundoff. From n = 2**p terms of one size on it stalls: 2**p + 1 rounds back
    to 2**p. All p bits can be lost, for inputs of no special value: share 1.
function in a chain (sections 1.7, 1.14)
    exp(x) - 1, 1 / (1 + exp(-x)), log(1 + exp(x)): the rounded result of a function meets another operation. Where that
    cancels or absorbs, up to p bits are lost; for half of the format's exponents (those below 0, or those above) it
    does, so p / 2 bits on average over exponents. Each rounding adds as below: share (p / 2 + log2 k) / p, at most 1.
    That takes an addition after the function, or a rounding before it, whose error the function may enlarge: x log y
    is two roundings, for products and quotients neither cancel nor absorb. Roots count as arithmetic: their condition
    number is 1/2, they pass on half of an error (section 1.6).
several roundings (section 3.1)
    k roundings in a row err by up to k / 2 ULP where rounding once errs by 1/2: log2 k bits, share log2(k) / p.
composite (section 3.1)
    an operator that a framework composes of k others stores each one's result: k roundings that no kernel shows, as a
    function in a chain under the same condition, else as several roundings.
single rounding (IEEE 754-2019, 4.3, 5.4)
    one correctly rounded operation has the bits of the wide computation: share 0. (The 16-bit functions of CUDA and of
    Eigen compute in float32 and round once, so an elementary function by itself is a single rounding, too.)

A share is weighted with how sure the finding is: high 1, medium 1/2 (it is or it is not), low 1/4 (half of that again,
for an effect that the rule itself doubts).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from opscanner.graph.serving import ServingFinding, ServingNode
from opscanner.operators.pairs import is_elementary
from opscanner.operators.pipeline import Pipeline
from opscanner.precision.formats import FORMATS


class Cause(Enum):
    """Why precision may be lost, the worst first."""

    ACCUMULATION = "accumulation"  #: a sum held in the storage format
    FUNCTION_CHAIN = "function in a chain"  #: an elementary function with other roundings around it
    COMPOSITE = "composite"  #: composed of operators that store their results
    SEVERAL_ROUNDINGS = "several roundings"  #: more than one operation in a row
    SINGLE_ROUNDING = "single rounding"  #: one operation: as good as computed wider

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _ORDER.index(self)


_ORDER = list(Cause)
#: Kinds of nodes that may round.
_ROUNDING = frozenset(("arithmetic", "math_call", "reduction", "atomic"))
#: Operations of these kinds that leave a value of the format without rounding.
_EXACT = frozenset(
    {
        *("abs", "ceil", "copysign", "fabs", "floor", "fmax", "fmin", "fmod", "max", "min", "nearbyint", "rint"),
        *("round", "trunc"),
    }
)
#: Operations that may cancel, or absorb an operand.
_ADDITIVE = frozenset(("+", "-", "add", "fma", "sub"))
#: Functions that are conditioned as well as a product.
_ROOTS = frozenset(("cbrt", "rcbrt", "rsqrt", "sqrt"))
_WEIGHT = {"high": 1.0, "medium": 0.5, "low": 0.25}


@dataclass(frozen=True)
class Risk:
    """What an operator may lose in one format.

    Parameters
    ----------
    score : float
        Share of the significand, 0 to 1, weighted with the confidence.
    cause : Cause or None
        The worst; None when nothing is computed in the storage format.
    findings : tuple of ServingFinding
        Those of that cause, the surest first; among equals in the order of the pipeline, which is that in which the
        operator's code names its kernels: the fallback of an ``if`` stands behind what is tried first.
    causes : frozenset of Cause
        All that there are.
    """

    score: float
    cause: Cause | None
    findings: tuple[ServingFinding, ...]
    causes: frozenset[Cause] = frozenset()


def share(cause: Cause, roundings: int, format_: str) -> float:
    """Share of the significand of ``format_`` that may be lost; ``roundings`` in a row count at least 2.

    >>> share(Cause.ACCUMULATION, 1, "bfloat16"), share(Cause.SEVERAL_ROUNDINGS, 4, "bfloat16")
    (1.0, 0.25)
    >>> share(Cause.FUNCTION_CHAIN, 4, "bfloat16"), share(Cause.SINGLE_ROUNDING, 1, "float16")
    (0.75, 0.0)
    """
    precision = FORMATS[format_].precision
    bits = math.log2(max(2, roundings))
    match cause:
        case Cause.ACCUMULATION:
            return 1.0
        case Cause.FUNCTION_CHAIN | Cause.COMPOSITE:
            return min(1.0, (precision / 2 + bits) / precision)
        case Cause.SEVERAL_ROUNDINGS:
            return min(1.0, bits / precision)
        case Cause.SINGLE_ROUNDING:
            return 0.0


def assess(pipeline: Pipeline, nodes: Mapping[int, ServingNode]) -> Risk:
    """The risk of a pipeline, from the findings of what it computes in its storage format.

    Parameters
    ----------
    nodes : mapping of int to ServingNode
        Nodes that the findings' chains name; one that is missing (it serves no operator) counts as no operation.
    """
    by_cause: dict[Cause, list[ServingFinding]] = defaultdict(list)
    for one in pipeline.untuned:
        by_cause[cause_of(one, nodes)].append(one)
    several = [one for cause, found in by_cause.items() if cause is not Cause.SINGLE_ROUNDING for one in found]
    roundings = _roundings(several)
    best: tuple[float, int] = (0.0, 0)
    worst: Cause | None = None
    for cause, findings in by_cause.items():
        weight = max(_WEIGHT.get(one.confidence, 0.0) for one in findings)
        key = (share(cause, roundings, pipeline.format) * weight, -cause.rank)
        if worst is None or key > best:
            best, worst = key, cause
    if worst is None:
        return Risk(0.0, None, ())
    ordered = sorted(by_cause[worst], key=lambda one: -_WEIGHT.get(one.confidence, 0.0))
    return Risk(best[0], worst, tuple(ordered), frozenset(by_cause))


def cause_of(finding: ServingFinding, nodes: Mapping[int, ServingNode]) -> Cause:
    """Why a finding of something computed in the storage format matters."""
    if finding.pattern == "untuned-accumulation":
        return Cause.ACCUMULATION
    computing = _computing(finding, nodes)
    if len(computing) < 2:
        return Cause.SINGLE_ROUNDING
    functions = [number for number, node in enumerate(computing) if _is_function(node)]
    last_sum = max((number for number, node in enumerate(computing) if node.operation in _ADDITIVE), default=-1)
    if functions and (functions[-1] > 0 or last_sum > functions[0]):
        return Cause.FUNCTION_CHAIN
    return Cause.SEVERAL_ROUNDINGS


def _computing(finding: ServingFinding, nodes: Mapping[int, ServingNode]) -> list[ServingNode]:
    """The operations of a chain that round, in the order the value flows.

    What stands behind a ``return`` is the call that was followed into: its value is the returned one, unrounded.
    """
    found: dict[int, ServingNode] = {}
    before = ""
    for node in (nodes.get(step) for step in finding.chain):
        if node is not None and before != "return" and node.kind in _ROUNDING and node.operation not in _EXACT:
            found.setdefault(node.id, node)
        before = node.kind if node is not None else ""
    return list(found.values())


def _is_function(node: ServingNode) -> bool:
    return node.kind == "math_call" and node.operation not in _ROOTS and node.operation not in _ADDITIVE


def assess_composite(operators: Sequence[str], format_: str) -> Risk:
    """The risk of an operator that is composed of others, whatever these do inside.

    Parameters
    ----------
    operators : sequence of str
        Those that round, in the order in which they first run.
    """
    cause = Cause.COMPOSITE
    # A framework's own code raises to a power to square; a square is conditioned as a product.
    functions = [number for number, name in enumerate(operators) if is_elementary(name) and name.lower() != "pow"]
    last_sum = max((number for number, name in enumerate(operators) if _adds(name)), default=-1)
    chain = bool(functions) and (functions[-1] > 0 or last_sum > functions[0])
    score = share(Cause.COMPOSITE if chain else Cause.SEVERAL_ROUNDINGS, len(operators), format_)
    return Risk(score, cause, (), frozenset((cause,)))


def _adds(operator: str) -> bool:
    """True for ``AddV2``, ``sub_``, ``rsub``, ``BiasAdd`` and their like, for sums and for means."""
    name = operator.lower()
    return any(word in name for word in ("add", "sub", "sum", "mean"))


def _roundings(findings: Iterable[ServingFinding]) -> int:
    """Operations in the function with most of them: those of different kernels do not follow one another."""
    return max(Counter(one.function for one in findings).values(), default=0)
