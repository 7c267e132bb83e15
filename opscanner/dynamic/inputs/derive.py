"""Inputs that were changed by hand: what is derived from them follows, and the domain is asked again."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from opscanner.dynamic.inputs.domain import allowed_places
from opscanner.dynamic.inputs.fitting import Arrays, evaluate_expression, keeps_ranges
from opscanner.operators.catalog import Operator


def with_values(
    operator: Operator, format_: str, arrays: Mapping[str, np.ndarray], changed: Mapping[str, np.ndarray]
) -> Arrays | None:
    """The inputs with other values in some of them, which must be values of the format.

    Expressions that depend on the changed inputs are evaluated anew and rounded; index lists and the like stay as they
    are in ``arrays``. None when an expression refuses the values.
    """
    found: Arrays = {}
    moved = set(changed)
    for item in operator.inputs:
        if item.name in changed:
            found[item.name] = changed[item.name]
        elif item.kind == "expression" and any(re.search(rf"\b{name}\b", item.expression) for name in moved):
            value = evaluate_expression(item.expression, found, format_)
            if value is None:
                return None
            found[item.name] = value
            moved.add(item.name)
        else:
            found[item.name] = arrays[item.name]
    return found


def inside_domain(operator: Operator, arrays: Mapping[str, np.ndarray], shape: tuple[int, ...] = ()) -> np.ndarray:
    """Places of a shape that lie in the operator's domain; with no shape, whether everything does.

    Where :func:`~opscanner.dynamic.inputs.fitting.keeps_ranges`, the ranges of the operator's row are part of it.
    """
    allowed = allowed_places(operator.domain, arrays, shape)
    for item in operator.float_inputs if keeps_ranges(operator) else ():
        value = arrays[item.name]
        held = (value >= item.low) & (value <= item.high)
        allowed = allowed & (held if held.shape == shape else bool(held.all()))
    return allowed
