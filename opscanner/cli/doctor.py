"""``opscanner doctor``."""

from __future__ import annotations

import click

from opscanner.cli.options import format_option, render
from opscanner.cli.scan import CUDA_PATH_HELP


@click.command("doctor")
@click.option("--cuda-path", metavar="DIR", help=CUDA_PATH_HELP)
@format_option
def command(cuda_path: str | None, format_: str) -> None:
    """Show versions and headers: what was found, what is missing, and what that costs."""
    from opscanner import api
    from opscanner.results import DoctorLine

    lines = api.doctor(cuda_path)
    cells = [(line.name, "found" if line.found else "missing", line.detail, line.costs) for line in lines]
    render(format_, DoctorLine._fields, cells, (line._asdict() for line in lines))
