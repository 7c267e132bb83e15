"""The pipeline as a handful of functions: scan a source tree, then ask what it holds.

>>> from opscanner import api                                                    # doctest: +SKIP
>>> api.scan("~/src/pytorch", only=["*SoftMax.cu"], db="opscanner.sqlite")      # doctest: +SKIP
>>> [cast for cast in api.casts(db="opscanner.sqlite", to_format="float16")]    # doctest: +SKIP
"""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import io
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from opscanner import __version__, running_models
from opscanner.errors import DatabaseError, FrontendError, OpscannerError, UsageError
from opscanner.graph import chains as graph_chains
from opscanner.graph import findings as graph_findings
from opscanner.graph import networks, operator_queries, queries, readonly, schema_docs
from opscanner.graph import summarize as graph_summarize
from opscanner.graph.filters import check_format, check_framework
from opscanner.graph.flow_graph import scan_ids
from opscanner.installed import require
from opscanner.operators.pairs import data_folder
from opscanner.report import chain_text
from opscanner.results import (
    ArithmeticRow,
    AttributionRate,
    CastRow,
    Chain,
    Coverage,
    DoctorLine,
    FindingRow,
    OperatorDetails,
    OperatorSummary,
    PatternCount,
    PatternRow,
    QueryResult,
    ScanSummary,
    SummarizedScan,
    UnitRow,
)
from opscanner.scanning import (
    DEFAULT_TIMEOUT_S,
    Passes,
    Progress,
    ScanRequest,
    check_root,
    default_cache_dir,
    run_scan,
)
from opscanner.summary import RESERVED_NAME, open_summary, write_summary

if TYPE_CHECKING:
    import networkx

    from opscanner.dynamic.fault_stories import NotShown
    from opscanner.dynamic.study import StudyRow
    from opscanner.dynamic.study_strategies import StrategyRow
    from opscanner.measurements import Measurement
    from opscanner.operators.comparison import Comparison
    from opscanner.operators.testlist import Suspect
    from opscanner.operators.version_diff import VersionDiff
    from opscanner.prediction import Agreement, Prediction
    from opscanner.report.faults import FaultReport
    from opscanner.testing import TestResult

DEFAULT_DATABASE = "opscanner.sqlite"

# Models that run (opscanner.running_models).
attention_experiment = running_models.attention_experiment
bisect_precision = running_models.bisect_precision
check_drawing = running_models.check_drawing
operator_experiment = running_models.operator_experiment
replay = running_models.replay
replay_script = running_models.replay_script
training_deviation = running_models.training_deviation
watch_script = running_models.watch_script
write_smallest = running_models.write_smallest


def database_name(db: str | None) -> str:
    """The database to use: the one given, else ``OPSCANNER_DB``, else ``opscanner.sqlite`` in the current folder.

    ``summary`` is the summary of full scans that comes with opscanner, unpacked at first use; ``./summary`` is a file.
    """
    name = db or os.environ.get("OPSCANNER_DB") or DEFAULT_DATABASE
    return open_summary() if name == RESERVED_NAME else name


def _writable(db: str | None) -> str:
    """As :func:`database_name`, for what writes."""
    name = db or os.environ.get("OPSCANNER_DB") or DEFAULT_DATABASE
    if name == RESERVED_NAME:
        raise UsageError(f"--db {name} is the summary that comes with opscanner: it is only read", "--db FILE")
    return name


def scan(
    root: str,
    *,
    compile_db: str | None = None,
    framework: str = "auto",
    only: Sequence[str] = (),
    db: str | None = None,
    jobs: int | None = None,
    cuda_path: str | None = None,
    passes: Passes = "auto",
    precompiled_header: bool = True,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    rescan: bool = False,
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> ScanSummary:
    """Scans a source tree into a database, a translation unit at a time.

    An interrupted scan goes on where it stopped when it is asked for again with the same root, ``compile_db``,
    ``only`` and ``passes`` and the same tools: units whose compile command is the same are not scanned again. A scan
    that had finished is done afresh, and replaces what it finds anew; units that are no longer there are deleted,
    unless ``only`` chose some.

    Parameters
    ----------
    root : str
        A checkout, a folder with sources, or one source file.
    compile_db : str, optional
        A ``compile_commands.json``; without it one is made.
    framework : str
        ``pytorch``, ``tensorflow`` or ``auto``.
    only : sequence of str
        Globs; a unit is scanned when one matches its path below the root, or the end of it.
    passes : str
        Which of clang's two compilations of a CUDA file to see: ``device``, ``host``, ``both``, or ``auto``: the
        device's, and the host's too where the file has code for it alone.
    timeout_s : float
        CPU seconds after which a unit is given up; six times as many by the clock also end it.
    rescan : bool
        Begin afresh even though an interrupted scan could go on.
    progress : callable, optional
        Called after each unit.
    log : callable
        Called with sentences about what takes time.

    Raises
    ------
    UsageError
        When ``root`` is missing, or ``only`` matches nothing.
    DatabaseError
        When the database cannot be opened or written.
    """
    request = ScanRequest(
        root=check_root(root),
        database=_writable(db),
        compile_db=compile_db,
        framework=framework,
        only=tuple(only),
        jobs=jobs,
        cuda_path=cuda_path,
        passes=passes,
        precompiled_header=precompiled_header,
        timeout_s=timeout_s,
        rescan=rescan,
    )
    return run_scan(request, progress, log)


def casts(
    *,
    db: str | None = None,
    operator: str | None = None,
    file: str | None = None,
    from_format: str | None = None,
    to_format: str | None = None,
    function: str | None = None,
    framework: str | None = None,
) -> list[CastRow]:
    """Cast sites, in the order of their places. ``file`` is a glob; ``function`` a qualified name or the end of one.

    Raises
    ------
    UsageError
        When there is no such format, framework or operator.
    """
    check_framework(framework)
    check_format(from_format, integers=True)
    check_format(to_format, integers=True)
    with queries.reading(database_name(db)) as connection:
        serving = _serving(connection, operator, framework, casts=True)
        rows = queries.find_casts(
            connection,
            file=file,
            from_format=from_format,
            to_format=to_format,
            function=function,
            framework=framework,
        )
        patterns = graph_findings.patterns_of_sites(connection, casts=True)
        operators = operator_queries.operators_of_sites(connection, casts=True)
        return [
            row._replace(patterns=patterns.get(row.id, ()), operators=operators.get(row.id, ()))
            for row in rows
            if serving is None or row.id in serving
        ]


def arithmetic(
    *,
    db: str | None = None,
    operator: str | None = None,
    file: str | None = None,
    format: str | None = None,
    accumulator: str | None = None,
    category: str | None = None,
    operation: str | None = None,
    function: str | None = None,
    framework: str | None = None,
) -> list[ArithmeticRow]:
    """Places where something is computed, with the format it is computed in; filters as for :func:`casts`."""
    check_framework(framework)
    check_format(format, integers=True)
    check_format(accumulator, integers=True)
    with queries.reading(database_name(db)) as connection:
        serving = _serving(connection, operator, framework, casts=False)
        rows = queries.find_arithmetic(
            connection,
            file=file,
            format_=format,
            accumulator=accumulator,
            category=category,
            operation=operation,
            function=function,
            framework=framework,
        )
        patterns = graph_findings.patterns_of_sites(connection, casts=False)
        operators = operator_queries.operators_of_sites(connection, casts=False)
        return [
            row._replace(patterns=patterns.get(row.id, ()), operators=operators.get(row.id, ()))
            for row in rows
            if serving is None or row.id in serving
        ]


def classify(
    *,
    db: str | None = None,
    framework: str | None = None,
    only: Sequence[str] = (),
    log: Callable[[str], None] = lambda message: None,
) -> list[PatternCount]:
    """Runs the pattern rules over each scan, stores what they find, and gives the counts.

    Parameters
    ----------
    only : sequence of str
        IDs of the patterns whose findings to replace; all by default.

    Raises
    ------
    UsageError
        When there is no pattern of that ID, or no scan of that framework.
    """
    from opscanner.patterns import catalog, run

    for name in only:
        catalog.find_rule(name)
    check_framework(framework)
    database = _writable(db)
    with queries.reading(database) as connection:
        graph_summarize.refuse_summary(connection, "patterns are found in scans")
        scans = scan_ids(connection, framework)
        if not scans:
            raise UsageError(f"the database holds no scan of {framework or 'anything'}", "opscanner coverage")
    for scan_id in scans:
        run.conclude(database, scan_id, only, log)
    with queries.reading(database) as connection:
        counts = graph_findings.count_patterns(connection, scans)
    return [count for count in counts if not only or count.pattern in only]


def patterns(*, db: str | None = None) -> list[PatternRow]:
    """The pattern rules, with the number of their findings where there is a database that holds some."""
    from opscanner.patterns.catalog import all_rules

    found: dict[str, int] | None
    try:
        with queries.reading(database_name(db)) as connection:
            found = graph_findings.count_findings(connection)
    except DatabaseError:
        if db is not None:
            raise
        found = None
    return [
        PatternRow(one.rule.id, one.judges, one.rule.title, None if found is None else found.get(one.rule.id, 0))
        for one in all_rules()
    ]


def explain_pattern(name: str) -> str:
    """The manual page of a pattern rule, with its examples.

    Raises
    ------
    UsageError
        When there is no pattern of that ID.
    """
    from opscanner.patterns import catalog, manual

    return manual.page(catalog.find_rule(name))


def patterns_markdown() -> str:
    """The manual pages of all pattern rules, as docs/patterns.md."""
    from opscanner.patterns import manual

    return manual.markdown()


def findings(
    pattern: str | None = None,
    *,
    db: str | None = None,
    operator: str | None = None,
    file: str | None = None,
    function: str | None = None,
    framework: str | None = None,
    confidence: str | None = None,
) -> list[FindingRow]:
    """What the rules found, in the order of the places; filters as for :func:`casts`."""
    from opscanner.patterns.catalog import find_rule

    if pattern is not None:
        find_rule(pattern)
    check_framework(framework)
    with queries.reading(database_name(db)) as connection:
        return graph_findings.find_findings(
            connection,
            pattern=pattern,
            operator=operator,
            file=file,
            function=function,
            framework=framework,
            confidence=confidence,
        )


def _serving(connection: Any, operator: str | None, framework: str | None, *, casts: bool) -> set[int] | None:
    """Sites in functions that serve an operator; none for all sites."""
    if operator is None:
        return None
    return operator_queries.sites_serving(connection, operator, framework=framework, casts=casts)


def operators(
    *, db: str | None = None, framework: str | None = None, device: str | None = None
) -> list[OperatorSummary]:
    """The operators that the scanned frameworks declare, with how much serves them.

    Parameters
    ----------
    device : str
        ``cpu`` or ``cuda``: only operators with a registration for it.
    """
    check_framework(framework)
    with queries.reading(database_name(db)) as connection:
        return operator_queries.find_operators(connection, framework=framework, device=device)


def operator(
    name: str, *, db: str | None = None, framework: str | None = None, device: str | None = None
) -> list[OperatorDetails]:
    """What serves an operator, with the path from each registration to each function; one entry a scan that has it.

    Raises
    ------
    UsageError
        When no scan has an operator of that name.
    """
    check_framework(framework)
    with queries.reading(database_name(db)) as connection:
        return operator_queries.describe_operator(connection, name, framework=framework, device=device)


def attribution_rates(*, db: str | None = None) -> list[AttributionRate]:
    """Which part of the cast sites outside of shared headers reaches an operator; one row a scan with operators."""
    with queries.reading(database_name(db)) as connection:
        return operator_queries.attribution_rates(connection)


def compare(
    first: str = "pytorch",
    second: str = "tensorflow",
    *,
    operator: str | None = None,
    device: str = "cuda",
    storage: Sequence[str] | None = None,
    db: str | None = None,
) -> list[Comparison]:
    """Operators of two scanned frameworks side by side, one for each pair of the table and storage format.

    Parameters
    ----------
    first, second : str
        Scans in the database: ``pytorch``, ``tensorflow@2.14.1``.
    operator : str, optional
        Only pairs that this name means: a pair's id, an ATen operator, a TensorFlow op.
    storage : sequence of str, optional
        Storage formats; by default the 16-bit ones, and float32 where an operator is named.

    Raises
    ------
    UsageError
        When a scan, an operator or a format is not known.
    """
    from opscanner.operators.compare_scans import compare_scans
    from opscanner.operators.comparison import RANKED_FORMATS

    for name in storage or ():
        check_format(name)
    formats = storage or ((*RANKED_FORMATS, "float32") if operator else RANKED_FORMATS)
    return compare_scans(database_name(db), first, second, operator, device, formats)


def ranked(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Those of :func:`compare` that one side widens and the other does not, what may be lost most first."""
    from opscanner.operators.comparison import rank

    return rank(comparisons)


def diff(
    before: str, after: str, *, operator: str | None = None, device: str = "cuda", db: str | None = None
) -> VersionDiff:
    """Which operators gained or lost an upcast between two scans of one framework.

    Parameters
    ----------
    before, after : str
        Scans in the database (``pytorch@1.13.1``), or databases that hold one scan.

    Raises
    ------
    UsageError
        When a scan or the operator is not known, or the scans are of two frameworks.
    """
    from opscanner.operators.version_diff import diff_versions

    return diff_versions(database_name(db), before, after, device, operator)


def testlist(
    *,
    framework: str | None = None,
    pattern: str | None = None,
    device: str = "cuda",
    top: int | None = None,
    db: str | None = None,
) -> list[Suspect]:
    """Operators worth a precision test, the worst first: formats, reasons, calls and inputs that would show the loss.

    Parameters
    ----------
    framework : str, optional
        A scan in the database, ``pytorch`` or ``pytorch@2.6``; by default the newest of each framework.
    pattern : str, optional
        Only for findings of this pattern.
    device : str
        ``cuda`` or ``cpu``: whose kernels to suspect.
    top : int, optional
        Only so many.

    Raises
    ------
    UsageError
        When there is no such scan or pattern, or a scan holds no operators.
    """
    from opscanner.operators.testlist import find_suspects
    from opscanner.patterns.catalog import find_rule

    if pattern is not None:
        find_rule(pattern)
    return find_suspects(database_name(db), framework=framework, pattern=pattern, device=device, top=top)


def test(
    operators: Sequence[str] = (),
    *,
    everything: bool = False,
    from_findings: bool = False,
    top: int | None = None,
    frameworks: Sequence[str] = ("pytorch", "tensorflow"),
    formats: Sequence[str] = ("float16", "bfloat16"),
    device: str = "auto",
    backward: bool = False,
    strategies: Sequence[str] | None = None,
    laws: bool = False,
    seed: int = 0,
    budget: float = 1.0,
    jobs: int | None = None,
    time_limit_s: float = 120.0,
    memory_limit_mib: int = 6144,
    store: bool = True,
    resume: bool = False,
    db: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> TestResult:
    """Runs operators on inputs that find things, and measures them against correctly rounded results.

    Parameters
    ----------
    operators : sequence of str
        Ids of the catalog, or names in a framework.
    everything : bool
        The whole catalog, gradients too.
    from_findings : bool
        The operators that :func:`testlist` gives for the database, the worst first; ``top`` of them.
    strategies : sequence of str, optional
        Ids of ``opscanner.dynamic.inputs.STRATEGIES``; all that fit otherwise.
    laws : bool
        Also hold results against each other where a law says how they must agree (``opscanner.dynamic.laws``).
    budget : float
        Scales the number of inputs and the time.
    store, resume : bool
        Keep rows in the database, and go on with the last campaign there that did not end.

    Raises
    ------
    UsageError
        For a name, format, framework, strategy or device that there is not, or options that contradict each other.
    """
    from opscanner import testing

    if top is not None and not from_findings:
        raise UsageError("--top is of the operators that findings suspect", "give --from-findings, or leave --top out")
    if resume and not store:
        raise UsageError("--resume goes on with rows in the database, --no-store keeps none there", "leave one out")
    if store and (db or os.environ.get("OPSCANNER_DB")) == RESERVED_NAME:
        raise UsageError(
            f"--db {RESERVED_NAME} is the summary that comes with opscanner: it is only read, and keeps no rows",
            "--no-store measures without keeping rows; `opscanner scan` makes a database of your own",
        )
    if from_findings:
        operators = (*operators, *_suspected(db, device, testing.choose_device(device, frameworks), progress)[:top])
    request = testing.TestRequest(
        operators=testing.choose_operators(operators, everything=everything, backward=backward),
        formats=tuple(dict.fromkeys(formats)),
        frameworks=tuple(dict.fromkeys(frameworks)),
        device=testing.choose_device(device, frameworks),
        strategies=tuple(dict.fromkeys(strategies)) if strategies else None,
        laws=laws,
        seed=seed,
        budget=budget,
        jobs=jobs,
        time_limit_s=time_limit_s,
        memory_limit_mib=memory_limit_mib,
        cache=testing.cache_folder(Path(default_cache_dir())),
    )
    if store:
        return testing.run_kept_tests(request, _writable(db), resume=resume, progress=progress)
    return testing.run_tests(request, progress=progress)


def _suspected(db: str | None, asked: str, device: str, progress: Callable[[str], None]) -> tuple[str, ...]:
    """Ids of the operators that findings suspect, the worst first.

    Scans see CUDA kernels above all: without a GPU those come first whose CPU kernels are suspected too.
    """
    suspects = testlist(db=db, device="cpu" if asked == "cpu" else "cuda")
    ids = tuple(dict.fromkeys(one.pair for one in suspects if one.pair))
    if device != "cpu" or asked == "cpu":
        return ids
    too = {one.pair for one in testlist(db=db, device="cpu")}
    progress(
        "the findings are of CUDA kernels, and there is no GPU: CPU kernels of the same operators are run, first those "
        "that are suspected too"
    )
    return tuple(sorted(ids, key=lambda name: name not in too))


def study(
    operators: Sequence[str] = (),
    *,
    tensors: int = 20000,
    seeds: Sequence[int] = (0, 1, 2),
    formats: Sequence[str] = ("bfloat16",),
    frameworks: Sequence[str] = ("tensorflow", "pytorch"),
    as_published: bool = False,
    alone: int = 100,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> list[StudyRow]:
    """The study's experiment again: seven operators and six gradients on random tensors, a row a framework and format.

    Parameters
    ----------
    operators : sequence of str
        Ids (``selu``, ``selu_grad``); all by default.
    as_published : bool
        The study's own settings and random numbers; else every attribute is equal on both sides.
    alone : int
        So many tensors of the first seed are also run one by one.

    Raises
    ------
    UsageError
        For an operator, format or framework that the study does not know, or where something is not installed.
    """
    require("the study", ("numpy", "scipy", "ml_dtypes", "autograd", "flint"), "dynamic")
    from opscanner.dynamic.study import run_study

    return run_study(
        operators=operators,
        tensors=tensors,
        seeds=seeds,
        formats=formats,
        frameworks=frameworks,
        as_published=as_published,
        alone=alone,
        device=device,
        progress=progress,
    )


def study_strategies(
    operators: Sequence[str] = (),
    *,
    tensors: int = 20000,
    seeds: Sequence[int] = (0, 1, 2),
    formats: Sequence[str] = ("bfloat16",),
    frameworks: Sequence[str] = ("tensorflow", "pytorch"),
    strategies: Sequence[str] = (),
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> list[StrategyRow]:
    """What each way to choose inputs finds in the study's operators with so many tensors; a row each.

    Parameters
    ----------
    strategies : sequence of str
        ``random``, ``predoo``, ``boundary``, ``stratified``, ``hill climbing``, ``exhaustive``; all by default.

    Raises
    ------
    UsageError
        As :func:`study`.
    """
    require("the study", ("numpy", "scipy", "ml_dtypes", "autograd", "flint"), "dynamic")
    from opscanner.dynamic.study_strategies import run_strategies

    return run_strategies(
        operators=operators,
        tensors=tensors,
        seeds=seeds,
        formats=formats,
        frameworks=frameworks,
        strategies=strategies,
        device=device,
        progress=progress,
    )


def measured(source: str | None = None) -> list[Measurement]:
    """Measurements of a campaign.

    Parameters
    ----------
    source : str, optional
        A CSV of ``opscanner test --format csv``, or a database (its last campaign). Without it the table that comes
        along: the worst of every operator of the catalog in both 16-bit formats on a CPU.

    Raises
    ------
    OpscannerError
        When the file cannot be read, or is neither.
    """
    from opscanner.graph.trial_store import find_measurements
    from opscanner.measurements import Measurement

    path = data_folder() / "measurements" / "catalog_cpu.csv" if source is None else Path(source)
    if source is not None and path.suffix != ".csv":
        with queries.reading(database_name(source)) as connection:
            return [row.measurement for row in find_measurements(connection)]
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return [Measurement.from_texts(row) for row in csv.DictReader(lines)]
    except OSError as error:
        raise OpscannerError(f"cannot read {path}: {error.strerror}", "opscanner test --all --format csv") from error
    except (KeyError, ValueError) as error:
        raise OpscannerError(f"{path} is no table of measurements: {error}", "opscanner test --format csv") from error


def inputs_of(one: Measurement, *, budget: float = 1.0) -> dict[str, Any]:
    """The inputs of a measurement's worst batch again, by name: arrays of float64 that hold values of its format.

    Parameters
    ----------
    budget : float
        That of the campaign; other budgets make inputs of other sizes.

    Raises
    ------
    UsageError
        When the measurement's strategy makes no such batch (it did not run, or the budget is another one).
    """
    from opscanner.dynamic.measure import remake
    from opscanner.testing import size_of_budget

    for batch in remake(one, size_of_budget(budget)):
        if batch.number == one.batch_number or one.strategy == "search":
            return dict(batch.inputs)
    raise UsageError(
        f"{one.strategy or 'no strategy'} makes no batch {one.batch_number} of {one.operator} in {one.format}",
        "give the budget of the campaign; rows of laws and of what did not run have no inputs",
    )


def predict(
    first: str = "pytorch",
    second: str = "tensorflow",
    *,
    device: str = "cuda",
    measurements: str | None = None,
    db: str | None = None,
) -> list[Prediction]:
    """What the scan suspects of operators beside what was measured of them, the highest score first.

    Parameters
    ----------
    device : str
        Whose kernels of the scan to take, ``cuda`` or ``cpu``.
    measurements : str, optional
        As in :func:`measured`.

    Raises
    ------
    UsageError
        When a scan is not known.
    """
    from opscanner.prediction import predictions

    return predictions(compare(first, second, device=device, db=db), measured(measurements))


def agreement(rows: Sequence[Prediction]) -> Agreement:
    """How well the scores of :func:`predict` find the faults: precision, recall, average precision, base rate."""
    from opscanner import prediction

    return prediction.agreement(rows)


def agreement_by(rows: Sequence[Prediction], attribute: str) -> Mapping[str, Agreement]:
    """The same for each ``framework``, ``format``, ``cause`` or ``direction``."""
    from opscanner import prediction

    return prediction.agreement_by(rows, attribute)


def precision_at(rows: Sequence[Prediction], k: int) -> float:
    """Share of faults among the ``k`` highest scores."""
    from opscanner import prediction

    return prediction.precision_at(rows, k)


def faults(
    *,
    campaign: int | None = None,
    framework: str | None = None,
    operators: Sequence[str] = (),
    jobs: int | None = None,
    time_limit_s: float = 120.0,
    scale: float = 1.0,
    db: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[list[FaultReport], list[NotShown]]:
    """Faults of a campaign by cause, each made small, explained and shown by a script that ran; they are stored too.

    Scans in the database explain them; for a framework that it holds no scan of, the summary that comes with opscanner.

    Parameters
    ----------
    campaign : int, optional
        The last one by default.
    operators : sequence of str
        Ids of the catalog; all by default.
    scale : float
        So many times the usual number of trials to make each input small.

    Returns
    -------
    reports : list of FaultReport
        Causes that are known first, of these the ones of most operators.
    lost : list of NotShown
        Operators, formats and verdicts of which no fault was made, and why: making them small crashed or hung, they did
        not show again, nothing independent says what is right, or no input strategy makes their inputs.

    Raises
    ------
    DatabaseError
        When nothing was measured into the database.
    UsageError
        When nothing that is asked for is a fault.
    """
    from opscanner.fault_reports import report_faults

    database = database_name(_writable(db))
    return report_faults(
        database,
        (database, database_name(RESERVED_NAME)),
        campaign=campaign,
        framework=framework,
        operators=operators,
        jobs=jobs,
        time_limit_s=time_limit_s,
        scale=scale,
        progress=progress,
    )


def conclude_operators(*, db: str | None = None, log: Callable[[str], None] = lambda message: None) -> list[str]:
    """Concludes the operators of every scan anew, from the sources where they were scanned; gives warnings.

    A scan ends with this by itself; it is for databases of an earlier release of opscanner.
    """
    from opscanner.graph import call_graph
    from opscanner.operators.attribution import conclude

    database = _writable(db)
    with queries.reading(database) as connection:
        graph_summarize.refuse_summary(connection, "operators are concluded from scans")
        scans = call_graph.scans(connection)
    return [warning for scan in scans for warning in conclude(database, scan.id, log)]


def chains(
    cast: str | int, *, db: str | None = None, depth: int = 8, steps: int = 200, instances: int = 1
) -> list[Chain]:
    """Def-use chains through a cast: back to where its value comes from, forward to where it goes.

    Parameters
    ----------
    cast : str or int
        A cast's id, or ``FILE:LINE`` for every cast on that line.
    depth : int
        Operations in a row to follow each way; loads, stores, calls and variables, which hand a value on, cost none.
    steps : int
        Operations to follow each way in all.
    instances : int
        Function instances of each cast to follow; different bindings of formats give different chains.
    """
    with queries.reading(database_name(db)) as connection:
        found = queries.find_cast(connection, str(cast))
        graph_summarize.refuse_without_graph(connection, [row.id for row in found])
        return [
            chain
            for row in found
            for chain in graph_chains.trace(connection, row, depth=depth, steps=steps, instances=instances)
        ]


def draw_chains(found: Sequence[Chain]) -> str:
    """Chains of :func:`chains` as text, loads above the cast and stores below it, with their source lines.

    The lines are read from the scanned sources, where these are still there and as long as they were.
    """
    text = io.StringIO()
    chain_text.render(found, text)
    return text.getvalue()


def sql(query: str, *, db: str | None = None, limit: int | None = None, timeout_s: float | None = None) -> QueryResult:
    """Rows of a query over the tables and views; nothing can be written (see :mod:`opscanner.graph.readonly`)."""
    return readonly.run_query(database_name(db), query, limit=limit, timeout_s=timeout_s)


def graph(
    *,
    db: str | None = None,
    function: str | None = None,
    cast: str | int | None = None,
    radius: int = 3,
) -> networkx.MultiDiGraph[int]:
    """The graph as networkx sees it: of a function, of the neighbourhood of a cast, or whole."""
    if function is not None and cast is not None:
        raise UsageError("a graph is of a function or of a cast, not of both", "leave --function or --cast out")
    with queries.reading(database_name(db)) as connection:
        if cast is not None:
            rows = queries.find_cast(connection, str(cast))
            graph_summarize.refuse_without_graph(connection, [row.id for row in rows])
            return networks.around_casts(connection, [row.id for row in rows], radius=radius)
        if function is not None:
            return networks.of_function(connection, function)
        graph_summarize.refuse_summary(connection, "only graphs of functions that serve operators are in it")
        return networks.whole(connection)


def write_graphml(network: networkx.MultiDiGraph[int], stream: IO[bytes]) -> None:
    """A graph of :func:`graph` as GraphML."""
    networks.write_graphml(network, stream)


def node_link(network: networkx.MultiDiGraph[int]) -> dict[str, Any]:
    """A graph of :func:`graph` as networkx's node-link data, which JSON can hold."""
    return networks.node_link(network)


def summarize(output: str | Path, databases: Sequence[str] = ()) -> list[SummarizedScan]:
    """Writes the facts of finished scans into one small database, and gives what it holds.

    Every function here reads such a summary, but :func:`classify` and :func:`conclude_operators`, which need more;
    :func:`chains` and :func:`graph` end where functions begin that serve no operator.

    Parameters
    ----------
    output : path
        A file that is not there yet; packed when it ends in ``.xz``.
    databases : sequence of str
        Databases as ``db`` is elsewhere; without any the one that ``db=None`` means.

    Raises
    ------
    UsageError
        When ``output`` is there, a scan is not finished, or a database is a summary itself.
    """
    return write_summary(Path(output), [database_name(name) for name in databases] or [database_name(None)])


def reference_table(name: str) -> QueryResult:
    """A table of published or measured figures, ``data/reference/NAME.csv``; all values are text.

    Raises
    ------
    UsageError
        When there is no table of that name.
    """
    folder = data_folder() / "reference"
    known = sorted(path.stem for path in folder.glob("*.csv"))
    if name not in known:
        raise UsageError(f"there is no reference table {name!r}", f"there are {', '.join(known)}")
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
        columns, *rows = csv.reader(lines)
    return QueryResult(tuple(columns), tuple(tuple(row) for row in rows))


def schema_text(names: Sequence[str] = (), *, markdown: bool = False) -> str:
    """What tables and views hold, column by column."""
    return schema_docs.markdown() if markdown else schema_docs.text(names)


def coverage(*, db: str | None = None) -> list[Coverage]:
    """How much of each scanned source tree was seen."""
    with queries.reading(database_name(db)) as connection:
        return queries.coverage(connection)


def units(*, db: str | None = None, status: str | None = None) -> list[UnitRow]:
    """Translation units and what became of them."""
    with queries.reading(database_name(db)) as connection:
        return queries.find_units(connection, status)


def doctor(cuda_path: str | None = None) -> list[DoctorLine]:
    """What a scan needs: is it there, where, and what its absence costs."""
    import compile_db

    lines = [
        DoctorLine("opscanner", True, __version__, ""),
        DoctorLine("Python", True, f"{platform.python_version()} ({sys.platform})", ""),
        *_library(),
    ]
    try:
        toolchain = compile_db.find_toolchain(cuda_path)
    except compile_db.CompileDatabaseError as error:
        raise OpscannerError(": ".join(filter(None, (error.where, error.what))), error.hint) from error
    seen = {line.name for line in lines}
    lines += [
        DoctorLine(finding.name, finding.found, finding.detail, "" if finding.found else finding.cost_of_absence)
        for finding in toolchain.findings
        if finding.name not in seen
    ]
    costs = {
        "torch": "unbuilt PyTorch checkouts cannot be scanned: no torchgen",
        "psycopg": "no PostgreSQL; SQLite needs nothing",
    }
    lines += [_package(name, cost) for name, cost in costs.items()]
    headers = ", ".join(compile_db.describe_tensorflow_headers(default_cache_dir()))
    fetched = "a scan of an unbuilt TensorFlow fetches the wheel of its version with pip (200 MB, once)"
    lines.append(DoctorLine("TensorFlow headers", bool(headers), headers or "none", "" if headers else fetched))
    gpu = Path("/dev/nvidia0").exists()
    return [
        *lines,
        DoctorLine("GPU", gpu, "/dev/nvidia0" if gpu else "none", "" if gpu else "none: scans need no GPU"),
    ]


def _library() -> list[DoctorLine]:
    from opscanner.frontend import library_versions

    try:
        versions: dict[str, Any] = dict(library_versions())
    except FrontendError as error:
        return [DoctorLine("libclang", False, error.what, error.hint or "nothing can be parsed")]
    return [DoctorLine("libclang", True, ", ".join(f"{name} {value}" for name, value in versions.items()), "")]


def _package(name: str, costs: str) -> DoctorLine:
    try:
        return DoctorLine(name, True, importlib.metadata.version(name), "")
    except importlib.metadata.PackageNotFoundError:
        return DoctorLine(name, False, "not installed", costs)
