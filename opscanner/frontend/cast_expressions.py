"""Casts: explicit, implicit, and those of braced initializers."""

from __future__ import annotations

from typing import Any

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend.evaluation import Evaluation
from opscanner.frontend.float_types import TypeFacts
from opscanner.frontend.flow import NO_VALUE, Value, union
from opscanner.ir import CastForm, NodeKind
from opscanner.precision.formats import cast_direction, is_floating

_EXPLICIT_FORMS = {
    ck.STATIC_CAST: CastForm.STATIC_CAST,
    ck.C_STYLE_CAST: CastForm.C_STYLE,
    ck.FUNCTIONAL_CAST: CastForm.FUNCTIONAL,
}
#: Forms of the conversion below an explicit cast that carries it out: one cast, not two.
_CARRIES_OUT = (CastForm.CONVERSION_FUNCTION, CastForm.CONVERTING_CONSTRUCTOR, CastForm.IMPLICIT)


class CastWalk(Evaluation):
    """Adds casts to the evaluation."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._table[ck.UNEXPOSED_EXPR] = self._implicit
        self._table[ck.INIT_LIST] = self._init_list
        for kind in _EXPLICIT_FORMS:
            self._table[kind] = self._explicit

    def cast(
        self,
        index: int,
        value: Value,
        from_format: str,
        to_format: str,
        form: CastForm,
        operation: str = "",
        *,
        written_type: str = "",
        lanes: int = 1,
        constant: bool = False,
    ) -> Value:
        """A CAST node, or ``value`` itself when the formats differ in nothing that matters."""
        if not from_format or not to_format or cast_direction(from_format, to_format) is None:
            return value
        node = self.record.node(
            NodeKind.CAST,
            index,
            operation or form.value,
            to_format,
            value,
            from_format=from_format,
            form=form,
            written_type=written_type,
            lanes=lanes,
            constant=constant,
        )
        return (node,)

    def _implicit(self, index: int) -> Value:
        children = self.body.children[index]
        if len(children) != 1:
            return self._pass(index)
        child = children[0]
        value = self.evaluate(child)
        mine, below = self.body.facts(index), self.body.facts(child)
        if mine.format == below.format or not (mine.floating or below.floating) or mine.format == "bool":
            return value
        sugar = self.record.sugar(index)
        return self.cast(
            index,
            value,
            below.format,
            mine.format,
            CastForm.IMPLICIT,
            written_type=sugar,
            lanes=mine.lanes,
            constant=self.constant(child),
        )

    def _explicit(self, index: int) -> Value:
        kind = self.body.kinds[index]
        children = self.body.children[index]
        if not children:
            return NO_VALUE
        child = children[-1]
        mine = self.body.facts(index)
        if not mine.format:
            return self.evaluate(child)
        if self.body.kinds[child] == ck.INIT_LIST and len(self.body.children[child]) == 1:
            return self._carried_out(index, child)
        conversion = self._conversion_below(child, mine.format)
        if conversion >= 0:
            return self._carried_out(index, conversion)
        value = self.evaluate(child)
        below = self.body.facts(child)
        if below.format == mine.format or not (mine.floating or below.floating) or mine.format == "bool":
            return value
        return self.cast(
            index,
            value,
            below.format,
            mine.format,
            _EXPLICIT_FORMS[kind],
            written_type=self.record.written_type(index),
            lanes=mine.lanes,
            constant=self.constant(child),
        )

    def _carried_out(self, index: int, conversion: int) -> Value:
        """Evaluate the conversion that carries out an explicit cast, and make its node the cast's."""
        before = len(self.record.nodes)
        value = self.evaluate(conversion)
        made = value[0] if len(value) == 1 else -1
        if made >= before and self.record.nodes[made].form in _CARRIES_OUT:
            form = _EXPLICIT_FORMS.get(self.body.kinds[index], CastForm.FUNCTIONAL)
            written = self.record.written_type(index)
            self.record.amend(made, form=form, operation=form.value, written_type=written)
        return value

    def _conversion_below(self, index: int, target: str) -> int:
        """The implicit conversion that carries out an explicit cast to ``target``, -1 when the cast does it itself."""
        while self.body.kinds[index] in (ck.UNEXPOSED_EXPR, ck.PAREN) and len(self.body.children[index]) == 1:
            below = self.body.children[index][0]
            if self.body.facts(index).format == target and self.body.facts(below).format not in ("", target):
                return index
            index = below
        if self.body.kinds[index] == ck.CALL and self.body.facts(index).format == target:
            return index
        return -1

    def _init_list(self, index: int) -> Value:
        """``float x{h}``, ``float2{a, b}``, ``Pair{a, b}``: libclang shows the list as written, without its casts."""
        children = self.body.children[index]
        values = []
        for child, wanted in zip(children, self._element_formats(index, len(children)), strict=False):
            value = self.evaluate(child)
            found = self.body.facts(child)
            if found.format and wanted.format and (found.floating or wanted.floating) and wanted.format != "bool":
                form = CastForm.IMPLICIT
                if found.float_class or wanted.float_class:
                    form = CastForm.CONVERSION_FUNCTION if found.float_class else CastForm.CONVERTING_CONSTRUCTOR
                constant = self.constant(child)
                value = self.cast(child, value, found.format, wanted.format, form, constant=constant)
            values.append(value)
        return union(values)

    def _element_formats(self, index: int, number: int) -> list[TypeFacts]:
        facts = self.body.facts(index)
        if facts.floating:
            return [facts._replace(lanes=1, float_class=facts.float_class and facts.lanes == 1)] * number
        if facts.pointee:
            return [TypeFacts(facts.pointee, is_floating(facts.pointee))] * number
        if facts.record:
            ctype = self.lib.clang_getCursorType(self.body.cursors[index])
            fields = [self.functions.types.of_cursor(field) for field in self.unit.fields(ctype)]
            if len(fields) >= number:
                return fields[:number]
        return [TypeFacts()] * number
