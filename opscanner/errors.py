"""The one family of errors that opscanner raises on purpose.

Every message says what failed, on what, why, and what to try. Errors cross process pools, so each keeps its
fields through ``__reduce__``.
"""

from __future__ import annotations


class OpscannerError(Exception):
    """Something went wrong that a user can act on.

    Parameters
    ----------
    what : str
        What failed and on what (file, line, value), and why in the words of the tool that refused.
    hint : str
        What to try; empty when there is nothing to advise.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint

    def __reduce__(self) -> tuple[type[OpscannerError], tuple[str, str]]:
        return type(self), (self.what, self.hint)

    def __str__(self) -> str:
        return f"{self.what}\n  try: {self.hint}" if self.hint else self.what


class UsageError(OpscannerError):
    """The request itself cannot be served: a missing ROOT, a glob that matches nothing (exit code 2)."""


class FrontendError(OpscannerError):
    """libclang is missing, mismatched or refused a translation unit."""


class DatabaseError(OpscannerError):
    """The graph database cannot be opened, has another schema version, or refused a query."""
