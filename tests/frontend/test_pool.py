"""Worker processes: a unit that crashes libclang, hangs or is missing is lost alone; the others come."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import Pipe
from pathlib import Path

import pytest
from snippets import TORCH_TYPES, command_for

from compile_db import ClangCommand, Toolchain
from opscanner.frontend import scan_units
from opscanner.frontend.pool import Pool, Process, _cpu_s
from opscanner.ir import Node, NodeKind, UnitResult, UnitStatus

GOOD = "float f(double d) { return d; }\n"
#: clang's own way to test crash recovery: the parse ends in a trap, which libclang survives.
CRASH = f"{GOOD}#pragma clang __debug crash\n"
#: More nested brackets than the stack of libclang's parsing thread holds: this kills the process.
KILL = "float f(double d) { return " + "(" * 50_000 + "d" + ")" * 50_000 + "; }\n"
#: Exponential in template instantiations: hours.
HANG = """
template <long N, long M> struct F { static constexpr long v = F<N - 1, M>::v + F<N - 1, M + (1L << N)>::v; };
template <long M> struct F<0, M> { static constexpr long v = M; };
long hang = F<40, 0>::v;
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


def commands(root: Path, shim: Toolchain, texts: dict[str, str | None]) -> list[ClangCommand]:
    """One command a text; no file is written for ``None``."""
    for name, text in texts.items():
        if text is not None:
            (root / name).write_text(text)
    return [command_for(root / name, shim, "-fbracket-depth=1000000") for name in texts]


def scan_all(root: Path, found: Sequence[ClangCommand], **options: object) -> dict[str, UnitResult]:
    given = {"jobs": 1, "precompiled_header": False, "cache_dir": str(root.parent / "cache"), **options}
    return {unit.file: unit for unit in scan_units(found, str(root), **given)}  # type: ignore[arg-type]


def casts(unit: UnitResult) -> set[Node]:
    """Casts of the instances that a unit brings."""
    return {node for i in unit.instances for node in i.nodes if node.kind is NodeKind.CAST}


def workers() -> list[str]:
    """Processes that this one started and that still run."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:  # ended meanwhile
            continue
        if fields["PPid"] == str(os.getpid()) and not fields["State"].startswith("Z"):
            found.append(fields["Pid"])
    return found


def test_a_unit_that_crashes_libclang_is_skipped_and_the_others_come(sources: Path, shim: Toolchain) -> None:
    found = commands(sources, shim, {"crash.cu": CRASH, "gone.cu": None, "good.cu": GOOD})
    units = scan_all(sources, found)
    assert {name: unit.status for name, unit in units.items()} == {
        "crash.cu": UnitStatus.SKIPPED,
        "gone.cu": UnitStatus.SKIPPED,
        "good.cu": UnitStatus.OK,
    }
    assert "crash" in units["crash.cu"].reason
    assert "does not exist" in units["gone.cu"].reason
    assert len(units["good.cu"].instances) == 1


def test_a_unit_that_kills_its_worker_is_skipped_and_the_others_come(sources: Path, shim: Toolchain) -> None:
    found = commands(sources, shim, {"kill.cu": KILL, "good.cu": GOOD})
    units = scan_all(sources, found)
    assert (units["kill.cu"].status, units["good.cu"].status) == (UnitStatus.SKIPPED, UnitStatus.OK)
    assert "SIGSEGV" in units["kill.cu"].reason
    assert workers() == []


def test_a_unit_that_takes_too_long_is_stopped_and_the_others_come(sources: Path, shim: Toolchain) -> None:
    found = commands(sources, shim, {"hang.cu": HANG, "good.cu": GOOD})
    started = time.monotonic()
    units = scan_all(sources, found, timeout_s=4.0)
    assert (units["hang.cu"].status, units["good.cu"].status) == (UnitStatus.SKIPPED, UnitStatus.OK)
    assert units["hang.cu"].reason == "took longer than 4 s of CPU time"
    assert time.monotonic() - started < 60
    assert workers() == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a unit's time is the clock's")
def test_a_unit_that_waits_for_a_cpu_is_not_lost_until_it_waited_for_long(sources: Path) -> None:
    """As on a machine where others run: no CPU time although the clock goes on."""
    pool = Pool(str(sources), 1, "", 10.0, 1024, [])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        waiting = Process(process, Pipe()[0])
        waiting.began_cpu_s = 0.0
        for elapsed_s, reason in ((9, ""), (30, ""), (61, "took longer than 60 s, most of them waiting")):
            waiting.began_s = time.monotonic() - elapsed_s
            assert pool._overdue(waiting) == reason
        # Twenty seconds of the CPU by another count: as if it had had 20 less when the unit began.
        waiting.began_s, waiting.began_cpu_s = time.monotonic() - 30, -20.0
        assert pool._overdue(waiting) == "took longer than 10 s of CPU time"
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells")
def test_the_cpu_time_of_a_process_is_what_the_system_counts() -> None:
    spin = "import time\nwhile time.process_time() < 0.5: pass\nprint('spun', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        # The system counts in hundredths of a second.
        assert 0.47 <= (_cpu_s(process.pid) or 0.0) < 0.8
        process.kill()
    assert _cpu_s(process.pid) is None


DEEP = {
    "sum.cu": "float f(double x) { return " + " + ".join(["x"] * 3000) + "; }\n",
    "parentheses.cu": "float f(double x) { return " + "(" * 250 + "x" + ")" * 250 + "; }\n",
    "blocks.cu": "float f(float x, double d) { " + "if (x) {" * 200 + "x = d;" + "}" * 200 + " return x; }\n",
    "calls.cu": "float g(float);\nfloat f(double d) { return " + "g(" * 200 + "d" + ")" * 200 + "; }\n",
}


def test_code_of_any_depth_that_clang_takes_is_walked(sources: Path, shim: Toolchain) -> None:
    units = scan_all(sources, commands(sources, shim, dict(DEEP)))
    assert {name: unit.status for name, unit in units.items()} == dict.fromkeys(DEEP, UnitStatus.OK)
    for unit in units.values():
        assert [(node.from_format, node.format) for node in casts(unit)] == [("float64", "float32")]
    (summed,) = units["sum.cu"].instances
    assert len([node for node in summed.nodes if node.operation == "+"]) == 2999


def test_closing_the_scan_early_stops_the_workers(sources: Path, shim: Toolchain) -> None:
    found = commands(sources, shim, {f"{number}.cu": GOOD for number in range(4)} | {"hang.cu": HANG})
    units: Iterator[UnitResult] = scan_units(
        found, str(sources), jobs=2, precompiled_header=False, cache_dir=str(sources.parent / "cache")
    )
    assert next(units).status is UnitStatus.OK
    assert workers() != []
    units.close()  # type: ignore[attr-defined]
    assert workers() == []


def test_every_command_gives_one_result_whatever_the_number_of_workers(sources: Path, shim: Toolchain) -> None:
    (sources / "shared.h").write_text("template <class T> float shared(T t) { return t * 0.5; }\n")
    texts = {
        f"{number}.cu": f'#include "shared.h"\nfloat f{number}(double d) {{ return shared(d) + {number}; }}\n'
        for number in range(4)
    }
    found = commands(sources, shim, dict(texts))
    one, two = scan_all(sources, found, jobs=1), scan_all(sources, found, jobs=2)
    assert set(one) == set(two) == set(texts)
    assert set().union(*map(casts, one.values())) == set().union(*map(casts, two.values()))
    assert {name: unit.reach for name, unit in one.items()} == {name: unit.reach for name, unit in two.items()}


def test_a_precompiled_header_changes_no_cast(sources: Path, shim: Toolchain) -> None:
    include = sources.parent / "include"
    (include / "lib").mkdir(parents=True)
    (include / "lib" / "shared.h").write_text(
        "#pragma once\nnamespace lib { inline float thin(double d) { return d; } }\n"
    )
    (sources / "kernels.h").write_text(
        "#pragma once\ntemplate <class T> struct K { float f(T t) { return t * lib::thin(t); } };\n"
        "#define NARROW(x) static_cast<float>(x)\n"
    )
    texts = {
        f"{number}.cu": "#include <lib/shared.h>\n#include <kernels.h>\n"
        f"float f{number}(double d, c10::Half h) {{ return K<double>().f(d) + K<c10::Half>().f(h) + NARROW(d); }}\n"
        for number in range(3)
    }
    for name, text in texts.items():
        (sources / name).write_text(text)
    arguments = ("-I", str(include), "-I", str(sources), *TORCH_TYPES)
    found = [command_for(sources / name, shim, *arguments) for name in texts]
    plain, with_header = scan_all(sources, found), scan_all(sources, found, precompiled_header=True)
    made = list((sources.parent / "cache" / "pch").glob("*.pch"))
    assert len(made) == 1
    assert {name: unit.status for name, unit in with_header.items()} == dict.fromkeys(texts, UnitStatus.OK)
    assert set().union(*map(casts, plain.values())) == set().union(*map(casts, with_header.values()))
    assert {n: u.reach for n, u in plain.items()} == {n: u.reach for n, u in with_header.items()}
    assert {n: u.dependencies for n, u in plain.items()} == {n: u.dependencies for n, u in with_header.items()}
    assert len(set().union(*map(casts, plain.values()))) > 5


def test_a_header_that_does_not_compile_is_no_reason_to_lose_units(sources: Path, shim: Toolchain) -> None:
    (sources / "broken.h").write_text("#pragma once\n#pragma clang __debug crash\n")
    texts = dict.fromkeys(("a.cu", "b.cu"), f"#include <broken.h>\n{GOOD}") | {"c.cu": GOOD, "d.cu": GOOD}
    for name, text in texts.items():
        (sources / name).write_text(text)
    found = [command_for(sources / name, shim, "-I", str(sources)) for name in texts]
    units = scan_all(sources, found, precompiled_header=True)
    assert {name: unit.status for name, unit in units.items()} == {
        "a.cu": UnitStatus.SKIPPED,
        "b.cu": UnitStatus.SKIPPED,
        "c.cu": UnitStatus.OK,
        "d.cu": UnitStatus.OK,
    }


def test_no_commands_give_no_results(sources: Path) -> None:
    assert scan_all(sources, []) == {}
    assert workers() == []
