"""Recipes of inputs that show what an operator loses, as rows of a table, fitted to the inputs of a pair.

A recipe says which values, in terms of the precision p of the tested format; the pair says how many inputs there are,
of which shape and range. Where the calls of a pair leave a size open, the arrays are made long enough for the effect
(``long_inputs.py`` for sums and products); a recipe whose effect a pair cannot show is left out, with the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opscanner.operators.long_inputs import Fitted, fit_reduction, fixed, longest
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
    terms : int
        Values that a reduction must take before the effect shows.
    reduces : str
        ``sum`` or ``product``, for accumulations; empty for the rest.
    calls : str
        What PyTorch's call of the pair must match; the recipe means nothing for others.
    """

    id: str
    causes: tuple[Cause, ...]
    values: str
    length: int
    clip: bool
    only: str
    why: str
    terms: int = 1
    reduces: str = ""
    calls: str = ""


#: float16 counts stall at 2**11 = 2048, bfloat16's at 2**8 = 256: 4096 terms are past both.
_MANY = 4096
_ROUNDING = (Cause.FUNCTION_CHAIN, Cause.COMPOSITE, Cause.SEVERAL_ROUNDINGS)
#: Not sums of products: those of 2**-p and 2**-p are no halves of a last place.
_ADDS_INPUTS = r"^(?!.*(?:conv|mm|matmul|linear|einsum|dot|mv|norm|var|std|loss|attention|cell|lstm|gru)).*"
#: A sum past the largest value is infinite, however it is added up; what is divided afterwards need not be.
_AVERAGES = r"^(?!grad\().*(?:mean|avg_pool|(?:batch|layer|group|instance|rms)_norm)"
RECIPES = (
    Recipe(
        "ones", (Cause.ACCUMULATION,), "np.ones(1)", _MANY, False, "",
        "a count: in a format of precision p, 2**p + 1 rounds back to 2**p, so that the sum stalls at 2048 (float16) "
        "or 256 (bfloat16)", terms=_MANY, reduces="sum",
    ),
    Recipe(
        "one_and_crumbs", (Cause.ACCUMULATION,), "np.r_[1.0, np.full(4095, 2.0**-{p})]", _MANY, False, "",
        "1 and many values of half its last place: each is absorbed when it is added by itself (a tie goes to even)",
        terms=_MANY, reduces="sum", calls=_ADDS_INPUTS,
    ),
    Recipe(
        "past_the_largest", (Cause.ACCUMULATION,), "np.full(1, 6e4)", _MANY, False, "float16",
        "two terms of 6e4 are past 65504: a mean that adds up first is infinite, its value is 6e4",
        terms=2, reduces="sum", calls=_AVERAGES,
    ),
    # (1 + u)**n with u = 2**(1 - p), an ULP of 1: each product rounds n u + n u**2 to n u, so that after n factors
    # n**2 / 2 * u**2 is lost, which is n**2 * u / 2 ULP: 128 for float16 and 1024 for bfloat16 with n = 512.
    Recipe(
        "near_one", (Cause.ACCUMULATION,), "np.full(1, 1 + 2.0 ** (1 - {p}))", 512, False, "",
        "the value after 1, 512 times: a product that is rounded each time grows by one ULP a factor, its value as "
        "exp does", terms=512, reduces="product",
    ),
    Recipe(
        "over_and_back", (Cause.ACCUMULATION,), "np.array([256.0, 256.0, 2.0**-8, 2.0**-8])", 512, False, "float16",
        "256 * 256 is past 65504 and the product of four is 1: multiplied in their order it is infinite on the way",
        terms=4, reduces="product",
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
    """A recipe for one pair and format. ``note`` says what could not be made as wanted, or what was chosen instead."""

    recipe: str
    why: str
    inputs: tuple[RecipeInput, ...]
    note: str = ""


def recipes_for(cause: Cause, pair: OperatorPair, format_: str) -> tuple[FittedRecipe, ...]:
    """The recipes for a cause, fitted to a pair and a format of the kind float16, bfloat16.

    Those of accumulations that the pair's reductions are too short for are left out: ``why_not_shown`` says why.
    """
    found = []
    for recipe in RECIPES:
        if cause not in recipe.causes or recipe.only not in ("", format_) or not _means(recipe, pair):
            continue
        if recipe.reduces:
            fitted = fit_reduction(pair, recipe.length)
            if fitted.terms >= recipe.terms:
                found.append(_write(recipe, fitted, format_))
        else:
            found.append(_write(recipe, _lengthened(recipe, pair), format_))
    return tuple(found)


def why_not_shown(cause: Cause, pair: OperatorPair) -> str:
    """Why recipes for an accumulation are left out for a pair; empty where none is, and for other causes."""
    if cause is not Cause.ACCUMULATION:
        return ""
    wanted = [one for one in RECIPES if one.reduces and _means(one, pair)]
    fits = [(recipe, fit_reduction(pair, recipe.length)) for recipe in wanted]
    missing = [(recipe, fitted) for recipe, fitted in fits if fitted.terms < recipe.terms]
    if not missing:
        return ""
    names = ", ".join(recipe.id for recipe, _ in missing)
    return f"cannot show {names}: {missing[0][1].note}"


def _means(recipe: Recipe, pair: OperatorPair) -> bool:
    """True when a recipe means something for what a pair computes."""
    return recipe.reduces in ("", reduction_of(pair)) and re.search(recipe.calls, pair.torch_call) is not None


def reduction_of(pair: OperatorPair) -> str:
    """``product`` for operators that multiply up, else ``sum``.

    >>> from opscanner.operators.pairs import find_pair
    >>> reduction_of(find_pair("cumprod")), reduction_of(find_pair("scaled_dot_product_attention"))
    ('product', 'sum')
    """
    return "product" if _PRODUCT.search(f"{pair.torch_call} {pair.tensorflow_call}") else "sum"


#: The calls that multiply up; not ``scaled_dot_product_attention``.
_PRODUCT = re.compile(r"(?<!\w)(?:cum)?prod\(|'prod'|raw\.(?:\w+)?Prod(?:V2)?\(|raw\.Cumprod\(|ScatterMul\(")


def _lengthened(recipe: Recipe, pair: OperatorPair) -> Fitted:
    """The pair's inputs, the longest dimension grown where the calls leave it open."""
    size = longest(pair)
    if not size or fixed(size, pair):
        note = f"the calls fix the size {size}: arrays are as long as the pair's" if size else ""
        return Fitted(pair.inputs, {}, {}, 1, note)
    return Fitted(pair.inputs, {size: max(recipe.length, size)}, {}, 1)


def _write(recipe: Recipe, fitted: Fitted, format_: str) -> FittedRecipe:
    found = []
    for item in fitted.inputs:
        if item.kind == "expression":
            length = fitted.indices.get(item.name)
            # Sorted: segments ask for it, and nobody else minds.
            text = f"np.sort(np.resize({item.expression}, {length}))" if length else item.expression
        else:
            text = _random(item, fitted.grown) if item.kind != "float" else _values(recipe, item, fitted.grown, format_)
        found.append(RecipeInput(item.name, text))
    why = recipe.why.replace("{p}", str(FORMATS[format_].precision))
    return FittedRecipe(recipe.id, why, tuple(found), fitted.note)


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
