"""A precompiled header of what many units include: parsing is most of a scan's time, and most of it is shared.

Only headers that units include unconditionally are taken, in the units' own order. The header's templates are
instantiated when it is made (``-fpch-instantiate-templates``), which halves the time of the units again. A unit that
does not parse as well with the header as without is parsed without, and so is one that sets a macro, before its
includes, that a header in it asks for.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from opscanner.errors import FrontendError
from opscanner.frontend import libclang
from opscanner.frontend.directives import (
    Macros,
    command_macros,
    macros_set,
    mentions,
    only_includes,
    unconditional_includes,
)
from opscanner.frontend.parse import FOR_SERIALIZATION, INCOMPLETE, KEEP_GOING, contents, parsed, save
from opscanner.ir import Diagnostic

_GUARD = re.compile(rb"^[ \t]*#[ \t]*(?:pragma[ \t]+once|ifndef[ \t]+(\w+)\s+#[ \t]*define[ \t]+\1)\b", re.MULTILINE)
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
    sensitive : tuple of str
        Macros that some unit sets before its includes and that a file in it asks for.
    """

    path: str
    errors: tuple[Diagnostic, ...]
    inclusions: tuple[str, ...]
    sensitive: tuple[str, ...] = ()

    def arguments(self) -> tuple[str, ...]:
        """What a unit's parse gets in addition."""
        return (*USE, "-include-pch", self.path)

    def serves(self, file: str, arguments: Sequence[str]) -> bool:
        """Whether the headers mean to this source what they meant when they were precompiled."""
        if not self.sensitive:
            return True
        own = macros_set(contents(file), command_macros(arguments))
        return own.isdisjoint(name.encode() for name in self.sensitive)


def common_headers(
    files: Sequence[str], share: float = _SHARE, least: int = _LEAST, macros: Macros | None = None
) -> list[str]:
    """Headers that enough of the files include, in the average order of their includes."""
    counts: Counter[str] = Counter()
    positions: dict[str, list[int]] = {}
    for file in files:
        included = unconditional_includes(contents(file), os.path.dirname(file), macros or {})
        for position, header in enumerate(dict.fromkeys(included)):
            counts[header] += 1
            positions.setdefault(header, []).append(position)
    wanted = max(least, share * len(files))
    chosen = [header for header, count in counts.items() if count >= wanted]
    return sorted(chosen, key=lambda header: sum(positions[header]) / len(positions[header]))


def _guarded(header: str, arguments: Sequence[str]) -> bool:
    """False for a header without an include guard: with it precompiled, the unit's own include would define it again.

    A header that is on none of the ``-I`` and ``-isystem`` folders is the toolchain's and taken to be guarded.
    """
    path = _path_of(header, arguments)
    return path is None or _GUARD.search(contents(path)) is not None or only_includes(contents(path))


def _path_of(header: str, arguments: Sequence[str]) -> str | None:
    """The file that is meant, when it is on one of the ``-I`` and ``-isystem`` folders."""
    folders = _include_folders(arguments)
    if header.startswith('"'):
        folders.insert(0, "")
    paths = (os.path.join(folder, header[1:-1]) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _asks_for(header: str, names: set[bytes], arguments: Sequence[str]) -> bool:
    """Whether a header itself asks for one of these macros: then most of its units set it to have it their way."""
    path = _path_of(header, arguments) if names else None
    return path is not None and mentions(contents(path), names)


def _include_folders(arguments: Sequence[str]) -> list[str]:
    separate = [value for option, value in itertools.pairwise(arguments) if option in ("-I", "-isystem")]
    return separate + [argument[2:] for argument in arguments if argument.startswith("-I") and len(argument) > 2]


def frequent_headers(files: Sequence[str], macros: Macros | None = None) -> set[str]:
    """Headers that at least half of the files include."""
    return set(common_headers(files, share=0.5, macros=macros))


def make(files: Sequence[str], arguments: Sequence[str], folder: str) -> PrecompiledHeader | None:
    """The header for units with these arguments, made or taken from ``folder``; None when nothing is shared.

    Raises
    ------
    FrontendError
        clang cannot make it.
    OSError
        The folder cannot be written.
    """
    macros = command_macros(arguments)
    own = set[bytes]().union(*(macros_set(contents(file), macros) for file in files))
    headers = [
        header
        for header in common_headers(files, macros=macros)
        if _guarded(header, arguments) and not _asks_for(header, own, arguments)
    ]
    if not headers:
        return None
    text = "".join(f"#include {header}\n" for header in headers)
    names = sorted(name.decode("utf-8", "replace") for name in own)
    named = "\0".join((libclang.version(), *arguments, text, *names))
    name = hashlib.blake2b(named.encode(), digest_size=12).hexdigest()
    path = Path(folder, "pch", f"{name}.pch")
    found = _kept(path)
    if found is not None:
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    header = _make_without_bad(headers, frequent_headers(files, macros), arguments, path)
    asked = [name for name in names if any(mentions(contents(file), {name.encode()}) for file in header.inclusions)]
    header = replace(header, sensitive=tuple(asked))
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
        errors = tuple(Diagnostic(**diagnostic) for diagnostic in raw["errors"])
        header = PrecompiledHeader(raw["path"], errors, tuple(raw["inclusions"]), tuple(raw["sensitive"]))
        if any(Path(file).stat().st_mtime > made for file in header.inclusions if file):
            return None
    except (OSError, ValueError, KeyError, TypeError):  # absent or torn: it is made anew
        return None
    return header


def explain(error: FrontendError | OSError) -> str:
    """Why a scan goes on without a precompiled header, in one line."""
    return f"no precompiled header: {error}".splitlines()[0]
