"""Questions about operators: the list, one operator's evidence, and which operators a function serves."""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, and_, func, or_, select, table
from sqlalchemy import column as sql_column

from opscanner.errors import UsageError
from opscanner.graph import schema, views_operators
from opscanner.graph.schema_conclusions import (
    attributed_arithmetic,
    attributed_cast,
    attribution,
    delegation,
    operator,
    registration,
    shared_function,
)
from opscanner.graph.view import View
from opscanner.results import (
    AttributionRate,
    OperatorDetails,
    OperatorFunction,
    OperatorRegistration,
    OperatorSummary,
    PathStep,
)

#: A header that more units than this include is shared: its functions belong to no operator in particular.
SHARED_BY_UNITS = 32
#: Endings of files that are compiled, not included.
_UNIT_ENDINGS = (".cu", ".cu.cc", ".cc", ".cpp", ".cxx", ".c")


def _view(view: View) -> Any:
    return table(view.name, *(sql_column(name) for name in view.columns))


def find_operators(
    connection: Connection, *, framework: str | None = None, device: str | None = None
) -> list[OperatorSummary]:
    """The operators of all scans by framework, version and name; with a device those that it has a kernel for."""
    view = _view(views_operators.OPERATORS)
    query = select(*(view.c[name] for name in OperatorSummary._fields))
    if framework is not None:
        query = query.where(view.c.framework == framework)
    if device is not None:
        registered = select(registration.c.operator_id).where(registration.c.device.in_((device, "any")))
        query = query.where(view.c.id.in_(registered))
    rows = [OperatorSummary(*row) for row in connection.execute(query)]
    return sorted(rows, key=lambda row: (row.framework, row.version, row.name))


def operator_ids(connection: Connection, name: str, framework: str | None = None) -> list[int]:
    """Ids of the operators of a name, one a scan; overloads and in-place variants mean their operator.

    Raises
    ------
    UsageError
        When no scan has an operator of that name.
    """
    query = select(operator.c.id, operator.c.name).join(schema.scan, schema.scan.c.id == operator.c.scan_id)
    if framework is not None:
        query = query.where(schema.scan.c.framework == framework)
    known: dict[str, list[int]] = defaultdict(list)
    for id_, known_name in connection.execute(query):
        known[known_name].append(id_)
    for spelled in _spellings(name):
        if spelled in known:
            return known[spelled]
    if not known:
        raise UsageError(
            "the database holds no operators", "opscanner scan concludes them, for checkouts of PyTorch and TensorFlow"
        )
    folded = {known_name.lower(): known_name for known_name in known}
    near = difflib.get_close_matches(name.lower(), folded, n=3)
    hint = f"did you mean {', '.join(folded[found] for found in near)}?" if near else "opscanner operators lists them"
    raise UsageError(f"there is no operator {name}", hint)


def _spellings(name: str) -> list[str]:
    """What a name may mean, best first: ``aten::elu_.out`` is ``elu_.out``, ``elu_``, ``elu``."""
    plain = name.removeprefix("aten::").removeprefix("torch.").removeprefix("tf.raw_ops.")
    base = plain.partition(".")[0]
    return [name, plain, base, base.rstrip("_")]


def _serving(ids: Sequence[int]) -> ColumnElement[bool]:
    """The attributions of operators and of those that they call."""
    targets = select(delegation.c.target_id).where(delegation.c.operator_id.in_(ids))
    return or_(attribution.c.operator_id.in_(ids), and_(attribution.c.dense, attribution.c.operator_id.in_(targets)))


def functions_serving(
    connection: Connection, name: str, *, framework: str | None = None, device: str | None = None
) -> set[int]:
    """Ids of the functions that serve an operator, those of operators that it calls too.

    Raises
    ------
    UsageError
        When no scan has an operator of that name.
    """
    query = select(attribution.c.function_id).where(_serving(operator_ids(connection, name, framework)))
    if device is not None:
        query = query.where(attribution.c.device == device)
    return set(connection.execute(query).scalars())


def sites_serving(connection: Connection, name: str, *, framework: str | None = None, casts: bool) -> set[int]:
    """Ids of the cast sites, or arithmetic sites, in function instances that serve an operator.

    Raises
    ------
    UsageError
        When no scan has an operator of that name.
    """
    attributed, site = _attributed(casts)
    query = (
        select(site)
        .join_from(attributed, attribution, attribution.c.id == attributed.c.attribution_id)
        .where(_serving(operator_ids(connection, name, framework)))
    )
    return set(connection.execute(query).scalars())


def operators_of_sites(connection: Connection, *, casts: bool) -> dict[int, tuple[str, ...]]:
    """By cast site, or by arithmetic site, the operators that it is attributed to, in the order of their names."""
    attributed, site = _attributed(casts)
    found: dict[int, set[str]] = defaultdict(set)
    for site_id, name in connection.execute(
        select(site, operator.c.name)
        .join_from(attributed, attribution, attribution.c.id == attributed.c.attribution_id)
        .join(operator, operator.c.id == attribution.c.operator_id)
    ):
        found[site_id].add(name)
    return {site_id: tuple(sorted(names)) for site_id, names in found.items()}


def _attributed(casts: bool) -> tuple[Table, Column[Any]]:
    if casts:
        return attributed_cast, attributed_cast.c.cast_site_id
    return attributed_arithmetic, attributed_arithmetic.c.arithmetic_site_id


def describe_operator(
    connection: Connection, name: str, *, framework: str | None = None, device: str | None = None
) -> list[OperatorDetails]:
    """One operator of each scan that has it: registrations, delegations, and every function with its path."""
    ids = operator_ids(connection, name, framework)
    summaries = {row.id: row for row in find_operators(connection, framework=framework)}
    return [
        OperatorDetails(
            summaries[id_],
            tuple(_registrations(connection, id_, device)),
            tuple(_delegations(connection, id_)),
            tuple(_functions(connection, id_, device)),
        )
        for id_ in ids
    ]


def _registrations(connection: Connection, id_: int, device: str | None) -> list[OperatorRegistration]:
    file = schema.source_file.c
    query = (
        select(
            registration.c.kind, registration.c.device, registration.c.formats, registration.c.target, file.path,
            registration.c.line,
        )
        .select_from(registration.outerjoin(schema.source_file, file.id == registration.c.file_id))
        .where(registration.c.operator_id == id_)
        .order_by(registration.c.id)
    )  # fmt: skip
    if device is not None:
        query = query.where(registration.c.device.in_((device, "any")))
    return [
        OperatorRegistration(row[0], row[1], tuple(filter(None, row[2].split(","))), row[3], row[4] or "", row[5])
        for row in connection.execute(query)
    ]


def _delegations(connection: Connection, id_: int) -> list[tuple[str, tuple[PathStep, ...]]]:
    query = (
        select(operator.c.name, delegation.c.path)
        .select_from(delegation.join(operator, operator.c.id == delegation.c.target_id))
        .where(delegation.c.operator_id == id_)
        .order_by(delegation.c.distance, operator.c.name)
    )
    return [(row[0], _steps(row[1])) for row in connection.execute(query)]


def _functions(connection: Connection, id_: int, device: str | None) -> list[OperatorFunction]:
    view = _view(views_operators.OPERATOR_FUNCTIONS)
    query = select(
        view.c.through, view.c.device, view.c.function, view.c.file, view.c.line, view.c.distance, view.c.confidence,
        view.c.formats, view.c.path, view.c.attribution_id,
    ).where(view.c.operator_id == id_)  # fmt: skip
    if device is not None:
        query = query.where(view.c.device == device)
    found = connection.execute(query).all()
    attributions = [row.attribution_id for row in found]
    casts = _lines(connection, attributions, casts=True)
    narrow = _lines(connection, attributions, casts=False)
    rows = [
        OperatorFunction(
            *row[:7],
            formats=tuple(filter(None, row[7].split(","))),
            path=_steps(row[8]),
            casts=tuple(casts.get(row[9], ())),
            arithmetic_16bit=tuple(narrow.get(row[9], ())),
        )
        for row in found
    ]
    return sorted(rows, key=lambda row: (row.through != "", row.through, row.device, row.distance, row.file, row.line))


def _lines(connection: Connection, attributions: Sequence[int], *, casts: bool) -> dict[int, list[int]]:
    """By attribution, lines with a cast that is no constant's, or with 16-bit computation."""
    attributed, link = _attributed(casts)
    site: Any = schema.cast_site if casts else schema.arithmetic_site
    wanted = (
        (~site.c.constant,)
        if casts
        else (site.c.format.in_(views_operators.SIXTEEN_BIT), site.c.category.in_(views_operators.COMPUTING))
    )
    found: dict[int, set[int]] = defaultdict(set)
    for first in range(0, len(attributions), 500):
        query = (
            select(attributed.c.attribution_id, site.c.line)
            .join_from(attributed, site, site.c.id == link)
            .where(attributed.c.attribution_id.in_(attributions[first : first + 500]), *wanted)
        )
        for attribution_id, line in connection.execute(query):
            found[attribution_id].add(line)
    return {attribution_id: sorted(lines) for attribution_id, lines in found.items()}


def _steps(path: str) -> tuple[PathStep, ...]:
    return tuple(PathStep(*step) for step in json.loads(path))


def attribution_rates(connection: Connection) -> list[AttributionRate]:
    """One row a scan with operators: which part of its cast sites reaches at least one operator.

    Counted are cast sites that are no constants', in files of the scanned root that are no shared headers: a header
    that more than ``SHARED_BY_UNITS`` units include belongs to no operator in particular.
    """
    found = []
    scan = schema.scan.c
    for id_, framework, version in connection.execute(
        select(scan.id, scan.framework, scan.version).where(scan.id.in_(select(operator.c.scan_id))).order_by(scan.id)
    ).all():
        shared = _shared_headers(connection, id_)
        attributed = set(connection.execute(select(attribution.c.function_id).distinct()).scalars())
        attributed.update(connection.execute(select(shared_function.c.function_id)).scalars())
        file, cast = schema.source_file.c, schema.cast_site.c
        sites = reached = functions = reached_functions = 0
        for path, function_id, number in connection.execute(
            select(file.path, cast.function_id, func.count())
            .join_from(schema.cast_site, schema.source_file, file.id == cast.file_id)
            .where(cast.scan_id == id_, ~cast.constant)
            .group_by(file.path, cast.function_id)
        ):
            if path in shared or path.startswith("/"):
                continue
            sites, functions = sites + number, functions + 1
            if function_id in attributed:
                reached, reached_functions = reached + number, reached_functions + 1
        found.append(AttributionRate(framework, version, sites, reached, functions, reached_functions, len(shared)))
    return found


def _shared_headers(connection: Connection, scan_id: int) -> set[str]:
    file, dependency = schema.source_file.c, schema.dependency.c
    rows = connection.execute(
        select(file.path, func.count())
        .join_from(schema.dependency, schema.source_file, file.id == dependency.file_id)
        .where(file.scan_id == scan_id)
        .group_by(file.path)
    )
    return {path for path, units in rows if units > SHARED_BY_UNITS and not path.endswith(_UNIT_ENDINGS)}
