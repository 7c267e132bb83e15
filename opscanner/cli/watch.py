"""``opscanner watch``."""

from __future__ import annotations

import json
import sys
import traceback

import click

from opscanner.cli.options import format_option, render

_MODES = ("perturb", "upcast", "permute")


@click.command("watch", context_settings={"ignore_unknown_options": False})
@click.argument("script", metavar="SCRIPT")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]...")
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, run as python -m does.")
@click.option(
    "--mode", type=click.Choice(_MODES), default="perturb", show_default=True,
    help="perturb: inputs moved by one ULP; upcast: the same code one format wider; permute: sums in another order.",
)  # fmt: skip
@click.option("--level", type=click.Choice(("operator", "module")), help="What is run a second time.")
@click.option(
    "--every", type=click.IntRange(min=0), default=1, show_default=True, help="Check every N-th call of a site."
)
@click.option(
    "--first", type=click.IntRange(min=0), default=0, show_default=True, help="Check the first N calls anyway."
)
@click.option("--tolerance-ulp", type=float, metavar="X", help="Alert past X ULP of the tensor's largest element.")
@click.option("--tolerance", type=float, metavar="X", help="Alert past a relative error |a-b|/|a+b| of X.")
@click.option(
    "--noise", type=click.Choice(("ulp", "fumi")), default="ulp", show_default=True,
    help="Kind of perturbation: ULP-sized, or FuMi's constants.",
)  # fmt: skip
@click.option("--amount", type=float, default=1.0, show_default=True, help="How many ULP inputs are moved by.")
@click.option("--parameters", is_flag=True, help="Perturb parameters, too.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of perturbations and permutations.")
@click.option("--optimizers", is_flag=True, help="Check what optimizers compute, too.")
@click.option("--save", type=click.Path(file_okay=False), metavar="DIR", help="Save inputs of alerts for replay.")
@click.option("--save-limit", type=click.IntRange(min=1), default=8, show_default=True, help="Files at most.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Sites shown in the table.")
@click.option("--fail-on-alert", is_flag=True, help="Exit with 1 when there was an alert.")
@format_option
def command(
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    mode: str,
    level: str | None,
    every: int,
    first: int,
    tolerance_ulp: float | None,
    tolerance: float | None,
    noise: str,
    amount: float,
    parameters: bool,
    seed: int,
    optimizers: bool,
    save: str | None,
    save_limit: int,
    top: int,
    fail_on_alert: bool,
    format_: str,
) -> int:
    """Run a script, and check every operator that its torch models call, forward and backward.

    Nothing of the script or of torch is changed, and the models compute what they would, bit for bit. What the script
    prints goes to stderr. Exits with 1 when the script fails.
    """
    from opscanner import api
    from opscanner.report import watched as report

    ended = api.watch_script(
        script, arguments, is_module=is_module, mode=mode, level=level, every=every, first=first,
        tolerance_ulp=tolerance_ulp, tolerance=tolerance, noise=noise, amount=amount, parameters=parameters, seed=seed,
        optimizers=optimizers, save=save, save_limit=save_limit,
    )  # fmt: skip
    found = ended.report
    if format_ == "json":
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        sites = found.worst(top if format_ == "table" else None)
        render(format_, report.COLUMNS, report.rows(sites), ())
    for line in report.alert_lines(found):
        click.echo(line, err=True)
    click.echo(found.summary_line(), err=True)
    if ended.error is not None:
        traceback.print_exception(ended.error, file=sys.stderr)
        click.echo(f"{script} ended with {type(ended.error).__name__}; the report is of what ran until then", err=True)
        return 130 if isinstance(ended.error, KeyboardInterrupt) else 1
    return 1 if fail_on_alert and found.failing else 0
