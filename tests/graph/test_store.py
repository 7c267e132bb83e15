from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opscanner.graph.connect import database_url, open_engine
from opscanner.graph.schema_conclusions import operator
from opscanner.graph.store import FinishedUnit, Store
from opscanner.ir import CudaPass, Diagnostic, Edge, EdgeKind, UnitReach, UnitStatus
from tests.graph.units import FILE, HEADER, cast_node, host, kernel, square, unit, whole_unit

Rows = Callable[[str], list[tuple[Any, ...]]]

CASTS = 'SELECT file, line, "column", function, from_format, to_format, form, pass FROM casts'
STEPS = "SELECT from_function, from_line, step, to_function, to_line FROM chain_steps"
COUNTS = (
    "SELECT (SELECT COUNT(*) FROM translation_unit), (SELECT COUNT(*) FROM function_instance),"
    " (SELECT COUNT(*) FROM node), (SELECT COUNT(*) FROM edge), (SELECT COUNT(*) FROM cast_site),"
    " (SELECT COUNT(*) FROM arithmetic_site), (SELECT COUNT(*) FROM function), (SELECT COUNT(*) FROM source_file)"
)


def test_a_unit_gives_a_row_for_each_cast_site(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    assert rows(CASTS) == [
        (FILE, 11, 9, "at::native::act_kernel", "float16", "float32", "static_cast", "device"),
        (FILE, 12, 9, "at::native::act_kernel", "float32", "float16", "static_cast", "device"),
        (FILE, 31, 9, "at::native::launch", "float64", "float16", "static_cast", "host"),
    ]
    assert rows("SELECT line, direction, written_type FROM casts") == [
        (11, "widen", "acc_t"),
        (12, "narrow", ""),
        (31, "narrow", ""),
    ]


def test_calls_become_argument_return_and_launch_edges_between_instances(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    assert rows(f"{STEPS} WHERE step <> 'def_use'") == [
        ("at::native::act_kernel", 11, "argument", "at::native::square", 3),
        ("at::native::launch", 31, "launch", "at::native::act_kernel", 10),
        ("at::native::square", 4, "return", "at::native::act_kernel", 12),
    ]
    assert rows("SELECT caller, callee, kind, line FROM calls") == [
        ("at::native::act_kernel", "at::native::square", "argument", 12),
        ("at::native::launch", "at::native::act_kernel", "launch", 31),
    ]


def test_a_body_that_several_units_reach_is_stored_once(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    store.write_unit(scan.id, unit(square(), kernel("bfloat16", file="B.cu"), file="B.cu"))
    assert rows("SELECT COUNT(*) FROM functions WHERE name = 'at::native::square' AND instances = 1") == [(1,)]
    assert rows(f"{STEPS} WHERE step = 'argument'") == [
        ("at::native::act_kernel", 11, "argument", "at::native::square", 3),
        ("at::native::act_kernel", 11, "argument", "at::native::square", 3),
    ]


def test_an_instance_whose_body_an_earlier_unit_brought_is_linked_without_its_body(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(square()))
    store.write_unit(scan.id, unit(kernel(file="B.cu"), file="B.cu", also_reaches=("square<float32>",)))
    assert rows(f"{STEPS} WHERE step = 'return'") == [("at::native::square", 4, "return", "at::native::act_kernel", 12)]
    assert rows("SELECT file, nodes, casts, missing_bodies FROM units") == [("B.cu", 9, 2, 0), (FILE, 3, 0, 0)]


def test_a_callee_that_nobody_brings_has_no_edge_until_a_later_unit_brings_it(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(kernel()))
    assert rows(f"{STEPS} WHERE step <> 'def_use'") == []
    store.write_unit(scan.id, unit(square(), file="B.cu"))
    assert rows(f"{STEPS} WHERE step <> 'def_use'") == [
        ("at::native::act_kernel", 11, "argument", "at::native::square", 3),
        ("at::native::square", 4, "return", "at::native::act_kernel", 12),
    ]


def test_a_reached_instance_without_a_body_is_counted(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(kernel(), also_reaches=("lost",)))
    assert rows("SELECT missing_bodies FROM units") == [(1,)]


def test_scanning_again_leaves_the_same_rows_with_the_same_ids(store: Store, rows: Rows) -> None:
    before: list[Any] = []
    for _ in range(3):
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, whole_unit())
        store.write_unit(scan.id, whole_unit("bfloat16", file="B.cu"))
        store.finish_scan(scan.id, complete=True)
        now = [rows(COUNTS), rows("SELECT * FROM casts"), rows("SELECT * FROM edge"), rows("SELECT * FROM node")]
        assert not before or now == before
        before = now
    assert scan.run == 3


def test_a_unit_written_twice_in_one_run_is_there_once(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    before = rows(COUNTS)
    store.write_unit(scan.id, whole_unit())
    assert rows(COUNTS) == before


def test_a_changed_body_replaces_the_one_of_an_earlier_run_and_its_callers_stay_linked(
    store: Store, rows: Rows
) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    store.write_unit(scan.id, unit(kernel("bfloat16", file="B.cu"), square(), file="B.cu"))
    store.finish_scan(scan.id, complete=True)
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(host(), kernel(), square(line=7)))
    # B.cu has not been scanned again yet, and already sees the header's new body.
    assert rows(f"{STEPS} WHERE step IN ('argument', 'return')") == [
        ("at::native::act_kernel", 11, "argument", "at::native::square", 7),
        ("at::native::act_kernel", 11, "argument", "at::native::square", 7),
        ("at::native::square", 8, "return", "at::native::act_kernel", 12),
        ("at::native::square", 8, "return", "at::native::act_kernel", 12),
    ]
    assert rows("SELECT file, line, operation FROM arithmetic") == [(HEADER, 8, "*")]
    store.write_unit(scan.id, unit(kernel("bfloat16", file="B.cu"), square(line=7), file="B.cu"))
    store.finish_scan(scan.id, complete=True)
    assert rows("SELECT name, line, instances FROM functions WHERE name LIKE '%square'") == [
        ("at::native::square", 7, 1)
    ]


def test_what_no_unit_holds_any_more_goes_with_the_unit_that_is_replaced(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    store.write_unit(scan.id, unit(square(), file="B.cu"))
    store.finish_scan(scan.id, complete=True)
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(host("float32")))
    assert rows("SELECT line, from_format, to_format FROM casts") == [(31, "float64", "float32")]
    assert rows('SELECT "key" FROM function_instance') == [("launch<float32>",), ("square<float32>",)]
    assert rows("SELECT COUNT(*) FROM edge e LEFT JOIN node n ON n.id = e.target_id WHERE n.id IS NULL") == [(0,)]
    assert rows("SELECT COUNT(*) FROM edge e LEFT JOIN node n ON n.id = e.source_id WHERE n.id IS NULL") == [(0,)]


def test_units_that_are_no_longer_there_go_at_the_end_of_a_complete_scan(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    store.write_unit(scan.id, unit(square(), file="B.cu"))
    store.finish_scan(scan.id, complete=True)
    scan = store.begin_scan("pytorch", "2.6.0", "/src", options={"only": ["B.cu"]})
    store.write_unit(scan.id, unit(square(), file="B.cu"))
    store.finish_scan(scan.id, complete=False)
    assert rows("SELECT file FROM units") == [("B.cu",), (FILE,)]
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(square(), file="B.cu"))
    store.finish_scan(scan.id, complete=True)
    assert rows("SELECT file FROM units") == [("B.cu",)]
    assert rows("SELECT path FROM source_file") == [("B.cu",), (HEADER,)]
    assert rows("SELECT name FROM function") == [("at::native::square",)]
    assert rows("SELECT COUNT(*) FROM casts") == [(0,)]


def test_a_cast_is_host_code_again_when_device_code_no_longer_reaches_it(store: Store, rows: Rows) -> None:
    both = square()._replace(nodes=(*square().nodes, cast_node(5, "float64", "float32", file=HEADER)))
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(both, file="A.cu", device=()))
    assert rows("SELECT line, pass FROM casts") == [(5, "host")]
    store.write_unit(scan.id, unit(both, file="B.cu", device=(both.key,)))
    assert rows("SELECT line, pass FROM casts") == [(5, "device")]
    store.finish_scan(scan.id, complete=True)
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(both, file="B.cu", device=()))
    assert rows("SELECT line, pass FROM casts") == [(5, "host")]
    assert rows("SELECT pass FROM arithmetic") == [("host",)]


def test_a_cast_is_constant_or_unreached_only_when_it_is_so_in_every_instance(store: Store, rows: Rows) -> None:
    def variant(key: str, **marks: bool) -> Any:
        nodes = (cast_node(5, "float64", "float32", **marks),)
        return square()._replace(key=key, file=FILE, nodes=nodes, edges=(), parameters=(), returns=())

    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(variant("a", constant=True, reached=False)))
    assert rows("SELECT constant, pass FROM casts") == [(1, "host")]
    store.write_unit(scan.id, unit(variant("b", constant=False, reached=True), file="B.cu"))
    assert rows("SELECT constant, pass FROM casts") == [(0, "device")]
    store.finish_scan(scan.id, complete=True)
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(file="B.cu"))
    assert rows("SELECT constant, pass FROM casts") == [(1, "host")]


def test_two_frameworks_and_two_versions_live_side_by_side(store: Store, rows: Rows) -> None:
    for framework, version, root in (
        ("pytorch", "2.6.0", "/a"),
        ("pytorch", "1.13.1", "/b"),
        ("tensorflow", "2.14.1", "/c"),
    ):
        scan = store.begin_scan(framework, version, root)
        store.write_unit(scan.id, whole_unit())
        store.finish_scan(scan.id, complete=True)
    assert rows("SELECT framework, version, COUNT(*) FROM casts GROUP BY 1, 2") == [
        ("pytorch", "1.13.1", 3),
        ("pytorch", "2.6.0", 3),
        ("tensorflow", "2.14.1", 3),
    ]
    store.delete_scan(store.scan_id("pytorch", "1.13.1", "/b"))
    assert rows("SELECT framework, version, COUNT(*) FROM casts GROUP BY 1, 2") == [
        ("pytorch", "2.6.0", 3),
        ("tensorflow", "2.14.1", 3),
    ]
    assert rows("SELECT DISTINCT scan_id FROM source_file") == [(1,), (3,)]


@pytest.mark.parametrize("taken", ["deleted", "begun again"])
def test_conclusions_go_with_the_scan_that_they_were_drawn_from(
    store: Store, database: str, rows: Rows, taken: str
) -> None:
    for version in ("1.13.1", "2.6.0"):
        scan = store.begin_scan("pytorch", version, f"/{version}")
        store.finish_scan(scan.id, complete=True)
        values = {"id": scan.id, "scan_id": scan.id, "name": "elu", "forward_name": "elu", "line": 1}
        with open_engine(database_url(database), write=True).begin() as connection:
            connection.execute(operator.insert().values(direction="forward", module_group="activation", **values))
    if taken == "deleted":
        store.delete_scan(store.scan_id("pytorch", "1.13.1", "/1.13.1"))
    else:
        store.begin_scan("pytorch", "1.13.1", "/1.13.1")
    assert rows("SELECT id, name FROM operator") == [(2, "elu")]


def test_a_killed_scan_goes_on_where_it_stopped(database: str, rows: Rows) -> None:
    first = Store(database)
    scan = first.begin_scan("pytorch", "2.6.0", "/src", options={"passes": "device"})
    first.write_unit(scan.id, whole_unit())
    # No finish, no close: as after a kill.
    with Store(database) as second:
        again = second.begin_scan("pytorch", "2.6.0", "/src", options={"passes": "device"})
        assert (again.id, again.run, again.resumed) == (scan.id, 1, True)
        assert second.finished_units(again.id) == {FinishedUnit(FILE, "device", "", "a1")}
        assert rows("SELECT COUNT(*) FROM casts") == [(3,)]
        second.write_unit(again.id, unit(kernel("bfloat16", file="B.cu"), square(), file="B.cu"))
        second.finish_scan(again.id, complete=True)
    assert rows("SELECT file FROM units") == [("B.cu",), (FILE,)]
    assert len(rows(f"{STEPS} WHERE step = 'argument'")) == 2


@pytest.mark.parametrize("change", [{"options": {"passes": "both"}}, {"tool_versions": {"libclang": "23"}}])
def test_a_killed_scan_begins_afresh_with_other_options_or_tools(store: Store, change: dict[str, Any]) -> None:
    store.begin_scan("pytorch", "2.6.0", "/src")
    again = store.begin_scan("pytorch", "2.6.0", "/src", **change)
    assert (again.run, again.resumed) == (2, False)
    assert store.finished_units(again.id) == set()


def test_a_unit_that_cannot_be_written_leaves_nothing_half_written(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, whole_unit())
    before = rows(COUNTS)
    broken = square()._replace(key="broken", edges=(Edge("0", 1, EdgeKind.DEF_USE),))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        store.write_unit(scan.id, unit(kernel("float64", file="B.cu"), broken, file="B.cu"))
    assert rows(COUNTS) == before
    store.write_unit(scan.id, unit(kernel("float64", file="B.cu"), file="B.cu"))
    assert ("B.cu", 11) in rows("SELECT file, line FROM casts")


def test_two_writers_at_once_do_not_give_the_same_id_twice(database: str, rows: Rows) -> None:
    with Store(database) as one, Store(database) as other:
        first = one.begin_scan("pytorch", "2.6.0", "/a")
        second = other.begin_scan("tensorflow", "2.14.1", "/b")
        for number in range(3):
            one.write_unit(first.id, unit(kernel(key=f"k{number}"), file=f"{number}.cu"))
            other.write_unit(second.id, unit(kernel(key=f"k{number}"), file=f"{number}.cu"))
    assert rows("SELECT framework, COUNT(*) FROM units GROUP BY 1") == [("pytorch", 3), ("tensorflow", 3)]
    assert rows("SELECT COUNT(*), COUNT(DISTINCT id) FROM node") == [(36, 36)]


def test_a_skipped_unit_is_a_row_with_its_reason(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(status=UnitStatus.SKIPPED, reason="time out after 600 s", cuda_pass=CudaPass.NONE))
    assert rows("SELECT file, status, reason, cuda_pass FROM units") == [
        (FILE, "skipped", "time out after 600 s", "none")
    ]


def test_diagnostics_missing_headers_dropped_arguments_and_dependencies_hang_on_their_unit(
    store: Store, rows: Rows
) -> None:
    full = unit(
        status=UnitStatus.ERRORS,
        diagnostics=(
            Diagnostic("fatal", "missing_header", HEADER, 2, "'cusparse.h' file not found"),
            Diagnostic("error", "undeclared", "", 0, "use of undeclared identifier 'x'", count=3),
        ),
        missing_headers=("cusparse.h", "cusparse.h"),
        dropped_arguments=(("-Xfatbin", "only for nvcc"),),
        dependencies=(HEADER, FILE),
    )
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    for _ in range(2):
        store.write_unit(scan.id, full)
        assert rows("SELECT errors FROM units") == [(4,)]
        assert rows("SELECT severity, category, line, count FROM diagnostic") == [
            ("error", "undeclared", 0, 3),
            ("fatal", "missing_header", 2, 1),
        ]
        assert rows("SELECT header FROM missing_header") == [("cusparse.h",)]
        assert rows("SELECT argument, reason FROM dropped_argument") == [("-Xfatbin", "only for nvcc")]
        assert rows("SELECT path FROM dependency JOIN source_file ON id = file_id") == [(FILE,), (HEADER,)]


def test_device_and_host_pass_of_one_file_are_two_units(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(square()))
    store.write_unit(scan.id, unit(square(), cuda_pass=CudaPass.HOST, device=()))
    store.write_unit(scan.id, unit(square(), cuda_pass=CudaPass.HOST, device=(), configuration="AVX2"))
    assert rows("SELECT cuda_pass, configuration FROM units") == [("device", ""), ("host", ""), ("host", "AVX2")]


def test_an_error_that_only_one_unit_sees_stays_with_that_unit(store: Store, rows: Rows) -> None:
    scan = store.begin_scan("pytorch", "2.6.0", "/src")
    store.write_unit(scan.id, unit(square()))
    store.write_unit(scan.id, unit(file="B.cu", reach=(UnitReach("square<float32>", True, has_error=True),)))
    assert rows("SELECT has_error FROM unit_instance") == [(0,), (1,)]
    assert rows("SELECT has_error FROM function_instance") == [(0,)]
