#!/usr/bin/env python3
"""Holds every operator of the catalog against the laws and writes what broke one: ``data/measurements/laws_cpu.csv``.

    python scripts/measure_laws.py --jobs 2 --work laws.jsonl

Every operator runs in both frameworks, float16 and bfloat16, on the CPU, in worker processes; one that aborts or hangs
is a row. The work file keeps what is done: the same command goes on after an interruption. The table has a row for each
operator, format, framework and law that is broken, with the worst of its elements, and one for each that did not run
though it should; ``laws_cpu_counts.csv`` says how many operators each law was held against, and with what outcome.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from opscanner.dynamic.campaign import Task, run_campaign
from opscanner.dynamic.laws import check_laws
from opscanner.dynamic.measure import Plan, operator_by_id
from opscanner.frameworks.runners import FRAMEWORKS
from opscanner.measurements import Measurement, Verdict
from opscanner.operators.catalog import load_catalog

FORMATS = ("float16", "bfloat16")
#: Seconds after which an operator's further laws are left out, and after which it is taken for hanging.
TIME_S, HANGS_S = 60.0, 240.0
COLUMNS = (
    *("law", "operator", "direction", "framework", "version", "format", "layout", "status", "verdict", "calls"),
    *("elements", "max_ulp", "over_1_ulp", "budget_ulp", "wider_max_ulp", "expected", "got", "done_to_inputs"),
    *("inputs", "message"),
)
FAULTS = {verdict.value for verdict in Verdict if verdict.is_fault}


def check_task(task: Task) -> list[Measurement]:
    """The rows of one operator in one format."""
    plan = Plan(task.frameworks, task.device, None, task.seed, time_s=TIME_S)
    return check_laws(operator_by_id(task.operator), task.format, plan)


def tasks() -> list[Task]:
    """One for each operator and format."""
    return [
        Task(operator.id, operator.direction, format_, "cpu", tuple(f for f in FRAMEWORKS if f in operator.calls), ())
        for operator in load_catalog()
        for format_ in FORMATS
        if operator.kind != "random"
    ]


def measure(work: Path, jobs: int) -> None:
    """Adds what the work file lacks."""
    done = {json.loads(line)["key"] for line in work.read_text().splitlines()} if work.exists() else set()
    with work.open("a") as stream:

        def keep(task: Task, rows: list[Any]) -> None:
            stream.write(json.dumps({"key": task.key, "rows": [row.as_json() for row in rows]}) + "\n")
            stream.flush()

        run_campaign(
            tasks(), check_task, jobs=jobs, time_limit_s=HANGS_S, memory_limit_mib=8192, on_rows=keep, done=done
        )


def calls(expression: str) -> int:
    """How many of the framework's functions an expression calls: of a composite no single one need be at fault."""
    return len(re.findall(r"\b(?:torch|F|aten|raw|tf)\.[\w.]*\w\(", expression))


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table."""
    inputs = ", ".join(f"{name}={value:.9g}" for name, value in row["worst_inputs"].items())
    wider = row["upcast_max_ulp"]
    return {
        **{name: row[name] for name in ("operator", "direction", "framework", "version", "format", "layout")},
        **{name: row[name] for name in ("status", "verdict", "over_1_ulp")},
        "law": row["strategy"].removeprefix("law:"),
        "calls": calls(row["expression"]),
        "elements": row["count"],
        "max_ulp": f"{row['max_ulp']:g}",
        "budget_ulp": f"{row['budget_ulp']:g}",
        "wider_max_ulp": "" if wider is None else f"{wider:g}",
        "expected": f"{row['worst_expected']:.9g}",
        "got": f"{row['worst_got']:.9g}",
        "done_to_inputs": row["batch"],
        "inputs": inputs,
        "message": " ".join(row["message"].split())[-160:],
    }


def write(rows: Iterable[dict[str, Any]], table: Path) -> None:
    """Writes the table and the counts beside it."""
    rows = list(rows)
    broken = [row for row in rows if row["verdict"] in FAULTS or row["status"] not in ("ran", "not supported")]
    order = {one.id: number for number, one in enumerate(load_catalog())}
    broken.sort(key=lambda row: (order[row["operator"]], row["format"], row["framework"], row["strategy"]))
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(told, broken))
    counted = Counter(
        (
            row["strategy"].removeprefix("law:"),
            *(row[name] for name in ("framework", "version", "format", "status", "verdict")),
        )
        for row in rows
    )
    with table.with_name(f"{table.stem}_counts.csv").open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(("law", "framework", "version", "format", "status", "verdict", "operators"))
        lines.writerows((*key, number) for key, number in sorted(counted.items()))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", type=Path, required=True, help="keeps what is done, a line of JSON each")
    parser.add_argument("--table", type=Path, default=Path("data/measurements/laws_cpu.csv"))
    arguments = parser.parse_args()
    measure(arguments.work, arguments.jobs)
    lines = [json.loads(line) for line in arguments.work.read_text().splitlines()]
    write((row for line in lines for row in line["rows"]), arguments.table)


if __name__ == "__main__":
    main()
