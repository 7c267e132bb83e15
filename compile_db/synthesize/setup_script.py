"""What a ``setup.py`` says about macros and the language standard: its text is parsed, never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MACRO_ARGUMENT = re.compile(r"^-[DU][A-Za-z_]\w*(=[\w.\"']*)?$")
STANDARD = re.compile(r"^-?-?std[=:](c\+\+\d[\da-z])$")
# Macros that a build on plain Linux with CUDA does not define; conditions in the script are not evaluated.
TAKEN = re.compile(r"cuda|linux|not \w*\.?name == .nt|suffix", re.I)
NOT_HERE = re.compile(
    r"ROCM|HIP|WIN32|_WIN|MSVC|NOMINMAX|DEBUG|DISABLE|EXPORTS|MPS|XPU|NPU|MUSA|OPENMP|_GLIBCXX_USE_CXX11_ABI"
)


def macros_and_standard(script: Path) -> tuple[tuple[str, ...], str | None]:
    """Macro arguments in the order of the text, and the highest ``-std`` named.

    ``define_macros += [("WITH_CUDA", None)]`` gives ``-DWITH_CUDA``; the literal ``"-U__CUDA_NO_HALF_OPERATORS__"``
    gives itself. A script that is no Python gives nothing.
    """
    try:
        tree = ast.parse(script.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return (), None
    macros: dict[str, None] = {}
    standards: list[str] = []
    for node in _reached(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            for macro in _macro_of_pair(node):
                macros.setdefault(macro)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            standard = STANDARD.match(node.value)
            if standard:
                standards.append(standard[1])
            elif MACRO_ARGUMENT.match(node.value) and not NOT_HERE.search(node.value):
                macros.setdefault(node.value)
    return tuple(macros), max(standards, default=None)


def _reached(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes in the order of the text, without branches that a plain Linux build with CUDA would not take.

    Conditions are not evaluated: the branch of one that speaks of CUDA is taken, of one that speaks of another
    platform its else; of any other (``if with_metis:``) only its else.
    """
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If):
            try:
                test = ast.unparse(node.test)
            except RecursionError:
                test = ""
            is_taken = bool(TAKEN.search(test)) and not NOT_HERE.search(test.upper())
            pending.extend(reversed(node.body if is_taken else node.orelse))
        else:
            yield node
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _macro_of_pair(node: ast.Tuple) -> list[str]:
    """``("NAME", None)`` and ``("NAME", "1")`` as ``define_macros`` holds them."""
    name, value = node.elts
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str) and isinstance(value, ast.Constant)):
        return []
    if not re.fullmatch(r"[A-Z_][A-Za-z0-9_]*", name.value) or NOT_HERE.search(name.value):
        return []
    if value.value is None:
        return [f"-D{name.value}"]
    if isinstance(value.value, (str, int)) and re.fullmatch(r"[\w.\"']*", str(value.value)):
        return [f"-D{name.value}={value.value}"]
    return []
