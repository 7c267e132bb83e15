"""``opscanner sql``."""

from __future__ import annotations

import sys

import click

from opscanner.cli.options import db_option, format_option, render


@click.command("sql")
@click.argument("query")
@db_option
@click.option(
    "--limit", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Print at most so many rows."
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0.01), help="Give up after so many seconds.")
@format_option
def command(query: str, db: str | None, limit: int, timeout_s: float | None, format_: str) -> None:
    """Run QUERY, a SELECT, and print its rows; `-` reads it from stdin.

    Read only by construction: the database refuses to write. `opscanner schema` lists tables, views and columns.
    """
    from opscanner import api

    text = sys.stdin.read() if query == "-" else query
    result = api.sql(text, db=db, limit=limit, timeout_s=timeout_s)
    objects = (dict(zip(result.columns, row, strict=True)) for row in result.rows)
    render(format_, result.columns, result.rows, objects)
    if result.truncated:
        click.echo(f"only the first {len(result.rows)} rows: --limit", err=True)
