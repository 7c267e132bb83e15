"""What a scan found in the kernels of operators that were measured to be wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from opscanner.errors import UsageError
from opscanner.graph.queries import reading
from opscanner.graph.serving import choose_scan, load_serving
from opscanner.operators.pipeline import Pipelines

_SURE = {"high": 0, "medium": 1, "low": 2}


@dataclass(frozen=True)
class Explanation:
    """A finding in what serves an operator for a format.

    Parameters
    ----------
    version : str
        Of the sources that were scanned, which need not be the release that was measured.
    device : str
        Whose kernel it is: not always that of the device measured.
    """

    framework: str
    version: str
    device: str
    operator: str
    pattern: str
    file: str
    line: int
    function: str
    message: str
    confidence: str


def explain_kernels(
    database: str, wanted: Iterable[tuple[str, str, str]], device: str
) -> dict[tuple[str, str, str], tuple[Explanation, ...]]:
    """Untuned operations that serve operators, the surest first; empty where a database holds no scan of a framework.

    Parameters
    ----------
    wanted : iterable of (framework, operator, format)
        Operators by the name that the framework gives them.
    device : str
        Kernels of this device are looked at first; where the scan has none, those of the other one.
    """
    by_framework: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for framework, operator, format_ in wanted:
        by_framework[framework].append((operator, format_))
    found: dict[tuple[str, str, str], tuple[Explanation, ...]] = {}
    with reading(database) as connection:
        for framework, kernels in by_framework.items():
            try:
                scan = choose_scan(connection, framework)
            except UsageError:
                continue
            for where in ("cpu", "cuda") if device == "cpu" else ("cuda", "cpu"):
                left = [one for one in kernels if (framework, *one) not in found]
                if not left:
                    break
                pipelines = Pipelines(load_serving(connection, scan, where))
                for operator, format_ in left:
                    if operator not in pipelines.graph.serving:
                        continue
                    untuned = sorted(pipelines.of((operator,), format_).untuned, key=lambda one: _SURE[one.confidence])
                    rows = {
                        (one.file, one.line, one.message): Explanation(
                            framework, scan.version, where, operator, one.pattern, one.file, one.line, one.function,
                            one.message, one.confidence,
                        )
                        for one in untuned
                    }  # fmt: skip
                    if rows:
                        found[framework, operator, format_] = tuple(rows.values())
    return found
