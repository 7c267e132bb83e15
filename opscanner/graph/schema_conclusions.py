"""The tables of what is concluded from the graph: operators, the functions attributed to them, findings of rules.

They follow from the facts of ``schema.py`` and the framework's own statements. A scan that goes on deletes them, and
makes them anew at its end; nothing else in the database refers to them.
"""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, String, Table, Text

from opscanner.graph.schema import _id, _int, _ref, _text, _word, metadata

operator = Table(
    "operator",
    metadata,
    _id("Operator."),
    _ref("scan_id", "scan", "Scan whose framework declares it."),
    Column("name", String(255), nullable=False, comment="As the framework calls it: elu, elu_backward, EluGrad."),
    Column(
        "forward_name",
        String(255),
        nullable=False,
        comment="For a backward operator the forward one's name; for a forward operator its own.",
    ),
    _word("direction", "forward or backward."),
    _word("module_group", "activation, normalization, loss ...: the study's groups of modules."),
    _ref("file_id", "source_file", "File of its declaration.", nullable=True),
    _int("line", "Line of its declaration; 0 when unknown."),
    Index("ux_operator_name", "scan_id", "name", unique=True),
    comment="One row an operator that a framework declares.",
)

registration = Table(
    "registration",
    metadata,
    _id("Registration."),
    _ref("operator_id", "operator", "Operator that is served."),
    _word("kind", "native_functions, structured_impl, register_dispatch, register_kernel_builder ..."),
    _word("device", "cpu, cuda, or any."),
    Column(
        "formats", String(255), nullable=False, comment="Formats it serves, comma-separated; empty: not said there."
    ),
    _text("target", "What serves it, as written: a function, a stub, a kernel class."),
    _ref("file_id", "source_file", "File of the statement.", nullable=True),
    _int("line", "Line of the statement."),
    Index("ix_registration_operator", "operator_id"),
    comment="One row a statement of the framework that something serves an operator.",
)

attribution = Table(
    "attribution",
    metadata,
    _id("Attribution."),
    _ref("operator_id", "operator", "Operator that is served."),
    _ref("function_id", "function", "Function that serves it."),
    _ref("registration_id", "registration", "Registration that the path begins with.", nullable=True),
    _word("device", "cpu or cuda."),
    _int("distance", "Steps between the registration and the function."),
    _word("confidence", "certain (clang's call graph all the way) or likely (a step was read from source text)."),
    Column(
        "dense",
        Boolean,
        nullable=False,
        comment="False when only registrations for sparse, nested or quantized tensors lead there.",
    ),
    Column(
        "formats",
        String(255),
        nullable=False,
        comment="Formats that template parameters of the instances reached are bound to, comma-separated.",
    ),
    Column("path", Text, nullable=False, comment="The path as JSON: a list of [what, file, line], registration first."),
    Index("ux_attribution", "operator_id", "function_id", "device", unique=True),
    Index("ix_attribution_function", "function_id"),
    comment="One row a function that serves an operator: our conclusion, with its evidence. Functions without casts "
    "or arithmetic that are no kernels are left out, and those of shared_function.",
)


def _attributed(name: str, column: str, target: str, what: str, comment: str) -> Table:
    return Table(
        name,
        metadata,
        _ref("attribution_id", "attribution", "Attribution.", key=True),
        _ref(column, target, what, key=True),
        Index(f"ix_{name}_{column}", column),
        comment=comment,
        sqlite_with_rowid=False,
    )


attributed_instance = _attributed(
    "attributed_instance", "instance_id", "function_instance", "Instance that the operator reaches.",
    "Which instances of the attributed function serve the operator: templates serve many by their arguments.",
)  # fmt: skip
attributed_cast = _attributed(
    "attributed_cast", "cast_site_id", "cast_site", "Cast site in these instances.",
    "Cast sites of the instances that serve an operator.",
)  # fmt: skip
attributed_arithmetic = _attributed(
    "attributed_arithmetic", "arithmetic_site_id", "arithmetic_site", "Arithmetic site in these instances.",
    "Arithmetic sites of the instances that serve an operator.",
)  # fmt: skip

delegation = Table(
    "delegation",
    metadata,
    _id("Delegation."),
    _ref("operator_id", "operator", "Operator that calls."),
    _ref("target_id", "operator", "Operator called, directly or through others: what serves it serves the caller."),
    _int("distance", "Operators on the way, the target included."),
    Column("path", Text, nullable=False, comment="The path as JSON: a list of [what, file, line], registration first."),
    Index("ux_delegation", "operator_id", "target_id", unique=True),
    Index("ix_delegation_target", "target_id"),
    comment="One row an operator that a composite operator calls by its public name (layer_norm: native_layer_norm).",
)

shared_function = Table(
    "shared_function",
    metadata,
    _ref("function_id", "function", "Function.", key=True),
    _ref("scan_id", "scan", "Scan that saw it."),
    _int("operators", "How many operators reach it."),
    comment="One row a function that serves nearly everyone: of a library that all kernels use (c10), or reached by "
    "very many operators. It has no attributions.",
)

finding = Table(
    "finding",
    metadata,
    _id("Finding."),
    _ref("scan_id", "scan", "Scan it is drawn from."),
    Column("pattern", String(64), nullable=False, comment="Stable ID of the rule: opscanner patterns explain ID."),
    _ref("file_id", "source_file", "File of the place."),
    _int("line", "Line of the place."),
    _int("column", "Column of the place."),
    _ref("function_id", "function", "Function that the place stands in."),
    _ref("cast_site_id", "cast_site", "The cast that the rule judged.", nullable=True),
    _ref("arithmetic_site_id", "arithmetic_site", "The operation that the rule judged.", nullable=True),
    _word("from_format", "Format before; for operations the format it is computed in."),
    _word("to_format", "Format after; for operations the same, or the accumulator's."),
    _word("confidence", "high, medium or low."),
    Column("device", Boolean, nullable=False, comment="A device function reaches the place."),
    Column(
        "is_primary",
        Boolean,
        nullable=False,
        comment="Of the patterns found at the place the most special one: it gives the place its category.",
    ),
    _ref("node_id", "node", "The cast or operation, in the function instance where the rule is surest."),
    _text("chain", "Ids of the nodes that the rule followed, comma-separated, in the order the value flows."),
    _text("message", "What is seen there, in one sentence."),
    Index("ix_finding_pattern", "scan_id", "pattern"),
    Index("ix_finding_function", "function_id"),
    Index("ix_finding_cast", "cast_site_id"),
    Index("ix_finding_arithmetic", "arithmetic_site_id"),
    comment="One row an occurrence of a pattern of precision tuning.",
)

#: Tables whose rows hang on an attribution.
ATTRIBUTED = (attributed_instance, attributed_cast, attributed_arithmetic)
#: In the order in which their rows can be deleted.
CONCLUSIONS = (finding, *ATTRIBUTED, attribution, delegation, shared_function, registration, operator)
__all__ = [
    "ATTRIBUTED",
    "CONCLUSIONS",
    "attributed_arithmetic",
    "attributed_cast",
    "attributed_instance",
    "attribution",
    "delegation",
    "finding",
    "operator",
    "registration",
    "shared_function",
]
