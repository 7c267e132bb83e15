"""The scan that belongs to the checkout in miniature: what clang would show of its two units."""

from __future__ import annotations

from pathlib import Path

from opscanner.graph.store import Store
from opscanner.ir import Call, EdgeKind, FunctionInstance
from tests.frameworks.checkouts import NATIVE, write_pytorch
from tests.graph.units import cast_node, host, kernel, square, unit

ACT, LAUNCH = f"{NATIVE}/cuda/Act.cu", f"{NATIVE}/cuda/Launch.cu"


def instances() -> dict[str, list[FunctionInstance]]:
    """By unit: act_kernel launches a kernel that calls a header's function; the gradient launches in another unit."""
    launch = Call(-1, "backward_kernel", (), kind=EdgeKind.LAUNCH, line=2)
    return {
        ACT: [
            host(file=ACT)._replace(name="at::native::(anonymous namespace)::act_kernel", line=3),
            kernel(file=ACT, line=4)._replace(name="at::native::elementwise_act"),
            square(),
            _bare(host(file=ACT)._replace(name="at::native::act_backward_cuda", key="backward", line=8)),
        ],
        LAUNCH: [
            _bare(host(file=LAUNCH)._replace(name="at::native::launch_act_backward", key="launch", line=2), launch),
            _one_cast(kernel(file=LAUNCH, line=20), "at::native::act_backward_kernel", "backward_kernel"),
            _one_cast(kernel(file=LAUNCH, line=30), "at::native::uncalled_kernel", "uncalled"),
        ],
    }


def _bare(function: FunctionInstance, *calls: Call) -> FunctionInstance:
    return function._replace(nodes=(), edges=(), parameters=(), calls=calls)


def _one_cast(function: FunctionInstance, name: str, key: str) -> FunctionInstance:
    cast = cast_node(function.line + 1, "float16", "float32", file=function.file)
    return _bare(function)._replace(name=name, key=key, nodes=(cast,))


def write_scan(root: Path, database: Path) -> int:
    """Writes checkout and scan; gives the scan's id."""
    write_pytorch(root)
    with Store(str(database)) as store:
        begun = store.begin_scan("pytorch", "2.6.0", str(root))
        for file, found in instances().items():
            store.write_unit(begun.id, unit(*found, file=file))
        store.finish_scan(begun.id, complete=False)
    return begun.id
