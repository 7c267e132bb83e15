"""One operator in one format: arrays for its inputs, made from values that a strategy wants.

Floats are rounded to the format, integers and booleans are drawn as the operator's row says, expressions of inputs are
evaluated anew and rounded, and the operator's domain holds: elementwise operators lose the places outside of it, others
get values from the row's ranges there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from opscanner.dynamic.inputs.batch import SIZES, Size
from opscanner.dynamic.inputs.domain import allowed_in, allowed_places
from opscanner.dynamic.inputs.shapes import Growth, find_growth, grown_expression, grown_shape
from opscanner.errors import OpscannerError
from opscanner.operators.catalog import Operator
from opscanner.operators.pairs import PairInput
from opscanner.precision.rounding import round_to_format, step

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """An operator in a format, as strategies see it; make one by :func:`make_case`.

    Parameters
    ----------
    slots : tuple of str
        What takes values of the format: the free float inputs; of a complex input both parts, ``x.real``, ``x.imag``.
    flat : bool
        True when the inputs may be lists of values, each place by itself.
    growth : Growth or None
        The axis that may have another length, for operators that are not flat.
    generator : numpy.random.Generator
        Random numbers of this case alone.
    """

    operator: Operator
    format_: str
    size: Size
    slots: tuple[str, ...]
    flat: bool
    growth: Growth | None
    generator: np.random.Generator

    def length(self, wanted: int) -> int | None:
        """The length of the growing axis for ``wanted`` terms, kept below the size's limit; None where none grows."""
        if self.growth is None:
            return None
        length = self.growth.length(wanted)
        while self.growth.length(wanted) > self.growth.size and self._largest(length) > self.size.elements:
            wanted //= 2
            length = self.growth.length(wanted)
        return length

    def shape(self, slot: str, length: int | None) -> tuple[int, ...]:
        """The shape of the input of a slot when the growing axis has that length."""
        return grown_shape(self._item(slot), self.growth, length)

    def typical(self, slot: str, shape: tuple[int, ...]) -> np.ndarray:
        """Random values in the range of the operator's row."""
        return _typical(self._item(slot), shape, self.format_, self.generator)

    def simple(self, slot: str) -> float:
        """1, else 0, else the middle of the row's range: a value that disturbs nobody."""
        item = self._item(slot)
        plain = next((one for one in (1.0, 0.0) if item.low <= one <= item.high), (item.low + item.high) / 2)
        return float(round_to_format(plain, self.format_))

    def list_of(
        self, values: Mapping[str, np.ndarray], shape_of: Callable[[int], tuple[int, ...]] | None = None
    ) -> Arrays | None:
        """Inputs of a flat operator, one place for each position of the given lists; None when the domain has none.

        Parameters
        ----------
        values : mapping of slot to ndarray
            Lists of one length; slots left out get random values of their range.
        shape_of : callable, optional
            The shape for that many places (repeated from the first, or cut, as it asks); by default as many axes as in
            the row, all but the last of length 1.
        """
        count = next(iter(values.values())).size if values else 1
        given = {slot: np.broadcast_to(np.asarray(value, float), (count,)) for slot, value in values.items()}
        arrays = self._evaluate(dict.fromkeys(self._names(), (count,)), given, None)
        if arrays is None:
            return None
        kept = self._allowed(arrays, (count,))
        left = int(kept.sum())
        if count and not left:
            return None
        rank = max((len(item.shape) for item in self.operator.inputs), default=1)
        shape = shape_of(left) if shape_of else (1,) * (rank - 1) + (left,)
        return {
            name: np.resize(array[kept], shape) if array.shape else np.array(array) for name, array in arrays.items()
        }

    def shaped(
        self, values: Mapping[str, np.ndarray], length: int | None = None, strict: bool = False
    ) -> Arrays | None:
        """Inputs in the shapes of the row, the growing axis ``length`` long.

        Parameters
        ----------
        values : mapping of slot to ndarray
            Arrays that broadcast to the slot's shape; slots left out get random values of their range.
        strict : bool
            None when a value is outside of the domain; else such values are replaced.
        """
        shapes = {item.name: grown_shape(item, self.growth, length) for item in self.operator.inputs}
        given = {}
        for slot in self.slots:
            shape = self.shape(slot, length)
            wanted = values.get(slot)
            given[slot] = self.typical(slot, shape) if wanted is None else np.broadcast_to(wanted, shape)
        for _ in range(8):
            arrays = self._evaluate(shapes, given, length)
            if arrays is None:
                return None
            outside = {slot: self._outside(slot, arrays) for slot in self.slots}
            if not any(mask.any() for mask in outside.values()):
                # A condition on an expression of the inputs blames none of them.
                return arrays if allowed_places(self.operator.domain, arrays, ()).all() else None
            if strict:
                return None
            given = {
                slot: np.where(outside[slot], self.typical(slot, value.shape), value) for slot, value in given.items()
            }
        return None

    def _names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.operator.inputs)

    def _item(self, slot: str) -> PairInput:
        return next(item for item in self.operator.inputs if item.name == slot.partition(".")[0])

    def _largest(self, length: int | None) -> int:
        return max(int(np.prod(grown_shape(item, self.growth, length))) for item in self.operator.inputs)

    def _evaluate(
        self, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, np.ndarray], length: int | None
    ) -> Arrays | None:
        """All inputs in order; None when an expression refuses the values (a matrix without Cholesky factor)."""
        arrays: Arrays = {}
        for item in self.operator.inputs:
            if item.kind == "expression":
                value = evaluate_expression(grown_expression(item, self.growth, length), arrays, self.format_)
                if value is None:
                    return None
                arrays[item.name] = value
            elif item.kind == "float":
                wanted = given.get(item.name)
                arrays[item.name] = (
                    _typical(item, shapes[item.name], self.format_, self.generator)
                    if wanted is None
                    else round_to_format(wanted, self.format_)
                )
            elif item.kind == "complex":
                parts = [
                    round_to_format(given[slot], self.format_)
                    if slot in given
                    else _typical(item, shapes[item.name], self.format_, self.generator)
                    for slot in (f"{item.name}.real", f"{item.name}.imag")
                ]
                arrays[item.name] = _complex(*parts)
            else:
                arrays[item.name] = _whole(item, shapes[item.name], self.generator)
        return arrays

    def _allowed(self, arrays: Arrays, shape: tuple[int, ...]) -> np.ndarray:
        """Places of the shape where the domain and, if :func:`keeps_ranges`, the row's ranges hold."""
        allowed = allowed_places(self.operator.domain, arrays, shape)
        for slot in self.slots if keeps_ranges(self.operator) else ():
            value = _part(arrays[slot.partition(".")[0]], slot)
            allowed = allowed & _in_range(self._item(slot), value)
        return allowed

    def _outside(self, slot: str, arrays: Arrays) -> np.ndarray:
        """Elements of a slot that may not stay as they are."""
        name = slot.partition(".")[0]
        allowed = allowed_in(name, self.operator.domain, arrays)
        if keeps_ranges(self.operator):
            allowed = allowed & _in_range(self._item(slot), _part(arrays[name], slot))
        return ~allowed


def keeps_ranges(operator: Operator) -> bool:
    """True when values stay in the ranges of the operator's row: nothing says what others give, or a matrix of others
    has no inverse and no factors.
    """
    return not operator.reference or operator.kind.startswith("linear algebra")


def make_case(operator: Operator, format_: str, strategy: str, seed: int, size: str) -> Case:
    """The case for one strategy: its random numbers follow from operator, format, strategy and seed alone.

    Raises
    ------
    OpscannerError
        For a size that is none of :data:`~opscanner.dynamic.inputs.batch.SIZES`.
    """
    if size not in SIZES:
        raise OpscannerError(f"{size!r} is no size of inputs", f"one of {', '.join(SIZES)}")
    flat, growth = _structure(operator)
    return Case(
        operator, format_, SIZES[size], _slots(operator), flat, growth, _generator(operator, format_, strategy, seed)
    )


def _generator(operator: Operator, format_: str, strategy: str, seed: int) -> np.random.Generator:
    text = f"{seed}:{operator.id}:{format_}:{strategy}"
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


@lru_cache(maxsize=1024)
def _structure(operator: Operator) -> tuple[bool, Growth | None]:
    """Whether an operator is flat, and which axis grows; from a sample in float64."""
    case = Case(
        operator, "float64", SIZES["small"], _slots(operator), False, None, _generator(operator, "float64", "", 0)
    )
    shapes = {item.name: item.shape for item in operator.inputs}
    sample = case._evaluate(shapes, {}, None)
    if sample is None:
        raise OpscannerError(
            f"{operator.id}: an expression of its inputs fails on values of their ranges", "correct the table's row"
        )
    if operator.elementwise and _keeps_places(case):
        return True, None
    return False, None if operator.elementwise else find_growth(operator, sample)


def _keeps_places(case: Case) -> bool:
    """True when the inputs of an elementwise operator have one shape, and their expressions follow any other."""
    items = case.operator.inputs
    if len({item.shape for item in items if item.kind != "expression"}) != 1:
        return False
    sample = case._evaluate({item.name: (7,) for item in items}, {}, None)
    return sample is not None and all(sample[item.name].shape in ((), (7,)) for item in items)


def _slots(operator: Operator) -> tuple[str, ...]:
    found: list[str] = []
    for item in operator.inputs:
        if item.kind == "float":
            found.append(item.name)
        elif item.kind == "complex":
            found += [f"{item.name}.real", f"{item.name}.imag"]
    return tuple(found)


def _typical(item: PairInput, shape: tuple[int, ...], format_: str, generator: np.random.Generator) -> np.ndarray:
    """Random values of the format in the item's range, both ends included where the format has them."""
    value = round_to_format(item.low + (item.high - item.low) * generator.random(shape), format_)
    value = np.where(value > item.high, step(value, -1, format_), value)
    result: np.ndarray = np.where(value < item.low, step(value, 1, format_), value)
    return result


def _whole(item: PairInput, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if item.kind == "bool":
        chosen: np.ndarray = generator.random(shape) < 0.5
        return chosen
    whole: np.ndarray = np.asarray(generator.integers(int(item.low), int(item.high), shape, endpoint=True))
    return whole.astype(item.kind)


def evaluate_expression(expression: str, arrays: Mapping[str, np.ndarray], format_: str) -> np.ndarray | None:
    """An input that is an expression of others, floats rounded to the format.

    None when it refuses the values (a matrix without Cholesky factor).
    """
    try:
        with np.errstate(all="ignore"):
            value = eval(expression, {"np": np, **arrays})  # noqa: S307  (the project's own tables)
    except (ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError):
        return None
    array: np.ndarray = np.asarray(value)
    if array.dtype.kind == "c":
        return _complex(round_to_format(array.real, format_), round_to_format(array.imag, format_))
    return round_to_format(array, format_) if array.dtype.kind == "f" else array


def _complex(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Both parts as they are: ``real + 1j * imaginary`` makes NaN of infinities."""
    value: np.ndarray = np.empty(np.broadcast_shapes(real.shape, imaginary.shape), dtype=np.complex128)
    value.real, value.imag = real, imaginary
    return value


def _part(value: np.ndarray, slot: str) -> np.ndarray:
    parts: dict[str, np.ndarray] = {"": value, "real": value.real, "imag": value.imag}
    return parts[slot.partition(".")[2]]


def _in_range(item: PairInput, value: np.ndarray) -> np.ndarray:
    result: np.ndarray = (value >= item.low) & (value <= item.high)
    return result
