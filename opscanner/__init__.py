"""Know in which precision deep-learning operators really compute, from source and by measurement.

``opscanner.watch(model)`` checks a running torch model; everything else is in :mod:`opscanner.api`.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from opscanner.dynamic.running.session import watch as watch


def __getattr__(name: str) -> Any:
    """``watch`` brings torch, and so is imported when it is asked for."""
    if name == "watch":
        from opscanner.installed import require

        require("watching a model", ("torch", "safetensors"), "dynamic,torch")
        from opscanner.dynamic.running.session import watch

        return watch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
