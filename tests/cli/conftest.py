"""The command line in this process, on a frontend that gives the units it is told to."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compile_db.command import ClangCommand
from opscanner.cli import main
from opscanner.ir import CudaPass, UnitResult
from tests.graph.units import whole_unit


@dataclass
class FakeFrontend:
    """Stands where ``opscanner.frontend`` stands; remembers what it was asked for."""

    root: Path
    seen: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=lambda: {"libclang": "22.1.4"})
    #: Changes the unit of a file, or raises.
    change: Callable[[UnitResult], UnitResult] = lambda unit: unit
    closed: bool = False

    def scan_units(self, commands: Sequence[ClangCommand], root: str, **options: Any) -> Iterator[UnitResult]:
        assert root == str(self.root)
        assert {"jobs", "precompiled_header", "cache_dir", "timeout_s", "memory_mib"} == options.keys()
        try:
            for command in commands:
                file = str(Path(command.file).relative_to(root))
                self.seen.append(file)
                unit = whole_unit(file=file)
                yield self.change(
                    UnitResult(
                        file, CudaPass(command.cuda_pass), command.configuration, "its own", unit.status,
                        instances=unit.instances, reach=unit.reach, functions=3,
                    )
                )  # fmt: skip
        finally:
            self.closed = True

    def library_versions(self) -> dict[str, str]:
        return self.versions


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Three CUDA files and a compile database that also names one that is not there."""
    root = tmp_path / "checkout"
    (root / "native").mkdir(parents=True)
    entries = []
    for name in ("A.cu", "B.cu", "C.cu", "Gone.cu"):
        if name != "Gone.cu":
            (root / "native" / name).write_text("__global__ void f() {}\n")
        entries.append({"directory": str(root), "file": f"native/{name}", "command": f"nvcc -c native/{name} -o o"})
    (root / "compile_commands.json").write_text(json.dumps(entries[:3]))
    (root / "with_gone.json").write_text(json.dumps(entries))
    return root


@pytest.fixture
def frontend(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> FakeFrontend:
    import opscanner

    fake = FakeFrontend(checkout)
    module: Any = types.ModuleType("opscanner.frontend")
    module.scan_units, module.library_versions = fake.scan_units, fake.library_versions
    monkeypatch.setitem(sys.modules, "opscanner.frontend", module)
    monkeypatch.setattr(opscanner, "frontend", module, raising=False)
    return fake


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``opscanner WORDS...`` in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("OPSCANNER_DB", raising=False)
    monkeypatch.delenv("OPSCANNER_DEBUG", raising=False)
    monkeypatch.setenv("OPSCANNER_CACHE", str(tmp_path / "cache"))

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def scan(run: Run, checkout: Path, frontend: FakeFrontend) -> Run:
    """Runs ``opscanner scan CHECKOUT --compile-db ... WORDS``."""
    return lambda *words: run("scan", checkout, "--compile-db", checkout / "compile_commands.json", *words)
