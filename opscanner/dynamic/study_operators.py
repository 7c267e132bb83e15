"""The operators of the study, and how both frameworks are called: honestly, and as published.

Tables of rows: a new operator is a row in :data:`_HONEST`, and one in :data:`_AS_PUBLISHED` where its call, or what it
is asked to compute, is another there.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

from opscanner.operators.pairs import data_folder

#: Klambauer et al. 2017 (arXiv 1706.02515), as both frameworks write them.
_SCALE = "1.0507009873554804934193349852946"
_SCALED_ALPHA = f"{_SCALE} * 1.6732632423543772848170429916717"

#: Elements of one tensor where the study had five: the operators that work along them.
WIDTH = 5

#: Id to the operator's name in the table of the issue.
_IN_ISSUE = {
    "selu": "selu", "leaky_relu": "leakyrelu", "softplus": "softplus", "selu_grad": "seluGrad",
    "leaky_relu_grad": "leakyreluGrad", "softplus_grad": "softplusGrad",
}  # fmt: skip

_COLUMNS = {"tensorflow": "tensorflow_largest_difference", "pytorch": "pytorch_largest_difference"}


@dataclass(frozen=True)
class Published:
    """Figures that the study published, all of bfloat16 on a GPU; None where it gives none.

    Parameters
    ----------
    difference : float or None
        Largest difference to the same framework's float32 (``data/reference/tensorflow_67440.csv``).
    absolute_error, relative_error : float or None
        Largest error against the same framework's float64 (``data/reference/study_artifact.csv``).
    """

    difference: float | None = None
    absolute_error: float | None = None
    relative_error: float | None = None


@dataclass(frozen=True)
class StudyOperator:
    """One operator of the study in one setting.

    Parameters
    ----------
    inputs : tuple of str
        Names: ``x``, and ``y`` or the upstream gradient ``dy``.
    width : int
        Elements of one tensor of each input.
    elementwise : bool
        False for those that work along the elements of a tensor.
    calls, references : mapping
        Framework to its call, and to the exact result of what it is asked to compute.
    domain : str
        Conditions over the inputs for values that are not random (see ``Operator.domain``).
    notes : mapping
        Framework to what must be known to read its figures.
    """

    id: str
    direction: str
    inputs: tuple[str, ...]
    elementwise: bool
    calls: Mapping[str, str] = field(hash=False)
    references: Mapping[str, str] = field(hash=False)
    domain: str = ""
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)
    width: int = WIDTH


@functools.cache
def study_operators(as_published: bool = False) -> tuple[StudyOperator, ...]:
    """The operators in one setting: first the seven, then the gradients of six of them (floor_divide has none).

    >>> [one.id for one in study_operators()][:7]
    ['selu', 'elu', 'softplus', 'leaky_relu', 'log_softmax', 'logcumsumexp', 'floor_divide']
    """
    return (*(_published_row(one) for one in _HONEST), *_ALSO_PUBLISHED) if as_published else _HONEST


def published_figures(operator: str, framework: str) -> Published:
    """What the study published of an operator."""
    return Published(
        _issue().get((_IN_ISSUE.get(operator, ""), framework)), *_artifact().get((operator, framework), (None, None))
    )


@functools.cache
def _issue() -> dict[tuple[str, str], float]:
    with (data_folder() / "reference" / "tensorflow_67440.csv").open(newline="", encoding="utf-8") as lines:
        return {
            (row["operator"], framework): float(row[column])
            for row in csv.DictReader(lines)
            for framework, column in _COLUMNS.items()
        }


@functools.cache
def _artifact() -> dict[tuple[str, str], tuple[float, float]]:
    with (data_folder() / "reference" / "study_artifact.csv").open(newline="", encoding="utf-8") as lines:
        return {
            (row["operator"], row["framework"]): (float(row["max_absolute_error"]), float(row["max_relative_error"]))
            for row in csv.DictReader(lines)
        }


def _row(
    id_: str,
    torch: str,
    tensorflow: str,
    reference: str,
    second: str = "",
    elementwise: bool = True,
    domain: str = "",
    note: str = "",
) -> StudyOperator:
    return StudyOperator(
        id=id_,
        direction="backward" if second == "dy" else "forward",
        inputs=("x", second) if second else ("x",),
        elementwise=elementwise,
        calls={"pytorch": torch, "tensorflow": tensorflow},
        references=dict.fromkeys(("pytorch", "tensorflow"), reference),
        domain=domain,
        notes=dict.fromkeys(("pytorch", "tensorflow"), note) if note else {},
    )


def _gradients(torch: str, tensorflow: str) -> tuple[str, str]:
    """Calls of the backward passes of two calls."""
    return f"grad(lambda x: {torch}, x, dy)", f"grad(lambda x: {tensorflow}, x, dy)"


_SOFTPLUS = "F.softplus(x, beta=1.0, threshold=20.0)"
_LEAKY = ("F.leaky_relu(x, negative_slope=0.2)", "raw.LeakyRelu(features=x, alpha=0.2)")
_LOG_SOFTMAX = ("F.log_softmax(x, dim=-1)", "raw.LogSoftmax(logits=x)")
_SCAN = ("torch.logcumsumexp(x, dim=1)", "raw.CumulativeLogsumexp(x=x, axis=1, exclusive=False, reverse=False)")
_NEAR_ZERO = "results next to 0 have errors of many ULP: see the ULP of the row's largest result"
_OF_INPUT = "of the input x; TensorFlow's op receives the forward output, rounded to the format"
_ALPHA = "alpha is 0.2 on both sides; the published figure of PyTorch is of its default 0.01"

_HONEST = (
    _row("selu", "F.selu(x)", "raw.Selu(features=x)", "selu(x)"),
    _row("elu", "F.elu(x, alpha=1.0)", "raw.Elu(features=x)", "elu(x)"),
    _row("softplus", _SOFTPLUS, "raw.Softplus(features=x)", "softplus(x)"),
    _row("leaky_relu", *_LEAKY, "leaky_relu(x, 0.2)", note=_ALPHA),
    _row("log_softmax", *_LOG_SOFTMAX, "log_softmax(x)", elementwise=False, note=_NEAR_ZERO),
    _row("logcumsumexp", *_SCAN, "logcumsumexp(x, 1)", elementwise=False, note=_NEAR_ZERO),
    _row(
        "floor_divide", "torch.floor_divide(x, y)", "raw.FloorDiv(x=x, y=y)", "floor_divide(x, y)", "y",
        domain="(y != 0) & np.isfinite(x) & np.isfinite(y)",
        note="the absolute error is the rounding of the largest quotient, whatever the operator does",
    ),
    _row(
        "selu_grad", *_gradients("F.selu(x)", "raw.Selu(features=x)"),
        f"dy * where(x > 0, {_SCALE}, {_SCALED_ALPHA} * exp(minimum(x, 0.0)))", "dy", domain="x != 0", note=_OF_INPUT,
    ),
    _row(
        "elu_grad", *_gradients("F.elu(x, alpha=1.0)", "raw.Elu(features=x)"),
        "elu_grad(x, dy)", "dy", note=_OF_INPUT,
    ),
    _row(
        "softplus_grad", *_gradients(_SOFTPLUS, "raw.Softplus(features=x)"),
        "softplus_grad(x, dy)", "dy",
    ),
    _row(
        "leaky_relu_grad", *_gradients(*_LEAKY),
        "leaky_relu_grad(x, dy, 0.2)", "dy", note=_ALPHA,
    ),
    _row(
        "log_softmax_grad", *_gradients(*_LOG_SOFTMAX),
        "grad(lambda x: log_softmax(x), x, dy)", "dy", elementwise=False, note=_NEAR_ZERO,
    ),
    _row(
        "logcumsumexp_grad", *_gradients(*_SCAN),
        "grad(lambda x: logcumsumexp(x, 1), x, dy)", "dy", elementwise=False, note=_NEAR_ZERO,
    ),
)  # fmt: skip

_ALPHAS = dict.fromkeys(
    ("pytorch", "tensorflow"),
    "an artefact: the default alpha is 0.2 in TensorFlow and 0.01 in PyTorch, and the error grows with it",
)
_RANDOM_OUTPUTS = (
    "not what the study did: {op} takes the forward output, which is never below {least}; fed with random numbers down "
    "to -45 it is asked for dy * (outputs + {shift}), of 1,000 and more, and its figure is another"
)

#: Id to what is another there: calls, references, notes. Threshold and defaults are those of the study's scripts
#: (testing/ of https://github.com/wzzll123/OpScanner), but for the slope of PyTorch's leaky_relu: 0.2 in the scripts,
#: while the issue's figures are twenty times smaller than TensorFlow's, as the default of 0.01 makes them.
_AS_PUBLISHED: dict[str, dict[str, dict[str, str]]] = {
    "softplus": {"calls": {"pytorch": "F.softplus(x, threshold=70)"}},
    "softplus_grad": {
        "calls": {
            "pytorch": "grad(lambda x: F.softplus(x, threshold=70), x, dy)",
            "tensorflow": "raw.SoftplusGrad(gradients=dy, features=x)",
        }
    },
    "leaky_relu": {
        "calls": {"pytorch": "F.leaky_relu(x)", "tensorflow": "raw.LeakyRelu(features=x)"},
        "references": {"pytorch": "leaky_relu(x, 0.01)"},
        "notes": _ALPHAS,
    },
    "leaky_relu_grad": {
        "calls": {
            "pytorch": "grad(lambda x: F.leaky_relu(x), x, dy)",
            "tensorflow": "raw.LeakyReluGrad(gradients=dy, features=x)",
        },
        "references": {"pytorch": "leaky_relu_grad(x, dy, 0.01)"},
        "notes": _ALPHAS,
    },
    "selu_grad": {"calls": {"tensorflow": "raw.SeluGrad(gradients=dy, outputs=raw.Selu(features=x))"}},
    "elu_grad": {"calls": {"tensorflow": "raw.EluGrad(gradients=dy, outputs=raw.Elu(features=x))"}},
}


def _published_row(honest: StudyOperator) -> StudyOperator:
    other = _AS_PUBLISHED.get(honest.id, {})
    return dataclasses.replace(
        honest,
        calls={**honest.calls, **other.get("calls", {})},
        references={**honest.references, **other.get("references", {})},
        notes=other.get("notes", honest.notes),
        # One element a tensor where the operator works element by element: floor_divide had two, x and y.
        width=1 if honest.elementwise else WIDTH,
    )


#: What a reader of the issue may take for the published setting; TensorFlow alone.
_ALSO_PUBLISHED = tuple(
    StudyOperator(
        id=f"{name}.random_outputs",
        direction="backward",
        inputs=("x", "dy"),
        elementwise=True,
        calls={"tensorflow": f"raw.{op}(gradients=dy, outputs=x)"},
        references={"tensorflow": reference},
        notes={"tensorflow": _RANDOM_OUTPUTS.format(op=op, least=least, shift=shift)},
        width=1,
    )
    for name, op, reference, least, shift in (
        ("selu_grad", "SeluGrad", "selu_grad(x, dy)", "-1.76", "1.76"),
        ("elu_grad", "EluGrad", "elu_grad_of_output(x, dy)", "-1", "1"),
    )
)
