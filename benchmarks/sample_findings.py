"""Draws findings at random, to be read in the source and judged: how often is a rule right?

    python benchmarks/sample_findings.py --db opscanner.sqlite --framework pytorch --seed 1 > sample.csv

Places are drawn, not rows: findings of one pattern at one place for several formats (float16, bfloat16) count once. The
CSV has an empty column for the verdict (right or wrong) and one for the reading. With ``--context N`` the source lines
around each place, and the chain that the rule followed, go to stderr for the reader.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from pathlib import Path

from opscanner import api
from opscanner.results import FindingRow

COLUMNS = (
    "pattern", "confidence", "file", "line", "column", "function", "from", "to", "message", "verdict", "reading",
)  # fmt: skip


def draw(findings: list[FindingRow], seed: int, count: int) -> list[FindingRow]:
    """``count`` findings at different places, in the order of the places."""
    places = {(row.pattern, row.file, row.line, row.column): row for row in reversed(findings)}
    chosen = random.Random(seed).sample(sorted(places), min(count, len(places)))
    return [places[place] for place in sorted(chosen, key=lambda place: place[1:])]


def show(row: FindingRow, root: str, context: int, db: str | None) -> None:
    """The place with the source around it, and the chain, on stderr."""
    print(f"\n{row.pattern} ({row.confidence}) {row.file}:{row.line}:{row.column} in {row.function}", file=sys.stderr)
    print(f"  {row.from_format} -> {row.to_format}: {row.message}", file=sys.stderr)
    nodes = ",".join(node for node in row.chain.split(",") if node) or "0"
    query = (
        "SELECT n.id, n.kind, n.operation, n.format, f.path, n.line FROM node n "
        f"JOIN source_file f ON f.id = n.file_id WHERE n.id IN ({nodes})"
    )
    steps = {step[0]: step[1:] for step in api.sql(query, db=db).rows}
    for node in map(int, nodes.split(",")):
        kind, operation, format_, path, line = steps[node]
        print(f"    {kind} {operation} {format_}  {path.rsplit('/', 1)[-1]}:{line}", file=sys.stderr)
    file = Path(root, row.file)
    if file.is_file():
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        for number in range(max(1, row.line - context), min(len(lines), row.line + context) + 1):
            print(f"  {'>' if number == row.line else ' '}{number:5} {lines[number - 1]}", file=sys.stderr)


def main() -> None:
    """Reads the options, draws, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db")
    parser.add_argument("--framework", default="pytorch")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--context", type=int, default=0)
    options = parser.parse_args()
    chosen = draw(api.findings(db=options.db, framework=options.framework), options.seed, options.count)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    roots = {row.framework: row.root for row in api.coverage(db=options.db)} if options.context else {}
    for row in chosen:
        writer.writerow(
            (
                row.pattern, row.confidence, row.file, row.line, row.column, row.function, row.from_format,
                row.to_format, row.message, "", "",
            )
        )  # fmt: skip
        if options.context:
            show(row, roots[row.framework], options.context, options.db)


main()
