"""How ill-conditioned a sum is: what its terms add up to without their signs, and how many they are.

A sum of products errs by at most ``n u sum |terms|`` in any order (Higham, Accuracy and Stability of Numerical
Algorithms, 3.1 and 4.2), ``u`` being half an ULP of the format that it is added up in. Where the terms cancel, that is
much beside the result, and a wider run that comes out right was lucky.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from opscanner.dynamic.oracle.namespace import reference_names
from opscanner.precision.formats import FORMATS

#: Functions of references that only add up products of their inputs, and weights that are not negative, or move them.
_SUMS = frozenset((
    "adaptive_avg_pool", "add_n", "avg_pool", "bincount", "concatenate", "conv", "conv_input_gradient",
    "conv_transpose", "cumsum", "diagonal", "embedding_bag", "embedding_bag_gradient", "flip", "grad", "index_add",
    "matmul", "matrix_vector", "mean", "put_zeros", "reshape", "scatter_add", "segment_mean", "segment_sum", "stack",
    "swapped", "total", "transpose", "vector_dot",
))  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """Of each element of an output: the sum of its terms' magnitudes, and (at least) how many terms there are."""

    magnitude: np.ndarray
    count: np.ndarray


def terms_of(expression: str, inputs: Mapping[str, np.ndarray], format_: str) -> tuple[Terms, ...] | None:
    """The terms of each output of a reference that is a sum of products; None for any other reference.

    A mean counts as the sum of its terms over their number; what is counted is never below inputs for each output.

    >>> (found,) = terms_of("x - y", {"x": np.array([3.0]), "y": np.array([2.0])}, "float16")
    >>> found.magnitude.tolist(), found.count.tolist()
    ([5.0], [2.0])
    """
    code = _without_signs(expression)
    if code is None or any(np.iscomplexobj(value) for value in inputs.values()):
        return None
    magnitudes = _evaluate(code, {name: _magnitude(value) for name, value in inputs.items()}, format_)
    counts = _evaluate(code, {name: _one(value) for name, value in inputs.items()}, format_)
    size = sum(np.size(value) for value in inputs.values())
    return tuple(
        Terms(magnitude, np.maximum(count, size / max(magnitude.size, 1)))
        for magnitude, count in zip(magnitudes, counts, strict=True)
    )


def scales_of(expression: str, inputs: Mapping[str, np.ndarray], format_: str) -> tuple[np.ndarray, ...]:
    """What a catalog's row says of its largest intermediate results, for each output, in float64.

    ``smallest`` in an expression is the format's smallest normal number: below it a rounding is as large as there.
    """
    named = {**inputs, "smallest": np.asarray(2.0 ** FORMATS[format_].emin)}
    return tuple(_evaluate(ast.parse(expression, mode="eval"), named, format_))


def terms_of_output(
    expression: str, inputs: Mapping[str, np.ndarray], format_: str, position: int, shape: tuple[int, ...]
) -> Terms | None:
    """As :func:`terms_of` for one output; None where it is of another shape too."""
    found = terms_of(expression, inputs, format_)
    terms = found[position] if found is not None and position < len(found) else None
    return terms if terms is not None and terms.magnitude.shape == shape else None


def scale_of_output(
    expression: str, inputs: Mapping[str, np.ndarray], format_: str, position: int, shape: tuple[int, ...]
) -> np.ndarray | None:
    """As :func:`scales_of` for one output; None for a row that says nothing, or something of another shape."""
    if not expression:
        return None
    scale = scales_of(expression, inputs, format_)[position]
    return scale if scale.shape == shape else None


def _evaluate(code: ast.Expression, inputs: Mapping[str, np.ndarray], format_: str) -> list[np.ndarray]:
    names = {**reference_names(), "format_": format_, **inputs}
    with np.errstate(all="ignore"):
        found = eval(compile(code, "<terms>", "eval"), names)  # noqa: S307  (our own tables)
    outputs = found if isinstance(found, (tuple, list)) else (found,)
    return [np.abs(np.asarray(one, float)) for one in outputs]


def _magnitude(value: np.ndarray) -> np.ndarray:
    value = np.asarray(value)
    return np.abs(value).astype(float) if value.dtype.kind == "f" else value


def _one(value: np.ndarray) -> np.ndarray:
    value = np.asarray(value)
    return np.ones(value.shape) if value.dtype.kind == "f" else value


@functools.cache
def _without_signs(expression: str) -> ast.Expression | None:
    """The expression with sums for differences; None where it does more than to add, multiply and move."""
    if not expression:
        return None
    tree = ast.parse(expression, mode="eval")
    try:
        found = _Unsigned().visit(tree)
    except _NoSumError:
        return None
    made: ast.Expression = ast.fix_missing_locations(found)
    return made


class _NoSumError(Exception):
    """The expression is no sum of products."""


class _Unsigned(ast.NodeTransformer):
    """Takes minus signs from what is added and multiplied; those of axes and sizes, in calls, stay."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Div) and not _is_number(node.right):
            raise _NoSumError
        if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            raise _NoSumError
        op = ast.Add() if isinstance(node.op, ast.Sub) else node.op
        return ast.BinOp(self._term(node.left), op, self._term(node.right))

    def _term(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node = node.operand
        found: ast.expr = self.visit(node)
        return found

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Whole numbers are axes; any other one is a weight."""
        whole = isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int)
        return node if whole else self._term(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value == "max":
            raise _NoSumError
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name) or node.func.id not in _SUMS:
            raise _NoSumError
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.Compare, ast.BoolOp, ast.IfExp, ast.comprehension)):
            raise _NoSumError
        return super().generic_visit(node)


def _is_number(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
