"""``opscanner chains``."""

from __future__ import annotations

import sys

import click

from opscanner.cli.options import db_option, render

COLUMNS = (
    "cast", "instance", "way", "step", "parent", "depth", "flow", "kind", "operation", "from", "format", "function",
    "bindings", "file", "line", "column", "source",
)  # fmt: skip


@click.command("chains")
@click.argument("cast")
@db_option
@click.option(
    "--depth", type=click.IntRange(min=1), default=8, show_default=True, help="Operations in a row, each way."
)
@click.option("--steps", type=click.IntRange(min=1), default=40, show_default=True, help="Operations in all, each way.")
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Function instances (bindings of formats) to follow for each cast.",
)
@click.option(
    "--format", "format_", type=click.Choice(("text", "table", "json", "csv")), default="text", show_default=True,
    help="Output format; text draws, the others list every step.",
)  # fmt: skip
def command(cast: str, db: str | None, depth: int, steps: int, instances: int, format_: str) -> None:
    """Draw the def-use chains through CAST: above it where its value comes from, below it where it goes.

    CAST is an id that `opscanner casts` prints, or FILE:LINE (FILE may be the end of a path). Source lines are shown
    while the scanned files are there and as long as they were.
    """
    from opscanner import api
    from opscanner.report.source_lines import SourceLines

    found = api.chains(cast, db=db, depth=depth, steps=steps, instances=instances)
    if format_ == "text":
        sys.stdout.write(api.draw_chains(found))
        return
    rows = [
        (
            chain.cast.id, chain.bindings, way, index, step.parent, step.depth, step.edge, step.kind, step.operation,
            step.from_format, step.format, step.function, step.bindings, step.file, step.line, step.column,
            lines.line(step.file, step.line),
        )
        for chain, lines in ((chain, SourceLines(chain.root, chain.sizes)) for chain in found)
        for way, steps_ in (("origin", chain.origins), ("sink", chain.sinks))
        for index, step in enumerate(steps_)
    ]  # fmt: skip
    render(format_, COLUMNS, rows, (dict(zip(COLUMNS, row, strict=True)) for row in rows))
