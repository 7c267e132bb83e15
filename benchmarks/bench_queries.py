"""How fast do the views answer on a graph as large as PyTorch's? Synthetic: 2 million nodes, 100,000 cast sites.

    python benchmarks/bench_queries.py [--nodes 2000000] [--db FILE]

Prints the best of five wall times of each query, each on a fresh connection; every one is to stay under 0.2 s. With
--db, measures an existing database instead (of a real scan).
"""

from __future__ import annotations

import argparse
import itertools
import random
import tempfile
import time
from pathlib import Path

from opscanner.graph import connect, schema
from opscanner.graph.bulk import BULK_TABLES, BulkInsert, Row
from opscanner.graph.readonly import run_query
from opscanner.graph.store import Store

LIMIT_S = 0.2
FORMATS = ("float16", "bfloat16", "float32", "float64")
PAIRS = list(itertools.permutations(FORMATS, 2))
FORMS = ("static_cast", "implicit", "conversion_function", "converting_constructor", "c_style", "mixed_operator")


def rows_of(nodes: int) -> dict[str, list[Row]]:
    """Rows in the proportions of a scan of PyTorch: 20 nodes and 1 cast site to 30 edges; 5 instances a function."""
    rng = random.Random(1)
    files, functions, instances, sites = 2_000, nodes // 500, nodes // 100, nodes // 20
    rows: dict[str, list[Row]] = {table.name: [] for table in BULK_TABLES}
    rows["source_file"] = [(i, 1, f"aten/src/ATen/native/cuda/File{i}.cu") for i in range(1, files + 1)]
    rows["function"] = [(i, 1, f"at::native::kernel_{i}", i % files + 1, i % 900, 1) for i in range(1, functions + 1)]
    for i in range(1, sites + 1):
        source, target = PAIRS[i % 12]
        function = i % functions + 1
        rows["cast_site"].append(
            (
                i, 1, function % files + 1, rng.randrange(1, 900), 9, function, source, target, "widen",
                FORMS[i % 6], "acc_t", i % 9 == 0, True, i % 3 != 0, None, None,
            )
        )  # fmt: skip
        rows["arithmetic_site"].append(
            (
                i, 1, function % files + 1, rng.randrange(1, 900), 9, function, "arithmetic", "*", "arith",
                FORMATS[i % 4], "", False, True, i % 3 != 0, None, None,
            )
        )  # fmt: skip
    for i in range(1, instances + 1):
        rows["function_instance"].append(
            (
                i, 1, i % functions + 1, f"key{i}", f"usr{i}", f"scalar_t={FORMATS[i % 4]}", "", False, True, False,
                False, True, False, (i - 1) * 100 + 1, 100, 10, 1, "",
            )
        )  # fmt: skip
    for i in range(1, nodes + 1):
        kind, cast, arithmetic = "load", None, None
        if i % 10 == 0:
            kind, cast = "cast", rng.randrange(1, sites + 1)
        elif i % 3 == 0:
            kind, arithmetic = "arithmetic", rng.randrange(1, sites + 1)
        instance = (i - 1) // 100 + 1
        rows["node"].append(
            (
                i, instance, kind, (instance % functions + 1) % files + 1, i % 900, 9, "x", FORMATS[i % 4], 1, False,
                True, None, cast, arithmetic, "x * y",
            )
        )  # fmt: skip
    edges = {(i, min(nodes, max(1, i + rng.randrange(-40, 40))), "def_use") for i in range(1, nodes + 1)}
    edges |= {(i, rng.randrange(1, nodes + 1), "argument") for i in range(1, nodes + 1, 2)}
    rows["edge"] = sorted(edges)
    return rows


def fill(database: str, nodes: int) -> None:
    """Writes the synthetic graph."""
    with Store(database) as store:
        begun = store.begin_scan("synthetic", "1", "/synthetic")
        engine = connect.open_engine(connect.database_url(database), write=True)
        rows = rows_of(nodes)
        with engine.begin() as connection:
            for table in BULK_TABLES:
                BulkInsert(table, engine.dialect).write(connection, rows[table.name])
            # Otherwise nobody holds the instances, and the end of the scan sweeps them away.
            unit = (1, 1, 1, "device", "", "", 1, "ok", "", 0, 1, 0, 0, nodes, 1, 0, 1, 1.0, 1.0, 1.0)
            BulkInsert(schema.translation_unit, engine.dialect).write(connection, [unit])
            held = [(1, row[0], True, False) for row in rows["function_instance"]]
            BulkInsert(schema.unit_instance, engine.dialect).write(connection, held)
        engine.dispose()
        store.finish_scan(begun.id, complete=True)


def queries(database: str) -> list[str]:
    """What people ask, with names that the database really has."""
    file, function = run_query(database, "SELECT file, function FROM casts ORDER BY id DESC", limit=1).rows[0]
    cast_id, node = run_query(database, "SELECT cast_site_id, id FROM node WHERE cast_site_id > 0", limit=1).rows[0]
    return [
        "SELECT from_format, to_format, COUNT(*) FROM casts GROUP BY 1, 2",
        "SELECT framework, from_format, to_format, COUNT(*) FROM casts GROUP BY 1, 2, 3",
        "SELECT * FROM casts WHERE from_format = 'float16' AND to_format = 'float32' LIMIT 1000",
        "SELECT COUNT(*) FROM casts WHERE from_format = 'float16' AND to_format = 'float32' AND NOT constant",
        "SELECT form, COUNT(*) FROM casts WHERE from_format = 'bfloat16' GROUP BY 1",
        f"SELECT * FROM casts WHERE file = '{file}'",
        "SELECT * FROM casts WHERE file GLOB '*1.cu' AND to_format = 'float16' AND pass = 'device' LIMIT 100",
        f"SELECT * FROM casts WHERE function = '{function}'",
        f"SELECT * FROM casts WHERE file = '{file}' AND from_format = 'float32'",
        "SELECT file, COUNT(*) FROM casts WHERE to_format = 'float16' GROUP BY 1 ORDER BY 2 DESC LIMIT 10",
        "SELECT * FROM formats_summary",
        "SELECT format, category, COUNT(*) FROM arithmetic GROUP BY 1, 2",
        "SELECT * FROM arithmetic WHERE format = 'float16' AND category = 'arith' LIMIT 1000",
        f"SELECT * FROM cast_instances WHERE cast_id = {cast_id}",
        f"SELECT * FROM chain_steps WHERE from_node = {node}",
        f"SELECT * FROM chain_steps WHERE to_cast_id = {cast_id}",
        f"SELECT * FROM chain_steps WHERE from_function = '{function}' LIMIT 1000",
        f"SELECT * FROM functions WHERE name = '{function}'",
        "SELECT status, COUNT(*) FROM units GROUP BY 1",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--db", help="measure this database instead of a synthetic one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = arguments.db or str(Path(folder) / "bench.sqlite")
        if not arguments.db:
            fill(database, arguments.nodes)
        slowest = 0.0
        for query in queries(database):
            times = []
            for _ in range(5):
                start = time.perf_counter()
                count = len(run_query(database, query).rows)
                times.append(time.perf_counter() - start)
            slowest = max(slowest, min(times))
            print(f"{min(times):7.4f} s  {count:>6} rows  {query}", flush=True)
        print(f"slowest: {slowest:.4f} s, {slowest / LIMIT_S:.2f} of the limit of {LIMIT_S} s")


if __name__ == "__main__":
    main()
