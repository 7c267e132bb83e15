"""Faults as reports that could be filed upstream: Markdown, one page a cause, and JSON."""

from __future__ import annotations

import math
import platform
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from opscanner.dynamic.fault_kinds import Kind
from opscanner.dynamic.fault_script import ScriptRun, bits_of
from opscanner.dynamic.fault_stories import Fault, Story
from opscanner.dynamic.verdict import WIDER
from opscanner.measurements import Measurement
from opscanner.operators.explanations import Explanation

_PROJECT = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}
_SHOWN_FINDINGS, _SHOWN_ROWS = 6, 24

_WRONG = {
    Kind.LAYOUT: "The kernel for this memory layout rounds where the one for contiguous inputs does not.",
    Kind.SIZE: "The kernel for this size rounds where the one for a single element does not.",
    Kind.ACCUMULATION: "Partial sums are held in the storage format: small terms are absorbed, or a sum overflows.",
    Kind.FORMULA: "Every step of the formula is rounded to the storage format.",
    Kind.RANGE: "An intermediate leaves the range of its format although the result does not.",
    Kind.FLUSHED: "Subnormal values are taken or given as zero.",
    Kind.CANCELLATION: "A value was rounded to the storage format before it cancels with another.",
    Kind.WRONG_FORMULA: "The formula itself loses the result: the next wider format errs as much.",
    Kind.ROUNDED_INSIDE: "Something inside is rounded to the storage format.",
    Kind.COMPOSED: "It is made of several operators, and what one hands to the next is rounded to the storage format.",
    Kind.END_OF_RANGE: "Partial sums leave the range of float32 in the order in which they are added.",
}
_FIX = {
    Kind.LAYOUT: "Let both paths convert, compute and round alike.",
    Kind.SIZE: "Let the vector path and the scalar path convert, compute and round alike.",
    Kind.ACCUMULATION: "Hold partial sums in {wider} and round to the storage format once, at the end.",
    Kind.FORMULA: "Convert to {wider}, compute there, and round once{stable}.",
    Kind.RANGE: "Compute the intermediate where it fits (wider, or scaled), and round to the storage format once.",
    Kind.FLUSHED: "Keep subnormals, or say that they are flushed.",
    Kind.CANCELLATION: "Convert to {wider} before the subtraction, and round once.",
    Kind.WRONG_FORMULA: "A formula that does not cancel or overflow; a wider format alone does not help.",
    Kind.ROUNDED_INSIDE: "Convert to {wider}, compute there, and round once.",
    Kind.COMPOSED: "Convert to {wider} before the first operator, and round after the last.",
    Kind.END_OF_RANGE: "Perhaps none: it takes values at the end of the range, and an order of adding that suits them.",
}


_TITLE = {
    Kind.LAYOUT: "errs in {formats} for {layout} inputs alone",
    Kind.SIZE: "errs in {formats} by the number of elements",
    Kind.ACCUMULATION: "adds up in {formats}",
    Kind.FORMULA: "computes `{formula}` in {formats} at every step",
    Kind.RANGE: "leaves the range of {formats} on the way",
    Kind.FLUSHED: "flushes subnormals in {formats}",
    Kind.CANCELLATION: "rounds to {formats} before it subtracts",
    Kind.WRONG_FORMULA: "is as wrong in {wider} as in {formats}",
    Kind.ROUNDED_INSIDE: "is less accurate in {formats} than {wider} rounded once",
    Kind.COMPOSED: "rounds to {formats} between its steps",
    Kind.END_OF_RANGE: "overflows at the end of the range of {formats}",
}


@dataclass(frozen=True)
class FaultReport:
    """A story with all that its page says.

    Parameters
    ----------
    run : ScriptRun
        What the script of the first fault printed.
    measured : tuple of Measurement
        The faulty measurements of the story's operators and formats.
    explanations : tuple of Explanation
        What a scan found there.
    """

    story: Story
    run: ScriptRun
    measured: tuple[Measurement, ...]
    explanations: tuple[Explanation, ...]

    @property
    def title(self) -> str:
        """For the page and the issue: who, what, in which formats, and what comes of it."""
        story, first = self.story, self.story.faults[0]
        formats = " and ".join(sorted({one.format for one in story.faults}))
        what = _TITLE[story.kind].format(
            formats=formats, formula=first.cause.formula, layout=first.layout, wider=WIDER[first.format]
        )
        seen = f"{_number(first.got)} where {_number(first.expected)} is right"
        device = first.device.upper() if first.device == "cpu" else first.device
        name = story.core
        if name.endswith("_grad") and name not in first.kernels:  # the catalog's name for a gradient, not theirs
            name = f"gradient of {name.removesuffix('_grad')}"
        return f"{_PROJECT[first.framework]} {name} {what} on {device}: {seen}"

    @property
    def file_name(self) -> str:
        """Of the page."""
        first = self.story.faults[0]
        words = f"{first.framework} {self.story.core} {first.cause.formula or self.story.kind.name} {first.device}"
        return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-") + ".md"


def render_markdown(report: FaultReport, stream: IO[str]) -> None:
    """One page."""
    first = report.story.faults[0]
    parts = [
        f"# {report.title}",
        _summary(report, first),
        "## Environment\n\n" + _environment(first),
        "## To reproduce\n\n" + _script(report, first),
        "## What is right, and why\n\n" + _right(first),
        "## Affected\n\n" + _affected(report),
        "## What shows the cause\n\n" + _cause(report, first),
        "## What a fix would look like\n\n" + _fix(first),
    ]
    stream.write("\n\n".join(parts) + "\n")


def _summary(report: FaultReport, first: Fault) -> str:
    error = f", {first.error_ulp:.4g} ULP off" if math.isfinite(first.error_ulp) and math.isfinite(first.got) else ""
    size = f"{first.elements} input value" + ("s" if first.elements > 1 else "")
    return (
        f"`{_call(first)}` in {first.format} gives {_number(first.got)} for {size} where "
        f"{_number(first.expected)} is right{error}. {_WRONG[report.story.kind]}"
    )


def _environment(first: Fault) -> str:
    lines = [
        f"- {_PROJECT[first.framework]} {first.version}, device {first.device}, Python {platform.python_version()}"
    ]
    lines.append(f"- {platform.system()} {platform.machine()}")
    if first.framework == "tensorflow":
        lines.append("- eager, oneDNN off (`TF_ENABLE_ONEDNN_OPTS=0`): the kernels of `tensorflow/core/kernels`")
    return "\n".join(lines)


def _script(report: FaultReport, first: Fault) -> str:
    code = "it took too long" if report.run.code is None else f"exit code {report.run.code}"
    return f"```python\n{first.script}```\n\nprints ({code}):\n\n```text\n{report.run.output.rstrip()}\n```"


def _right(first: Fault) -> str:
    wider = WIDER[first.format]
    text = (
        f"The exact result for these inputs, as the operator receives them, is {first.exact!r}; rounded once to "
        f"{first.output_format} that is {_number(first.expected)} ({bits_of(first.expected, first.output_format)}); "
        f"{_number(first.got)} ({bits_of(first.got, first.output_format)}) came. The exact result was computed "
        "independently of the framework, in float64 and in extended precision, and with ball arithmetic where the two "
        f"differ; it is known to {first.bound_ulp:.2g} ULP of {first.output_format}."
    )
    if first.upcast is not None:
        text += (
            f"\n\nThe same call in {wider}, rounded once to {first.output_format}, gives {_number(first.upcast)}. "
            f"A result within {first.budget_ulp:g} ULP would not be complained of."
        )
    return text


def _affected(report: FaultReport) -> str:
    groups: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for one in report.measured:
        groups[one.operator, one.expression, one.format].append(one)
    lines = [
        "| call | format | max ULP | NaN or infinity wrong | over 1 ULP | of | inputs of the worst |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for (_, expression, format_), rows in list(groups.items())[:_SHOWN_ROWS]:
        worst = max(rows, key=lambda one: -1.0 if math.isnan(one.max_ulp) else one.max_ulp)
        mismatches = sum(one.nan_mismatches + one.infinity_mismatches for one in rows)
        lines.append(
            f"| `{_plain(expression)}` | {format_} | {worst.max_ulp:.4g} | {mismatches} | "
            f"{sum(one.over_1_ulp for one in rows)} | {sum(one.count for one in rows)} | {worst.batch} |"
        )
    if len(groups) > _SHOWN_ROWS:
        lines.append(f"\n{len(groups) - _SHOWN_ROWS} more.")
    said = "\n\nCounted over the sets of inputs that show the fault; ULP of the format at the exact result."
    return "\n".join(lines) + said


def _cause(report: FaultReport, first: Fault) -> str:
    text = f"Measured: {first.cause.evidence}."
    found = report.explanations
    if not found:
        return text + "\n\nNo scan of the sources at hand explains it."
    one = found[0]
    text += f"\n\nFound in the sources of {_PROJECT[one.framework]} {one.version} (measured: {first.version}):\n\n"
    for item in found[:_SHOWN_FINDINGS]:
        text += f"- `{item.file}:{item.line}`, `{item.function}`: {item.message}\n"
    if len(found) > _SHOWN_FINDINGS:
        text += f"- {len(found) - _SHOWN_FINDINGS} more\n"
    kind = first.device.partition(":")[0]
    if one.device != kind:
        text += (
            f"\nThese are the {one.device} kernels. The measurement ran on the {kind}, whose kernels were not scanned: "
            "they show that the other device's kernel computes alike, not where this one errs."
        )
    return text.rstrip()


def _fix(first: Fault) -> str:
    stable = f", as `{first.cause.remedy}`" if first.cause.remedy else ""
    text = _FIX[first.cause.kind].format(wider=WIDER[first.format], stable=stable)
    if first.upcast is not None and first.verdict.value != "beyond budget":
        text += f" The call in {WIDER[first.format]} above shows that this gives the right result here."
    return text


def _call(first: Fault) -> str:
    return _plain(first.expression)


def _plain(expression: str) -> str:
    return re.sub(r"\braw\.", "tf.raw_ops.", expression).replace("|", "\\|")


def _number(value: float) -> str:
    return f"{value:.9g}"


def as_json(report: FaultReport) -> dict[str, Any]:
    """The object of ``--format json``; inputs and results as hexadecimal text, which holds every bit."""
    story = report.story
    return {
        "cause": story.name,
        "title": report.title,
        "kind": story.kind.value,
        "framework": story.faults[0].framework,
        "version": story.faults[0].version,
        "faults": [_fault_json(one) for one in story.faults],
        "explanations": [vars(one) for one in report.explanations],
        "script": story.faults[0].script,
        "script_output": report.run.output,
        "script_exit_code": report.run.code,
    }


def _fault_json(one: Fault) -> dict[str, Any]:
    return {
        "operator": one.operator,
        "call": one.expression,
        "format": one.format,
        "device": one.device,
        "layout": one.layout,
        "verdict": one.verdict.value,
        "inputs": {
            name: {"shape": list(array.shape), "values": [_exact(value) for value in array.ravel().tolist()]}
            for name, array in one.inputs.items()
        },
        "output": one.output,
        "index": one.index,
        "expected": _exact(one.expected),
        "expected_bits": bits_of(one.expected, one.output_format),
        "got": _exact(one.got),
        "got_bits": bits_of(one.got, one.output_format),
        "exact": _exact(one.exact),
        "upcast": None if one.upcast is None else _exact(one.upcast),
        "error_ulp": one.error_ulp if math.isfinite(one.error_ulp) else None,
        "evidence": one.cause.evidence,
        "kernels": list(one.kernels),
    }


def _exact(value: Any) -> Any:
    return value.hex() if isinstance(value, float) else repr(value) if isinstance(value, complex) else value


COLUMNS = ("cause", "operators", "formats", "values", "expected", "got", "ULP", "script")


def rows(reports: Sequence[FaultReport]) -> list[tuple[Any, ...]]:
    """A line a report: cells of :data:`COLUMNS`."""
    found = []
    for report in reports:
        story, first = report.story, report.story.faults[0]
        operators = ", ".join(dict.fromkeys(one.operator for one in story.faults))
        formats = ", ".join(sorted({one.format for one in story.faults}))
        shown = "shows it" if report.run.code == 1 else f"exit code {report.run.code}"
        found.append(
            (story.name, operators, formats, first.elements, f"{first.expected:.6g}", f"{first.got:.6g}",
             float(f"{first.error_ulp:.4g}"), shown)
        )  # fmt: skip
    return found
