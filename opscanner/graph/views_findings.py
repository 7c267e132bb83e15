"""SQL views of what the rules found."""

from __future__ import annotations

from sqlalchemy import case, func, literal_column, select

from opscanner.graph import schema
from opscanner.graph.schema_conclusions import finding
from opscanner.graph.view import View

_f, _function, _file, _scan = finding, schema.function, schema.source_file, schema.scan

FINDINGS = View(
    "findings",
    "One row a finding: an occurrence of a pattern of precision tuning at a place.",
    select(
        _f.c.id, _f.c.pattern, _scan.c.framework, _scan.c.version, _file.c.path.label("file"), _f.c.line, _f.c.column,
        _function.c.name.label("function"), _f.c.from_format, _f.c.to_format, _f.c.confidence,
        case((_f.c.device, literal_column("'device'")), else_=literal_column("'host'")).label("pass"),
        _f.c.is_primary, _f.c.message, _f.c.cast_site_id.label("cast_id"),
        _f.c.arithmetic_site_id.label("arithmetic_id"), _f.c.node_id, _f.c.chain, _f.c.scan_id,
    ).select_from(
        _f.outerjoin(_file, _file.c.id == _f.c.file_id)
        .outerjoin(_function, _function.c.id == _f.c.function_id)
        .outerjoin(_scan, _scan.c.id == _f.c.scan_id)
    ),
    {
        "id": "Row of finding.",
        "pattern": "ID of the rule: opscanner patterns explain ID.",
        "framework": "pytorch, tensorflow, or none.",
        "version": "Version of the scanned sources.",
        "file": "Relative to the scan's root.",
        "line": "Line.",
        "column": "Column.",
        "function": "Qualified name of the function it stands in.",
        "from_format": "Format before; for operations the format it is computed in.",
        "to_format": "Format after; for operations the same, or the accumulator's.",
        "confidence": "high, medium or low.",
        "pass": "device or host.",
        "is_primary": "It gives the place its category.",
        "message": "What is seen there.",
        "cast_id": "Row of casts, what opscanner chains takes; NULL for operations.",
        "arithmetic_id": "Row of arithmetic; NULL for casts.",
        "node_id": "The cast or operation in the instance where the rule is surest.",
        "chain": "Ids of the nodes that the rule followed, comma-separated (chain_steps names them).",
        "scan_id": "Row of scan.",
    },
)  # fmt: skip


PATTERNS_SUMMARY = View(
    "patterns_summary",
    "One row a pattern and a pair of formats: how often it was found.",
    select(
        _scan.c.framework, _scan.c.version, _f.c.pattern, _f.c.from_format, _f.c.to_format,
        func.count().label("findings"),
        *[
            func.sum(case((condition, 1), else_=0)).label(name)
            for name, condition in (
                ("primary_findings", _f.c.is_primary),
                ("high", _f.c.confidence == "high"),
                ("medium", _f.c.confidence == "medium"),
                ("low", _f.c.confidence == "low"),
                ("device", _f.c.device),
            )
        ],
        func.count(_f.c.file_id.distinct()).label("files"), _f.c.scan_id,
    )
    .select_from(_f.join(_scan, _scan.c.id == _f.c.scan_id))
    .group_by(_scan.c.framework, _scan.c.version, _f.c.pattern, _f.c.from_format, _f.c.to_format, _f.c.scan_id),
    {
        "framework": "pytorch, tensorflow, or none.",
        "version": "Version of the scanned sources.",
        "pattern": "ID of the rule.",
        "from_format": "Format before; for operations the format it is computed in.",
        "to_format": "Format after; for operations the same, or the accumulator's.",
        "findings": "Number of places.",
        "primary_findings": "Those whose category it is.",
        "high": "Those of high confidence.",
        "medium": "Of medium confidence.",
        "low": "Of low confidence.",
        "device": "Those that a device function reaches.",
        "files": "Number of files they stand in.",
        "scan_id": "Row of scan.",
    },
)  # fmt: skip
