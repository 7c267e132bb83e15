"""Writes what is concluded about operators: all of a scan at once, in the place of what was there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Table, insert, select

from opscanner.graph import schema
from opscanner.graph.bulk import BulkInsert, Row, largest_ids
from opscanner.graph.conclusions import delete_conclusions
from opscanner.graph.schema_conclusions import (
    ATTRIBUTED,
    attributed_arithmetic,
    attributed_cast,
    attributed_instance,
    attribution,
    delegation,
    operator,
    registration,
    shared_function,
)

Steps = Sequence[tuple[str, str, int]]
_TABLES = (*ATTRIBUTED, attribution, delegation, shared_function, registration, operator)


class OperatorRow(NamedTuple):
    """An operator; its place in the list is how the other rows refer to it."""

    name: str
    forward_name: str
    direction: str
    module_group: str
    file: str
    line: int


class RegistrationRow(NamedTuple):
    """A registration; ``operator`` is an index into the operators."""

    operator: int
    kind: str
    device: str
    formats: Sequence[str]
    target: str
    file: str
    line: int


class AttributionRow(NamedTuple):
    """A function that serves an operator; ``registration`` is an index into the registrations.

    ``instances`` are ids of those of its instances that do.
    """

    operator: int
    function_id: int
    registration: int
    device: str
    distance: int
    certain: bool
    formats: Sequence[str]
    path: Steps
    instances: Sequence[int]
    dense: bool


class DelegationRow(NamedTuple):
    """An operator that calls another; both are indices into the operators."""

    operator: int
    target: int
    distance: int
    path: Steps


class OperatorConclusions(NamedTuple):
    """All that is concluded about the operators of a scan. ``shared`` is (function id, number of operators)."""

    operators: Sequence[OperatorRow]
    registrations: Sequence[RegistrationRow]
    attributions: Sequence[AttributionRow]
    delegations: Sequence[DelegationRow]
    shared: Sequence[tuple[int, int]]


def replace(connection: Connection, scan_id: int, concluded: OperatorConclusions) -> None:
    """Writes a scan's operators, registrations, attributions and delegations in the place of those that it has."""
    delete_conclusions(connection, scan_id, _TABLES)
    ids = largest_ids(connection, (attribution, delegation, registration, operator))
    files = _Files(connection, scan_id)
    first_operator = ids["operator"].take(len(concluded.operators))
    first_registration = ids["registration"].take(len(concluded.registrations))
    first_attribution = ids["attribution"].take(len(concluded.attributions))
    first_delegation = ids["delegation"].take(len(concluded.delegations))
    rows: dict[Table, list[Row]] = {
        operator: [
            (first_operator + index, scan_id, row.name, row.forward_name, row.direction, row.module_group,
             files.id(row.file), row.line)
            for index, row in enumerate(concluded.operators)
        ],
        registration: [
            (first_registration + index, first_operator + row.operator, row.kind, row.device, _joined(row.formats),
             row.target, files.id(row.file), row.line)
            for index, row in enumerate(concluded.registrations)
        ],
        attribution: [
            (first_attribution + index, first_operator + row.operator, row.function_id,
             first_registration + row.registration, row.device, row.distance, "certain" if row.certain else "likely",
             row.dense, _joined(row.formats), json.dumps(list(row.path), separators=(",", ":")))
            for index, row in enumerate(concluded.attributions)
        ],
        delegation: [
            (first_delegation + index, first_operator + row.operator, first_operator + row.target, row.distance,
             json.dumps(list(row.path), separators=(",", ":")))
            for index, row in enumerate(concluded.delegations)
        ],
        attributed_instance: [
            (first_attribution + index, instance)
            for index, row in enumerate(concluded.attributions)
            for instance in row.instances
        ],
        shared_function: [(function_id, scan_id, count) for function_id, count in concluded.shared],
    }  # fmt: skip
    files.write()
    for table in reversed(_TABLES):
        if table in rows:
            BulkInsert(table, connection.dialect).write(connection, rows[table])
    for table, site in (
        (attributed_cast, schema.node.c.cast_site_id),
        (attributed_arithmetic, schema.node.c.arithmetic_site_id),
    ):
        found = (
            select(attributed_instance.c.attribution_id, site)
            .join(schema.node, schema.node.c.instance_id == attributed_instance.c.instance_id)
            .join(attribution, attribution.c.id == attributed_instance.c.attribution_id)
            .where(site.is_not(None), attribution.c.id >= first_attribution)
            .distinct()
        )
        connection.execute(insert(table).from_select(["attribution_id", site.name], found))


def _joined(words: Sequence[str]) -> str:
    text = ",".join(words)
    return text if len(text) <= 255 else text[:252].rpartition(",")[0] + ",..."


class _Files:
    """Ids of files by path; files that no unit includes are added."""

    def __init__(self, connection: Connection, scan_id: int) -> None:
        self._connection, self._scan_id = connection, scan_id
        table = schema.source_file.c
        known = connection.execute(select(table.path, table.id).where(table.scan_id == scan_id))
        self._ids = {row.path: row.id for row in known}
        self._next = largest_ids(connection, (schema.source_file,))["source_file"]
        self._new: list[tuple[int, int, str, None]] = []

    def id(self, path: str) -> int | None:
        """Id of a file; none for the empty path."""
        if not path:
            return None
        found = self._ids.get(path)
        if found is None:
            found = self._ids[path] = self._next.take()
            self._new.append((found, self._scan_id, path, None))
        return found

    def write(self) -> None:
        """Writes the files that were added."""
        BulkInsert(schema.source_file, self._connection.dialect).write(self._connection, self._new)
