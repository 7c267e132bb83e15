"""Recipes of inputs that show what an operator loses, as rows of a table, fitted to the inputs of a pair.

A recipe says which values, in terms of the precision p of the tested format; the pair says how many inputs there are,
of which shape and range. Where the calls of a pair leave a size open, the arrays are made long enough for the effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from opscanner.operators.pairs import OperatorPair, PairInput
from opscanner.operators.risk import Cause
from opscanner.precision.formats import FORMATS


@dataclass(frozen=True)
class Recipe:
    """One row: values for the float inputs, and why.

    Parameters
    ----------
    values : str
        A numpy expression of one dimension; ``{p}`` is the precision, ``{max}`` the largest value of the format.
    length : int
        Elements wanted along the longest dimension, where the calls leave it open.
    clip : bool
        Keep the values in the range that the pair gives for its inputs (the domain in which both sides agree).
    only : str
        The one format that it is for; empty for all.
    """

    id: str
    causes: tuple[Cause, ...]
    values: str
    length: int
    clip: bool
    only: str
    why: str


#: float16 counts stall at 2**11 = 2048, bfloat16's at 2**8 = 256: 4096 terms are past both.
_MANY = 4096
_ROUNDING = (Cause.FUNCTION_CHAIN, Cause.COMPOSITE, Cause.SEVERAL_ROUNDINGS)
RECIPES = (
    Recipe(
        "ones", (Cause.ACCUMULATION,), "np.ones(1)", _MANY, False, "",
        "a count: in a format of precision p, 2**p + 1 rounds back to 2**p, so that the sum stalls at 2048 (float16) "
        "or 256 (bfloat16)",
    ),
    Recipe(
        "one_and_crumbs", (Cause.ACCUMULATION,), "np.r_[1.0, np.full(4095, 2.0**-{p})]", _MANY, False, "",
        "1 and many values of half its last place: each is absorbed when it is added by itself (a tie goes to even)",
    ),
    Recipe(
        "past_the_largest", (Cause.ACCUMULATION,), "np.full(1, 1e4)", _MANY, False, "float16",
        "seven terms of 1e4 are past 65504: a mean that adds up first is infinite, its value is 1e4",
    ),
    Recipe(
        "near_zero", (Cause.FUNCTION_CHAIN, Cause.COMPOSITE),
        "np.outer([-1.0, 1.0, -1.25, 1.25], 2.0 ** -np.arange(1.0, {p} + 4)).ravel()", 256, True, "",
        "exp(x) is 1 + x there: its rounding, of the size of 2**-{p}, is all that is left of x when 1 is taken away; "
        "log(1 + x), cosh(x) - 1 and their kin likewise",
    ),
    Recipe(
        "towards_saturation", (Cause.FUNCTION_CHAIN, Cause.COMPOSITE), "np.linspace(-12.0, 12.0, 769)", 1024, True, "",
        "exp overflows float16 at 11.09 and vanishes at -17: 1 + exp(x) absorbs, sigmoids and tanh reach their limits",
    ),
    Recipe(
        "sweep", _ROUNDING, "np.linspace({low}, {high}, 1021)", 1024, True, "",
        "the whole range that the pair is checked in: several roundings show as more than 1 ULP somewhere",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class RecipeInput:
    """An input as a numpy expression of the inputs before it; floats are then rounded to the tested format."""

    name: str
    expression: str


@dataclass(frozen=True)
class FittedRecipe:
    """A recipe for one pair and format. ``note`` says what could not be made as wanted."""

    recipe: str
    why: str
    inputs: tuple[RecipeInput, ...]
    note: str = ""


def recipes_for(cause: Cause, pair: OperatorPair, format_: str) -> tuple[FittedRecipe, ...]:
    """The recipes for a cause, fitted to a pair and a format of the kind float16, bfloat16."""
    return tuple(
        _fit(recipe, pair, format_) for recipe in RECIPES if cause in recipe.causes and recipe.only in ("", format_)
    )


_INDICES = re.compile(r"np\.array\(\[\d+(?:, \d+)*\]\)$")


def _fit(recipe: Recipe, pair: OperatorPair, format_: str) -> FittedRecipe:
    longest = max((size for item in pair.inputs if item.kind == "float" for size in item.shape), default=0)
    indices = {item.name: len(_numbers(item)) for item in pair.inputs if _INDICES.match(item.expression)}
    summed = recipe.causes == (Cause.ACCUMULATION,)
    grown: dict[int, int] = {}
    if summed and indices:
        grown = dict.fromkeys(indices.values(), recipe.length)
    elif longest and not _named(longest, pair) and not _square(longest, pair):
        grown = {longest: max(recipe.length, longest)}
    found = []
    for item in pair.inputs:
        if item.kind == "expression":
            length = grown.get(indices.get(item.name, 0)) if summed else None
            # Sorted: segments ask for it, and nobody else minds.
            text = f"np.sort(np.resize({item.expression}, {length}))" if length else item.expression
        else:
            text = _random(item, grown) if item.kind != "float" else _values(recipe, item, grown, format_)
        found.append(RecipeInput(item.name, text))
    note = "" if grown or not longest else f"the calls fix the size {longest}: arrays are as long as the pair's"
    why = recipe.why.replace("{p}", str(FORMATS[format_].precision))
    return FittedRecipe(recipe.id, why, tuple(found), note)


def _values(recipe: Recipe, item: PairInput, grown: dict[int, int], format_: str) -> str:
    shape = tuple(grown.get(size, size) for size in item.shape)
    values = recipe.values.format(p=FORMATS[format_].precision, low=item.low, high=item.high)
    text = f"np.resize({values}, {shape})"
    return f"np.clip({text}, {item.low}, {item.high})" if recipe.clip else text


def _random(item: PairInput, grown: dict[int, int]) -> str:
    """Integers, booleans and complex values: spread over the pair's range, always the same."""
    shape = tuple(grown.get(size, size) for size in item.shape)
    if item.kind == "bool":
        return f"np.resize([True, False, False], {shape})"
    spread = f"np.resize(np.linspace({item.low}, {item.high}, 7), {shape})"
    return f"({spread} * (1 + 1j))" if item.kind == "complex" else f"np.rint({spread}).astype(np.{item.kind})"


def _square(size: int, pair: OperatorPair) -> bool:
    """True when an array has the size more than once: a matrix that grows both ways tells no more and costs a lot."""
    return any(item.shape.count(size) > 1 for item in pair.inputs)


def _named(size: int, pair: OperatorPair) -> bool:
    """True when a call, or an expression of the inputs, names the size: arrays of another size would not fit."""
    texts: Iterable[str] = (pair.torch_call, pair.tensorflow_call, *(item.expression for item in pair.inputs))
    return any(re.search(rf"(?<![\w.]){size}(?![\w.])", text) for text in texts)


def _numbers(item: PairInput) -> list[str]:
    return re.findall(r"\d+", item.expression)
