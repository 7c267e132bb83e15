"""The words between the rooms: what the frontend finds and the graph stores.

Plain immutable values, no cursor and no row. Those that come in hundreds of thousands are named tuples, which are
made and pickled several times faster than frozen dataclasses. A *function instance* is one function body for one
binding of formats (``softmax_warp_forward`` with ``input_t = float16, acc_t = float32``); its nodes are the
floating-point operations of that body, its edges say which value flows where.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class NodeKind(Enum):
    """What a node of the graph stands for. C++ on the right, for ``scalar_t`` = c10::Half, ``acc_t`` = float."""

    PARAMETER = "parameter"  #: a parameter of the function:                    ``acc_t f(scalar_t x)``: x
    CAPTURE = "capture"  #: a value a lambda took from outside:                 ``[=] { ... negcoef ... }``
    VARIABLE = "variable"  #: a definition of a local variable or member:       ``acc_t sum = 0;``
    LOAD = "load"  #: a read through a pointer, subscript or member:            ``input[i]``
    STORE = "store"  #: a write through a pointer, subscript or member:         ``output[i] = ...``
    LITERAL = "literal"  #: a written number or a constant expression:          ``1.0f``
    CAST = "cast"  #: any change of floating-point format:                      ``static_cast<acc_t>(x)``
    ARITHMETIC = "arithmetic"  #: + - * / and unary minus:                      ``a * b``
    COMPARISON = "comparison"  #: < > == != and the like:                       ``x > 0``
    SELECTION = "selection"  #: one of several values, unchanged:               ``x > 0 ? x : y``, ``max(a, b)``
    REDUCTION = "reduction"  #: a value carried round a loop:                   ``sum += x``
    ATOMIC = "atomic"  #: an atomic read-modify-write:                          ``gpuAtomicAdd(p, x)``
    MATH_CALL = "math_call"  #: an elementary function:                         ``std::exp(x)``
    CALL = "call"  #: any other call that yields a float:                       ``op.project(x)``
    RETURN = "return"  #: a value that leaves the function:                     ``return x;``


class EdgeKind(Enum):
    """Why a value flows from one node to another."""

    DEF_USE = "def_use"  #: the target uses the value that the source defines:  ``y = f(x)``: x to f(x)
    LOOP_CARRIED = "loop_carried"  #: a definition reaches a use in the next iteration: ``sum += x``
    ARGUMENT = "argument"  #: an argument becomes the callee's parameter:       ``f(x)``: x to f's parameter
    RETURN = "return"  #: a callee's returned value becomes the call's value
    LAUNCH = "launch"  #: an argument of ``kernel<<<grid, block>>>(x)`` becomes the kernel's parameter
    CAPTURE = "capture"  #: a value becomes a lambda's captured variable
    CONTROL = "control"  #: a comparison decides whether the target's value is chosen: ``c ? a : b``


class CastForm(Enum):
    """How a cast is written."""

    STATIC_CAST = "static_cast"  #: ``static_cast<float>(x)``
    C_STYLE = "c_style"  #: ``(float)x``
    FUNCTIONAL = "functional"  #: ``float(x)``, ``acc_t{x}``
    IMPLICIT = "implicit"  #: ``float y = d;``
    CONVERSION_FUNCTION = "conversion_function"  #: an implicit call of ``Half::operator float``
    CONVERTING_CONSTRUCTOR = "converting_constructor"  #: an implicit ``Half(float)``
    MIXED_OPERATOR = "mixed_operator"  #: ``c10::operator*(float, Half)``
    INTRINSIC = "intrinsic"  #: ``__half2float(x)``, ``__half22float2(x)``
    HELPER_CALL = "helper_call"  #: a function that only casts: ``c10::convert<float>(x)``
    LIBRARY_CALL = "library_call"  #: inside a library wrapper that the line calls: ``std::fmod(half, half)``
    COMPOUND_ASSIGNMENT = "compound_assignment"  #: ``f += d`` computes in double and narrows
    EXPRESSION = "expression"  #: an expression template's cast: ``t.cast<float>()``


def storable(text: str) -> str:
    """Text as a database can hold it: bytes that are no UTF-8 and NUL become U+FFFD, as libclang's names have them."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")


class CudaPass(Enum):
    """Which of clang's two compilations of a CUDA file was parsed; NONE for plain C++."""

    DEVICE = "device"
    HOST = "host"
    NONE = "none"


class UnitStatus(Enum):
    """What became of a translation unit."""

    OK = "ok"  #: parsed without an error
    ERRORS = "errors"  #: parsed, some diagnostics were errors: counted, and the functions that hold them marked
    SKIPPED = "skipped"  #: not parsed, with the reason (file missing, time out, crash, out of memory)


class Node(NamedTuple):
    """One floating-point operation of a function instance.

    Parameters
    ----------
    kind : NodeKind
    file, line, column
        Where it is written. Inside a macro's argument that is the argument's own place; for code in a macro's
        body it is the place of the macro's use, and ``macro_file`` / ``macro_line`` hold the body's line.
    operation : str
        ``"+"``, ``"exp"``, ``"static_cast"``, a variable's or a callee's name.
    format : str
        Format of the value it yields, and for arithmetic the format it is computed in.
    from_format : str
        For casts, the source's format; otherwise empty.
    accumulator : str
        For reductions and atomics, the format the sum is held in; otherwise empty.
    form : CastForm or None
        For casts only.
    written_type : str
        The target type as written (``acc_t``), the author's intent; empty when nothing is written.
    lanes : int
        How many values at once: 2 for ``__half2``, 0 for a vector whose length the platform decides.
    category : str
        ``arith | math | functor | reduction | atomic | compare | select | call``, empty for others.
    constant : bool
        The value is a literal or folded from literals; compilers emit nothing for it.
    reached : bool
        False for code in a branch that constants rule out, or in an unevaluated operand.
    on_device : bool
        A GPU runs it although a host function states it: part of an expression that ``x.device(gpu) = ...`` is given.
    """

    kind: NodeKind
    file: str
    line: int
    column: int
    operation: str
    format: str
    from_format: str = ""
    accumulator: str = ""
    form: CastForm | None = None
    written_type: str = ""
    lanes: int = 1
    category: str = ""
    constant: bool = False
    reached: bool = True
    macro_file: str = ""
    macro_line: int = 0
    on_device: bool = False


class Edge(NamedTuple):
    """Value flow inside one function instance: indices into its nodes."""

    source: int
    target: int
    kind: EdgeKind


class Call(NamedTuple):
    """A call from one instance to another.

    Parameters
    ----------
    node : int
        Index of the call's own node in the caller, or -1 when it neither takes nor yields a float.
    callee : str
        Key of the called instance.
    arguments : tuple of (int, int)
        (index of the argument's node in the caller, position in the callee's ``parameters``), for values that carry
        floats only.
    kind : EdgeKind
        ARGUMENT for a call, LAUNCH for ``kernel<<<...>>>``, CAPTURE where a lambda takes values from the function that
        creates it.
    line : int
        Line of the call in the caller's file.
    """

    node: int
    callee: str
    arguments: tuple[tuple[int, int], ...] = ()
    kind: EdgeKind = EdgeKind.ARGUMENT
    line: int = 0


class FunctionInstance(NamedTuple):
    """One function body for one binding of formats.

    Parameters
    ----------
    key : str
        Identifies the instance within a scan; equal in every translation unit that instantiates the same body
        with the same formats (integers that templates are instantiated over are left out, see DESIGN 3).
    name : str
        Qualified name, without template arguments: ``at::native::softmax_warp_forward``.
    usr : str
        clang's Unified Symbol Resolution of the pattern, for joins across translation units.
    file, line, column
        Where the body is written.
    bindings : str
        ``input_t=float16, acc_t=float32``; empty for a plain function.
    signature : str
        The function's type as clang prints it.
    is_kernel, is_device, is_host, is_lambda : bool
        ``__global__``, ``__device__`` (implicitly for lambdas, too), callable on the host, a lambda's body.
    has_error : bool
        An error diagnostic lies inside the body; its type facts are not facts.
    parameters : tuple of int
        Node index of each parameter, -1 for one that carries no float; behind them what a lambda captures, and the
        object that a method reads its members from.
    returns : tuple of int
        Node indices of its RETURN nodes.
    """

    key: str
    name: str
    usr: str
    file: str
    line: int
    column: int
    bindings: str = ""
    signature: str = ""
    is_kernel: bool = False
    is_device: bool = False
    is_host: bool = True
    is_lambda: bool = False
    has_error: bool = False
    parameters: tuple[int, ...] = ()
    returns: tuple[int, ...] = ()
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """What clang complained of; equal ones are counted together."""

    severity: str  #: ``warning | error | fatal``
    category: str  #: ``missing_header | undeclared | type | argument | other``
    file: str
    line: int
    message: str
    count: int = 1


class UnitReach(NamedTuple):
    """That a translation unit instantiates an instance, and what is true of it only there."""

    key: str
    device: bool  #: a device function of this unit reaches it
    has_error: bool = False


@dataclass(frozen=True, slots=True)
class UnitResult:
    """Everything the scan of one translation unit gave.

    ``instances`` holds bodies that the receiving graph may already have under the same key: it keeps the first.
    ``reach`` lists *every* instance of the unit, also those whose body an earlier result of the same worker brought.
    """

    file: str
    cuda_pass: CudaPass
    configuration: str
    arguments_hash: str
    status: UnitStatus
    reason: str = ""
    instances: tuple[FunctionInstance, ...] = ()
    reach: tuple[UnitReach, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    missing_headers: tuple[str, ...] = ()
    dropped_arguments: tuple[tuple[str, str], ...] = ()
    functions: int = 0  #: function instances reached, seen whole or not
    functions_with_error: int = 0
    device_functions_with_error: int = 0
    cursors: int = 0
    parse_cpu_s: float = 0.0
    walk_cpu_s: float = 0.0
    peak_rss_mib: float = 0.0
    dependencies: tuple[str, ...] = field(default=())  #: files under the root that it includes, for later re-scans
