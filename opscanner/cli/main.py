"""``opscanner``: finds the command, runs it, and turns what went wrong into words and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from opscanner import __version__
from opscanner.errors import OpscannerError, UsageError

EXIT_DONE, EXIT_ERROR, EXIT_USAGE, EXIT_PARTIAL, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

#: Command -> module that holds it and what ``opscanner --help`` says of it. Modules are imported when they are called.
COMMANDS = {
    "scan": ("scan", "Scan a source tree into a database."),
    "casts": ("casts", "List places where a floating-point format changes."),
    "arithmetic": ("arithmetic", "List places where something is computed, with its format."),
    "operators": ("operators", "List operators, or show what serves one and on what evidence."),
    "compare": ("compare", "Compare two frameworks' operators, and rank what only one widens."),
    "diff": ("diff", "List operators that gained or lost an upcast between two versions."),
    "testlist": ("testlist", "List operators worth a precision test, or write the tests."),
    "test": ("test", "Run operators and measure them against correctly rounded results."),
    "watch": ("watch", "Run a script, and check every operator that its models call."),
    "replay": ("replay", "Call an operator again on inputs that a watch saved."),
    "bisect-precision": ("bisect_precision", "Find which layers of a model must be upcast."),
    "study": ("study", "Run the study's experiment again, with its published figures beside."),
    "experiment": ("experiment", "Make the published experiments with running models again."),
    "training-deviation": ("training_deviation", "Train a small model with one operator computed otherwise."),
    "report": ("report", "Write reports of what was measured."),
    "chains": ("chains", "Draw the def-use chains through a cast."),
    "classify": ("classify", "Find patterns of precision tuning in what was scanned."),
    "patterns": ("patterns", "List or explain the patterns, or show what was found of them."),
    "sql": ("sql", "Run a read-only SQL query."),
    "graph": ("graph", "Export the graph, or a part of it, as GraphML or JSON."),
    "coverage": ("coverage", "Show how much was seen, and what was not."),
    "summarize": ("summarize", "Write the facts of scans into a small database to pass on."),
    "schema": ("schema", "Describe the tables and views that SQL can ask."),
    "doctor": ("doctor", "Show what is installed, what is missing and what that costs."),
}

EPILOG = """Exit codes: 0 done; 1 error; 2 wrong usage; 3 done in part (a unit was skipped, or a device function
holds an error; --strict makes it 1); 130 interrupted."""


class LazyGroup(click.Group):
    """Imports a command when it is called, so that --help needs none of the libraries behind it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"opscanner.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            # The reader (head, less) has gone. Caught here because click would make it exit code 1. What is left must
            # not be flushed into the closed pipe at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_DONE

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="opscanner")
def cli() -> None:
    """Know in which precision deep-learning operators really compute.

    Scans CUDA and C++ sources for every change of floating-point format and the def-use chains around it, and keeps
    them in a database that answers SQL.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the exit code."""
    try:
        result = cli.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="opscanner",
            standalone_mode=False,
        )
        return result if isinstance(result, int) else EXIT_DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except OpscannerError as error:
        if os.environ.get("OPSCANNER_DEBUG") == "1":
            raise
        click.echo(f"error: {error.what}", err=True)
        if error.hint:
            click.echo(f"  try: {error.hint}", err=True)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_ERROR
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        # Commands explain what they read; what is left is the output: a full disk, a folder in the way.
        if os.environ.get("OPSCANNER_DEBUG") == "1":
            raise
        click.echo(f"error: {error}", err=True)
        return EXIT_ERROR
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
