"""How far training drifts, as rows, lines of a file and a plot."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opscanner.dynamic.training.deviation import Change, Course

#: Steps that tables show. Those up to 20 rank operators; of later ones only the last is shown, beside the baseline.
SHOWN_STEPS = (1, 5, 10, 20)
_RANKING_STEP, _RANKED_UP_TO = 5, 20
_FLOAT64, _ONE_ULP = "whole model", "one weight"
#: Below so many times either baseline a deviation is no longer the operator's: training makes as much of any rounding.
_OF_CHAOS = 10.0

COLUMNS = (
    "operator", "format", "computed in", *(f"step {step}" for step in SHOWN_STEPS), "over seeds at 5", "x 1 ULP at 5",
    "last step", "x 1 ULP", "x float64", "loss", "as it is", "score", "as it is",
)  # fmt: skip

CSV_COLUMNS = (
    "framework", "versions", "model", "operator", "format", "computed_in", "seed", "step", "deviation",
    "deviation_of_1_ulp", "deviation_of_float64", "loss", "loss_as_it_is",
)  # fmt: skip


def by_change(courses: Iterable[Course]) -> dict[Change, list[Course]]:
    """Courses of each change over the seeds: largest median deviation at step 5 first, then the two baselines."""
    groups: dict[Change, list[Course]] = {}
    for course in courses:
        groups.setdefault(course.change, []).append(course)

    def order(item: tuple[Change, list[Course]]) -> tuple[bool, float]:
        middle = at(item[1], min(_RANKING_STEP, len(item[1][0].deviation)))
        return item[0].is_baseline, -math.inf if math.isnan(middle) else -middle

    return dict(sorted(groups.items(), key=order))


def at(courses: Sequence[Course], step: int) -> float:
    """The median deviation over the seeds after ``step``; NaN where a training met one or did not go so far."""
    values = [course.deviation[step - 1] for course in courses if len(course.deviation) >= step]
    return math.nan if not values or any(map(math.isnan, values)) else statistics.median(values)


def times_baseline(courses: Sequence[Course], every: Sequence[Course], step: int, baseline: str = _ONE_ULP) -> float:
    """Median over the seeds of the deviation over that of a baseline with the same seed."""
    under = {course.seed: course.deviation for course in every if course.operator == baseline}
    ratios = [
        course.deviation[step - 1] / under[course.seed][step - 1] if under[course.seed][step - 1] else math.inf
        for course in courses
        if len(course.deviation) >= step
    ]
    return math.nan if not ratios or any(map(math.isnan, ratios)) else statistics.median(ratios)


def chaos_from(courses: Sequence[Course], every: Sequence[Course]) -> int | None:
    """The first step after which a change is within ten times of a baseline; None where it never is."""
    for step in range(1, len(courses[0].deviation) + 1):
        if any(times_baseline(courses, every, step, baseline) < _OF_CHAOS for baseline in (_ONE_ULP, _FLOAT64)):
            return step
    return None


def rows(courses: Sequence[Course]) -> Iterator[Sequence[Any]]:
    """Cells of :data:`COLUMNS`: medians over the seeds."""
    for change, group in by_change(courses).items():
        steps = len(group[0].deviation)
        early = [course.deviation[_RANKING_STEP - 1] for course in group if steps >= _RANKING_STEP]
        yield (
            change.operator,
            change.format,
            change.computed_in,
            *(_short(at(group, step)) if steps >= step else "" for step in SHOWN_STEPS),
            f"{min(early):.2g}..{max(early):.2g}" if early else "",
            _short(times_baseline(group, courses, _RANKING_STEP)) if early else "",
            _short(at(group, steps)),
            _short(times_baseline(group, courses, steps)),
            _short(times_baseline(group, courses, steps, _FLOAT64)),
            _short(statistics.median(course.loss[-1] for course in group), "5g"),
            _short(statistics.median(course.loss_as_it_is[-1] for course in group), "5g"),
            _score([course.score for course in group]),
            _score([course.score_as_it_is for course in group]),
        )


def _short(value: float, how: str = "3g") -> str:
    return f"{value:.{how}}"


def _score(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{statistics.median(there):.3f}" if there else ""


def remarks(courses: Sequence[Course]) -> Iterator[str]:
    """Lines below the table: what was trained, what ranks, and which late figures measure chaos."""
    first = courses[0]
    seeds, steps = len({course.seed for course in courses}), len(first.deviation)
    yield f"{first.model} in {first.framework} ({first.versions}): {steps} steps, {seeds} seeds; medians over the seeds"
    yield (
        "deviation: ||w - w0|| / ||w0|| over all weights, against the same training as it is; "
        f"steps 1 to {_RANKED_UP_TO} rank operators"
    )
    lost = {
        f"{change.operator} ({change.format} by {change.computed_in})": chaos_from(group, courses)
        for change, group in by_change(courses).items()
        if not change.is_baseline
    }
    drowned = [f"{name} from step {step}" for name, step in lost.items() if step is not None]
    if drowned:
        yield f"no more than any rounding leads to (within {_OF_CHAOS:g} times of a baseline): {', '.join(drowned)}"
    if steps > _RANKED_UP_TO and len(drowned) < len(lost):
        yield f"step {steps} is past those that rank: by then differences feed on themselves"


def csv_rows(courses: Sequence[Course]) -> Iterator[Sequence[Any]]:
    """Cells of :data:`CSV_COLUMNS`: a line a step."""
    baselines = {
        (course.operator, course.seed): course.deviation
        for course in courses
        if course.operator in (_ONE_ULP, _FLOAT64)
    }
    for course in courses:
        for index, deviation in enumerate(course.deviation):
            yield (
                course.framework,
                course.versions,
                course.model,
                course.operator,
                course.format,
                course.computed_in,
                course.seed,
                index + 1,
                deviation,
                baselines[_ONE_ULP, course.seed][index],
                baselines[_FLOAT64, course.seed][index],
                course.loss[index],
                course.loss_as_it_is[index],
            )


def draw(courses: Sequence[Course], axes: Any) -> None:
    """Draws medians over the seeds and their ranges, both axes logarithmic; what lies past step 20 is shaded."""
    groups = by_change(courses)
    colours = {name: f"C{place % 10}" for place, name in enumerate(dict.fromkeys(one.operator for one in groups))}
    for change, group in groups.items():
        steps = range(1, len(group[0].deviation) + 1)
        over_seeds = list(zip(*(course.deviation for course in group), strict=True))
        label = f"{change.operator}, {change.format}"
        style: dict[str, Any] = {"lw": 1.3, "color": colours[change.operator]}
        if change.format != change.computed_in and not change.is_baseline:
            label += f" by {change.computed_in}"
            style["ls"] = "--"
        if change.is_baseline:
            style = {"lw": 2.2, "ls": ":" if change.operator == _ONE_ULP else "-.", "color": "black"}
        (line,) = axes.plot(steps, [statistics.median(values) for values in over_seeds], label=label, **style)
        if len(group) > 1:
            low, high = [min(values) for values in over_seeds], [max(values) for values in over_seeds]
            axes.fill_between(steps, low, high, alpha=0.12, color=line.get_color(), lw=0)
    last = len(courses[0].deviation)
    if last > _RANKED_UP_TO:
        axes.axvspan(_RANKED_UP_TO, last, color="grey", alpha=0.12, lw=0)
        axes.text(_RANKED_UP_TO * 1.05, 0.98, "late: chaos", transform=axes.get_xaxis_transform(), va="top", fontsize=8)
    first = courses[0]
    axes.set(
        xscale="log", yscale="log", xlabel="step", ylabel="relative difference of all weights",
        title=f"{first.model} ({first.framework}): one operator computed otherwise",
    )  # fmt: skip
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    axes.grid(alpha=0.3)


def plot(courses: Sequence[Course], path: Path) -> None:
    """Writes :func:`draw` as PNG, SVG or PDF, as the name of the file ends. Needs matplotlib, and no screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 5))
    FigureCanvasAgg(figure)
    draw(courses, figure.add_subplot())
    figure.savefig(path, dpi=130, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
