"""The smallest inputs of a saved call that still bring the alert: the dynamic stage's minimizer on ATen operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from opscanner.dynamic.minimize import minimize
from opscanner.dynamic.running.calls import format_of, is_float
from opscanner.dynamic.running.named_call import Arrays, NamedCall
from opscanner.dynamic.running.truth import has_reference
from opscanner.precision.formats import FORMATS

#: Does a call with these inputs bring the alert?
Alerts = Callable[[Mapping[str, np.ndarray]], bool]


def smallest_inputs(
    call: NamedCall, shape: tuple[int, ...], index: tuple[int, ...], alerts: Alerts, trials: int
) -> Arrays:
    """The smallest and simplest inputs found; the same on any machine, because trials are counted and not time.

    Parameters
    ----------
    shape, index : tuple of int
        Of the result, and of its worst element: the inputs at its place are tried alone first.
    """

    def fails(arrays: Mapping[str, np.ndarray]) -> bool:
        with contextlib.suppress(Exception):  # what a trial raises is its result, as in minimize
            return alerts(arrays)
        return False

    arrays = call.arrays()
    if not may_be_cut(call.operator):
        return minimize(arrays, fails, _narrowest(call), trials=trials, shapes_kept=True)
    alone = _element_alone(arrays, shape, index)
    arrays = alone if alone is not None and fails(alone) else _places_alone(arrays, shape, index, fails)
    return minimize(arrays, fails, _narrowest(call), trials=trials)


def may_be_cut(operator: Any) -> bool:
    """True for operators that are known to refuse shapes that do not fit.

    Kernels behind others trust their callers: oneDNN's LSTM backward ends the process.
    """
    return has_reference(operator) or torch.Tag.pointwise in operator.tags


def _narrowest(call: NamedCall) -> str:
    """The format of the fewest digits among the inputs, in which simple values are looked for."""
    formats = {format_of(one) for one in call.tensors.values() if is_float(one)}
    return min(formats, key=lambda name: FORMATS[name].precision)


def _element_alone(arrays: Arrays, shape: tuple[int, ...], index: tuple[int, ...]) -> Arrays | None:
    """The inputs of one element of a result whose shape the inputs broadcast to; None where they do not."""
    if len(index) != len(shape):
        return None
    cut = {}
    for name, array in arrays.items():
        lined_up = shape[len(shape) - array.ndim :]
        if array.ndim > len(shape) or any(n not in (1, m) for n, m in zip(array.shape, lined_up, strict=True)):
            return None
        places = index[len(shape) - array.ndim :]
        cut[name] = array[
            tuple(slice(at, at + 1) if n > 1 else slice(None) for at, n in zip(places, array.shape, strict=True))
        ]
    return cut


def _places_alone(
    arrays: Arrays, shape: tuple[int, ...], index: tuple[int, ...], fails: Callable[[Mapping[str, np.ndarray]], bool]
) -> Arrays:
    """The inputs cut to the element's place along each axis of the result that they share, where the alert stays."""
    for size, place in zip(shape, index, strict=False):
        cut = {
            name: _taken(array, [axis for axis, n in enumerate(array.shape) if n == size > 1], place)
            for name, array in arrays.items()
        }
        if any(cut[name] is not arrays[name] for name in arrays) and fails(cut):
            arrays = cut
    return arrays


def _taken(array: np.ndarray, axes: list[int], place: int) -> np.ndarray:
    for axis in axes:
        array = np.take(array, [place], axis)
    return array
