"""The tree that is drawn of a chain: steps that do something to the value, alternatives drawn as one.

Steps that hand a value on as it is are drawn where a chain ends; elsewhere ``Drawn.through`` names their functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from opscanner.ir import EdgeKind, NodeKind
from opscanner.results import PASSING_ON, ChainStep

Way = Literal["origins", "sinks"]

#: From so many casts on that one function makes of one value, to as many formats, they are taken for a switch's cases.
_CASES = 5
_ROOT = -1


@dataclass
class Drawn:
    """What one line of a drawing stands for: a step, and others that are its like for other formats.

    ``through`` are functions that hand the value on between the line above and this one, ``flows`` the kinds of the
    edges on that way; ``again`` when what hangs on it is drawn elsewhere, ``elsewhere`` how many more steps, drawn
    elsewhere, hang on it.
    """

    steps: list[ChainStep]
    parent: int
    through: tuple[str, ...]
    flows: frozenset[str]
    again: bool
    elsewhere: int = 0
    children: list[int] = field(default_factory=list)

    @property
    def first(self) -> ChainStep:
        """The step that the line is written for."""
        return self.steps[0]

    @property
    def more(self) -> bool:
        """A bound ended the walk here."""
        return any(step.more for step in self.steps)


@dataclass(frozen=True)
class _Entry:
    step: int
    parent: int
    through: tuple[str, ...]
    flows: frozenset[str]
    again: bool


def build(steps: tuple[ChainStep, ...], way: Way) -> tuple[list[Drawn], list[int]]:
    """Lines of a drawing in the order of the walk, and which of them hang on the cast itself, the longest way last."""
    entries = _entries(steps, way)
    by_parent: dict[int, list[_Entry]] = {}
    for entry in entries:
        by_parent.setdefault(entry.parent, []).append(entry)
    drawn: list[Drawn] = []
    roots: list[int] = []
    # Steps whose children hang on a line, by line; the cast first.
    waiting: list[tuple[list[int], int]] = [([_ROOT], _ROOT)]
    for members, parent in waiting:
        groups = _alternatives(steps, [entry for member in members for entry in by_parent.get(member, [])], way)
        known = len([group for group in groups if group[0].again])
        if known > 1 and parent != _ROOT:
            drawn[parent].elsewhere = known
            groups = [group for group in groups if not group[0].again]
        for group in groups:
            first = group[0]
            drawn.append(Drawn([steps[entry.step] for entry in group], parent, first.through, first.flows, first.again))
            (roots if parent == _ROOT else drawn[parent].children).append(len(drawn) - 1)
            if not first.again:
                waiting.append(([entry.step for entry in group if not entry.again], len(drawn) - 1))
    _deepest_last(drawn, roots)
    return drawn, roots


def _deepest_last(drawn: list[Drawn], roots: list[int]) -> None:
    """Puts the longest way at the end of its siblings, where no other branch is drawn beside it."""
    heights = [0] * len(drawn)
    for index in range(len(drawn) - 1, -1, -1):
        parent = drawn[index].parent
        drawn[index].children.sort(key=heights.__getitem__)
        if parent != _ROOT:
            heights[parent] = max(heights[parent], heights[index] + 1)
    roots.sort(key=heights.__getitem__)


def _entries(steps: tuple[ChainStep, ...], way: Way) -> list[_Entry]:
    """Steps to draw with the drawn step that each hangs on, what lies between left out."""
    shown = _shown(steps, way)
    anchors: list[tuple[int, tuple[str, ...], frozenset[str]]] = []
    #: Drawn steps that follow on a step that is not drawn.
    beyond: dict[int, list[int]] = {}
    for index, step in enumerate(steps):
        parent, flow = step.parent, frozenset((step.edge,))
        if parent == _ROOT or shown[parent]:
            anchors.append((parent, (), flow))
        else:
            above, through, flows = anchors[parent]
            name = steps[parent].function
            anchors.append((above, through if name in through else (*through, name), flows | flow))
        while shown[index] and parent != _ROOT and not shown[parent]:
            beyond.setdefault(parent, []).append(index)
            parent = steps[parent].parent
    first = {step.node: index for index, step in reversed(list(enumerate(steps))) if not step.again}
    entries: list[_Entry] = []
    for index, step in enumerate(steps):
        anchor, through, flows = anchors[index]
        if shown[index]:
            entries.append(_Entry(index, anchor, through, flows, step.again))
        elif step.again and step.node in first:
            known = [other for other in beyond.get(first[step.node], []) if anchor not in (other, anchors[other][0])]
            entries += [_Entry(other, anchor, through, flows, True) for other in known]
    return entries


def _shown(steps: tuple[ChainStep, ...], way: Way) -> list[bool]:
    """Which steps are drawn: those that do something, and those at which a chain ends or leaves memory.

    A store that is loaded again (a local array, shared memory) only hands the value on, and so does that load.
    """
    followers: dict[int, set[tuple[str, str]]] = {}
    for step in steps:
        followers.setdefault(step.parent, set()).add((step.kind, step.edge))
    first = {step.node for step in steps if not step.again}
    shown = []
    for index, step in enumerate(steps):
        after = followers.get(index, set())
        if not after:
            # What is drawn elsewhere goes on there; a value without a format has left floating point.
            ends = bool(step.format) and not (step.again and step.node in first)
            shown.append(ends or step.kind not in PASSING_ON)
            continue
        before = steps[step.parent].kind if step.parent != _ROOT else ""
        shown.append(step.kind not in PASSING_ON or not _passes_on(step, before, after, way))
    return shown


def _passes_on(step: ChainStep, before: str, after: set[tuple[str, str]], way: Way) -> bool:
    """Whether a step with others behind it only hands the value on; ``after`` are their kinds and edges."""
    match step.kind:
        case NodeKind.CALL.value:
            edges = {edge for _, edge in after} if way == "origins" else {step.edge}
            return edges == {EdgeKind.RETURN.value}
        case NodeKind.LOAD.value:
            return NodeKind.STORE.value in ({kind for kind, _ in after} if way == "origins" else {before})
        case _:
            return True


def _alternatives(steps: tuple[ChainStep, ...], entries: Iterable[_Entry], way: Way) -> list[list[_Entry]]:
    """Entries that one line stands for: one place for several formats, or the cases of a switch over formats."""
    places: dict[tuple[object, ...], list[_Entry]] = {}
    for entry in entries:
        step = steps[entry.step]
        place = (step.kind, step.operation, step.function, step.file, step.line, step.column)
        places.setdefault(place, []).append(entry)
    plain = list(places.values())
    merged: list[list[_Entry]] = []
    for case_of in (_case_of_value, _case_of_call):
        plain, found = _merge(steps, plain, case_of, way)
        merged += found
    # The line is written for the first: rather one that is not drawn elsewhere.
    return [sorted(group, key=lambda entry: entry.again) for group in (*plain, *merged)]


def _case_of_value(step: ChainStep, entry: _Entry, way: Way) -> tuple[object, str]:
    """Casts in one function between one format and many."""
    one, other = (step.format, step.from_format) if way == "origins" else (step.from_format, step.format)
    return (step.function, step.file, one), other


def _case_of_call(step: ChainStep, entry: _Entry, way: Way) -> tuple[object, str]:
    """Casts in many instances of functions that are called alike."""
    return (entry.through, step.file), step.bindings


def _merge(
    steps: tuple[ChainStep, ...],
    groups: list[list[_Entry]],
    case_of: Callable[[ChainStep, _Entry, Way], tuple[object, str]],
    way: Way,
) -> tuple[list[list[_Entry]], list[list[_Entry]]]:
    """Groups that stay, and groups made of several that are the cases of one switch."""
    switches: dict[object, list[list[_Entry]]] = {}
    cases: dict[object, set[str]] = {}
    for group in groups:
        if steps[group[0].step].kind != NodeKind.CAST.value:
            continue
        found = [case_of(steps[entry.step], entry, way) for entry in group]
        switches.setdefault(found[0][0], []).append(group)
        cases.setdefault(found[0][0], set()).update(case for _, case in found if case)
    merged = [each for switch, each in switches.items() if len(each) > 1 and len(cases[switch]) >= _CASES]
    gone = {id(group) for each in merged for group in each}
    return [group for group in groups if id(group) not in gone], [[*chain.from_iterable(each)] for each in merged]
