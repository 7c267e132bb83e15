"""All operators that can be run: pairs of both frameworks, operators of one alone, each with its reference result.

Joins ``data/operator_pairs.csv``, ``data/operators_alone.csv`` and every table in ``data/references/``. The last two
may be missing, as may the reference of an operator: such operators run, and are compared with each other and with
their own call in a wider format alone. Reading the tables needs neither torch nor tensorflow nor numpy.
"""

from __future__ import annotations

import csv
import dataclasses
import difflib
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opscanner.composition import is_composite
from opscanner.errors import OpscannerError, UsageError
from opscanner.operators.pairs import OperatorPair, PairInput, data_folder, parse_inputs, read_pairs

#: The frameworks' names, as users give them and as the folders of ``opscanner/frameworks`` are called.
FRAMEWORKS = ("pytorch", "tensorflow")

_PAIRS = "operator_pairs.csv"
_ALONE = "operators_alone.csv"
_REFERENCES = "references"


@dataclass(frozen=True)
class Operator:
    """One operator and all that is needed to run and to judge it.

    Parameters
    ----------
    id : str
        Stable; what follows a dot is a variant (``sum.columns``).
    direction : str
        ``forward`` or ``backward``.
    kind, module : str
        As in ``data/operator_pairs.csv``.
    inputs : tuple of PairInput
        What the calls and the reference are called with; integers, booleans and expressions keep their meaning.
    calls : mapping
        Framework (:data:`FRAMEWORKS`) to its call, an expression over the inputs; one entry for an operator alone.
    reference : str
        The exact result, an expression over the inputs in the language of ``opscanner/dynamic/oracle``; a tuple where
        the calls give several outputs. Empty: nobody has written it.
    elementwise : bool
        True when every element of every output depends on the elements of the float inputs at its place alone, so that
        the inputs may have any one shape.
    domain : str
        Numpy conditions over the inputs that values must meet; empty: every value of the format may be fed (with a
        reference), or the values stay in the ranges of :attr:`inputs` (without).
    budget : str
        The class of error budget (``data/ulp_budgets.csv``).
    note : str
        Of the reference.
    scale : str
        The largest intermediate result of each output's elements, an expression as :attr:`reference`, where a framework
        must round one to the format: the output that a gradient is handed. Empty: the row's largest result is.
    pair : OperatorPair or None
        The row of ``data/operator_pairs.csv``: names in both frameworks, what ran, why it could not be checked.
    """

    id: str
    direction: str
    kind: str
    module: str
    inputs: tuple[PairInput, ...]
    calls: Mapping[str, str] = field(hash=False)
    reference: str = ""
    elementwise: bool = False
    domain: str = ""
    budget: str = ""
    note: str = ""
    scale: str = ""
    pair: OperatorPair | None = field(default=None, repr=False)

    @property
    def float_inputs(self) -> tuple[PairInput, ...]:
        """The inputs that hold values of the format under test and are free: no expressions of others."""
        return tuple(item for item in self.inputs if item.kind == "float")

    @property
    def composite(self) -> tuple[str, ...]:
        """The frameworks whose call is put together here of several of theirs (``opscanner.composition``)."""
        return tuple(name for name, call in self.calls.items() if is_composite(call))

    @property
    def names(self) -> tuple[str, ...]:
        """What else people call it: torch's user function and ATen operators, TensorFlow's raw op."""
        if self.pair is None:
            return ()
        return (self.pair.torch, *self.pair.aten, *self.pair.aten_cuda, self.pair.tensorflow)


@dataclass(frozen=True)
class _Reference:
    reference: str
    elementwise: bool
    domain: str
    budget: str
    note: str
    scale: str
    place: str


def read_catalog(folder: Path) -> tuple[Operator, ...]:
    """The operators of the tables in ``folder``: pairs first, then operators alone, each in its table's order.

    Raises
    ------
    OpscannerError
        For a row that lacks a column, has an unknown framework or answer, or an id that another row has.
    """
    references = _read_references(folder / _REFERENCES)
    found = {pair.id: _of_pair(pair, references.get(pair.id)) for pair in read_pairs(folder / _PAIRS)}
    for row, place in _rows(folder / _ALONE):
        identifier, framework = row["id"], row["framework"]
        if framework not in FRAMEWORKS:
            raise OpscannerError(f"{place}: {framework!r} is no framework", f"write one of {', '.join(FRAMEWORKS)}")
        if identifier in found:
            raise OpscannerError(f"{place}: the id {identifier!r} is taken", "give a variant: name.variant")
        found[identifier] = _with_reference(
            Operator(
                id=identifier,
                direction=row["direction"],
                kind=row["kind"],
                module=row["module"],
                inputs=parse_inputs(row["inputs"]),
                calls={framework: row["call"]},
            ),
            references.get(identifier),
        )
    return tuple(found.values())


@functools.cache
def load_catalog() -> tuple[Operator, ...]:
    """All operators of the tables that come with opscanner.

    >>> operator = next(one for one in load_catalog() if one.id == "elu")
    >>> operator.direction, dict(operator.calls)
    ('forward', {'pytorch': 'F.elu(x, alpha=1.0)', 'tensorflow': 'raw.Elu(features=x)'})
    """
    return read_catalog(data_folder())


def find_operators(
    name: str, backward: bool = False, operators: Iterable[Operator] | None = None
) -> tuple[Operator, ...]:
    """The operators that go by a name: an id with its variants, else a name in either framework.

    Parameters
    ----------
    name : str
        ``softmax`` (and ``softmax.long``), ``softmax.long`` alone, ``Softmax`` or ``torch.nn.functional.softmax``.
    backward : bool
        Add the gradients of those found (``softmax_grad``).
    operators : iterable of Operator, optional
        Where to look; the catalog otherwise.

    Raises
    ------
    UsageError
        When nothing has the name; the hint names what is spelled alike.

    Examples
    --------
    >>> [one.id for one in find_operators("selu", backward=True)]
    ['selu', 'selu_grad']
    >>> [one.id for one in find_operators("SeluGrad")]
    ['selu_grad']
    """
    pool = tuple(load_catalog() if operators is None else operators)
    found = [one for one in pool if one.id == name or one.id.startswith(f"{name}.")]
    found = found or [one for one in pool if name in one.names]
    if not found:
        known = {spelling for one in pool for spelling in (one.id, *one.names) if spelling}
        alike = difflib.get_close_matches(name, sorted(known), 4)
        raise UsageError(
            f"no operator of the catalog is called {name!r}",
            f"perhaps {', '.join(alike)}" if alike else f"the ids are in the first column of {_PAIRS} and {_ALONE}",
        )
    if backward:
        stems = {_gradient(one.id) for one in found if one.direction == "forward"}
        found += [one for one in pool if one not in found and one.id.partition(".")[0] in stems]
    return tuple(found)


def stray_references(folder: Path) -> tuple[str, ...]:
    """Rows of reference tables whose id no operator has, as ``file:line: id``."""
    known = {one.id for one in read_catalog(folder)}
    return tuple(
        f"{one.place}: {identifier}"
        for identifier, one in _read_references(folder / _REFERENCES).items()
        if identifier not in known
    )


def _gradient(identifier: str) -> str:
    return f"{identifier.partition('.')[0].rstrip('_')}_grad"


def _of_pair(pair: OperatorPair, reference: _Reference | None) -> Operator:
    operator = Operator(
        id=pair.id,
        direction=pair.direction,
        kind=pair.kind,
        module=pair.module,
        inputs=pair.inputs,
        calls={"pytorch": pair.torch_call, "tensorflow": pair.tensorflow_call},
        pair=pair,
    )
    return _with_reference(operator, reference)


def _with_reference(operator: Operator, row: _Reference | None) -> Operator:
    if row is None:
        return operator
    return dataclasses.replace(
        operator,
        reference=row.reference,
        elementwise=row.elementwise,
        domain=row.domain,
        budget=row.budget,
        note=row.note,
        scale=row.scale,
    )


def _read_references(folder: Path) -> dict[str, _Reference]:
    found: dict[str, _Reference] = {}
    for table in sorted(folder.glob("*.csv")):
        for row, place in _rows(table):
            if row["id"] in found:
                raise OpscannerError(
                    f"{place}: {row['id']!r} has a reference at {found[row['id']].place}", "keep one of the rows"
                )
            found[row["id"]] = _Reference(
                row["reference"], _answer(row["elementwise"], place), row["domain"], row["budget"], row["note"],
                row.get("scale", ""), place,
            )  # fmt: skip
    return found


def _answer(text: str, place: str) -> bool:
    match text.strip().lower():
        case "yes" | "true" | "1":
            return True
        case "no" | "false" | "0" | "":
            return False
    raise OpscannerError(f"{place}: elementwise is {text!r}", "write yes or no")


_NEEDED = {
    _ALONE: ("id", "direction", "kind", "module", "framework", "inputs", "call"),
    _REFERENCES: ("id", "reference", "elementwise", "domain", "budget", "note"),
}

#: Columns that tables may have beside.
_OPTIONAL = ("scale",)


def _rows(table: Path) -> Iterable[tuple[dict[str, str], str]]:
    """The rows of a table with their places (``file:line``); none when there is no table."""
    if not table.is_file():
        return
    needed = _NEEDED.get(table.name, _NEEDED[_REFERENCES])
    with table.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            place = f"{table.name}:{reader.line_num}"
            if missing := [name for name in needed if row.get(name) is None]:
                raise OpscannerError(f"{place}: no {', '.join(missing)}", f"the columns are {', '.join(needed)}")
            yield {name: (row[name] or "").strip() for name in (*needed, *_OPTIONAL) if name in row}, place
