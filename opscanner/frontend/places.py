"""Whether an assignment in a loop meets the same element each time: ``s[t] += x`` and ``y[i] += x[i]`` tell apart.

An element's place is followed through what its index and its base are made of: counters that the loop steps, variables
that it defines anew, sums and products of them. What is approximated: calls give the same for the same arguments,
two terms that both change do not cancel, and a place that the loop overwrites first is another one each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.body import Body
from opscanner.frontend.float_types import LVALUE, POINTER, RVALUE
from opscanner.frontend.parse import Unit

#: Operators under which different operands give different results: * + - << ^.
_KEEPS_APART = frozenset({ck.MULTIPLY, ck.ADD, ck.SUBTRACT, ck.SHIFT_LEFT, ck.BITWISE_XOR})
_STEPS = frozenset({ck.PRE_INCREMENT, ck.POST_INCREMENT, ck.PRE_DECREMENT, ck.POST_DECREMENT})
_STEPPING_CALLS = frozenset({"operator++", "operator--", "operator+=", "operator-="})
_ELEMENT_CALLS = frozenset({"operator[]", "operator()"})
_REINTERPRETS = frozenset({*ck.EXPLICIT_CASTS, ck.REINTERPRET_CAST, ck.CONST_CAST})
_SHAPELESS = frozenset({ck.UNEXPOSED_EXPR, ck.PAREN, *ck.REFERENCES})


class Repeat(IntEnum):
    """What a place, or the value of an index, is in the next iteration of a loop."""

    SAME = 0  #: the same:                        ``s[threadIdx.x]``
    OTHER = 1  #: another one each time:          ``y[i * 4 + 1]``
    UNKNOWN = 2  #: perhaps one that was before:  ``y[bin[i]]``, ``y[i % 8]``


class _Loop:
    """One loop: the cursors that run in each iteration, and how they define the variables they do."""

    def __init__(self, spans: list[tuple[int, int]], fresh: Iterable[object]) -> None:
        self.spans = spans
        self.declared: set[object] = set(fresh)
        self.fresh = frozenset(self.declared)
        self.plain: dict[object, list[int]] = {}
        self.stepped: dict[object, list[int]] = {}
        self.known: dict[object, Repeat] = {}

    def positions(self, before: int) -> Iterator[int]:
        """Cursors in source order as far as one of them."""
        for start, end in self.spans:
            yield from range(start, min(end, before))


class Places:
    """The loops around the present point of the walk, and what they do to places.

    Parameters
    ----------
    unit, body : the unit and the body being walked
    variable : callable
        Identity of the variable that a DECL_REF names.
    """

    def __init__(self, unit: Unit, body: Body, variable: Callable[[int], object]) -> None:
        self._unit, self._body, self._variable = unit, body, variable
        self._lib: Any = unit.lib
        self._spans: list[tuple[list[tuple[int, int]], tuple[object, ...]]] = []
        self._loops: dict[int, _Loop] = {}

    def enter(self, every: list[int], fresh: Iterable[object] = ()) -> None:
        """Begin a loop whose parts ``every`` run in each iteration; ``fresh`` are variables it makes for each."""
        ends = self._body.ends
        self._spans.append(([(child, ends[child]) for child in sorted(every)], tuple(fresh)))

    def leave(self) -> None:
        """End the innermost loop."""
        self._loops.pop(len(self._spans) - 1, None)
        self._spans.pop()

    def repeat(self, target: int) -> Repeat:
        """SAME when some loop around comes back to the lvalue ``target`` with what it left there."""
        found = Repeat.OTHER
        for depth in range(len(self._spans)):
            loop = self._loop(depth)
            here = self._place(target, loop)
            if here is Repeat.SAME:
                here = self._kept(target, loop)
            if here is Repeat.SAME:
                return here
            found = max(found, here)
        return found

    def same_shape(self, one: int, other: int) -> bool:
        """True for two expressions that spell one place, ``s[t]`` and ``(s)[t]``."""
        return one == other or self.shape(one) == self.shape(other)

    def shape(self, index: int) -> tuple[tuple[int, object], ...]:
        """What an expression is made of, equal for expressions that say the same."""
        body = self._body
        found: list[tuple[int, object]] = []
        for position in range(index, body.ends[index]):
            kind = body.kinds[position]
            part: object = None
            if kind in _SHAPELESS:
                continue
            if kind in (ck.DECL_REF, ck.MEMBER_REF_EXPR):
                part = body.referenced(position).d0
            elif kind == ck.BINARY:
                part = body.binary_operator(position)
            elif kind == ck.UNARY:
                part = self._unary(position)
            elif kind == ck.INTEGER_LITERAL:
                part = self._integer(position)
            found.append((kind, part))
        return tuple(found)

    # -- what a loop defines -------------------------------------------------------------------------------------

    def _loop(self, depth: int) -> _Loop:
        loop = self._loops.get(depth)
        if loop is None:
            loop = self._loops[depth] = _Loop(*self._spans[depth])
            self._gather(loop)
        return loop

    def _gather(self, loop: _Loop) -> None:
        body = self._body
        for position in loop.positions(len(body)):
            kind, children = body.kinds[position], body.children[position]
            if kind == ck.VAR_DECL:
                variable = body.cursors[position].d0
                loop.declared.add(variable)
                loop.plain.setdefault(variable, []).extend(children[-1:])
                continue
            if kind == ck.BINARY and body.binary_operator(position) == ck.ASSIGN and len(children) == 2:
                into, value = loop.plain, children[1:]
            elif kind == ck.COMPOUND_ASSIGN and len(children) == 2:
                into, value = loop.stepped, children[1:]
            elif kind == ck.UNARY and self._unary(position) in _STEPS:
                into, value = loop.stepped, []
            elif kind == ck.CALL and self._name(position) in _STEPPING_CALLS:
                into, value = loop.stepped, children[-1:]
            else:
                continue
            target = body.strip(children[0]) if children else -1
            if target >= 0 and body.kinds[target] == ck.DECL_REF:
                into.setdefault(self._variable(target), []).extend(value)

    def _name(self, index: int) -> str:
        return self._unit.spelling(self._body.cursors[index])

    def _unary(self, index: int) -> int:
        return int(self._lib.clang_getCursorUnaryOperatorKind(self._body.cursors[index]))

    def _integer(self, index: int) -> object:
        result = self._lib.clang_Cursor_Evaluate(self._body.cursors[index])
        if not result:
            return index
        try:
            return int(self._lib.clang_EvalResult_getAsLongLong(result))
        finally:
            self._lib.clang_EvalResult_dispose(result)

    # -- values and places in the next iteration -----------------------------------------------------------------

    def _of_variable(self, variable: object, loop: _Loop) -> Repeat:
        if variable is None:
            return Repeat.SAME
        if variable in loop.fresh:
            return Repeat.OTHER
        known = loop.known.get(variable)
        if known is None:
            # Met again while its own definitions are asked: ``p = p + n`` goes on from what it was.
            loop.known[variable] = Repeat.OTHER
            defined, stepped = loop.plain.get(variable), loop.stepped.get(variable)
            if defined is not None:
                known = self._together([self._value(one, loop) for one in (*defined, *(stepped or ()))])
            else:
                known = Repeat.SAME if stepped is None else Repeat.OTHER
            loop.known[variable] = known
        return known

    @staticmethod
    def _together(parts: list[Repeat]) -> Repeat:
        return max(parts, default=Repeat.SAME)

    @staticmethod
    def _mixed(parts: list[Repeat]) -> Repeat:
        """Of what does not keep its operands apart."""
        return Repeat.UNKNOWN if any(parts) else Repeat.SAME

    def _value(self, index: int, loop: _Loop) -> Repeat:
        """What an expression's value is in the next iteration."""
        body = self._body
        index = body.strip(index)
        kind, children = body.kinds[index], body.children[index]
        if kind == ck.DECL_REF:
            return self._of_variable(self._variable(index), loop)
        parts = [self._value(child, loop) for child in children]
        if kind == ck.UNARY:
            code = self._unary(index)
            if code == ck.ADDRESS_OF:
                return self._place(children[0], loop)
            return self._mixed(parts) if code == ck.DEREFERENCE else self._together(parts)
        if kind == ck.BINARY and body.binary_operator(index) not in _KEEPS_APART:
            return self._mixed(parts)
        if kind in (ck.SUBSCRIPT, ck.CALL, ck.CONDITIONAL):
            return self._mixed(parts)
        return self._together(parts)

    def _place(self, index: int, loop: _Loop) -> Repeat:
        """What the place that an lvalue names, or a pointer points to, is in the next iteration."""
        body = self._body
        index = body.strip(index)
        kind, children = body.kinds[index], body.children[index]
        if kind == ck.DECL_REF:
            variable = self._variable(index)
            if variable in loop.declared and not self.points(index):
                return Repeat.OTHER
            return self._of_variable(variable, loop)
        if kind == ck.SUBSCRIPT and len(children) == 2:
            return max(self._place(children[0], loop), self._value(children[1], loop))
        if kind == ck.MEMBER_REF_EXPR or (kind == ck.UNARY and self._unary(index) == ck.DEREFERENCE):
            return self._place(children[0], loop) if children else Repeat.SAME
        if kind in _REINTERPRETS and children:
            return self._place(children[-1], loop)
        if kind == ck.CALL and self._name(index) in _ELEMENT_CALLS:
            return self._together([self._value(child, loop) for child in children])
        return self._value(index, loop)

    def points(self, index: int) -> bool:
        """True for a pointer or a reference, which is made anew but may name what was there before."""
        referenced = self._body.referenced(index)
        kind = self._lib.clang_getCanonicalType(self._lib.clang_getCursorType(referenced)).kind
        return kind in (POINTER, LVALUE, RVALUE)

    # -- what a loop overwrites ----------------------------------------------------------------------------------

    def _kept(self, target: int, loop: _Loop) -> Repeat:
        """OTHER when the loop sets the place before ``target``, UNKNOWN when a branch or a call may have."""
        body, shape = self._body, self._shape_in(target, loop)
        subscripted = set()
        base = body.first_of(target, ck.DECL_REF)
        own = self._variable(base) if base >= 0 and not self.points(base) else None
        found = Repeat.SAME
        for position in loop.positions(target):
            kind, children = body.kinds[position], body.children[position]
            if kind in (ck.SUBSCRIPT, ck.MEMBER_REF_EXPR) and children:
                subscripted.add(body.strip(children[0]))
            elif self._assigns(position) and target >= body.ends[position]:
                if self._sets(position, target, shape, loop):
                    if not self._conditional(position, target, loop):
                        return Repeat.OTHER
                    found = Repeat.UNKNOWN
            elif kind == ck.DECL_REF and position not in subscripted and own == self._variable(position) is not None:
                found = Repeat.UNKNOWN
        return found

    def _shape_in(self, index: int, loop: _Loop) -> tuple[object, ...]:
        """A shape in which the loop's own variables are one: ``v[i]`` and ``v[j]`` of two loops inside of it."""
        return tuple([(kind, part in loop.declared or part) for kind, part in self.shape(index)])

    def _assigns(self, index: int) -> bool:
        kind = self._body.kinds[index]
        if len(self._body.children[index]) < 2:
            return False
        if kind == ck.BINARY:
            return self._body.binary_operator(index) == ck.ASSIGN
        return kind == ck.CALL and self._name(index) == "operator="

    def _sets(self, index: int, target: int, shape: tuple[object, ...], loop: _Loop) -> bool:
        """True when an assignment sets the place without reading it."""
        body, kind = self._body, self._body.kinds[target]
        first = body.strip(body.children[index][0])
        if body.kinds[first] != kind or self._shape_in(first, loop) != shape:
            return False
        return not any(
            body.kinds[position] == kind and self._shape_in(position, loop) == shape
            for position in range(body.ends[first], body.ends[index])
        )

    def _conditional(self, index: int, target: int, loop: _Loop) -> bool:
        """True when a branch holds one of two places and not the other."""
        body = self._body
        return any(
            body.kinds[position] in (ck.IF, ck.SWITCH) and index < body.ends[position] <= target
            for position in loop.positions(index)
        )
