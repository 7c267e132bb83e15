"""Runs the rules over a scan's graph and gives one finding for each pattern and place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from opscanner.graph.flow_graph import FlowGraph
from opscanner.patterns.base import AnyRule, CastRule, Confidence, Finding, OperationRule, Verdict
from opscanner.patterns.operations import only_converts
from opscanner.patterns.slices import OPERATIONS
from opscanner.patterns.subjects import CastSubject, OperationSubject

#: (kind of site, its id)
_Site = tuple[str, int]


@dataclass
class Classification:
    """What the rules said of a graph.

    Parameters
    ----------
    findings : list of Finding
        In the order of their nodes.
    failures : dict of str to (int, str)
        Rules that raised: how often, and the first place and error. Their other verdicts stand.
    """

    findings: list[Finding] = field(default_factory=list)
    failures: dict[str, tuple[int, str]] = field(default_factory=dict)


def classify(graph: FlowGraph, rules: Sequence[AnyRule]) -> Classification:
    """One finding for each pattern and place.

    A site stands in several function instances, one for each binding of formats; each rule judges all of them, and the
    surest verdict is the site's, one that device code reaches before others. Nodes that are constant, or in branches
    that constants rule out, are not judged. In a function that holds an error the types are no facts: confidence is low
    there.
    """
    cast_rules = [rule for rule in rules if isinstance(rule, CastRule)]
    operation_rules = [rule for rule in rules if isinstance(rule, OperationRule)]
    best: dict[tuple[_Site, AnyRule], tuple[tuple[bool, int], int, bool, Verdict]] = {}
    result = Classification()
    for site, rule, node, device, verdict in _verdicts(graph, cast_rules, operation_rules, result.failures):
        key, rank = (site, rule), (not device, verdict.confidence.rank)
        if key not in best or rank < best[key][0]:
            best[key] = (rank, node, device, verdict)
    first: dict[_Site, int] = {}
    for site, rule in best:
        first[site] = min(first.get(site, rule.precedence), rule.precedence)
    result.findings = [
        Finding(rule.id, node, device, rule.precedence == first[site], verdict)
        for (site, rule), (_, node, device, verdict) in best.items()
    ]
    result.findings.sort(key=lambda finding: (finding.node, finding.pattern))
    return result


def _verdicts(
    graph: FlowGraph,
    cast_rules: Sequence[CastRule],
    operation_rules: Sequence[OperationRule],
    failures: dict[str, tuple[int, str]],
) -> Iterator[tuple[_Site, AnyRule, int, bool, Verdict]]:
    helper_rules = [rule for rule in cast_rules if rule.helpers]
    for node in range(len(graph)):
        if graph.constant[node] or not graph.reached[node]:
            continue
        cast, computed = graph.cast[node], graph.computed[node]
        rules: Sequence[AnyRule]
        subject: CastSubject | OperationSubject
        if cast is not None:
            site, subject = ("cast", cast.id), CastSubject(graph, node)
            rules = helper_rules if only_converts(graph, node) else cast_rules
        elif computed is not None and graph.kind[node] in OPERATIONS:
            site, subject, rules = ("operation", computed.id), OperationSubject(graph, node), operation_rules
        else:
            continue
        for rule in rules:
            judge: Callable[[Any], Verdict | None] = rule.judge
            try:
                verdict = judge(subject)
            except Exception as error:  # noqa: BLE001
                # One rule that stumbles over one place costs that verdict, and is counted.
                count, first = failures.get(rule.id, (0, f"{graph.place(node)}: {type(error).__name__}: {error}"))
                failures[rule.id] = (count + 1, first)
                continue
            if verdict is None:
                continue
            if subject.instance.has_error:
                verdict = verdict._replace(confidence=Confidence.LOW)
            yield site, rule, node, subject.device, verdict
