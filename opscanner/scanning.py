"""From a source tree to a filled database: which units there are, which are still to do, and the loop over them."""

from __future__ import annotations

import dataclasses
import difflib
import gc
import hashlib
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import compile_db
from compile_db.command import ClangCommand, CompileCommand
from compile_db.database import CompileDatabase
from opscanner import __version__
from opscanner.errors import OpscannerError, UsageError
from opscanner.graph.queries import coverage, matches, reading
from opscanner.graph.store import FinishedUnit, Store
from opscanner.ir import CudaPass, UnitResult, UnitStatus, storable
from opscanner.operators.attribution import conclude as conclude_operators
from opscanner.patterns.run import conclude as conclude_patterns
from opscanner.results import Coverage, ScanSummary

Passes = Literal["auto", "device", "host", "both"]
#: A worker that grows beyond this is stopped and its unit skipped; PyTorch's largest units stay under 2 GiB.
WORKER_MEMORY_MIB = 4096
DEFAULT_TIMEOUT_S = 600.0


class Progress(NamedTuple):
    """How far a scan is. ``total`` counts units to scan now; ``unit`` is the one just written."""

    done: int
    total: int
    unit: UnitResult


@dataclass(frozen=True)
class ScanRequest:
    """What ``opscanner scan`` is asked for; see :func:`opscanner.api.scan`."""

    root: Path
    database: str
    compile_db: str | None = None
    framework: str = "auto"
    only: tuple[str, ...] = ()
    jobs: int | None = None
    cuda_path: str | None = None
    passes: Passes = "auto"
    precompiled_header: bool = True
    timeout_s: float = DEFAULT_TIMEOUT_S
    rescan: bool = False
    cache_dir: str | None = None


@dataclass(frozen=True)
class Plan:
    """The units of a scan: commands for clang, and those that cannot be parsed, with the reason."""

    framework: str
    version: str
    commands: tuple[ClangCommand, ...]
    skipped: tuple[UnitResult, ...]
    warnings: tuple[str, ...]
    tool_versions: dict[str, str]


def check_root(root: str) -> Path:
    """The folder (or single source file) to scan, absolute.

    Raises
    ------
    UsageError
        When there is none.
    """
    if root.startswith("installed:"):
        try:
            return compile_db.find_installed(root)
        except compile_db.CompileDatabaseError as error:
            raise UsageError(error.what, error.hint) from error
    path = Path(root).expanduser().absolute()
    if not path.exists():
        parent = path.parent
        near = difflib.get_close_matches(path.name, os.listdir(parent), n=3) if parent.is_dir() else []
        raise UsageError(
            f"there is no {path}", f"did you mean {', '.join(str(parent / name) for name in near)}?" if near else
            "give the folder of a checkout that exists",
        )  # fmt: skip
    if not os.access(path, os.R_OK):
        raise UsageError(f"cannot read {path}: permission denied", "check its owner and mode")
    return Path(os.path.realpath(path))


def default_cache_dir() -> str:
    """Where generated headers and precompiled headers go: ``OPSCANNER_CACHE``, or the user's cache folder."""
    if chosen := os.environ.get("OPSCANNER_CACHE"):
        return chosen
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
    return os.path.join(base, "opscanner")


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def detect_framework(root: Path) -> tuple[str, str]:
    """Framework and version of a checkout; ``("none", "")`` for other sources."""
    if (root / "aten/src/ATen/native/native_functions.yaml").is_file():
        text = _read(root / "version.txt")
        return "pytorch", text.split()[0] if text.split() else ""
    if (root / "tensorflow/core/kernels").is_dir() or (root / "tensorflow/core/public/version.h").is_file():
        return "tensorflow", compile_db.tensorflow_version(root)
    if compile_db.is_installed(root):
        return _installed(root)
    return "none", ""


def _installed(root: Path) -> tuple[str, str]:
    """Framework and version of the headers of an installed package."""
    if root.name == "tensorflow":
        return "tensorflow", compile_db.tensorflow_version(root.parent)
    written = re.search(r"^__version__ = ['\"]([^'\"]+)", _read(root.parent / "version.py"), re.M)
    return "pytorch", written[1] if written else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def relative(path: str, root: Path) -> str:
    """A path as the database names it: relative to the root, or absolute when outside of it."""
    return storable(os.path.relpath(path, root) if Path(path).is_relative_to(root) else path)


def arguments_hash(command: ClangCommand) -> str:
    """Sixteen hex digits over all that clang is given: equal commands parse alike while the files do not change."""
    text = "\0".join((command.directory, command.file, command.cuda_pass, command.language, *command.arguments))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def make_plan(request: ScanRequest, log: Callable[[str], None]) -> Plan:
    """Finds or makes the compile database and translates its commands.

    Raises
    ------
    UsageError
        When nothing is there to scan, or ``--only`` matches nothing.
    """
    from opscanner.frontend import library_versions

    root = request.root if request.root.is_dir() else request.root.parent
    detected, version = detect_framework(root)
    framework = detected if request.framework == "auto" else request.framework
    try:
        toolchain = compile_db.find_toolchain(request.cuda_path)
        database = find_database(request, detected, toolchain, log)
    except compile_db.CompileDatabaseError as error:
        raise OpscannerError(": ".join(filter(None, (error.where, error.what))), error.hint) from error
    if request.root.is_file():
        database = _of_one_file(database, request.root)
    chosen = database.select(request.only, str(root)).deduplicate()
    if request.only and not chosen.commands:
        raise _nothing_matches(request, database, root)
    if not chosen.commands and not database.skipped:
        raise UsageError(f"{database.origin} holds nothing to compile", "look at the compile database")
    commands, skipped = _translate(chosen.commands, toolchain, request.passes, root)
    missing, notes = _skipped_entries(database, request.only, root)
    versions = {
        "opscanner": __version__,
        "cuda_headers": toolchain.cuda_version or "none",
        **library_versions(),
    }
    return Plan(
        framework,
        version,
        commands,
        (*skipped, *missing),
        (*database.warnings, *notes),
        {name: str(value) for name, value in versions.items()},
    )


def find_database(
    request: ScanRequest, framework: str, toolchain: compile_db.Toolchain, log: Callable[[str], None]
) -> CompileDatabase:
    """The compile database that was named, or one made for sources that nobody has built."""
    if request.compile_db is not None:
        return compile_db.load(request.compile_db, request.root)
    cache_dir = request.cache_dir or default_cache_dir()
    kind = request.framework if request.framework in ("pytorch", "tensorflow") and framework != "none" else "auto"
    if compile_db.is_installed(request.root):
        kind = "installed"
    return compile_db.synthesize(request.root, cache_dir, toolchain, log, kind)


def _of_one_file(database: CompileDatabase, file: Path) -> CompileDatabase:
    """The entries of one source file."""
    own = tuple(command for command in database.commands if os.path.realpath(command.file) == str(file))
    if not own:
        raise UsageError(f"{database.origin} has no entry for {file}", "leave --compile-db out to have one made")
    return dataclasses.replace(database, commands=own, skipped=())


_PASSES: dict[Passes, tuple[Literal["device", "host"], ...]] = {
    "auto": ("device", "host"),
    "both": ("device", "host"),
    "device": ("device",),
    "host": ("host",),
}
#: Code that the device pass does not see. In macros of headers it hardly ever is about formats.
_ONLY_ON_HOST = re.compile(
    rb"^[ \t]*#[ \t]*(?:ifndef[ \t]+__CUDA_ARCH__|(?:el)?if[^\n]*![ \t]*defined[ \t(]*__CUDA_ARCH__"
    rb"|if(?:def)?[^\n]*__CUDA_ARCH__(?:(?!\n[ \t]*#[ \t]*endif).)*?\n[ \t]*#[ \t]*el)",
    re.MULTILINE | re.DOTALL,
)


def wanted_passes(passes: Passes, file: str) -> tuple[Literal["device", "host"], ...]:
    """The passes to parse a CUDA file in; for ``auto`` the host's only where the file itself has code for it alone."""
    if passes != "auto":
        return _PASSES[passes]
    try:
        text = Path(file).read_bytes()
    except OSError:
        return ("device",)
    return _PASSES["auto"] if _ONLY_ON_HOST.search(text) else ("device",)


def _translate(
    commands: Sequence[CompileCommand], toolchain: compile_db.Toolchain, passes: Passes, root: Path
) -> tuple[tuple[ClangCommand, ...], list[UnitResult]]:
    translated: dict[tuple[str, str, str], ClangCommand] = {}
    skipped = []
    for command in commands:
        try:
            for cuda_pass in wanted_passes(passes, command.file):
                clang = compile_db.translate(command, toolchain, cuda_pass)
                translated[(clang.file, clang.cuda_pass, clang.configuration)] = clang
        except compile_db.CompileDatabaseError as error:
            skipped.append(_skipped(relative(command.file, root), error.what, command.configuration))
    return tuple(translated.values()), skipped


def _skipped(file: str, reason: str, configuration: str = "") -> UnitResult:
    return UnitResult(file, CudaPass.NONE, configuration, "", UnitStatus.SKIPPED, reason=storable(reason))


def _skipped_entries(database: CompileDatabase, only: Sequence[str], root: Path) -> tuple[list[UnitResult], list[str]]:
    """Units for entries that could not be used, and notes on what else was missing."""
    units, notes = {}, []
    for entry in database.skipped:
        if entry.index is None:
            notes.append(f"{entry.file}: {entry.reason}")
            continue
        file = relative(entry.file, root) if entry.file else f"{database.origin}, entry {entry.index}"
        if not only or any(matches(file, pattern) for pattern in only):
            units[file] = _skipped(file, entry.reason)
    return list(units.values()), notes


def _nothing_matches(request: ScanRequest, database: CompileDatabase, root: Path) -> UsageError:
    files = sorted({relative(command.file, root) for command in database.commands})
    names = {name.rsplit("/", 1)[-1]: name for name in files}
    wanted = request.only[0].rsplit("/", 1)[-1].replace("*", "")
    near = [names[name] for name in difflib.get_close_matches(wanted, names, n=3, cutoff=0.4)] or files[:3]
    return UsageError(
        f"--only {' '.join(request.only)} matches none of the {len(files)} files of {database.origin}",
        f"files that come close: {', '.join(near)}" if near else "the compile database holds no usable entry",
    )


def run_scan(
    request: ScanRequest,
    progress: Callable[[Progress], None] | None = None,
    log: Callable[[str], None] = lambda message: None,
) -> ScanSummary:
    """Scans, unit by unit; see :func:`opscanner.api.scan`."""
    started = time.monotonic()
    root = request.root if request.root.is_dir() else request.root.parent
    # Opened first: a database that cannot be written is told before minutes of work.
    with Store(request.database) as store:
        plan = make_plan(request, log)
        options = {"only": sorted(request.only), "passes": request.passes, "compile_db": request.compile_db}
        begun = store.begin_scan(
            plan.framework,
            plan.version,
            storable(str(root)),
            options=options,
            tool_versions=plan.tool_versions,
            fresh=request.rescan,
        )
        finished = store.finished_units(begun.id) if begun.resumed else set()
        todo = [command for command in plan.commands if _as_finished(command, root) not in finished]
        resumed = len(plan.commands) - len(todo)
        if begun.resumed:
            log(f"going on with the interrupted scan: {resumed} of {len(plan.commands)} units are done")
        total, done = len(todo) + len(plan.skipped), 0
        with _rare_collection(), closing(_units(plan, todo, request, root)) as units:
            for unit in units:
                store.write_unit(begun.id, unit)
                done += 1
                if progress is not None:
                    progress(Progress(done, total, unit))
        complete = not request.only and request.root.is_dir()
        store.finish_scan(begun.id, complete=complete, cuda_passes=("none", *_PASSES[request.passes]))
    unread = conclude_operators(request.database, begun.id, log=log)
    conclude_patterns(request.database, begun.id, log=log)
    with reading(request.database) as connection:
        report = coverage(connection, begun.id)[0]
    warnings = _warnings(plan, report, unread)
    return ScanSummary(request.database, done, resumed, time.monotonic() - started, report, warnings)


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Keeps Python's cyclic collector from walking the millions of plain values that units are made of.

    Hardly anything in the loop is cyclic; left alone, the collector takes a fifth of the writing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _as_finished(command: ClangCommand, root: Path) -> FinishedUnit:
    return FinishedUnit(relative(command.file, root), command.cuda_pass, command.configuration, arguments_hash(command))


def _units(
    plan: Plan, todo: Sequence[ClangCommand], request: ScanRequest, root: Path
) -> Generator[UnitResult, None, None]:
    from opscanner import frontend

    yield from plan.skipped
    if not todo:
        return
    hashes = {
        (relative(command.file, root), command.cuda_pass, command.configuration): arguments_hash(command)
        for command in todo
    }
    # A generator, whose closing stops the workers.
    results: Any = frontend.scan_units(
        todo,
        str(root),
        jobs=request.jobs or usable_cpus(),
        precompiled_header=request.precompiled_header,
        cache_dir=request.cache_dir or default_cache_dir(),
        timeout_s=request.timeout_s,
        memory_mib=WORKER_MEMORY_MIB,
    )
    with closing(results):
        for unit in results:
            hashed = hashes.get((unit.file, unit.cuda_pass.value, unit.configuration), unit.arguments_hash)
            yield dataclasses.replace(unit, arguments_hash=hashed)


def _warnings(plan: Plan, report: Coverage, unread: Sequence[str]) -> tuple[str, ...]:
    known = (*plan.warnings, *unread)
    if not report.missing_bodies:
        return known
    lost = f"{report.missing_bodies} function instances have no body in the database: scan again with --rescan"
    return (*known, lost)
