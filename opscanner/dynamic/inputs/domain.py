"""Where values lie in the domain that a reference states: numpy conditions over the inputs, joined by ``&``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from opscanner.errors import OpscannerError


def allowed_places(domain: str, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """True where every condition holds; a condition of another shape holds everywhere or nowhere.

    >>> allowed_places("(x > 0) & (y != 1)", {"x": np.array([1.0, -1.0, 2.0]), "y": np.array([1.0, 0.0, 0.0])}, (3,))
    array([False, False,  True])
    """
    allowed: np.ndarray = np.ones(shape, dtype=bool)
    for condition in _conditions(domain):
        allowed = allowed & _holds(condition, arrays, shape)
    return allowed


def allowed_in(name: str, domain: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which elements of one input may stay as they are, by the conditions that name it."""
    allowed: np.ndarray = np.ones(arrays[name].shape, dtype=bool)
    for condition in _conditions(domain):
        if name in _names(condition):
            allowed = allowed & _holds(condition, arrays, arrays[name].shape)
    return allowed


def _holds(condition: str, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):
            value = eval(condition, {"np": np, **arrays})  # noqa: S307  (the project's own tables)
    except Exception as error:  # whatever a wrong table makes numpy raise
        raise OpscannerError(f"the domain {condition!r} fails: {error}", "correct the reference's row") from error
    found = np.asarray(value, dtype=bool)
    return found if found.shape == shape else np.full(shape, bool(found.all()))


@lru_cache(maxsize=1024)
def _conditions(domain: str) -> tuple[str, ...]:
    """The parts of a domain that ``&`` joins."""
    if not domain:
        return ()
    parts: list[str] = []
    left: list[ast.expr] = [ast.parse(domain, mode="eval").body]
    while left:
        node = left.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
            left += [node.left, node.right]
        else:
            parts.append(ast.unparse(node))
    return tuple(reversed(parts))


@lru_cache(maxsize=1024)
def _names(condition: str) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(ast.parse(condition)) if isinstance(node, ast.Name)) - {"np"}
