"""Snippets through the real frontend into a small database, and the rules over them."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from compile_db import Toolchain
from opscanner.graph.findings import find_findings
from opscanner.graph.flow_graph import FlowGraph, load_flow_graph
from opscanner.graph.queries import reading
from opscanner.graph.store import Store
from opscanner.ir import UnitStatus
from opscanner.patterns.run import conclude
from opscanner.results import FindingRow
from tests.frontend.snippets import TORCH_TYPES, command_for, scan_file

EXPECT = re.compile(r"//\s*expect:\s*(\S+)\s*$")


@dataclass(frozen=True)
class Classified:
    """A snippet's findings and its graph."""

    text: str
    findings: tuple[FindingRow, ...]
    graph: FlowGraph

    def lines(self, pattern: str) -> set[int]:
        """Lines at which a pattern was found."""
        return {finding.line for finding in self.findings if finding.pattern == pattern}

    def primary(self) -> Counter[tuple[int, str]]:
        """(line, pattern) of the findings that give their place its category."""
        return Counter((finding.line, finding.pattern) for finding in self.findings if finding.is_primary)

    def confidence(self, pattern: str, line: int) -> set[str]:
        """Confidences of a pattern's findings at a line."""
        return {row.confidence for row in self.findings if row.pattern == pattern and row.line == line}


def expected_lines(text: str, pattern: str) -> set[int]:
    """Lines whose comment asks for a pattern."""
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        comment = EXPECT.search(line)
        if comment and comment[1] == pattern:
            found.add(number)
    return found


Classify = Callable[..., Classified]


@pytest.fixture(scope="session")
def bare_toolchain(toolchain: Toolchain) -> Toolchain:
    """This machine's toolchain as if it had no CUDA: the stand-in headers serve, everywhere alike."""
    return dataclasses.replace(toolchain, cuda_version=None, cuda_include_dirs=(), cuda_root=None, libdevice=None)


@pytest.fixture
def classified(tmp_path: Path, bare_toolchain: Toolchain) -> Classify:
    """Scans a snippet and runs all rules over it: ``classified(text, name="unit.cu")``."""

    def run(
        text: str, name: str = "unit.cu", files: Mapping[str, str] | None = None, *, cuda_pass: str = "device"
    ) -> Classified:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        for file, content in {name: text, **(files or {})}.items():
            (root / file).write_text(content)
        unit = scan_file(root, command_for(root / name, bare_toolchain, *TORCH_TYPES, cuda_pass=cuda_pass))
        assert unit.status is UnitStatus.OK, unit.diagnostics
        database = str(tmp_path / "small.sqlite")
        with Store(database) as store:
            scan = store.begin_scan("none", "", str(root), fresh=True)
            store.write_unit(scan.id, unit)
            store.finish_scan(scan.id, complete=True)
        conclude(database, scan.id)
        with reading(database) as connection:
            found = find_findings(connection)
            graph = load_flow_graph(connection, scan.id)
        return Classified(text, tuple(row for row in found if row.file == name), graph)

    return run
