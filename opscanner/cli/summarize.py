"""``opscanner summarize``."""

from __future__ import annotations

import click

from opscanner.cli.options import format_option, render


@click.command("summarize")
@click.argument("out")
@click.option(
    "--db",
    "databases",
    metavar="URL",
    multiple=True,
    help="Database to summarize; may be given several times.  [default: $OPSCANNER_DB or opscanner.sqlite]",
)
@format_option
def command(out: str, databases: tuple[str, ...], format_: str) -> None:
    """Write the facts of finished scans into OUT: a small database that can be passed on.

    It holds places, formats, operators, findings and the graph of functions that serve operators; no source text, and
    no path of this machine. When OUT ends in `.xz` it is packed.
    """
    from opscanner import api
    from opscanner.results import SummarizedScan

    scans = api.summarize(out, databases)
    render(format_, SummarizedScan._fields, scans, (scan._asdict() for scan in scans))
