"""Which optional packages are there, and what to say when one that is needed is not."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from opscanner.errors import UsageError


def require(what: str, packages: Sequence[str], extra: str) -> None:
    """Refuses what needs packages of an extra where one of them is missing.

    Raises
    ------
    UsageError
        With the packages that are missing and what installs them.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"{what} needs {', '.join(missing)}: not installed", f"pip install 'opscanner[{extra}]'")
