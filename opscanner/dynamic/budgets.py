"""How many ULP a right implementation may err, by class of operator and format (``data/ulp_budgets.csv``)."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass

from opscanner.errors import OpscannerError
from opscanner.operators.pairs import data_folder

_TABLE = "ulp_budgets.csv"


@dataclass(frozen=True)
class Budget:
    """One row. ``by_row`` measures in ULP of the largest result of a row instead of each element's own."""

    operator_class: str
    ulp: float
    by_row: bool
    source: str


@functools.cache
def budget_for(operator_class: str, format_: str) -> Budget:
    """The budget of a class in a format.

    >>> budget_for("elementary", "float16").ulp, budget_for("elementary", "float32").ulp
    (1.0, 4.0)

    Raises
    ------
    OpscannerError
        When the table has no such row.
    """
    for row in _rows():
        if row["class"] == operator_class and (row["format"] == "*" or format_ in row["format"].split()):
            return Budget(operator_class, float(row["budget_ulp"]), row["measured"] == "row", row["source"])
    known = sorted({row["class"] for row in _rows()})
    raise OpscannerError(
        f"{_TABLE} has no budget for the class {operator_class!r} in {format_}", f"its classes are {', '.join(known)}"
    )


@functools.cache
def _rows() -> tuple[dict[str, str], ...]:
    with (data_folder() / _TABLE).open(newline="", encoding="utf-8") as lines:
        return tuple(csv.DictReader(lines))
