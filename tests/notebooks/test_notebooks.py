"""The notebooks run on a small database, and what is committed of them came from a run without errors."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from opscanner.frameworks.runners import FRAMEWORKS, is_installed
from opscanner.graph.store import Store
from opscanner.ir import Node, NodeKind
from opscanner.operators import attribution
from opscanner.patterns import run as patterns
from tests.frameworks.checkouts import KERNELS, write_tensorflow
from tests.graph.units import kernel, unit
from tests.operators.scans import write_scan

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NAMES = [
    *("01_scan_and_coverage", "02_casts_and_patterns", "03_pytorch_against_tensorflow", "04_one_operator"),
    *("05_the_study_again", "06_does_the_scan_predict", "07_precision_of_running_models", "08_training_deviation"),
]
#: What a small run must have in its outputs; those that read a database name the release of its TensorFlow too.
SEEN = {
    "01": "not_there.h", "02": "widened-arithmetic", "03": "comparisons", "04": "act_kernel",
    "05": "60 tensors, 2 seeds", "06": "measurements of", "07": "length 16", "08": "2 seeds; torch",
}  # fmt: skip
RUNS_OPERATORS = ("05", "07", "08")
#: What code cells may import: the roof, what draws, and names of files.
ALLOWED = {"opscanner", "pandas", "matplotlib", "networkx", "os", "tempfile", "pathlib"}
#: Paths that only exist where a notebook was run. /tmp is among them: a temporary folder has a new name every time.
MACHINE = re.compile(r"(?<![\w.])/(?:home|root|work|tmp|Users|mnt|opt)/")
LARGEST = 400_000

by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="session")
def small_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both frameworks in miniature: units that a frontend would bring, and all conclusions."""
    folder = tmp_path_factory.mktemp("small")
    database = folder / "small.sqlite"
    scans = [write_scan(folder / "pytorch", database)]
    root = write_tensorflow(folder / "tensorflow")
    header = f"{KERNELS}/act_op_functor.h"
    functor = kernel(file=header, line=5)._replace(
        name="tensorflow::functor::Act::operator()", is_kernel=False, calls=()
    )
    multiply = Node(NodeKind.ARITHMETIC, header, 6, 37, "*", "float16", category="functor")
    with Store(str(database)) as store:
        begun = store.begin_scan("tensorflow", "2.14.1", str(root))
        file = f"{KERNELS}/act_op_gpu.cu.cc"
        store.write_unit(begun.id, unit(functor._replace(nodes=(*functor.nodes, multiply)), file=file))
        store.finish_scan(begun.id, complete=True)
    for scan_id in (*scans, begun.id):
        attribution.conclude(str(database), scan_id)
        patterns.conclude(str(database), scan_id)
    return database


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_the_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == NAMES


@pytest.mark.slow
@by_name
def test_a_notebook_runs_on_a_small_scan(
    path: Path, small_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSCANNER_DB", str(small_database))
    monkeypatch.setenv("OPSCANNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPSCANNER_STUDY_TENSORS", "60")
    monkeypatch.setenv("OPSCANNER_STUDY_SEEDS", "2")
    monkeypatch.setenv("OPSCANNER_EXPERIMENT_STEPS", "1")
    monkeypatch.setenv("OPSCANNER_EXPERIMENT_LENGTH", "16")
    monkeypatch.setenv("OPSCANNER_TRAINING_SEEDS", "2")
    monkeypatch.setenv("OPSCANNER_TRAINING_STEPS", "3")
    number = path.stem[:2]
    if number in RUNS_OPERATORS and not all(map(is_installed, FRAMEWORKS)):
        pytest.skip("NEEDS torch AND tensorflow: THE NOTEBOOK RUNS THEIR OPERATORS")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    texts = json.dumps(notebook)
    assert number in RUNS_OPERATORS or "2.14.1" in texts, "the table of scans names neither framework"
    assert SEEN[number] in texts


@by_name
def test_a_notebook_opens_with_the_question_that_it_answers(path: Path) -> None:
    first = nbformat.read(path, as_version=4).cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith(f"# {path.stem[:2]} ")
    assert re.search(r"\*\*[A-Z][^*]*\?\*\*", first.source), "no question in bold"


@by_name
def test_code_cells_call_the_roof_and_what_draws_alone(path: Path) -> None:
    for cell in code_cells(path):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                assert {name.name.split(".")[0] for name in node.names} <= ALLOWED - {"opscanner"}
            elif isinstance(node, ast.ImportFrom):
                assert node.module in ALLOWED
                if node.module == "opscanner":
                    assert [name.name for name in node.names] == ["api"]


@by_name
def test_committed_outputs_are_of_a_whole_run_without_errors_and_without_paths_of_a_machine(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) >= len(cells) // 2
    assert {output.output_type for output in outputs} <= {"execute_result", "display_data", "stream"}
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    texts = json.dumps([{**output, "data": _without_images(output)} for output in outputs])
    assert not MACHINE.findall(texts)
    assert path.stat().st_size < LARGEST


def _without_images(output: Any) -> dict[str, Any]:
    return {kind: text for kind, text in output.get("data", {}).items() if not kind.startswith("image/")}
