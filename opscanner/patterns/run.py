"""From a scan in a database to its findings there."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

from opscanner.graph.bulk import Row
from opscanner.graph.findings import replace_findings, site_places
from opscanner.graph.flow_graph import FlowGraph, load_flow_graph
from opscanner.graph.queries import reading
from opscanner.graph.store import Store
from opscanner.patterns.base import Finding
from opscanner.patterns.catalog import all_rules
from opscanner.patterns.classify import classify


def conclude(
    database: str, scan_id: int, only: Sequence[str] = (), log: Callable[[str], None] = lambda message: None
) -> int:
    """Runs the rules over a scan and writes what they found in the place of former findings; gives their number.

    All rules run whatever is asked for, because a place's category follows from all of them.

    Parameters
    ----------
    only : sequence of str
        IDs of the patterns whose findings to replace; all when there are none.
    """
    enabled = gc.isenabled()
    # Millions of plain values, hardly any of them cyclic: the collector would walk them again and again.
    gc.disable()
    try:
        with reading(database) as connection:
            graph = load_flow_graph(connection, scan_id)
            casts, operations = site_places(connection, scan_id)
        result = classify(graph, [one.rule for one in all_rules()])
        chosen = [finding for finding in result.findings if not only or finding.pattern in only]
        rows = [_row(graph, finding, casts, operations) for finding in chosen]
        with Store(database) as store, store.concluding() as connection:
            replace_findings(connection, scan_id, rows, only or None)
    finally:
        if enabled:
            gc.enable()
    log(f"{len(rows)} findings in {len(graph)} nodes")
    for rule, (count, first) in result.failures.items():
        log(f"rule {rule} failed {count} times, first at {first}")
    return len(rows)


def _row(graph: FlowGraph, finding: Finding, casts: dict[int, Row], operations: dict[int, Row]) -> Row:
    """Values in the order of the table's columns from ``pattern`` on."""
    node, verdict = finding.node, finding.verdict
    cast, computed = graph.cast[node], graph.computed[node]
    if cast is not None:
        place, cast_id, operation_id = casts[cast.id], cast.id, None
        formats = (cast.from_format, cast.to_format)
    else:
        assert computed is not None
        place, cast_id, operation_id = operations[computed.id], None, computed.id
        formats = (graph.format[node], computed.accumulator or graph.format[node])
    file, line, column, function = place
    return (
        finding.pattern, file, line, column, function, cast_id, operation_id, *formats, verdict.confidence.value,
        finding.device, finding.primary, graph.ids[node], ",".join(str(graph.ids[step]) for step in verdict.chain),
        verdict.message,
    )  # fmt: skip
