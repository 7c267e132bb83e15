"""The operators worth a precision test: what findings suspect, how to call them, and the inputs that would show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opscanner.graph.queries import reading
from opscanner.graph.serving import (
    ServingFinding,
    ServingGraph,
    choose_scan,
    load_serving,
    newest_scans,
    refuse_without_operators,
)
from opscanner.operators.comparison import RANKED_FORMATS
from opscanner.operators.inputs import FittedRecipe, recipes_for, why_not_shown
from opscanner.operators.pairs import OperatorPair, load_pairs
from opscanner.operators.pipeline import Pipelines
from opscanner.operators.risk import Cause, assess

#: Findings that stand for the rest of their kind in a row; the others are counted.
_SHOWN = 5


@dataclass(frozen=True)
class Suspect:
    """An operator that may lose precision in a format, with all that a test needs.

    Parameters
    ----------
    score : float
        As in ``operators.risk``: share of the significand that may be lost.
    findings : tuple of ServingFinding
        The reason, the surest first; at most five, of ``findings_in_all``.
    pair : str
        Id of the row of ``data/operator_pairs.csv`` that says how to call it; empty when none does.
    call : str
        A Python expression over the recipes' inputs.
    counterpart : str
        The other framework's call of the pair.
    note : str
        Which recipes of the cause are not among ``recipes``, because the pair cannot show the effect, and why.
    """

    framework: str
    version: str
    operator: str
    device: str
    format: str
    score: float
    cause: Cause
    findings: tuple[ServingFinding, ...]
    findings_in_all: int
    certain: bool
    pair: str
    call: str
    counterpart: str
    recipes: tuple[FittedRecipe, ...]
    note: str = ""


def find_suspects(
    database: str, *, framework: str | None, pattern: str | None, device: str, top: int | None
) -> list[Suspect]:
    """What findings of untuned operations suspect, the worst first: in one scan, or in the newest of each framework.

    A single operation that rounds once is as good as a wide one, and is no suspect. Two versions of one framework are
    never in one list: what is suspected of the one may long be mended in the other.

    Parameters
    ----------
    framework : str, optional
        Names a scan, as in ``pytorch`` or ``pytorch@2.6``.

    Raises
    ------
    UsageError
        When no scan is meant, or one holds no operators.
    """
    found: list[Suspect] = []
    with reading(database) as connection:
        for scan in newest_scans(connection) if framework is None else [choose_scan(connection, framework)]:
            graph = load_serving(connection, scan, device)
            refuse_without_operators(graph)
            found += suspects_of(graph, load_pairs(), pattern)
    found.sort(key=lambda one: (-one.score, one.cause.rank, not one.certain, one.framework, one.operator, one.format))
    return found if top is None else found[:top]


def suspects_of(graph: ServingGraph, pairs: Sequence[OperatorPair], pattern: str | None = None) -> list[Suspect]:
    """The suspects of one scan on one device, in no order."""
    pipelines = Pipelines(graph)
    found = []
    for name in sorted(graph.serving):
        for format_ in RANKED_FORMATS:
            pipeline = pipelines.of((name,), format_)
            risk = assess(pipeline, pipelines.node)
            findings = tuple(one for one in risk.findings if pattern in (None, one.pattern))
            if risk.cause in (None, Cause.SINGLE_ROUNDING) or not findings:
                continue
            assert risk.cause is not None
            pair = pair_of(graph.scan.framework, name, pairs)
            calls = ("", "") if pair is None else (pair.torch_call, pair.tensorflow_call)
            call, counterpart = calls if graph.scan.framework == "pytorch" else calls[::-1]
            recipes = () if pair is None else recipes_for(risk.cause, pair, format_)
            note = "" if pair is None else why_not_shown(risk.cause, pair)
            found.append(
                Suspect(
                    graph.scan.framework, graph.scan.version, name, graph.device, format_, risk.score, risk.cause,
                    findings[:_SHOWN], len(findings), pipeline.certain, pair.id if pair else "", call, counterpart,
                    recipes, note,
                )
            )  # fmt: skip
    return found


def pair_of(framework: str, operator: str, pairs: Iterable[OperatorPair]) -> OperatorPair | None:
    """The pair that calls an operator by itself; a composite that contains it only where there is none."""
    word = "torch" if framework == "pytorch" else "tensorflow"

    def fit(pair: OperatorPair) -> tuple[bool, bool, int] | None:
        names = (
            tuple(name.rstrip("_") for name in (*pair.aten, *pair.aten_cuda)) if word == "torch" else (pair.tensorflow,)
        )
        if operator not in names or pair.unchecked_because or pair.direction not in ("forward", "backward"):
            return None
        return pair.composed_in in (word, "both"), names[0] != operator, len(names)

    fitting = [(key, number, pair) for number, pair in enumerate(pairs) if (key := fit(pair)) is not None]
    return min(fitting, key=lambda one: one[:2])[2] if fitting else None


def without_call(suspects: Iterable[Suspect]) -> Counter[str]:
    """How many suspects have no call, by framework."""
    return Counter(one.framework for one in suspects if not one.call)
