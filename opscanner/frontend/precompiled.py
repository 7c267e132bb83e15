"""A precompiled header of what many units include: parsing is most of a scan's time, and most of it is shared.

Only headers that units include unconditionally are taken, in the units' own order. The header's templates are
instantiated when it is made (``-fpch-instantiate-templates``), which halves the time of the units again. A unit that
does not parse as well with the header as without is parsed without.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from opscanner.errors import FrontendError
from opscanner.frontend import libclang
from opscanner.frontend.parse import FOR_SERIALIZATION, INCOMPLETE, KEEP_GOING, contents, parsed, save
from opscanner.ir import Diagnostic

_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w+)[ \t]*([^\n]*)", re.MULTILINE)
_GUARD = re.compile(rb"^[ \t]*#[ \t]*(?:pragma[ \t]+once|ifndef[ \t]+(\w+)\s+#[ \t]*define[ \t]+\1)\b", re.MULTILINE)
_HEADER = re.compile(rb'^(<[^>"]+>|"[^">]+")')
#: A header goes in when at least this share of the units, and at least two of them, include it.
_SHARE = 0.04
_LEAST = 2
USE = ("-fpch-instantiate-templates",)


@dataclass(frozen=True)
class PrecompiledHeader:
    """A header on disk that units of one set of arguments can start from.

    Parameters
    ----------
    path : str
        The ``.pch`` file.
    errors : tuple of Diagnostic
        Errors of the headers in it; clang does not repeat them in the units.
    inclusions : tuple of str
        Files in it.
    """

    path: str
    errors: tuple[Diagnostic, ...]
    inclusions: tuple[str, ...]

    def arguments(self) -> tuple[str, ...]:
        """What a unit's parse gets in addition."""
        return (*USE, "-include-pch", self.path)


def unconditional_includes(text: bytes, folder: str = "") -> list[str]:
    """Headers that a source includes outside of every ``#if``, in order.

    A quoted header that lies beside the source, in ``folder``, is given by its absolute path: every source means
    another file by it.

    >>> unconditional_includes(b"#include <a.h>\\n#ifdef X\\n#include <b.h>\\n#endif\\n")
    ['<a.h>']
    """
    depth, found = 0, []
    for directive, rest in _DIRECTIVE.findall(text):
        if directive in (b"if", b"ifdef", b"ifndef"):
            depth += 1
        elif directive == b"endif":
            depth -= 1
        elif directive == b"include" and depth == 0:
            header = _HEADER.match(rest)
            if header:
                found.append(_resolved(header.group(1).decode("utf-8", "replace"), folder))
    return found


def _resolved(header: str, folder: str) -> str:
    beside = os.path.normpath(os.path.join(folder, header[1:-1]))
    return f'"{beside}"' if header.startswith('"') and os.path.isfile(beside) else header


def common_headers(files: Sequence[str], share: float = _SHARE, least: int = _LEAST) -> list[str]:
    """Headers that enough of the files include, in the average order of their includes."""
    counts: Counter[str] = Counter()
    positions: dict[str, list[int]] = {}
    for file in files:
        for position, header in enumerate(dict.fromkeys(unconditional_includes(contents(file), os.path.dirname(file)))):
            counts[header] += 1
            positions.setdefault(header, []).append(position)
    wanted = max(least, share * len(files))
    chosen = [header for header, count in counts.items() if count >= wanted]
    return sorted(chosen, key=lambda header: sum(positions[header]) / len(positions[header]))


def _guarded(header: str, arguments: Sequence[str]) -> bool:
    """False for a header without an include guard: with it precompiled, the unit's own include would define it again.

    A header that is on none of the ``-I`` and ``-isystem`` folders is the toolchain's and taken to be guarded.
    """
    folders = [""] if header.startswith('"') else _include_folders(arguments)
    for folder in folders:
        path = os.path.join(folder, header[1:-1])
        if os.path.isfile(path):
            return _GUARD.search(contents(path)) is not None
    return True


def _include_folders(arguments: Sequence[str]) -> list[str]:
    separate = [value for option, value in itertools.pairwise(arguments) if option in ("-I", "-isystem")]
    return separate + [argument[2:] for argument in arguments if argument.startswith("-I") and len(argument) > 2]


def frequent_headers(files: Sequence[str]) -> set[str]:
    """Headers that at least half of the files include."""
    return set(common_headers(files, share=0.5))


def make(files: Sequence[str], arguments: Sequence[str], folder: str) -> PrecompiledHeader | None:
    """The header for units with these arguments, made or taken from ``folder``; None when nothing is shared.

    Raises
    ------
    FrontendError
        clang cannot make it.
    OSError
        The folder cannot be written.
    """
    headers = [header for header in common_headers(files) if _guarded(header, arguments)]
    if not headers:
        return None
    text = "".join(f"#include {header}\n" for header in headers)
    named = "\0".join((libclang.version(), *arguments, text))
    name = hashlib.blake2b(named.encode(), digest_size=12).hexdigest()
    path = Path(folder, "pch", f"{name}.pch")
    found = _kept(path)
    if found is not None:
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    header = _make_without_bad(headers, frequent_headers(files), arguments, path)
    partial = path.with_suffix(".json.partial")
    partial.write_text(json.dumps(asdict(header)))
    partial.replace(path.with_suffix(".json"))
    return header


def _make_without_bad(
    headers: list[str], frequent: set[str], arguments: Sequence[str], path: Path
) -> PrecompiledHeader:
    """Make the header; once more without those that bring errors, which only their own units should see.

    An error in a header that most units include stays: they have it with and without.
    """
    source = path.with_suffix(".h")
    options = KEEP_GOING | INCOMPLETE | FOR_SERIALIZATION
    while True:
        source.write_text("".join(f"#include {header}\n" for header in headers))
        with parsed(str(source), [*arguments, *USE], options) as unit:
            errors = tuple(unit.errors())
            bad = unit.top_includes(error.file for error in errors)
            kept = [h for line, h in enumerate(headers, 1) if line not in bad or h in frequent]
            if len(kept) == len(headers):
                inclusions = tuple(unit.inclusions())
                save(unit, path)
                return PrecompiledHeader(str(path), errors, inclusions)
        headers = kept


def _kept(path: Path) -> PrecompiledHeader | None:
    """A header made earlier whose files have not changed since."""
    description = path.with_suffix(".json")
    try:
        made = path.stat().st_mtime
        raw = json.loads(description.read_text())
        header = PrecompiledHeader(raw["path"], tuple(Diagnostic(**d) for d in raw["errors"]), tuple(raw["inclusions"]))
        if any(Path(file).stat().st_mtime > made for file in header.inclusions if file):
            return None
    except (OSError, ValueError, KeyError, TypeError):  # absent or torn: it is made anew
        return None
    return header


def explain(error: FrontendError | OSError) -> str:
    """Why a scan goes on without a precompiled header, in one line."""
    return f"no precompiled header: {error}".splitlines()[0]
