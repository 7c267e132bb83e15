"""Row types that rooms hand to each other: what queries give and reports print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opscanner.ir import NodeKind
from opscanner.measurements import Measurement


class CastRow(NamedTuple):
    """A cast site. ``reached_from`` is the contract's ``pass``: ``device`` or ``host``."""

    id: int
    framework: str
    version: str
    file: str
    line: int
    column: int
    function: str
    from_format: str
    to_format: str
    direction: str
    form: str
    constant: bool
    written_type: str
    reached_from: str
    operators: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner casts --format json`` prints: the keys that scripts depend on."""
        return {
            "framework": self.framework,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "function": self.function,
            "from": self.from_format,
            "to": self.to_format,
            "direction": self.direction,
            "form": self.form,
            "constant": self.constant,
            "written_type": self.written_type,
            "pass": self.reached_from,
            "operators": list(self.operators),
            "patterns": list(self.patterns),
        }


class ArithmeticRow(NamedTuple):
    """A place where something is computed in a floating-point format."""

    id: int
    framework: str
    version: str
    file: str
    line: int
    column: int
    function: str
    operation: str
    category: str
    format: str
    accumulator: str
    constant: bool
    reached_from: str
    operators: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner arithmetic --format json`` prints."""
        return {
            "framework": self.framework,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "function": self.function,
            "operation": self.operation,
            "category": self.category,
            "format": self.format,
            "accumulator": self.accumulator,
            "pass": self.reached_from,
            "operators": list(self.operators),
            "patterns": list(self.patterns),
        }


class FindingRow(NamedTuple):
    """An occurrence of a pattern. ``chain`` are ids of nodes, comma-separated, in the order the value flows."""

    id: int
    pattern: str
    framework: str
    version: str
    file: str
    line: int
    column: int
    function: str
    from_format: str
    to_format: str
    confidence: str
    reached_from: str
    is_primary: bool
    message: str
    cast_id: int | None
    arithmetic_id: int | None
    node_id: int
    chain: str

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner patterns show --format json`` prints."""
        return {
            "id": self.id,
            "pattern": self.pattern,
            "framework": self.framework,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "function": self.function,
            "from": self.from_format,
            "to": self.to_format,
            "confidence": self.confidence,
            "pass": self.reached_from,
            "primary": self.is_primary,
            "message": self.message,
            "cast": self.cast_id,
            "arithmetic": self.arithmetic_id,
            "node": self.node_id,
            "chain": [int(node) for node in self.chain.split(",") if node],
        }


class PatternRow(NamedTuple):
    """A pattern rule; ``findings`` is None where no database was asked."""

    id: str
    judges: str
    title: str
    findings: int | None

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner patterns --format json`` prints."""
        return self._asdict()


class PatternCount(NamedTuple):
    """How often a scan shows a pattern; ``primary`` counts places whose category it is, ``formats`` is by formats."""

    framework: str
    version: str
    pattern: str
    findings: int
    primary: int
    high: int
    medium: int
    low: int
    device: int
    formats: Mapping[str, int]


@dataclass(frozen=True)
class QueryResult:
    """Columns and rows of a query; ``truncated`` when there were more rows than the limit."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False


#: Kinds of chain steps that hand a value on as it is; a followed call does, one whose body nobody saw need not.
PASSING_ON = frozenset(
    kind.value
    for kind in (
        NodeKind.PARAMETER,
        NodeKind.CAPTURE,
        NodeKind.VARIABLE,
        NodeKind.LOAD,
        NodeKind.STORE,
        NodeKind.RETURN,
        NodeKind.CALL,
    )
)


class ChainStep(NamedTuple):
    """One node of a def-use chain.

    ``depth`` counts operations from the cast, steps of kinds in ``PASSING_ON`` not among them; ``parent`` is the
    index, in the same list, of the step it hangs on (-1: the cast itself); ``edge`` is why the value flows; ``again``
    when the node was drawn before; ``more`` when the bound stopped the walk here.
    """

    node: int
    parent: int
    depth: int
    edge: str
    kind: str
    operation: str
    format: str
    from_format: str
    function: str
    bindings: str
    file: str
    line: int
    column: int
    constant: bool
    again: bool = False
    more: bool = False


@dataclass(frozen=True)
class Chain:
    """Where the value of a cast comes from and where it goes, for one function instance.

    ``root`` is the scanned folder and ``sizes`` the bytes of each file of the chain when it was scanned: enough to
    show the source lines as long as they are what was scanned.
    """

    cast: CastRow
    node: int
    bindings: str
    origins: tuple[ChainStep, ...]
    sinks: tuple[ChainStep, ...]
    root: str = ""
    sizes: Mapping[str, int | None] = field(default_factory=dict)


class UnitRow(NamedTuple):
    """A translation unit of the coverage report."""

    framework: str
    version: str
    file: str
    cuda_pass: str
    configuration: str
    status: str
    reason: str
    errors: int
    functions: int
    functions_with_error: int
    device_functions_with_error: int
    nodes: int
    casts: int
    parse_cpu_s: float
    walk_cpu_s: float
    peak_rss_mib: float


@dataclass(frozen=True)
class Coverage:
    """How much of a source tree was seen.

    Parameters
    ----------
    statuses : mapping of str to int
        Units by status: ``ok``, ``errors``, ``skipped``.
    functions, functions_with_error, device_functions_with_error : int
        Function instances, counted once however many units share them; those with an error in their body; those
        among them that device code reaches.
    units_with_device_error : int
        Units with an error inside a device function.
    nodes, edges, cast_sites, arithmetic_sites : int
        What the graph holds.
    missing_headers : mapping of str to int
        Headers not found, with the number of units each one costs.
    reasons : mapping of str to int
        Why units were skipped.
    """

    framework: str
    version: str
    root: str
    finished: bool
    statuses: Mapping[str, int] = field(default_factory=dict)
    functions: int = 0
    functions_with_error: int = 0
    device_functions: int = 0
    device_functions_with_error: int = 0
    units_with_device_error: int = 0
    missing_bodies: int = 0
    nodes: int = 0
    edges: int = 0
    cast_sites: int = 0
    constant_cast_sites: int = 0
    arithmetic_sites: int = 0
    parse_cpu_s: float = 0.0
    walk_cpu_s: float = 0.0
    peak_rss_mib: float = 0.0
    missing_headers: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """All units, skipped ones too."""
        return sum(self.statuses.values())

    @property
    def partial(self) -> bool:
        """Something could not be analysed: a unit was skipped, or a device function holds an error."""
        return bool(self.statuses.get("skipped") or self.device_functions_with_error or self.units_with_device_error)

    def as_json(self) -> dict[str, Any]:
        """Everything, in words."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**values, "units": self.units, "partial": self.partial}


@dataclass(frozen=True)
class ScanSummary:
    """What a scan did: units scanned now, units that an interrupted run had finished, and the whole coverage."""

    database: str
    scanned: int
    resumed: int
    elapsed_s: float
    coverage: Coverage
    warnings: tuple[str, ...] = ()


class DoctorLine(NamedTuple):
    """One thing that a scan needs: is it there, where, and what its absence costs."""

    name: str
    found: bool
    detail: str
    costs: str


class PathStep(NamedTuple):
    """One step from a registration to a function: a statement, a function, a stub."""

    what: str
    file: str
    line: int


class OperatorSummary(NamedTuple):
    """A row of ``opscanner operators``; functions, casts and 16-bit arithmetic of operators that it calls count too."""

    id: int
    framework: str
    version: str
    name: str
    forward_name: str
    direction: str
    module_group: str
    file: str | None
    line: int
    registrations: int
    functions: int
    casts: int
    arithmetic_16bit: int

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner operators --format json`` prints."""
        return {name: value for name, value in self._asdict().items() if name != "id"}


class OperatorRegistration(NamedTuple):
    """A statement that something serves an operator."""

    kind: str
    device: str
    formats: tuple[str, ...]
    target: str
    file: str
    line: int


class OperatorFunction(NamedTuple):
    """A function that serves an operator; ``through`` names the operator in between that is called, if any.

    ``casts`` and ``arithmetic_16bit`` are lines of the function that hold a cast (of no constant), and that compute in
    16 bit.
    """

    through: str
    device: str
    function: str
    file: str
    line: int
    distance: int
    confidence: str
    formats: tuple[str, ...]
    path: tuple[PathStep, ...]
    casts: tuple[int, ...]
    arithmetic_16bit: tuple[int, ...]


@dataclass(frozen=True)
class OperatorDetails:
    """All that is known of one operator of one scan. ``delegations`` are operators that it calls, with the way."""

    operator: OperatorSummary
    registrations: tuple[OperatorRegistration, ...]
    delegations: tuple[tuple[str, tuple[PathStep, ...]], ...]
    functions: tuple[OperatorFunction, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner operators NAME --format json`` prints."""
        return {
            **self.operator.as_json(),
            "registrations": [row._asdict() for row in self.registrations],
            "delegations": [
                {"operator": name, "path": [step._asdict() for step in path]} for name, path in self.delegations
            ],
            "serving": [{**row._asdict(), "path": [step._asdict() for step in row.path]} for row in self.functions],
        }


class AttributionRate(NamedTuple):
    """Which part of a scan's cast sites outside of shared headers reaches an operator."""

    framework: str
    version: str
    cast_sites: int
    attributed_cast_sites: int
    functions: int
    attributed_functions: int
    shared_headers: int

    @property
    def rate(self) -> float:
        """Attributed cast sites, from 0 to 1; 1 where there is none to attribute."""
        return self.attributed_cast_sites / self.cast_sites if self.cast_sites else 1.0

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner operators --rate --format json`` prints."""
        return {**self._asdict(), "rate": round(self.rate, 4)}


class SummarizedScan(NamedTuple):
    """A scan in a summary, with the number of its rows. ``root`` is a name that no machine's path is in."""

    framework: str
    version: str
    root: str
    units: int
    functions: int
    cast_sites: int
    arithmetic_sites: int
    operators: int
    attributions: int
    findings: int


class CampaignRow(NamedTuple):
    """A run of many measurements. ``ended`` is None while it runs and after it was interrupted."""

    id: int
    versions: dict[str, str]
    machine: str
    device: str
    seed: int
    options: dict[str, Any]
    started: str
    ended: str | None


class MeasurementRow(NamedTuple):
    """A measurement with its place in the database."""

    id: int
    campaign_id: int
    measurement: Measurement


@dataclass(frozen=True)
class FaultRow:
    """The smallest input of an operator for which its result is wrong.

    Parameters
    ----------
    cause : str
        Equal for faults of one cause.
    inputs : dict
        Name of an input to its shape and flat values.
    expected, got : tuple of float
        Flat outputs.
    error_ulp : float or None
        None for a class mismatch.
    explanation : tuple of dict
        Findings that explain it: file, line, pattern, message.
    measurements : tuple of int
        Ids of the measurements that show it.
    id, campaign_id : int
        Given when it is written.
    """

    cause: str
    framework: str
    version: str
    operator: str
    direction: str
    format: str
    device: str
    layout: str
    verdict: str
    expression: str
    inputs: dict[str, tuple[tuple[int, ...], tuple[float, ...]]]
    expected: tuple[float, ...]
    got: tuple[float, ...]
    error_ulp: float | None
    explanation: tuple[dict[str, Any], ...]
    script: str
    measurements: tuple[int, ...]
    id: int = 0
    campaign_id: int = 0
