"""Concludes which functions serve which operators, from a framework's statements and clang's call graph.

>>> conclude("opscanner.sqlite", 1)                                              # doctest: +SKIP

A function is attributed to every operator that reaches it, with the shortest path as evidence, but for two limits.
Functions without a cast or an operation that are no kernels say nothing about precision and are left out. And functions
that more than ``SHARED_BY_OPERATORS`` operators reach (``elementwise_kernel``), or ``LIBRARY_BY_OPERATORS`` where they
stand in a library that all kernels use (``c10::convert``), are named once, in ``shared_function``, instead of a hundred
times: they serve nearly everyone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from opscanner.frameworks.declarations import Adapter, Declarations, Device, PlaceKind, adapters
from opscanner.graph import call_graph
from opscanner.graph.operator_store import (
    AttributionRow,
    DelegationRow,
    OperatorConclusions,
    OperatorRow,
    RegistrationRow,
    replace,
)
from opscanner.graph.queries import reading
from opscanner.graph.store import Store
from opscanner.operators.delegation import find_delegations
from opscanner.operators.groups import module_group
from opscanner.operators.reach import Reach, Reached, registrations_by_operator

#: Functions that more operators than this reach are listed once instead of being attributed.
SHARED_BY_OPERATORS = 60
LIBRARY_BY_OPERATORS = 10
DEVICES: tuple[Device, ...] = ("cuda", "cpu")


def conclude(database: str, scan_id: int, log: Callable[[str], None] = lambda message: None) -> list[str]:
    """Concludes and stores the operators of a scan; gives warnings about what could not be read.

    A framework's text that cannot be read costs the operators, never the scan. Scans of other sources have none.
    """
    with reading(database) as connection:
        scan = next((scan for scan in call_graph.scans(connection) if scan.id == scan_id), None)
        adapter = adapters().get(scan.framework) if scan else None
        if scan is None or adapter is None:
            return []
        log(f"reading what {scan.framework} states about its operators")
        declared = _declared(adapter, Path(scan.root))
        for note in declared.notes:
            log(note)
        classes = any(place.kind is PlaceKind.CLASS for place in declared.places)
        graph = call_graph.load(connection, scan_id, with_usr=classes)
    concluded = draw_conclusions(declared, graph)
    with Store(database) as store, store.concluding() as connection:
        replace(connection, scan_id, concluded)
    return declared.warnings


def _declared(adapter: Adapter, root: Path) -> Declarations:
    try:
        return adapter(root)
    except Exception as error:  # noqa: BLE001
        # Text of any version of a framework, read by rules of thumb: whatever goes wrong there is told, and is all.
        return Declarations(warnings=[f"{root}: operators could not be read: {type(error).__name__}: {error}"])


def draw_conclusions(declared: Declarations, graph: call_graph.CallGraph) -> OperatorConclusions:
    """Operators, registrations, attributions and delegations as rows."""
    operators = [
        OperatorRow(one.name, one.forward_name, one.direction, module_group(one.name), one.file, one.line)
        for one in declared.operators
    ]
    position = {row.name: index for index, row in enumerate(operators)}
    registrations = [
        RegistrationRow(position[one.operator], one.kind, one.device, one.formats, one.target, one.file, one.line)
        for one in declared.registrations
    ]
    by_operator = registrations_by_operator(declared.registrations)
    reach = Reach(declared, graph)
    found: list[tuple[int, Device, Reached]] = []
    for name, indices in by_operator.items():
        for device in DEVICES:
            found += [(position[name], device, reached) for reached in reach.served(indices, device)]
    reaching = Counter(function for _, function in {(operator, reached.function) for operator, _, reached in found})
    shared = {
        function: count
        for function, count in reaching.items()
        if count > SHARED_BY_OPERATORS
        or (count > LIBRARY_BY_OPERATORS and graph.functions[function].file.startswith(declared.libraries))
    }
    attributions = [
        AttributionRow(
            operator, reached.function, reached.registration, device, reached.distance, reached.certain,
            reached.formats, reached.path, reached.instances, reached.dense,
        )
        for operator, device, reached in found
        if reached.function not in shared
    ]  # fmt: skip
    delegations = [
        DelegationRow(position[name], position[one.target], one.distance, one.path)
        for name, targets in find_delegations(declared, by_operator).items()
        for one in targets
        if one.target in position
    ]
    return OperatorConclusions(operators, registrations, attributions, delegations, sorted(shared.items()))
