"""What a view is; the views themselves are in ``views.py`` and the modules that it names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select


@dataclass(frozen=True)
class View:
    """A view: its rows in one sentence, its query, and what each column says."""

    name: str
    comment: str
    query: Select[Any]
    columns: dict[str, str]
