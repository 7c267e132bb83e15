"""``opscanner training-deviation``."""

from __future__ import annotations

from pathlib import Path

import click

from opscanner.cli.options import format_option, render

_INTERRUPTED = 130


def _names(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


@click.command("training-deviation")
@click.option(
    "--framework", type=click.Choice(("pytorch", "tensorflow")), default="pytorch", show_default=True,
    help="Where to train.",
)  # fmt: skip
@click.option("--model", default="cnn", show_default=True, metavar="NAME", help="Which model; another word lists them.")
@click.option(
    "--operator", "operators", default="", metavar="NAMES", callback=_names,
    help="Operators to change, one a training, separated by commas.  [default: all that the model calls]",
)  # fmt: skip
@click.option("--to", "to_format", default="bfloat16", show_default=True, metavar="FORMAT", help="What to compute in.")
@click.option("--upcast", is_flag=True, help="Beside each, the operator that computes wider and rounds its results.")
@click.option("--steps", type=click.IntRange(min=1), default=20, show_default=True, help="Training steps.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="How many seeds.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The first seed.")
@click.option("--scale", type=click.FloatRange(min=0.1), default=1.0, show_default=True, help="Multiplies widths.")
@click.option("--learning-rate", type=float, metavar="X", help="Instead of the model's own.")
@click.option(
    "--save", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Add every finished seed to FILE, and read those that it holds.",
)  # fmt: skip
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A .png, .svg or .pdf.")
@format_option
def command(
    framework: str,
    model: str,
    operators: tuple[str, ...],
    to_format: str,
    upcast: bool,
    steps: int,
    seeds: int,
    seed: int,
    scale: float,
    learning_rate: float | None,
    save: Path | None,
    plot: Path | None,
    format_: str,
) -> int:
    """Train a small model twice, one operator computed otherwise, and print how far the weights drift apart.

    Beside each operator stand two trainings that say what a difference is worth: the whole model in float64, and one
    weight moved by one ULP. The first 20 steps rank operators; what comes later measures chaos.
    """
    from opscanner import api
    from opscanner.errors import UsageError
    from opscanner.report import training_deviation as report

    if plot is not None:
        if plot.suffix not in (".png", ".svg", ".pdf"):
            raise UsageError(f"--plot {plot}: unknown kind of picture", "end the name in .png, .svg or .pdf")
        api.check_drawing()

    def progress(text: str) -> None:
        click.echo(text, err=True)

    courses = []
    interrupted = False
    try:
        for of_seed in api.training_deviation(
            framework=framework,
            model=model,
            operators=operators,
            to_format=to_format,
            upcast=upcast,
            steps=steps,
            seeds=range(seed, seed + seeds),
            scale=scale,
            learning_rate=learning_rate,
            save=save,
            progress=progress,
        ):
            courses.extend(of_seed)
    except KeyboardInterrupt:
        interrupted = True
        progress(f"interrupted: {len({course.seed for course in courses})} of {seeds} seeds are finished")
        if not courses:
            return _INTERRUPTED
    if format_ == "csv":
        render(format_, report.CSV_COLUMNS, report.csv_rows(courses), ())
    else:
        render(format_, report.COLUMNS, report.rows(courses), (course.as_json() for course in courses))
    for line in report.remarks(courses):
        progress(line)
    if plot is not None:
        report.plot(courses, plot)
        progress(f"wrote {plot}")
    return _INTERRUPTED if interrupted else 0
