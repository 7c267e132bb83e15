"""The tables of the graph database; every column says what it holds, and docs/schema.md is made from that.

Ids are given out by the one writer, not by the database: rows of a unit can then refer to each other before any is
written, and go out as bulk inserts. Words are stored as words (``"float16"``, ``"arithmetic"``), because people query
these tables; file and function names, which repeat most, are rows of their own.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)

#: Goes up whenever a table, a view or the meaning of a column changes; a database of another version is refused.
#: Not for what trials add (``schema_trials``): databases get that when something is measured into them.
SCHEMA_VERSION = 3

metadata = MetaData()

#: SQLite makes a column its row id, which costs nothing, only when the type is exactly INTEGER.
_BIG = BigInteger().with_variant(Integer, "sqlite")
_WORD = String(32)
#: Longest path or qualified name that a database which limits indexed text (MySQL: 3072 bytes) takes.
_NAME = String(700)


def _id(comment: str) -> Column[Any]:
    return Column("id", _BIG, primary_key=True, autoincrement=False, comment=comment)


def _ref(name: str, target: str, comment: str, *, nullable: bool = False, key: bool = False) -> Column[Any]:
    return Column(name, _BIG, ForeignKey(f"{target}.id"), nullable=nullable, primary_key=key, comment=comment)


def _text(name: str, comment: str) -> Column[Any]:
    return Column(name, Text, nullable=False, comment=comment)


def _name(name: str, comment: str) -> Column[Any]:
    return Column(name, _NAME, nullable=False, comment=comment)


def _word(name: str, comment: str, *, key: bool = False) -> Column[Any]:
    return Column(name, _WORD, nullable=False, primary_key=key, comment=comment)


def _int(name: str, comment: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, Integer, nullable=nullable, comment=comment)


def _bool(name: str, comment: str) -> Column[Any]:
    return Column(name, Boolean, nullable=False, comment=comment)


meta = Table(
    "meta",
    metadata,
    _id("Always 1: the table has one row."),
    _int("schema_version", "Version of this schema; opscanner refuses to read or write another one."),
    Column(
        "generation",
        _BIG,
        nullable=False,
        comment="Goes up with every writing transaction, so that a writer sees when another one wrote.",
    ),
    comment="One row about the database itself.",
)

scan = Table(
    "scan",
    metadata,
    _id("Scan."),
    Column("framework", String(64), nullable=False, comment="pytorch, tensorflow, or none."),
    Column("version", String(64), nullable=False, comment="Version of the scanned sources; empty when unknown."),
    _name("root", "Scanned folder; every relative file name is relative to it."),
    _int("run", "How many times this scan was begun afresh; a resumed run keeps its number."),
    _text("options", "Options of the run as JSON; a run is resumed only with the same ones."),
    _text("tool_versions", "opscanner, libclang, CUDA headers ... as JSON."),
    _text("started", "When the run began, ISO 8601, UTC."),
    Column("finished", Text, comment="When it ended; NULL while it runs and after it was interrupted."),
    UniqueConstraint("framework", "version", "root", name="uq_scan"),
    comment="One row a scanned source tree. Several frameworks, versions and roots live side by side.",
)

source_file = Table(
    "source_file",
    metadata,
    _id("File."),
    _ref("scan_id", "scan", "Scan that saw it."),
    _name("path", "Relative to the scan's root, or absolute when outside of it."),
    Column("size", _BIG, comment="Bytes when it was scanned; NULL when it could not be looked at."),
    UniqueConstraint("scan_id", "path", name="uq_source_file"),
    Index("ix_source_file_path", "path"),
    comment="One row a source file.",
)

translation_unit = Table(
    "translation_unit",
    metadata,
    _id("Translation unit."),
    _ref("scan_id", "scan", "Scan it belongs to."),
    _ref("file_id", "source_file", "Main file."),
    _word("cuda_pass", "Which of clang's compilations of a CUDA file: device or host; none for plain C++."),
    Column(
        "configuration",
        String(255),
        nullable=False,
        comment="Tells several compile commands of one file apart (DEFAULT, AVX2 ...).",
    ),
    Column("arguments_hash", String(64), nullable=False, comment="Hash of the arguments that clang was given."),
    _int("run", "Run of the scan that wrote it."),
    _word("status", "ok, errors (parsed, with errors) or skipped (not parsed, see reason)."),
    _text("reason", "Why it was skipped; empty otherwise."),
    _int("errors", "Error and fatal diagnostics."),
    _int("functions", "Function instances reached, seen whole or not."),
    _int("functions_with_error", "Those among them whose body holds an error; their type facts are not facts."),
    _int("device_functions_with_error", "Those among these that device code reaches."),
    _int("nodes", "Nodes of the instances it reaches (shared ones are counted in every unit)."),
    _int("casts", "Cast nodes among them."),
    _int(
        "missing_bodies",
        "Instances it reaches whose body the database never got; 0 unless something went wrong.",
    ),
    _int("cursors", "Cursors that the walk visited."),
    Column("parse_cpu_s", Float, nullable=False, comment="CPU seconds of parsing."),
    Column("walk_cpu_s", Float, nullable=False, comment="CPU seconds of walking the tree."),
    Column("peak_rss_mib", Float, nullable=False, comment="Peak memory of the worker so far, MiB."),
    UniqueConstraint("scan_id", "file_id", "cuda_pass", "configuration", name="uq_translation_unit"),
    Index("ix_translation_unit_file", "file_id"),
    comment="One row a translation unit, also those that could not be parsed.",
)

diagnostic = Table(
    "diagnostic",
    metadata,
    _id("Diagnostic."),
    _ref("unit_id", "translation_unit", "Unit it was printed for."),
    _word("severity", "warning, error or fatal."),
    _word("category", "missing_header, undeclared, type, argument or other."),
    _ref("file_id", "source_file", "File clang points at; NULL when it names none.", nullable=True),
    _int("line", "Line clang points at; 0 when it names none."),
    _text("message", "clang's words."),
    _int("count", "How many times the unit printed it."),
    Index("ix_diagnostic_unit", "unit_id"),
    comment="What clang complained of.",
)

missing_header = Table(
    "missing_header",
    metadata,
    _ref("unit_id", "translation_unit", "Unit that includes it.", key=True),
    Column("header", _NAME, primary_key=True, comment="Name as included."),
    Index("ix_missing_header_header", "header"),
    comment="Headers that were not found.",
)

dropped_argument = Table(
    "dropped_argument",
    metadata,
    _id("Dropped argument."),
    _ref("unit_id", "translation_unit", "Unit it was dropped for."),
    _text("argument", "Compiler argument as it stood in the compile command."),
    _text("reason", "Why clang did not get it."),
    Index("ix_dropped_argument_unit", "unit_id"),
    comment="Compiler arguments that clang was not given.",
)

dependency = Table(
    "dependency",
    metadata,
    _ref("unit_id", "translation_unit", "Unit.", key=True),
    _ref("file_id", "source_file", "File under the root that it includes.", key=True),
    Index("ix_dependency_file", "file_id"),
    comment="Which files a unit includes.",
    sqlite_with_rowid=False,
)

function = Table(
    "function",
    metadata,
    _id("Function."),
    _ref("scan_id", "scan", "Scan that saw it."),
    _name("name", "Qualified name, without template arguments."),
    _ref("file_id", "source_file", "File its body is written in."),
    _int("line", "Line of the body."),
    _int("column", "Column of the body."),
    Index("ix_function_name", "name"),
    Index("ix_function_place", "file_id", "line"),
    comment="One row a function as written: a template is one function, whatever it is instantiated with.",
)

function_instance = Table(
    "function_instance",
    metadata,
    _id("Function instance."),
    _ref("scan_id", "scan", "Scan that saw it."),
    _ref("function_id", "function", "Function it is an instance of."),
    _text("key", "Identifies the instance within the scan; equal in every unit that instantiates the same body."),
    Column("usr", Text, nullable=False, comment="clang's Unified Symbol Resolution of the pattern."),
    _text("bindings", "input_t=float16, acc_t=float32; empty for a plain function."),
    _text("signature", "The function's type as clang prints it."),
    _bool("is_kernel", "__global__."),
    _bool("is_device", "__device__, also implicitly (lambdas)."),
    _bool("is_host", "Callable on the host."),
    _bool("is_lambda", "A lambda's body."),
    _bool("device_reached", "A device function reaches it in at least one unit."),
    _bool("has_error", "An error diagnostic lies inside the body; its type facts are not facts."),
    Column("first_node", _BIG, nullable=False, comment="Id of its first node; its nodes' ids follow one another."),
    _int("nodes", "Number of its nodes."),
    _int("casts", "Number of cast nodes among them."),
    _int("run", "Last run of the scan that brought its body."),
    Column(
        "digest",
        String(32),
        nullable=False,
        comment="Hash of the body, to see in a later run whether it changed.",
    ),
    Index("ix_function_instance_function", "function_id"),
    Index("ix_function_instance_scan", "scan_id"),
    comment="One function body for one binding of formats. Units share instances: a body is stored once.",
)

unit_instance = Table(
    "unit_instance",
    metadata,
    _ref("unit_id", "translation_unit", "Unit.", key=True),
    _ref("instance_id", "function_instance", "Instance that it instantiates.", key=True),
    _bool("device_reached", "A device function of this unit reaches it."),
    _bool("has_error", "In this unit an error diagnostic lies inside the body."),
    Index("ix_unit_instance_instance", "instance_id"),
    comment="Which unit instantiates which function instance.",
    sqlite_with_rowid=False,
)


def _place(site: str) -> tuple[Any, ...]:
    return (
        _ref("scan_id", "scan", "Scan that saw it."),
        _ref("file_id", "source_file", f"File the {site} is written in."),
        _int("line", "Line."),
        _int("column", "Column."),
        _ref("function_id", "function", "Function whose body it stands in."),
    )


def _marks(site: str) -> tuple[Any, ...]:
    return (
        _bool(
            "constant",
            "The value is a literal or folded from literals in every instance: compilers emit nothing.",
        ),
        _bool("reached", "At least one instance has it outside of branches that constants rule out."),
        _bool(
            "device",
            f"A device function reaches the {site}, and it is not in a branch that constants rule out.",
        ),
        _ref("macro_file_id", "source_file", "For code in a macro's body: file of the body.", nullable=True),
        _int("macro_line", "For code in a macro's body: line of the body.", nullable=True),
    )


cast_site = Table(
    "cast_site",
    metadata,
    _id("Cast site."),
    *_place("cast"),
    _word("from_format", "Format before."),
    _word("to_format", "Format after."),
    Column("direction", _WORD, comment="widen, narrow, int_to_float or float_to_int."),
    _word("form", "How it is written: static_cast, implicit, conversion_function ..."),
    _text("written_type", "Target type as written (acc_t), the author's intent; empty when nothing is written."),
    *_marks("cast"),
    # Holds all that counting by format, form, file and function needs: such a query reads this index and no row.
    Index(
        "ix_cast_site_formats",
        *("from_format", "to_format", "direction", "form", "scan_id", "constant", "device", "file_id", "function_id"),
    ),
    Index("ix_cast_site_place", "file_id", "line"),
    Index("ix_cast_site_function", "function_id"),
    comment="One row a place where a format changes: (file, line, column, function, from, to, form).",
)

arithmetic_site = Table(
    "arithmetic_site",
    metadata,
    _id("Arithmetic site."),
    *_place("operation"),
    _word("kind", "arithmetic, math_call, reduction, atomic, comparison or selection."),
    Column("operation", String(255), nullable=False, comment="+, exp, the name of the callee ..."),
    _word("category", "arith, math, functor, reduction, atomic, compare or select."),
    _word("format", "Format it is computed in."),
    _word("accumulator", "For reductions and atomics the format the sum is held in; otherwise empty."),
    *_marks("operation"),
    Index("ix_arithmetic_site_format", "format", "category", "scan_id", "file_id", "function_id"),
    Index("ix_arithmetic_site_place", "file_id", "line"),
    Index("ix_arithmetic_site_function", "function_id"),
    comment="One row a place where something is computed, with the format it is computed in.",
)

node = Table(
    "node",
    metadata,
    _id("Node."),
    _ref("instance_id", "function_instance", "Instance whose body it stands in."),
    _word("kind", "parameter, load, cast, arithmetic ... (see NodeKind)."),
    _ref("file_id", "source_file", "File it is written in."),
    _int("line", "Line."),
    _int("column", "Column."),
    _text("operation", "+, exp, static_cast, the name of a variable or a callee."),
    _word("format", "Format of the value it yields; for arithmetic the format it is computed in."),
    Column(
        "lanes",
        SmallInteger,
        nullable=False,
        comment="Values at once: 2 for __half2; 0 when the platform decides.",
    ),
    _bool("constant", "A literal, or folded from literals."),
    _bool("reached", "False in a branch that constants rule out, or in an unevaluated operand."),
    _bool("on_device", "A GPU runs it although a host function states it: part of x.device(gpu) = ... of Eigen."),
    Column(
        "position",
        SmallInteger,
        comment="Where values enter: parameters from 0, behind them what a lambda captures and the object of a method; "
        "NULL for other nodes.",
    ),
    _ref(
        "cast_site_id",
        "cast_site",
        "For casts: their site, which holds the formats and the form.",
        nullable=True,
    ),
    _ref("arithmetic_site_id", "arithmetic_site", "For operations: their site.", nullable=True),
    Index("ix_node_instance", "instance_id"),
    comment="One row a floating-point operation of a function instance.",
)
for _site in (node.c.cast_site_id, node.c.arithmetic_site_id):
    Index(f"ix_node_{_site.name}", _site, sqlite_where=_site.is_not(None), postgresql_where=_site.is_not(None))

edge = Table(
    "edge",
    metadata,
    _ref("source_id", "node", "Node the value comes from.", key=True),
    _ref("target_id", "node", "Node the value goes to.", key=True),
    _word("kind", "def_use, loop_carried, argument, return, launch, capture or control.", key=True),
    Index("ix_edge_target", "target_id"),
    comment="Where a value flows: inside a function, into one (argument, launch, capture) and out of one (return).",
    sqlite_with_rowid=False,
)

call_site = Table(
    "call_site",
    metadata,
    _id("Call."),
    _ref("caller_id", "function_instance", "Instance that calls."),
    _ref(
        "callee_id",
        "function_instance",
        "Instance called; NULL while no unit has brought its body.",
        nullable=True,
    ),
    Column("callee_key", Text, comment="While callee_id is NULL, the key it waits for."),
    _int("node", "Position of the call's own node in the caller, from 0; -1 when no float is involved."),
    _text(
        "arguments",
        "argument:position pairs: of a node in the caller, and node.position in the callee.",
    ),
    _word("kind", "argument, launch (kernel<<<...>>>) or capture (a lambda takes values from its creator)."),
    _int("line", "Line of the call."),
    Index("ix_call_site_caller", "caller_id"),
    Index("ix_call_site_callee", "callee_id"),
    comment="Which instance calls which, also where no float is passed.",
)
Index(
    "ix_call_site_callee_key",
    call_site.c.callee_key,
    sqlite_where=call_site.c.callee_key.is_not(None),
    postgresql_where=call_site.c.callee_key.is_not(None),
    mysql_length=255,
)
