"""What the published experiments gave: rows that need no torch to be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

#: Relative error that the study speaks of ("at least 1 %"), and past which a call is counted beside the format's own.
ONE_PERCENT = 0.01
#: What FuMi (doi 10.1145/3734866) says.
PUBLISHED_OPERATORS = ("conv2d", "linear")
PUBLISHED_ATTENTION_ERROR, PUBLISHED_ATTENTION_FACTOR = 0.01, 13.0


@dataclass(frozen=True)
class OperatorFigures:
    """One operator of one model in one format, with one kind of noise, over all checked calls.

    Parameters
    ----------
    operator : str
        ``conv2d`` for a convolution, ``linear`` for a product with a linear layer's weight, ``attention``, else the
        name of the ATen operator.
    direction : str
        ``forward`` or ``backward``.
    max_relative_error : float
        Lower bound of the maximal relative error, FuMi's ``|a - b| / |a + b|`` over elements whose smaller magnitude
        exceeds the format's absolute tolerance.
    max_scaled_ulp : float
        Largest difference in ULP of the tensor's largest element.
    over_tolerance, over_percent : int
        Calls with a relative error past the format's tolerance (FuMi's, which is the same number), and past 1 %.
    non_finite : int
        Calls in which elements are NaN or infinite in one result alone; they are in no other figure.
    worst_at : str
        Path of the module with the largest relative error.
    """

    model: str
    format: str
    noise: str
    operator: str
    direction: str
    calls: int
    max_relative_error: float
    max_scaled_ulp: float
    over_tolerance: int
    over_percent: int
    non_finite: int
    worst_at: str


@dataclass(frozen=True)
class SkippedRun:
    """A model that does not run in a format, and why."""

    model: str
    format: str
    reason: str


@dataclass(frozen=True)
class OperatorExperiment:
    """All figures of :func:`opscanner.dynamic.experiments.operators.measure_operators`, and what they are of."""

    settings: dict[str, Any]
    figures: tuple[OperatorFigures, ...]
    skipped: tuple[SkippedRun, ...]

    def ranking(self, format_: str, noise: str, direction: str = "forward") -> list[RankedOperator]:
        """The operators of one pass over all models: those first that fail in most calls."""
        groups: dict[str, list[OperatorFigures]] = {}
        for row in self.figures:
            if (row.format, row.noise, row.direction) == (format_, noise, direction):
                groups.setdefault(row.operator, []).append(row)
        ranked = [_ranked(operator, rows) for operator, rows in groups.items()]
        return sorted(
            ranked, key=lambda row: (-row.over_tolerance, -row.over_percent, -row.max_relative_error, row.operator)
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True)
class RankedOperator:
    """An operator over all models, in one format, with one kind of noise, in one pass.

    Parameters
    ----------
    failing_models : tuple of str
        Those with a call past the format's tolerance.
    worst : str
        The model with the largest relative error.
    """

    operator: str
    format: str
    noise: str
    direction: str
    models: int
    failing_models: tuple[str, ...]
    calls: int
    over_tolerance: int
    over_percent: int
    non_finite: int
    max_relative_error: float
    worst: str

    @property
    def share(self) -> float:
        """Share of the calls that is past the format's tolerance."""
        return self.over_tolerance / self.calls if self.calls else 0.0


def _ranked(operator: str, rows: Sequence[OperatorFigures]) -> RankedOperator:
    worst = max(rows, key=lambda row: row.max_relative_error)
    return RankedOperator(
        operator=operator,
        format=worst.format,
        noise=worst.noise,
        direction=worst.direction,
        models=len(rows),
        failing_models=tuple(row.model for row in rows if row.over_tolerance),
        calls=sum(row.calls for row in rows),
        over_tolerance=sum(row.over_tolerance for row in rows),
        over_percent=sum(row.over_percent for row in rows),
        non_finite=sum(row.non_finite for row in rows),
        max_relative_error=worst.max_relative_error,
        worst=worst.model,
    )


@dataclass(frozen=True)
class Errors:
    """The largest differences between two implementations, each metric by itself over all evaluations.

    Parameters
    ----------
    relative : float
        FuMi's ``|a - b| / |a + b|`` over elements whose smaller magnitude exceeds the format's absolute tolerance.
    scaled : float
        ``max |a - b| / max |b|`` of a tensor: what is left when elements next to zero do not count.
    absolute : float
        ``|a - b|``.
    non_finite : int
        Elements that are NaN or infinite in one result alone; they are in no other figure.
    """

    relative: float = 0.0
    scaled: float = 0.0
    absolute: float = 0.0
    non_finite: int = 0

    def worst(self, other: Errors) -> Errors:
        """The larger of each."""
        return Errors(
            max(self.relative, other.relative),
            max(self.scaled, other.scaled),
            max(self.absolute, other.absolute),
            self.non_finite + other.non_finite,
        )


#: Metrics of :class:`Errors`, and what they are called.
METRICS = {"relative": "|a-b|/|a+b|", "scaled": "max|a-b|/max|b|", "absolute": "|a-b|"}


@dataclass(frozen=True)
class AttentionFigures:
    """Two implementations of attention against each other, in a model and on random tensors.

    Parameters
    ----------
    second : str
        ``float64``: the formula in float64 on the same inputs, which says which of two implementations is off.
    scale : float
        Factor to queries and keys in the model, by its weights.
    evaluations : int
        In the model, and as many on random tensors.
    in_model, random : Errors
        Found with Fuzz and Check in the running model, and by testing with random tensors of the same shapes.
    """

    format: str
    length: int
    scale: float
    first: str
    second: str
    evaluations: int
    in_model: Errors
    random: Errors

    def factor(self, metric: str) -> float | None:
        """How many times more the model shows than random tensors; None where those show nothing."""
        random = float(getattr(self.random, metric))
        return float(getattr(self.in_model, metric)) / random if random else None


@dataclass(frozen=True)
class AttentionExperiment:
    """All figures of :func:`opscanner.dynamic.experiments.attention.measure_attention`, the largest errors first."""

    settings: dict[str, Any]
    figures: tuple[AttentionFigures, ...]
    skipped: tuple[SkippedRun, ...]

    def pairs(self) -> list[AttentionFigures]:
        """Two implementations of one format; without those against float64."""
        return [row for row in self.figures if row.second != "float64"]

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        made = asdict(self)
        for row, figures in zip(made["figures"], self.figures, strict=True):
            row["factor"] = {metric: figures.factor(metric) for metric in METRICS}
        return made


def largest_first(figures: Iterable[AttentionFigures]) -> tuple[AttentionFigures, ...]:
    """By format, length and scale as they come; within, by FuMi's error in the model."""
    order: dict[tuple[str, int, float], int] = {}
    rows = list(figures)
    for row in rows:
        order.setdefault((row.format, row.length, row.scale), len(order))
    return tuple(
        sorted(rows, key=lambda row: (order[row.format, row.length, row.scale], -row.in_model.relative, row.first))
    )


def over_pairs(rows: Iterable[AttentionFigures]) -> list[AttentionFigures]:
    """One row a format, length and scale: the largest errors between any two implementations, metric by metric.

    ``first`` and ``second`` are the two with the largest relative error in the model.
    """
    groups: dict[tuple[str, int, float], list[AttentionFigures]] = {}
    for row in rows:
        if row.second != "float64":
            groups.setdefault((row.format, row.length, row.scale), []).append(row)
    found = []
    for pairs in groups.values():
        in_model, random = Errors(), Errors()
        for row in pairs:
            in_model, random = in_model.worst(row.in_model), random.worst(row.random)
        worst = max(pairs, key=lambda row: row.in_model.relative)
        found.append(replace(worst, in_model=in_model, random=random))
    return found
