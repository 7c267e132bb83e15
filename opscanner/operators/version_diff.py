"""Two versions of one framework: which operators gained or lost an upcast.

What an operator computes for a storage format is matched between the versions by function and operation, never by line
or file: a renamed file and a moved function are the same. What stands in functions that only one version has is matched
by the operation alone. An operation that only one version has is no upcast, gained or lost.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from opscanner.errors import UsageError
from opscanner.graph.call_graph import ScanRow, scans
from opscanner.graph.queries import reading
from opscanner.graph.serving import ServingGraph, choose_scan, load_serving, refuse_without_operators
from opscanner.operators.comparison import RANKED_FORMATS
from opscanner.operators.pipeline import COMPUTING, Pipeline, Pipelines, PipelineStep, is_wider


class Change(Enum):
    """What became of an operation's format; the values stand in reports."""

    GAINED = "gained"  #: computed in the storage format before, wider now
    LOST = "lost"  #: computed wider before, in the storage format now


@dataclass(frozen=True)
class ChangedOperation:
    """An operation of an operator that is computed in another format than before; a step of each version shows it."""

    operator: str
    format: str
    change: Change
    before: PipelineStep
    after: PipelineStep


@dataclass(frozen=True)
class VersionDiff:
    """What two scans of one framework tell of their operators.

    Parameters
    ----------
    compared : int
        Operators and storage formats that both compute something for.
    left_out : mapping of str to int
        Why others were not compared; what neither side has is counted only where one operator was asked for.
    """

    before: ScanRow
    after: ScanRow
    changes: tuple[ChangedOperation, ...]
    compared: int
    left_out: Mapping[str, int] = field(default_factory=dict)


def diff_versions(database: str, before: str, after: str, device: str, operator: str | None) -> VersionDiff:
    """Compares two scans; each is named as in ``pytorch@2.6.0``, or by a database that holds no other.

    Raises
    ------
    UsageError
        When a scan is not known, they are of different frameworks or the same one, or nobody has the operator.
    """
    first, second = (_load(database, wanted, device) for wanted in (before, after))
    for graph in (first, second):
        refuse_without_operators(graph)
    if first.scan.framework != second.scan.framework:
        raise UsageError(
            f"{before} and {after} are of two frameworks",
            "opscanner compare holds operators of two frameworks together",
        )
    if first.scan == second.scan and not (_is_database(before) or _is_database(after)):
        raise UsageError(f"{before} and {after} are one scan", "name two versions: pytorch@1.13 pytorch@2.6")
    return diff_graphs(first, second, operator)


def _is_database(wanted: str) -> bool:
    return "://" in wanted or Path(wanted).is_file()


def _load(database: str, wanted: str, device: str) -> ServingGraph:
    if not _is_database(wanted):
        with reading(database) as connection:
            return load_serving(connection, choose_scan(connection, wanted), device)
    with reading(wanted) as connection:
        held = scans(connection)
        if len(held) != 1:
            names = ", ".join(f"{scan.framework}@{scan.version}" for scan in held) or "no scan"
            raise UsageError(f"{wanted} holds {names}", f"--db {wanted} and the names of two of its scans")
        return load_serving(connection, held[0], device)


def diff_graphs(before: ServingGraph, after: ServingGraph, operator: str | None = None) -> VersionDiff:
    """Compares what serves each operator in two versions."""
    names = sorted(before.declared | after.declared)
    if operator is not None and operator not in names:
        near = difflib.get_close_matches(operator, names, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "opscanner operators lists them"
        raise UsageError(f"neither version has an operator {operator}", hint)
    pipelines = Pipelines(before), Pipelines(after)
    versions = before.scan.version, after.scan.version
    changes: list[ChangedOperation] = []
    left_out: Counter[str] = Counter()
    compared = 0
    for name in names if operator is None else [operator]:
        missing = [
            version for version, graph in zip(versions, (before, after), strict=True) if not graph.serving.get(name)
        ]
        if missing:
            if len(missing) == 2 and operator is not None:
                left_out[f"nothing that was scanned of {' or '.join(versions)} serves it on {before.device}"] += 1
            if len(missing) == 1:
                left_out[f"nothing that was scanned of {missing[0]} serves it"] += 1
            continue
        for format_ in RANKED_FORMATS:
            sides = [one.of((name,), format_) for one in pipelines]
            empty = [version for version, side in zip(versions, sides, strict=True) if not _computes(side)]
            if empty:
                if len(empty) == 2 and operator is not None:
                    left_out[f"neither computes anything for {format_}, so far as was seen"] += 1
                if len(empty) == 1:
                    left_out[f"{empty[0]} computes nothing for {format_}"] += 1
                continue
            compared += 1
            changes += [ChangedOperation(name, format_, *found) for found in changes_between(*sides)]
    return VersionDiff(before.scan, after.scan, tuple(changes), compared, left_out)


def _computes(pipeline: Pipeline) -> bool:
    return bool(pipeline.widened or pipeline.narrow)


Key = tuple[str, ...]


def changes_between(before: Pipeline, after: Pipeline) -> list[tuple[Change, PipelineStep, PipelineStep]]:
    """Operations of one storage format that are computed wider, or narrower, than before."""
    old, new = _by_function(before), _by_function(after)
    shared = {key[0] for key in old} & {key[0] for key in new}
    found = [change for key in sorted(old.keys() & new.keys()) for change in _change(old[key], new[key], before.format)]
    # Functions that one version alone has: renamed, split or merged. Their operations are matched without them.
    old, new = (_without_function(one, shared) for one in (old, new))
    return found + [
        change for key in sorted(old.keys() & new.keys()) for change in _change(old[key], new[key], before.format)
    ]


def _by_function(pipeline: Pipeline) -> dict[Key, list[PipelineStep]]:
    found: dict[Key, list[PipelineStep]] = defaultdict(list)
    for step in pipeline.steps:
        if step.stage in COMPUTING:
            found[function_name(step.function), step.stage, step.operation].append(step)
    return found


def _without_function(steps: Mapping[Key, list[PipelineStep]], shared: Iterable[str]) -> dict[Key, list[PipelineStep]]:
    found: dict[Key, list[PipelineStep]] = defaultdict(list)
    for (function, *operation), rows in steps.items():
        if function not in shared:
            found[tuple(operation)] += rows
    return found


def _change(
    before: list[PipelineStep], after: list[PipelineStep], format_: str
) -> list[tuple[Change, PipelineStep, PipelineStep]]:
    old, new = ({is_wider(step.held_in, format_): step for step in reversed(steps)} for steps in (before, after))
    if False in old and False not in new and True in new:
        return [(Change.GAINED, old[False], new[True])]
    if False in new and False not in old and True in old:
        return [(Change.LOST, old[True], new[False])]
    return []


def function_name(qualified: str) -> str:
    """A function's name as versions share it: without namespaces, lambdas' places and template arguments.

    >>> function_name("at::native::(anonymous namespace)::elu_kernel::(lambda at /src/Elu.cu:27:3)::operator()")
    'elu_kernel'
    >>> function_name("functor::Elu::operator()"), function_name("at::native::fastAtomicAdd")
    ('Elu::operator()', 'fastAtomicAdd')
    """
    in_lambda = "(lambda at " in qualified
    parts = [part for part in _parts(qualified) if not part.startswith("(")]
    if in_lambda and parts[-1] == "operator()":
        parts.pop()
    return "::".join(parts[-2:]) if parts[-1].startswith("operator") else parts[-1]


def _parts(qualified: str) -> list[str]:
    """Parts between ``::``, those inside parentheses kept together."""
    found, depth, part = [], 0, ""
    for sign in qualified.replace("operator()", "operator\0").replace("::", "\1"):
        depth += (sign == "(") - (sign == ")")
        if sign == "\1" and depth == 0:
            found.append(part)
            part = ""
        else:
            part += sign
    return [one.replace("\0", "()").replace("\1", "::") for one in (*found, part)]
