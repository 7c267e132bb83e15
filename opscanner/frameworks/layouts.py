"""How the elements of an input lie in memory: a kernel is often chosen by that alone."""

from __future__ import annotations

from collections.abc import Iterable

from opscanner.errors import OpscannerError

#: What a runner takes as ``layout``. ``contiguous``: row-major. ``strided``: every second element of a larger array.
#: ``transposed``: the last two axes swapped in memory. ``offset``: begins one element behind an aligned place.
#: ``channels_last``: of (n, c, ...) with 2 or 3 further axes the channel lies innermost. ``zero_dim``: an input of one
#: element without axes.
LAYOUTS = ("contiguous", "strided", "transposed", "offset", "channels_last", "zero_dim")


class LayoutError(OpscannerError):
    """A layout that a framework does not have, or that none of the inputs can take: the trial would repeat another."""


def can_take(shape: tuple[int, ...], layout: str) -> bool:
    """True when an array of this shape lies in memory otherwise than a contiguous one (for zero_dim: has other axes).

    >>> can_take((4,), "transposed"), can_take((4, 2), "transposed"), can_take((1, 1), "zero_dim")
    (False, True, True)
    """
    size = 1
    for length in shape:
        size *= length
    if not shape or size == 0:
        return False
    if layout == "strided":
        return shape[-1] > 1
    if layout == "transposed":
        return len(shape) >= 2 and min(shape[-2:]) > 1
    if layout == "channels_last":
        return len(shape) in (4, 5) and shape[1] > 1 and size > shape[0] * shape[1]
    if layout == "zero_dim":
        return size == 1
    return layout == "offset"


def check_layout(shapes: Iterable[tuple[int, ...]], layout: str, offered: Iterable[str]) -> None:
    """Says whether a trial with this layout is one of its own.

    Raises
    ------
    LayoutError
        When the layout is not among those ``offered``, or no input can take it.
    """
    if layout not in offered:
        raise LayoutError(f"layout {layout} is not offered here", f"one of {', '.join(offered)}")
    shapes = list(shapes)
    if layout != "contiguous" and not any(can_take(shape, layout) for shape in shapes):
        raise LayoutError(f"no input can be {layout}: shapes {shapes}", "contiguous")
