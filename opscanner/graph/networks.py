"""The graph as networkx graphs, and as GraphML for other programs.

A graph's nodes are the database's node ids with the attributes ``kind``, ``operation``, ``format``, ``from_format``,
``function``, ``bindings``, ``file``, ``line``, ``column``; its edges have ``kind``. It is a multigraph: two
nodes can be joined by edges of several kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import networkx
from sqlalchemy import Connection, Select, or_, select

from opscanner.errors import UsageError
from opscanner.graph import schema
from opscanner.graph.prune import chunks

_ATTRIBUTES = (
    "kind", "operation", "format", "from_format", "function", "bindings", "file", "line", "column",
)  # fmt: skip


def whole(connection: Connection) -> networkx.MultiDiGraph[int]:
    """Everything. A whole framework takes some gigabytes of memory this way: prefer a function or a cast."""
    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    _add_nodes(graph, connection.execute(_node_query()))
    edge = schema.edge.c
    _add_edges(graph, connection.execute(select(edge.source_id, edge.target_id, edge.kind)))
    return graph


def of_function(connection: Connection, name: str) -> networkx.MultiDiGraph[int]:
    """All instances of a function (a qualified name, or the end of one), and the edges between their nodes.

    Raises
    ------
    UsageError
        When no function has that name.
    """
    known = schema.function.c.name
    escaped = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    named = select(schema.function.c.id).where(or_(known == name, known.like(f"%::{escaped}", escape="\\")))
    function_ids = list(connection.execute(named).scalars())
    if not function_ids:
        raise UsageError(f"there is no function {name}", 'opscanner sql "SELECT name FROM functions"')
    instance = schema.function_instance.c
    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    for chunk in chunks(function_ids):
        _add_nodes(graph, connection.execute(_node_query().where(instance.function_id.in_(chunk))))
    _connect(graph, connection)
    return graph


def around_casts(connection: Connection, cast_ids: Iterable[int], *, radius: int = 3) -> networkx.MultiDiGraph[int]:
    """Nodes that at most ``radius`` edges, in either direction, part from a cast, and the edges between them."""
    node, edge = schema.node.c, schema.edge.c
    seen: set[int] = set()
    for chunk in chunks(list(cast_ids)):
        seen.update(connection.execute(select(node.id).where(node.cast_site_id.in_(chunk))).scalars())
    frontier = set(seen)
    for _ in range(radius):
        reached: set[int] = set()
        for chunk in chunks(sorted(frontier)):
            reached.update(connection.execute(select(edge.target_id).where(edge.source_id.in_(chunk))).scalars())
            reached.update(connection.execute(select(edge.source_id).where(edge.target_id.in_(chunk))).scalars())
        frontier = reached - seen
        seen |= frontier
    graph: networkx.MultiDiGraph[int] = networkx.MultiDiGraph()
    for chunk in chunks(sorted(seen)):
        _add_nodes(graph, connection.execute(_node_query().where(node.id.in_(chunk))))
    _connect(graph, connection)
    return graph


def write_graphml(graph: networkx.MultiDiGraph[int], stream: IO[bytes]) -> None:
    """GraphML, which Gephi, yEd, Cytoscape and igraph read."""
    networkx.write_graphml(graph, stream)


def node_link(graph: networkx.MultiDiGraph[int]) -> dict[str, Any]:
    """networkx's node-link form: ``{"nodes": [{"id": ...}], "edges": [{"source": ..., "target": ...}], ...}``."""
    data: dict[str, Any] = networkx.node_link_data(graph, edges="edges")
    return data


def _node_query() -> Select[Any]:
    node, instance, cast = schema.node.c, schema.function_instance, schema.cast_site
    function, file = schema.function, schema.source_file
    return (
        select(
            node.id, node.kind, node.operation, node.format, cast.c.from_format, function.c.name,
            instance.c.bindings, file.c.path, node.line, node.column,
        )
        .join(instance, instance.c.id == node.instance_id)
        .join(function, function.c.id == instance.c.function_id)
        .join(file, file.c.id == node.file_id)
        .outerjoin(cast, cast.c.id == node.cast_site_id)
    )  # fmt: skip


def _add_nodes(graph: networkx.MultiDiGraph[int], rows: Iterable[Any]) -> None:
    graph.add_nodes_from(
        # GraphML knows no None.
        (
            row[0],
            {name: "" if value is None else value for name, value in zip(_ATTRIBUTES, row[1:], strict=True)},
        )
        for row in rows
    )


def _add_edges(graph: networkx.MultiDiGraph[int], rows: Iterable[Any]) -> None:
    for source, target, kind in rows:
        graph.add_edge(source, target, key=kind, kind=kind)


def _connect(graph: networkx.MultiDiGraph[int], connection: Connection) -> None:
    """Adds the edges between the nodes that the graph has."""
    edge = schema.edge.c
    for chunk in chunks(list(graph)):
        rows = connection.execute(select(edge.source_id, edge.target_id, edge.kind).where(edge.source_id.in_(chunk)))
        _add_edges(graph, [row for row in rows if row[1] in graph])
