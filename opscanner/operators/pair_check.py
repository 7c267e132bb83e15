"""Runs both sides of an operator pair on the same inputs and says how far their results lie apart.

Needs numpy, torch and tensorflow (through the frameworks' runners, which are imported when a check is asked for).
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opscanner.operators.pairs import OperatorPair


@dataclass(frozen=True)
class PairCheck:
    """What one check gave.

    Parameters
    ----------
    difference : float
        Largest over all outputs of the pair's metric; infinity for another number or shape of outputs, and for NaN
        or infinity on one side only.
    aten_ran, tensorflow_ran : tuple of str
        ATen operators and TensorFlow ops that ran, without those that only allocate, view or copy unless the pair
        names them.
    aten_backward_ran, tensorflow_backward_ran : tuple of str
        Those that the backward pass of a ``grad(...)`` ran itself, without wrappers and bookkeeping; empty for other
        calls.
    all_zero : bool
        True when every output is zero: such a check would not tell operators apart.
    """

    difference: float
    aten_ran: tuple[str, ...]
    tensorflow_ran: tuple[str, ...]
    aten_backward_ran: tuple[str, ...]
    tensorflow_backward_ran: tuple[str, ...]
    all_zero: bool


def make_inputs(pair: OperatorPair) -> dict[str, np.ndarray]:
    """The inputs of a pair: the same arrays for the same id, floats rounded to the pair's format and held in float64.

    An expression sees the inputs before it in float64, so that an output handed to a gradient is the output's value.
    """
    generator = np.random.default_rng(int.from_bytes(hashlib.sha256(pair.id.encode()).digest()[:8], "big"))
    made: dict[str, np.ndarray] = {}
    for item in pair.inputs:
        if item.kind == "expression":
            value = np.asarray(eval(item.expression, {"np": np, **made}))  # noqa: S307  (the project's own table)
        elif item.kind == "bool":
            value = generator.random(item.shape) < 0.5
        elif item.kind == "float":
            value = item.low + (item.high - item.low) * generator.random(item.shape)
        elif item.kind == "complex":
            real, imaginary = generator.random(item.shape), generator.random(item.shape)
            value = item.low + (item.high - item.low) * real + 1j * (item.low + (item.high - item.low) * imaginary)
        else:
            span = int(item.high) - int(item.low) + 1
            value = (int(item.low) + np.floor(span * generator.random(item.shape))).astype(item.kind)
        if value.dtype.kind == "f" and pair.format == "float32":
            value = value.astype(np.float32).astype(np.float64)
        made[item.name] = value
    return made


def check(pair: OperatorPair) -> PairCheck:
    """Run both frameworks on the inputs of ``pair``; what a framework raises passes through."""
    from opscanner.frameworks.pytorch import runner as pytorch
    from opscanner.frameworks.tensorflow import runner as tensorflow

    inputs = make_inputs(pair)
    ours = pytorch.evaluate(pair.torch_call, inputs, pair.format)
    theirs = tensorflow.evaluate(pair.tensorflow_call, inputs, pair.format)
    aten = pytorch.operators_run(pair.torch_call, inputs, pair.format)
    ops = tensorflow.operators_run(pair.tensorflow_call, inputs, pair.format)
    return PairCheck(
        difference=largest_difference(ours, theirs, pair.metric),
        aten_ran=tuple(name for name in aten if name in pair.aten or name not in pytorch.BOOKKEEPING),
        tensorflow_ran=tuple(name for name in ops if name == pair.tensorflow or name not in tensorflow.BOOKKEEPING),
        aten_backward_ran=pytorch.backward_operators_run(pair.torch_call, inputs, pair.format),
        tensorflow_backward_ran=tensorflow.backward_operators_run(pair.tensorflow_call, inputs, pair.format),
        all_zero=all(not np.any(array) for array in (*ours, *theirs)),
    )


def contradictions(pair: OperatorPair) -> list[str]:
    """What speaks against the reason for which a pair is unchecked; empty when it holds.

    TensorFlow must refuse a call whose reason begins with ``refused:``. Any other pair must run on both sides, and not
    agree: random numbers, or another function.
    """
    from opscanner.frameworks.pytorch import runner as pytorch
    from opscanner.frameworks.tensorflow import runner as tensorflow

    inputs = make_inputs(pair)
    refused = pair.unchecked_because.startswith("refused:")
    ours = pytorch.evaluate(pair.torch_call, inputs, pair.format)
    try:
        theirs = tensorflow.evaluate(pair.tensorflow_call, inputs, pair.format)
    except Exception as error:  # noqa: BLE001  (a refusal is an answer here)
        return [] if refused else [f"TensorFlow refuses: {str(error).splitlines()[0]}"]
    if refused:
        return ["TensorFlow runs it"]
    same = largest_difference(ours, theirs, pair.metric) <= pair.bound
    return ["both sides agree: it can be checked"] if same else []


def unset_attributes(pair: OperatorPair) -> tuple[str, ...]:
    """Attributes that either call leaves to a framework's default."""
    from opscanner.frameworks.pytorch import runner as pytorch
    from opscanner.frameworks.tensorflow import runner as tensorflow

    return (*pytorch.unset_attributes(pair.torch_call), *tensorflow.unset_attributes(pair.tensorflow_call))


def origin() -> Mapping[str, str]:
    """What the last digits of a difference depend on: releases, the machine, the vector instructions in use."""
    from opscanner.frameworks.pytorch import runner as pytorch
    from opscanner.frameworks.tensorflow import runner as tensorflow

    return {**pytorch.versions(), **tensorflow.versions(), "numpy": np.__version__, "machine": platform.machine()}


def run_reproducibly() -> None:
    """Make the differences independent of the number of cores and of addresses; before the first check."""
    from opscanner.frameworks.pytorch import runner as pytorch
    from opscanner.frameworks.tensorflow import runner as tensorflow

    pytorch.run_reproducibly()
    tensorflow.run_reproducibly()


def largest_difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], metric: str) -> float:
    """The largest relative difference of corresponding outputs, by ``metric`` (``elementwise`` or ``normwise``).

    Equal values, NaN on both sides included, differ by 0.

    >>> largest_difference([np.array([1.0, 100.0])], [np.array([1.5, 100.0])], "elementwise")
    0.3333333333333333
    >>> largest_difference([np.array([1.0, 100.0])], [np.array([1.5, 100.0])], "normwise")
    0.005
    """
    if len(ours) != len(theirs):
        return float("inf")
    return max((_difference(a, b, metric) for a, b in zip(ours, theirs, strict=True)), default=float("inf"))


def _difference(ours: np.ndarray, theirs: np.ndarray, metric: str) -> float:
    if ours.shape != theirs.shape:
        return float("inf")
    wide = np.complex128 if np.iscomplexobj(ours) or np.iscomplexobj(theirs) else np.float64
    a: np.ndarray = ours.astype(wide)
    b: np.ndarray = theirs.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if np.all(same):
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.where(same, 0.0, np.abs(a - b))
        scale = np.maximum(np.abs(a), np.abs(b)) if metric == "elementwise" else np.max(np.abs(a), initial=0.0)
        relative = np.where(same, 0.0, distance / np.where(scale == 0, 1.0, scale))
    return float(np.max(np.where(np.isfinite(relative), relative, np.inf)))
