"""A summary answers what a scan answers about places, and holds nothing of the machine that scanned."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from opscanner.errors import UsageError
from opscanner.graph import schema
from opscanner.graph.chains import trace
from opscanner.graph.queries import find_casts, reading
from opscanner.graph.readonly import run_query
from opscanner.graph.serving import choose_scan, load_serving
from opscanner.graph.store import Store
from opscanner.graph.summarize import KEPT, LEFT_OUT, neutral, refuse_without_graph, summarize
from opscanner.graph.views import VIEWS
from opscanner.ir import FunctionInstance
from opscanner.operators import attribution
from opscanner.patterns import run as patterns
from tests.graph.units import cast_node, host, kernel, square, unit, whole_unit
from tests.operators.scans import write_scan

#: Views of the graph, which is there for functions that serve operators alone.
WITHOUT_GRAPH = {"chain_steps", "cast_instances", "calls"}
#: Views of what was measured, which is no part of a scan.
MEASURED = {"measurements", "faults"}


@pytest.fixture
def scanned(tmp_path: Path) -> str:
    """A scan with operators and findings."""
    database = tmp_path / "scan.sqlite"
    scan_id = write_scan(tmp_path / "pytorch", database)
    attribution.conclude(str(database), scan_id)
    patterns.conclude(str(database), scan_id)
    return str(database)


def write(database: Path, root: str, *files: str, version: str = "2.6.0", device: tuple[str, ...] | None = None) -> str:
    with Store(str(database)) as store:
        begun = store.begin_scan("pytorch", version, root, options={"only": list(files), "passes": "auto"})
        for file in files:
            functions = (host(file=file), kernel(file=file), square())
            store.write_unit(begun.id, unit(*functions, file=file, device=device))
        store.finish_scan(begun.id, complete=True)
    return str(database)


def ask(database: Path | str, query: str) -> list[tuple[Any, ...]]:
    return sorted(run_query(str(database), query).rows, key=repr)


def test_every_table_is_kept_or_left_out_on_purpose() -> None:
    decided = [kept.table.name for kept in KEPT] + [table.name for table in LEFT_OUT]
    assert sorted([*decided, "meta", "scan"]) == sorted(schema.metadata.tables)


@pytest.mark.parametrize(
    "view", [view for view in VIEWS if view.name not in WITHOUT_GRAPH | MEASURED], ids=lambda view: view.name
)
def test_views_of_places_say_the_same_as_those_of_the_scan(scanned: str, tmp_path: Path, view: Any) -> None:
    summarize([scanned], tmp_path / "summary.sqlite")
    # node_id and chain name nodes, and only those of functions that serve an operator are there.
    columns = ", ".join(f'"{name}"' for name in view.columns if name not in ("node_id", "chain"))
    query = f"SELECT {columns} FROM {view.name}"
    expected = ask(scanned, query)
    assert expected
    assert ask(tmp_path / "summary.sqlite", query) == expected


def test_nodes_and_calls_of_functions_that_serve_operators_are_kept(scanned: str, tmp_path: Path) -> None:
    summarize([scanned], tmp_path / "summary.sqlite")
    query = 'SELECT file, line, "column", function, bindings, from_format, to_format, reached FROM cast_instances'
    serving = "(SELECT function FROM operator_functions)"
    kept = ask(tmp_path / "summary.sqlite", query)
    assert kept == ask(scanned, f"{query} WHERE function IN {serving}")
    assert ("at::native::uncalled_kernel",) in ask(scanned, "SELECT function FROM cast_instances")
    assert "at::native::uncalled_kernel" not in {row[3] for row in kept}
    calls = "SELECT caller, callee, line FROM calls"
    assert ask(tmp_path / "summary.sqlite", calls) == ask(
        scanned, f"{calls} WHERE caller IN {serving} AND callee IN {serving}"
    )


def test_chains_are_those_of_the_scan_within_functions_that_serve_operators(scanned: str, tmp_path: Path) -> None:
    summarize([scanned], tmp_path / "summary.sqlite")
    drawn = []
    for database in (scanned, str(tmp_path / "summary.sqlite")):
        with reading(database) as connection:
            (cast,) = [row for row in find_casts(connection, from_format="float16") if row.line == 5]
            refuse_without_graph(connection, [cast.id])
            (chain,) = trace(connection, cast)
            drawn.append([(step.kind, step.operation, step.edge, step.line) for step in (*chain.origins, *chain.sinks)])
    assert ("load", "in", "def_use", 5) in drawn[0]
    assert ("arithmetic", "*", "def_use", 4) in drawn[0]  # in the header's function, across a call
    assert drawn[1] == drawn[0]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_what_operators_are_compared_by_is_there(scanned: str, tmp_path: Path, device: str) -> None:
    summarize([scanned], tmp_path / "summary.sqlite")
    shown = []
    for database in (scanned, str(tmp_path / "summary.sqlite")):
        with reading(database) as connection:
            graph = load_serving(connection, choose_scan(connection, "pytorch"), device)
        names = {function.id: function.name for function in graph.functions.values()}
        bodies = {
            (names[one.function], one.bindings): [
                (node.kind, node.operation, node.format, node.file, node.line) for node in graph.nodes.get(one.id, ())
            ]
            for instances in graph.instances.values()
            for one in instances
        }
        callees = sum(len(found) for found in graph.callees.values())
        shown.append((sorted(graph.declared), sorted(graph.serving), bodies, callees, len(graph.findings)))
    assert shown[1] == shown[0]
    assert (("at::native::elementwise_act", "scalar_t=float16") in shown[0][2]) is (device == "cuda")


def test_a_cast_whose_chain_was_left_out_is_refused(scanned: str, tmp_path: Path) -> None:
    summarize([scanned], tmp_path / "summary.sqlite")
    with reading(str(tmp_path / "summary.sqlite")) as connection:
        (cast,) = find_casts(connection, function="uncalled_kernel")
        with pytest.raises(UsageError, match="it holds no chains here"):
            refuse_without_graph(connection, [cast.id])


def test_findings_keep_the_chain_as_far_as_its_nodes_are_there(scanned: str, tmp_path: Path) -> None:
    summarize([scanned], tmp_path / "summary.sqlite")
    query = "SELECT node_id, chain, function, line FROM findings"
    of_scan, of_summary = ask(scanned, query), ask(tmp_path / "summary.sqlite", query)
    assert any(chain for _, chain, *_ in of_summary)
    text = "SELECT id, kind, operation, line FROM node"
    names = [{row[0]: row[1:] for row in ask(database, text)} for database in (scanned, tmp_path / "summary.sqlite")]
    for before, after in zip(
        sorted(of_scan, key=lambda row: row[2:]), sorted(of_summary, key=lambda row: row[2:]), strict=True
    ):
        if after[0]:
            assert names[1][after[0]] == names[0][before[0]]
            chains = [
                [held[int(id_)] for id_ in row[1].split(",") if id_]
                for held, row in zip(names, (before, after), strict=True)
            ]
            assert chains[1] == chains[0]


def test_findings_in_functions_that_serve_no_operator_name_no_node(tmp_path: Path) -> None:
    database = write(tmp_path / "a.sqlite", "/src", "A.cu")
    patterns.conclude(database, 1)
    summarize([database], tmp_path / "summary.sqlite")
    query = "SELECT DISTINCT pattern, line, node_id, chain FROM findings"
    assert ("widened-arithmetic", 11, 0, "") in ask(tmp_path / "summary.sqlite", query)


def test_scans_of_one_tree_in_two_databases_become_one(tmp_path: Path) -> None:
    root = "/home/me/src/pytorch"
    first = write(tmp_path / "a.sqlite", root, "A.cu")
    # In this one nothing that the GPU runs reaches the header's function.
    second = write(tmp_path / "b.sqlite", root, "B.cu", "A.cu", device=())
    (scan,) = summarize([second, first], tmp_path / "summary.sqlite")
    assert (scan.root, scan.units, scan.functions) == ("pytorch-2.6.0", 2, 5)
    rows = ask(tmp_path / "summary.sqlite", "SELECT file, line, function, pass FROM casts")
    assert [row for row in rows if row[0] == "A.cu"] == ask(first, "SELECT file, line, function, pass FROM casts")
    assert {row[3] for row in rows if row[0] == "B.cu"} == {"host"}
    assert ask(tmp_path / "summary.sqlite", "SELECT file, status FROM units") == [("A.cu", "ok"), ("B.cu", "ok")]
    assert ask(tmp_path / "summary.sqlite", "SELECT name, device FROM functions WHERE name LIKE '%square'") == [
        ("at::native::square", 1)
    ]
    ((options,),) = ask(tmp_path / "summary.sqlite", "SELECT options FROM scan")
    assert [one["only"] for one in json.loads(options)["summary"]] == [["B.cu", "A.cu"], ["A.cu"]]


def test_versions_stay_apart_and_two_trees_of_one_version_get_names_of_their_own(tmp_path: Path) -> None:
    databases = [
        write(tmp_path / "a.sqlite", "/home/me/new", "A.cu"),
        write(tmp_path / "b.sqlite", "/home/me/old", "A.cu", version="1.13.1"),
        write(tmp_path / "c.sqlite", "/home/me/changed", "A.cu"),
    ]
    found = summarize(databases, tmp_path / "summary.sqlite")
    assert [(scan.version, scan.root) for scan in found] == [
        ("2.6.0", "pytorch-2.6.0"), ("1.13.1", "pytorch-1.13.1"), ("2.6.0", "pytorch-2.6.0 (2)"),
    ]  # fmt: skip
    per_scan = "SELECT scan_id, count(*) FROM casts GROUP BY scan_id"
    assert ask(tmp_path / "summary.sqlite", per_scan) == [(1, 3), (2, 3), (3, 3)]


def test_no_path_of_the_machine_is_left(tmp_path: Path) -> None:
    root = "/home/me/src/pytorch"
    named = f"at::launch::(lambda at {root}/aten/A.cu:7:3)"
    header = "/home/me/venv/lib/python3.12/site-packages/nvidia/cuda_runtime/include/cuda_fp16.hpp"
    lambda_ = kernel(file=f"{root}/aten/A.cu".removeprefix(f"{root}/"))._replace(
        name=named, signature=f"void ({named})"
    )
    inside: FunctionInstance = square()._replace(
        nodes=(cast_node(4, "float16", "float32", file=header),), returns=(), edges=()
    )
    with Store(str(tmp_path / "a.sqlite")) as store:
        begun = store.begin_scan("pytorch", "2.6.0", root, options={"compile_db": f"{root}/compile_commands.json"})
        whole = unit(lambda_, inside, file="aten/A.cu", reason=f"{root}/aten/A.cu: took longer than 600 s")
        store.write_unit(begun.id, whole)
        store.finish_scan(begun.id, complete=True)
    summarize([str(tmp_path / "a.sqlite")], tmp_path / "summary.sqlite")
    assert b"/home/me" in (tmp_path / "a.sqlite").read_bytes()
    assert b"/home/me" not in (tmp_path / "summary.sqlite").read_bytes()
    names = {row[0] for row in ask(tmp_path / "summary.sqlite", "SELECT name FROM function")}
    assert "at::launch::(lambda at aten/A.cu:7:3)" in names
    assert ("/.../cuda_fp16.hpp",) in ask(tmp_path / "summary.sqlite", "SELECT DISTINCT file FROM casts")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/pytorch/aten/A.cu", "aten/A.cu"),
        ("/home/me/pytorch2/aten/A.cu", "/.../A.cu"),
        ("/opt/tf/site-packages/tensorflow/include/Eigen/Core", "/.../Eigen/Core"),
        ("/home/me/.cache/x.h: not found", "/.../x.h: not found"),
        ("/usr/include/math.h", "/usr/include/math.h"),
        ("f(lambda at /home/me/a/b.cu:1:2)", "f(lambda at /.../b.cu:1:2)"),
        ("a / b", "a / b"),
        ("x/y", "x/y"),
        ("aten/src/ATen/A.cu", "aten/src/ATen/A.cu"),
        ('[["f", "/home/me/pytorch/aten/A.cu", 3]]', '[["f", "aten/A.cu", 3]]'),
    ],
)
def test_neutral_text(text: str, expected: str) -> None:
    assert neutral(text, "/home/me/pytorch") == expected


def test_foreign_keys_hold_but_for_nodes_that_are_left_out(scanned: str, tmp_path: Path) -> None:
    summarize([scanned], tmp_path / "summary.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "summary.sqlite")) as connection:
        dangling = connection.execute("PRAGMA foreign_key_check").fetchall()
        assert {(row[0], row[2]) for row in dangling} <= {("finding", "node")}
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_scan_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    with Store(str(tmp_path / "a.sqlite")) as store:
        begun = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(begun.id, whole_unit())
    with pytest.raises(UsageError, match=r"the scan of pytorch 2\.6\.0 is not finished"):
        summarize([str(tmp_path / "a.sqlite")], tmp_path / "summary.sqlite")
    assert not (tmp_path / "summary.sqlite").exists()


def test_a_summary_of_a_summary_is_refused(tmp_path: Path) -> None:
    database = write(tmp_path / "a.sqlite", "/src", "A.cu")
    summarize([database], tmp_path / "summary.sqlite")
    with pytest.raises(UsageError, match="is a summary"):
        summarize([str(tmp_path / "summary.sqlite")], tmp_path / "again.sqlite")
