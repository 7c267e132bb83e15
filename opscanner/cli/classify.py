"""``opscanner classify``."""

from __future__ import annotations

import click

from opscanner.cli.options import db_option, format_option, render

COLUMNS = ("framework", "pattern", "findings", "primary", "high", "medium", "low", "device", "formats")


@click.command("classify")
@db_option
@click.option("--framework", metavar="NAME", help="Only scans of this framework.")
@click.option(
    "--only", metavar="PATTERN", multiple=True, help="Only replace findings of this pattern; may be repeated."
)
@format_option
def command(db: str | None, framework: str | None, only: tuple[str, ...], format_: str) -> None:
    """Run the pattern rules over each scan in the database, store what they find, and print counts.

    A scan ends with this by itself; run it again after an update. `primary` counts places whose category the pattern
    is; `uncategorized` are casts between floating-point formats, not constant, at which no rule found anything.
    """
    from opscanner import api

    counts = api.classify(
        db=db, framework=framework, only=only, log=lambda message: click.echo(message, err=True)
    )  # fmt: skip
    cells = ((*count[:1], *count[2:9], _formats(dict(count.formats))) for count in counts)
    render(format_, COLUMNS, cells, (count._asdict() for count in counts))


def _formats(formats: dict[str, int]) -> str:
    """The most frequent formats with their counts."""
    shown = [f"{name} {count}" for name, count in list(formats.items())[:3]]
    return ", ".join([*shown, "..."] if len(formats) > len(shown) else shown)
