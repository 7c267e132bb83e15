"""``opscanner casts``."""

from __future__ import annotations

import click

from opscanner.cli.options import db_option, format_option, place_options, render

COLUMNS = (
    "id", "framework", "file", "line", "column", "function", "from", "to", "direction", "form", "constant",
    "written_type", "pass",
)  # fmt: skip


@click.command("casts")
@db_option
@place_options
@click.option("--from", "from_format", metavar="FORMAT", help="Format before: float16, bfloat16, int32 ...")
@click.option("--to", "to_format", metavar="FORMAT", help="Format after.")
@format_option
def command(
    db: str | None,
    operator: str | None,
    file: str | None,
    function: str | None,
    framework: str | None,
    from_format: str | None,
    to_format: str | None,
    format_: str,
) -> None:
    """List cast sites: places where a floating-point format changes.

    One row for each (file, line, column, from, to, form, function). `pass` is `device` where device functions reach
    the cast, otherwise `host`; `constant` marks casts of literals, which compilers fold.
    """
    from opscanner import api

    rows = api.casts(
        db=db, operator=operator, file=file, function=function, framework=framework,
        from_format=from_format, to_format=to_format,
    )  # fmt: skip
    cells = (
        (
            row.id, row.framework, row.file, row.line, row.column, row.function, row.from_format, row.to_format,
            row.direction, row.form, row.constant, row.written_type, row.reached_from,
        )
        for row in rows
    )  # fmt: skip
    render(format_, COLUMNS, cells, (row.as_json() for row in rows))
