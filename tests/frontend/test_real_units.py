"""Real translation units of PyTorch 2.6.0, beside what LLVM IR shows of them and what clang warns about.

Each unit is parsed once. The figures are those that the project asks of itself (``benchmarks/ground_truth.py``);
``make accuracy`` compares all the units that the truth covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from warnings_of_clang import WARNINGS, warned

from compile_db import CompileDatabase, Toolchain, synthesize, translate
from opscanner.frontend.parse import parsed
from opscanner.frontend.walk_unit import Memory, UnitWalk
from opscanner.ir import FunctionInstance, NodeKind, UnitReach
from opscanner.scanning import default_cache_dir

NATIVE = "aten/src/ATen/native/cuda"
IN_THE_TRUTH = (f"{NATIVE}/SoftMax.cu", f"{NATIVE}/ActivationEluKernel.cu")
UNITS = (*IN_THE_TRUTH, f"{NATIVE}/GridSampler.cu")
TYPES_OWN_HEADERS = ("c10/util/", "torch/headeronly/util/")


@dataclass(frozen=True)
class Walked:
    """One unit: its instances, and clang's warnings."""

    instances: tuple[FunctionInstance, ...]
    reach: tuple[UnitReach, ...]
    errors: tuple[str, ...]
    warnings: frozenset[tuple[str, ...]]

    def rows(self) -> list[dict[str, Any]]:
        """Casts as ``opscanner casts`` lists them."""
        device = {reach.key for reach in self.reach if reach.device}
        return [
            {
                "file": node.file,
                "line": node.line,
                "from": node.from_format,
                "to": node.format,
                "constant": node.constant,
                "pass": "device" if instance.key in device and node.reached else "host",
            }
            for instance in self.instances
            for node in instance.nodes
            if node.kind is NodeKind.CAST
        ]

    def bodies(self) -> dict[str, list[tuple[int, int]]]:
        """Lines between a function's name and the last that the scan found in it, by file."""
        found: dict[str, list[tuple[int, int]]] = {}
        for instance in self.instances:
            lines = [node.line for node in instance.nodes if node.file == instance.file]
            found.setdefault(instance.file, []).append((instance.line, max(lines, default=instance.line)))
        return found


@pytest.fixture(scope="module")
def database(pytorch_root: Path, toolchain: Toolchain) -> CompileDatabase:
    """Commands for the checkout; the generated headers stay in the cache that scans use, for the next run."""
    return synthesize(pytorch_root, default_cache_dir(), toolchain)


@pytest.fixture(scope="module")
def walked(database: CompileDatabase, pytorch_root: Path, toolchain: Toolchain) -> dict[str, Walked]:
    found = {}
    for name in UNITS:
        (entry,) = database.select([name], str(pytorch_root)).commands
        command = translate(entry, toolchain)
        with parsed(command.file, [*command.arguments, *WARNINGS]) as unit:
            errors = unit.errors()
            instances, reach = UnitWalk(unit, str(pytorch_root), errors, Memory(), device=True, variant="").run()
            told = frozenset(warned(unit))
        found[name] = Walked(instances, reach, tuple(error.message for error in errors), told)
    return found


@pytest.mark.parametrize("name", UNITS)
def test_the_units_parse_without_an_error(walked: dict[str, Walked], name: str) -> None:
    assert walked[name].errors == ()


@pytest.mark.parametrize("name", IN_THE_TRUTH)
def test_the_casts_are_those_that_ir_shows(walked: dict[str, Walked], ground_truth: ModuleType, name: str) -> None:
    truth = {name: ground_truth.load_truth()[name]}
    recall, precision, _ = ground_truth.compare_casts(truth, walked[name].rows())
    assert recall["direct"].total > 10
    assert recall["direct"].share >= ground_truth.LEAST_RECALL["direct"], recall["direct"].differences
    assert precision.share >= ground_truth.LEAST_PRECISION, precision.differences


@pytest.mark.parametrize(("name", "least"), [(f"{NATIVE}/SoftMax.cu", 2), (f"{NATIVE}/GridSampler.cu", 10)])
def test_every_warning_about_precision_in_a_walked_body_stands_where_the_scan_has_that_cast(
    walked: dict[str, Walked], pytorch_root: Path, name: str, least: int
) -> None:
    root, unit = f"{pytorch_root}/", walked[name]
    found = {(row["file"], row["line"], row["from"], row["to"]) for row in unit.rows()}
    bodies = unit.bodies()
    expected = set()
    for path, line, *formats in unit.warnings:
        file = path.removeprefix(root)
        if not file.startswith(TYPES_OWN_HEADERS) and any(a <= line <= b for a, b in bodies.get(file, ())):
            expected.add((file, line, *formats))
    assert len(expected) >= least
    assert expected - found == set()
