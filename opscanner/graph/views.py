"""SQL views for people: words instead of ids, one documented row a thing.

In views of sites, joins to names are outer joins although every row has its partner: SQLite can then leave out those
whose columns nobody asks for, and still begins with the name when a filter names one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, and_, case, func, literal_column, or_, select

from opscanner.graph import schema
from opscanner.graph.view import View
from opscanner.graph.views_findings import FINDINGS, PATTERNS_SUMMARY
from opscanner.graph.views_operators import OPERATOR_ARITHMETIC, OPERATOR_CASTS, OPERATOR_FUNCTIONS, OPERATORS
from opscanner.graph.views_trials import FAULTS, MEASUREMENTS

_scan, _unit, _function, _instance = (
    schema.scan, schema.translation_unit, schema.function, schema.function_instance,
)  # fmt: skip
_cast, _arithmetic, _node, _edge = schema.cast_site, schema.arithmetic_site, schema.node, schema.edge
_file = schema.source_file.alias("place")
_macro = schema.source_file.alias("macro")

_WHERE = {
    "framework": "pytorch, tensorflow, or none.",
    "version": "Version of the scanned sources.",
    "file": "Relative to the scan's root.",
    "line": "Line.",
    "column": "Column.",
    "function": "Qualified name of the function it stands in.",
}
_MARKS = {
    "constant": "A literal's, folded by compilers.",
    "pass": "device: a device function reaches it, and not only in branches that constants rule out; else host.",
    "macro_file": "For code in a macro's body: file of the body; then file and line are where the macro is used.",
    "macro_line": "For code in a macro's body: line of the body.",
    "scan_id": "Row of scan.",
}


def _pass(device: ColumnElement[bool]) -> ColumnElement[str]:
    return case((device, literal_column("'device'")), else_=literal_column("'host'")).label("pass")


def _named(site: Any) -> FromClause:
    joined: FromClause = (
        site.outerjoin(_file, _file.c.id == site.c.file_id)
        .outerjoin(_function, _function.c.id == site.c.function_id)
        .outerjoin(_scan, _scan.c.id == site.c.scan_id)
    )
    return joined


def _place(site: Any) -> tuple[ColumnElement[Any], ...]:
    return (
        _scan.c.framework,
        _scan.c.version,
        _file.c.path.label("file"),
        site.c.line,
        site.c.column,
        _function.c.name.label("function"),
    )


def _marks(site: Any) -> tuple[ColumnElement[Any], ...]:
    # Hardly ever filtered by: as a subquery it costs nothing where it is not asked for.
    macro_file = select(_macro.c.path).where(_macro.c.id == site.c.macro_file_id).scalar_subquery()
    return (
        site.c.constant, _pass(site.c.device), macro_file.label("macro_file"), site.c.macro_line, site.c.scan_id,
    )  # fmt: skip


CASTS = View(
    "casts",
    "One row a cast site: a place where a floating-point format changes.",
    select(
        _cast.c.id, *_place(_cast), _cast.c.from_format, _cast.c.to_format, _cast.c.direction, _cast.c.form,
        _cast.c.written_type, *_marks(_cast),
    ).select_from(_named(_cast)),
    {
        "id": "What opscanner chains takes.",
        **_WHERE,
        "from_format": "Format before.",
        "to_format": "Format after.",
        "direction": "widen, narrow, int_to_float or float_to_int.",
        "form": "How it is written: static_cast, implicit ...",
        "written_type": "Target type as written (acc_t); empty when nothing is written.",
        **_MARKS,
    },
)  # fmt: skip

ARITHMETIC = View(
    "arithmetic",
    "One row a place where something is computed in a floating-point format.",
    select(
        _arithmetic.c.id, *_place(_arithmetic), _arithmetic.c.kind, _arithmetic.c.operation, _arithmetic.c.category,
        _arithmetic.c.format, _arithmetic.c.accumulator, *_marks(_arithmetic),
    ).select_from(_named(_arithmetic)),
    {
        "id": "Row of arithmetic_site.",
        **_WHERE,
        "kind": "arithmetic, math_call, reduction, atomic, comparison or selection.",
        "operation": "+, exp, the name of the callee ...",
        "category": "arith, math, functor, reduction, atomic, compare or select.",
        "format": "Format it is computed in.",
        "accumulator": "For reductions and atomics the format the sum is held in; otherwise empty.",
        **_MARKS,
    },
)  # fmt: skip

CAST_INSTANCES = View(
    "cast_instances",
    "One row a cast of one function instance: a cast site for one binding of formats.",
    select(
        _node.c.id, _node.c.cast_site_id.label("cast_id"), _scan.c.framework, _file.c.path.label("file"),
        _node.c.line, _node.c.column, _function.c.name.label("function"), _instance.c.bindings,
        _cast.c.from_format, _cast.c.to_format, _cast.c.form, _node.c.lanes, _node.c.constant, _node.c.reached,
        _pass(and_(_node.c.reached, or_(_instance.c.device_reached, _node.c.on_device))), _node.c.instance_id,
        _cast.c.scan_id,
    ).select_from(
        _node.join(_cast, _cast.c.id == _node.c.cast_site_id)
        .join(_instance, _instance.c.id == _node.c.instance_id)
        .outerjoin(_function, _function.c.id == _instance.c.function_id)
        .outerjoin(_file, _file.c.id == _node.c.file_id)
        .outerjoin(_scan, _scan.c.id == _cast.c.scan_id)
    ),
    {
        "id": "Row of node.",
        "cast_id": "Row of casts.",
        **{name: text for name, text in _WHERE.items() if name != "version"},
        "bindings": "input_t=float16, acc_t=float32; empty for a plain function.",
        "from_format": "Format before.",
        "to_format": "Format after.",
        "form": "How it is written.",
        "lanes": "Values at once: 2 for __half2.",
        "constant": "A literal's, folded by compilers.",
        "reached": "False in a branch that constants rule out.",
        "pass": "device or host, for this instance; device too for what a host function hands to a GPU (Eigen).",
        "instance_id": "Row of function_instance.",
        "scan_id": "Row of scan.",
    },
)  # fmt: skip


def _end(side: str, id_column: ColumnElement[Any]) -> tuple[tuple[ColumnElement[Any], ...], Any, dict[str, str]]:
    """Columns, joins and texts of one end of an edge."""
    node, instance = schema.node.alias(f"{side}_n"), schema.function_instance.alias(f"{side}_i")
    function, file = schema.function.alias(f"{side}_f"), schema.source_file.alias(f"{side}_p")
    columns = (
        id_column.label(f"{side}_node"),
        node.c.kind.label(f"{side}_kind"),
        node.c.operation.label(f"{side}_operation"),
        node.c.format.label(f"{side}_format"),
        function.c.name.label(f"{side}_function"),
        instance.c.bindings.label(f"{side}_bindings"),
        file.c.path.label(f"{side}_file"),
        node.c.line.label(f"{side}_line"),
        node.c.cast_site_id.label(f"{side}_cast_id"),
    )
    word = "source" if side == "from" else "target"
    texts = {
        f"{side}_node": f"Row of node: the {word}.",
        f"{side}_kind": "load, cast, arithmetic ...",
        f"{side}_operation": "+, exp, a name ...",
        f"{side}_format": "Format of its value.",
        f"{side}_function": "Function it stands in.",
        f"{side}_bindings": "Bindings of the function instance it stands in.",
        f"{side}_file": "File.",
        f"{side}_line": "Line.",
        f"{side}_cast_id": "For casts: row of casts.",
    }
    return columns, (node, instance, function, file), texts


def _chain_steps() -> View:
    from_columns, sources, from_texts = _end("from", _edge.c.source_id)
    to_columns, targets, to_texts = _end("to", _edge.c.target_id)
    joined: Any = _edge
    for (node, *_), id_column in ((sources, _edge.c.source_id), (targets, _edge.c.target_id)):
        joined = joined.join(node, node.c.id == id_column)
    for node, instance, function, file in (sources, targets):
        joined = (
            joined.join(instance, instance.c.id == node.c.instance_id)
            .join(function, function.c.id == instance.c.function_id)
            .join(file, file.c.id == node.c.file_id)
        )
    return View(
        "chain_steps",
        "One row a step of a def-use chain: a value flows from one node to another.",
        select(*from_columns, _edge.c.kind.label("step"), *to_columns).select_from(joined),
        {
            **from_texts,
            "step": "def_use, loop_carried, argument, return, launch, capture or control.",
            **to_texts,
        },
    )


def _any(flag: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.max(case((flag, 1), else_=0))


FUNCTIONS = View(
    "functions",
    "One row a function as written, with what its instances hold.",
    select(
        _function.c.id, _scan.c.framework, _scan.c.version, _function.c.name, _file.c.path.label("file"),
        _function.c.line, func.count().label("instances"), _any(_instance.c.is_kernel).label("kernel"),
        _any(_instance.c.device_reached).label("device"), _any(_instance.c.has_error).label("has_error"),
        func.sum(_instance.c.nodes).label("nodes"), func.sum(_instance.c.casts).label("casts"), _function.c.scan_id,
    )
    .select_from(
        _function.join(_instance, _instance.c.function_id == _function.c.id)
        .join(_file, _file.c.id == _function.c.file_id)
        .join(_scan, _scan.c.id == _function.c.scan_id)
    )
    .group_by(
        _function.c.id, _scan.c.framework, _scan.c.version, _function.c.name, _file.c.path, _function.c.line,
        _function.c.scan_id,
    ),
    {
        "id": "Row of function.",
        "framework": _WHERE["framework"],
        "version": _WHERE["version"],
        "name": "Qualified name, without template arguments.",
        "file": _WHERE["file"],
        "line": "Line of the body.",
        "instances": "Number of instances, one for each binding of formats.",
        "kernel": "1 for __global__ functions.",
        "device": "1 when a device function reaches an instance.",
        "has_error": "1 when an instance holds an error diagnostic.",
        "nodes": "Nodes of all instances.",
        "casts": "Cast nodes of all instances.",
        "scan_id": _MARKS["scan_id"],
    },
)  # fmt: skip

UNITS = View(
    "units",
    "One row a translation unit: what became of it.",
    select(
        _unit.c.id, _scan.c.framework, _scan.c.version, _file.c.path.label("file"),
        *[column for column in _unit.c if column.name not in ("id", "scan_id", "file_id", "run", "arguments_hash")],
        _unit.c.scan_id,
    ).select_from(
        _unit.join(_file, _file.c.id == _unit.c.file_id).join(_scan, _scan.c.id == _unit.c.scan_id)
    ),
    {
        "id": "Row of translation_unit.",
        "framework": _WHERE["framework"],
        "version": _WHERE["version"],
        "file": "Main file, relative to the scan's root.",
        **{
            column.name: str(column.comment)
            for column in _unit.c
            if column.name not in ("id", "scan_id", "file_id", "run", "arguments_hash")
        },
        "scan_id": _MARKS["scan_id"],
    },
)  # fmt: skip

_counted = (
    select(
        _cast.c.from_format, _cast.c.to_format, _cast.c.direction, _cast.c.form, _cast.c.scan_id,
        func.count().label("sites"), func.sum(case((_cast.c.constant, 1), else_=0)).label("constant_sites"),
        func.sum(case((_cast.c.device, 1), else_=0)).label("device_sites"),
    )
    .group_by(_cast.c.from_format, _cast.c.to_format, _cast.c.direction, _cast.c.form, _cast.c.scan_id)
    .subquery("counted")
)  # fmt: skip

FORMATS_SUMMARY = View(
    "formats_summary",
    "One row a pair of formats and a form: how many cast sites there are.",
    select(
        _scan.c.framework, _scan.c.version, _counted.c.from_format, _counted.c.to_format, _counted.c.direction,
        _counted.c.form, _counted.c.sites, _counted.c.constant_sites, _counted.c.device_sites, _counted.c.scan_id,
    ).select_from(_counted.join(_scan, _scan.c.id == _counted.c.scan_id)),
    {
        "framework": _WHERE["framework"],
        "version": _WHERE["version"],
        "from_format": "Format before.",
        "to_format": "Format after.",
        "direction": CASTS.columns["direction"],
        "form": CASTS.columns["form"],
        "sites": "Number of cast sites.",
        "constant_sites": "Those whose value is constant.",
        "device_sites": "Those that a device function reaches.",
        "scan_id": _MARKS["scan_id"],
    },
)  # fmt: skip


def _calls() -> View:
    call = schema.call_site
    caller, callee = schema.function_instance.alias("caller_i"), schema.function_instance.alias("callee_i")
    caller_f, callee_f = schema.function.alias("caller_f"), schema.function.alias("callee_f")
    return View(
        "calls",
        "One row a call between two function instances.",
        select(
            caller.c.id.label("caller_id"), caller_f.c.name.label("caller"),
            caller.c.bindings.label("caller_bindings"), call.c.kind, _file.c.path.label("file"), call.c.line,
            callee.c.id.label("callee_id"), callee_f.c.name.label("callee"),
            callee.c.bindings.label("callee_bindings"), caller.c.scan_id,
        ).select_from(
            call.join(caller, caller.c.id == call.c.caller_id)
            .join(callee, callee.c.id == call.c.callee_id)
            .join(caller_f, caller_f.c.id == caller.c.function_id)
            .join(callee_f, callee_f.c.id == callee.c.function_id)
            .outerjoin(_file, _file.c.id == caller_f.c.file_id)
        ),
        {
            "caller_id": "Row of function_instance.",
            "caller": "Function that calls.",
            "caller_bindings": "Its bindings.",
            "kind": "argument, launch (kernel<<<...>>>) or capture (a lambda takes values from its creator).",
            "file": "File of the caller.",
            "line": "Line of the call.",
            "callee_id": "Row of function_instance.",
            "callee": "Function called.",
            "callee_bindings": "Its bindings.",
            "scan_id": _MARKS["scan_id"],
        },
    )  # fmt: skip


VIEWS: tuple[View, ...] = (
    CASTS, ARITHMETIC, CAST_INSTANCES, _chain_steps(), FUNCTIONS, _calls(), UNITS, FORMATS_SUMMARY, FINDINGS,
    PATTERNS_SUMMARY, OPERATORS, OPERATOR_FUNCTIONS, OPERATOR_CASTS, OPERATOR_ARITHMETIC,
    MEASUREMENTS, FAULTS,
)  # fmt: skip


def create_views(connection: Connection, views: Sequence[View] = VIEWS) -> None:
    """Creates views, every one by default, in a database that has the tables and not the views."""
    dialect = connection.dialect
    for view in views:
        query = view.query.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
        # A bare % in the text would be a parameter for drivers with that style; no query has one.
        connection.exec_driver_sql(f"CREATE VIEW {view.name} AS {query}")
