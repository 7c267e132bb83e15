"""Reference results of operators: exact up to a stated bound, or undecided.

>>> import numpy as np
>>> (result,) = evaluate_reference("exp(x)", {"x": np.array([0.0, -np.inf])}, "float16", elementwise=True)
>>> result.values.tolist(), result.undecided.tolist()
([1.0, 0.0], [False, False])
"""

from __future__ import annotations

from opscanner.dynamic.oracle.oracle import Reference, evaluate_reference, refine

__all__ = ["Reference", "evaluate_reference", "refine"]
