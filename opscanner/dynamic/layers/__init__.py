"""Fuzz and Check layers, for torch and for Keras.

:mod:`~opscanner.dynamic.layers.pytorch` is loaded when one of its names is asked for, so that
:mod:`~opscanner.dynamic.layers.keras` serves where torch is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opscanner.dynamic.layers.records import LayerRecord, NotDeterministic, PrecisionAlert

if TYPE_CHECKING:
    from opscanner.dynamic.layers.pytorch import (
        CheckLayer,
        FuzzCheck,
        FuzzLayer,
        add_fuzz_checks,
        fuzz_checks,
        remove_fuzz_checks,
    )

__all__ = [
    "CheckLayer",
    "FuzzCheck",
    "FuzzLayer",
    "LayerRecord",
    "NotDeterministic",
    "PrecisionAlert",
    "add_fuzz_checks",
    "fuzz_checks",
    "remove_fuzz_checks",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from opscanner.dynamic.layers import pytorch

        return getattr(pytorch, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
