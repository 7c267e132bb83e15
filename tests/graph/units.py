"""Small units for the tests of the graph: a host function that launches a kernel, which calls a device function."""

from __future__ import annotations

from dataclasses import replace

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

FILE = "native/cuda/Act.cu"
HEADER = "native/cuda/math.cuh"


def cast_node(line: int, from_format: str, to_format: str, *, file: str = FILE, **more: object) -> Node:
    """A static_cast at column 9."""
    node = Node(NodeKind.CAST, file, line, 9, "static_cast", to_format, from_format, form=CastForm.STATIC_CAST)
    return node._replace(**more)


def kernel(format_: str = "float16", *, file: str = FILE, key: str = "", line: int = 10) -> FunctionInstance:
    """``out[i] = static_cast<scalar_t>(square(static_cast<float>(in[i])))``."""
    nodes = (
        Node(NodeKind.PARAMETER, file, line, 20, "in", format_),
        Node(NodeKind.LOAD, file, line + 1, 12, "in", format_),
        cast_node(line + 1, format_, "float32", file=file, written_type="acc_t"),
        Node(NodeKind.CALL, file, line + 2, 15, "square", "float32", category="call"),
        cast_node(line + 2, "float32", format_, file=file),
        Node(NodeKind.STORE, file, line + 2, 5, "out", format_),
    )
    edges = (
        Edge(0, 1, EdgeKind.DEF_USE),
        Edge(1, 2, EdgeKind.DEF_USE),
        Edge(3, 4, EdgeKind.DEF_USE),
        Edge(4, 5, EdgeKind.DEF_USE),
    )
    return FunctionInstance(
        key=key or f"kernel<{format_}>",
        name="at::native::act_kernel",
        usr="c:@act_kernel",
        file=file,
        line=line,
        column=1,
        bindings=f"scalar_t={format_}",
        is_kernel=True,
        is_device=True,
        is_host=False,
        parameters=(0, -1),
        nodes=nodes,
        edges=edges,
        calls=(Call(3, "square<float32>", ((2, 0),), line=line + 2),),
    )


def square(*, line: int = 3) -> FunctionInstance:
    """``float square(float x) { return x * x; }`` in a header."""
    return FunctionInstance(
        key="square<float32>",
        name="at::native::square",
        usr="c:@square",
        file=HEADER,
        line=line,
        column=1,
        is_device=True,
        parameters=(0,),
        returns=(2,),
        nodes=(
            Node(NodeKind.PARAMETER, HEADER, line, 30, "x", "float32"),
            Node(NodeKind.ARITHMETIC, HEADER, line + 1, 14, "*", "float32", category="arith"),
            Node(NodeKind.RETURN, HEADER, line + 1, 5, "return", "float32"),
        ),
        edges=(Edge(0, 1, EdgeKind.DEF_USE), Edge(1, 2, EdgeKind.DEF_USE)),
    )


def host(format_: str = "float16", *, file: str = FILE) -> FunctionInstance:
    """``void launch(double scale) { kernel<<<1, 1>>>(static_cast<scalar_t>(scale)); }``."""
    return FunctionInstance(
        key=f"launch<{format_}>",
        name="at::native::launch",
        usr="c:@launch",
        file=file,
        line=30,
        column=1,
        bindings=f"scalar_t={format_}",
        parameters=(0,),
        nodes=(
            Node(NodeKind.PARAMETER, file, 30, 20, "scale", "float64"),
            cast_node(31, "float64", format_, file=file),
        ),
        edges=(Edge(0, 1, EdgeKind.DEF_USE),),
        calls=(Call(-1, f"kernel<{format_}>", ((1, 0),), kind=EdgeKind.LAUNCH, line=31),),
    )


def unit(
    *instances: FunctionInstance,
    file: str = FILE,
    device: tuple[str, ...] | None = None,
    also_reaches: tuple[str, ...] = (),
    **more: object,
) -> UnitResult:
    """A unit that brings the instances; ``device`` are the keys that device code reaches (those that are device)."""
    reached = [UnitReach(i.key, i.is_device if device is None else i.key in device, i.has_error) for i in instances]
    reached += [UnitReach(key, True) for key in also_reaches]
    made = UnitResult(
        file=file,
        cuda_pass=CudaPass.DEVICE,
        configuration="",
        arguments_hash="a1",
        status=UnitStatus.OK,
        instances=instances,
        reach=tuple(reached),
        functions=len(reached),
        parse_cpu_s=2.0,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def whole_unit(format_: str = "float16", *, file: str = FILE) -> UnitResult:
    """The three functions together."""
    return unit(host(format_, file=file), kernel(format_, file=file), square(), file=file)
