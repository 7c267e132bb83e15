"""``opscanner scan``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from opscanner.cli.options import db_option

if TYPE_CHECKING:
    from opscanner.scanning import Progress

CUDA_PATH_HELP = "CUDA toolkit or header wheels.  [default: CUDA_HOME, installed wheels, /usr/local/cuda]"


@click.command("scan")
@click.argument("root")
@click.option("--compile-db", metavar="FILE", help="compile_commands.json; without it one is made for ROOT.")
@click.option(
    "--framework", type=click.Choice(("pytorch", "tensorflow", "auto")), default="auto", show_default=True,
    help="Whose sources these are.",
)  # fmt: skip
@click.option("--only", metavar="GLOB", multiple=True, help="Only units whose path, or the end of it, matches.")
@db_option
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Worker processes.  [default: usable CPUs]")
@click.option("--cuda-path", metavar="DIR", help=CUDA_PATH_HELP)
@click.option(
    "--passes", type=click.Choice(("auto", "device", "host", "both")), default="auto", show_default=True,
    help="Which of clang's two compilations of a CUDA file to see; auto adds the host's where it may differ.",
)  # fmt: skip
@click.option("--no-pch", is_flag=True, help="Parse without precompiled headers: slower, for comparison.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=1), help="CPU seconds for a unit.  [default: 600]")
@click.option("--rescan", is_flag=True, help="Begin afresh even though an interrupted scan could go on.")
@click.option("--strict", is_flag=True, help="Exit with 1 instead of 3 when something could not be analysed.")
def command(no_pch: bool, strict: bool, timeout_s: float | None, **options: Any) -> int:
    """Scan ROOT into a database: a checkout (built or not), any folder with sources, one source file, or the headers of
    installed:torch or installed:tensorflow.

    Ctrl-C loses at most the unit that was being written; the same command goes on where it stopped. A finished scan
    that is repeated is done afresh and replaces the former one.
    """
    from opscanner import api
    from opscanner.report import coverage

    if timeout_s is not None:
        options["timeout_s"] = timeout_s
    try:
        with _progress() as (advance, log):
            summary = api.scan(**options, precompiled_header=not no_pch, progress=advance, log=log)
    except KeyboardInterrupt:
        click.echo("the units written so far are kept: the same command goes on where it stopped", err=True)
        raise
    stream = sys.stderr
    for warning in summary.warnings:
        stream.write(f"warning: {warning}\n")
    coverage.render([summary.coverage], stream)
    before = f" ({summary.resumed} had been scanned before)" if summary.resumed else ""
    stream.write(f"{summary.scanned} units in {summary.elapsed_s:.0f} s{before}: {summary.database}\n")
    if summary.coverage.partial:
        return 1 if strict else 3
    return 0


@contextlib.contextmanager
def _progress() -> Iterator[tuple[Callable[[Progress], None], Callable[[str], None]]]:
    """A bar with the time left on a terminal; on anything else only the sentences about what takes long."""
    if not sys.stderr.isatty():
        yield (lambda progress: None), (lambda message: click.echo(message, err=True))
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def advance(progress: Progress) -> None:
            name = progress.unit.file.rsplit("/", 1)[-1]
            bar.update(task, completed=progress.done, total=progress.total, description=name)

        yield advance, (lambda message: bar.console.print(message, markup=False, highlight=False))
