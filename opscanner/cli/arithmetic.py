"""``opscanner arithmetic``."""

from __future__ import annotations

import click

from opscanner.cli.options import db_option, format_option, place_options, render

COLUMNS = (
    "framework", "file", "line", "column", "function", "operation", "category", "format", "accumulator", "pass",
)  # fmt: skip
CATEGORIES = ("arith", "math", "functor", "reduction", "atomic", "compare", "select")


@click.command("arithmetic")
@db_option
@place_options
@click.option("--in", "--from", "in_format", metavar="FORMAT", help="Format it is computed in: float16 ...")
@click.option("--accumulator", "--to", metavar="FORMAT", help="For reductions and atomics, the accumulator's format.")
@click.option("--category", type=click.Choice(CATEGORIES), help="Only operations of this kind.")
@click.option("--operation", metavar="NAME", help="+, exp ...")
@format_option
def command(
    db: str | None,
    operator: str | None,
    file: str | None,
    function: str | None,
    framework: str | None,
    in_format: str | None,
    accumulator: str | None,
    category: str | None,
    operation: str | None,
    format_: str,
) -> None:
    """List places where something is computed, with the format it is computed in.

    An operator without precision tuning has no cast to find: `--in float16 --category arith` shows what stays in
    16 bit.
    """
    from opscanner import api

    rows = api.arithmetic(
        db=db, operator=operator, file=file, function=function, framework=framework, format=in_format,
        accumulator=accumulator, category=category, operation=operation,
    )  # fmt: skip
    cells = (
        (
            row.framework, row.file, row.line, row.column, row.function, row.operation, row.category, row.format,
            row.accumulator, row.reached_from,
        )
        for row in rows
    )  # fmt: skip
    render(format_, COLUMNS, cells, (row.as_json() for row in rows))
