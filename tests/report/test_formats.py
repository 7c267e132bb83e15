from __future__ import annotations

import io
import json
from typing import Any

import pytest

from opscanner.report import chain_text, coverage, csv_format, json_format, table
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
        number, parent, depth, "def_use", "load", "in", "float16", "", "f", "", "A.cu", 10 + number, 1, False, ""
    )
    return made._replace(**more)


def test_a_chain_is_drawn_as_two_trees() -> None:
    origins = (
        step(0, -1, 1, text="in[i]"),
        step(
            1, 0, 2, kind="parameter", operation="x", edge="argument", function="g", bindings="T=float16", file="B.cu"
        ),
        step(2, 0, 2, kind="literal", operation="1", format="float32", more=True),
    )
    assert text(chain_text.render, [Chain(CAST, 1, "acc_t=float32", origins, ())]) == (
        "cast 7: float16 -> float32 (static_cast as acc_t)\n"
        "  A.cu:11:9 in f [acc_t=float32]\n"
        "  comes from\n"
        "  └─ load in  float16  line 10  `in[i]`\n"
        "     ├─ parameter x  float16  B.cu:11  in g [T=float16]  (passed as an argument)\n"
        "     └─ literal 1  float32  line 12  ... (--depth or --steps for more)\n"
        "  goes to: nothing that the graph knows\n"
    )


def test_equal_branches_of_a_chain_are_drawn_once_and_counted() -> None:
    sinks = tuple(step(number, -1, 1, line=5, bindings=f"T={number}") for number in range(4))
    drawn = text(chain_text.render, [Chain(CAST, 1, "", (), sinks)])
    assert drawn.count("load in") == 1
    assert "(and 3 more like it)" in drawn


def test_a_long_chain_does_not_reach_the_limit_of_recursion() -> None:
    sinks = tuple(step(number, number - 1, number + 1) for number in range(3000))
    assert text(chain_text.render, [Chain(CAST, 1, "", (), sinks)]).count("\n") == 3004
