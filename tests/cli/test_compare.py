"""``opscanner compare``, ``diff`` and ``testlist`` on a database with an operator of each framework."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from opscanner.graph.serving import ServingGraph
from opscanner.operators import compare_scans, testlist, version_diff
from tests.cli.conftest import Run
from tests.operators.scans import write_scan
from tests.operators.serving_graphs import GraphBuilder, Written

WIDE: list[Written] = [
    ("cast", "", "float32", "float16"),
    ("math_call", "expm1", "float32"),
    ("cast", "", "float16", "float32"),
]
CHAIN: list[Written] = [("math_call", "exp", "float16"), ("arithmetic", "-", "float16")]


def elu(framework: str, version: str, nodes: list[Written]) -> ServingGraph:
    graph = GraphBuilder(framework, version)
    function = graph.function("elu_kernel", f"{framework}/elu.cu", 40)
    instance = graph.instance(function, nodes)
    if nodes is CHAIN:
        for index in (0, 1):
            graph.finding(instance, index, "untuned-arithmetic", "high", (0, 1))
    graph.operator("elu" if framework == "pytorch" else "Elu", function)
    return graph.graph


@pytest.fixture
def scanned(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs commands on scans of two versions of PyTorch, the first of which does not widen, and one of TensorFlow."""
    graphs = {
        "pytorch@1.13.1": elu("pytorch", "1.13.1", CHAIN),
        "pytorch@2.6.0": elu("pytorch", "2.6.0", WIDE),
        "tensorflow": elu("tensorflow", "2.14.1", CHAIN),
    }
    write_scan(tmp_path / "pytorch", tmp_path / "here" / "opscanner.sqlite")
    for module in (compare_scans, version_diff, testlist):
        monkeypatch.setattr(module, "choose_scan", lambda connection, wanted: graphs[wanted].scan)
    for module in (compare_scans, version_diff, testlist):
        monkeypatch.setattr(
            module,
            "load_serving",
            lambda connection, scan, device: next(one for one in graphs.values() if one.scan == scan),
        )
    newest = [graphs[name].scan for name in ("pytorch@2.6.0", "tensorflow")]
    monkeypatch.setattr(testlist, "newest_scans", lambda connection: newest)
    return run


def test_the_ranking_names_both_places_and_what_was_left_out(scanned: Run) -> None:
    outcome = scanned("compare", "pytorch@2.6.0", "tensorflow", "--format", "csv")
    assert outcome.code == 3
    (row,) = [row for row in csv.DictReader(io.StringIO(outcome.out)) if row["pairs"] == "elu"]
    assert (row["widened in"], row["not in"], row["cause"]) == ("pytorch", "tensorflow", "function in a chain")
    assert (row["widened at"], row["not widened at"]) == ("pytorch/elu.cu:41", "tensorflow/elu.cu:40")
    assert "pytorch: no such operator" in outcome.err


def test_one_operator_is_shown_side_by_side(scanned: Run) -> None:
    outcome = scanned("compare", "pytorch@2.6.0", "tensorflow", "--operator", "elu", "--storage", "float16")
    lines = outcome.out.splitlines()
    assert lines[0] == "elu  forward, float16 on cuda"
    (step,) = [line for line in lines if "expm1" in line]
    # Both lines decide: the one that shows the wide computation, and the one that rounds.
    assert step.split() == [">", "41", "expm1", "in", "float32", ">", "41", "-", "in", "float16"]
    assert any(line.startswith("=> widened in pytorch, not in tensorflow: score 0.5") for line in lines)
    assert outcome.code == 0


def test_json_of_one_operator_holds_every_step(scanned: Run) -> None:
    words = ("compare", "pytorch@2.6.0", "tensorflow", "--operator", "elu", "--storage", "float16", "--format", "json")
    (found,) = scanned(*words).data
    assert (found["rank"], found["widened_in"], found["not_in"]) == (1, "pytorch", "tensorflow")
    assert [step["line"] for step in found["sides"][0]["steps"]] == [40, 41, 42]
    assert [row["line"] for row in found["sides"][1]["risk"]["findings"]] == [40, 41]


def test_all_lists_what_is_not_ranked_with_the_reason(scanned: Run) -> None:
    outcome = scanned("compare", "pytorch@2.6.0", "tensorflow", "--all", "--format", "csv")
    reasons = {
        row["pairs"]: row["why"] for row in csv.DictReader(io.StringIO(outcome.out)) if row["format"] == "float16"
    }
    assert reasons["softplus"] == "pytorch: no such operator"
    assert "elu" not in reasons


def test_two_scans_of_one_framework_are_no_comparison(scanned: Run) -> None:
    outcome = scanned("compare", "pytorch@1.13.1", "pytorch@2.6.0")
    assert outcome.code == 2
    assert "opscanner diff" in outcome.err


def test_diff_lists_the_upcast_that_a_version_gained(scanned: Run) -> None:
    # exp became expm1, another operation; nothing that both versions compute changed its format.
    outcome = scanned("diff", "pytorch@1.13.1", "pytorch@2.6.0", "--format", "json")
    assert (outcome.code, outcome.data) == (0, [])
    assert "1 operators and formats compared: 0 operators gained" in outcome.err


def test_testlist_gives_calls_reasons_and_inputs(scanned: Run) -> None:
    outcome = scanned("testlist", "--from-findings", "--framework", "tensorflow", "--format", "json")
    (found,) = outcome.data
    assert (found["operator"], found["format"], found["call"]) == ("Elu", "float16", "raw.Elu(features=x)")
    assert [(row["file"], row["line"]) for row in found["reasons"]] == [
        ("tensorflow/elu.cu", 40),
        ("tensorflow/elu.cu", 41),
    ]
    assert {row["recipe"] for row in found["recipes"]} == {"near_zero", "towards_saturation", "sweep"}
    assert outcome.code == 0


def test_testlist_lists_the_version_that_is_named_and_says_which(scanned: Run) -> None:
    (old,) = scanned("testlist", "--from-findings", "--framework", "pytorch@1.13.1", "--format", "json").data
    assert (old["framework"], old["version"], old["operator"]) == ("pytorch", "1.13.1", "elu")
    outcome = scanned("testlist", "--from-findings", "--format", "csv")
    assert {(row["framework"], row["version"]) for row in csv.DictReader(io.StringIO(outcome.out))} == {
        ("tensorflow", "2.14.1")
    }
    assert "1 operators and formats of tensorflow@2.14.1" in outcome.err
    text = scanned("testlist", "--from-findings", "--format", "pytest").out
    assert "tensorflow 2.14.1: untuned-arithmetic at tensorflow/elu.cu:40" in text


def test_testlist_writes_a_file_of_tests(scanned: Run, tmp_path: Path) -> None:
    file = tmp_path / "test_precision.py"
    outcome = scanned("testlist", "--from-findings", "--top", "1", "--format", "pytest", "--output", file)
    assert outcome.out == ""
    compile(file.read_text(), str(file), "exec")
    assert "opscanner testlist --format pytest" in file.read_text()


def test_a_testlist_that_cannot_be_written_says_so(scanned: Run, tmp_path: Path) -> None:
    outcome = scanned("testlist", "--from-findings", "--output", tmp_path / "missing" / "list.csv")
    assert outcome.code == 2
    assert "cannot write" in outcome.err
    assert "name a file in a folder that is there" in outcome.err


def test_testlist_needs_its_source_named(scanned: Run) -> None:
    assert scanned("testlist").code == 2
