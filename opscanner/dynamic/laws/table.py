"""The laws, and the operators that are excused from one."""

from __future__ import annotations

from functools import partial

from opscanner.dynamic.laws import algebra, places
from opscanner.dynamic.laws.law import Law

_LAYOUT = "kernels choose their path by stride and alignment, and the two paths compute or round differently"
_FUNCTION = "where the catalog's reference obeys it in float64"

LAWS: tuple[Law, ...] = (
    Law(
        "repeated", "The same call gives the same bits.", "every operator but random ones",
        "the result depends on uninitialized memory, on threads or on what ran before", places.repeated,
    ),
    Law(
        "strided", "Every second element of a longer array gives what a contiguous array of the same values gives.",
        "every operator with an input of two elements and more", _LAYOUT, partial(places.in_layout, "strided"),
        frameworks=("pytorch",),
    ),
    Law(
        "transposed", "An array with its last two axes swapped in memory gives what a contiguous one gives.",
        "every operator with an input of two axes", _LAYOUT, partial(places.in_layout, "transposed"),
        frameworks=("pytorch",),
    ),
    Law(
        "offset", "An array that begins off the alignment of vectors gives what an aligned one gives.",
        "every operator", _LAYOUT, partial(places.in_layout, "offset"), frameworks=("pytorch",),
    ),
    Law(
        "channels_last", "An image with its channels innermost in memory gives what a contiguous one gives.",
        "every operator that takes four axes", _LAYOUT, partial(places.in_layout, "channels_last"),
        frameworks=("pytorch",),
    ),
    Law(
        "one_element", "An element alone gives what it gives among others.", "elementwise operators",
        "arrays of one element take another path than vectors", places.one_element,
    ),
    Law(
        "first_of_n", "The first n elements alone give what they give in front of more.", "elementwise operators",
        "the path behind the last whole vector computes or rounds differently", places.first_of_n,
    ),
    Law(
        "position", "A value gives the same at every position modulo the width of a vector.", "elementwise operators",
        "the path behind the last whole vector computes or rounds differently", places.any_position,
    ),
    Law(
        "zero_dim", "An array without axes gives what an array of one element gives.", "elementwise operators",
        "arrays without axes take part in type promotion, and in the choice of a kernel, as scalars do",
        places.without_axes,
    ),
    Law(
        "broadcast", "An input of one element gives what an array full of it gives.",
        "elementwise operators of several inputs, where the shape of the result stays",
        "a scalar operand takes another path than an array", places.one_for_all,
    ),
    Law(
        "one_row", "A slice along an axis alone gives what it gives among others.",
        f"all but elementwise operators, {_FUNCTION}", "blocking by the number of rows changes a row's sum",
        places.one_row,
    ),
    Law(
        "permuted", "Axes in another order leave results as they are, or bring them in that order.",
        f"all but elementwise operators, {_FUNCTION}", "sums are held in too narrow a format: their order shows",
        algebra.permuted,
    ),
    Law(
        "reversed", "Axes from back to front leave results as they are, or turn them round.",
        f"all but elementwise operators, {_FUNCTION}", "sums are held in too narrow a format: their order shows",
        algebra.reversed_,
    ),
    Law(
        "in_parts", "The result of the whole is the sum of the results of both halves.",
        f"all but elementwise operators, {_FUNCTION} for terms of one sign",
        "a sum stalls in too narrow a format, or overflows", algebra.in_parts,
    ),
    Law(
        "shifted", "A shift of all inputs leaves results as they are, or shifts them.",
        f"all but elementwise operators, {_FUNCTION}",
        "the largest value is not taken off before exponentials, or the mean before squares", algebra.shifted,
    ),
    Law(
        "scaled", "Inputs times four give results times a power of two.", f"every operator, {_FUNCTION}",
        "a constant, an epsilon or an intermediate result matters at some magnitudes", algebra.scaled,
    ),
    Law(
        "negated", "Odd functions turn their sign with their inputs, even ones do not.", f"every operator, {_FUNCTION}",
        "the branches for negative and positive inputs compute differently", algebra.negated,
    ),
    Law(
        "swapped", "Inputs that may change places give the same, but for the sign of a difference.",
        f"operators of two inputs of one shape and more, {_FUNCTION}", "the order of rounded steps shows",
        algebra.swapped,
    ),
    Law(
        "twice", "Functions that leave their own results alone do so.",
        f"elementwise operators of one input, {_FUNCTION}", "results are not the values that the function maps to",
        algebra.twice,
    ),
    Law(
        "ordered", "Monotone functions give results in the order of their inputs.",
        f"elementwise operators of one input, {_FUNCTION} on all finite values of a 16-bit format",
        "branches do not meet, or an intermediate result is rounded to the storage format", algebra.ordered,
    ),
    Law(
        "compiled", "The compiler's result is that of the call operator by operator.", "every operator",
        "the compiler keeps intermediate results in another format, or has other formulas", places.compiled,
        asked=True,
    ),
    Law(
        "gpu", "A GPU gives what the CPU gives.", "every operator, where there is a GPU",
        "one of the two has a kernel that rounds in between", places.on_gpu, asked=True,
    ),
)  # fmt: skip

#: Law, framework and operator (``fnmatch`` patterns) of what is excused, and why.
EXCUSED: tuple[tuple[str, str, str, str], ...] = (
    ("*", "*", "fractional_max_pool2d*", "its regions are drawn at random"),
    ("one_row", "*", "unique_consecutive", "a slice has other repetitions than the whole"),
    ("swapped", "*", "rprop*", "gradients may change places but where one of them is zero"),
    ("swapped", "pytorch", "add_n", "the catalog's call is two additions, each of which rounds its result"),
)
