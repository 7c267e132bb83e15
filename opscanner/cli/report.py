"""``opscanner report``: reports of what was measured."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import click

from opscanner.cli.options import db_option, render


@click.group("report")
def command() -> None:
    """Write reports of what was measured."""


@command.command("faults")
@click.option("--campaign", type=int, metavar="N", help="A campaign in the database.  [default: the last]")
@click.option("--framework", metavar="NAME", help="Only this framework.")
@click.option("--operator", "operators", multiple=True, metavar="ID", help="Only this operator. Repeatable.")
@click.option("--output", metavar="DIR", help="Write a page and a script for each cause there.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Worker processes.  [default: cores]")
@click.option("--time-limit", type=float, default=120.0, show_default=True, metavar="S", help="Seconds a reduction.")
@click.option(
    "--scale", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True, metavar="X",
    help="So many times the usual number of trials to make an input small.",
)  # fmt: skip
@click.option(
    "--format", "format_", type=click.Choice(("markdown", "table", "json", "csv")), default="markdown",
    show_default=True, help="Output format.",
)  # fmt: skip
@db_option
def faults(
    campaign: int | None,
    framework: str | None,
    operators: tuple[str, ...],
    output: str | None,
    jobs: int | None,
    time_limit: float,
    scale: float,
    format_: str,
    db: str | None,
) -> int:
    """Make faulty measurements small, group them by cause, and write reports that could be filed upstream."""
    from opscanner import api
    from opscanner.report import faults as report

    found, lost = api.faults(
        campaign=campaign,
        framework=framework,
        operators=operators,
        jobs=jobs,
        time_limit_s=time_limit,
        scale=scale,
        db=db,
        progress=lambda text: click.echo(text, err=True),
    )
    if output is not None:
        from opscanner.fault_reports import write_pages

        for page in write_pages(found, Path(output)):
            click.echo(str(page), err=True)
    if format_ == "markdown":
        shown = [] if output is not None else found
        for one in shown:
            report.render_markdown(one, sys.stdout)
    else:
        render(format_, report.COLUMNS, report.rows(found), (report.as_json(one) for one in found))
    for why, rows in itertools.groupby(sorted(lost, key=lambda one: one.why), key=lambda one: one.why):
        named = [f"{one.operator} ({one.framework} {one.format})" for one in rows]
        click.echo(f"{len(named)} {why}: {', '.join(dict.fromkeys(named))}", err=True)
    faults_in_all = sum(len(one.story.faults) for one in found)
    click.echo(f"{faults_in_all} faults of {len(found)} causes; {len(lost)} faulty measurements gave none", err=True)
    return 3 if lost or any(one.run.code != 1 for one in found) else 0
