"""``opscanner diff``."""

from __future__ import annotations

import click

from opscanner.cli.options import db_option, format_option, render


@click.command("diff")
@click.argument("before")
@click.argument("after")
@click.option("--operator", metavar="NAME", help="Only this operator.")
@click.option("--device", type=click.Choice(("cuda", "cpu")), default="cuda", show_default=True)
@db_option
@format_option
def command(before: str, after: str, operator: str | None, device: str, db: str | None, format_: str) -> int:
    """List operators that gained or lost an upcast between two versions of a framework.

    BEFORE and AFTER name scans: `pytorch@1.13.1` in the database, or a database that holds one scan.
    """
    from opscanner import api
    from opscanner.report import version_diff as report

    found = api.diff(before, after, operator=operator, device=device, db=db)
    render(format_, report.COLUMNS, report.rows(found), (report.as_json(found, one) for one in found.changes))
    changed = {(one.operator, one.change.value) for one in found.changes}
    counts = {word: len({name for name, change in changed if change == word}) for word in ("gained", "lost")}
    click.echo(
        f"{found.compared} operators and formats compared: {counts['gained']} operators gained an upcast, "
        f"{counts['lost']} lost one",
        err=True,
    )
    for words, count in found.left_out.items():
        click.echo(f"  {count:>5}  not compared: {words}", err=True)
    return 3 if found.left_out else 0
