from __future__ import annotations

import io
from pathlib import Path

import networkx
import pytest

from opscanner.errors import UsageError
from opscanner.graph import chains, networks, queries
from opscanner.graph.readonly import run_query
from opscanner.graph.store import Store
from opscanner.ir import Call, Edge, EdgeKind, Node, NodeKind
from opscanner.results import Chain
from tests.graph.units import FILE, HEADER, cast_node, host, kernel, square, unit, whole_unit


@pytest.fixture
def filled(database: str) -> str:
    with Store(database) as store:
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, whole_unit())
        store.write_unit(scan.id, unit(kernel("bfloat16", file="B.cu"), square(), file="B.cu"))
        store.finish_scan(scan.id, complete=True)
    return database


def trace(database: str, cast: str, **bounds: int) -> list[Chain]:
    with queries.reading(database) as connection:
        return [
            chain for row in queries.find_cast(connection, cast) for chain in chains.trace(connection, row, **bounds)
        ]


def test_a_chain_runs_from_a_load_through_casts_calls_and_arithmetic_to_a_store(filled: str) -> None:
    (chain,) = trace(filled, "Act.cu:11")
    assert [(step.kind, step.file, step.line) for step in chain.origins][:2] == [
        ("load", FILE, 11),
        ("parameter", FILE, 10),
    ]
    assert [(step.edge, step.kind, step.format, step.line) for step in chain.sinks] == [
        ("argument", "parameter", "float32", 3),
        ("def_use", "arithmetic", "float32", 4),
        ("def_use", "return", "float32", 4),
        ("return", "call", "float32", 12),
        ("def_use", "cast", "float16", 12),
        ("def_use", "store", "float16", 12),
    ]
    assert [step.parent for step in chain.sinks] == [-1, 0, 1, 2, 3, 4]


def test_a_chain_that_enters_a_function_from_a_call_leaves_it_to_the_same_caller(filled: str) -> None:
    (chain,) = trace(filled, "Act.cu:12")
    assert {step.file for step in chain.origins} == {FILE, HEADER}
    (chain,) = trace(filled, "B.cu:12")
    assert {step.file for step in chain.origins} == {"B.cu", HEADER}


def test_a_chain_crosses_a_launch_to_the_host(filled: str) -> None:
    (chain,) = trace(filled, "Act.cu:31")
    assert [(step.kind, step.operation) for step in chain.origins] == [("parameter", "scale")]
    assert chain.sinks[0].edge == "launch"
    assert chain.sinks[0].function == "at::native::act_kernel"
    assert chain.sinks[-1].kind == "store"


def test_a_bounded_chain_says_where_it_stopped(filled: str) -> None:
    for bound in ({"depth": 1}, {"steps": 1}):
        (chain,) = trace(filled, "Act.cu:12", **bound)
        assert [(step.kind, step.depth, step.more) for step in chain.origins] == [
            ("call", 0, False), ("return", 0, False), ("arithmetic", 1, True),
        ]  # fmt: skip


def test_handing_a_value_on_counts_against_no_bound(filled: str) -> None:
    (chain,) = trace(filled, "Act.cu:11", depth=2)
    assert [(step.kind, step.depth) for step in chain.sinks] == [
        ("parameter", 0), ("arithmetic", 1), ("return", 1), ("call", 1), ("cast", 2),
    ]  # fmt: skip
    assert chain.sinks[-1].more


def test_a_captured_value_enters_a_lambda_and_its_result_leaves_to_the_caller_alone(database: str) -> None:
    """``[=](float x) { return x * scale; }`` made by ``launch`` and called by ``apply``."""
    creator = host("float32")._replace(calls=(Call(-1, "square<float32>", ((1, 1),), EdgeKind.CAPTURE, 31),))
    body = square()._replace(
        is_lambda=True,
        parameters=(0, 3),
        nodes=(*square().nodes, Node(NodeKind.CAPTURE, HEADER, 4, 18, "scale", "float32")),
        edges=(*square().edges, Edge(3, 1, EdgeKind.DEF_USE)),
    )
    with Store(database) as store:
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, unit(creator, body, kernel()))
    (chain,) = trace(database, "Act.cu:31")
    assert [(step.edge, step.kind, step.function.rsplit("::", 1)[1]) for step in chain.sinks] == [
        ("capture", "capture", "square"),
        ("def_use", "arithmetic", "square"),
        ("def_use", "return", "square"),
        ("return", "call", "act_kernel"),
        ("def_use", "cast", "act_kernel"),
        ("def_use", "store", "act_kernel"),
    ]
    (chain,) = trace(database, "Act.cu:12")
    assert ("capture", "cast", 31) in [(step.edge, step.kind, step.line) for step in chain.origins]
    calls = run_query(database, "SELECT caller, kind FROM calls WHERE callee LIKE '%square' ORDER BY 1").rows
    assert calls == (("at::native::act_kernel", "argument"), ("at::native::launch", "capture"))


def test_a_chain_knows_how_long_its_files_were(database: str, tmp_path: Path) -> None:
    (tmp_path / "native/cuda").mkdir(parents=True)
    (tmp_path / FILE).write_text("x\n" * 40)
    for length in (40, 50):
        (tmp_path / FILE).write_text("x\n" * length)
        with Store(database) as store:
            scan = store.begin_scan("pytorch", "2.6.0", str(tmp_path))
            store.write_unit(scan.id, whole_unit())
            store.finish_scan(scan.id, complete=True)
        (chain,) = trace(database, "Act.cu:11")
        assert (chain.root, dict(chain.sizes)) == (str(tmp_path), {FILE: 2 * length, HEADER: None})


def test_a_loop_is_walked_once(database: str) -> None:
    nodes = (*square().nodes, cast_node(5, "float64", "float32", file=HEADER))
    edges = (Edge(1, 3, EdgeKind.DEF_USE), Edge(3, 1, EdgeKind.LOOP_CARRIED), Edge(3, 3, EdgeKind.LOOP_CARRIED))
    with Store(database) as store:
        scan = store.begin_scan("pytorch", "2.6.0", "/src")
        store.write_unit(scan.id, unit(square()._replace(nodes=nodes, edges=edges)))
    (chain,) = trace(database, "math.cuh:5")
    assert [(step.kind, step.again) for step in chain.sinks] == [("arithmetic", False), ("cast", True), ("cast", True)]


@pytest.mark.parametrize(
    ("cast", "words", "hint"),
    [
        ("999", "no cast 999", "opscanner casts"),
        ("Act.cu", "neither a cast's id nor FILE:LINE", "opscanner casts"),
        ("Act.cu:13", "no cast at Act.cu:13", "lines that have one: 12, 11, 31"),
        ("None.cu:1", "no cast at None.cu:1", "no cast in a file None.cu"),
    ],
)
def test_a_cast_that_is_not_there_is_answered_with_what_comes_close(
    filled: str, cast: str, words: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        trace(filled, cast)
    assert words in caught.value.what
    assert hint in caught.value.hint


def test_the_neighbourhood_of_a_cast_grows_with_the_radius(filled: str) -> None:
    with queries.reading(filled) as connection:
        (row,) = queries.find_cast(connection, "Act.cu:11")
        sizes = [networks.around_casts(connection, [row.id], radius=r).number_of_nodes() for r in range(4)]
        near = networks.around_casts(connection, [row.id], radius=1)
    assert sizes == [1, 3, 6, 9]
    kinds = {(near.nodes[a]["kind"], kind, near.nodes[b]["kind"]) for a, b, kind in near.edges(keys=True)}
    assert kinds == {("load", "def_use", "cast"), ("cast", "argument", "parameter")}


def test_the_graph_of_a_function_holds_its_instances_and_the_edges_between_their_nodes(filled: str) -> None:
    with queries.reading(filled) as connection:
        graph = networks.of_function(connection, "act_kernel")
        with pytest.raises(UsageError, match="no function kernel"):
            networks.of_function(connection, "kernel")
    assert graph.number_of_nodes() == 12
    assert {data["bindings"] for _, data in graph.nodes(data=True)} == {"scalar_t=float16", "scalar_t=bfloat16"}
    assert {data["kind"] for *_, data in graph.edges(data=True)} == {"def_use"}


def test_the_whole_graph_survives_graphml(filled: str) -> None:
    with queries.reading(filled) as connection:
        graph = networks.whole(connection)
    stream = io.BytesIO()
    networks.write_graphml(graph, stream)
    stream.seek(0)
    read = networkx.read_graphml(stream, node_type=int, force_multigraph=True)
    assert dict(read.nodes(data=True)) == dict(graph.nodes(data=True))
    assert sorted((a, b, data["kind"]) for a, b, data in read.edges(data=True)) == sorted(
        (a, b, data["kind"]) for a, b, data in graph.edges(data=True)
    )
    assert graph.number_of_nodes() == 17
