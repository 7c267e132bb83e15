"""``opscanner coverage``."""

from __future__ import annotations

import sys

import click

from opscanner.cli.options import db_option, format_option, render


@click.command("coverage")
@db_option
@click.option("--units", is_flag=True, help="List every translation unit instead of the totals.")
@click.option("--status", type=click.Choice(("ok", "errors", "skipped")), help="With --units: only these.")
@format_option
def command(db: str | None, units: bool, status: str | None, format_: str) -> None:
    """Show how much of each source tree was seen, and what was not, with the reasons."""
    from opscanner import api
    from opscanner.report import coverage, json_format
    from opscanner.results import UnitRow

    if units or status:
        rows = api.units(db=db, status=status)
        render(format_, UnitRow._fields, rows, (row._asdict() for row in rows))
        return
    reports = api.coverage(db=db)
    stream = sys.stdout
    if format_ == "table":
        coverage.render(reports, stream)
    elif format_ == "json":
        json_format.render((report.as_json() for report in reports), stream)
    else:
        objects = [report.as_json() for report in reports]
        plain = [key for key, value in objects[0].items() if not isinstance(value, dict)]
        render("csv", plain, [[item[key] for key in plain] for item in objects], ())
