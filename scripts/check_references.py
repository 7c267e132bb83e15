#!/usr/bin/env python3
"""Runs the frameworks on the inputs of each operator and compares them with the operator's reference.

usage: check_references.py [--only GLOB] [--kind GLOB] [--missing]

For every row of data/references/*.csv: the inputs of the operator, its calls, the reference, and the largest difference
between them, in the pair's format and by its error class (an operator of one framework alone: in float64, by its
budget). Prints a line a row: id, difference from each framework, bound, elements that the oracle left undecided. Needs
torch and tensorflow; runs on the CPU.

Exit code 1 when a difference exceeds its bound, a reference cannot be evaluated, its number or shapes of outputs are
others, its domain or budget cannot be read, or (with --missing) an operator has no reference and no row that says why.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from opscanner.dynamic.inputs.domain import allowed_places
from opscanner.dynamic.oracle import Reference, evaluate_reference
from opscanner.errors import OpscannerError
from opscanner.operators import pair_check
from opscanner.operators.catalog import Operator, load_catalog
from opscanner.operators.pairs import ERROR_CLASSES, OperatorPair, PairInput, data_folder
from opscanner.precision.formats import FORMATS

#: For operators of one framework alone, which have no error class: metric and bound in float64, by their budget.
ALONE_BOUNDS = {
    "exact": ("elementwise", 0.0),
    "rounded": ("elementwise", 2.0**-40),
    "loose": ("normwise", 2.0**-8),
    "sum": ("normwise", 2.0**-36),
}


@dataclass(frozen=True)
class Alone:
    """What a pair says, for an operator that is none."""

    id: str
    inputs: tuple[PairInput, ...]
    metric: str
    bound: float
    format: str = "float64"
    unchecked_because: str = ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="*", help="glob of ids")
    options.add_argument("--kind", default="*", help="glob of kinds")
    options.add_argument("--missing", action="store_true", help="operators without a reference are faults")
    chosen = options.parse_args()
    pair_check.run_reproducibly()
    faults, checked, missing = [], 0, []
    for operator in load_catalog():
        if not (fnmatch.fnmatch(operator.id, chosen.only) and fnmatch.fnmatch(operator.kind, chosen.kind)):
            continue
        if not operator.reference:
            missing += [] if operator.note else [operator.id]  # the row says why there is none
            continue
        checked += 1
        faults += [f"{operator.id}: {text}" for text in check(operator)]
    print("\n".join(f"FAULT {text}" for text in faults))
    print(
        f"{checked} references, {len(faults)} faults; {len(missing)} operators without: {' '.join(missing)}",
        file=sys.stderr,
    )
    return 1 if faults or (chosen.missing and missing) else 0


def check(operator: Operator) -> list[str]:
    """Print the row of an operator; what is wrong with its reference."""
    pair = operator.pair or alone(operator)
    inputs = pair_check.make_inputs(cast(OperatorPair, pair))  # it reads id, inputs and format
    faults = [] if operator.budget in budgets() else [f"{operator.budget!r} is no class of data/ulp_budgets.csv"]
    try:
        shape = np.broadcast_shapes(*(one.shape for one in inputs.values())) if operator.elementwise else ()
        if not np.any(allowed_places(operator.domain, inputs, shape)):
            faults.append(f"no input of the pair is in the domain {operator.domain!r}")
    except OpscannerError as error:
        faults.append(error.what)
    try:
        references = evaluate_reference(operator.reference, inputs, pair.format, operator.elementwise)
    except OpscannerError as error:
        return [*faults, error.what]
    undecided = sum(int(np.sum(one.undecided)) for one in references)
    # Both sides of an exact pair may round at each of several steps alike: the reference rounds once.
    composite = ERROR_CLASSES["rounded"].factor * 2.0 ** -FORMATS[pair.format].precision
    bound = pair.bound if operator.budget == "exact" else max(pair.bound, composite)
    line = [operator.id]
    for name, call in operator.calls.items():
        try:
            got = load_runner(name).evaluate(call, inputs, pair.format)
        except Exception as error:  # noqa: BLE001
            line.append(f"{name} refuses")
            narrow = operator.pair is None and load_runner(name).unsupported(error)  # takes 8-bit floats alone
            if not pair.unchecked_because and not narrow:
                faults.append(f"{name} refuses: {str(error).splitlines()[0]}")
            continue
        difference, why = compare(references, got, pair.metric)
        line.append(f"{name} {difference:.1e}")
        if not difference <= bound and not pair.unchecked_because:
            faults.append(f"{name} lies {difference:.2e} off, bound {bound:.1e}{why}")
    print("  ".join([*line, f"bound {bound:.1e}", f"undecided {undecided}"]))
    return faults


def alone(operator: Operator) -> Alone:
    """The bounds of an operator that is no pair: in float32 where it has no float64."""
    metric, bound = ALONE_BOUNDS.get(operator.budget, ALONE_BOUNDS["sum"])
    made = Alone(operator.id, operator.inputs, metric, bound)
    (framework,) = operator.calls
    try:
        load_runner(framework).evaluate(
            operator.calls[framework], pair_check.make_inputs(cast(OperatorPair, made)), "float64"
        )
    except Exception:  # noqa: BLE001  (whatever a framework says)
        return Alone(operator.id, operator.inputs, metric, bound * 2.0**29, "float32")
    return made


def load_runner(framework: str) -> ModuleType:
    """The module that runs a framework."""
    return importlib.import_module(f"opscanner.frameworks.{framework}.runner")


def compare(references: Sequence[Reference], got: list[np.ndarray], metric: str) -> tuple[float, str]:
    """The largest difference, and what keeps them from being compared.

    Undecided values are compared too: they are longdouble's, and complex ones in float64 are never decided.
    """
    shapes = [one.values.shape for one in references], [one.shape for one in got]
    if shapes[0] != shapes[1]:
        return float("inf"), f": shapes {shapes[0]} and {shapes[1]}"
    return pair_check.largest_difference([one.values for one in references], got, metric), ""


def budgets() -> set[str]:
    """The classes of data/ulp_budgets.csv."""
    with (data_folder() / "ulp_budgets.csv").open(newline="", encoding="utf-8") as lines:
        return {row["class"] for row in csv.DictReader(lines)}


if __name__ == "__main__":
    sys.exit(main())
