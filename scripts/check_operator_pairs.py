#!/usr/bin/env python3
"""Runs both sides of every pair of data/operator_pairs.csv and fills the columns that say what came out.

usage: check_operator_pairs.py [--write] [--only GLOB] [--table FILE]

Needs numpy, torch and tensorflow in one environment; runs on the CPU, in one thread. Without --write the table stays as
it is and what would change is printed. Exit code 1 when a pair lies further apart than its bound, leaves an attribute
to a default, raises, shows nothing (all outputs zero), or is unchecked for a reason that does not hold; 3 when only the
result columns differ from the table.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import io
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opscanner.operators import pair_check
from opscanner.operators.pairs import OperatorPair, read_pairs

TABLE = Path(__file__).resolve().parent.parent / "data" / "operator_pairs.csv"
RESULTS = (
    "result", "difference", "bound", "aten_ran", "tensorflow_ran", "aten_backward_ran", "tensorflow_backward_ran",
)  # fmt: skip


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the results into the table")
    options.add_argument("--only", default="*", help="glob of ids")
    options.add_argument("--table", type=Path, default=TABLE)
    chosen = options.parse_args()
    pair_check.run_reproducibly()
    with chosen.table.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    faults, changed = [], []
    for row, pair in zip(rows, read_pairs(chosen.table), strict=True):
        if not fnmatch.fnmatch(pair.id, chosen.only):
            continue
        results, wrong = run(pair)
        faults += [f"{pair.id}: {text}" for text in wrong]
        changed += [f"{pair.id}: {k} {row[k]!r} -> {v!r}" for k, v in results.items() if row[k] != v]
        row.update(results)
    print("\n".join([*(f"CHANGED {text}" for text in changed), *(f"FAULT {text}" for text in faults)]))
    counts = {value: sum(row["result"] == value for row in rows) for value in ("checked", "not_checked")}
    print(f"{len(rows)} pairs: {counts}, {len(faults)} faults, {len(changed)} changed", file=sys.stderr)
    if chosen.write and not faults:
        write(chosen.table, rows)
    return 1 if faults else 3 if changed and not chosen.write else 0


def run(pair: OperatorPair) -> tuple[dict[str, str], list[str]]:
    """The result columns of a pair, and what is wrong with it."""
    nothing = {**dict.fromkeys(RESULTS, ""), "result": "not_checked"}
    wrong = [f"leaves {name} to its default" for name in pair_check.unset_attributes(pair)]
    if pair.unchecked_because:
        return nothing, [*wrong, *pair_check.contradictions(pair)]
    try:
        found = pair_check.check(pair)
    except Exception as error:  # noqa: BLE001  (one pair that cannot run is one fault)
        return nothing, [*wrong, f"{type(error).__name__}: {str(error).splitlines()[0]}"]
    if not found.difference <= pair.bound:
        wrong.append(f"differs by {found.difference:.2e}, bound {pair.bound:.2e}")
    if found.all_zero and pair.kind != "creation":
        wrong.append("every output is zero")
    wrong += [
        f"aten {name} did not run, but {' '.join(found.aten_ran)}" for name in pair.aten if name not in found.aten_ran
    ]
    if pair.tensorflow not in found.tensorflow_ran:
        wrong.append(f"tensorflow {pair.tensorflow} did not run, but {' '.join(found.tensorflow_ran)}")
    results = {
        "result": "checked",
        "difference": f"{found.difference:.1e}",
        "bound": f"{pair.bound:.1e}",
        "aten_ran": " ".join(found.aten_ran),
        "tensorflow_ran": " ".join(found.tensorflow_ran),
        "aten_backward_ran": " ".join(found.aten_backward_ran),
        "tensorflow_backward_ran": " ".join(found.tensorflow_backward_ran),
    }
    return results, wrong


def write(table: Path, rows: list[dict[str, str]]) -> None:
    """Write the table, and beside it what its last digits depend on."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    table.write_text(text.getvalue(), encoding="utf-8")
    origin = pair_check.origin()
    table.with_suffix(".origin.json").write_text(json.dumps(origin, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
