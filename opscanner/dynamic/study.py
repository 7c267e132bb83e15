"""The study's run-time comparison again: seven operators and six gradients on random tensors, in two frameworks.

Sources: the issue that an author of the study filed (https://github.com/tensorflow/tensorflow/issues/67440), whose
figures are the largest difference of an operator's bfloat16 result to its own float32 result on 20,000 tensors of
``bfloat16(randn) * 10``; and the study's scripts with their results (testing/ of https://github.com/wzzll123/OpScanner,
September 2024), whose figures are errors against the framework's own float64 result. Here both stand beside the error
against exact results, in two settings:

honest
    Every attribute is equal on both sides; gradients are what a framework's own backward pass gives for the input x.
    Tensors have five elements.
as published
    Attributes, shapes and random numbers of the study: one element a tensor where an operator works element by element,
    numpy's RandomState(42) (42 + seed for further seeds), float64 numbers rounded to bfloat16, then multiplied by 10.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscanner.dynamic.oracle.oracle import Reference, evaluate_reference
from opscanner.dynamic.study_operators import Published, StudyOperator, published_figures, study_operators
from opscanner.dynamic.trial import run_call
from opscanner.errors import OpscannerError, UsageError
from opscanner.frameworks.runners import Runner, runner_of
from opscanner.measurements import Status
from opscanner.precision.metrics import ErrorSummary, summarize_errors
from opscanner.precision.rounding import round_to_format

#: Formats that the study runs in, and the one that its own measure compares each with.
WIDER = {"bfloat16": "float32", "float16": "float32", "float32": "float64"}

#: What the study gave to numpy.random.seed.
_STUDY_SEED = 42

#: Rows that balls are asked for together, where an operator works along rows.
_ROWS = 64

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class StudyMeasurement:
    """One operator of one framework in one format, on the tensors of one seed.

    Parameters
    ----------
    max_absolute_error, max_relative_error, max_ulp, mean_ulp, max_scaled_ulp, over_1_ulp, class_mismatches, undecided
        Against the exact result for the values received, as in :class:`~opscanner.precision.metrics.ErrorSummary`.
    wider_difference : float
        The published measure: the largest difference to the same call in the next wider format (:data:`WIDER`).
    worst_inputs : dict
        At the largest error in ULP: name of an input to its value, or to the values of its row.
    """

    seed: int
    count: int
    max_absolute_error: float
    wider_difference: float
    max_relative_error: float
    max_ulp: float
    mean_ulp: float
    max_scaled_ulp: float
    over_1_ulp: int
    class_mismatches: int
    undecided: int
    worst_inputs: dict[str, Any]
    worst_expected: float
    worst_got: float


@dataclass(frozen=True)
class Spread:
    """The smallest, the median and the largest of one figure over the seeds."""

    low: float
    median: float
    high: float


def spread_of(measurements: Iterable[Any], figure: str) -> Spread:
    """The spread of one of their numbers; those that are NaN (nothing was compared) are left out."""
    values = [value for value in (float(getattr(one, figure)) for one in measurements) if value == value]
    values = values or [math.nan]
    return Spread(min(values), statistics.median(values), max(values))


@dataclass(frozen=True)
class StudyRow:
    """One operator of one framework in one format, over all seeds.

    Parameters
    ----------
    operator : str
        Id: ``selu``, ``selu_grad``.
    setting : str
        ``honest`` or ``as published``.
    published : Published
        Figures of the study, for bfloat16; empty for other formats.
    alone, differ_alone : int
        Tensors of the first seed that were also run one by one, and how many of their elements came out otherwise.
    alone_max_absolute_error : float
        Of those runs, against the exact result; None when there were none.
    """

    operator: str
    direction: str
    framework: str
    versions: dict[str, str]
    device: str
    format: str
    setting: str
    tensors: int
    measurements: tuple[StudyMeasurement, ...] = field(repr=False)
    published: Published
    alone: int
    differ_alone: int
    alone_max_absolute_error: float | None
    call: str
    reference: str
    note: str

    def spread(self, figure: str) -> Spread:
        """The spread of a number of :class:`StudyMeasurement` over the seeds."""
        return spread_of(self.measurements, figure)

    def total(self, figure: str) -> int:
        """The sum of a count of :class:`StudyMeasurement` over the seeds."""
        return sum(int(getattr(one, figure)) for one in self.measurements)

    def as_json(self) -> dict[str, Any]:
        """The object that ``opscanner study --format json`` prints."""
        measurements = [dict(vars(one)) for one in self.measurements]
        return {**vars(self), "published": dict(vars(self.published)), "measurements": measurements}


def run_study(
    *,
    tensors: int = 20000,
    seeds: Sequence[int] = (0, 1, 2),
    formats: Sequence[str] = ("bfloat16",),
    frameworks: Sequence[str] = ("tensorflow", "pytorch"),
    operators: Sequence[str] = (),
    as_published: bool = False,
    alone: int = 100,
    device: str = "cpu",
    progress: Callable[[str], None] = lambda text: None,
) -> list[StudyRow]:
    """Rows of the study's table: operator by operator, format by format, framework by framework.

    All tensors of a seed are one batch: the operators work element by element, or along the five elements of a tensor.
    The same arguments give the same tensors.

    Parameters
    ----------
    operators : sequence of str
        Ids; all by default.
    alone : int
        So many tensors of the first seed are also run one by one, to see that the batch changes nothing.
    progress : callable
        Called with a sentence for each operator and format.

    Raises
    ------
    UsageError
        For a format, framework or operator that the study does not know, a framework that is not installed, or when
        there is no tensor or seed.
    """
    chosen = choose_operators(operators, as_published)
    check_formats(formats)
    if tensors < 1 or not seeds:
        raise UsageError("the study needs at least one tensor and one seed", "--tensors 20000 --seeds 3")
    runners = prepared_runners(frameworks)
    setting = "as published" if as_published else "honest"
    rows = []
    for format_ in dict.fromkeys(formats):
        for operator in chosen:
            progress(f"{operator.id} in {format_}")
            drawn = {
                seed: draw_tensors(operator, format_, tensors, seed, as_published) for seed in dict.fromkeys(seeds)
            }
            study = _Operator(operator, format_, device, drawn, setting)
            rows += [
                study.row(framework, runner, alone)
                for framework, runner in runners.items()
                if framework in operator.calls
            ]
    return rows


def draw_tensors(
    operator: StudyOperator, format_: str, tensors: int, seed: int, as_published: bool = False
) -> dict[str, np.ndarray]:
    """Inputs of shape ``(tensors, width)``: normal numbers rounded to the format, times 10, rounded again.

    Honestly, all operators get the same ``x`` for a seed; as published, the numbers come in the order in which the
    study's scripts ask for them: the inputs of one tensor after another.

    >>> draw_tensors(study_operators()[0], "bfloat16", 1, 0)["x"].tolist()
    [[1.2578125, -1.3203125, 6.40625, 1.046875, -5.34375]]
    """
    count, width = len(operator.inputs), operator.width
    if as_published:
        drawn = np.random.RandomState(_STUDY_SEED + seed).randn(tensors, count, width)
        normal = [drawn[:, place] for place in range(count)]
    else:
        generator = np.random.default_rng(seed)
        normal = [generator.standard_normal((tensors, width)) for _ in range(count)]
    rounded = (round_to_format(round_to_format(one, format_) * 10.0, format_) for one in normal)
    return dict(zip(operator.inputs, rounded, strict=True))


def choose_operators(names: Sequence[str], as_published: bool) -> tuple[StudyOperator, ...]:
    """The study's operators of these ids; all of them for none.

    Raises
    ------
    UsageError
        For an id that is not of the study.
    """
    known = {one.id: one for one in study_operators(as_published)}
    if strange := [name for name in names if name not in known]:
        raise UsageError(f"{strange[0]!r} is no operator of the study", f"one of {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names)) if names else tuple(known.values())


def check_formats(formats: Iterable[str]) -> None:
    """Refuses formats that have no wider one to be compared with.

    Raises
    ------
    UsageError
    """
    if strange := [name for name in formats if name not in WIDER]:
        raise UsageError(f"the study does not run in {strange[0]!r}", f"one of {', '.join(WIDER)}")


def prepared_runners(frameworks: Sequence[str]) -> dict[str, Runner]:
    """The frameworks' runners, in one thread."""
    runners = {name: runner_of(name) for name in dict.fromkeys(frameworks)}
    for runner in runners.values():
        # Too late where the process has run TensorFlow before: then a result may depend on the number of cores.
        with contextlib.suppress(RuntimeError):
            runner.run_reproducibly()
    return runners


def reference_of(expression: str, inputs: Arrays, format_: str, elementwise: bool) -> Reference:
    """The exact results of a study's operator; rows that are in doubt are decided a few at a time."""
    (found,) = evaluate_reference(expression, inputs, format_, elementwise)
    if elementwise or not found.undecided.any():
        return found
    doubtful = np.flatnonzero(found.undecided.any(axis=-1))
    for start in range(0, doubtful.size, _ROWS):
        rows = doubtful[start : start + _ROWS]
        (part,) = evaluate_reference(expression, {name: one[rows] for name, one in inputs.items()}, format_, False)
        for name in ("values", "low", "undecided", "tier"):
            getattr(found, name)[rows] = getattr(part, name)
    return found


def run_operator(operator: StudyOperator, framework: str, inputs: Arrays, format_: str, device: str) -> np.ndarray:
    """What a framework's call gives, as float64.

    Raises
    ------
    OpscannerError
        With the framework's words where it cannot run the operator in the format on the device.
    """
    outcome = run_call(framework, operator.calls[framework], inputs, format_, device)
    if outcome.status is not Status.RAN:
        raise OpscannerError(
            f"{operator.id} of {framework} in {format_} on {device}: {outcome.status.value}: {outcome.message}",
            "name the other operators, or leave out this format or framework",
        )
    (output,) = outcome.outputs
    got: np.ndarray = output.astype(np.float64)
    return got


class _Operator:
    """One operator in one format on all seeds; references are shared by frameworks that have the same one."""

    def __init__(
        self, operator: StudyOperator, format_: str, device: str, drawn: Mapping[int, Arrays], setting: str
    ) -> None:
        self._operator, self._format, self._device = operator, format_, device
        self._drawn, self._setting = drawn, setting
        self._references: dict[tuple[str, int], Reference] = {}

    def row(self, framework: str, runner: Runner, alone: int) -> StudyRow:
        operator = self._operator
        measured = []
        for seed, inputs in self._drawn.items():
            got = self._run(framework, inputs, self._format)
            measured.append(self._measure(framework, inputs, got, seed))
        first = next(iter(self._drawn.values()))
        tensors = len(first["x"])
        checked = min(alone, tensors)
        differ, error = self._run_alone(framework, checked)
        return StudyRow(
            operator=operator.id,
            direction=operator.direction,
            framework=framework,
            versions=runner.versions(),
            device=self._device,
            format=self._format,
            setting=self._setting,
            tensors=tensors,
            measurements=tuple(measured),
            published=published_figures(operator.id, framework) if self._format == "bfloat16" else Published(),
            alone=checked,
            differ_alone=differ,
            alone_max_absolute_error=error,
            call=operator.calls[framework],
            reference=operator.references[framework],
            note=operator.notes.get(framework, ""),
        )

    def _run(self, framework: str, inputs: Arrays, format_: str) -> np.ndarray:
        return run_operator(self._operator, framework, inputs, format_, self._device)

    def _measure(self, framework: str, inputs: Arrays, got: np.ndarray, seed: int) -> StudyMeasurement:
        reference = self._reference(framework, seed)
        found = summarize_errors(got, reference.values, self._format, reference.low, reference.undecided)
        wide = self._run(framework, inputs, WIDER[self._format])
        with np.errstate(invalid="ignore"):
            difference = np.abs(got - wide)
        finite = difference[np.isfinite(difference)]
        return StudyMeasurement(
            seed=seed,
            count=found.count,
            max_absolute_error=found.max_absolute_error,
            wider_difference=float(finite.max()) if finite.size else float("nan"),
            max_relative_error=found.max_relative_error,
            max_ulp=found.max_ulp,
            mean_ulp=found.mean_ulp,
            max_scaled_ulp=found.max_scaled_ulp,
            over_1_ulp=found.over_1_ulp,
            class_mismatches=found.class_mismatches,
            undecided=found.undecided,
            worst_inputs=worst_inputs(found, inputs, self._operator.elementwise),
            worst_expected=found.worst_expected,
            worst_got=found.worst_got,
        )

    def _reference(self, framework: str, seed: int) -> Reference:
        expression = self._operator.references[framework]
        if (expression, seed) not in self._references:
            made = reference_of(expression, self._drawn[seed], self._format, self._operator.elementwise)
            self._references[expression, seed] = made
        return self._references[expression, seed]

    def _run_alone(self, framework: str, tensors: int) -> tuple[int, float | None]:
        """How many elements of the first tensors come out otherwise when each tensor is a call of its own, and the
        largest absolute error of those calls.
        """
        seed, inputs = next(iter(self._drawn.items()))
        if not tensors:
            return 0, None
        together = self._run(framework, inputs, self._format)[:tensors]
        each = [
            self._run(framework, {name: one[row : row + 1] for name, one in inputs.items()}, self._format)
            for row in range(tensors)
        ]
        apart = np.concatenate(each)
        same = (apart == together) | (np.isnan(apart) & np.isnan(together))
        reference = self._reference(framework, seed)
        values, low, undecided = (part[:tensors] for part in (reference.values, reference.low, reference.undecided))
        found = summarize_errors(apart, values, self._format, low, undecided)
        return int(np.count_nonzero(~same)), found.max_absolute_error


def worst_inputs(found: ErrorSummary, inputs: Arrays, elementwise: bool) -> dict[str, Any]:
    """The inputs at the worst element, or of its row; none where nothing was compared."""
    if found.worst_index < 0:
        return {}
    if elementwise:
        return {name: float(array.reshape(-1)[found.worst_index]) for name, array in inputs.items()}
    row = found.worst_index // next(iter(inputs.values())).shape[-1]
    return {name: array[row].tolist() for name, array in inputs.items()}
