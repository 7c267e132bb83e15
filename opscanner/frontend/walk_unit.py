"""From a parsed translation unit to its function instances: follow what is referred to, walk each body once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend import libclang
from opscanner.frontend.body import Body
from opscanner.frontend.calls import LibraryBody
from opscanner.frontend.float_types import TypeTable
from opscanner.frontend.functions import FunctionFacts, FunctionTable
from opscanner.frontend.joining import Casting, KnownInstance, Memory, Walked, join
from opscanner.frontend.parse import Unit
from opscanner.frontend.references import References
from opscanner.frontend.statements import BodyWalk
from opscanner.ir import Diagnostic, FunctionInstance, NodeKind, UnitReach

_LIBRARY_DEPTH = 8
_NOTHING_INSIDE = LibraryBody()
_UNIQUE_EXTERNAL_LINKAGE = 3


class UnitWalk:
    """Walks everything of interest in one translation unit.

    Parameters
    ----------
    unit : Unit
    root : str
        Absolute path; functions written below it are followed.
    errors : sequence of Diagnostic
        The unit's errors; instances whose text holds one are marked.
    memory : Memory
        What earlier units brought; :meth:`remember` adds what this one does.
    device : bool
        The unit is the device pass of a CUDA file; in any other nothing is device code.
    variant : str
        See :class:`~opscanner.frontend.functions.FunctionTable`.
    """

    def __init__(
        self,
        unit: Unit,
        root: str,
        errors: Sequence[Diagnostic],
        memory: Memory,
        *,
        device: bool,
        variant: str = "",
    ) -> None:
        self.unit, self.lib = unit, unit.lib
        self.types = TypeTable(unit.lib)
        self.functions = FunctionTable(unit, self.types, root, device=device, variant=variant)
        self.memory = memory
        self.cursors = 0
        self._errors: dict[str, list[int]] = {}
        for diagnostic in errors:
            self._errors.setdefault(diagnostic.file, []).append(diagnostic.line)
        self._waiting: deque[FunctionFacts] = deque()
        self._keys: dict[int | None, str] = {}
        self._walked: dict[str, Walked] = {}
        self._met: set[str] = set()
        self._library: dict[int | None, LibraryBody] = {}
        self._library_depth = 0
        self._without_floats: dict[str, BodyWalk] = {}
        self._own: dict[str, KnownInstance] = {}
        self._emitted: set[int | None] = set()
        self._called_back: set[int | None] = set()

    # -- the way through the unit ---------------------------------------------------------------------------------

    def run(self) -> tuple[tuple[FunctionInstance, ...], tuple[UnitReach, ...]]:
        """Instances whose bodies this unit brings, and the reach of every instance it holds."""
        for facts in self._entry_points():
            self._meet(facts)
        while self._waiting:
            self._walk(self._waiting.popleft())
        instances = self._assemble()
        return instances, self._reach()

    def _entry_points(self) -> Iterator[FunctionFacts]:
        """Non-template functions of the source file, methods of its classes, explicit instantiations."""
        waiting = [self.unit.root()]
        main = self.unit.main_file
        while waiting:
            for cursor in self.unit.children(waiting.pop()):
                kind = cursor.kind
                if (
                    kind not in (ck.NAMESPACE, ck.LINKAGE_SPEC)
                    and kind not in ck.CLASS_LIKE
                    and (kind not in ck.FUNCTION_LIKE and kind != ck.VAR_DECL)
                ):
                    continue
                place = self.unit.cursor_place(cursor)
                if self.unit.path(place.file) != main:
                    continue
                if kind in (ck.NAMESPACE, ck.LINKAGE_SPEC):
                    waiting.append(cursor)
                elif kind in ck.FUNCTION_LIKE:
                    facts = self.functions.of(cursor)
                    if facts.has_body and facts.follow:
                        yield facts
                elif kind == ck.VAR_DECL:
                    yield from self._initializer(cursor)
                elif kind not in (ck.CLASS_TEMPLATE, ck.PARTIAL_SPECIALIZATION):
                    for facts in self._methods(cursor):
                        self._emitted.add(facts.cursor.d0)
                        yield facts
                    if self.lib.clang_Type_getNumTemplateArguments(self.lib.clang_getCursorType(cursor)) < 0:
                        waiting.append(cursor)  # classes inside of it

    def _methods(self, cursor: libclang.CXCursor) -> Iterator[FunctionFacts]:
        for method in self.unit.methods(self.lib.clang_getCursorType(cursor)):
            if method.kind in ck.FUNCTION_LIKE:
                facts = self.functions.of(method)
                if facts.has_body and facts.follow:
                    yield facts

    def _initializer(self, cursor: libclang.CXCursor) -> Iterator[FunctionFacts]:
        """Functions that a global variable's initializer names: a table of kernels, a registration."""
        walk = self._body_walk(cursor)
        walk.evaluate(0) if walk.body.children[0] else None
        yield from walk.reached_functions.values()

    def _meet(self, facts: FunctionFacts) -> str:
        """Note that the unit holds an instance; queue its walk unless its body is known. Its key."""
        key = self._keys.get(facts.cursor.d0)
        if key is None:
            key = self._keys[facts.cursor.d0] = self.functions.key(facts)
            if key not in self._met:
                self._met.add(key)
                if key in self.memory.known:
                    self._met.update(self._closure(key))
                else:
                    self._waiting.append(facts)
        return key

    def _closure(self, key: str) -> set[str]:
        """Everything that a remembered instance reaches."""
        found = {key}
        waiting = [key]
        while waiting:
            known = self.memory.known.get(waiting.pop())
            for callee in known.callees if known else ():
                if callee not in found:
                    found.add(callee)
                    waiting.append(callee)
        return found

    # -- one body --------------------------------------------------------------------------------------------------

    def _body_walk(self, cursor: libclang.CXCursor) -> BodyWalk:
        body = Body(self.lib, cursor, self.types)
        self.cursors += len(body)
        walk = BodyWalk(self.unit, self.functions, body)
        walk.library_body = self._library_body
        return walk

    def _walk(self, facts: FunctionFacts) -> None:
        formats = self.functions.formats_key(facts)
        like = self._without_floats.get(formats)
        walk = self._walk_whole(facts) if like is None else self._walk_references(facts, like)
        if not walk.record.nodes and not walk.captures:
            self._without_floats.setdefault(formats, walk)
        key = self._keys[facts.cursor.d0]
        self._walked[key] = Walked(facts, walk, key, self._holds_error(facts), self.functions.is_lambda(facts))
        self._called_back |= walk.called_back
        for refused in walk.without_body.values():
            if self._holds_error(refused):
                walk.reached_functions[refused.cursor.d0] = refused
        for reached in walk.reached_functions.values():
            self._meet(reached)

    def _walk_whole(self, facts: FunctionFacts) -> BodyWalk:
        walk = self._body_walk(facts.cursor)
        walk.walk()
        walk.body.release()
        return walk

    def _walk_references(self, facts: FunctionFacts, like: BodyWalk) -> BodyWalk:
        references = References(self.unit, self.functions, facts.cursor)
        self.cursors += references.cursors
        walk = BodyWalk(self.unit, self.functions, like.body)
        references.fill(walk, like)
        return walk

    def _holds_error(self, facts: FunctionFacts) -> bool:
        lines = self._errors.get(self.unit.path(facts.place.file))
        if not lines:
            return False
        begin, end = self.unit.extent(facts.pattern or facts.cursor)
        return any(begin.line <= line <= end.line for line in lines)

    def _library_body(self, facts: FunctionFacts) -> LibraryBody:
        """What happens inside a function of a library, what it calls included.

        Functions without numbers or objects are not looked at, and a chain of calls only so deep; what lies beyond is
        not remembered as empty, so the order of calls does not matter.
        """
        found = self._library.get(facts.cursor.d0)
        if found is not None:
            return found
        concerns = any(t.floating or t.record for t in (*facts.parameters, facts.result))
        if self._library_depth >= _LIBRARY_DEPTH or not concerns:
            return _NOTHING_INSIDE
        self._library[facts.cursor.d0] = _NOTHING_INSIDE  # recursion ends here
        self._library_depth += 1
        walk = self._body_walk(facts.cursor)
        walk.walk()
        self._library_depth -= 1
        casts = {
            (node.from_format, node.format): None
            for node in walk.record.nodes
            if node.kind is NodeKind.CAST and not node.constant and node.reached
        }
        found = self._library[facts.cursor.d0] = LibraryBody(tuple(casts), tuple(walk.reached_functions.values()))
        return found

    # -- what is given on ------------------------------------------------------------------------------------------

    def _assemble(self) -> tuple[FunctionInstance, ...]:
        casting = join(self._walked, self._keys, self.memory)
        return tuple(self._instance(walked, casting) for walked in self._walked.values())

    def _instance(self, walked: Walked, casting: Casting) -> FunctionInstance:
        facts, walk = walked.facts, walked.walk
        known = KnownInstance(
            tuple(walked.calls),
            casting.get(walked.key),
            walk.is_global,
            self._is_device_root(walked),
            walked.this_position(),
        )
        self._own[walked.key] = known
        bindings = dict(reversed([*self.functions.bindings(facts), *walk.aliases])) if walk.record.nodes else {}
        captures = [walk.captures[variable] for variable in walk.captures]
        return FunctionInstance(
            key=walked.key,
            name=self.functions.display_name(facts),
            usr=self.unit.usr(facts.cursor),
            file=facts.path,
            line=facts.place.line,
            column=facts.place.column,
            bindings=", ".join(f"{name}={bound}" for name, bound in bindings.items()),
            signature=self.types.spelling(self.lib.clang_getCursorType(facts.cursor)),
            is_kernel=walk.is_global,
            is_device=walk.is_device,
            is_host=walk.is_host,
            is_lambda=walked.is_lambda,
            has_error=walked.has_error,
            parameters=(*walk.parameters, *captures),
            returns=tuple(walk.returns),
            nodes=tuple(walk.record.nodes),
            edges=walk.record.edges(),
            calls=tuple(call for calls in walked.calls.values() for call in calls),
        )

    # -- reach -----------------------------------------------------------------------------------------------------

    def _is_device_root(self, walked: Walked) -> bool:
        """Code is emitted for kernels, and for device functions that other units may call."""
        walk, cursor = walked.walk, walked.facts.cursor
        if not self.functions.device:
            return False
        if walk.is_global:
            return True
        if walk.is_device and cursor.d0 in self._called_back:
            return True  # by a library's kernel, for all that is known
        if not walk.is_device or walked.is_lambda:
            return False
        if cursor.d0 in self._emitted and self._is_instantiated(cursor):
            return True
        return (
            cursor.kind == ck.FUNCTION_DECL
            and self.lib.clang_getCursorLinkage(cursor) > _UNIQUE_EXTERNAL_LINKAGE
            and not self.lib.clang_Cursor_isFunctionInlined(cursor)
            and self.lib.clang_Cursor_getNumTemplateArguments(cursor) < 0
        )

    def _is_instantiated(self, method: libclang.CXCursor) -> bool:
        """True for a method of an explicitly instantiated class template, which other units may call."""
        parent = self.lib.clang_getCursorSemanticParent(method)
        return bool(self.lib.clang_Type_getNumTemplateArguments(self.lib.clang_getCursorType(parent)) > 0)

    def _reach(self) -> tuple[UnitReach, ...]:
        own, known = self._own, self.memory.known
        found: set[str] = set()
        waiting = [k for k in self._met if (i := own.get(k) or known.get(k)) is not None and i.device_root]
        found.update(waiting)
        while waiting:
            instance = own.get(key := waiting.pop()) or known.get(key)
            for callee in instance.callees if instance else ():
                if callee not in found:
                    found.add(callee)
                    waiting.append(callee)
        return tuple(
            UnitReach(key, key in found, key in self._walked and self._walked[key].has_error)
            for key in sorted(self._met)
        )

    def remember(self) -> None:
        """Let later units know the bodies of this one."""
        self.memory.known.update(self._own)
        self.memory.fresh = self._own
