"""``opscanner test``."""

from __future__ import annotations

import sys

import click

from opscanner.cli.options import db_option, format_option, render


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


@click.command("test")
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@click.option("--all", "everything", is_flag=True, help="Every operator of the catalog.")
@click.option("--from-findings", is_flag=True, help="The operators that findings in the database suspect, worst first.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="With --from-findings: the N worst.")
@click.option(
    "--framework", default="pytorch,tensorflow", show_default=True, metavar="NAMES", callback=_names,
    help="Frameworks, separated by commas.",
)  # fmt: skip
@click.option(
    "--formats", default="float16,bfloat16", show_default=True, metavar="NAMES", callback=_names,
    help="Formats, separated by commas.",
)  # fmt: skip
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda or cuda:N.")
@click.option("--backward", is_flag=True, help="Gradients beside the operators. (--all always runs them.)")
@click.option("--strategy", "strategies", multiple=True, metavar="ID", help="Only these input strategies. Repeatable.")
@click.option("--laws", is_flag=True, help="Also hold results against each other where a law says how they agree.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random inputs.")
@click.option(
    "--budget", type=click.FloatRange(min=0.01), default=1.0, show_default=True, metavar="X",
    help="Scale the number of inputs, and of calls that the search makes, by X.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Worker processes.  [default: cores]")
@click.option("--time-limit", type=float, default=120.0, show_default=True, metavar="S", help="Seconds an operator.")
@click.option("--memory-limit", type=int, default=6144, show_default=True, metavar="MIB", help="Memory of a worker.")
@click.option("--every-strategy", is_flag=True, help="A line for each strategy, not for each operator's worst.")
@click.option("--no-store", is_flag=True, help="Do not write to the database.")
@click.option("--resume", is_flag=True, help="Go on with the very last campaign in the database, if it did not end.")
@format_option
@db_option
def command(
    operators: tuple[str, ...],
    everything: bool,
    from_findings: bool,
    top: int | None,
    framework: tuple[str, ...],
    formats: tuple[str, ...],
    device: str,
    backward: bool,
    strategies: tuple[str, ...],
    laws: bool,
    seed: int,
    budget: float,
    jobs: int | None,
    time_limit: float,
    memory_limit: int,
    every_strategy: bool,
    no_store: bool,
    resume: bool,
    format_: str,
    db: str | None,
) -> int:
    """Run operators on inputs that find things, and measure them against correctly rounded results.

    OPERATOR is an id of the catalog, or an operator's name in a framework. Prints the worst of each operator and
    format; everything measured is kept in the database.
    """
    from opscanner import api
    from opscanner.report import csv_format
    from opscanner.report import measurements as report

    found = api.test(
        operators,
        everything=everything,
        from_findings=from_findings,
        top=top,
        frameworks=framework,
        formats=formats,
        device=device,
        backward=backward,
        strategies=strategies or None,
        laws=laws,
        seed=seed,
        budget=budget,
        jobs=jobs,
        time_limit_s=time_limit,
        memory_limit_mib=memory_limit,
        store=not no_store,
        resume=resume,
        db=db,
        progress=lambda text: click.echo(text, err=True),
    )
    shown = found.measurements if every_strategy or format_ == "json" else report.worst_rows(found.measurements)
    if format_ == "csv":
        csv_format.render(report.FIELDS, report.texts(shown), sys.stdout)
    else:
        render(format_, report.COLUMNS, report.rows(shown), (one.as_json() for one in shown))
    click.echo(found.summary_line(), err=True)
    return 3 if found.skipped else 0
