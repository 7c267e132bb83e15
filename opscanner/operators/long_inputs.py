"""How many values the reductions of a pair take, and inputs of a pair with which they take thousands.

A format of precision p stalls at 2**p terms of one size, so a sum of five shows nothing, however long the arrays are.
Which sizes of a pair lengthen its reductions is its operator's business: where no rule tells, a row of ``LONG_INPUTS``
does, in the language of ``data/operator_pairs.csv``; the calls stay as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from opscanner.operators.pairs import OperatorPair, PairInput, parse_inputs

_SEGMENTS = (
    "x: float (20480, 3) in [0.5, 1.5]; i: int64 (20480) in [0, 4]; j = np.arange(20480) % 5; "
    "k = np.arange(20480) // 4096; r = np.repeat(j[:, None], 3, 1)"
)
_LENGTHS = f"{_SEGMENTS}; n = np.bincount(k)"
_HISTOGRAM = "i: int32 (28672) in [0, 9]; w: float (28672) in [0, 2]"
_BAGS = "x: float (10, 6) in [-2, 2]; i: int64 (28672) in [0, 9]; k = np.arange(28672) // 7168; o = np.arange(4) * 7168"
_CHANNELS = "x: float (2, 512, 8, 8) in [-2, 2]; w: float (4, 512, 3, 3) in [-1, 1]"


@dataclass(frozen=True)
class LongInputs:
    """Inputs that stand for a pair's own, the terms of each of its reductions then, and how these are counted."""

    inputs: str
    terms: int
    counted: str


#: Integers are spread over 7 values of their range, so that 28672 of them name each 4096 times.
LONG_INPUTS: dict[str, LongInputs] = {
    **dict.fromkeys(
        ("scatter_reduce.sum", "scatter_reduce.prod"), LongInputs(_SEGMENTS, 4096, "5 segments of 20480 rows")
    ),
    **dict.fromkeys(
        ("segment_reduce.sum", "segment_reduce.mean", "segment_reduce.prod"),
        LongInputs(_LENGTHS, 4096, "5 segments of 20480 rows"),
    ),
    **dict.fromkeys(("bincount", "bincount.dense"), LongInputs(_HISTOGRAM, 4096, "7 bins")),
    "embedding_grad": LongInputs("dy: float (28672, 6) in [-2, 2]; i: int64 (28672) in [0, 9]", 4096, "7 rows"),
    **dict.fromkeys(
        ("embedding_bag.sum", "embedding_bag.mean"), LongInputs(_BAGS, 7168, "4 bags of 28672 rows")
    ),
    **dict.fromkeys(
        ("embedding_bag_grad.sum", "embedding_bag_grad.mean"),
        LongInputs(f"{_BAGS}; dy: float (4, 6) in [-2, 2]", 4096, "7 rows that 28672 indices name"),
    ),
    "bias_add_grad": LongInputs("dy: float (2, 64, 64, 3) in [-5, 5]", 8192, "batch and space"),
    "bias_add_grad.nchw": LongInputs("dy: float (2, 3, 64, 64) in [-5, 5]", 8192, "batch and space"),
    "adaptive_avg_pool2d": LongInputs("x: float (2, 3, 64, 64) in [-5, 5]", 4096, "space"),
    "adaptive_avg_pool2d.resize_area": LongInputs(
        "x: float (2, 3, 128, 192) in [-5, 5]", 4096, "squares of 64, of which there are 2 by 3"
    ),
    **dict.fromkeys(
        ("conv2d", "conv2d.dilated", "conv2d.same", "conv2d.strided"),
        LongInputs(_CHANNELS, 4608, "512 channels under a kernel of 9; fewer at an edge that is padded"),
    ),
    "conv3d": LongInputs(
        "x: float (2, 171, 5, 5, 5) in [-2, 2]; w: float (4, 171, 3, 3, 3) in [-1, 1]", 4617,
        "171 channels under a kernel of 27",
    ),
    "conv2d_grad.input": LongInputs(
        "x: float (2, 3, 8, 8) in [-2, 2]; w: float (512, 3, 3, 3) in [-1, 1]; dy: float (2, 512, 6, 6) in [-1, 1]",
        4608, "512 channels of the output and a kernel of 9, inside",
    ),
    "conv3d_grad.input": LongInputs(
        "x: float (2, 3, 5, 5, 5) in [-2, 2]; w: float (171, 3, 3, 3, 3) in [-1, 1]; "
        "dy: float (2, 171, 3, 3, 3) in [-1, 1]",
        4617, "171 channels of the output and a kernel of 27, in the middle",
    ),
    "conv2d_grad.weight": LongInputs(
        "x: float (128, 3, 8, 8) in [-2, 2]; w: float (4, 3, 3, 3) in [-1, 1]; dy: float (128, 4, 6, 6) in [-1, 1]",
        4608, "a batch of 128 and 36 places",
    ),
    "conv2d_grad.depthwise_weight": LongInputs(
        "x: float (128, 3, 8, 8) in [-2, 2]; w: float (3, 1, 3, 3) in [-1, 1]; dy: float (128, 3, 6, 6) in [-1, 1]",
        4608, "a batch of 128 and 36 places",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Fitted:
    """The inputs of a pair, as long as is wanted where that can be.

    Parameters
    ----------
    grown : dict of int to int
        Sizes that were changed.
    indices : dict of str to int
        By input that is a row of indices, how many there are now.
    terms : int
        Values that the longest reduction takes, as far as is known.
    note : str
        Why they are no more, or how a row of ``LONG_INPUTS`` counts them; empty where a rule made them as wanted.
    """

    inputs: tuple[PairInput, ...]
    grown: dict[int, int]
    indices: dict[str, int]
    terms: int
    note: str = ""


_INDICES = re.compile(r"np\.array\(\[\d+(?:, \d+)*\]\)$")
_AXES = re.compile(r"(?<!\w)dim=(-?\d+|\([-\d, ]+\))")


def fit_reduction(pair: OperatorPair, wanted: int) -> Fitted:
    """Inputs whose reductions take ``wanted`` values or more, where they can."""
    as_is = Fitted(pair.inputs, {}, {}, _stated_terms(pair), "")
    if pair.error_class == "exact":
        return replace(as_is, terms=1, note="the pair moves or selects values for these inputs: nothing is added up")
    if row := LONG_INPUTS.get(pair.id):
        return Fitted(parse_inputs(row.inputs), {}, {}, row.terms, f"{row.terms} values a reduction: {row.counted}")
    indices = {item.name: _numbers(item) for item in pair.inputs if _INDICES.match(item.expression)}
    if indices:
        share = min(Counter(numbers).most_common(1)[0][1] / len(numbers) for numbers in indices.values())
        length = ceil(wanted / share)
        grown = {len(numbers): length for numbers in indices.values()}
        return Fitted(pair.inputs, grown, dict.fromkeys(indices, length), wanted)
    size = longest(pair)
    if not size or fixed(size, pair):
        return replace(as_is, note=_too_few(pair, f"the calls fix the size {size}"))
    if terms := _along(pair, size, max(wanted, size)):
        return Fitted(pair.inputs, {size: max(wanted, size)}, {}, terms)
    return replace(as_is, note=_too_few(pair, "longer arrays would not make them longer"))


def longest(pair: OperatorPair) -> int:
    """The largest size of a float input; 0 where there is none."""
    return max((size for item in pair.inputs if item.kind == "float" for size in item.shape), default=0)


def fixed(size: int, pair: OperatorPair) -> bool:
    """True when a call or an expression names the size, or an array has it twice.

    Arrays of another size would not fit the one; the other, a matrix that grows both ways, tells no more and costs a
    lot.
    """
    texts: Iterable[str] = (pair.torch_call, pair.tensorflow_call, *(item.expression for item in pair.inputs))
    named = any(re.search(rf"(?<![\w.]){size}(?![\w.])", text) for text in texts)
    return named or any(item.shape.count(size) > 1 for item in pair.inputs)


def _too_few(pair: OperatorPair, why: str) -> str:
    terms = _stated_terms(pair)
    known = terms > 1 or pair.error_class == "rounded"
    many = f"{terms} value{'s' * (terms > 1)}" if known else "few values"
    return f"the pair's reductions take {many}: {why}"


def _stated_terms(pair: OperatorPair) -> int:
    """The terms that the table states: for sums alone it means those of each."""
    return pair.terms if pair.error_class in ("sum", "linear_algebra") else 1


def _along(pair: OperatorPair, size: int, length: int) -> int:
    """Terms of the reductions when ``size`` grows to ``length``; 0 where they do not run along it, or nobody says."""
    if any(item.kind not in ("float", "bool") for item in pair.inputs):
        return 0
    if pair.error_class == "sum" and pair.terms % size == 0:
        return pair.terms // size * length
    written = _AXES.search(pair.torch_call)
    shape = next(item.shape for item in pair.inputs if size in item.shape)
    axes = {int(axis) % len(shape) for axis in re.findall(r"-?\d+", written[1])} if written else set()
    return length if shape.index(size) in axes else 0


def _numbers(item: PairInput) -> list[str]:
    return re.findall(r"\d+", item.expression)
