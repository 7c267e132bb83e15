"""Pairs of a PyTorch operator and a TensorFlow raw op that compute the same, read from ``data/operator_pairs.csv``.

A row says how both are called, with every attribute set on both sides, for which inputs, and how far their results lay
apart when both ran (``scripts/check_operator_pairs.py`` fills those columns). ``data/README.md`` describes the columns
and the small language of the calls. Reading the table needs neither torch nor tensorflow nor numpy.
"""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path

from opscanner.errors import OpscannerError
from opscanner.precision.formats import FORMATS

_TABLE = "operator_pairs.csv"


@dataclass(frozen=True)
class ErrorClass:
    """How far apart two right implementations may lie, in units of u = 2**-precision of the format checked in.

    Parameters
    ----------
    metric : str
        ``elementwise``: the largest abs(a - b) / max(abs(a), abs(b)) of an output; ``normwise``: the largest
        abs(a - b) over the largest abs(a) of the output.
    factor : float
        The bound is ``factor * terms**power`` u, ``terms`` being the pair's own.
    power : int
    why : str
        Where the factor comes from.
    """

    metric: str
    factor: float
    power: int
    why: str


#: "Higham" is N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002.
ERROR_CLASSES: dict[str, ErrorClass] = {
    "exact": ErrorClass(
        "elementwise", 0, 0, "moves, compares, counts, or rounds once: IEEE 754-2019 (4.3, 5.4) leaves one result"
    ),
    "rounded": ErrorClass(
        "elementwise", 32, 0, "at most 8 correctly rounded operations without cancellation a side, 2u each"
    ),
    "elementary": ErrorClass(
        "elementwise",
        4096,
        0,
        "elementary functions within 4 ULP = 8u (SLEEF and Eigen state 1 to 4) on 2 sides = 16u, times 256 for the "
        "condition number and the number of steps in the stated domain",
    ),
    "special": ErrorClass(
        "elementwise",
        65536,
        0,
        "series, recurrences and rational approximations of about 16 terms or passes, each as an elementary function",
    ),
    "sum": ErrorClass(
        "normwise",
        32,
        1,
        "a sum of n products errs by at most n u sum(abs) a side (Higham 3.1, 4.2), 2 sides; "
        "sum(abs) is at most 16 times the largest result of these inputs",
    ),
    "linear_algebra": ErrorClass(
        "normwise",
        4096,
        2,
        "backward stable factorization of an n by n matrix: c n**2 u times the condition number (Higham 9.3, 10.1), "
        "c times the condition number of these inputs at most 2048, 2 sides",
    ),
    "float32_constant": ErrorClass(
        "normwise",
        64,
        0,
        "one side rounds constants or logarithms to float32 whatever the format: at most 64 enter a value, none "
        "amplified; u is that of float32",
    ),
    "float32_inside": ErrorClass(
        "normwise",
        4096,
        0,
        "one side computes weights or coordinates below 64 in float32 whatever the format: an error of a few 2**-18; "
        "u is that of float32",
    ),
    "approximation": ErrorClass(
        "elementwise",
        16384,
        0,
        "torch takes Taylor, Rice saddle-point and fitted expansions (standard_gamma_grad_one in "
        "aten/src/ATen/native/Distributions.h), good to about three digits; u is that of float32, the bound 2**-10",
    ),
    "table_lookup": ErrorClass(
        "normwise",
        65536,
        0,
        "TensorFlow takes cubic weights from a table of 1024 steps (kTableSize, resize_bicubic_op.cc): an offset wrong "
        "by 2**-11, slope at most 1.5 in each of 2 directions; u is that of float32, the bound 2**-8",
    ),
}

#: Classes whose unit is float32's, whatever format the pair is checked in.
_FLOAT32_UNIT = frozenset({"float32_constant", "float32_inside", "table_lookup", "approximation"})


#: Operators of either framework that are an elementary or special function, or hold one, in lower case.
_ELEMENTARY = frozenset(
    {
        *("acos", "acosh", "angle", "asin", "asinh", "atan", "atan2", "atanh", "celu", "cos", "cosh", "digamma", "elu"),
        *(
            "erf",
            "erfc",
            "erfinv",
            "exp",
            "expm1",
            "gelu",
            "gelu_backward",
            "glu",
            "igamma",
            "igammac",
            "lgamma",
            "log",
        ),
        *(
            "log1p",
            "log_sigmoid_forward",
            "logaddexp",
            "logit",
            "logsoftmax",
            "logsumexp",
            "mish",
            "ndtri",
            "polygamma",
        ),
        *("pow", "selu", "sigmoid", "silu", "silu_backward", "sin", "sinh", "softmax", "softplus", "special_xlog1py"),
        *("tan", "tanh", "xlog1py", "xlogy", "zeta", "_softmax", "_log_softmax", "logcumsumexp", "cumulativelogsumexp"),
    }
)


def is_elementary(operator: str) -> bool:
    """True for an operator of either framework that is an elementary or special function, or holds one.

    >>> is_elementary("Log1p"), is_elementary("Relu6"), is_elementary("sqrt")
    (True, False, False)
    """
    return operator.lower() in _ELEMENTARY


@dataclass(frozen=True)
class PairInput:
    """One input: random values of a kind, shape and closed range, or an expression of the inputs before it.

    ``kind`` is ``float`` (the format under test), ``complex``, ``int32``, ``int64``, ``uint8``, ``bool``, or
    ``expression``.
    """

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    low: float = 0.0
    high: float = 0.0
    expression: str = ""


@dataclass(frozen=True)
class OperatorPair:
    """One row of the table; the columns are described in ``data/README.md``.

    >>> pair = find_pair("elu")
    >>> pair.aten, pair.tensorflow, pair.direction
    (('elu',), 'Elu', 'forward')
    >>> pair.torch_call, pair.tensorflow_call
    ('F.elu(x, alpha=1.0)', 'raw.Elu(features=x)')
    """

    id: str
    direction: str
    kind: str
    module: str
    torch: str
    aten: tuple[str, ...]
    aten_cuda: tuple[str, ...]
    tensorflow: str
    composed_in: str
    inputs: tuple[PairInput, ...]
    format: str
    torch_call: str
    tensorflow_call: str
    error_class: str
    terms: int
    note: str
    unchecked_because: str
    result: str
    difference: float | None
    aten_ran: tuple[str, ...]
    tensorflow_ran: tuple[str, ...]
    aten_backward_ran: tuple[str, ...] = ()
    tensorflow_backward_ran: tuple[str, ...] = ()
    other_modes: tuple[str, ...] = ()

    @property
    def bound(self) -> float:
        """Largest relative difference that two right implementations may show (see :data:`ERROR_CLASSES`)."""
        row = ERROR_CLASSES[self.error_class]
        unit_format = "float32" if self.error_class in _FLOAT32_UNIT else self.format
        return float(row.factor * self.terms**row.power * 2.0 ** -FORMATS[unit_format].precision)

    @property
    def elementary_functions(self) -> tuple[str, ...]:
        """Operators that are or hold an elementary function, among those that ran on either side (none, unchecked).

        >>> find_pair("gelu.tanh").elementary_functions
        ('gelu', 'Pow', 'Tanh')
        """
        return tuple(name for name in (*self.aten_ran, *self.tensorflow_ran) if is_elementary(name))

    @property
    def metric(self) -> str:
        """``elementwise`` or ``normwise``."""
        return ERROR_CLASSES[self.error_class].metric


_RANDOM = re.compile(
    r"(?P<name>\w+): (?P<kind>\w+) \((?P<shape>[\d, ]*)\)(?: in \[(?P<low>[-+.\de]+), (?P<high>[-+.\de]+)\])?$"
)
_EXPRESSION = re.compile(r"(?P<name>\w+) = (?P<expression>.+)$")


def parse_inputs(text: str) -> tuple[PairInput, ...]:
    """The inputs that a cell of the table describes.

    >>> parse_inputs("x: float (4, 7) in [-5, 5]; y = np.tanh(x)")[1]
    PairInput(name='y', kind='expression', shape=(), low=0.0, high=0.0, expression='np.tanh(x)')

    Raises
    ------
    OpscannerError
        For a part that is neither of the two forms.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        if match := _RANDOM.match(part):
            shape = tuple(int(size) for size in match["shape"].split(",") if size.strip())
            low, high = float(match["low"] or 0), float(match["high"] or 1)
            found.append(PairInput(match["name"], match["kind"], shape, low, high))
        elif match := _EXPRESSION.match(part):
            found.append(PairInput(match["name"], "expression", expression=match["expression"]))
        else:
            raise OpscannerError(
                f"{_TABLE}: {part!r} describes no input", "write 'x: float (4, 7) in [-5, 5]' or 'y = np.tanh(x)'"
            )
    return tuple(found)


def data_folder() -> Path:
    """The folder of tables: ``data/`` of a checkout, else where an installed wheel keeps it.

    Raises
    ------
    OpscannerError
        When neither is there.
    """
    above = Path(__file__).resolve().parents[2]
    candidates = [above / "data", above / "share" / "opscanner" / "data"]  # a checkout; pip install --target
    try:
        files = importlib.metadata.files("opscanner") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    candidates += [Path(str(file.locate())).resolve().parent for file in files if file.name == _TABLE]
    for folder in candidates:
        if (folder / _TABLE).is_file():
            return folder
    raise OpscannerError(
        f"{_TABLE} is in none of {', '.join(map(str, candidates))}", "install opscanner again: the table comes with it"
    )


def read_pairs(table: Path) -> tuple[OperatorPair, ...]:
    """The rows of ``table`` in its order."""
    with table.open(newline="", encoding="utf-8") as lines:
        return tuple(_pair(row) for row in csv.DictReader(lines))


@functools.cache
def load_pairs() -> tuple[OperatorPair, ...]:
    """All pairs of the table that comes with opscanner, in its order."""
    return read_pairs(data_folder() / _TABLE)


def find_pair(identifier: str) -> OperatorPair:
    """The pair of that id.

    Raises
    ------
    OpscannerError
        When no pair has it.
    """
    for pair in load_pairs():
        if pair.id == identifier:
            return pair
    raise OpscannerError(f"no operator pair has the id {identifier!r}", f"the ids are in the first column of {_TABLE}")


def pairs_of(aten: str = "", tensorflow: str = "") -> tuple[OperatorPair, ...]:
    """The pairs of an ATen operator or a TensorFlow op; with both given, those of both.

    >>> [pair.id for pair in pairs_of(tensorflow="SeluGrad")]
    ['selu_grad']
    """
    return tuple(
        pair
        for pair in load_pairs()
        if (not aten or aten in pair.aten or aten in pair.aten_cuda)
        and (not tensorflow or tensorflow == pair.tensorflow)
    )


def _pair(row: dict[str, str]) -> OperatorPair:
    return OperatorPair(
        id=row["id"],
        direction=row["direction"],
        kind=row["kind"],
        module=row["module"],
        torch=row["torch"],
        aten=tuple(row["aten"].split()),
        aten_cuda=tuple(row["aten_cuda"].split()),
        tensorflow=row["tensorflow"],
        composed_in=row["composed_in"],
        inputs=parse_inputs(row["inputs"]),
        format=row["format"],
        torch_call=row["torch_call"],
        tensorflow_call=row["tensorflow_call"],
        error_class=row["error_class"],
        terms=int(row["terms"]),
        note=row["note"],
        unchecked_because=row["unchecked_because"],
        result=row["result"],
        difference=float(row["difference"]) if row["difference"] else None,
        aten_ran=tuple(row["aten_ran"].split()),
        tensorflow_ran=tuple(row["tensorflow_ran"].split()),
        # Columns that a table of one's own may leave out.
        aten_backward_ran=tuple((row.get("aten_backward_ran") or "").split()),
        tensorflow_backward_ran=tuple((row.get("tensorflow_backward_ran") or "").split()),
        other_modes=tuple((row.get("other_modes") or "").split()),
    )
