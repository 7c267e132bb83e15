"""What this room raises."""

from __future__ import annotations


class CompileDatabaseError(ValueError):
    """A compile database, or an entry of one, that cannot be used.

    Parameters
    ----------
    what : str
        What failed, and why.
    where : str
        The file, with line and column where there are any.
    entry : int | None
        Index of the entry in the file, from 0.
    hint : str
        What to try.
    """

    def __init__(self, what: str, *, where: str = "", entry: int | None = None, hint: str = "") -> None:
        self.what, self.where, self.entry, self.hint = what, where, entry, hint
        place = where + (f", entry {entry}" if entry is not None else "")
        super().__init__(": ".join(part for part in (place, what) if part) + (f"\n  try: {hint}" if hint else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.what, self.where, self.entry, self.hint)


def _rebuild(what: str, where: str, entry: int | None, hint: str) -> CompileDatabaseError:
    return CompileDatabaseError(what, where=where, entry=entry, hint=hint)
