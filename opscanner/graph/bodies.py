"""Turns a function instance's body into rows: nodes, edges, calls, and the sites that nodes share."""

from __future__ import annotations

import hashlib
import marshal
import os
import stat
from collections import defaultdict
from collections.abc import Iterable

from opscanner.graph.bulk import Ids, Row
from opscanner.graph.memory import ScanMemory, StoredInstance, StoredSite
from opscanner.ir import Call, EdgeKind, FunctionInstance, Node, NodeKind
from opscanner.precision.formats import cast_direction

#: Kinds of nodes that compute something, by word: looking an Enum member up in a set calls Python code for its hash.
_COMPUTING = frozenset(
    kind.value
    for kind in (
        NodeKind.ARITHMETIC,
        NodeKind.COMPARISON,
        NodeKind.SELECTION,
        NodeKind.REDUCTION,
        NodeKind.ATOMIC,
        NodeKind.MATH_CALL,
    )
)
_CAPTURE, _RETURN = EdgeKind.CAPTURE.value, EdgeKind.RETURN.value


class RowBuilder:
    """Collects the rows of one unit; nothing reaches the database before the unit is whole.

    Parameters
    ----------
    memory : ScanMemory
        What the scan has; new files, functions, instances and sites are added to it.
    ids : dict of str to Ids
        Id counters by table name.
    scan_id, run : int
        The scan and its present run.
    """

    def __init__(self, memory: ScanMemory, ids: dict[str, Ids], scan_id: int, run: int) -> None:
        self.memory = memory
        self.ids = ids
        self.scan_id = scan_id
        self.run = run
        self.rows: defaultdict[str, list[Row]] = defaultdict(list)
        #: Sites of this unit that are not in the database yet: their rows are made when their marks are final.
        self._new_casts: list[tuple[StoredSite, Row]] = []
        self._new_arithmetic: list[tuple[StoredSite, Row]] = []
        #: Sites whose marks changed, by id.
        self.changed_casts: dict[int, StoredSite] = {}
        self.changed_arithmetic: dict[int, StoredSite] = {}
        #: Sizes of files that were edited since the database got them, by id.
        self.changed_sizes: dict[int, int | None] = {}
        self._edges: set[tuple[int, int, str]] = set()

    def file(self, path: str) -> int:
        """Id of a source file."""
        file_id = self.memory.files.get(path)
        if file_id is None:
            file_id = self.memory.files[path] = self.ids["source_file"].take()
            self.memory.sizes[path] = file_size(self.memory.root, path)
            self.memory.sized.add(path)
            self.rows["source_file"].append((file_id, self.scan_id, path, self.memory.sizes[path]))
        return file_id

    def function(self, name: str, path: str, line: int, column: int) -> int:
        """Id of a function as written."""
        place = (name, self.file(path), line, column)
        function_id = self.memory.functions.get(place)
        if function_id is None:
            function_id = self.memory.functions[place] = self.ids["function"].take()
            self.rows["function"].append((function_id, self.scan_id, *place))
        return function_id

    def payloads(self, instance: FunctionInstance, function_id: int, device: bool) -> list[Row]:
        """Node rows without the two ids they begin with; their sites are made on the way."""
        files = self.memory.files
        self._look_at_size({instance.file, *(node.file for node in instance.nodes)})
        positions = {node: position for position, node in enumerate(instance.parameters) if node >= 0}
        payloads: list[Row] = []
        for index, node in enumerate(instance.nodes):
            word = node.kind._value_
            file_id = files.get(node.file)
            if file_id is None:
                file_id = self.file(node.file)
            cast_id = arithmetic_id = None
            if word == "cast":
                cast_id = self._cast_site(node, file_id, function_id, device or node.on_device)
            elif word in _COMPUTING and node.category:
                arithmetic_id = self._arithmetic_site(node, word, file_id, function_id, device or node.on_device)
            payloads.append(
                (
                    word, file_id, node.line, node.column, node.operation, node.format, node.lanes, node.constant,
                    node.reached, node.on_device, positions.get(index), cast_id, arithmetic_id,
                )
            )  # fmt: skip
        return payloads

    def _look_at_size(self, paths: set[str]) -> None:
        """Sizes of files that an earlier session knew, which may have been edited since."""
        memory = self.memory
        for path in (paths & memory.files.keys()) - memory.sized:
            size = file_size(memory.root, path)
            memory.sized.add(path)
            if size != memory.sizes[path]:
                memory.sizes[path] = self.changed_sizes[memory.files[path]] = size

    def _cast_site(self, node: Node, file_id: int, function_id: int, device: bool) -> int:
        form = node.form._value_ if node.form is not None else ""
        key = (file_id, node.line, node.column, function_id, node.from_format, node.format, form)
        site = self.memory.casts.by_key.get(key)
        if site is not None:
            if (site.constant and not node.constant) or (
                node.reached and not (site.reached and (site.device or not device))
            ):
                self._change(site, node, device, self.changed_casts)
            return site.id
        device = device and node.reached
        site = StoredSite(self.ids["cast_site"].take(), key, node.constant, node.reached, device)
        self.memory.casts.add(site)
        direction = cast_direction(node.from_format, node.format)
        place = (
            site.id,
            self.scan_id,
            *key[:6],
            direction.value if direction else None,
            form,
            node.written_type,
        )
        self._new_casts.append((site, (place, *self._macro(node))))
        return site.id

    def _arithmetic_site(self, node: Node, word: str, file_id: int, function_id: int, device: bool) -> int:
        key = (
            file_id, node.line, node.column, function_id, word, node.operation[:255], node.category, node.format,
            node.accumulator,
        )  # fmt: skip
        site = self.memory.arithmetic.by_key.get(key)
        if site is not None:
            if (site.constant and not node.constant) or (
                node.reached and not (site.reached and (site.device or not device))
            ):
                self._change(site, node, device, self.changed_arithmetic)
            return site.id
        device = device and node.reached
        site = StoredSite(self.ids["arithmetic_site"].take(), key, node.constant, node.reached, device)
        self.memory.arithmetic.add(site)
        self._new_arithmetic.append((site, ((site.id, self.scan_id, *key), *self._macro(node))))
        return site.id

    @staticmethod
    def _change(site: StoredSite, node: Node, device: bool, changed: dict[int, StoredSite]) -> None:
        site.constant = site.constant and node.constant
        site.reached = site.reached or node.reached
        site.device = site.device or (device and node.reached)
        changed[site.id] = site

    def _macro(self, node: Node) -> tuple[int | None, int | None]:
        return (self.file(node.macro_file), node.macro_line) if node.macro_file else (None, None)

    def body(self, stored: StoredInstance, instance: FunctionInstance, payloads: list[Row]) -> None:
        """Node and edge rows of an instance; its ids follow one another from ``stored.first_node``."""
        first, instance_id = stored.first_node, stored.id
        self.rows["node"].extend(
            [(index, instance_id, *payload) for index, payload in enumerate(payloads, start=first)]
        )
        self._edges.update([(first + source, first + target, kind._value_) for source, target, kind in instance.edges])
        stored.parameters, stored.returns = instance.parameters, instance.returns

    def call(self, caller: StoredInstance, call: Call) -> None:
        """Row of a call; it stays open while the callee is unknown."""
        callee = self.memory.instances.get(call.callee)
        if callee is None:
            self.memory.awaited.add(call.callee)
        arguments = ",".join(f"{node}:{position}" for node, position in call.arguments)
        self.rows["call_site"].append(
            (
                self.ids["call_site"].take(), caller.id, callee.id if callee else None,
                None if callee else call.callee, call.node, arguments, call.kind._value_, call.line,
            )
        )  # fmt: skip

    def link(
        self, first_node: int, node: int, arguments: Iterable[tuple[int, int]], kind: str, callee: StoredInstance
    ) -> None:
        """Edges of one call: its arguments to the callee's parameters, the callee's returns to the call's node.

        ``first_node`` is the caller's, ``kind`` the word of an EdgeKind. Who creates a lambda does not get its result.
        """
        assert callee.parameters is not None
        assert callee.returns is not None
        for argument, position in arguments:
            if argument >= 0 and position < len(callee.parameters) and callee.parameters[position] >= 0:
                self._edges.add((first_node + argument, callee.first_node + callee.parameters[position], kind))
        if node >= 0 and kind != _CAPTURE:
            self._edges.update(
                (callee.first_node + returned, first_node + node, _RETURN) for returned in callee.returns
            )

    def finish(self) -> dict[str, list[Row]]:
        """All rows by table, marks of new sites filled in, edges in the order of their index."""
        for name, fresh in (("cast_site", self._new_casts), ("arithmetic_site", self._new_arithmetic)):
            self.rows[name].extend(
                [(*place, site.constant, site.reached, site.device, *macro) for site, (place, *macro) in fresh]
            )
        fresh_ids = {site.id for site, _ in self._new_casts}
        self.changed_casts = {id_: site for id_, site in self.changed_casts.items() if id_ not in fresh_ids}
        fresh_ids = {site.id for site, _ in self._new_arithmetic}
        self.changed_arithmetic = {id_: site for id_, site in self.changed_arithmetic.items() if id_ not in fresh_ids}
        self.rows["edge"] = sorted(self._edges)
        return self.rows


def file_size(root: str, path: str) -> int | None:
    """Bytes of a file, None when it is not there; readers of the database see by it that a file has changed."""
    try:
        found = os.stat(os.path.join(root, path))
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def digest(instance: FunctionInstance, payloads: list[Row]) -> str:
    """Hash of a body: equal for equal bodies as long as the database knows their files and sites by the same ids."""
    # marshal's format 0 knows no references, so equal values give equal bytes. It takes plain tuples only.
    plain = (
        payloads,
        [(edge.source, edge.target, edge.kind._value_) for edge in instance.edges],
        [(*call[:3], call.kind._value_, call.line) for call in instance.calls],
        (instance.bindings, instance.signature, instance.usr, instance.has_error, instance.returns),
        (instance.is_kernel, instance.is_device, instance.is_host, instance.is_lambda),
    )
    return hashlib.blake2b(marshal.dumps(plain, 0), digest_size=16).hexdigest()
