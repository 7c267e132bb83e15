"""From a parsed translation unit to its function instances: follow what is referred to, walk each body once."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache

from opscanner.frontend import cursor_kinds as ck
from opscanner.frontend import libclang
from opscanner.frontend.body import Body
from opscanner.frontend.calls import LibraryBody
from opscanner.frontend.eigen import ExpressionTypes
from opscanner.frontend.float_types import TypeTable
from opscanner.frontend.functions import FunctionFacts, FunctionTable, Role
from opscanner.frontend.identity import is_lambda_class
from opscanner.frontend.joining import Casting, KnownInstance, Memory, Walked, join
from opscanner.frontend.parse import Unit, contents
from opscanner.frontend.references import References
from opscanner.frontend.statements import BodyWalk
from opscanner.ir import Diagnostic, FunctionInstance, NodeKind, UnitReach

_LIBRARY_DEPTH = 8
_NOTHING_INSIDE = LibraryBody()
_UNIQUE_EXTERNAL_LINKAGE = 3
_EXPLICIT_INSTANTIATION = re.compile(rb"\btemplate[\s\\]+(?![<\s\\])([^;{}()]*)\(")
_WORD = re.compile(rb"[A-Za-z_]\w*")


@lru_cache(maxsize=4096)
def instantiation_words(path: str) -> frozenset[str]:
    """Every identifier in a file's explicit instantiations, ``template void f<half>(...)``, up to the parameters."""
    found: set[str] = set()
    for declarator in _EXPLICIT_INSTANTIATION.findall(contents(path)):
        found.update(word.decode() for word in _WORD.findall(declarator))
    return frozenset(found)


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
    files : sequence of str
        Paths of the files that it includes, those of its precompiled header too.
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
        files: Sequence[str] = (),
    ) -> None:
        self._root, self._files = root.rstrip("/") + "/", files
        self.unit, self.lib = unit, unit.lib
        self.types = TypeTable(unit.lib)
        self.functions = FunctionTable(unit, self.types, root, device=device, variant=variant)
        self.expressions = ExpressionTypes(unit.lib, self.types, self.functions)
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
        self._callbacks: dict[int | None, tuple[FunctionFacts, ...]] = {}
        self._eigens_references: dict[int | None, tuple[list[FunctionFacts], list[FunctionFacts]]] = {}
        self._without_floats: dict[str, BodyWalk] = {}
        self._own: dict[str, KnownInstance] = {}
        self._emitted: set[int | None] = set()
        self._instantiated: list[FunctionFacts] = []
        self._instantiation_words: set[str] | None = None
        self._called_back: set[int | None] = set()

    # -- the way through the unit ---------------------------------------------------------------------------------

    def run(self) -> tuple[tuple[FunctionInstance, ...], tuple[UnitReach, ...]]:
        """Instances whose bodies this unit brings, and the reach of every instance it holds."""
        for facts in self._entry_points():
            self._meet(facts)
        self._walk_waiting()
        for facts in self._instantiated:
            # An explicit instantiation of a function template, or something that only a library calls.
            if facts.cursor.d0 not in self._keys and not self._made_for_unseen(facts.cursor):
                self._called_back.add(facts.cursor.d0)
                self._meet(facts)
                self._walk_waiting()
        instances = self._assemble()
        return instances, self._reach()

    def _walk_waiting(self) -> None:
        while self._waiting:
            self._walk(self._waiting.popleft())

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
                    if kind in ck.FUNCTION_LIKE and self.functions.file(place.file)[1]:
                        self._note_instantiation(cursor)
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

    def _note_instantiation(self, cursor: libclang.CXCursor) -> None:
        """A function of a header that is instantiated in this unit, for a reason that the walk may not see.

        clang hands out each body that it instantiates as a declaration of its own, after the text of the unit. Explicit
        instantiations of function templates show nowhere else; a functor's or an iterator's operator may be called by
        a library alone. What else clang instantiated is reached from what calls it.
        """
        name = self.unit.spelling(cursor)
        if not name.startswith("operator") and name not in self._explicitly_instantiated():
            return
        pattern = self.lib.clang_getSpecializedCursorTemplate(cursor)
        if not pattern.d0 or self.unit.cursor_place(pattern) != self.unit.cursor_place(cursor):
            return  # written out as a specialization: an ordinary function of the header
        facts = self.functions.of(cursor)
        if facts.has_body and facts.follow:
            self._instantiated.append(facts)

    def _explicitly_instantiated(self) -> set[str]:
        """Words of explicit instantiations, macros' bodies included, in the source file and the root's headers."""
        if self._instantiation_words is None:
            self._instantiation_words = set()
            for path in {self.unit.main_file, *self._files}:
                if path == self.unit.main_file or path.startswith(self._root):
                    self._instantiation_words |= instantiation_words(path)
        return self._instantiation_words

    def _made_for_unseen(self, function: libclang.CXCursor) -> bool:
        """Instantiated for a lambda of a function that nothing refers to: no code is emitted for either."""
        lib = self.lib
        parent = lib.clang_getCursorSemanticParent(function)
        of_function = [
            lib.clang_Cursor_getTemplateArgumentType(function, index)
            for index in range(max(0, lib.clang_Cursor_getNumTemplateArguments(function)))
        ]
        ctype = lib.clang_getCursorType(parent)
        of_class = [
            lib.clang_Type_getTemplateArgumentAsType(ctype, index)
            for index in range(max(0, lib.clang_Type_getNumTemplateArguments(ctype)))
        ]
        classes = [lib.clang_getTypeDeclaration(t) for t in (*of_function, *of_class) if t.kind]
        if parent.kind in ck.CLASS_LIKE:
            classes.append(parent)
        for declaration in classes:
            if declaration.kind in ck.CLASS_LIKE and is_lambda_class(self.unit, declaration):
                creator = self.functions.of(lib.clang_getCursorSemanticParent(declaration))
                if creator.cursor.d0 not in self._keys:
                    return True
        return False

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
        walk.expressions, walk.callbacks = self.expressions, self._called_back_by
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

    def _called_back_by(self, facts: FunctionFacts) -> tuple[FunctionFacts, ...]:
        """The framework's own functions that a function of Eigen comes to call, through however many of Eigen's."""
        found = self._callbacks.get(facts.cursor.d0)
        if found is None:
            called: dict[int | None, FunctionFacts] = {}
            waiting, seen = [facts], {facts.cursor.d0}
            while waiting:
                own, eigens = self._referred_to_by(waiting.pop())
                called.update((function.cursor.d0, function) for function in own)
                for function in eigens:
                    if function.cursor.d0 not in seen:
                        seen.add(function.cursor.d0)
                        waiting.append(function)
            found = self._callbacks[facts.cursor.d0] = tuple(called.values())
        return found

    def _referred_to_by(self, function: FunctionFacts) -> tuple[list[FunctionFacts], list[FunctionFacts]]:
        """(the framework's, Eigen's) functions that a function of Eigen refers to; every body is looked at once."""
        found = self._eigens_references.get(function.cursor.d0)
        if found is None:
            found = ([], [])
            if function.has_body:
                references = References(self.unit, self.functions, function.cursor, everything=True)
                self.cursors += references.cursors
                for referred in references.functions.values():
                    if referred.follow:
                        found[0].append(referred)
                    elif referred.role is Role.EIGEN:
                        found[1].append(referred)
            self._eigens_references[function.cursor.d0] = found
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
