"""``opscanner experiment``: the two published experiments with running models."""

from __future__ import annotations

import click

from opscanner.cli.options import format_option, render


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _numbers(context: click.Context, parameter: click.Parameter, value: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in _names(context, parameter, value))
    except ValueError:
        raise click.BadParameter(f"{value!r} are not numbers separated by commas") from None
    if not numbers or not all(0 < number < 1e6 for number in numbers):
        raise click.BadParameter("numbers above 0 and below a million, separated by commas")
    return numbers


def _lengths(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    numbers = _numbers(context, parameter, value)
    if not all(number.is_integer() for number in numbers):
        raise click.BadParameter("lengths are whole numbers of words")
    return tuple(int(number) for number in numbers)


@click.group("experiment")
def command() -> None:
    """Make the published experiments with running models again."""


@command.command("operators")
@click.option(
    "--model", "models", default="", metavar="NAMES", callback=_names,
    help="Models, separated by commas; another word lists them.  [default: all]",
)  # fmt: skip
@click.option(
    "--in", "formats", default="float32,bfloat16,float16", show_default=True, metavar="FORMATS", callback=_names,
    help="Formats to train in.",
)  # fmt: skip
@click.option(
    "--noise", type=click.Choice(("both", "fumi", "ulp")), default="both", show_default=True,
    help="FuMi's constants, one ULP up or down, or one after the other.",
)  # fmt: skip
@click.option(
    "--pass", "direction", type=click.Choice(("forward", "backward", "both")), default="forward", show_default=True,
    help="Which pass the table shows.",
)  # fmt: skip
@click.option("--steps", type=click.IntRange(min=1), default=3, show_default=True, help="Training steps.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of weights, data and noise.")
@click.option("--scale", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Multiplies widths.")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Operators a ranking shown.")
@format_option
def operators(
    models: tuple[str, ...],
    formats: tuple[str, ...],
    noise: str,
    direction: str,
    steps: int,
    seed: int,
    scale: float,
    top: int,
    format_: str,
) -> int:
    """Train small models, run every operator again on perturbed inputs, and rank the operators that fail.

    Exits with 3 when a model does not run in a format.
    """
    from opscanner import api
    from opscanner.report import experiments as report

    found = api.operator_experiment(
        models,
        formats=formats,
        noises=("fumi", "ulp") if noise == "both" else (noise,),
        steps=steps,
        seed=seed,
        scale=scale,
        progress=lambda text: click.echo(text, err=True),
    )
    if format_ == "csv":
        render(format_, report.OPERATOR_CSV_COLUMNS, report.operator_csv_rows(found), ())
    else:
        passes = ("forward", "backward") if direction == "both" else (direction,)
        render(format_, report.OPERATOR_COLUMNS, report.operator_rows(found, passes, top), [found.as_json()])
    for line in report.operator_lines(found):
        click.echo(line, err=True)
    return 3 if found.skipped else 0


@command.command("attention")
@click.option(
    "--in", "formats", default="float32,float16,bfloat16", show_default=True, metavar="FORMATS", callback=_names,
    help="Formats of the model.",
)  # fmt: skip
@click.option(
    "--length", "lengths", default="512", show_default=True, metavar="NUMBERS", callback=_lengths,
    help="Words in a sequence.",
)  # fmt: skip
@click.option(
    "--query-scale", "scales", default="1,4", show_default=True, metavar="NUMBERS", callback=_numbers,
    help="Factors to the weights of queries and keys.",
)  # fmt: skip
@click.option("--steps", type=click.IntRange(min=1), default=4, show_default=True, help="Training steps looked at.")
@click.option("--fuzz", type=click.IntRange(min=1), default=4, show_default=True, help="Tests of each call.")
@click.option("--noise", type=click.Choice(("ulp", "fumi")), default="ulp", show_default=True, help="Perturbations.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of weights, data and noise.")
@format_option
def attention(
    formats: tuple[str, ...],
    lengths: tuple[int, ...],
    scales: tuple[float, ...],
    steps: int,
    fuzz: int,
    noise: str,
    seed: int,
    format_: str,
) -> int:
    """Hold implementations of attention against each other in a small Llama, and on random tensors.

    Exits with 3 when an implementation does not run in a format.
    """
    from opscanner import api
    from opscanner.report import experiments as report

    found = api.attention_experiment(
        formats=formats,
        lengths=lengths,
        scales=scales,
        steps=steps,
        fuzz=fuzz,
        noise=noise,
        seed=seed,
        progress=lambda text: click.echo(text, err=True),
    )
    if format_ == "csv":
        render(format_, report.ATTENTION_CSV_COLUMNS, report.attention_csv_rows(found), ())
    else:
        render(format_, report.ATTENTION_COLUMNS, report.attention_rows(found), [found.as_json()])
    for line in report.attention_lines(found):
        click.echo(line, err=True)
    return 3 if found.skipped else 0
