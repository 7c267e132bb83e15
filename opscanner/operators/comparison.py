"""Two frameworks side by side: who widens what for which storage format, and what is widened here and not there.

Pure: takes what ``graph.serving`` loaded and the table of pairs, gives rows. A pair that cannot be compared is a row
that says why. The score of a row is what the one side may lose more than the other (see ``operators.risk``): a trial
that holds the two results against each other shows that difference, and no more.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from opscanner.errors import UsageError
from opscanner.graph.serving import ServingGraph
from opscanner.operators.pairs import OperatorPair
from opscanner.operators.pipeline import Pipeline, Pipelines, PipelineStep
from opscanner.operators.risk import Cause, Risk, assess, assess_composite

#: Storage formats whose untuned operations rules see; the others have pipelines and no ranking.
RANKED_FORMATS = ("float16", "bfloat16")
STORAGE_FORMATS = ("float16", "bfloat16", "float32", "float64")
#: Operators of composites that move, choose, compare or change a sign: they round nothing that they store.
_EXACT = frozenset(
    (
        "Abs", "Cast", "Equal", "Floor", "GatherNd", "GatherV2", "Greater", "GreaterEqual", "IsFinite", "Less",
        "LessEqual", "ListDiff", "MatrixDiagV3", "Max", "Maximum", "Minimum", "Neg", "NotEqual", "Relu6", "Relu6Grad",
        "Select", "SelectV2", "Sign", "StridedSliceGrad", "abs", "amax", "clamp", "eq", "flip", "ge", "gt",
        "index_copy", "le", "logical_and", "lt", "masked_fill", "ne", "neg", "sgn", "topk", "type_as", "where",
    )
)  # fmt: skip


class Seen(Enum):
    """How much of an operator was seen for a storage format on a device; the values stand in reports."""

    PIPELINE = "seen"  #: operations were seen
    NOTHING_COMPUTED = "nothing computed was seen"  #: kernels that move data, or give it to a library
    NO_FORMAT = "no kernel for this format"  #: kernels were seen, for other formats
    NOT_SCANNED = "not scanned"  #: registered, but no unit that serves it was scanned, or it is a library's
    NO_KERNEL = "no kernel on this device"  #: nothing is registered for the device
    NOT_DECLARED = "no such operator"  #: this version does not have it


@dataclass(frozen=True)
class Side:
    """One framework's half of a comparison.

    Parameters
    ----------
    operators : tuple of str
        What was looked for; of a composite all that ran.
    missing : tuple of str
        Those among them that nothing scanned serves.
    """

    framework: str
    version: str
    operators: tuple[str, ...]
    seen: Seen
    pipeline: Pipeline
    risk: Risk
    composed: bool
    missing: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """It was seen to compute something, or the table says that it is a composite."""
        return self.seen is Seen.PIPELINE or self.risk.cause is Cause.COMPOSITE

    @property
    def widens(self) -> bool:
        """Something is computed in a wider format than the storage format."""
        return bool(self.pipeline.widened)


@dataclass(frozen=True)
class Comparison:
    """An operator in both frameworks, for one storage format. ``pairs`` are ids of the table's rows."""

    pairs: tuple[str, ...]
    direction: str
    format: str
    device: str
    first: Side
    second: Side

    @property
    def comparable(self) -> bool:
        """Of both sides it is known what they compute."""
        return self.first.known and self.second.known

    @property
    def score(self) -> float:
        """What the worse side may lose more than the other; 0 where both do alike, or cannot be compared."""
        return abs(self.first.risk.score - self.second.risk.score) if self.comparable else 0.0

    @property
    def sides(self) -> tuple[Side, Side] | None:
        """(who widens, who does not); None when nobody widens what the other does not."""
        if not self.comparable or self.format not in RANKED_FORMATS or self.score <= 0:
            return None
        ordered = sorted((self.first, self.second), key=lambda side: side.risk.score)
        return (ordered[0], ordered[1]) if ordered[0].widens else None


@dataclass(frozen=True)
class PairGroup:
    """Rows of the table that mean the same operators: variants with other arguments run the same kernels."""

    pairs: tuple[OperatorPair, ...]
    torch: tuple[str, ...]
    tensorflow: tuple[str, ...]
    other_modes: tuple[str, ...] = ()


def group_pairs(pairs: Iterable[OperatorPair], device: str) -> list[PairGroup]:
    """Pairs by the operators that serve them on a device, and by their mode, in the table's order."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], list[OperatorPair]] = defaultdict(list)
    for pair in pairs:
        modes = pair.other_modes if device == "cuda" else ()
        groups[_torch_operators(pair, device), _tensorflow_operators(pair), modes].append(pair)
    return [PairGroup(tuple(found), *names) for names, found in groups.items()]


def _torch_operators(pair: OperatorPair, device: str) -> tuple[str, ...]:
    further = pair.aten_cuda if device == "cuda" else ()
    if pair.composed_in in ("torch", "both") and pair.aten_backward_ran:
        # What the forward pass ran before is another pair's.
        return tuple(dict.fromkeys((*further, *pair.aten_backward_ran)))
    # A composite that has a name of its own says nothing of what it is composed of.
    ran = pair.aten_ran if pair.composed_in in ("torch", "both") and len(pair.aten) == 1 else ()
    return tuple(dict.fromkeys((*pair.aten, *further, *ran)))


def _tensorflow_operators(pair: OperatorPair) -> tuple[str, ...]:
    if pair.composed_in not in ("tensorflow", "both"):
        return (pair.tensorflow,)
    return pair.tensorflow_backward_ran or tuple(dict.fromkeys((*pair.tensorflow_ran, pair.tensorflow)))


def find_pairs(pairs: Sequence[OperatorPair], name: str) -> list[OperatorPair]:
    """The pairs that a name means: an id (its variants too), an ATen operator, a TensorFlow op, or what users call.

    Raises
    ------
    UsageError
        When it means none.
    """
    plain = name.removeprefix("aten::").removeprefix("aten.").removeprefix("tf.raw_ops.").removeprefix("torch.")
    found = [
        pair
        for pair in pairs
        if plain in (pair.id, pair.id.partition(".")[0], pair.tensorflow, pair.torch.rpartition(".")[2])
        or plain in pair.aten
        or plain in pair.aten_cuda
    ]
    exact = [pair for pair in found if pair.id == name]
    if exact and "." in name:
        return exact
    if found:
        # What an operator is in outranks what it is a part of.
        own = [pair for pair in found if plain in (pair.id, pair.id.partition(".")[0], pair.tensorflow)]
        return own or found
    known = {word.lower(): word for pair in pairs for word in (pair.id, pair.tensorflow, *pair.aten)}
    near = difflib.get_close_matches(plain.lower(), known, n=3)
    hint = f"did you mean {', '.join(known[one] for one in near)}?" if near else "data/operator_pairs.csv lists them"
    raise UsageError(f"no pair of operators is known for {name}", hint)


class Comparer:
    """Compares pairs in two scans on one device.

    Parameters
    ----------
    first, second : ServingGraph
        One of PyTorch and one of TensorFlow, in the order that reports show.
    """

    def __init__(self, first: ServingGraph, second: ServingGraph) -> None:
        self._sides = (Pipelines(first), Pipelines(second))
        self._device = first.device

    def compare(self, group: PairGroup, format_: str) -> Comparison:
        """One group of pairs for one storage format."""
        first, second = (self._side(pipelines, group, format_) for pipelines in self._sides)
        ids = tuple(pair.id for pair in group.pairs)
        return Comparison(ids, group.pairs[0].direction, format_, self._device, first, second)

    def _side(self, pipelines: Pipelines, group: PairGroup, format_: str) -> Side:
        graph = pipelines.graph
        framework = graph.scan.framework
        word = "torch" if framework == "pytorch" else "tensorflow"
        names = group.torch if framework == "pytorch" else group.tensorflow
        pair = group.pairs[0]
        parts = [name for name in names if name.rstrip("_") not in _EXACT and name.rstrip("_") != pair.id]
        if word == "torch":
            # What does the work on CUDA does it in the place of the others, not after them.
            by_place = ([name for name in parts if (name in pair.aten_cuda) is there] for there in (False, True))
            parts = max(by_place, key=len)
        composed = pair.composed_in in (word, "both") and len(parts) > 1
        known = [found for found in (_declared(graph, name) for name in names) if found]
        pipeline = pipelines.of(known, format_, group.other_modes)
        risk = assess(pipeline, pipelines.node)
        if composed and format_ in RANKED_FORMATS:
            together = assess_composite(parts, format_)
            risk = max(risk, together, key=lambda one: one.score)
        missing = tuple(name for name in names if not graph.serving.get(_declared(graph, name) or ""))
        seen = _seen(graph, known, pipeline, pipelines)
        return Side(framework, graph.scan.version, names, seen, pipeline, risk, composed, missing)


def _declared(graph: ServingGraph, name: str) -> str | None:
    """The operator that a name means: ``addcdiv_`` and ``sum.out`` are ``addcdiv`` and ``sum``."""
    base = name.partition(".")[0]
    return next((one for one in (name, base, base.rstrip("_")) if one in graph.declared), None)


def _seen(graph: ServingGraph, operators: Sequence[str], pipeline: Pipeline, pipelines: Pipelines) -> Seen:
    if not operators:
        return Seen.NOT_DECLARED
    if not any(graph.serving.get(name) for name in operators):
        return Seen.NOT_SCANNED if any(name in graph.registered for name in operators) else Seen.NO_KERNEL
    if not pipeline.steps:
        others = any(pipelines.of(operators, one).steps for one in STORAGE_FORMATS if one != pipeline.format)
        return Seen.NO_FORMAT if others else Seen.NOTHING_COMPUTED
    return Seen.PIPELINE if pipeline.widened or pipeline.narrow else Seen.NOTHING_COMPUTED


def rank(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Those where one side widens what the other does not: what may be lost most first, then the surer."""

    def key(one: Comparison) -> tuple[float, int, bool, str, str]:
        sides = one.sides
        assert sides is not None
        worse = sides[1]
        assert worse.risk.cause is not None
        certain = worse.pipeline.certain and sides[0].pipeline.certain
        return -one.score, worse.risk.cause.rank, not certain, one.pairs[0], one.format

    return sorted((one for one in comparisons if one.sides is not None), key=key)


def first_widening(side: Side) -> PipelineStep | None:
    """The step that shows best that a side widens: a sum, a function or arithmetic in a wider format, in that order."""
    order = ("accumulation", "function", "arithmetic")
    return min(side.pipeline.widened, key=lambda step: order.index(step.stage), default=None)


__all__ = [
    "RANKED_FORMATS", "STORAGE_FORMATS", "Comparer", "Comparison", "PairGroup", "Seen", "Side", "find_pairs",
    "first_widening", "group_pairs", "rank",
]  # fmt: skip
