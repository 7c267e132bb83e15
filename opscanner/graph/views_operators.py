"""SQL views of operators: who serves them, where these functions change formats and compute in 16 bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import and_, case, func, literal_column, select, union_all

from opscanner.graph import schema
from opscanner.graph.schema_conclusions import (
    attributed_arithmetic,
    attributed_cast,
    attribution,
    delegation,
    operator,
    registration,
)
from opscanner.graph.view import View

_scan, _function = schema.scan, schema.function
_cast, _arithmetic = schema.cast_site, schema.arithmetic_site
_place, _target = schema.source_file.alias("place"), operator.alias("target")
_NOTHING: Any = literal_column("''")
SIXTEEN_BIT = ("float16", "bfloat16")
#: Categories that compute; comparisons and selections keep values as they are.
COMPUTING = ("arith", "math", "functor", "reduction", "atomic")


def serving() -> Any:
    """Functions that serve an operator: those attributed to it, and those of the operators that it calls.

    What an operator that is called does for sparse, nested or quantized tensors is left out.
    """
    own = select(
        attribution.c.operator_id, attribution.c.function_id, attribution.c.device, attribution.c.distance,
        attribution.c.confidence, attribution.c.formats, attribution.c.path, _NOTHING.label("through"),
        attribution.c.id.label("attribution_id"), attribution.c.dense,
    )  # fmt: skip
    called = select(
        delegation.c.operator_id, attribution.c.function_id, attribution.c.device,
        (attribution.c.distance + delegation.c.distance).label("distance"), literal_column("'likely'"),
        attribution.c.formats, attribution.c.path, _target.c.name, attribution.c.id, attribution.c.dense,
    ).select_from(
        delegation.join(attribution, attribution.c.operator_id == delegation.c.target_id)
        .join(_target, _target.c.id == delegation.c.target_id)
    ).where(attribution.c.dense)  # fmt: skip
    return union_all(own, called).subquery("serving")


def _distinct(attributed: Any, site: Any, column: Any, condition: Any, name: str) -> Any:
    """By operator, the number of sites in what serves it."""
    one = serving()
    return (
        select(one.c.operator_id, func.count(column.distinct()).label("number"))
        .select_from(
            one.join(attributed, attributed.c.attribution_id == one.c.attribution_id).join(site, site.c.id == column)
        )
        .where(condition)
        .group_by(one.c.operator_id)
        .subquery(name)
    )


def _operators_query() -> Any:
    one = serving()
    functions = (
        select(one.c.operator_id, func.count(one.c.function_id.distinct()).label("number"))
        .group_by(one.c.operator_id)
        .subquery("functions_of")
    )
    casts = _distinct(attributed_cast, _cast, attributed_cast.c.cast_site_id, ~_cast.c.constant, "casts_of")
    computing = and_(_arithmetic.c.format.in_(SIXTEEN_BIT), _arithmetic.c.category.in_(COMPUTING))
    narrow = _distinct(
        attributed_arithmetic, _arithmetic, attributed_arithmetic.c.arithmetic_site_id, computing, "narrow_of"
    )
    registered = (
        select(registration.c.operator_id, func.count().label("number"))
        .group_by(registration.c.operator_id)
        .subquery("registered")
    )
    return select(
        operator.c.id, _scan.c.framework, _scan.c.version, operator.c.name, operator.c.forward_name,
        operator.c.direction, operator.c.module_group, _place.c.path.label("file"), operator.c.line,
        func.coalesce(registered.c.number, 0).label("registrations"),
        func.coalesce(functions.c.number, 0).label("functions"), func.coalesce(casts.c.number, 0).label("casts"),
        func.coalesce(narrow.c.number, 0).label("arithmetic_16bit"), operator.c.scan_id,
    ).select_from(
        operator.join(_scan, _scan.c.id == operator.c.scan_id)
        .outerjoin(_place, _place.c.id == operator.c.file_id)
        .outerjoin(registered, registered.c.operator_id == operator.c.id)
        .outerjoin(functions, functions.c.operator_id == operator.c.id)
        .outerjoin(casts, casts.c.operator_id == operator.c.id)
        .outerjoin(narrow, narrow.c.operator_id == operator.c.id)
    )  # fmt: skip


def _operators() -> View:
    return View(
        "operators",
        "One row an operator that a framework declares, with what serves it.",
        _operators_query(),
        {
            "id": "Row of operator.",
            "framework": "pytorch or tensorflow.",
            "version": "Version of the scanned sources.",
            "name": "As the framework calls it: elu, elu_backward, EluGrad.",
            "forward_name": "For a backward operator the forward one's name; for a forward operator its own.",
            "direction": "forward or backward.",
            "module_group": "activation, normalization, loss ...: the study's groups of modules.",
            "file": "File of its declaration.",
            "line": "Line of its declaration.",
            "registrations": "Statements of the framework that something serves it.",
            "functions": "Functions that serve it, those of operators that it calls too.",
            "casts": "Cast sites in the instances that it reaches, constants' left out.",
            "arithmetic_16bit": "Places in these that compute in float16 or bfloat16.",
            "scan_id": "Row of scan.",
        },
    )  # fmt: skip


_SERVED = {
    "framework": "pytorch or tensorflow.",
    "version": "Version of the scanned sources.",
    "operator": "Name of the operator.",
    "direction": "forward or backward.",
    "module_group": "activation, normalization, loss ...",
    "through": "Operator that it calls and that the function is attributed to; empty when it is attributed itself.",
    "device": "cpu or cuda.",
}


def _served(one: Any) -> tuple[Any, ...]:
    return (
        _scan.c.framework, _scan.c.version, operator.c.name.label("operator"), operator.c.direction,
        operator.c.module_group, one.c.through, one.c.device,
    )  # fmt: skip


def _operator_functions() -> View:
    one = serving()
    return View(
        "operator_functions",
        "One row a function that serves an operator on a device, with the path from the registration to it.",
        select(
            *_served(one), _function.c.name.label("function"), _place.c.path.label("file"), _function.c.line,
            one.c.distance, one.c.confidence, one.c.dense, one.c.formats, one.c.path, one.c.operator_id,
            one.c.function_id, one.c.attribution_id, operator.c.scan_id,
        ).select_from(
            one.join(operator, operator.c.id == one.c.operator_id)
            .join(_scan, _scan.c.id == operator.c.scan_id)
            .join(_function, _function.c.id == one.c.function_id)
            .join(_place, _place.c.id == _function.c.file_id)
        ),
        {
            **_SERVED,
            "function": "Qualified name of the function.",
            "file": "File it is written in.",
            "line": "Line.",
            "distance": "Steps between the registration and the function.",
            "confidence": "certain (clang's call graph all the way) or likely (a step was read from source text).",
            "dense": "False when only registrations for sparse, nested or quantized tensors lead there.",
            "formats": "Formats that template parameters of the instances reached are bound to.",
            "path": "JSON: a list of [what, file, line] from the registration on (of the operator in through).",
            "operator_id": "Row of operator.",
            "function_id": "Row of function.",
            "attribution_id": "Row of attribution.",
            "scan_id": "Row of scan.",
        },
    )  # fmt: skip


def _columns(site: Any, names: Iterable[str]) -> Iterator[Any]:
    """A site's columns; its direction under a name that the operator's does not have."""
    for name in names:
        yield site.c.direction.label(name) if name == "cast_direction" else site.c[name]


def _sites(name: str, comment: str, attributed: Any, site: Any, columns: dict[str, str]) -> View:
    one = serving()
    link = attributed.c[f"{site.name}_id"]
    return View(
        name,
        comment,
        select(
            *_served(one), site.c.id, _place.c.path.label("file"), site.c.line, site.c.column,
            _function.c.name.label("function"), *_columns(site, columns), site.c.constant,
            case((site.c.device, literal_column("'device'")), else_=literal_column("'host'")).label("pass"),
            one.c.confidence, one.c.operator_id, operator.c.scan_id,
        ).select_from(
            one.join(operator, operator.c.id == one.c.operator_id)
            .join(_scan, _scan.c.id == operator.c.scan_id)
            .join(attributed, attributed.c.attribution_id == one.c.attribution_id)
            .join(site, site.c.id == link)
            .join(_function, _function.c.id == one.c.function_id)
            .join(_place, _place.c.id == site.c.file_id)
        ),
        {
            **_SERVED,
            "id": f"Row of {site.name}.",
            "file": "File.",
            "line": "Line.",
            "column": "Column.",
            "function": "Qualified name of the function it stands in.",
            **columns,
            "constant": "A literal's, folded by compilers.",
            "pass": "device or host.",
            "confidence": "certain or likely: how sure it is that the function serves the operator.",
            "operator_id": "Row of operator.",
            "scan_id": "Row of scan.",
        },
    )  # fmt: skip


OPERATORS = _operators()
OPERATOR_FUNCTIONS = _operator_functions()
OPERATOR_CASTS = _sites(
    "operator_casts",
    "One row a cast site in a function instance that serves an operator.",
    attributed_cast,
    _cast,
    {
        "from_format": "Format before.",
        "to_format": "Format after.",
        "cast_direction": "widen, narrow, int_to_float or float_to_int.",
        "form": "How it is written: static_cast, implicit ...",
        "written_type": "Target type as written (acc_t); empty when nothing is written.",
    },
)
OPERATOR_ARITHMETIC = _sites(
    "operator_arithmetic",
    "One row a place where a function instance that serves an operator computes in a floating-point format.",
    attributed_arithmetic,
    _arithmetic,
    {
        "operation": "+, exp, the name of the callee ...",
        "category": "arith, math, functor, reduction, atomic, compare or select.",
        "format": "Format it is computed in.",
        "accumulator": "For reductions and atomics the format the sum is held in; otherwise empty.",
    },
)
