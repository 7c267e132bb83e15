"""Which additions go on with a sum: round a loop, in one place of memory, over the threads of a warp, by exchange."""

from __future__ import annotations

import re
from typing import Any

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.cast_expressions import CastWalk
from opscanner.frontend.float_types import TypeFacts
from opscanner.frontend.flow import NO_VALUE, Value, union
from opscanner.frontend.places import Places, Repeat
from opscanner.ir import EdgeKind, NodeKind

_ADDITIVE = frozenset(
    [*((NodeKind.ARITHMETIC, sign) for sign in ("+", "-", "fma")), (NodeKind.MATH_CALL, "fma")],
)
#: What makes a reduction when its own result comes back round a loop.
_REDUCES = _ADDITIVE | frozenset(
    [
        (NodeKind.ARITHMETIC, "*"),
        *((NodeKind.SELECTION, operation) for operation in ("?:", "max", "min")),
        *((NodeKind.MATH_CALL, operation) for operation in ("fmax", "fmin")),
    ]
)
_HANDS_ON = frozenset((NodeKind.CAST, NodeKind.VARIABLE))
_CASTS = frozenset((NodeKind.CAST,))
_REACHES_BITS = frozenset((NodeKind.CAST, NodeKind.VARIABLE, NodeKind.CALL))
#: Steps over casts and variables, or over the terms of one sum, that are looked back.
_NEAR = 8
_SHUFFLE = re.compile(r"shfl|shuffle", re.IGNORECASE)
_ATOMIC_WORDS = {"+": "add", "-": "sub", "*": "mul", "fma": "add"}
_VARIABLES = (ck.VAR_DECL, ck.PARM_DECL, ck.UNEXPOSED_DECL)


class SumWalk(CastWalk):
    """Adds the marking of sums to the walk of casts.

    A sum is a REDUCTION. One in memory that some loop surely comes back to has a LOOP_CARRIED edge to itself; where
    the index leaves that open it has none.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.places = Places(self.unit, self.body, self.variable)
        #: fma -> what is added to the product: the only operand through which a sum goes on.
        self.addends: dict[int, Value] = {}
        #: LOAD -> the lvalue that it reads.
        self.reads: dict[int, int] = {}

    def variable(self, index: int) -> object:
        """Identity of the variable that a DECL_REF names; None for functions, enumerators and the like."""
        referenced = self.body.referenced(index)
        return referenced.d0 if referenced.kind in _VARIABLES else None

    # -- marks ---------------------------------------------------------------------------------------------------

    def mark_variable(self, index: int, target: int, value: Value, before: Value, facts: TypeFacts) -> None:
        """``sum = sum + x`` round a loop is a reduction like ``sum += x``; so is ``v = v + shfl(v)`` anywhere."""
        node = self._summing(value)
        if node < 0:
            return
        carried = self.flow.carried(before) and self._uses(node, before)
        if carried or (self._additive(node) and self.shuffles(index, target)):
            self._reduction(node, facts)

    def mark_member(self, index: int, target: int, value: Value, before: Value, facts: TypeFacts) -> None:
        """``a.sum = a.sum + x`` round a loop; of ``p->sum`` the flow knows nothing, but the place is the same."""
        node = self._summing(value)
        if node < 0:
            return
        kind, shape = ck.MEMBER_REF_EXPR, self.places.shape(target)
        read = range(self.body.ends[target], self.body.ends[index])
        if not any(self.body.kinds[one] == kind and self.places.shape(one) == shape for one in read):
            return
        if not before:
            self._mark_place(node, target, facts, [])
        elif self.flow.carried(before) and self._uses(node, before):
            self._reduction(node, facts)

    def mark_memory(self, target: int, value: Value, facts: TypeFacts) -> None:
        """``y[0] = y[0] + x`` round a loop, ``s[t] = s[t] + s[t + 32]`` in shared memory anywhere."""
        node = self._summing(value)
        if node < 0:
            return
        read = [self.reads[one] for one in self._terms(node) if one in self.reads]
        if not any(self.places.same_shape(self.body.strip(one), target) for one in read):
            return
        self._mark_place(node, target, facts, read)

    def mark_update(self, node: int, index: int, target: int, old: Value, facts: TypeFacts) -> None:
        """``target op= value``."""
        stripped = self.body.strip(target)
        if self.body.kinds[stripped] == ck.DECL_REF:
            shuffled = self.record.nodes[node].operation in ("+", "-") and self.shuffles(index, stripped)
            if (self.loop_depth and self._carries(old)) or shuffled:
                self._reduction(node, facts)
        elif self._is_member(stripped):
            if self.loop_depth and self._carries(old):
                self._reduction(node, facts)
        else:
            terms = self._terms(node)
            self._mark_place(node, stripped, facts, [self.reads[one] for one in terms if one in self.reads])

    def mark_exchanged(self, operand: int, value: Value) -> None:
        """``old = atomicCAS(p, assumed, bits(x + value_of(assumed)))`` in a loop is an atomic addition."""
        if not self.loop_depth:
            return
        defined = list(value)
        for position in range(operand, self.body.ends[operand]):
            if self.body.kinds[position] == ck.DECL_REF:
                defined += self._behind_integers(self.variable(position), operand)
        for definition in dict.fromkeys(defined):
            node = self._back(definition, _REACHES_BITS) if definition >= 0 else -1
            found = self.record.nodes[node] if node >= 0 else None
            if found is not None and (found.kind, found.operation) in _REDUCES and found.operation in _ATOMIC_WORDS:
                held = self.record.nodes[definition].format
                word = _ATOMIC_WORDS[found.operation]
                self.record.amend(node, kind=NodeKind.ATOMIC, operation=word, category="atomic", accumulator=held)

    def library_sum(self, index: int, facts: TypeFacts, value: Value) -> int:
        """The sum that a library makes of a value of each thread, held in the value's own format."""
        return self.record.node(
            NodeKind.REDUCTION, index, "sum", facts.format, value,
            accumulator=facts.format, lanes=facts.lanes, category="reduction",
        )  # fmt: skip

    # -- what they ask -------------------------------------------------------------------------------------------

    def _reduction(self, node: int, facts: TypeFacts) -> None:
        self.record.amend(node, kind=NodeKind.REDUCTION, category="reduction", accumulator=facts.format)

    def _mark_place(self, node: int, target: int, facts: TypeFacts, read: list[int]) -> None:
        repeat = self.places.repeat(target)
        if repeat is Repeat.OTHER and not (self._additive(node) and self._merges_shared(target, read)):
            return
        self._reduction(node, facts)
        if repeat is Repeat.SAME:
            self.record.edge(node, node, EdgeKind.LOOP_CARRIED)

    def _is_member(self, stripped: int) -> bool:
        """A member of a local object or of ``this``, which is followed like a variable."""
        body = self.body
        if body.kinds[stripped] != ck.MEMBER_REF_EXPR:
            return False
        if not body.children[stripped]:
            return True
        base = body.strip(body.children[stripped][0])
        return body.kinds[base] == ck.DECL_REF and not body.facts(base).pointee and self._is_object(base)

    def _is_object(self, base: int) -> bool:
        return self.variable(base) is not None and not self.places.points(base)

    def _merges_shared(self, target: int, read: list[int]) -> bool:
        """Two elements of one array in shared memory are added up: partial results of two threads."""
        base = self.body.first_of(target, ck.DECL_REF)
        if base < 0 or self.body.kinds[target] != ck.SUBSCRIPT:
            return False
        referenced = self.body.referenced(base)
        if referenced.kind != ck.VAR_DECL:
            return False
        others = [one for one in read if not self.places.same_shape(self.body.strip(one), target)]
        bases = [self.body.first_of(one, ck.DECL_REF) for one in others]
        if not any(one >= 0 and self.variable(one) == referenced.d0 for one in bases):
            return False
        return any(part.kind == ck.CUDA_SHARED for part in self.unit.children(referenced))

    def _additive(self, node: int) -> bool:
        found = self.record.nodes[node]
        return (found.kind, found.operation) in _ADDITIVE

    def _summing(self, value: Value) -> int:
        """The operation that a value is the result of, before casts and names; -1 when it is none that sums."""
        if len(value) != 1 or value[0] < 0:
            return -1
        node = self._back(value[0], _HANDS_ON)
        if node < 0:
            return -1
        found = self.record.nodes[node]
        return node if (found.kind, found.operation) in _REDUCES else -1

    def _back(self, node: int, through: frozenset[NodeKind]) -> int:
        """Where a value comes from behind nodes of these kinds that have one source; -1 when several meet."""
        for _ in range(_NEAR):
            if self.record.nodes[node].kind not in through:
                return node
            sources = self.record.sources(node)
            if len(sources) != 1 or sources[0] < 0:
                return -1
            node = sources[0]
        return -1

    def _added(self, node: int) -> list[int]:
        if self.record.nodes[node].operation == "fma":
            return list(self.addends.get(node, NO_VALUE))
        return self.record.sources(node)

    def _terms(self, node: int, through: frozenset[NodeKind] = _HANDS_ON) -> list[int]:
        """Definitions that an operation adds up, itself or through further additions and nodes of some kinds."""
        found: dict[int, None] = {}
        waiting = self._added(node)[:]
        while waiting and len(found) < 4 * _NEAR:
            one = waiting.pop()
            if one in found:
                continue
            found[one] = None
            if one < 0:
                continue
            behind = self.record.nodes[one]
            if behind.kind in through:
                waiting += self.record.sources(one)
            elif (behind.kind, behind.operation) in _ADDITIVE and self._additive(node):
                waiting += self._added(one)
        return list(found)

    def _uses(self, node: int, before: Value) -> bool:
        """True when an operation's operands, casts and further terms looked through, hold these definitions."""
        return not set(before).isdisjoint(self._terms(node, _CASTS))

    def _carries(self, old: Value) -> bool:
        """A value, or what it was cast or loaded from, comes from the iteration before."""
        if self.flow.carried(old):
            return True
        sources = [source for node in old if node >= 0 for source in self.record.sources(node)]
        return self.flow.carried(tuple(sources))

    def shuffles(self, index: int, target: int) -> bool:
        """``v = v + __shfl_down_sync(mask, v, 16)``: another thread's value of the variable is added."""
        body, variable = self.body, self.variable(target)
        for position in range(body.ends[target], body.ends[index]):
            if body.kinds[position] == ck.CALL and _SHUFFLE.search(self.unit.spelling(body.cursors[position])):
                inside = range(position, body.ends[position])
                if any(body.kinds[one] == ck.DECL_REF and self.variable(one) == variable for one in inside):
                    return True
        return False

    def _behind_integers(self, variable: object, before: int) -> list[int]:
        """Floats of the variables that an integer's definitions name: bits on their way into an exchange."""
        body, names = self.body, []
        known = self.flow.environment.get(variable, NO_VALUE)
        if known:
            return list(known)
        for position in range(before):
            kind, children = body.kinds[position], body.children[position]
            if kind == ck.VAR_DECL and body.cursors[position].d0 == variable:
                names += children[-1:]
            elif kind == ck.BINARY and len(children) == 2 and body.binary_operator(position) == ck.ASSIGN:
                first = body.strip(children[0])
                if body.kinds[first] == ck.DECL_REF and self.variable(first) == variable:
                    names.append(children[1])
        values = [
            self.flow.environment.get(self.variable(one), NO_VALUE)
            for name in names
            for one in range(name, body.ends[name])
            if body.kinds[one] == ck.DECL_REF
        ]
        return list(union(values))
