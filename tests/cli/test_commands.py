from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from opscanner.cli.main import COMMANDS

CAST_KEYS = [
    "framework", "file", "line", "column", "function", "from", "to", "direction", "form", "constant", "written_type",
    "pass", "operators", "patterns",
]  # fmt: skip
ARITHMETIC_KEYS = [
    "framework", "file", "line", "column", "function", "operation", "category", "format", "accumulator", "pass",
    "operators", "patterns",
]  # fmt: skip
SCANNED = pytest.mark.usefixtures("scanned")


@pytest.fixture
def scanned(scan: Any) -> None:
    assert scan("--only", "A.cu", "--framework", "pytorch").code == 0


@SCANNED
def test_casts_prints_the_objects_that_scripts_depend_on(run: Any) -> None:
    found = run("casts", "--format", "json").data
    assert [list(row) for row in found] == [CAST_KEYS] * 3
    assert found[0] == {
        "framework": "pytorch",
        "file": "native/A.cu",
        "line": 11,
        "column": 9,
        "function": "at::native::act_kernel",
        "from": "float16",
        "to": "float32",
        "direction": "widen",
        "form": "static_cast",
        "constant": False,
        "written_type": "acc_t",
        "pass": "device",
        "operators": [],
        "patterns": ["widened-arithmetic"],
    }
    assert [(row["line"], row["pass"]) for row in found] == [(11, "device"), (12, "device"), (31, "host")]


@SCANNED
@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (("--from", "float16"), [11]),
        (("--to", "float16"), [12, 31]),
        (("--from", "float64", "--to", "float16"), [31]),
        (("--file", "A.cu"), [11, 12, 31]),
        (("--file", "native/*"), [11, 12, 31]),
        (("--file", "B.cu"), []),
        (("--function", "launch"), [31]),
        (("--function", "at::native::act_kernel"), [11, 12]),
        (("--function", "kernel"), []),
        (("--framework", "tensorflow"), []),
    ],
)
def test_casts_are_filtered(run: Any, options: tuple[str, ...], lines: list[int]) -> None:
    assert [row["line"] for row in run("casts", *options, "--format", "json").data] == lines


@SCANNED
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("casts", "--from", "half"), "did you mean float16?"),
        (("casts", "--to", "float61"), "float64"),
        (("casts", "--framework", "pytorhc"), "did you mean pytorch?"),
        (("casts", "--framework", "pytorch@2.6"), "takes no version"),
        (("arithmetic", "--in", "bf16"), "did you mean bfloat16?"),
        (("arithmetic", "--accumulator", "f64"), "did you mean float64?"),
        (("operators", "--framework", "onnx"), "known are pytorch, tensorflow, none"),
        (("operators", "elu", "--framework", "torch"), "did you mean pytorch?"),
        (("patterns", "show", "--framework", "onnx"), "known are pytorch"),
        (("classify", "--framework", "onnx"), "known are pytorch"),
        (("compare", "--storage", "float16,half"), "there is no floating-point format 'half'"),
        (("testlist", "--from-findings", "--framework", "onnx"), "known are pytorch"),
        (("testlist", "--from-findings", "--framework", "pytorch"), "holds no operators"),
        (("diff", "pytorch", "pytorch"), "holds no operators"),
        (("diff", "pytorch", "tensorflow"), "holds no scan of tensorflow"),
    ],
)
def test_a_filter_that_nothing_can_match_is_wrong_usage(run: Any, words: tuple[str, ...], said: str) -> None:
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


@SCANNED
def test_integers_are_formats_of_casts(run: Any) -> None:
    assert run("casts", "--from", "uint8", "--format", "json").data == []


@SCANNED
def test_arithmetic_prints_where_something_is_computed(run: Any) -> None:
    (found,) = run("arithmetic", "--in", "float32", "--category", "arith", "--format", "json").data
    assert list(found) == ARITHMETIC_KEYS
    assert (found["file"], found["line"], found["operation"]) == ("native/cuda/math.cuh", 4, "*")
    assert run("arithmetic", "--in", "float16", "--format", "json").data == []


@SCANNED
def test_tables_and_csv_have_the_same_columns(run: Any) -> None:
    read = list(csv.reader(io.StringIO(run("casts", "--format", "csv").out)))
    table = run("casts").out.splitlines()
    assert table[0].split() == read[0]
    assert len(table) - 2 == len(read) - 1 == 3
    assert read[1][1:5] == ["pytorch", "native/A.cu", "11", "9"]


@SCANNED
def test_an_operator_of_a_scan_without_operators_is_a_usage_error(run: Any) -> None:
    outcome = run("casts", "--operator", "softmax")
    assert outcome.code == 2
    assert "holds no operators" in outcome.err


@SCANNED
def test_chains_draws_a_tree_for_a_place_and_for_an_id(run: Any) -> None:
    drawn = run("chains", "A.cu:12").out
    assert "┌─ arithmetic * float32" in drawn
    assert "math.cuh:4 // in square" in " ".join(drawn.split())
    assert "└─ store out float16" in drawn
    number = drawn.split(":")[0].removeprefix("cast ")
    assert run("chains", number).out == drawn
    steps = run("chains", number, "--format", "json").data
    assert [(step["way"], step["kind"]) for step in steps if step["way"] == "sink"] == [("sink", "store")]


@SCANNED
def test_sql_prints_rows_in_every_format(run: Any) -> None:
    query = "SELECT to_format, COUNT(*) AS n FROM casts GROUP BY 1 ORDER BY 1"
    assert run("sql", query, "--format", "json").data == [
        {"to_format": "float16", "n": 2},
        {"to_format": "float32", "n": 1},
    ]
    assert run("sql", query, "--format", "csv").out == "to_format,n\nfloat16,2\nfloat32,1\n"
    assert run("sql", query).out.splitlines()[2].split() == ["float16", "2"]


@SCANNED
def test_sql_that_writes_is_an_error(run: Any) -> None:
    outcome = run("sql", "DELETE FROM node")
    assert outcome.code == 1
    assert "only reads" in outcome.err
    assert outcome.out == ""


@SCANNED
def test_sql_reads_its_query_from_stdin(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 7 AS n"))
    assert run("sql", "-", "--format", "json").data == [{"n": 7}]


@SCANNED
def test_graph_exports_graphml_and_json(run: Any) -> None:
    outcome = run("graph", "--cast", "A.cu:11", "--radius", "1", "--output", "g.graphml")
    assert outcome.code == 0
    assert Path("g.graphml").read_text().count("<node ") == 3
    assert run("graph", "--function", "square", "--format", "json", "--output", "g.json").code == 0
    graph = json.loads(Path("g.json").read_text())
    assert [node["kind"] for node in graph["nodes"]] == ["parameter", "arithmetic", "return"]
    assert run("graph", "--function", "square", "--cast", "1").code == 2


@SCANNED
def test_coverage_in_every_format(run: Any) -> None:
    assert "cast sites" in run("coverage").out
    (report,) = run("coverage", "--format", "json").data
    assert (report["units"], report["cast_sites"], report["partial"]) == (1, 3, False)
    header, row = csv.reader(io.StringIO(run("coverage", "--format", "csv").out))
    assert dict(zip(header, row, strict=True))["cast_sites"] == "3"


def test_schema_describes_all_or_the_named_and_refuses_others(run: Any) -> None:
    assert "casts (view): One row a cast site" in run("schema").out
    assert run("schema", "meta").out.startswith("meta (table): One row about the database itself.\n  id ")
    outcome = run("schema", "cast")
    assert outcome.code == 2
    assert "casts" in outcome.err


def test_doctor_names_what_is_there_and_what_absence_costs(run: Any, frontend: Any) -> None:
    lines = run("doctor", "--format", "json").data
    by_name = {line["name"]: line for line in lines}
    assert by_name["libclang"]["found"]
    assert "22.1.4" in by_name["libclang"]["detail"]
    assert all(line["found"] or line["costs"] for line in lines)


def test_doctor_says_which_tensorflows_headers_are_at_hand(
    run: Any, frontend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPSCANNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPSCANNER_TENSORFLOW_WHEEL", str(tmp_path))
    (line,) = (line for line in run("doctor", "--format", "json").data if line["name"] == "TensorFlow headers")
    assert "pip" in line["costs"] or line["found"]
    (tmp_path / "cache/tensorflow-headers-2.14.1").mkdir(parents=True)
    (tmp_path / "tensorflow_cpu-2.13.0-cp311-cp311-linux_x86_64.whl").touch()
    (line,) = (line for line in run("doctor", "--format", "json").data if line["name"] == "TensorFlow headers")
    assert "2.14.1 in the cache, 2.13.0 as tensorflow_cpu-2.13.0-cp311-cp311-linux_x86_64.whl" in line["detail"]


@pytest.mark.parametrize(
    "words", [("casts",), ("arithmetic",), ("chains", "1"), ("sql", "SELECT 1"), ("graph",), ("coverage",)]
)
def test_reading_without_a_database_is_an_error_that_says_what_to_do(run: Any, words: tuple[str, ...]) -> None:
    outcome = run(*words)
    assert outcome.code == 1
    assert "there is no database" in outcome.err
    assert "opscanner scan" in outcome.err
    assert outcome.out == ""
    assert list(Path().iterdir()) == []


def test_an_unknown_command_and_a_missing_argument_are_usage_errors(run: Any) -> None:
    assert run("cast").code == 2
    assert run("chains").code == 2
    assert run("casts", "--format", "xml").code == 2


def test_debug_shows_the_traceback(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from opscanner.errors import DatabaseError

    monkeypatch.setenv("OPSCANNER_DEBUG", "1")
    with pytest.raises(DatabaseError):
        run("casts")


def program(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "opscanner", *words]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("words", [("--help",), *((name, "--help") for name in COMMANDS)])
def test_help_needs_none_of_the_libraries(words: tuple[str, ...]) -> None:
    heavy = {"sqlalchemy", "networkx", "rich", "clang", "torch", "tensorflow"}
    code = (
        "import sys\nfrom opscanner.cli import main\n"
        f"code = main({list(words)!r})\nassert not {heavy!r} & sys.modules.keys(), {heavy!r} & sys.modules.keys()\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage: opscanner" in done.stdout


@SCANNED
def test_a_reader_that_goes_away_is_no_error(run: Any) -> None:
    running = program("sql", "SELECT a.id FROM node a, node b, node c, node d")
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    errors = running.stderr.read()
    running.stderr.close()
    assert running.wait() == 0
    assert errors == ""
