"""``opscanner patterns``."""

from __future__ import annotations

import sys

import click

from opscanner.cli.options import db_option, format_option, place_options, render

COLUMNS = ("pattern", "judges", "findings", "title")
FINDING_COLUMNS = (
    "id", "pattern", "confidence", "file", "line", "column", "function", "from", "to", "pass", "cast", "message",
)  # fmt: skip


@click.group("patterns", invoke_without_command=True)
@db_option
@format_option
@click.option("--markdown", is_flag=True, help="Print all manual pages as docs/patterns.md.")
@click.pass_context
def command(context: click.Context, db: str | None, format_: str, markdown: bool) -> None:
    """List the pattern rules, with the number of findings when there is a database."""
    from opscanner import api

    if context.invoked_subcommand is not None:
        return
    if markdown:
        sys.stdout.write(api.patterns_markdown())
        return
    rows = api.patterns(db=db)
    cells = ((row.id, row.judges, "" if row.findings is None else row.findings, row.title) for row in rows)
    render(format_, COLUMNS, cells, (row.as_json() for row in rows))


@command.command("explain")
@click.argument("pattern")
@db_option
def explain(pattern: str, db: str | None) -> None:
    """Print the manual page of PATTERN: what it sees, why it matters, how it decides, what it cannot see.

    With --db also how often it was found there.
    """
    from opscanner import api

    sys.stdout.write(api.explain_pattern(pattern))
    if db is not None:
        (row,) = (row for row in api.patterns(db=db) if row.id == pattern)
        click.echo(f"{row.findings} findings in {db}: opscanner patterns show {pattern} --db {db}", err=True)


@command.command("show")
@click.argument("pattern", required=False)
@db_option
@place_options
@click.option("--confidence", type=click.Choice(("high", "medium", "low")), help="Only findings of this confidence.")
@format_option
def show(
    pattern: str | None,
    db: str | None,
    operator: str | None,
    file: str | None,
    function: str | None,
    framework: str | None,
    confidence: str | None,
    format_: str,
) -> None:
    """Print what was found of PATTERN, or of all patterns.

    `cast` is what `opscanner chains` takes; in JSON, `chain` lists the nodes that the rule followed.
    """
    from opscanner import api

    rows = api.findings(
        pattern, db=db, operator=operator, file=file, function=function, framework=framework, confidence=confidence
    )
    cells = (
        (
            row.id, row.pattern, row.confidence, row.file, row.line, row.column, row.function, row.from_format,
            row.to_format, row.reached_from, "" if row.cast_id is None else row.cast_id, row.message,
        )
        for row in rows
    )  # fmt: skip
    render(format_, FINDING_COLUMNS, cells, (row.as_json() for row in rows))
