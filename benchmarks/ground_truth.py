"""How well a scan's casts and 16-bit arithmetic agree with what LLVM IR shows for the same translation units.

``data/README.md`` says how the truth was made. Casts are compared as (file, line, from, to).
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PYTORCH_2_6 = Path(__file__).resolve().parent.parent / "data" / "ground_truth" / "pytorch-2.6.0.json.gz"
#: What the project asks of itself; ``make accuracy`` fails below.
LEAST_RECALL = {"direct": 0.995, "library_call": 0.90, "expression": 0.95}
LEAST_PRECISION = 0.98

FLOATING = re.compile(r"b?float\d|complex")
#: The float types' own headers: what they do inside is seen from the line that calls them.
OWN_HEADERS = re.compile(
    r"(c10|torch/headeronly)/util/(Half|BFloat16|Float8|complex)|c10/util/floating_point_utils|(unsupported/)?Eigen/"
)
COMPONENT = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
SIXTEEN_BIT = ("float16", "bfloat16")

CastKey = tuple[str, int, str, str]
PlaceKey = tuple[str, int, str]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Agreement:
    """Two sets beside each other: what the truth has, what was found, and what they share."""

    name: str
    hits: int
    total: int
    #: Keys that make the difference, sorted.
    differences: tuple[tuple[Any, ...], ...]

    @property
    def share(self) -> float:
        """1.0 where there was nothing to find."""
        return self.hits / self.total if self.total else 1.0


def load_truth(path: Path = PYTORCH_2_6) -> dict[str, Any]:
    """Translation unit -> its casts, arithmetic and lines with device code."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        truth: dict[str, Any] = json.load(stream)
    return truth


def compare_casts(truth: Mapping[str, Any], rows: Iterable[Row]) -> tuple[dict[str, Agreement], Agreement, int]:
    """Recall by ``how``, precision, and the number of rows that IR cannot tell about.

    Recall counts every reported row, whatever its pass; truth rows whose operand is a literal are not asked for.
    Precision counts float-to-float rows of the device pass that are not constant, on lines with device code.
    """
    expected: dict[CastKey, Row] = {}
    for unit in truth.values():
        for row in unit["casts"]:
            if _compared_file(row) and not _same_component(row):
                expected.setdefault(_cast_key(row), row)
    found, claimed = set(), set()
    for row in rows:
        if not _compared_file(row):
            continue
        found.add(_cast_key(row))
        if _is_claim(row):
            claimed.add(_cast_key(row))
    recall = {}
    for how in ("direct", "helper", "expression", "library_call"):
        wanted = {key for key, row in expected.items() if row["how"] == how and not row["constant"]}
        if wanted:
            missed = tuple((*key, expected[key]["function"]) for key in sorted(wanted - found))
            recall[how] = Agreement(how, len(wanted & found), len(wanted), missed)
    emitted = _device_lines(truth)
    untold = {key for key in claimed - expected.keys() if key[:2] not in emitted}
    told = claimed - untold
    extra = tuple(sorted(told - expected.keys()))
    return recall, Agreement("precision", len(told) - len(extra), len(told), extra), len(untold)


def compare_arithmetic(truth: Mapping[str, Any], rows: Iterable[Row]) -> tuple[Agreement, Agreement]:
    """Recall of (file, line, format) that rounds in 16 bit, and precision on lines with device code."""
    operations = [row for unit in truth.values() for row in unit.get("arithmetic", ()) if _compared_file(row)]
    known = {_place_key(row) for row in operations}
    wanted = {_place_key(row) for row in operations if row["rounds"]}
    found = {_place_key(row) for row in rows if row["format"] in SIXTEEN_BIT}
    emitted = _device_lines(truth)
    told = {key for key in found if key in known or key[:2] in emitted}
    return (
        Agreement("recall", len(wanted & found), len(wanted), tuple(sorted(wanted - found))),
        Agreement("precision", len(told & known), len(told), tuple(sorted(told - known))),
    )


def _cast_key(row: Row) -> CastKey:
    return row["file"], row["line"], row["from"], row["to"]


def _place_key(row: Row) -> PlaceKey:
    return row["file"], row["line"], row["format"]


def _compared_file(row: Row) -> bool:
    return OWN_HEADERS.match(row["file"]) is None


def _same_component(row: Row) -> bool:
    """float32 -> complex64 changes no precision."""
    return COMPONENT.get(row["from"], row["from"]) == COMPONENT.get(row["to"], row["to"])


def _is_claim(row: Row) -> bool:
    floating = FLOATING.match(row["from"]) and FLOATING.match(row["to"])
    return bool(floating) and row["pass"] == "device" and not row["constant"] and not _same_component(row)


def _device_lines(truth: Mapping[str, Any]) -> set[tuple[str, int]]:
    return {(file, line) for unit in truth.values() for file, lines in unit["device_lines"].items() for line in lines}
