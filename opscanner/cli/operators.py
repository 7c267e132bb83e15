"""``opscanner operators``."""

from __future__ import annotations

import sys

import click

from opscanner.cli.options import db_option, format_option, render

COLUMNS = (
    "framework", "name", "direction", "module_group", "registrations", "functions", "casts", "arithmetic_16bit",
)  # fmt: skip
RATE_COLUMNS = (
    "framework",
    "version",
    "cast_sites",
    "attributed_cast_sites",
    "rate",
    "functions",
    "attributed_functions",
)
FUNCTION_COLUMNS = (
    "framework", "operator", "through", "device", "function", "file", "line", "distance", "confidence", "formats",
    "casts", "arithmetic_16bit", "path",
)  # fmt: skip


@click.command("operators")
@click.argument("name", required=False)
@click.option("--device", type=click.Choice(("cpu", "cuda")), help="Only what serves this device.")
@click.option("--framework", metavar="NAME", help="Only this framework.")
@click.option("--rate", is_flag=True, help="Show which part of the cast sites reaches an operator.")
@click.option(
    "--conclude", is_flag=True, help="Conclude the operators anew first, from sources where they were scanned."
)
@db_option
@format_option
def command(
    name: str | None,
    device: str | None,
    framework: str | None,
    rate: bool,
    conclude: bool,
    db: str | None,
    format_: str,
) -> None:
    """List operators, or show what serves the operator NAME and on what evidence.

    `elu`, `elu_` and `elu.out` are one operator; gradients (`elu_backward`, `EluGrad`) are operators of their own.
    Functions that serve an operator are those reached from its registrations, and those of operators that it calls.
    """
    from opscanner import api
    from opscanner.report import operators as report

    if conclude:
        for warning in api.conclude_operators(db=db, log=lambda message: click.echo(message, err=True)):
            click.echo(f"warning: {warning}", err=True)
    if rate:
        rates = api.attribution_rates(db=db)
        cells = ((*row[:4], f"{row.rate:.4f}", *row[4:6]) for row in rates)
        render(format_, RATE_COLUMNS, cells, (row.as_json() for row in rates))
    elif name is None:
        rows = api.operators(db=db, framework=framework, device=device)
        table = (tuple(getattr(row, column) for column in COLUMNS) for row in rows)
        render(format_, COLUMNS, table, (row.as_json() for row in rows))
        if not rows:
            click.echo("no operators: they are concluded of checkouts of PyTorch and TensorFlow", err=True)
    else:
        found = api.operator(name, db=db, framework=framework, device=device)
        if format_ == "table":
            report.render(found, sys.stdout)
            return
        lines = (
            (
                one.operator.framework, one.operator.name, row.through, row.device, row.function, row.file, row.line,
                row.distance, row.confidence, " ".join(row.formats), len(row.casts), len(row.arithmetic_16bit),
                " > ".join(f"{step.what} ({step.file}:{step.line})" for step in row.path),
            )
            for one in found
            for row in one.functions
        )  # fmt: skip
        render(format_, FUNCTION_COLUMNS, lines, (one.as_json() for one in found))
