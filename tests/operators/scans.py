"""The scan that belongs to the checkout in miniature: what clang would show of its two units."""

from __future__ import annotations

from pathlib import Path

from opscanner.graph.store import Store
from opscanner.ir import Call, EdgeKind, FunctionInstance
from tests.frameworks.checkouts import NATIVE, write_pytorch
from tests.graph.units import cast_node, host, kernel, square, unit

ACT, LAUNCH = f"{NATIVE}/cuda/Act.cu", f"{NATIVE}/cuda/Launch.cu"


def instances() -> dict[str, list[FunctionInstance]]:
    """By unit: act_kernel launches a kernel that calls a header's function; the gradient's launch is in another unit."""
    act = host(file=ACT)._replace(name="at::native::(anonymous namespace)::act_kernel", line=3)
    forward = kernel(file=ACT, line=4)._replace(name="at::native::elementwise_act")
    backward_host = host(file=ACT)._replace(name="at::native::act_backward_cuda", key="backward", line=8, calls=(), nodes=(), edges=(),
        parameters=(),
    )  # fmt: skip
    launch = host(file=LAUNCH)._replace(name="at::native::launch_act_backward", key="launch_backward", line=2, nodes=(), edges=(),
        parameters=(), calls=(Call(-1, "backward_kernel", (), kind=EdgeKind.LAUNCH, line=2),),
    )  # fmt: skip
    backward = kernel(file=LAUNCH, line=20)._replace(name="at::native::act_backward_kernel", key="backward_kernel", calls=(),
        nodes=(cast_node(21, "float16", "float32", file=LAUNCH),), edges=(), parameters=(),
    )  # fmt: skip
    uncalled = kernel(file=LAUNCH, line=30)._replace(name="at::native::uncalled_kernel", key="uncalled", calls=(), edges=(),
        nodes=(cast_node(31, "float16", "float32", file=LAUNCH),), parameters=(),
    )  # fmt: skip
    return {ACT: [act, forward, square(), backward_host], LAUNCH: [launch, backward, uncalled]}


def write_scan(root: Path, database: Path) -> int:
    """Writes checkout and scan; gives the scan's id."""
    write_pytorch(root)
    with Store(str(database)) as store:
        begun = store.begin_scan("pytorch", "2.6.0", str(root))
        for file, found in instances().items():
            store.write_unit(begun.id, unit(*found, file=file))
        store.finish_scan(begun.id, complete=False)
    return begun.id
