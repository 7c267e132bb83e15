"""``opscanner bisect-precision``."""

from __future__ import annotations

import click

from opscanner.cli.options import format_option, render


@click.command("bisect-precision")
@click.argument("target", metavar="FILE.py:FUNCTION")
@click.option("--tolerance", type=float, metavar="X", help="How close the output must come.  [default: 1, for ulp]")
@click.option(
    "--metric", type=click.Choice(("ulp", "relative", "norm")), default="ulp", show_default=True,
    help="ulp: of the model's format, at the output's largest element; relative: largest relative error; norm: of the "
    "difference, by the norm of the reference.",
)  # fmt: skip
@click.option("--to", metavar="FORMAT", help="What layers are upcast to.  [default: the format one wider]")
@click.option(
    "--depth", type=click.IntRange(min=0), metavar="N",
    help="Modules more than N steps below the model count as part of those above.  [default: each by itself]",
)  # fmt: skip
@click.option(
    "--max-runs", type=click.IntRange(min=1), default=500, show_default=True, metavar="N",
    help="Stop searching for a smaller set after N sets.",
)  # fmt: skip
@format_option
def command(
    target: str,
    tolerance: float | None,
    metric: str,
    to: str | None,
    depth: int | None,
    max_runs: int,
    format_: str,
) -> int:
    """Find which layers of a torch model must be upcast to come near its float64 run.

    FILE.py (or package.module) is imported, so the code in it is executed, and FUNCTION is called without arguments:
    it returns (model, inputs). The layers are printed, those that must be upcast first, then by what they cost.
    """
    from opscanner import api
    from opscanner.report import bisection as report

    found = api.bisect_precision(
        target,
        tolerance=tolerance,
        metric=metric,
        to=to,
        depth=depth,
        max_runs=max_runs,
        progress=lambda text: click.echo(text, err=True),
    )
    if format_ == "csv":
        render(format_, report.CSV_COLUMNS, report.csv_rows(found), ())
    else:
        render(format_, report.COLUMNS, report.rows(found), [report.as_json(found)])
    for line in report.lines(found):
        click.echo(line, err=True)
    return 3 if any(layer.refused for layer in found.layers) else 0
