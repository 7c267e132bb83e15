"""``opscanner study``."""

from __future__ import annotations

import click

from opscanner.cli.options import format_option, render


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


@click.command("study")
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@click.option("--tensors", type=click.IntRange(min=1), default=20000, show_default=True, help="Random tensors a seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="How many seeds to try.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option(
    "--formats", default="bfloat16", show_default=True, metavar="NAMES", callback=_names,
    help="bfloat16, float16, float32, separated by commas.",
)  # fmt: skip
@click.option(
    "--framework", default="tensorflow,pytorch", show_default=True, metavar="NAMES", callback=_names,
    help="Frameworks, separated by commas.",
)  # fmt: skip
@click.option("--as-published", is_flag=True, help="The study's own settings: its seed, shapes and default attributes.")
@click.option(
    "--alone", type=click.IntRange(min=0), default=100, show_default=True, metavar="N",
    help="Run N tensors of the first seed one by one as well, and compare.",
)  # fmt: skip
@click.option("--strategies", is_flag=True, help="Compare ways to choose inputs, each with that many tensors.")
@click.option("--device", default="cpu", show_default=True, metavar="NAME", help="cpu, cuda or cuda:N.")
@format_option
def command(
    operators: tuple[str, ...],
    tensors: int,
    seeds: int,
    seed: int,
    formats: tuple[str, ...],
    framework: tuple[str, ...],
    as_published: bool,
    alone: int,
    strategies: bool,
    device: str,
    format_: str,
) -> int:
    """Run the study's experiment again: seven operators and their gradients on random tensors.

    OPERATOR is selu, elu, softplus, leaky_relu, log_softmax, logcumsumexp or floor_divide, or a gradient (selu_grad);
    all by default. Prints the largest errors of each framework's results, with the published figures beside them.
    """
    from opscanner import api
    from opscanner.errors import UsageError
    from opscanner.report import study as report

    if strategies and as_published:
        raise UsageError("--strategies runs in honest settings only", "leave out --as-published")

    def progress(text: str) -> None:
        click.echo(text, err=True)

    if strategies:
        compared = api.study_strategies(
            operators,
            tensors=tensors,
            seeds=range(seed, seed + seeds),
            formats=formats,
            frameworks=framework,
            device=device,
            progress=progress,
        )
        if format_ == "csv":
            render(format_, report.STRATEGY_CSV_COLUMNS, report.strategy_csv_rows(compared), ())
        else:
            objects = (one.as_json() for one in compared)
            render(format_, report.STRATEGY_COLUMNS, report.strategy_rows(compared), objects)
        return 0
    found = api.study(
        operators,
        tensors=tensors,
        seeds=range(seed, seed + seeds),
        formats=formats,
        frameworks=framework,
        as_published=as_published,
        alone=alone,
        device=device,
        progress=progress,
    )
    if format_ == "csv":
        render(format_, report.CSV_COLUMNS, report.csv_rows(found), ())
    else:
        render(format_, report.COLUMNS, report.rows(found), (one.as_json() for one in found))
    for line in report.remarks(found):
        click.echo(line, err=True)
    return 0
