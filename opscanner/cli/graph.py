"""``opscanner graph``."""

from __future__ import annotations

import json
from typing import BinaryIO

import click

from opscanner.cli.options import db_option


@click.command("graph")
@db_option
@click.option("--function", metavar="NAME", help="Only this function: a qualified name, or the end of one.")
@click.option("--cast", metavar="CAST", help="Only what is near a cast: an id, or FILE:LINE.")
@click.option("--radius", type=click.IntRange(min=0), default=3, show_default=True, help="Edges around the cast.")
@click.option("--format", "format_", type=click.Choice(("graphml", "json")), default="graphml", show_default=True)
@click.option("--output", type=click.File("wb", lazy=True), default="-", help="File to write.  [default: stdout]")
def command(
    db: str | None, function: str | None, cast: str | None, radius: int, format_: str, output: BinaryIO
) -> None:
    """Export the graph: nodes are floating-point operations, edges say which value flows where.

    GraphML is read by Gephi, yEd, Cytoscape and networkx; JSON is networkx's node-link form.
    """
    from opscanner import api

    found = api.graph(db=db, function=function, cast=cast, radius=radius)
    if format_ == "graphml":
        api.write_graphml(found, output)
    else:
        output.write(json.dumps(api.node_link(found)).encode() + b"\n")
    click.echo(f"{found.number_of_nodes()} nodes, {found.number_of_edges()} edges", err=True)
