#!/usr/bin/env python3
"""Runs each operator of the catalog once in each format, and compares with what its framework declares to support.

usage: check_support.py [--only GLOB] [--framework NAMES] [--formats NAMES] [--device NAME] [--lacking]

PyTorch declares formats in its OpInfo database, TensorFlow by the kernels that it registers. A row where the operator
runs and nothing is declared, or the other way round, is printed with the framework's words:

    operator  framework  format  ran|refused  declared|undeclared  words

PyTorch is asked for the function that a call is made of, where it is one; other calls say nothing, and are counted.
TensorFlow is asked for every raw op of a call: all of them must have a kernel. --lacking lists, instead, operators that
the frameworks describe and no call of the catalog names.

Exit code 1 when a row contradicts and data/support_exceptions.csv does not say why, or a row there has lost its reason.
Needs torch and expecttest, or tensorflow.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opscanner.dynamic.trial import run_call
from opscanner.errors import OpscannerError
from opscanner.frameworks.runners import runner_of
from opscanner.measurements import Status
from opscanner.operators import opinfo, pair_check
from opscanner.operators.catalog import FRAMEWORKS, Operator, load_catalog
from opscanner.operators.pairs import OperatorPair, data_folder
from opscanner.precision.rounding import round_to_format

EXCEPTIONS = "support_exceptions.csv"


class Row(NamedTuple):
    """What was seen and what is declared; ``declared`` None where nothing can be asked."""

    operator: str
    framework: str
    format: str
    ran: bool
    declared: bool | None
    words: str


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="*", help="glob of ids")
    options.add_argument("--framework", default=",".join(FRAMEWORKS))
    options.add_argument("--formats", default="float16,bfloat16,float32")
    options.add_argument("--device", default="cpu")
    options.add_argument("--lacking", action="store_true", help="list what the catalog does not call")
    chosen = options.parse_args()
    frameworks = chosen.framework.split(",")
    if chosen.lacking:
        print("\n".join(f"{name}  {framework}" for framework in frameworks for name in lacking(framework)))
        return 0
    for framework in frameworks:
        runner_of(framework).run_reproducibly()
    excused = exceptions()
    counts: Counter[str] = Counter()
    unexplained = 0
    for operator in load_catalog():
        if not fnmatch.fnmatch(operator.id, chosen.only):
            continue
        for framework in (name for name in frameworks if name in operator.calls):
            for format_ in chosen.formats.split(","):
                row = compare(operator, framework, format_, chosen.device)
                key = (row.operator, framework, format_)
                if row.declared is None:
                    counts["say nothing"] += 1
                elif row.ran == row.declared:
                    counts["agree"] += 1
                    if key in excused:
                        print(f"{'  '.join(key)}  agrees: take it out of {EXCEPTIONS}")
                        unexplained += 1
                else:
                    counts["contradict"] += 1
                    known = key in excused
                    unexplained += not known
                    seen = "ran" if row.ran else "refused"
                    told = "declared" if row.declared else "undeclared"
                    print("  ".join([*key, seen, told, f"known: {excused[key]}" if known else row.words]))
    print(", ".join(f"{number} {what}" for what, number in counts.items()) + f", {unexplained} new", file=sys.stderr)
    return 1 if unexplained else 0


def compare(operator: Operator, framework: str, format_: str, device: str) -> Row:
    """One call of an operator, on the values of its row."""
    inputs = {
        name: round_to_format(value, format_) if value.dtype.kind == "f" else value
        for name, value in pair_check.make_inputs(cast(OperatorPair, _Inputs(operator))).items()
    }
    given = [value.dtype.kind for value in inputs.values()]
    if "c" in given or ("f" not in given and "dtype" not in operator.calls[framework]):
        return Row(operator.id, framework, format_, True, None, "takes no floats of the format")
    outcome = run_call(framework, operator.calls[framework], inputs, format_, device)
    words = " ".join(outcome.message.split())[:160]
    declared = declared_by[framework](operator, format_, device)
    return Row(operator.id, framework, format_, outcome.status is Status.RAN, declared, words)


class _Inputs:
    """What ``make_inputs`` reads of a pair."""

    def __init__(self, operator: Operator) -> None:
        self.id, self.inputs, self.format = operator.id, operator.inputs, "float64"


def declared_by_pytorch(operator: Operator, format_: str, device: str) -> bool | None:
    """What OpInfo says of the one function of a call; None when there is none, or several."""
    paths = set(re.findall(r"(?<![\w.])(?:torch|F|aten)(?:\.\w+)+(?=\()", operator.calls["pytorch"]))
    paths = {re.sub(r"^aten\.(\w+).*", r"torch.\1", path) for path in paths}
    # Other words of a call only bring arguments into shape.
    known = {opinfo.by_call()[path] for path in paths if path in opinfo.by_call()}
    if len(paths) != 1 or len(known) != 1:
        return None
    return format_ in opinfo.formats_of(known.pop(), device, backward="grad(" in operator.calls["pytorch"])


def declared_by_tensorflow(operator: Operator, format_: str, device: str) -> bool | None:
    """Whether every raw op of a call has a kernel; None when none of them tells of floats, or a tape adds others."""
    kernels = importlib.import_module("opscanner.frameworks.tensorflow.kernels")
    call = operator.calls["tensorflow"]
    if re.search(r"grad\(|(?<![\w.])tf\.(?!Variable|constant|float|int|uint|bool|complex|zeros|ones)", call):
        return None
    told = [kernels.formats_of(op, device) for op in set(re.findall(r"raw\.(\w+)", call))]
    if not told or any(formats is None for formats in told):
        return None
    return all(format_ in formats for formats in told)


declared_by = {"pytorch": declared_by_pytorch, "tensorflow": declared_by_tensorflow}


def lacking(framework: str) -> Iterator[str]:
    """Operators of floats that a framework describes and no call of the catalog names."""
    if framework == "pytorch":
        reader = importlib.import_module("opscanner.frameworks.pytorch.opinfo")
        yield from (name for name in reader.names() if not opinfo.in_catalog(name))
        return
    kernels = importlib.import_module("opscanner.frameworks.tensorflow.kernels")
    called = {op for one in load_catalog() for op in re.findall(r"raw\.(\w+)", one.calls.get(framework, ""))}
    yield from (op for op in kernels.ops() if op not in called and kernels.formats_of(op, "cpu"))


def exceptions() -> dict[tuple[str, str, str], str]:
    """Contradictions that are known, with the reason."""
    table = data_folder() / EXCEPTIONS
    if not table.is_file():
        raise OpscannerError(f"{table} is not there", "run the script in a checkout")
    with table.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {
        (row["operator"], row["framework"], format_): row["why"] for row in rows for format_ in row["formats"].split()
    }


if __name__ == "__main__":
    sys.exit(main())
