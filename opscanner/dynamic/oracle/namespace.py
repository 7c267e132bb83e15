"""The names that a reference expression may use."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import autograd.numpy as anp

from opscanner.dynamic.oracle import bessel, functions, references, special
from opscanner.errors import OpscannerError


@functools.cache
def reference_names() -> Mapping[str, Any]:
    """The public functions of ``functions``, ``special``, ``bessel`` and ``references``; ``np`` is autograd's numpy.

    Raises
    ------
    OpscannerError
        When two files define one name.
    """
    found: dict[str, Any] = {"np": anp, "anp": anp}
    for module in (functions, special, bessel):
        found.update(_defined(module))
    origin = dict.fromkeys(found, "the oracle's own functions")
    for entry in pkgutil.iter_modules(references.__path__):
        module = importlib.import_module(f"{references.__name__}.{entry.name}")
        for name, value in _defined(module).items():
            if name in found and found[name] is not value:
                raise OpscannerError(
                    f"the reference {name!r} of {entry.name}.py is also one of {origin[name]}", "rename one of them"
                )
            found[name], origin[name] = value, f"{entry.name}.py"
    return found


def _defined(module: ModuleType) -> dict[str, Any]:
    """What a module lists as ``__all__``, else the public functions that it defines itself."""
    if listed := getattr(module, "__all__", None):
        return {name: getattr(module, name) for name in listed}
    return {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
