"""What a framework's error says of an operator: that there is no such kernel, or that the call itself is wrong.

"Not supported for this format on this device" is a result of its own, and only the text of an error tells it. Each
framework has a table of such texts (``pytorch/refusals.py``, ``tensorflow/refusals.py``), each row with a message that
the framework really gave.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST = 300


@dataclass(frozen=True)
class Refusal:
    """A kind of message that says "not here".

    Parameters
    ----------
    pattern : str
        Regular expression, searched for in ``Type: message``.
    means : str
        What is missing: ``kernel``, ``format``, ``gradient``, ``symbol`` (of another release), ``device``, ``layout``.
    example : str
        Such a message, as a release gave it.
    """

    pattern: str
    means: str
    example: str


def text_of(error: BaseException) -> str:
    """``Type: message`` of an error."""
    return f"{type(error).__name__}: {error}"


def explain(text: str, table: Sequence[Refusal]) -> str | None:
    """What is missing and the framework's words in one line; None when no row of the table fits."""
    for row in table:
        if re.search(row.pattern, text):
            words = " ".join(text.split())
            return f"no {row.means}: {words if len(words) <= _LONGEST else words[: _LONGEST - 3] + '...'}"
    return None
