"""What changed between two versions, as rows and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opscanner.operators.pipeline import PipelineStep
from opscanner.operators.version_diff import ChangedOperation, VersionDiff

COLUMNS = ("operator", "storage", "upcast", "operation", "function", "before", "after", "before at", "after at")


def rows(diff: VersionDiff) -> Iterator[tuple[Any, ...]]:
    """Cells in the order of ``COLUMNS``."""
    for one in diff.changes:
        yield (
            one.operator, one.format, one.change.value, one.after.operation, one.after.function, one.before.held_in,
            one.after.held_in, _place(one.before), _place(one.after),
        )  # fmt: skip


def as_json(diff: VersionDiff, one: ChangedOperation) -> dict[str, Any]:
    """The object that ``opscanner diff --format json`` prints."""
    return {
        "framework": diff.after.framework,
        "versions": [diff.before.version, diff.after.version],
        "operator": one.operator,
        "storage": one.format,
        "upcast": one.change.value,
        "operation": one.after.operation,
        "stage": one.after.stage,
        **{
            name: {"format": step.held_in, "function": step.function, "file": step.file, "line": step.line}
            for name, step in (("before", one.before), ("after", one.after))
        },
    }


def _place(step: PipelineStep) -> str:
    return f"{step.file}:{step.line}"
