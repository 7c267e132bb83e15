"""``opscanner schema``."""

from __future__ import annotations

import sys

import click


@click.command("schema")
@click.argument("names", nargs=-1)
@click.option("--markdown", is_flag=True, help="As the page docs/schema.md.")
def command(names: tuple[str, ...], markdown: bool) -> None:
    """Describe the tables and views that SQL can ask, or only NAMES."""
    from opscanner import api

    sys.stdout.write(api.schema_text(names, markdown=markdown))
