"""The relative difference of two results as FuMi takes it, and all else that is said of two arrays.

FuMi: Zhang et al., "A Runtime Fuzz-based Machine Learning Precision Measurement and Testing Framework",
doi 10.1145/3734866.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscanner.precision.formats import FORMATS, part_format
from opscanner.precision.ulp import ulp_error, ulp_of

#: Elements whose smaller magnitude is not above it are left out of the relative error.
FUMI_TOLERANCE = {"float64": 1e-8, "float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-2}

#: What its fuzz layer ("add_noise") adds to an element, where the element exceeds the square root of it.
FUMI_NOISE = {"float64": 1e-16, "float32": 1e-8, "float16": 1e-6, "bfloat16": 1e-4}


def absolute_tolerance(format_: str) -> float:
    """The magnitude up to which elements of a format are left out of relative errors.

    Formats that FuMi does not name have its rule of thumb, the square root of their epsilon.

    >>> absolute_tolerance("float16"), absolute_tolerance("float8_e5m2")
    (0.001, 0.5)
    """
    part = part_format(format_)
    if part in FUMI_TOLERANCE:
        return FUMI_TOLERANCE[part]
    return 2.0 ** ((1 - FORMATS[part].precision) / 2) if part in FORMATS else 0.0


@dataclass(frozen=True)
class Difference:
    """What two arrays differ by, the second being the reference; figures are over pairs of finite numbers.

    The fields are those of :class:`opscanner.dynamic.running.compare.Comparison`.
    """

    max_relative_error: float
    max_ulp: float
    max_scaled_ulp: float
    worst_index: tuple[int, ...]
    worst: tuple[float, float]
    nan_mismatches: int
    infinity_mismatches: int


def difference_of(first: Any, second: Any, format_: str) -> Difference:
    """The difference of two arrays of one shape, values of a format.

    >>> difference_of([1.0, 0.0], [3.0, 1e-9], "float32").max_relative_error
    0.5
    """
    got, reference = np.asarray(first).astype(np.float64), np.asarray(second).astype(np.float64)
    shape, got, reference = got.shape, got.reshape(-1), reference.reshape(-1)
    nan = np.isnan(got) != np.isnan(reference)
    infinite = (np.isinf(got) | np.isinf(reference)) & ~np.isnan(got) & ~np.isnan(reference) & (got != reference)
    finite = np.isfinite(got) & np.isfinite(reference)
    got_finite, reference_finite = np.where(finite, got, 0.0), np.where(finite, reference, 0.0)
    with np.errstate(all="ignore"):
        apart = np.minimum(np.abs(got_finite - reference_finite), np.finfo(np.float64).max)
        counted = np.minimum(np.abs(got_finite), np.abs(reference_finite)) > absolute_tolerance(format_)
        relative = np.where(counted & (apart > 0), apart / np.abs(got_finite + reference_finite), 0.0)
    worst = -1
    if got.size:
        in_kind = np.flatnonzero(nan | infinite)
        worst = int(in_kind[0]) if in_kind.size else int(np.argmax(relative if relative.max() > 0 else apart))
    largest = float(np.abs(reference_finite).max(initial=0.0))
    errors = ulp_error(got_finite, reference_finite, format_)
    return Difference(
        max_relative_error=float(relative.max(initial=0.0)),
        max_ulp=float(errors.max(initial=0.0)),
        max_scaled_ulp=float(apart.max(initial=0.0) / ulp_of(largest, format_)),
        worst_index=tuple(int(at) for at in np.unravel_index(worst, shape)) if worst >= 0 else (),
        worst=(float(got[worst]), float(reference[worst])) if worst >= 0 else (float("nan"), float("nan")),
        nan_mismatches=int(nan.sum()),
        infinity_mismatches=int(infinite.sum()),
    )
