"""What an operator computes for one storage format, step by step: its pipeline.

The functions that serve an operator come as instances, one for each binding of formats. Which of them work on float16
data, which on bfloat16, is read off an instance in this order:

1. A 16-bit (or 8-bit) format among its bindings, and of its parameters, loads, casts and operations, is its storage
   format: accumulators are wider, nothing that computes is narrower than what arrays hold. ``scalar_t=float16,
   acc_t=float32`` stores float16; a lambda inside ``AT_DISPATCH``, whose bindings are empty, is told by its parameter.
2. An instance that shows wider formats only serves whoever calls it: the pipelines of the instances that do, as
   float32 helpers of a float16 kernel; where nobody with a narrow format does, the narrowest format it shows itself.
3. A function with an instance that holds two narrow formats converts whatever comes (``fetch_and_cast``): data
   movement, which belongs to no pipeline.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from opscanner.graph.serving import ServingFinding, ServingGraph, ServingInstance, ServingNode
from opscanner.precision.formats import COMPLEX_PARTS, FORMATS, is_floating, part_format

#: Formats that kernels store and widen: those of less precision than float32's.
_NARROW = frozenset(
    name for name in (*FORMATS, *COMPLEX_PARTS) if FORMATS[part_format(name)].precision < FORMATS["float32"].precision
)
_BOUND = re.compile(r"=(\w+)")
#: Node kinds that are a step, by the step's stage.
STAGES = {
    "load": "load",
    "cast": "cast",
    "math_call": "function",
    "arithmetic": "arithmetic",
    "reduction": "accumulation",
    "atomic": "accumulation",
    "store": "store",
}
#: Stages that compute.
COMPUTING = frozenset(("function", "arithmetic", "accumulation"))
UNTUNED = frozenset(("untuned-accumulation", "untuned-arithmetic"))


class PipelineStep(NamedTuple):
    """One thing that is done with values, at one place.

    ``format`` is what it is computed in (for casts: the format after); ``from_format`` is set for casts,
    ``accumulator`` for sums. ``findings`` are ids.
    """

    stage: str
    operation: str
    from_format: str
    format: str
    accumulator: str
    function: str
    file: str
    line: int
    findings: tuple[int, ...] = ()

    @property
    def held_in(self) -> str:
        """The format that decides its rounding: the accumulator's for sums."""
        return self.accumulator or self.format


@dataclass(frozen=True)
class Pipeline:
    """What serves operators for one storage format.

    Parameters
    ----------
    format : str
        The storage format.
    steps : tuple of PipelineStep
        Nearest function first, and in the order of evaluation inside a function.
    findings : tuple of ServingFinding
        What rules found at these steps.
    certain : bool
        Every function was attributed by clang's call graph alone.
    """

    format: str
    steps: tuple[PipelineStep, ...]
    findings: tuple[ServingFinding, ...]
    certain: bool

    @property
    def widened(self) -> tuple[PipelineStep, ...]:
        """Steps that compute in a format wider than the storage format."""
        return tuple(step for step in self.steps if step.stage in COMPUTING and is_wider(step.held_in, self.format))

    @property
    def narrow(self) -> tuple[PipelineStep, ...]:
        """Steps that compute in the storage format itself."""
        return tuple(step for step in self.steps if step.stage in COMPUTING and step.held_in == self.format)

    @property
    def untuned(self) -> tuple[ServingFinding, ...]:
        """Findings of something computed in the storage format."""
        return tuple(one for one in self.findings if one.pattern in UNTUNED and one.from_format == self.format)


def is_wider(format_: str, than: str) -> bool:
    """True for another format that holds every value of ``than``.

    >>> is_wider("float32", "bfloat16"), is_wider("float16", "float16"), is_wider("float16", "bfloat16")
    (True, False, False)
    """
    one, other = FORMATS.get(part_format(format_)), FORMATS.get(part_format(than))
    return one is not None and other is not None and one != other and one.holds(other)


class _Left:
    """What patterns leave out of a pipeline."""

    def __init__(self, patterns: Collection[str]) -> None:
        self.patterns = [pattern.partition("#") for pattern in patterns]

    def function(self, name: str) -> bool:
        return any(not part[1] and fnmatchcase(name, part[0]) for part in self.patterns)

    def operation(self, function: str, operation: str) -> bool:
        return any(
            bool(part[1]) and fnmatchcase(function, part[0]) and fnmatchcase(operation, part[2])
            for part in self.patterns
        )


class Pipelines:
    """Pipelines of the operators of one scan on one device; storage formats are told once, for all of them."""

    def __init__(self, graph: ServingGraph) -> None:
        self.graph = graph
        self._shown = {
            instance.id: shown_formats(instance, graph.nodes.get(instance.id, ()))
            for instances in graph.instances.values()
            for instance in instances
        }
        self._function = {
            instance.id: function for function, instances in graph.instances.items() for instance in instances
        }
        self._converting = {
            function
            for function, instances in graph.instances.items()
            if any(len(self._shown[instance.id] & _NARROW) > 1 for instance in instances)
        }
        self.node = {node.id: node for nodes in graph.nodes.values() for node in nodes}

    def of(self, operators: Iterable[str], format_: str, leave_out: Collection[str] = ()) -> Pipeline:
        """The pipeline of operators taken together.

        Parameters
        ----------
        leave_out : collection of str
            What the operators run in other modes than the one that is asked for: patterns ``FUNCTION`` or
            ``FUNCTION#OPERATION``, as in a shell and with qualified names. Their steps are no part of the pipeline, and
            findings whose chain leads through them do not count.
        """
        other = _Left(leave_out)
        distances: dict[int, int] = {}
        serving: set[int] = set()
        certain = True
        for name in operators:
            for served in self.graph.serving.get(name, ()):
                if served.function in self._converting or other.function(self.graph.functions[served.function].name):
                    continue
                distances[served.function] = min(served.distance, distances.get(served.function, served.distance))
                serving |= served.instances
                certain = certain and served.certain
        instances = self._instances(serving, format_)
        steps: dict[PipelineStep, None] = {}
        findings: dict[int, ServingFinding] = {}
        for function in sorted(distances, key=lambda one: (distances[one], one)):
            for number in instances.get(function, ()):
                for node in self.graph.nodes.get(number, ()):  # in the order of evaluation
                    found = [one for one in self._findings(node, format_) if not self._leads_through(one, other)]
                    step = self._step(node, function, format_, found)
                    if step is not None and not other.operation(step.function, step.operation):
                        steps[step] = None
                        findings.update((one.id, one) for one in found)
        return Pipeline(format_, tuple(steps), tuple(findings.values()), certain)

    def _instances(self, serving: Collection[int], format_: str) -> dict[int, list[int]]:
        """Instances of a storage format among those that serve, by function: see the module's rules."""
        # Those that do not run on the device show nothing.
        own = {instance: self._shown[instance] for instance in serving if instance in self._shown}
        narrow = {instance: formats & _NARROW for instance, formats in own.items()}
        by_narrow = self._called_by([instance for instance, formats in narrow.items() if formats], narrow, own)
        if format_ in _NARROW:
            seeds = [instance for instance, formats in narrow.items() if format_ in formats]
            chosen = self._called_by(seeds, narrow, own)
        else:
            entries = [
                instance
                for instance, formats in own.items()
                if not narrow[instance] and storage(formats) == format_ and instance not in by_narrow
            ]
            chosen = self._called_by(entries, narrow, own)
        found: dict[int, list[int]] = defaultdict(list)
        for number in sorted(chosen):
            found[self._function[number]].append(number)
        return found

    def _called_by(self, seeds: Iterable[int], narrow: dict[int, frozenset[str]], known: Collection[int]) -> set[int]:
        """Seeds, and the instances without a narrow format of their own that they call."""
        found = set(seeds)
        waiting = list(found)
        while waiting:
            for callee in self.graph.callees.get(waiting.pop(), ()):
                if callee in known and callee not in found and not narrow[callee]:
                    found.add(callee)
                    waiting.append(callee)
        return found

    def _leads_through(self, finding: ServingFinding, other: _Left) -> bool:
        if not other.patterns:
            return False
        nodes = (self.node[step] for step in finding.chain if step in self.node)
        names = ((self.graph.functions[self._function[node.instance]].name, node.operation) for node in nodes)
        return any(other.function(function) or other.operation(function, operation) for function, operation in names)

    def _step(
        self, node: ServingNode, function: int, format_: str, found: Collection[ServingFinding]
    ) -> PipelineStep | None:
        stage = STAGES.get(node.kind)
        if stage is None or node.constant:
            return None
        if stage in ("load", "store") and node.format != format_:
            return None
        findings = tuple(one.id for one in found)
        return PipelineStep(
            stage, node.operation if stage not in ("load", "store") else "", node.from_format, node.format,
            node.accumulator, self.graph.functions[function].name, node.file, node.line, findings,
        )  # fmt: skip

    def _findings(self, node: ServingNode, format_: str) -> list[ServingFinding]:
        if node.cast is None and node.arithmetic is None:
            return []
        found = self.graph.findings.get((node.cast, node.arithmetic), ())
        # A site of untuned arithmetic is one format's; what widens may widen from anything.
        return [one for one in found if one.pattern not in UNTUNED or one.from_format == format_]


def shown_formats(instance: ServingInstance, nodes: Iterable[ServingNode]) -> frozenset[str]:
    """Floating-point formats in an instance's bindings, and of what it is given, loads, casts, computes and returns.

    Of an instance that shows complex formats only these: the real ones are parts of its values.
    """
    found = {name for name in _BOUND.findall(instance.bindings) if is_floating(name)}
    for node in nodes:
        if not node.constant:
            found.update(name for name in (node.format, node.from_format) if is_floating(name))
    return frozenset(found & COMPLEX_PARTS.keys() or found)


def storage(formats: Iterable[str]) -> str:
    """The narrowest of formats; empty when there is none.

    >>> storage({"float64", "float32"}), storage(())
    ('float32', '')
    """
    known = sorted(name for name in formats if is_floating(name))
    return min(known, key=lambda name: FORMATS[part_format(name)].precision, default="")
