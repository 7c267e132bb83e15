"""Which layers must be upcast, as rows and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscanner.dynamic.running.bisection import Bisection, UpcastLayer

COLUMNS = ("upcast", "layer", "class", "calls", "parameters", "cost", "gain", "error without", "error alone")

CSV_COLUMNS = (
    "is_in_smallest", "path", "kind", "is_own_code", "calls", "parameters", "cost", "gain", "error_without",
    "error_alone", "refused",
)  # fmt: skip

_UNITS = {"ulp": " ULP", "relative": "", "norm": ""}


def rows(found: Bisection) -> Iterator[Sequence[Any]]:
    """Cells of :data:`COLUMNS`, in the order of the ranking."""
    for layer in found.layers:
        figures = (layer.cost, layer.gain, layer.error_without, layer.error_alone)
        yield (
            layer.is_in_smallest,
            name_of(layer),
            layer.kind,
            layer.calls,
            layer.parameters,
            *("refused" if figure is None else f"{figure:.3g}" for figure in figures),
        )


def csv_rows(found: Bisection) -> Iterator[Sequence[Any]]:
    """Cells of :data:`CSV_COLUMNS`."""
    for layer in found.layers:
        yield tuple(getattr(layer, name) for name in CSV_COLUMNS)


def as_json(found: Bisection) -> dict[str, Any]:
    """Everything, the layers in their order."""
    return asdict(found)


def name_of(layer: UpcastLayer) -> str:
    """A layer's path, and whether only the code between the modules that it calls is meant."""
    path = layer.path or "(model)"
    return f"{path} (own code)" if layer.is_own_code else path


def lines(found: Bisection) -> Iterator[str]:
    """What was found, in words."""
    unit = _UNITS[found.metric]
    yield (
        f"error of the model in {found.format}: {found.error:.3g}{unit}; with everything in {found.to}: "
        f"{found.error_everything:.3g}{unit}; of the float64 run rounded to the output's format: "
        f"{found.error_rounding:.3g}{unit}"
    )
    yield _verdict(found, unit)
    for layer in found.layers:
        if layer.refused:
            yield f"skipped: {name_of(layer)} cannot be upcast: {layer.refused}"
    for note in found.notes:
        yield f"note: {note}"
    yield f"{found.runs} sets of layers run"


def _verdict(found: Bisection, unit: str) -> str:
    tolerance = f"{found.tolerance:.3g}{unit}"
    if found.smallest is None:
        advice = "a wider format (--to float64)" if found.error_everything > 1.5 * found.error_rounding else (
            "a larger tolerance: the output's own format is what is left"
        )  # fmt: skip
        return f"not even everything in {found.to} comes within {tolerance}; try {advice}"
    if not found.smallest:
        return f"the model is within {tolerance} as it is: nothing need be upcast"
    names = {layer.path: name_of(layer) for layer in found.layers}
    if found.is_proven_smallest:
        surety = "no smaller set does: all were tried"
    elif found.is_minimal:
        surety = "none of them can be left out; smaller sets of others were not all tried"
    else:
        surety = "the runs allowed were used up before each was tried without (--max-runs)"
    return (
        f"within {tolerance} ({found.error_smallest:.3g}) when these {len(found.smallest)} are upcast: "
        f"{', '.join(names[path] for path in found.smallest)}; {surety}"
    )
