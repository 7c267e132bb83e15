"""What is concluded from a scan's graph is deleted here as a whole: it follows from the graph, and is made anew."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Table, delete, select

from opscanner.graph.schema_conclusions import ATTRIBUTED, CONCLUSIONS, attribution, delegation, operator, registration


def delete_conclusions(connection: Connection, scan_id: int, tables: Sequence[Table] = CONCLUSIONS) -> None:
    """Deletes operators, registrations, attributions and findings of a scan, or the rows of ``tables`` alone."""
    mine = select(operator.c.id).where(operator.c.scan_id == scan_id)
    for table in tables:
        if table in ATTRIBUTED:
            attributions = select(attribution.c.id).where(attribution.c.operator_id.in_(mine))
            connection.execute(delete(table).where(table.c.attribution_id.in_(attributions)))
        elif table in (attribution, delegation, registration):
            connection.execute(delete(table).where(table.c.operator_id.in_(mine)))
        else:
            connection.execute(delete(table).where(table.c.scan_id == scan_id))
