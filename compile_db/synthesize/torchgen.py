"""torchgen of the installed torch, run on a checkout's declarations."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compile_db.errors import CompileDatabaseError

DRIVER = Path(__file__).resolve().parent / "torchgen_driver.py"
HINT = (
    "pip install torch (the CPU wheel will do; of the checkout's own version at best: a newer torchgen may refuse"
    " what an older checkout declares), or build the checkout and give its compile_commands.json"
)
TIMEOUT_S = 600


def site_packages_of_torchgen(extra_site_packages: tuple[str, ...] = ()) -> Path | None:
    """The folder that holds the installed ``torchgen``; torch itself is not imported."""
    for place in extra_site_packages:
        if Path(place, "torchgen", "gen.py").is_file():
            return Path(place)
    spec = importlib.util.find_spec("torchgen")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]).parent if places else None


def generate_headers(aten: Path, output: Path, extra_site_packages: tuple[str, ...] = ()) -> str:
    """Writes ``ATen/*.h``, ``ATen/core`` and ``ATen/ops`` for ``aten`` (``aten/src/ATen``) below ``output``.

    Returns what torchgen said. Takes about ten seconds of CPU.

    Raises
    ------
    CompileDatabaseError
        There is no torchgen, or it refuses the checkout.
    """
    place = site_packages_of_torchgen(extra_site_packages)
    if place is None:
        raise CompileDatabaseError("no torchgen is installed, which makes ATen's headers", where=str(aten), hint=HINT)
    arguments = [sys.executable, "-I", "-B", str(DRIVER), str(place), str(aten), str(output)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    try:
        done = subprocess.run(
            arguments, cwd=output, env=environment, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise CompileDatabaseError(f"torchgen ran for {TIMEOUT_S} s", where=str(aten), hint=HINT) from error
    if done.returncode != 0:
        last = "\n    ".join(done.stderr.strip().splitlines()[-4:]) or f"exit status {done.returncode}"
        raise CompileDatabaseError(
            f"torchgen of {place} refuses this checkout:\n    {last}", where=str(aten), hint=HINT
        )
    _speak_as_the_checkout(aten.parents[2], output)
    return done.stdout


@dataclass(frozen=True)
class FormerName:
    """A C++ name that newer torchgen writes and an older checkout lacks."""

    header: str  # of the checkout, which tells
    absent: str  # pattern: a header that lacks it ...
    present: str  # ... and holds this needs ...
    newer: str  # ... this pattern, in generated headers,
    former: str  # replaced by this


FORMER_NAMES = (
    # Up to 2.2 c10::optional was a class of its own.
    FormerName("c10/util/Optional.h", r"using std::optional", r"\bclass optional\b",
               r"(?:::)?\bstd::(optional|nullopt|make_optional)\b", r"c10::\1"),
    # Renamed in 2.0.
    FormerName("c10/core/SymIntArrayRef.h", r"\bfromIntArrayRefSlow\b", r"\bfromIntArrayRef\b",
               r"\bfromIntArrayRefSlow\b", "fromIntArrayRef"),
    # C++14 up to 1.13.
    FormerName("CMakeLists.txt", r"CMAKE_CXX_STANDARD 17", r"CMAKE_CXX_STANDARD 14\b",
               r"\bstd::is_same_v<([^<>]*)>", r"std::is_same<\1>::value"),
)  # fmt: skip


def _speak_as_the_checkout(checkout: Path, output: Path) -> None:
    """Rewrites generated headers where the checkout is older than the names in them."""
    needed = []
    for row in FORMER_NAMES:
        header = checkout / row.header
        text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
        if re.search(row.present, text) and not re.search(row.absent, text):
            needed.append(row)
    for path in output.rglob("*.h") if needed else ():
        before = after = path.read_text(encoding="utf-8")
        for row in needed:
            after = re.sub(row.newer, row.former, after)
        if after != before:
            path.write_text(after, encoding="utf-8")


def fingerprint(aten: Path, extra_site_packages: tuple[str, ...] = ()) -> str:
    """Hex digest of all that the generated headers depend on."""
    digest = hashlib.sha256(DRIVER.read_bytes() + Path(__file__).read_bytes())
    place = site_packages_of_torchgen(extra_site_packages)
    if place is not None:
        for source in sorted(Path(place, "torchgen").rglob("*.py")):
            digest.update(source.read_bytes())
    declared = [aten / "native" / "native_functions.yaml", aten / "native" / "tags.yaml"]
    for path in [*declared, *sorted((aten / "templates").rglob("*"))]:
        if path.is_file():
            digest.update(str(path.relative_to(aten)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def checkout_version(root: Path) -> str:
    """``2.6.0`` from ``version.txt``; ``unknown`` where there is none."""
    path = root / "version.txt"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = re.match(r"\d+(\.\d+)+", text.strip())
    return found[0] if found else "unknown"
