"""Which definitions reach a use: environments that branch and join, and markers that stand for the next iteration.

A value is a tuple of definitions: indices of nodes, or negative *markers*. A marker stands for "what this variable
holds at the end of the loop's body", which is not known while the body is walked; it is resolved when the function
is done. What is approximated: ``break``, ``continue`` and ``goto`` fall through, an array or a struct is one variable
(a store to a part does not end the others' definitions), and a pointer's target is the pointer.
"""

from __future__ import annotations

from collections.abc import Iterable

Value = tuple[int, ...]
NO_VALUE: Value = ()
Environment = dict[object, Value]


def union(values: Iterable[Value]) -> Value:
    """All definitions of several values, each once, in order."""
    found: dict[int, None] = {}
    for value in values:
        for definition in value:
            found[definition] = None
    return tuple(found)


class Flow:
    """The reaching definitions at the point of the walk.

    Attributes
    ----------
    environment : dict
        Variable -> value.
    alive : bool
        False after a ``return`` until control flow joins again.
    """

    def __init__(self) -> None:
        self.environment: Environment = {}
        self.alive = True
        self._loop_ends: dict[int, Value] = {}
        self._active: dict[object, list[int]] = {}
        self._next_marker = -1

    def define(self, variable: object, value: Value) -> None:
        self.environment[variable] = value

    def add(self, variable: object, value: Value) -> None:
        """A definition that does not end the earlier ones."""
        self.environment[variable] = union((self.environment.get(variable, NO_VALUE), value))

    def split(self) -> tuple[Environment, bool]:
        """The state to go back to for the other branch."""
        return dict(self.environment), self.alive

    def resume(self, state: tuple[Environment, bool]) -> tuple[Environment, bool]:
        """Go back to a saved state; gives the present one."""
        present = (self.environment, self.alive)
        self.environment, self.alive = dict(state[0]), state[1]
        return present

    def join(self, other: tuple[Environment, bool]) -> None:
        """Control may come from here or from ``other``."""
        environment, alive = other
        if not alive:
            return
        if not self.alive:
            self.environment, self.alive = environment, True
            return
        mine = self.environment
        for variable, value in environment.items():
            present = mine.get(variable)
            if present is None:
                mine[variable] = value
            elif present != value:
                mine[variable] = union((present, value))

    def enter_loop(self, assigned: Iterable[object]) -> dict[object, int]:
        """Mark the variables that the loop assigns and that were defined before it."""
        markers = {}
        for variable in assigned:
            if variable in self.environment and variable not in markers:
                marker = self._next_marker
                self._next_marker -= 1
                markers[variable] = marker
                self.environment[variable] = (*self.environment[variable], marker)
                self._active.setdefault(variable, []).append(marker)
        return markers

    def leave_loop(self, markers: dict[object, int]) -> None:
        for variable, marker in markers.items():
            self._loop_ends[marker] = self.environment.get(variable, NO_VALUE)
            self._active[variable].pop()

    def carried(self, value: Value) -> bool:
        """True when a definition of a previous iteration of a loop around this point may reach here."""
        active = {markers[-1] for markers in self._active.values() if markers}
        return any(definition in active for definition in value if definition < 0)

    def resolve(self, marker: int) -> Value:
        """The node indices that a marker stands for."""
        found: dict[int, None] = {}
        seen = {marker}
        waiting = [marker]
        while waiting:
            for definition in self._loop_ends.get(waiting.pop(), NO_VALUE):
                if definition >= 0:
                    found[definition] = None
                elif definition not in seen:
                    seen.add(definition)
                    waiting.append(definition)
        return tuple(found)
