"""Two frameworks side by side: the ranking as rows, and one operator as two columns of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Any, TextIO

from opscanner.operators.comparison import Comparison, Seen, Side, first_widening
from opscanner.operators.pipeline import PipelineStep
from opscanner.operators.risk import Risk

RANKING_COLUMNS = (
    "rank", "score", "pairs", "direction", "format", "widened in", "not in", "cause", "findings", "not widened at",
    "widened at",
)  # fmt: skip
OTHER_COLUMNS = ("pairs", "direction", "format", "why", "first", "second")
STEP_COLUMNS = (
    "pairs", "format", "framework", "operators", "step", "stage", "operation", "from", "to", "accumulator", "function",
    "file", "line", "findings",
)  # fmt: skip
#: Stages that move values and compute nothing.
_MOVING = ("load", "store")
#: Width of one of the two columns; with the gap between them 120 in all.
_WIDTH = 58


def ranking_rows(ranked: Sequence[Comparison]) -> Iterator[tuple[Any, ...]]:
    """Cells of the ranked list, in the order of ``RANKING_COLUMNS``."""
    for number, one in enumerate(ranked, 1):
        sides = one.sides
        assert sides is not None
        wide, narrow = sides
        step = first_widening(wide)
        yield (
            number, f"{one.score:.2f}", _names(one.pairs), one.direction, one.format, wide.framework, narrow.framework,
            narrow.risk.cause.value if narrow.risk.cause else "", len(narrow.risk.findings), narrowed_at(narrow),
            f"{step.file}:{step.line}" if step else "",
        )  # fmt: skip


def narrowed_at(side: Side) -> str:
    """Where the worst of a side stands: the place of its surest finding, or the operators that it is composed of."""
    if side.risk.findings:
        return f"{side.risk.findings[0].file}:{side.risk.findings[0].line}"
    return f"between {', '.join(side.operators)}" if side.composed else ""


def other_rows(comparisons: Iterable[Comparison]) -> Iterator[tuple[Any, ...]]:
    """Cells for what is not in the ranked list, with the reason, in the order of ``OTHER_COLUMNS``."""
    for one in comparisons:
        if one.sides is None:
            cells = (_side_words(side) for side in (one.first, one.second))
            yield (_names(one.pairs), one.direction, one.format, outcome(one), *cells)


def outcome(one: Comparison) -> str:
    """What a comparison came to, in a few words."""
    if one.sides is not None:
        return f"widened in {one.sides[0].framework}, not in {one.sides[1].framework}"
    for side in (one.first, one.second):
        if not side.known:
            return f"{side.framework}: {side.seen.value}"
    worst = max(one.first.risk.score, one.second.risk.score)
    if worst > 0:
        return "both compute in the storage format" if one.score == 0 else "one computes less in the storage format"
    return "alike"


def _side_words(side: Side) -> str:
    if side.seen is not Seen.PIPELINE:
        return str(side.seen.value)
    return f"score {side.risk.score:.2f}" + (f", {side.risk.cause.value}" if side.risk.cause else "")


def as_json(one: Comparison, rank: int | None = None) -> dict[str, Any]:
    """The object that ``opscanner compare --format json`` prints."""
    return {
        "pairs": list(one.pairs),
        "direction": one.direction,
        "format": one.format,
        "device": one.device,
        "rank": rank,
        "score": round(one.score, 4),
        "outcome": outcome(one),
        "widened_in": one.sides[0].framework if one.sides else None,
        "not_in": one.sides[1].framework if one.sides else None,
        "sides": [_side_json(side) for side in (one.first, one.second)],
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "framework": side.framework,
        "version": side.version,
        "operators": list(side.operators),
        "missing": list(side.missing),
        "composed": side.composed,
        "seen": side.seen.value,
        "certain": side.pipeline.certain,
        "risk": _risk_json(side.risk),
        "steps": [{**step._asdict(), "findings": list(step.findings)} for step in side.pipeline.steps],
    }


def _risk_json(risk: Risk) -> dict[str, Any]:
    return {
        "score": round(risk.score, 4),
        "cause": risk.cause.value if risk.cause else None,
        "findings": [
            {"id": one.id, "pattern": one.pattern, "confidence": one.confidence, "file": one.file, "line": one.line}
            for one in risk.findings
        ],
    }


def step_rows(comparisons: Iterable[Comparison]) -> Iterator[tuple[Any, ...]]:
    """Cells for every step of both pipelines, in the order of ``STEP_COLUMNS``."""
    for one in comparisons:
        for side in (one.first, one.second):
            for number, step in enumerate(side.pipeline.steps, 1):
                yield (
                    _names(one.pairs), one.format, side.framework, " ".join(side.operators), number, step.stage,
                    step.operation, step.from_format, step.format, step.accumulator, step.function, step.file,
                    step.line, " ".join(map(str, step.findings)),
                )  # fmt: skip


def render(comparisons: Sequence[Comparison], stream: TextIO) -> None:
    """Both pipelines of each operator and storage format side by side, and what they come to.

    A place is the file's name and the line; full paths, and each load and store, are in the JSON and CSV output. ``>``
    stands before the lines that decide: what loses most on a side, else what shows best that it widens.
    """
    for number, one in enumerate(comparisons):
        if number:
            stream.write("\n")
        stream.write(f"{_names(one.pairs)}  {one.direction}, {one.format} on {one.device}\n")
        stream.write(_line(_heading(one.first), _heading(one.second)))
        stream.write(_line("-" * _WIDTH, "-" * _WIDTH))
        for left, right in zip_longest(_column(one.first), _column(one.second), fillvalue=""):
            stream.write(_line(left, right))
        stream.write(f"=> {outcome(one)}" + (f": score {one.score:.2f}" if one.sides else "") + "\n")
        if one.sides:
            narrow = one.sides[1]
            assert narrow.risk.cause is not None
            ids = f", findings {' '.join(str(row.id) for row in narrow.risk.findings)}" if narrow.risk.findings else ""
            stream.write(f"   {narrow.risk.cause.value} at {narrowed_at(narrow)}{ids}\n")


def _heading(side: Side) -> str:
    return f"{side.framework} {side.version}: {', '.join(side.operators)}"


def _column(side: Side) -> Iterator[str]:
    if side.missing and side.seen is Seen.PIPELINE:
        yield f"({', '.join(side.missing)}: not scanned)"
    if side.seen is not Seen.PIPELINE:
        yield f"({side.seen.value})"
    deciding = _deciding(side)
    moved = Counter(step.stage for step in side.pipeline.steps if step.stage in _MOVING)
    steps = (step for step in side.pipeline.steps if step.stage not in _MOVING)
    for (function, file), found in groupby(steps, lambda step: (step.function, step.file)):
        yield f"{_short(function)}  {file.rpartition('/')[2]}"
        for step in found:
            yield f"{'>' if step in deciding else ' '} {step.line:>4}  {_words(step)}"
    if moved:
        counts = (f"{moved[stage]} {stage}{'s' * (moved[stage] > 1)}" for stage in _MOVING if moved[stage])
        functions = len({step.function for step in side.pipeline.steps if step.stage in _MOVING})
        yield f"{', '.join(counts)} of {side.pipeline.format} in {functions} function{'s' * (functions > 1)}"


def _deciding(side: Side) -> set[PipelineStep]:
    """The steps of the worst findings; without such the one that shows best that the side widens."""
    worst = {one.id for one in side.risk.findings} if side.risk.score > 0 else set()
    found = {step for step in side.pipeline.steps if worst.intersection(step.findings)}
    best = first_widening(side)
    return found or ({best} if best is not None else set())


def _words(step: PipelineStep) -> str:
    if step.stage == "cast":
        return f"{step.from_format} -> {step.format}"
    held = f", held in {step.accumulator}" if step.accumulator and step.accumulator != step.format else ""
    return f"{step.operation} in {step.format}{held}" + (" (accumulates)" if step.stage == "accumulation" else "")


def _short(function: str) -> str:
    """The last two parts of a qualified name; ``operator()`` alone would say nothing."""
    parts = [part for part in function.split("::") if part != "(anonymous namespace)"]
    return "::".join(parts[-2:]) if parts[-1].startswith("operator") else parts[-1]


def _line(left: str, right: str) -> str:
    return f"{_cut(left):<{_WIDTH}}    {_cut(right)}".rstrip() + "\n"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _names(pairs: Sequence[str]) -> str:
    """Pairs by name: variants of one operator are counted."""
    return pairs[0] if len(pairs) == 1 else f"{pairs[0]} (+{len(pairs) - 1})"
