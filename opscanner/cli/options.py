"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "json", "csv")


def db_option(command: F) -> F:
    """``--db``."""
    option = click.option(
        "--db",
        metavar="URL",
        help="Database: a path, a SQLAlchemy URL, or `summary`.  [default: $OPSCANNER_DB or opscanner.sqlite]",
    )
    return option(command)


def format_option(command: F) -> F:
    """``--format``."""
    option = click.option(
        "--format",
        "format_",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="Output format.",
    )
    return option(command)


def place_options(command: F) -> F:
    """Filters of the commands that list places."""
    for option in (
        click.option("--function", metavar="NAME", help="Qualified name of the function, or the end of one."),
        click.option("--framework", metavar="NAME", help="Only this framework."),
        click.option("--file", metavar="GLOB", help="Only files whose path, or the end of it, matches."),
        click.option("--operator", metavar="NAME", help="Only kernels that serve this operator."),
    ):
        command = option(command)
    return command


def render(
    format_: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], objects: Iterable[dict[str, Any]]
) -> None:
    """Rows to stdout: as a table or CSV of ``columns``, or as JSON ``objects``."""
    from opscanner.report import csv_format, json_format, table

    stream = sys.stdout
    if format_ == "json":
        json_format.render(objects, stream)
    elif format_ == "csv":
        csv_format.render(columns, rows, stream)
    else:
        table.render(columns, rows, stream)
