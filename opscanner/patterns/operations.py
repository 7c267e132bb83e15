"""What the nodes of the graph do to precision: which round, which are elementary functions, which accumulate."""

from __future__ import annotations

import re

from opscanner.frameworks.functions import elementary_function
from opscanner.graph.flow_graph import Flow, FlowGraph
from opscanner.patterns.words import words_of_function
from opscanner.precision.formats import Direction, cast_direction

#: Elementary functions whose result is exact: they choose, change a sign, split a number or give an integer
#: (IEEE 754-2019, 5.3.1, 5.5.1, 9.2: remainder and scaling by powers of two are exact too, underflow aside).
EXACT_FUNCTIONS = frozenset(
    (
        "abs", "fabs", "ceil", "floor", "trunc", "round", "rint", "nearbyint", "lrint", "llrint", "lround", "llround",
        "fmax", "fmin", "copysign", "fmod", "remainder", "remquo", "modf", "frexp", "ldexp", "scalbn", "logb", "ilogb",
        "nextafter",
    )
)  # fmt: skip
#: Functions of the C library that are arithmetic: one rounding, like ``a * b + c``.
ARITHMETIC_FUNCTIONS = frozenset(("fma", "fdim"))
#: Functions that IEEE 754-2019 asks to round correctly (5.4.1): as exact as a single + or *.
ROUNDED_ONCE = frozenset(("sqrt",))
#: Names of functions that merge two partial results of a reduction or a scan.
_COMBINING = frozenset(
    (
        "reduce", "reducer", "combine", "merge", "welford", "accumulate", "accumulator", "cumsum", "cumprod",
        "scan", "sum", "plus", "atomic",
    )
)  # fmt: skip
#: Names of calls that reduce over the threads of a warp, a block or a whole array.
_REDUCING_CALL = re.compile(
    r"(?:block_?reduce|warp_?reduce|warp_?sum|block_?sum|BlockScan|WarpScan|InclusiveS|ExclusiveS|DeviceReduce|reduce_by_key"
    r"|inclusive_scan|exclusive_scan|transform_reduce|accumulate|ilpReduce|blockReduceSum)",
    re.IGNORECASE,
)
_ENTERS = frozenset(("parameter", "load", "variable", "cast", "call"))
_LEAVES = frozenset(("variable", "store", "return", "cast"))
_NAMING = frozenset(("variable", "cast", "load", "selection", "arithmetic"))
_KEEPING = frozenset(("variable", "selection", "parameter", "call", "return", "cast"))
SIXTEEN_BIT = frozenset(("float16", "bfloat16"))


def elementary(graph: FlowGraph, node: int) -> str:
    """Name of the elementary function that a node computes, as the C library spells it; empty for others."""
    if graph.kind[node] != "math_call":
        return ""
    return elementary_function(graph.operation[node]) or graph.operation[node]


def is_inexact_function(graph: FlowGraph, node: int) -> bool:
    """True for exp, log, pow, sqrt ...; False for floor, abs, max and the like, which lose nothing."""
    name = elementary(graph, node)
    return bool(name) and name not in EXACT_FUNCTIONS and name not in ARITHMETIC_FUNCTIONS


def is_transcendental(graph: FlowGraph, node: int) -> bool:
    """True for functions that no library rounds correctly: exp, log, pow, tanh ..., not sqrt."""
    return is_inexact_function(graph, node) and elementary(graph, node) not in ROUNDED_ONCE


def changes_sign(graph: FlowGraph, node: int) -> bool:
    """True for a unary minus, which is exact: a ``-`` whose one operand is a single node."""
    if graph.kind[node] != "arithmetic" or graph.operation[node] != "-":
        return False
    # Several definitions of one variable may reach it: they are one operand.
    operands = {
        graph.operation[source] if graph.kind[source] == "variable" else source
        for source, flow in graph.predecessors[node]
        if flow in ("def_use", "loop_carried")
    }
    return len(operands) == 1


def is_rounding_arithmetic(graph: FlowGraph, node: int) -> bool:
    """True for + - * / and fma whose result is rounded; sums are told by ``accumulates``."""
    if graph.kind[node] == "math_call":
        return elementary(graph, node) in ARITHMETIC_FUNCTIONS
    if graph.kind[node] == "reduction":
        rounds = graph.operation[node] in ("+", "-", "*", "/", "fma")
        return rounds and (not accumulates(graph, node) or _held_narrower(graph, node))
    return graph.kind[node] == "arithmetic" and not changes_sign(graph, node)


def _held_narrower(graph: FlowGraph, node: int) -> bool:
    """True for a sum that is computed wider than it is held: ``y[0] = float(y[0]) + x`` for a half ``y``."""
    facts = graph.computed[node]
    return facts is not None and cast_direction(graph.format[node], facts.accumulator) is Direction.NARROW


def operands_computed(graph: FlowGraph, node: int) -> bool:
    """True when an operand of an operation is itself the result of one, with no cast in between."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < 60:
        for source, flow in graph.predecessors[waiting.pop()]:
            if source in seen or flow == "control" or graph.cast[source] is not None:
                continue
            if graph.kind[source] in ("arithmetic", "math_call", "reduction", "atomic"):
                return True
            seen.add(source)
            waiting.append(source)
    return False


#: Reductions of libraries, most of them of Eigen's expressions, that add or multiply; maxima and the like choose.
_EXPRESSIONS = frozenset(
    ["sum", "mean", "prod", "contract", "convolve", "matmul", "dot", "norm", "squaredNorm", "stableNorm", "redux"]
)


def accumulates(graph: FlowGraph, node: int) -> str:
    """How a node adds to a running sum or product: one of six words, or not at all (empty).

    ``loop`` is a variable carried round a loop (``sum += x``, ``sum = sum + x``) or a place in memory that the loop
    comes back to (``y[0] += x[i]``), ``element`` an element of an array that is added to, of which the graph does not
    say whether it is the same each time, ``atomic`` an atomic addition,
    ``combine`` an addition of two threads' values, or one in a function whose name says that it merges partial results
    (a reducer's ``combine``, a warp's sum), ``call`` a call whose name says the same and whose body was not seen,
    ``expression`` a reduction of an expression (``x.sum(axes)``).
    """
    kind, operation = graph.kind[node], graph.operation[node]
    if kind == "reduction":
        if operation in _EXPRESSIONS:
            return "expression"
        if operation not in ("+", "-", "*", "fma"):
            return ""
        if (node, "loop_carried") in graph.successors[node]:
            return "loop"
        if _is_element(graph, node):
            return "" if operation == "*" else "element"
        if operation == "*":  # ``r *= x; r += c`` is a step of Horner's scheme, no product
            return "loop" if comes_back(graph, node) else ""
        return "loop" if _comes_round(graph, node) else "combine"
    if kind == "atomic":
        return "atomic" if operation in ("add", "sub", "mul") else ""
    # Of an fma the frontend says which operand comes round: ``fma(r, x, c)`` is a step of Horner's scheme, no sum.
    if kind == "arithmetic" and operation in ("+", "-", "*", "fma"):
        if operation != "fma" and comes_back(graph, node):
            return "loop"
        if operation in ("+", "fma") and _merges_by_name(graph, node):
            return "combine"
    if kind == "call" and _REDUCING_CALL.search(operation) and not body_was_seen(graph, node):
        return "call"
    return ""


def _merges_by_name(graph: FlowGraph, node: int) -> bool:
    owner = graph.instance[node]
    named = not _COMBINING.isdisjoint(words_of_function(owner.function))
    return named and not owner.is_kernel and not changes_sign(graph, node)


def _is_element(graph: FlowGraph, node: int) -> bool:
    """True when a reduction's result is written through an index, a pointer or a member, narrowed before or not."""
    waiting = [node]
    while waiting:
        for target, flow in graph.successors[waiting.pop()]:
            if flow == "def_use" and graph.kind[target] == "store":
                return True
            if flow == "def_use" and graph.kind[target] == "cast":
                waiting.append(target)
    return False


def _comes_round(graph: FlowGraph, node: int) -> bool:
    """True when an operand of a reduction, or what that was cast or made from, is of the iteration before."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < 40:
        for source, flow in graph.predecessors[waiting.pop()]:
            if flow == "loop_carried":
                return True
            if flow == "def_use" and source not in seen and graph.kind[source] in _NAMING:
                seen.add(source)
                waiting.append(source)
    return False


def body_was_seen(graph: FlowGraph, call: int) -> bool:
    """True when the function that a call node calls was followed: its returned value flows back."""
    return any(flow == "return" for _, flow in graph.predecessors[call])


def only_converts(graph: FlowGraph, cast: int) -> bool:
    """True for a cast in a function that does nothing else: a helper such as ``c10::convert`` or ``fetch_and_cast``.

    Nothing is computed in the function; what is cast was handed in, loaded, or given by another such helper; what comes
    out is handed out or stored.
    """
    if graph.instance[cast].id in graph.computing:
        return False
    return _meets_only(graph, cast, graph.predecessors, _ENTERS, ("parameter", "load", "call")) and _meets_only(
        graph, cast, graph.successors, _LEAVES, ("return", "store")
    )


def _meets_only(
    graph: FlowGraph, cast: int, flows: list[list[Flow]], kinds: frozenset[str], ends: tuple[str, ...]
) -> bool:
    """True when a value's way inside its function has steps of these kinds only, and one that is an end."""
    waiting, seen, met = [cast], {cast}, False
    while waiting:
        here = waiting.pop()
        helped = [source for source, flow in graph.predecessors[here] if flow == "return"]
        if helped and kinds is _ENTERS:
            if any(graph.instance[source].id in graph.computing for source in helped):
                return False
            met = True
        for other, flow in flows[here]:
            if flow != "def_use" or other in seen:
                continue
            if graph.kind[other] not in kinds or (graph.kind[other] == "call" and not body_was_seen(graph, other)):
                return False
            # A return without a format gives no number: the value was only asked for, or goes into a struct.
            met = met or (graph.kind[other] in ends and (graph.kind[other] != "return" or bool(graph.format[other])))
            seen.add(other)
            waiting.append(other)
    return met


def comes_back(graph: FlowGraph, node: int) -> bool:
    """True when a result comes back to itself round a loop with nothing else done to it on the way.

    The loop may be a caller's, ``acc = add(acc, x[i])``: out by the returned value, in again by an argument.
    """
    own = graph.instance[node].id
    waiting, seen = [(node, False)], {node}
    while waiting and len(seen) < 40:
        here, carried = waiting.pop()
        for target, flow in graph.successors[here]:
            again = flow == "argument" and graph.instance[target].id == own != graph.instance[here].id
            if flow not in ("def_use", "loop_carried", "return") and not again:
                continue
            if flow == "return" and not _called_once(graph, here, target):
                continue
            looped = carried or flow == "loop_carried" or again
            if target == node:
                if looped:
                    return True
            elif target not in seen and graph.kind[target] in _KEEPING:
                seen.add(target)
                waiting.append((target, looped))
    return False


def _called_once(graph: FlowGraph, returned: int, call: int) -> bool:
    """True when a function's value comes into a caller at one place: what goes in again came from there, in a loop."""
    caller = graph.instance[call].id
    places = {
        target
        for target, flow in graph.successors[returned]
        if flow == "return" and graph.instance[target].id == caller
    }
    return len(places) == 1
