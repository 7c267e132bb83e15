"""From two scans in a database to the comparison of their operators."""

from __future__ import annotations

from collections.abc import Sequence

from opscanner.errors import UsageError
from opscanner.graph.queries import reading
from opscanner.graph.serving import ServingGraph, choose_scan, load_serving
from opscanner.operators.comparison import Comparer, Comparison, find_pairs, group_pairs
from opscanner.operators.pairs import load_pairs
from opscanner.precision.formats import is_floating


def compare_scans(
    database: str, first: str, second: str, operator: str | None, device: str, formats: Sequence[str]
) -> list[Comparison]:
    """Every pair of the table, or those that an operator's name means, for each storage format.

    Raises
    ------
    UsageError
        When a scan, an operator or a format is not known, or both scans are of one framework.
    """
    for name in formats:
        if not is_floating(name):
            raise UsageError(f"{name} is no floating-point format", "float16, bfloat16, float32 or float64")
    pairs = load_pairs() if operator is None else find_pairs(load_pairs(), operator)
    sides = []
    with reading(database) as connection:
        scans = [choose_scan(connection, wanted) for wanted in (first, second)]
        if {scan.framework for scan in scans} != {"pytorch", "tensorflow"}:
            raise UsageError(
                f"{first} and {second} are not one scan of PyTorch and one of TensorFlow",
                "opscanner diff compares two versions of one framework",
            )
        for scan in scans:
            sides.append(load_serving(connection, scan, device))
            _check(sides[-1])
    comparer = Comparer(*sides)
    return [comparer.compare(group, name) for group in group_pairs(pairs, device) for name in formats]


def _check(graph: ServingGraph) -> None:
    if not graph.declared:
        raise UsageError(
            f"the scan of {graph.scan.framework} {graph.scan.version} holds no operators",
            "opscanner operators --conclude",
        )
