"""Discrete Fourier transforms and parts of complex numbers: float64 and longdouble only, there are no complex balls.

numpy transforms longdouble in longdouble (since 2.0), by pocketfft.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opscanner.dynamic.oracle.functions import NoSecondOpinion
from opscanner.dynamic.oracle.references.arrays import Array, fixed


def transform(x: Array, axes: Sequence[int] = (-1,), inverse: bool = False) -> Array:
    """The transform of complex ``x``: a sum, or with ``inverse`` a mean, of turned elements."""
    return _numbers(np.fft.ifftn if inverse else np.fft.fftn, x, axes)


def real_transform(x: Array, axes: Sequence[int] = (-1,)) -> Array:
    """The half of the transform of real ``x`` that says all."""
    return _numbers(np.fft.rfftn, x, axes)


def complex_of(real: Array, imaginary: Array) -> Array:
    """Complex numbers of their parts."""
    real, imaginary = _plain(real), _plain(imaginary)
    made = np.empty(real.shape, dtype=np.clongdouble if real.dtype == np.longdouble else np.complex128)
    made.real, made.imag = real, imaginary
    return made


def _numbers(function: object, x: Array, axes: Sequence[int]) -> Array:
    return function(_plain(x), axes=axes)  # type: ignore[operator]


def _plain(x: Array) -> Array:
    values = np.asarray(fixed(x))
    if values.dtype == object:
        raise NoSecondOpinion("there are no complex balls")
    return values


def inverse_real_transform(x: Array, sizes: Sequence[int]) -> Array:
    """Real numbers of ``sizes`` in the last dimensions, from the half of their transform."""
    values = _plain(x)
    return np.fft.irfftn(values, s=sizes, axes=range(-len(sizes), 0))


def angle_of(x: Array) -> Array:
    """The angle of complex numbers in [-pi, pi]; its sign is that of the imaginary part, zeros too."""
    values = _plain(x)
    return np.arctan2(values.imag, values.real)


def modulus(x: Array) -> Array:
    """The absolute value of complex numbers, without overflow on the way."""
    values = _plain(x)
    return np.hypot(values.real, values.imag)
