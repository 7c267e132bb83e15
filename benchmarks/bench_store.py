"""How much CPU does writing take? Synthetic units of about the size that PyTorch's CUDA kernels give.

    python benchmarks/bench_store.py [--units 40] [--db FILE]

Prints CPU seconds per 100,000 rows, and the ratio to the parse time of the same units (3 CPU seconds a unit with a
precompiled header, as measured on PyTorch 2.6.0), which is to stay under 0.1.
"""

from __future__ import annotations

import argparse
import gc
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from opscanner.graph.store import Store
from opscanner.ir import (
    Call,
    CastForm,
    CudaPass,
    Edge,
    EdgeKind,
    FunctionInstance,
    Node,
    NodeKind,
    UnitReach,
    UnitResult,
    UnitStatus,
)

PARSE_CPU_S = 3.0
FORMATS = ("float16", "bfloat16", "float32", "float64")
KINDS = [
    NodeKind.LOAD,
    NodeKind.STORE,
    NodeKind.CAST,
    NodeKind.ARITHMETIC,
    NodeKind.MATH_CALL,
    NodeKind.VARIABLE,
]
FORMS = list(CastForm)


def make_instance(unit: int, number: int, nodes: int, edges: int, random_: random.Random) -> FunctionInstance:
    """A function instance with the given number of nodes and edges."""
    file = f"aten/src/ATen/native/cuda/File{unit}.cu"
    function = number // 4
    format_ = FORMATS[number % 4]
    made = [Node(NodeKind.PARAMETER, file, function * 40, 5, "x", format_, text="scalar_t x")]
    for index in range(1, nodes):
        kind = random_.choice(KINDS)
        place = (file, function * 40 + index, random_.randrange(80))
        if kind is NodeKind.CAST:
            target = random_.choice([name for name in FORMATS if name != format_])
            made.append(Node(kind, *place, "cast", target, format_, form=random_.choice(FORMS), text="float(x)"))
        else:
            made.append(Node(kind, *place, "+", format_, category="arith", text="a * b + offset"))
    flows = {(random_.randrange(nodes), random_.randrange(nodes)) for _ in range(edges)}
    return FunctionInstance(
        key=f"c:@N@at@N@native@F@kernel_{unit}_{number}#",
        name=f"at::native::kernel_{unit}_{function}",
        usr=f"c:@N@at@N@native@F@kernel_{unit}_{function}#",
        file=file,
        line=function * 40,
        column=1,
        bindings=f"scalar_t={format_}",
        is_device=True,
        parameters=(0,),
        nodes=tuple(made),
        edges=tuple(Edge(source, target, EdgeKind.DEF_USE) for source, target in flows),
        calls=tuple(
            Call(
                random_.randrange(nodes),
                f"c:@N@at@N@native@F@kernel_{unit}_{random_.randrange(number + 1)}#",
                ((1, 0),),
            )
            for _ in range(3)
        ),
    )


def make_units(count: int, instances: int = 150, nodes: int = 33, edges: int = 50) -> Iterator[UnitResult]:
    """Units; each also reaches the 300 instances of the one before it."""
    random_ = random.Random(1)
    shared: list[UnitReach] = []
    for unit in range(count):
        own = [make_instance(unit, number, nodes, edges, random_) for number in range(instances)]
        reach = [UnitReach(instance.key, True) for instance in own]
        yield UnitResult(
            file=f"aten/src/ATen/native/cuda/File{unit}.cu",
            cuda_pass=CudaPass.DEVICE,
            configuration="",
            arguments_hash="0",
            status=UnitStatus.OK,
            instances=tuple(own),
            reach=(*reach, *shared),
            dependencies=tuple(f"aten/src/ATen/header{index}.h" for index in range(300)),
        )
        shared = reach


def measure(name: str, store: Store, scan_id: int, units: list[UnitResult]) -> None:
    """Writes the units and prints what it took."""
    start = time.process_time()
    for unit in units:
        store.write_unit(scan_id, unit)
    store.finish_scan(scan_id, complete=True)
    cpu_s = time.process_time() - start
    nodes = sum(len(instance.nodes) for unit in units for instance in unit.instances)
    edges = sum(len(instance.edges) for unit in units for instance in unit.instances)
    ratio = cpu_s / len(units) / PARSE_CPU_S
    print(
        f"{name}: {len(units)} units, {nodes:,} nodes, {edges:,} edges in {cpu_s:.2f} CPU s = "
        f"{cpu_s / (nodes + edges) * 1e5:.2f} s per 100,000 rows; ratio to parsing {ratio:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=40)
    parser.add_argument("--db", help="default: a fresh SQLite file that is deleted afterwards")
    arguments = parser.parse_args()
    units = list(make_units(arguments.units))
    gc.freeze()  # a real scan lets go of each unit; here the collector would walk all of them again and again
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.sqlite"
        with Store(arguments.db or str(file)) as store:
            begun = store.begin_scan("synthetic", "1", "/synthetic")
            measure("first scan", store, begun.id, units)
            begun = store.begin_scan("synthetic", "1", "/synthetic")
            measure("the same again", store, begun.id, units)
        if file.exists():
            print(f"file: {file.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
