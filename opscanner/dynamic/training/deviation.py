"""How far weights are from those of the same training with one operator computed otherwise, step by step.

The training as it is and its variants go side by side: same seed, same first weights, same batches. Two variants say
what a deviation is worth: the whole model in float64, and one weight moved by one ULP before the first step. Training
is chaotic, so that the second grows like the others, only later: where an operator's deviation is no longer far above
it, it says nothing of the operator. Nothing here imports a framework.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from opscanner.errors import OpscannerError, UsageError
from opscanner.precision.formats import FORMATS

#: Formats that kernels of both frameworks compute in.
COMPUTED_IN = ("bfloat16", "float16", "float32", "float64")
#: The step whose deviations rank operators: late enough for a difference to have reached every weight, and long before
#: one ULP has grown to the same size.
RANKING_STEP = 5
#: Baselines, by the names they have as operators.
FLOAT64, ONE_ULP = "whole model", "one weight"

Weights = Mapping[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Change:
    """What one training does otherwise than the one as it is.

    Parameters
    ----------
    operator : str
        Such as ``conv2d``; :data:`FLOAT64` or :data:`ONE_ULP` for a baseline.
    format : str
        That its inputs and results are rounded to, forward and backward.
    computed_in : str
        What its kernel is called in: ``format`` itself, or a wider one for an operator that upcasts.
    """

    operator: str
    format: str
    computed_in: str

    @property
    def is_baseline(self) -> bool:
        """Whether no operator is changed."""
        return self.operator in (FLOAT64, ONE_ULP)


#: The two that stand beside every operator.
BASELINES = (Change(FLOAT64, "float64", "float64"), Change(ONE_ULP, "1 ULP", "float32"))


@dataclass(frozen=True)
class Course:
    """One change with one seed.

    Parameters
    ----------
    deviation : tuple of float
        After step 1, 2 ...: ||w - w0|| / ||w0|| in float64 over all weights, where w0 is the training as it is.
    layers : dict
        The same of each layer's weights alone.
    loss, loss_as_it_is : tuple of float
        Before each step, on its batch.
    score, score_as_it_is : float or None
        Share of right answers after the last step on batches that training did not see.
    """

    framework: str
    versions: str
    model: str
    operator: str
    format: str
    computed_in: str
    seed: int
    deviation: tuple[float, ...]
    layers: dict[str, tuple[float, ...]]
    loss: tuple[float, ...]
    loss_as_it_is: tuple[float, ...]
    score: float | None
    score_as_it_is: float | None

    @property
    def change(self) -> Change:
        """What was changed."""
        return Change(self.operator, self.format, self.computed_in)

    def as_json(self) -> dict[str, Any]:
        """For files."""
        return asdict(self)


class Learner(Protocol):
    """One training that goes step by step."""

    def step(self, index: int) -> float:
        """The loss before step ``index`` (from 0), which is then done."""

    def weights(self) -> Weights:
        """Copies, by names such as ``first.weight``."""

    def score(self) -> float | None:
        """Share of right answers on batches that training does not see."""


class Trainer(Protocol):
    """Makes learners of one model in one framework."""

    framework: str
    versions: str
    model: str

    def operators(self) -> Sequence[str]:
        """Those that a training step calls and that can be changed, in order of first call."""

    def learner(self, seed: int, change: Change | None) -> Learner:
        """One training; as it is where ``change`` is None."""


def relative_l2(weights: Weights, others: Weights) -> float:
    """||weights - others|| / ||others|| in float64; 0 for equal ones, infinite where ``others`` are 0 alone.

    >>> relative_l2({"a": np.array([3.0])}, {"a": np.array([4.0])})
    0.25
    """
    over = math.sqrt(sum(_squares(weights[name].astype(np.float64) - others[name]) for name in others))
    under = math.sqrt(sum(_squares(others[name].astype(np.float64)) for name in others))
    if over == 0:
        return 0.0
    return over / under if under else math.inf


def _squares(values: Any) -> float:
    return float(np.dot(values.ravel(), values.ravel()))


def layer_of(name: str) -> str:
    """``blocks.0.first`` of ``blocks.0.first.weight``."""
    return name.rpartition(".")[0] or name


def train_beside(
    trainer: Trainer, changes: Sequence[Change], seed: int, steps: int, progress: Callable[[str], None]
) -> list[Course]:
    """Trains as it is and with each change, side by side; a course a change."""
    plain = trainer.learner(seed, None)
    learners = [trainer.learner(seed, change) for change in changes]
    names: dict[str, list[str]] = {}
    for name in plain.weights():
        names.setdefault(layer_of(name), []).append(name)
    whole: list[list[float]] = [[] for _ in changes]
    layers: list[dict[str, list[float]]] = [{layer: [] for layer in names} for _ in changes]
    losses: list[list[float]] = [[] for _ in changes]
    plain_losses: list[float] = []
    for index in range(steps):
        plain_losses.append(plain.step(index))
        expected = plain.weights()
        for place, learner in enumerate(learners):
            losses[place].append(learner.step(index))
            got = learner.weights()
            whole[place].append(relative_l2(got, expected))
            for layer, members in names.items():
                layers[place][layer].append(
                    relative_l2({name: got[name] for name in members}, {name: expected[name] for name in members})
                )
        if (index + 1) % 50 == 0:
            progress(f"seed {seed}: {index + 1} of {steps} steps")
    return [
        Course(
            framework=trainer.framework,
            versions=trainer.versions,
            model=trainer.model,
            operator=change.operator,
            format=change.format,
            computed_in=change.computed_in,
            seed=seed,
            deviation=tuple(whole[place]),
            layers={layer: tuple(values) for layer, values in layers[place].items()},
            loss=tuple(losses[place]),
            loss_as_it_is=tuple(plain_losses),
            score=learners[place].score(),
            score_as_it_is=plain.score(),
        )
        for place, change in enumerate(changes)
    ]


def changes_of(operators: Sequence[str], format_: str, *, upcast: bool) -> list[Change]:
    """A change an operator, with ``upcast`` one more that computes wider and rounds; then the baselines.

    Raises
    ------
    UsageError
        For a format that kernels do not compute in.
    """
    if format_ not in COMPUTED_IN:
        raise UsageError(f"operators do not compute in {format_!r}", f"one of {', '.join(COMPUTED_IN)}")
    wider = "float64" if FORMATS[format_].precision >= FORMATS["float32"].precision else "float32"
    changes = []
    for operator in operators:
        changes.append(Change(operator, format_, format_))
        if upcast:
            changes.append(Change(operator, format_, wider))
    return [*changes, *BASELINES]


def deviations(
    trainer: Trainer,
    *,
    operators: Sequence[str],
    format_: str,
    upcast: bool,
    steps: int,
    seeds: Sequence[int],
    save: Path | None,
    progress: Callable[[str], None],
) -> Iterator[list[Course]]:
    """Courses of one seed after the other; those that ``save`` holds already are read, others are added to it.

    Raises
    ------
    UsageError
        For an operator that the model does not call, one that is named and has no kernel for the format, or a format
        that nothing computes in. Operators without a kernel that nobody named are left out; ``progress`` says so.
    OpscannerError
        When ``save`` is no file of courses.
    """
    known = trainer.operators()
    for operator in operators:
        if operator not in known:
            raise UsageError(
                f"{trainer.model} calls no operator {operator!r} in {trainer.framework}",
                f"one of {', '.join(known)}",
            )
    changes = changes_of(operators or known, format_, upcast=upcast)
    if not operators:
        changes = [change for change in changes if _runs(trainer, change, progress)]
    saved = _saved(save) if save is not None and save.exists() else []
    for seed in seeds:
        there = {
            course.change: course
            for course in saved
            if (course.framework, course.versions, course.model) == (trainer.framework, trainer.versions, trainer.model)
            and (course.seed, len(course.deviation)) == (seed, steps)
        }
        missing = [change for change in changes if change not in there]
        if missing:
            for course in train_beside(trainer, missing, seed, steps, progress):
                there[course.change] = course
            if save is not None:
                with save.open("a", encoding="utf-8") as stream:
                    stream.writelines(json.dumps(there[change].as_json()) + "\n" for change in missing)
        progress(f"seed {seed}: {'done' if missing else 'read from ' + str(save)}")
        yield [there[change] for change in changes]


def _runs(trainer: Trainer, change: Change, progress: Callable[[str], None]) -> bool:
    """Whether there are kernels for a change that nobody named (oneDNN's LSTM, say, has none in float64)."""
    try:
        trainer.learner(0, change).step(0)
    except UsageError as error:
        progress(f"left out: {error}")
        return False
    return True


def _saved(path: Path) -> list[Course]:
    """Whole lines of a file of courses. The last one may be cut short, by what interrupted its writing."""
    courses = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            values = json.loads(line)
            courses.append(Course(**{field.name: _tuples(values[field.name]) for field in fields(Course)}))
        except (ValueError, KeyError, TypeError) as error:
            raise OpscannerError(
                f"{path}:{number} is no course of a training: {error}", "give --save another file"
            ) from error
    if lines[-1]:
        path.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")
    return courses


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: tuple(part) for key, part in value.items()}
    return tuple(value) if isinstance(value, list) else value
