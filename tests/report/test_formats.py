from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from opscanner.report import chain_text, coverage, csv_format, json_format, table
from opscanner.report.source_lines import SourceLines
from opscanner.results import CastRow, Chain, ChainStep, Coverage


def text(render: Any, *rows: Any) -> str:
    stream = io.StringIO()
    render(*rows, stream)
    return stream.getvalue()


def test_a_table_aligns_words_to_the_left_and_numbers_to_the_right() -> None:
    rows = iter([("SoftMax.cu", 7, True, None), ("A.cu", 123, False, 0.5)])
    assert text(table.render, ("file", "line", "constant", "x"), rows) == (
        "file        line  constant  x\n"
        "----------  ----  --------  ---\n"
        "SoftMax.cu     7       yes\n"
        "A.cu         123            0.5\n"
    )


def test_a_table_without_rows_still_names_its_columns() -> None:
    assert text(table.render, ("file", "line"), []) == "file  line\n----  ----\n"


def test_a_table_shows_control_characters_escaped() -> None:
    assert "a\\nb\\x1b[2J" in text(table.render, ("name",), [("a\nb\x1b[2J",)])


def test_csv_quotes_what_needs_it() -> None:
    rows = [('say "hi", x', True, None, ("a", "b"))]
    assert text(csv_format.render, ("a", "b", "c", "d"), rows) == 'a,b,c,d\n"say ""hi"", x",1,,a;b\n'


@pytest.mark.parametrize("rows", [[], [{"a": 1}], [{"a": "ü\n"}, {"a": None}]])
def test_json_is_a_list_of_objects_whatever_their_number(rows: list[dict[str, Any]]) -> None:
    assert json.loads(text(json_format.render, iter(rows))) == rows


def test_json_holds_no_number_that_json_does_not_know() -> None:
    row = {"got": math.nan, "inputs": {"x": [1.5, -math.inf]}, "quantiles": (0.5, math.inf)}
    written = text(json_format.render, [row, {"a": 1.0}])

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    assert json.loads(written, parse_constant=refuse) == [
        {"got": "NaN", "inputs": {"x": [1.5, "-Infinity"]}, "quantiles": [0.5, "Infinity"]},
        {"a": 1.0},
    ]


def test_json_shows_bytes_as_hexadecimal_digits() -> None:
    assert json.loads(text(json_format.render, [{"a": b"\x00\xff"}])) == [{"a": "00ff"}]


REPORT = Coverage(
    "pytorch", "2.6.0", "/src", True,
    statuses={"ok": 300, "errors": 20, "skipped": 8},
    functions=100_000, functions_with_error=1, device_functions=60_000, device_functions_with_error=1,
    units_with_device_error=1, nodes=1_000_000, edges=2_000_000, cast_sites=9_000, constant_cast_sites=700,
    arithmetic_sites=8_000, parse_cpu_s=900.0, walk_cpu_s=100.0, peak_rss_mib=900.0,
    missing_headers={"cusparse.h": 14, "cutlass/cutlass.h": 3}, reasons={"time out after 600 s": 8},
)  # fmt: skip


def test_coverage_never_rounds_up_to_all() -> None:
    shown = text(coverage.render, [REPORT])
    assert "99.99 % seen whole" in shown
    assert "300 ok, 20 with errors, 8 skipped" in shown
    assert "1 with an error inside; 99.70 % of the units have none" in shown
    assert "    14  cusparse.h" in shown
    assert "     8  time out after 600 s" in shown
    assert "not finished" not in shown


def test_coverage_says_that_there_is_no_device_code_instead_of_praising_it() -> None:
    shown = text(coverage.render, [Coverage("none", "", "/x", True, statuses={"ok": 2}, functions=5)])
    (line,) = (line for line in shown.splitlines() if "reached by device code" in line)
    assert line.split("  ")[-1] == "no device code was seen"


def test_coverage_says_when_a_scan_has_not_finished() -> None:
    assert "not finished" in text(coverage.render, [Coverage("none", "", "/x", False)])


def test_coverage_counts_the_headers_that_it_does_not_list() -> None:
    report = Coverage("none", "", "/x", True, missing_headers={f"h{number}.h": 1 for number in range(20)})
    assert "and 8 more" in text(coverage.render, [report])


CAST = CastRow(
    7, "pytorch", "2.6.0", "A.cu", 11, 9, "f", "float16", "float32", "widen", "static_cast", False, "acc_t", "device"
)


def step(number: int, parent: int, depth: int, **more: Any) -> ChainStep:
    made = ChainStep(
        number, parent, depth, "def_use", "arithmetic", "*", "float16", "", "f", "", "A.cu", 10 + number, 1, False
    )
    return made._replace(**more)


def drawn(*, origins: tuple[ChainStep, ...] = (), sinks: tuple[ChainStep, ...] = (), root: str = "") -> list[str]:
    """Lines below the cast's own two, those on what the graph does not know left out."""
    sizes = {path.name: path.stat().st_size for path in Path(root).iterdir()} if root else {}
    lines = text(chain_text.render, [Chain(CAST, 1, "", origins, sinks, root, sizes)]).splitlines()
    assert lines[0] == "cast 7: float16 -> float32 (static_cast as acc_t)"
    assert lines[1] == "  A.cu:11:9 in f"
    return [line for line in lines[3:] if "nothing that the graph knows" not in line]


def test_a_chain_is_drawn_from_top_to_bottom_as_the_value_flows(tmp_path: Path) -> None:
    (tmp_path / "A.cu").write_text("\n" * 9 + "  x = in[i];\n\tacc_t(x);\ny * 2.0f;\nout[i] = z;\n")
    origins = (
        step(0, -1, 0, kind="load", operation="[]"),
        step(1, 0, 0, kind="parameter", operation="in", edge="argument", function="ns::g", file="B.cu"),
    )
    sinks = (
        step(2, -1, 1, format="float32"),
        step(3, 1 - 1, 1, kind="store", operation="=", format="float32", more=True),
    )
    assert drawn(origins=origins, sinks=sinks, root=str(tmp_path)) == [
        "     ┌─ parameter in float16  B.cu:11  // in g",
        "  ┌─ load [] float16          A.cu:10  x = in[i];",
        "  ● cast float16 -> float32   A.cu:11  acc_t(x);",
        "  └─ arithmetic * float32     A.cu:12  y * 2.0f;",
        "     └─ store = float32       A.cu:13  out[i] = z;  // ...",
        "  ... goes on: --depth or --steps for more",
    ]


def test_steps_that_hand_a_value_on_are_named_and_not_drawn() -> None:
    sinks = (
        step(0, -1, 0, kind="parameter", operation="x", edge="argument", function="ns::g"),
        step(1, 0, 0, kind="variable", operation="y", function="ns::g"),
        step(2, 1, 0, kind="parameter", operation="z", edge="launch", function="k"),
        step(3, 2, 1, function="k"),
        step(4, 3, 1, kind="return", operation="return", function="k"),
        step(5, 4, 1, kind="call", operation="k", edge="return", function="ns::h"),
        step(6, 5, 2, operation="+", function="ns::h"),
        step(7, 6, 2, kind="store", operation="=", function="ns::h"),
        step(8, 7, 2, kind="load", operation="[]", function="ns::h"),
        step(9, 8, 3, operation="-", function="ns::h"),
    )
    assert drawn(sinks=sinks) == [
        "  ● cast float16 -> float32      A.cu:11",
        "  └─ arithmetic * float16        A.cu:13  // in k; through g; kernel launch",
        "     └─ arithmetic + float16     A.cu:16  // in h",
        "        └─ arithmetic - float16  A.cu:19",
    ]


def test_a_call_into_a_body_that_nobody_saw_does_something() -> None:
    sinks = (step(0, -1, 0, kind="call", operation="mystery"), step(1, 0, 1))
    assert [line.split("  ")[1:2] for line in drawn(sinks=sinks)][1] == ["└─ call mystery float16"]
    origins = (step(0, -1, 0, kind="call", operation="mystery"), step(1, 0, 1))
    assert [line.split("A.cu")[0].strip() for line in drawn(origins=origins)][:2] == [
        "┌─ arithmetic * float16",
        "┌─ call mystery float16",
    ]


def test_instances_for_several_formats_share_a_line_and_what_follows_on_each() -> None:
    instances = tuple(step(number, -1, 1, line=5, format=f"float{number}") for number in range(6))
    after = tuple(step(6 + number, number, 2, line=6, operation="+") for number in range(6))
    assert [line.split("  A.cu")[0].rstrip() for line in drawn(sinks=(*instances, *after))] == [
        "  ● cast float16 -> float32",
        "  └─ arithmetic * float0, float1, float2 and 3 more",
        "     └─ arithmetic + float16",
    ]


def test_the_cases_of_a_switch_over_formats_share_a_line() -> None:
    cases = tuple(
        step(number, -1, 1, kind="cast", operation="convert", from_format="float32", format=f"int{number}")
        for number in range(6)
    )
    two = tuple(case._replace(from_format="float64", line=30 + case.node) for case in cases[:2])
    assert [" ".join(line.split()) for line in drawn(sinks=(*cases, *two))] == [
        "● cast float16 -> float32 A.cu:11",
        "├─ cast float64 -> int0 (convert) A.cu:30",
        "├─ cast float64 -> int1 (convert) A.cu:31",
        "└─ cast float32 -> int0, int1, int2 and 3 more (convert) A.cu:10-15",
    ]


def test_what_is_drawn_elsewhere_is_counted_and_not_drawn_again() -> None:
    sinks = (
        step(0, -1, 1),
        step(1, 0, 2, operation="+"),
        step(2, 0, 2, operation="-"),
        step(3, 1, 3, operation="/"),
        step(1, 3, 4, operation="+", again=True),
        step(2, 3, 4, operation="-", again=True),
    )
    lines = drawn(sinks=sinks)
    assert [line for line in lines if "elsewhere" in line] == [next(line for line in lines if " / " in line)]
    assert "and 2 drawn elsewhere" in " ".join(lines)
    (line,) = [line for line in drawn(sinks=sinks[:-1]) if "elsewhere" in line]
    assert "└─ arithmetic + float16" in line


def test_one_place_for_several_formats_is_drawn_once() -> None:
    other = CAST._replace(id=8, from_format="bfloat16")
    elsewhere = CAST._replace(id=9, line=12)
    chains = [Chain(cast, 1, "", (), ()) for cast in (CAST, other, elsewhere)]
    lines = text(chain_text.render, chains).splitlines()
    assert [line for line in lines if line.startswith("cast ")] == [
        "cast 7: float16 -> float32 (static_cast as acc_t)",
        "cast 9: float16 -> float32 (static_cast as acc_t)",
    ]
    assert "  the same place for other formats: cast 8: bfloat16 -> float32" in lines


def test_a_long_chain_does_not_reach_the_limit_of_recursion() -> None:
    sinks = tuple(step(number, number - 1, number + 1) for number in range(3000))
    assert len(drawn(sinks=sinks)) == 3001


def test_files_of_one_name_are_told_apart_by_their_folders() -> None:
    sinks = (step(0, -1, 1, file="a/x.cuh"), step(1, 0, 2, file="b/x.cuh"))
    assert [line.split()[-1] for line in drawn(sinks=sinks)] == ["A.cu:11", "a/x.cuh:10", "b/x.cuh:11"]


def test_a_source_line_is_shown_harmless_and_cut(tmp_path: Path) -> None:
    (tmp_path / "A.cu").write_bytes(b"\tx\x1b[2J =\t\xff y;\r\n" + b"a" * 300)
    lines = SourceLines(str(tmp_path), {"A.cu": (tmp_path / "A.cu").stat().st_size})
    assert lines.line("A.cu", 1) == "x [2J = � y;"
    assert lines.line("A.cu", 2) == "a" * 99 + "…"
    assert [lines.line("A.cu", number) for number in (-1, 0, 3)] == ["", "", ""]


def test_a_file_that_is_gone_changed_or_no_file_shows_no_line(tmp_path: Path) -> None:
    (tmp_path / "A.cu").write_text("one\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    sizes = {"A.cu": 5, "gone.cu": 4, "pipe": 0, "folder": 0, "unknown.cu": None}
    lines = SourceLines(str(tmp_path), sizes)
    assert [lines.line(file, 1) for file in (*sizes, "other.cu", "a\0b")] == [""] * 7


def test_a_file_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "A.cu").write_text("one\ntwo\n")
    lines = SourceLines(str(tmp_path), {"A.cu": 8})
    assert lines.line("A.cu", 1) == "one"
    (tmp_path / "A.cu").unlink()
    assert lines.line("A.cu", 2) == "two"
