"""``opscanner replay``."""

from __future__ import annotations

import json
import sys

import click


@click.command("replay")
@click.argument("file", metavar="FILE")
@click.option("--device", default="cpu", show_default=True, help="Where the operator runs: cpu, cuda, cuda:N.")
@click.option("--seeds", type=click.IntRange(min=1), default=8, show_default=True, help="Perturbations of the inputs.")
@click.option(
    "--trials", type=click.IntRange(min=0), default=250, show_default=True, metavar="N",
    help="Calls that making the inputs small may take; 0 leaves them as they are.",
)  # fmt: skip
@click.option("--script", is_flag=True, help="Print a stand-alone script of the smallest inputs instead.")
@click.option(
    "--write-minimized", type=click.Path(dir_okay=False), metavar="FILE", help="Write the smallest inputs to a file."
)
@click.option(
    "--format", "format_", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="Output format.",
)  # fmt: skip
def command(
    file: str, device: str, seeds: int, trials: int, script: bool, write_minimized: str | None, format_: str
) -> int:
    """Call an operator again on inputs that opscanner watch --save kept.

    Says what the watch saw, how far the result is from those of moved inputs and wider formats and from the exact one,
    and makes the inputs small. FILE is data; nothing in it is executed but the operator that it names.
    """
    from opscanner import api
    from opscanner.report import replayed as report
    from opscanner.report import table

    found = api.replay(file, device=device, seeds=seeds, trials=trials)
    if write_minimized is not None:
        api.write_smallest(found, write_minimized)
        click.echo(f"written: {write_minimized}", err=True)
    if script:
        click.echo(api.replay_script(found), nl=False)
    elif format_ == "json":
        click.echo(json.dumps(report.as_json(found), indent=2))
    else:
        for line in report.head_lines(found):
            click.echo(line)
        click.echo()
        table.render(report.COLUMNS, report.rows(found), sys.stdout)
        click.echo()
        for line in report.lines(found):
            click.echo(line)
    return 0
