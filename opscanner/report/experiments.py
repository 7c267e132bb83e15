"""The published experiments as rows, and in words beside what was published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, fields
from typing import Any

from opscanner.dynamic.experiments.figures import (
    METRICS,
    ONE_PERCENT,
    PUBLISHED_ATTENTION_ERROR,
    PUBLISHED_ATTENTION_FACTOR,
    PUBLISHED_OPERATORS,
    AttentionExperiment,
    AttentionFigures,
    OperatorExperiment,
    OperatorFigures,
    RankedOperator,
    SkippedRun,
    over_pairs,
)

OPERATOR_COLUMNS = (
    "format", "noise", "pass", "rank", "operator", "calls", "past tolerance", "share", "past 1 %", "nan/inf",
    "rel. error >=", "in", "models failing",
)  # fmt: skip
OPERATOR_CSV_COLUMNS = tuple(field.name for field in fields(OperatorFigures))

ATTENTION_COLUMNS = (
    "format", "length", "q, k x", "first", "second", "tests", "in model", "random", "factor", "factor of scaled",
    "factor of absolute", "nan/inf",
)  # fmt: skip
ATTENTION_CSV_COLUMNS = (
    "format", "length", "scale", "first", "second", "evaluations",
    *(f"{metric}_{where}" for metric in METRICS for where in ("in_model", "random", "factor")),
    "non_finite_in_model", "non_finite_random",
)  # fmt: skip


def operator_rows(found: OperatorExperiment, passes: Sequence[str], top: int | None) -> Iterator[Sequence[Any]]:
    """Cells of :data:`OPERATOR_COLUMNS`: for each format, noise and pass the operators that fail most often."""
    for format_, noise, direction in _settings(found, passes):
        for place, row in enumerate(found.ranking(format_, noise, direction)[:top], start=1):
            yield (
                format_, noise, direction, place, row.operator, row.calls, row.over_tolerance, f"{row.share:.0%}",
                row.over_percent, row.non_finite, f"{row.max_relative_error:.2g}", row.worst,
                f"{len(row.failing_models)} of {row.models}",
            )  # fmt: skip


def operator_csv_rows(found: OperatorExperiment) -> Iterator[Sequence[Any]]:
    """Cells of :data:`OPERATOR_CSV_COLUMNS`, a line an operator of a model."""
    for row in found.figures:
        yield astuple(row)


def operator_lines(found: OperatorExperiment) -> Iterator[str]:
    """The forward pass beside the published statement; then what was skipped."""
    yield (
        f"published (FuMi): {' and '.join(PUBLISHED_OPERATORS)} fail most often. A call fails past the format's "
        "tolerance; forward pass:"
    )
    for format_, noise, direction in _settings(found, ("forward",)):
        ranked = found.ranking(format_, noise, direction)
        if ranked:
            yield f"  {format_}, {noise} noise: {_verdict(ranked)}"
    yield from _skipped(found.skipped)


def _verdict(ranked: Sequence[RankedOperator]) -> str:
    """Whether the published operators come first, and what does."""
    failing = [row for row in ranked if row.over_tolerance]
    if not failing:
        return "no call fails"
    first = ", ".join(f"{row.operator} ({row.over_tolerance} of {row.calls})" for row in failing[:3])
    places = {row.operator: place for place, row in enumerate(ranked, start=1)}
    named = [
        f"{name} {'is number ' + str(places[name]) if any(row.operator == name for row in failing) else 'never fails'}"
        for name in PUBLISHED_OPERATORS
        if name in places
    ]
    if not named:
        return f"{first} fail most; neither published operator is called"
    called = [name for name in PUBLISHED_OPERATORS if name in places]
    holds = {row.operator for row in failing[: len(called)]} == set(called)
    return f"{'holds' if holds else 'does not hold'}: most fail {first}; {', '.join(named)} of {len(ranked)}"


def _settings(found: OperatorExperiment, passes: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for format_ in found.settings["formats"]:
        for noise in found.settings["noises"]:
            for direction in passes:
                yield format_, noise, direction


def attention_rows(found: AttentionExperiment) -> Iterator[Sequence[Any]]:
    """Cells of :data:`ATTENTION_COLUMNS`; errors are FuMi's relative ones."""
    for row in found.figures:
        yield (
            row.format, row.length, f"{row.scale:g}", row.first, row.second, row.evaluations,
            f"{row.in_model.relative:.2g}", f"{row.random.relative:.2g}", *(_factor(row, metric) for metric in METRICS),
            row.in_model.non_finite + row.random.non_finite,
        )  # fmt: skip


def attention_csv_rows(found: AttentionExperiment) -> Iterator[Sequence[Any]]:
    """Cells of :data:`ATTENTION_CSV_COLUMNS`."""
    for row in found.figures:
        figures: list[Any] = []
        for metric in METRICS:
            figures += [getattr(row.in_model, metric), getattr(row.random, metric), row.factor(metric)]
        yield (
            row.format, row.length, row.scale, row.first, row.second, row.evaluations, *figures,
            row.in_model.non_finite, row.random.non_finite,
        )  # fmt: skip


def attention_lines(found: AttentionExperiment) -> Iterator[str]:
    """The largest error between any two implementations beside the published statement; then what was skipped."""
    yield (
        f"published (FuMi): a maximal relative error of at least {PUBLISHED_ATTENTION_ERROR:.0%}, "
        f"{PUBLISHED_ATTENTION_FACTOR:g} times what random tensors show. Between any two implementations here:"
    )
    for row in over_pairs(found.figures):
        error = row.in_model.relative
        factors = ", ".join(f"{_factor(row, metric)} by {name}" for metric, name in METRICS.items())
        yield (
            f"  {row.format}, length {row.length}, q and k x {row.scale:g}: {error:.2g} "
            f"({'at least' if error >= ONE_PERCENT else 'not'} 1 %: {row.first}, {row.second}); "
            f"times random: {factors}"
        )
    yield from _skipped(found.skipped)


def _factor(row: AttentionFigures, metric: str) -> str:
    factor = row.factor(metric)
    return "none" if factor is None else f"{factor:.2g}" if factor < 100 else f"{factor:.0f}"


def _skipped(skipped: Sequence[SkippedRun]) -> Iterator[str]:
    for run in skipped:
        yield f"skipped: {run.model} in {run.format}: {run.reason}"
