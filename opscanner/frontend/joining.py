"""Joins the walked bodies of a unit: calls to callees, captures to definitions, helper calls to the casts they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.calls import THIS_ARGUMENT
from opscanner.frontend.expressions import THIS
from opscanner.frontend.flow import NO_VALUE
from opscanner.frontend.functions import FunctionFacts
from opscanner.frontend.statements import BodyWalk
from opscanner.ir import Call, CastForm, EdgeKind, NodeKind
from opscanner.precision.formats import cast_direction

_CASTS_ONLY = frozenset(
    (NodeKind.PARAMETER, NodeKind.CAST, NodeKind.CALL, NodeKind.RETURN, NodeKind.VARIABLE, NodeKind.LOAD)
)
#: (source, target) format of functions that do nothing but hand on or cast one value, by key.
Casting = dict[str, tuple[str, str]]


class KnownInstance(NamedTuple):
    """What is remembered of an instance after its unit is gone.

    Parameters
    ----------
    callees : tuple of str
        Keys of what it calls or creates.
    casts : (str, str) or None
        Source and target format of a function that does nothing but cast.
    is_global, device_root : bool
        A kernel; a function that code is emitted for.
    this : int
        Position of the object in its parameters, -1 when it reads no member.
    """

    callees: tuple[str, ...]
    casts: tuple[str, str] | None
    is_global: bool
    device_root: bool
    this: int


@dataclass
class Memory:
    """Instances that earlier units brought, by key; valid for equal compile arguments only.

    Attributes
    ----------
    known : dict
        All that is known.
    fresh : dict
        What the last unit added, for the other workers.
    """

    known: dict[str, KnownInstance] = field(default_factory=dict)
    fresh: dict[str, KnownInstance] = field(default_factory=dict)


@dataclass
class Walked:
    """A body that was walked, before its calls are joined to keys."""

    facts: FunctionFacts
    walk: BodyWalk
    key: str
    has_error: bool
    is_lambda: bool
    calls: dict[str, list[Call]] = field(default_factory=dict)

    def this_position(self) -> int:
        if THIS not in self.walk.captures:
            return -1
        return len(self.walk.parameters) + list(self.walk.captures).index(THIS)


class Joiner:
    """Turns the calls of bodies, which name declarations, into calls that name keys.

    Parameters
    ----------
    walked : mapping of str to Walked
        Bodies by key, in the order in which they were walked.
    keys : mapping
        Key of every function met, by clang's declaration pointer.
    memory : Memory
        Instances of earlier units.
    """

    def __init__(self, walked: Mapping[str, Walked], keys: Mapping[int | None, str], memory: Memory) -> None:
        self._walked, self._keys, self._memory = walked, keys, memory

    def link_captures(self, walked: Walked) -> None:
        """Give every lambda that this body creates the definitions its captured variables had."""
        for facts, environment in walked.walk.lambdas:
            key = self._keys[facts.cursor.d0]
            inner = self._walked.get(key)
            if inner is None:
                continue
            walk = walked.walk
            pairs = []
            for position, variable in enumerate(inner.walk.captures):
                value = environment.get(variable, NO_VALUE)
                if not value and walked.is_lambda:
                    value = (self._passed_through(walked, inner, variable),)
                settled = walk.record.settle(value)
                pairs += [(node, len(inner.walk.parameters) + position) for node in settled]
            walked.calls.setdefault(key, []).append(Call(-1, key, tuple(pairs), EdgeKind.CAPTURE, facts.place.line))

    @staticmethod
    def _passed_through(walked: Walked, inner: Walked, variable: object) -> int:
        """What a lambda captures for the lambda inside it: a capture of its own, whether it reads it or not."""
        captures = walked.walk.captures
        if variable not in captures:
            captures[variable] = walked.walk.record.adopt(inner.walk.record.nodes[inner.walk.captures[variable]])
        return captures[variable]

    def link_calls(self, walked: Walked) -> None:
        for call in walked.walk.record.calls:
            key = self._keys.get(call.callee)
            if key is None:
                continue
            this = self._this_position(key)
            arguments = tuple(
                (node, this if position == THIS_ARGUMENT else position)
                for value, position in call.arguments
                if position != THIS_ARGUMENT or this >= 0
                for node in walked.walk.record.settle(value)
            )
            kind = EdgeKind.LAUNCH if self._is_kernel(key) else EdgeKind.ARGUMENT
            walked.calls.setdefault(key, []).append(Call(call.node, key, arguments, kind, call.line))
        for facts in walked.walk.reached_functions.values():
            key = self._keys[facts.cursor.d0]
            if key not in walked.calls:
                walked.calls[key] = [Call(-1, key)]

    def _is_kernel(self, key: str) -> bool:
        """A ``__global__`` function is never called, only launched."""
        walked = self._walked.get(key)
        if walked is not None:
            return walked.walk.is_global
        return key in self._memory.known and self._memory.known[key].is_global

    def _this_position(self, key: str) -> int:
        """Where in its parameters a method has the object it reads members from, -1 when it reads none."""
        walked = self._walked.get(key)
        if walked is None:
            return self._memory.known[key].this if key in self._memory.known else -1
        return walked.this_position()

    def casting_functions(self) -> Casting:
        """(source, target) format of functions that do nothing but hand on or cast one value, by key.

        A method with a name of its own (``ops.project(x)``) means more than a cast, whatever it does.
        """
        found = {key: known.casts for key, known in self._memory.known.items() if known.casts}
        candidates = [w for w in self._walked.values() if _may_only_cast(w)]
        changed = True
        while changed:
            changed = False
            for walked in candidates:
                if walked.key not in found and all(callee in found for callee in walked.calls):
                    source = next(p.format for p in walked.facts.parameters if p.format)
                    found[walked.key] = (source, walked.facts.result.format)
                    changed = True
        return found


def join(walked: Mapping[str, Walked], keys: Mapping[int | None, str], memory: Memory) -> Casting:
    """Fill in the calls of every body, mark those that are casts; the functions that only cast."""
    joiner = Joiner(walked, keys, memory)
    for body in reversed(list(walked.values())):  # a lambda is walked after the function that creates it
        joiner.link_captures(body)
    for body in walked.values():
        joiner.link_calls(body)
    casting = joiner.casting_functions()
    for body in walked.values():
        for calls in body.calls.values():
            for call in calls:
                if call.callee in casting and call.node >= 0:
                    _mark_helper(body, call, *casting[call.callee])
    return casting


def _may_only_cast(walked: Walked) -> bool:
    facts, nodes = walked.facts, walked.walk.record.nodes
    named_method = facts.cursor.kind == ck.CXX_METHOD and facts.name != "operator()" and not facts.is_static
    return (
        not named_method
        and facts.result.format != ""
        and len([p for p in facts.parameters if p.format]) == 1
        and len(facts.parameters) == 1
        and all(node.kind in _CASTS_ONLY and not node.constant for node in nodes)
    )


def _mark_helper(walked: Walked, call: Call, source: str, target: str) -> None:
    """Turn the call of a function that only casts into a cast."""
    record = walked.walk.record
    if record.nodes[call.node].kind is NodeKind.CALL and cast_direction(source, target) is not None:
        record.amend(call.node, kind=NodeKind.CAST, from_format=source, form=CastForm.HELPER_CALL, category="")
