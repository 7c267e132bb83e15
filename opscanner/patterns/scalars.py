"""Is a value one scalar for the whole operator, or an element of an array?"""

from __future__ import annotations

import re

from opscanner.graph.flow_graph import FlowGraph
from opscanner.patterns.base import Confidence
from opscanner.patterns.subjects import CastSubject
from opscanner.patterns.words import words_of

#: Names of operators' scalar parameters.
SCALARS = frozenset(
    (
        "alpha", "beta", "eps", "epsilon", "momentum", "lr", "decay", "scale", "factor", "slope", "threshold", "lambd",
        "weight_decay", "correction", "negval", "poscoef", "negcoef", "scalar", "ratio",
    )
)  # fmt: skip


_NUMBER = re.compile(r"^(?:const )?[\w:]+(?: const)?(?: ?&)?$")
_CONTAINER = re.compile(r"Tensor|Accessor|TTypes|Iterator|vector|array|Map|Ptr|Span|List", re.IGNORECASE)


def by_value(graph: FlowGraph, parameter: int) -> bool:
    """True unless the function's type says that a parameter is a pointer, an array or a class of many values."""
    signature, position = graph.instance[parameter].signature, graph.position.get(parameter, -1)
    begin, depth, types = signature.find("(") + 1, 0, [""]
    for letter in signature[begin:] if begin else "":
        depth += (letter in "(<[") - (letter in ")>]")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            types.append("")
        else:
            types[-1] += letter
    if not 0 <= position < len(types):
        return True
    written = types[position].strip()
    return bool(_NUMBER.match(written)) and not _CONTAINER.search(written)


def scalar_origin(cast: CastSubject) -> tuple[int, Confidence | None]:
    """Step of the backward slice at which a scalar enters, with how sure that is; (-1, None) for an array's element.

    Looked at is what the value was before any operation. A load through an index or a pointer makes it an element.
    """
    if cast.cast.form == "expression":
        return -1, None  # an expression template's cast: of a tensor
    graph = cast.graph
    entered, sure = -1, False
    for index, step in enumerate(cast.backward.steps[1:], start=1):
        if step.operations:
            continue
        node, kind, owner = step.node, graph.kind[step.node], graph.instance[step.node]
        if kind in ("load", "literal", "math_call") or graph.cast[node] is not None:
            return -1, None
        if kind == "call" and not any(flow == "return" for _, flow in graph.predecessors[node]):
            return -1, None
        if graph.operation[node] == "this":
            continue
        if kind == "parameter" and not by_value(graph, node):
            return -1, None
        on_host = not owner.is_device and not owner.is_lambda
        if kind == "capture" or (kind == "parameter" and (owner.is_kernel or on_host)):
            entered, sure = (entered if sure else index), True
        elif kind == "parameter" and entered < 0 and not graph.predecessors[node]:
            entered = index
    if entered < 0:
        return -1, None
    if sure:
        return entered, Confidence.HIGH
    name = graph.operation[cast.backward.steps[entered].node]
    return (entered, Confidence.MEDIUM) if words_of(name) & SCALARS else (-1, None)
