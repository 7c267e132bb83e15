"""Which operators a composite operator calls by their public names (``layer_norm``: ``at::native_layer_norm``).

Read from text alone: composite functions run on the host, in files that a scan of kernels need not see.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opscanner.frameworks.declarations import Declarations, PlaceKind
from opscanner.operators.reach import Step

#: A composite operator that reaches another only through more operators than this hardly is made of it.
MAX_OPERATORS = 4
#: Functions to follow between a registration and the call of an operator.
MAX_FUNCTIONS = 3


class Delegated(NamedTuple):
    """An operator that another one calls."""

    target: str
    distance: int
    path: tuple[Step, ...]


def find_delegations(declared: Declarations, registrations: Mapping[str, Sequence[int]]) -> dict[str, list[Delegated]]:
    """By operator, the operators that its composite functions call, directly or through other composite operators."""
    direct = {name: _called(declared, indices, name) for name, indices in registrations.items()}
    return {name: _closure(name, direct) for name, found in direct.items() if found}


def _composite(declared: Declarations, registrations: Sequence[int]) -> list[int]:
    """Registrations that serve every device, but for those of overloads that have kernels of their own.

    Where an overload has both (``native_layer_norm``), the composite function is for other devices.
    """
    own = {
        declared.registrations[index].target.partition(" ")[0]
        for index in registrations
        if declared.registrations[index].device != "any" and declared.registrations[index].dense
    }
    return [
        index
        for index in registrations
        if declared.registrations[index].device == "any"
        and declared.registrations[index].target.partition(" ")[0] not in own
    ]


def _called(declared: Declarations, registrations: Sequence[int], name: str) -> dict[str, tuple[Step, ...]]:
    found: dict[str, tuple[Step, ...]] = {}
    seen: set[int] = set()
    queue: deque[tuple[int, int, tuple[Step, ...]]] = deque()
    for index in _composite(declared, registrations):
        registration = declared.registrations[index]
        first = Step(f"{registration.kind} {registration.target}", registration.file, registration.line)
        queue.extend((place, 0, (first,)) for place in registration.places)
    while queue:
        index, depth, path = queue.popleft()
        place = declared.places[index]
        if index in seen or place.device != "any" or not place.file:
            continue
        seen.add(index)
        here = (*path, Step(place.name, place.file, place.line))
        for mention in place.mentions:
            target = declared.places[mention.target]
            if target.kind is PlaceKind.OPERATOR:
                if target.name != name:
                    found.setdefault(target.name, (*here, Step(target.name, mention.file, mention.line)))
            elif target.kind is PlaceKind.FUNCTION and depth < MAX_FUNCTIONS:
                queue.append((mention.target, depth + 1, here))
    return found


def _closure(name: str, direct: Mapping[str, dict[str, tuple[Step, ...]]]) -> list[Delegated]:
    found: dict[str, Delegated] = {}
    queue = deque([Delegated(name, 0, ())])
    while queue:
        current = queue.popleft()
        if current.distance >= MAX_OPERATORS:
            continue
        for target, path in direct.get(current.target, {}).items():
            if target != name and target not in found:
                # The operator just reached already stands at the path's end: its own registration follows.
                found[target] = Delegated(target, current.distance + 1, (*current.path, *path))
                queue.append(found[target])
    return list(found.values())
