"""Inputs that still fail, made small and simple: few elements, then zeros, ones, powers of two, short decimals.

Delta debugging (A. Zeller, R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE Transactions on
Software Engineering 28 (2002)) over the axes of the arrays, then over their values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from opscanner.dynamic.inputs.derive import inside_domain, with_values
from opscanner.dynamic.inputs.fitting import Arrays
from opscanner.operators.catalog import Operator
from opscanner.precision.rounding import round_to_format

#: The same inputs, smaller or simpler, are asked this; what it raises counts as no.
Fails = Callable[[Mapping[str, np.ndarray]], bool]

#: Arrays with more elements are simplified by halves alone, not element by element.
_SINGLY = 64
#: So many elements make a call count once more.
_ELEMENTS_A_TRIAL = 2000


def minimize(
    inputs: Mapping[str, np.ndarray],
    fails: Fails,
    format_: str = "float64",
    operator: Operator | None = None,
    trials: int = 1000,
    *,
    shapes_kept: bool = False,
) -> Arrays:
    """The smallest and simplest inputs found on which ``fails`` still holds.

    Parameters
    ----------
    inputs : mapping of str to ndarray
        Inputs on which it holds; what is handed to ``fails`` has the same names in the same order.
    fails : callable
        Called at most ``trials`` times. An axis that no longer fits another input may make it raise: that is a no.
    format_ : str
        Float values stay values of this format.
    operator : Operator, optional
        Then expressions of inputs follow the inputs, and the operator's domain holds.
    trials : int
        The most calls; what was found until then is returned. A call on more than 2,000 elements counts as several, so
        that the work is bounded, and by nothing that differs between machines.
    shapes_kept : bool
        Only values change.

    Notes
    -----
    Axes of equal size are shortened together, in all inputs, as they are the same axis in the operator's row; where
    that no longer fails, one by one. Integers and booleans lose elements and keep their values.

    Examples
    --------
    >>> bad = lambda arrays: bool(np.any(arrays["x"] > 100))
    >>> minimize({"x": np.array([3.7, 250.11, -8.0, 0.25])}, bad)["x"].tolist()
    [256.0]
    """
    search = _Minimizer(dict(inputs), fails, format_, operator, trials)
    before = -1
    while search.accepted != before and search.left():
        before = search.accepted
        if not shapes_kept:
            search.shorten()
        search.simplify()
    return search.current


class _Minimizer:
    def __init__(self, inputs: Arrays, fails: Fails, format_: str, operator: Operator | None, trials: int) -> None:
        self.current = {name: np.asarray(array) for name, array in inputs.items()}
        self.accepted = 0
        self._fails, self._format, self._operator, self._trials = fails, format_, operator, trials
        free = None if operator is None else {item.name for item in operator.inputs if item.kind == "float"}
        self._floats = tuple(
            name for name, array in self.current.items() if array.dtype.kind == "f" and (free is None or name in free)
        )

    def left(self) -> bool:
        return self._trials > 0

    def shorten(self) -> None:
        """Fewer elements along each axis, the longest first."""
        for size in sorted({size for array in self.current.values() for size in array.shape if size > 1}, reverse=True):
            every = self._axes_of(size)
            if not self._shorten_together(every, size):
                for name, axis in every:
                    self._shorten_together([(name, axis)], size)

    def simplify(self) -> None:
        """Simpler values: all of an array alike, then halves of it, then each by itself."""
        for name in self._floats:
            array = self.current[name]
            plain = [0.0, 1.0, *(float(array.ravel()[place]) for place in (0, -1) if array.size)]
            if array.size > 1:
                # An array of one value already only takes a simpler one: zeros and ones in turn would never end.
                held = plain.index(plain[2]) if (array == plain[2]).all() else len(plain)
                any(self._try_values(name, np.full(array.shape, value)) for value in plain[:held])
            self._simplify_parts(name)

    def _axes_of(self, size: int) -> list[tuple[str, int]]:
        return [
            (name, axis)
            for name, array in self.current.items()
            for axis, length in enumerate(array.shape)
            if length == size
        ]

    def _shorten_together(self, axes: list[tuple[str, int]], size: int) -> bool:
        """Delta debugging over the positions of axes that share them; True when any could go."""
        kept, parts = list(range(size)), 2
        shorter = False
        reserve = self._trials // 2  # for the other axes, and for the values: zeros let axes be cut in the next round
        while len(kept) > 1 and self._trials > reserve:
            chunks = _chunks(kept, parts)
            candidates = [*chunks, *(_without(kept, chunk) for chunk in chunks if parts > 2)]
            found = next((one for one in candidates if one and self._try_positions(axes, one, kept)), None)
            if found is not None:
                parts = 2 if found in chunks else max(2, parts - 1)
                kept, shorter = found, True
            elif parts >= len(kept):
                break
            else:
                parts = min(len(kept), 2 * parts)
        return shorter

    def _try_positions(self, axes: list[tuple[str, int]], wanted: list[int], kept: list[int]) -> bool:
        places = np.searchsorted(kept, wanted)
        arrays = dict(self.current)
        for name, axis in axes:
            if arrays[name].shape[axis] != len(kept):
                return False
            arrays[name] = np.take(arrays[name], places, axis)
        return self._try(arrays)

    def _simplify_parts(self, name: str) -> None:
        size = self.current[name].size
        parts = 1
        while parts <= min(size, _SINGLY) and self.left():
            for chunk in _chunks(list(range(size)), parts):
                self._simplify_places(name, chunk)
            if parts == size:
                break
            parts = min(size, 2 * parts)

    def _simplify_places(self, name: str, places: list[int]) -> None:
        """Replace all of the places by one value, the simplest that still fails."""
        flat = self.current[name].ravel()
        values = np.unique(flat[places])
        # Many different values are never as simple as one.
        present = max(map(_complexity, values.tolist())) if values.size <= _SINGLY else 99
        for value in _simpler(float(flat[places[0]]), self._format):
            if not self.left() or (_complexity(value) >= present and values.size == 1):
                return
            changed = flat.copy()
            changed[places] = value
            if self._try_values(name, changed.reshape(self.current[name].shape)):
                return

    def _try_values(self, name: str, values: np.ndarray) -> bool:
        if np.array_equal(values, self.current[name], equal_nan=True):
            return False
        return self._try({**self.current, name: values}, changed=name)

    def _try(self, arrays: Arrays, changed: str = "") -> bool:
        if not self.left():
            return False
        candidate: Arrays | None = arrays
        if self._operator is not None:
            if changed:
                candidate = with_values(self._operator, self._format, self.current, {changed: arrays[changed]})
            else:
                candidate = with_values(
                    self._operator, self._format, arrays, {name: arrays[name] for name in self._floats}
                )
            if candidate is None or not self._allowed(candidate):
                return False
        self._trials -= 1 + sum(array.size for array in arrays.values()) // _ELEMENTS_A_TRIAL
        try:
            failed = bool(self._fails(candidate or arrays))
        except Exception:  # noqa: BLE001  (one of the three places: what a trial raises is its result)
            failed = False
        if failed:
            self.current = dict(candidate or arrays)
            self.accepted += 1
        return failed

    def _allowed(self, arrays: Arrays) -> bool:
        assert self._operator is not None
        shapes = {array.shape for array in arrays.values() if array.shape}
        shape = shapes.pop() if len(shapes) == 1 else ()
        return bool(inside_domain(self._operator, arrays, shape).all())


def _simpler(value: float, format_: str) -> Iterator[float]:
    """Values of the format, the simplest first, near enough to the value to be worth a trial."""
    yield from (0.0, 1.0, -1.0)
    if not np.isfinite(value) or value == 0:
        return
    seen = {0.0, 1.0, -1.0}
    power = float(np.exp2(np.round(np.log2(abs(value)))) * np.sign(value))
    decimals = [float(f"{value:.{digits}g}") for digits in range(1, 9)]
    for one in (power, float(np.round(value)), *decimals):
        held = float(round_to_format(one, format_))
        if np.isfinite(held) and held not in seen:
            seen.add(held)
            yield held


def _complexity(value: float) -> int:
    """0 and 1 least, then -1, powers of two, then by the digits that write the value."""
    if value in (0.0, 1.0):
        return 0
    if value == -1.0:
        return 1
    if np.isfinite(value) and abs(np.frexp(value)[0]) == 0.5:
        return 2
    return 2 + len(repr(float(value)).strip("-0").replace(".", ""))


def _chunks(places: list[int], parts: int) -> list[list[int]]:
    """The places in that many runs of about equal length, none empty."""
    edges = [len(places) * part // parts for part in range(parts + 1)]
    return [places[low:high] for low, high in itertools.pairwise(edges) if high > low]


def _without(places: list[int], chunk: list[int]) -> list[int]:
    gone = set(chunk)
    return [place for place in places if place not in gone]
