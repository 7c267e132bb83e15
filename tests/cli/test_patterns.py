"""``opscanner classify`` and ``patterns`` on a kernel that widens, squares and narrows (tests/graph/units.py)."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

SCANNED = pytest.mark.usefixtures("scanned")


@pytest.fixture
def scanned(scan: Any) -> None:
    assert scan().code == 0


@SCANNED
def test_a_scan_ends_with_findings_that_casts_and_arithmetic_name(run: Any) -> None:
    casts = {
        (cast["line"], cast["from"], cast["to"]): cast["patterns"] for cast in run("casts", "--format", "json").data
    }
    assert casts[11, "float16", "float32"] == ["widened-arithmetic"]
    assert casts[12, "float32", "float16"] == ["narrowed-result"]
    (square,) = run("arithmetic", "--format", "json").data
    assert square["patterns"] == []


@SCANNED
def test_show_prints_findings_with_their_chain(run: Any) -> None:
    shown = run("patterns", "show", "widened-arithmetic", "--file", "A.cu", "--format", "json").data
    (found,) = shown
    assert (found["file"], found["line"], found["function"]) == ("native/A.cu", 11, "at::native::act_kernel")
    assert (found["from"], found["to"], found["pass"], found["primary"]) == ("float16", "float32", "device", True)
    assert "*" in found["message"]
    nodes = run(
        "sql",
        f"SELECT kind FROM node WHERE id IN ({','.join(map(str, found['chain']))}) ORDER BY id",
        "--format",
        "json",
    ).data
    assert [row["kind"] for row in nodes] == ["load", "cast", "parameter", "arithmetic"]
    assert found["node"] in found["chain"]
    assert run("chains", found["cast"]).code == 0


@SCANNED
def test_show_filters_by_function_confidence_and_pattern(run: Any) -> None:
    assert run("patterns", "show", "--function", "nobody", "--format", "json").data == []
    everything = run("patterns", "show", "--format", "json").data
    assert {row["pattern"] for row in everything} == {"widened-arithmetic", "narrowed-result", "round-trip"}
    low = run("patterns", "show", "--confidence", "low", "--format", "json").data
    assert low == [row for row in everything if row["confidence"] == "low"]
    assert low, "one multiplication is one rounding"


@SCANNED
def test_classify_counts_and_replaces(run: Any) -> None:
    before = run("patterns", "show", "--format", "json").data
    counts = {row["pattern"]: row for row in run("classify", "--format", "json").data}
    assert counts["widened-arithmetic"]["findings"] == 1, "three files share one instance"
    assert counts["widened-arithmetic"]["formats"] == {"float16->float32": 1}
    # The host narrows a parameter from float64 to float16 for the kernel, which widens it again.
    assert counts["round-trip"]["formats"] == {"float64->float16": 1}
    after = run("patterns", "show", "--format", "json").data
    assert [{**row, "id": 0} for row in after] == [{**row, "id": 0} for row in before]


@SCANNED
def test_classify_only_one_pattern_leaves_the_others(run: Any) -> None:
    shown = run("classify", "--only", "narrowed-result", "--format", "csv")
    assert [row["pattern"] for row in csv.DictReader(io.StringIO(shown.out))] == ["narrowed-result"]
    assert {row["pattern"] for row in run("patterns", "show", "--format", "json").data} == {
        "widened-arithmetic",
        "narrowed-result",
        "round-trip",
    }


@SCANNED
def test_the_views_of_findings_hold_what_show_prints(run: Any) -> None:
    rows = run("sql", "SELECT file, line, pattern FROM findings ORDER BY file, line", "--format", "json").data
    shown = run("patterns", "show", "--format", "json").data
    assert rows == [{name: row[name] for name in ("file", "line", "pattern")} for row in shown]
    summary = run("sql", "SELECT pattern, findings, device, files FROM patterns_summary", "--format", "json").data
    assert {"pattern": "narrowed-result", "findings": 1, "device": 1, "files": 1} in summary


def test_patterns_are_listed_and_explained_without_a_database(run: Any) -> None:
    listed = {row["id"]: row for row in run("patterns", "--format", "json").data}
    assert listed["widened-math"]["findings"] is None
    page = run("patterns", "explain", "widened-math").out
    assert page.startswith("widened-math: elementary function in a wider format")
    for part in ("Why it matters", "What it cannot see", "// expect: widened-math", "Not reported:"):
        assert part in page


def test_an_unknown_pattern_is_wrong_usage_and_near_ones_are_named(run: Any) -> None:
    for words in (("patterns", "explain", "widened-maths"), ("classify", "--only", "widened-maths")):
        refused = run(*words)
        assert refused.code == 2
        assert "widened-math" in refused.err


@SCANNED
def test_a_framework_that_was_not_scanned_is_wrong_usage(run: Any) -> None:
    assert run("classify", "--framework", "tensorflow").code == 2


@SCANNED
def test_explain_says_how_often_a_pattern_was_found_in_a_database(run: Any) -> None:
    outcome = run("patterns", "explain", "narrowed-result", "--db", "opscanner.sqlite")
    assert outcome.out == run("patterns", "explain", "narrowed-result").out
    found = run("patterns", "show", "narrowed-result", "--format", "json").data
    assert found
    assert outcome.err.startswith(f"{len(found)} findings in opscanner.sqlite")
