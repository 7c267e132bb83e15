"""Draws attributions at random, to be read and judged by eye: a CSV with empty columns ``verdict`` and ``reading``.

    python benchmarks/sample_attributions.py --db scan.sqlite --framework pytorch --count 50 --seed 1 > sample.csv

``--delegations`` draws operators that composite operators call instead. The same seed on the same database draws the
same rows. What was read is in ``data/readings``.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys

from opscanner import api

ATTRIBUTIONS = """
SELECT o.name AS operator, f.name AS function, s.path AS file, f.line, a.path
FROM attribution a JOIN operator o ON o.id = a.operator_id JOIN scan n ON n.id = o.scan_id
JOIN function f ON f.id = a.function_id JOIN source_file s ON s.id = f.file_id
WHERE n.framework = '{framework}' ORDER BY o.name, f.name, s.path, f.line, a.device
"""
DELEGATIONS = """
SELECT o.name AS operator, t.name AS function, s.path AS file, t.line, d.path
FROM delegation d JOIN operator o ON o.id = d.operator_id JOIN operator t ON t.id = d.target_id
JOIN scan n ON n.id = o.scan_id LEFT JOIN source_file s ON s.id = t.file_id
WHERE n.framework = '{framework}' ORDER BY o.name, t.name
"""


def main() -> int:
    """Prints the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True)
    parser.add_argument("--framework", choices=("pytorch", "tensorflow"), required=True)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--delegations", action="store_true")
    chosen = parser.parse_args()
    query = (DELEGATIONS if chosen.delegations else ATTRIBUTIONS).format(framework=chosen.framework)
    rows = api.sql(query, db=chosen.db).rows
    drawn = random.Random(chosen.seed).sample(rows, min(chosen.count, len(rows)))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("operator", "function", "file", "line", "path", "verdict", "reading"))
    for operator, function, file, line, path in sorted(drawn):
        steps = " > ".join(f"{what} ({where}:{at})" for what, where, at in json.loads(path))
        writer.writerow((operator, function, file, line, steps, "", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
