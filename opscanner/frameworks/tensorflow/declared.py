"""TensorFlow's own lists: ``REGISTER_OP`` (operators) and ``RegisterGradient`` (who is whose gradient)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from opscanner.frameworks.declarations import DeclaredOperator, Direction

OPERATORS_FOLDER = "tensorflow/core/ops"
GRADIENTS_FOLDER = "tensorflow/python/ops"
_REGISTER_OP = re.compile(r'^[ \t]*REGISTER_OP\(\s*"(\w+)"\s*\)', re.MULTILINE)
_GRADIENT = re.compile(r'@ops\.RegisterGradient\(\s*"(\w+)"\s*\)')
_CALLED = re.compile(r"\bgen_\w+\.(\w+)\s*\(")
#: FusedBatchNormGradV3, ResizeBilinearGrad, Conv2DBackpropFilter, MaxPoolGradGradV2; Gradient... of nobody.
_BACKWARD = re.compile(r"(?<=[a-z0-9DX])(Grad|Backprop)(?=$|V\d|Grad|With|Input|Filter|Args|Ex$)|(?<=\w)Backprop")


class Declared(NamedTuple):
    """An operator where it is declared."""

    name: str
    file: str
    line: int


def registered_operators(root: Path) -> Iterator[Declared]:
    """What ``REGISTER_OP`` declares, in the order of the files."""
    for path in sorted((root / OPERATORS_FOLDER).glob("*.cc")):
        if path.name.endswith("_test.cc"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for match in _REGISTER_OP.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            yield Declared(match[1], str(path.relative_to(root)), line)


def plain(name: str) -> str:
    """A name without case and underscores: ``selu_grad`` and ``SeluGrad`` are one.

    >>> plain("SeluGrad") == plain("selu_grad")
    True
    """
    return name.replace("_", "").lower()


def gradients(root: Path) -> dict[str, str]:
    """By plain name of an operator that a registered gradient calls, the operator whose gradient that is."""
    found: dict[str, str] = {}
    for path in sorted((root / GRADIENTS_FOLDER).glob("*_grad.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        marks = list(_GRADIENT.finditer(text))
        for index, mark in enumerate(marks):
            end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
            for called in _CALLED.findall(text[mark.end() : end]):
                if not is_backward(mark[1]):
                    found.setdefault(plain(called), mark[1])
    return found


def is_backward(name: str) -> bool:
    """True for the name of a gradient's operator.

    >>> [is_backward(name) for name in ("SeluGrad", "FusedBatchNormGradV3", "Conv2DBackpropInput", "PreventGradient")]
    [True, True, True, False]
    """
    return _BACKWARD.search(name) is not None


def operator(one: Declared, known: set[str], called: dict[str, str]) -> DeclaredOperator:
    """An operator with its direction, and for a gradient the operator that it belongs to."""
    forward, direction = one.name, "forward"
    if match := _BACKWARD.search(one.name):
        direction = "backward"
        base = one.name[: match.start()]
        version = re.search(r"V\d+$", one.name)
        candidates = (base + version[0] if version else base, base, f"{base}V2")
        forward = next((name for name in candidates if name in known), called.get(plain(one.name), one.name))
    made: Direction = "backward" if direction == "backward" else "forward"
    return DeclaredOperator(one.name, forward, made, one.file, one.line)
