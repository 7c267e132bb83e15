"""The command line: read options, one api call, one render. Data on stdout, everything else on stderr."""

from opscanner.cli.main import main

__all__ = ["main"]
