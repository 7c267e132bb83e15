"""``opscanner testlist``."""

from __future__ import annotations

import io
from pathlib import Path

import click

from opscanner.cli.options import db_option
from opscanner.errors import UsageError


@click.command("testlist")
@click.option(
    "--from-findings", is_flag=True, required=True, help="List what findings suspect (the one source so far)."
)
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the N worst.")
@click.option("--framework", metavar="NAME", help="A scan: pytorch, or pytorch@2.6.  [default: the newest of each]")
@click.option("--pattern", metavar="ID", help="Only findings of this pattern.")
@click.option("--device", type=click.Choice(("cuda", "cpu")), default="cuda", show_default=True)
@click.option("--output", metavar="FILE", help="Write there instead of to stdout.")
@click.option(
    "--format", "format_", type=click.Choice(("table", "json", "csv", "pytest")), default="table", show_default=True
)
@db_option
def command(
    from_findings: bool,
    top: int | None,
    framework: str | None,
    pattern: str | None,
    device: str,
    output: str | None,
    format_: str,
    db: str | None,
) -> int:
    """List operators worth a precision test: formats, reasons, and inputs that would show the loss.

    With --format pytest a file of tests that runs by itself where torch or tensorflow is installed.
    """
    from opscanner import api
    from opscanner.operators.testlist import without_call
    from opscanner.report import csv_format, json_format, table
    from opscanner.report import testlist as report

    found = api.testlist(framework=framework, pattern=pattern, device=device, top=top, db=db)
    text = io.StringIO()
    if format_ == "pytest":
        report.render_pytest(found, text)
    elif format_ == "json":
        json_format.render((report.as_json(one) for one in found), text)
    else:
        (csv_format if format_ == "csv" else table).render(report.COLUMNS, report.rows(found), text)
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        try:
            Path(output).write_text(text.getvalue(), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"cannot write {output}: {error.strerror}", "name a file in a folder that is there"
            ) from error
    missing = without_call(found)
    scanned = ", ".join(sorted({f"{one.framework}@{one.version}" for one in found})) or "no scan"
    uncalled = sum(missing.values())
    silent = sum(bool(one.call) and not one.recipes for one in found)
    click.echo(
        f"{len(found)} operators and formats of {scanned}, {uncalled} without a known call, "
        f"{silent} whose known call cannot show the loss",
        err=True,
    )
    return 3 if missing else 0
