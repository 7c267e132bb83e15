"""SQL views of what was measured."""

from __future__ import annotations

from sqlalchemy import func, select

from opscanner.graph.schema_trials import campaign, fault, fault_measurement, measurement
from opscanner.graph.view import View

_m, _f, _c = measurement, fault, campaign


def _said(table: object, *names: str) -> dict[str, str]:
    columns = table.c  # type: ignore[attr-defined]
    return {name: columns[name].comment or "" for name in names}


_MEASURED = tuple(column.name for column in _m.columns if column.name not in ("id", "campaign_id"))
_FOUND = tuple(column.name for column in _f.columns if column.name not in ("id", "campaign_id"))

MEASUREMENTS = View(
    "measurements",
    "One row a measurement: an operator in a framework, format and layout on the inputs of one strategy.",
    select(
        _m.c.id, *(_m.c[name] for name in _MEASURED), _c.c.machine, _c.c.started.label("measured"), _m.c.campaign_id
    ).select_from(_m.outerjoin(_c, _c.c.id == _m.c.campaign_id)),
    {
        "id": "Row of measurement.",
        **_said(_m, *_MEASURED),
        "machine": "Processor and system that it ran on.",
        "measured": "When its campaign began, ISO 8601, UTC.",
        "campaign_id": "Row of campaign.",
    },
)

_shown = (
    select(fault_measurement.c.fault_id, func.count().label("measurements"))
    .group_by(fault_measurement.c.fault_id)
    .subquery("shown")
)

FAULTS = View(
    "faults",
    "One row a fault: the smallest input of an operator for which its result is wrong.",
    select(
        _f.c.id, *(_f.c[name] for name in _FOUND), func.coalesce(_shown.c.measurements, 0).label("measurements"),
        _c.c.machine, _c.c.started.label("measured"), _f.c.campaign_id,
    ).select_from(
        _f.outerjoin(_shown, _shown.c.fault_id == _f.c.id).outerjoin(_c, _c.c.id == _f.c.campaign_id)
    ),
    {
        "id": "Row of fault.",
        **_said(_f, *_FOUND),
        "measurements": "How many measurements show it.",
        "machine": "Processor and system that it ran on.",
        "measured": "When its campaign began, ISO 8601, UTC.",
        "campaign_id": "Row of campaign.",
    },
)  # fmt: skip
