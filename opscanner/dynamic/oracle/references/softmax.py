"""The softmax."""

from __future__ import annotations

from typing import Any

import autograd.numpy as anp

from opscanner.dynamic.oracle.functions import exp
from opscanner.dynamic.oracle.sums import sum_


def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x) over its sum along ``axis`` (torch.nn.functional.softmax)."""
    shifted = exp(x - anp.max(x, axis=axis, keepdims=True))
    return shifted / sum_(shifted, axis=axis, keepdims=True)
