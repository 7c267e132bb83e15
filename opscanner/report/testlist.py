"""Suspects as rows, as JSON and as a file of tests that runs by itself."""

from __future__ import annotations

import ast
import importlib.util
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import IO, Any

from opscanner.operators.testlist import Suspect

COLUMNS = (
    "framework", "version", "operator", "format", "score", "cause", "findings", "patterns", "at", "pair", "recipes",
    "note", "call",
)  # fmt: skip


def rows(suspects: Iterable[Suspect]) -> Iterator[tuple[Any, ...]]:
    """Cells in the order of ``COLUMNS``."""
    for one in suspects:
        yield (
            one.framework, one.version, one.operator, one.format, f"{one.score:.2f}", one.cause.value,
            " ".join(str(row.id) for row in one.findings), " ".join(sorted({row.pattern for row in one.findings})),
            f"{one.findings[0].file}:{one.findings[0].line}", one.pair, " ".join(row.recipe for row in one.recipes),
            one.note, one.call,
        )  # fmt: skip


def as_json(one: Suspect) -> dict[str, Any]:
    """The object that ``opscanner testlist --format json`` prints."""
    return {
        "framework": one.framework,
        "version": one.version,
        "operator": one.operator,
        "device": one.device,
        "format": one.format,
        "score": round(one.score, 4),
        "cause": one.cause.value,
        "certain": one.certain,
        "reasons": [
            {
                "finding": row.id, "pattern": row.pattern, "confidence": row.confidence, "file": row.file,
                "line": row.line, "function": row.function, "message": row.message,
            }
            for row in one.findings
        ],
        "findings_in_all": one.findings_in_all,
        "pair": one.pair,
        "call": one.call,
        "counterpart": one.counterpart,
        "note": one.note,
        "recipes": [
            {
                "recipe": row.recipe, "why": row.why, "note": row.note,
                "inputs": [{"name": item.name, "expression": item.expression} for item in row.inputs],
            }
            for row in one.recipes
        ],
    }  # fmt: skip


def render_pytest(suspects: Sequence[Suspect], stream: IO[str]) -> None:
    """Writes a file of tests, one for each suspect and recipe, which needs the frameworks, numpy and pytest alone.

    The functions that the calls use are copied from the frameworks' runners, so that both mean the same.
    """
    cases = [case for one in suspects if one.call for case in _cases(one)]
    stream.write(_HEAD)
    stream.write("CASES = [\n")
    for case in cases:
        stream.write("    {\n")
        for key, value in case.items():
            stream.write(f"        {key!r}: {value!r},\n")
        stream.write("    },\n")
    stream.write("]\n")
    for world, imports, folder in (
        (
            "torch",
            'torch = pytest.importorskip("torch")\nfrom torch.profiler import record_function\n',
            "pytorch",
        ),
        (
            "tensorflow",
            'os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")\n'
            'os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")\ntf = pytest.importorskip("tensorflow")\n',
            "tensorflow",
        ),
    ):
        body = imports + "\n" + _runner_functions(folder) + "\nreturn evaluate\n"
        stream.write(f"\n\n@functools.cache\ndef {world}_evaluate():\n{textwrap.indent(body, '    ')}")
    stream.write(_TAIL)


def _cases(one: Suspect) -> Iterator[dict[str, Any]]:
    scanned = f"{one.framework} {one.version}"
    reasons = [f"{scanned}: {row.pattern} at {row.file}:{row.line} (finding {row.id})" for row in one.findings]
    other = "tensorflow" if one.framework == "pytorch" else "pytorch"
    suspected = f"{one.framework}-{one.operator}"
    sides = ((one.framework, suspected, one.call), (other, f"{other}-counterpart-of-{suspected}", one.counterpart))
    for recipe, (framework, name, call) in product(one.recipes, sides):
        yield {
            "id": f"{name}-{one.format}-{recipe.recipe}",
            "framework": framework,
            "format": one.format,
            "call": call,
            "inputs": [(item.name, item.expression) for item in recipe.inputs],
            "why": recipe.why,
            "reasons": reasons,
        }


def _runner_functions(folder: str) -> str:
    """Source text of ``evaluate`` and of what it uses of a runner: functions, constants. It is read, not imported."""
    spec = importlib.util.find_spec(f"opscanner.frameworks.{folder}.runner")
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    stated = {name: node for node in ast.parse(text).body for name in _names_of(node)}
    wanted: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(_EVALUATE)]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Name) and node.id in stated and node.id not in wanted:
                wanted.add(node.id)
                waiting.append(stated[node.id])
    # unparse drops comments for linters, which mean nothing elsewhere.
    copied = [ast.unparse(node) for name, node in stated.items() if name in wanted]
    return "\n\n".join([*copied, _EVALUATE])


def _names_of(node: ast.stmt) -> list[str]:
    """The name of a function, or of a constant, that a module states."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    return [one.id for one in node.targets if isinstance(one, ast.Name)] if isinstance(node, ast.Assign) else []


#: A runner's own ``evaluate`` takes devices and layouts too; a generated test has no need of them.
_EVALUATE = """def evaluate(expression, inputs, format_name):
    names = _namespace(format_name)
    names.update({name: _tensor(value, format_name) for name, value in inputs.items()})
    return [_array(tensor) for tensor in _flat(eval(expression, names))]
"""


_HEAD = '''"""Precision tests of operators that a scan suspects: written by ``opscanner testlist --format pytest``.

Needs pytest, numpy, and torch or tensorflow; tests of a framework that is not there are skipped. Each calls an operator
in a 16-bit format, and in float64 on the same inputs, which are values of the 16-bit format. The float64 result,
rounded once to the format, is what an operator gives that computes wider and rounds at the store. A counterpart is the
other framework's operator on the same inputs: what it passes, the suspect could pass.

    pytest FILE
"""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest

#: A computation in float32 that is rounded once to 16 bit is at most this far from the correctly rounded value: its own
#: error is below 2**-20, which moves a value across the middle between two neighbours, never further.
BOUND_ULP = 1
#: Bits of the significand, exponent of the smallest normal number, largest value.
FORMATS = {"float16": (11, -14, 65504.0), "bfloat16": (8, -126, 2.0**127 * (2 - 2.0**-7))}

'''

_TAIL = '''

EVALUATE = {"pytorch": torch_evaluate, "tensorflow": tensorflow_evaluate}


def rounded(values, name):
    """Values rounded once, to nearest even, to a 16-bit format; held in float64."""
    precision, smallest, largest = FORMATS[name]
    values = np.asarray(values, np.float64)
    _, exponent = np.frexp(values)
    step = np.ldexp(1.0, np.maximum(exponent - precision, smallest - precision + 1))
    with np.errstate(invalid="ignore"):
        result = np.where(np.isfinite(values), np.rint(values / step) * step, values)
    return np.where(np.abs(result) > largest, np.copysign(np.inf, result), result)


def ordinal(values, name):
    """Number of representable values between 0 and each value, negative below 0."""
    precision, smallest, largest = FORMATS[name]
    values = np.asarray(values, np.float64)
    # One step above the largest.
    values = np.where(np.isinf(values), np.copysign(2.0 ** np.ceil(np.log2(largest)), values), values)
    _, exponent = np.frexp(values)
    above = np.where(values == 0, 0, np.maximum(exponent - 1 - smallest, 0))
    scaled = np.ldexp(np.abs(values), -(smallest + above) + precision - 1)
    return np.copysign(above * 2.0 ** (precision - 1) + scaled, values)


def distance_ulp(got, expected, name):
    """Largest distance in representable values; infinite where one is NaN and the other is not, or shapes differ.

    Where the expected value is subnormal nothing is compared: some kernels flush subnormals, a fault of its own.
    """
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    if got.shape != expected.shape or np.any(np.isnan(got) != np.isnan(expected)):
        return float("inf")
    kept = ~np.isnan(expected) & ((expected == 0) | (np.abs(expected) >= 2.0 ** FORMATS[name][1]))
    if not np.any(kept):
        return 0.0
    return float(np.max(np.abs(ordinal(got[kept], name) - ordinal(expected[kept], name))))


def inputs_of(case):
    """The case's inputs; floats are values of its format."""
    made = {}
    for name, expression in case["inputs"]:
        value = np.asarray(eval(expression, {"np": np, **made}))
        made[name] = rounded(value, case["format"]) if value.dtype.kind == "f" else value
    return made


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_result_is_as_if_computed_wider_and_rounded_once(case):
    evaluate, inputs = EVALUATE[case["framework"]](), inputs_of(case)
    try:
        got = evaluate(case["call"], inputs, case["format"])
    except Exception as error:
        pytest.skip(f"{case['format']} is not supported here: {type(error).__name__}: {str(error)[:200]}")
    try:
        wide = evaluate(case["call"], inputs, "float64")
    except Exception as error:
        pytest.skip(f"float64 is not supported here: {type(error).__name__}: {str(error)[:200]}")
    assert len(got) == len(wide)
    for one, reference in zip(got, wide):
        if np.asarray(reference).dtype.kind != "f":
            continue
        expected = rounded(reference, case["format"])
        ulp = distance_ulp(one, expected, case["format"])
        if ulp <= BOUND_ULP:
            continue
        worst = np.argmax(np.abs(ordinal(one, case["format"]) - ordinal(expected, case["format"])))
        values = f"got {np.ravel(one)[worst]!r}, expected {np.ravel(expected)[worst]!r} at element {worst}"
        pytest.fail(f"{ulp:g} ULP: {values}\\n{case['why']}\\n" + "\\n".join(case["reasons"]), pytrace=False)
'''
