"""Which calls put an operator together of several of a framework's: their errors are not the framework's fault."""

from __future__ import annotations

import ast
import functools
import math
import re

#: Namespaces whose functions are a framework's own (``opscanner/frameworks/*/runner.py``).
_NAMESPACES = ("raw", "tf", "torch", "F", "aten")

#: Functions that round nothing: they make, move, choose, compare or change a sign. In small letters, without ``_``.
_EXACT = frozenset((
    "abs", "adjoint", "amax", "amin", "argmax", "argmin", "bitcast", "broadcastto", "cast", "ceil", "clamp",
    "clipbyvalue", "clone", "coalesce", "concat", "concatv2", "conj", "constant", "contiguous", "detach",
    "diagonal", "empty", "equal", "expanddims", "fill", "flip", "float", "floor", "full", "fulllike", "gather",
    "gathernd", "gatherv2", "greater", "greaterequal", "handle", "identity", "imag", "indexcopy", "indexselect",
    "isfinite", "isnan", "less", "lessequal", "logicaland", "logicalnot", "logicalor", "long", "max", "maximum",
    "maxpool", "maxpool3d", "maxpoolv2", "min", "minimum", "neg", "onehot", "ones", "oneslike", "pad", "padv2",
    "permute", "range", "real", "relu", "relu6", "reshape", "resolveconj", "reverse", "reversev2", "round",
    "select", "selectv2", "shape", "sign", "slice", "sort", "sparsecootensor", "split", "squeeze", "stack",
    "stridedslice", "t", "tensor", "tile", "to", "todense", "topk", "transpose", "unsqueeze", "unstack", "values",
    "variable", "view", "where", "zeros", "zeroslike",
))  # fmt: skip


@functools.cache
def is_composite(call: str) -> bool:
    """True when an expression rounds in more than one call of a framework, or between its calls.

    What makes, moves, chooses or compares values rounds nothing, nor does a power of two as a factor. A gradient that
    is handed what the forward call of its name saved is one operator.

    >>> is_composite("raw.Softplus(features=x)"), is_composite("raw.Log(x=raw.Exp(x=x))")
    (False, True)
    >>> is_composite("nchw(raw.Conv2D(input=nhwc(x), filter=hwio(w)))"), is_composite("torch.exp(x) + 1.0")
    (False, True)
    """
    try:
        tree = ast.parse(call, mode="eval")
    except SyntaxError:
        return False
    rounding = [name for node in ast.walk(tree) if (name := _rounds(node))]
    if len(rounding) == 2 and len({_forward(name) for name in rounding}) == 1 and len(set(rounding)) == 2:
        return False
    return len(rounding) > 1


def _rounds(node: ast.AST) -> str:
    """The name of what rounds there; empty when nothing does."""
    if isinstance(node, ast.BinOp):
        return _arithmetic(node)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return ""
    root: ast.AST = node.func
    while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript)):
        root = root.func if isinstance(root, ast.Call) else root.value
    method = isinstance(root, ast.Name) and root.id not in (*_NAMESPACES, "np")
    if not method and not (isinstance(root, ast.Name) and root.id in _NAMESPACES):
        return ""
    name = node.func.attr.lower().replace("_", "")
    return "" if name in _EXACT else name


def _arithmetic(node: ast.BinOp) -> str:
    sides = (node.left, node.right)
    if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.MatMult)):
        return ""
    named = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    if named <= {"np"} or any(_is_size(side) for side in sides):
        return ""
    if any(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in sides):  # of an index
        return ""
    if isinstance(node.op, (ast.Mult, ast.Div)) and any(_is_power_of_two(side) for side in sides):
        return ""
    return type(node.op).__name__


def _is_size(node: ast.AST) -> bool:
    """A shape, or what numpy makes: numbers about the call, or constants of it."""
    text = ast.unparse(node)
    return ".shape" in text or ".ndim" in text or text.startswith(("np.", "(", "["))


def _is_power_of_two(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_power_of_two(node.operand)
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, (int, float)) and value > 0 and math.frexp(value)[0] == 0.5


def _forward(name: str) -> str:
    """``BlockLSTMGradV2`` is the gradient of ``BlockLSTMV2``."""
    return re.sub(r"grad|v\d+$", "", name)
