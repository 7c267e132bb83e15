"""Headers that a build of TensorFlow generates or fetches, taken from the wheel of the same version.

A checkout lacks Eigen, Abseil, protobuf and every ``.pb.h``; the wheel ``tensorflow-cpu`` of the checkout's version
ships them under ``tensorflow/include``. Looked for in this order: an installed tensorflow of that version (found, not
imported), the cache, a wheel that ``OPSCANNER_TENSORFLOW_WHEEL`` names (a file, or a folder that holds some), and last
``pip download``. Only the headers of a wheel are unpacked: it is neither installed nor run.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from compile_db.errors import CompileDatabaseError
from compile_db.synthesize.cache import generated

Log = Callable[[str], None]
DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-rocm", "tf-nightly")
WHEEL_VARIABLE = "OPSCANNER_TENSORFLOW_WHEEL"
INSIDE = PurePosixPath("tensorflow/include")
# A header that every TensorFlow wheel since 2.0 has, and a generated one.
PROOFS = ("tensorflow/core/framework/op_kernel.h", "tensorflow/core/framework/types.pb.h")
NOT_HEADERS = (".so", ".a", ".dylib", ".pyd", ".dll", ".lib", ".py", ".pyc")
LARGEST_FILE_BYTES, LARGEST_TREE_BYTES, MOST_FILES = 32 << 20, 2 << 30, 200_000
TIMEOUT_S = 1800
# The wheel is unzipped, not run: when there is none for this interpreter, one for another serves as well.
OTHER_INTERPRETERS = ("3.11", "3.12", "3.10", "3.13", "3.9")
OTHER_PLATFORMS = tuple(f"manylinux{glibc}_x86_64" for glibc in ("2014", "_2_17", "_2_27", "_2_28", "2010"))


@dataclass(frozen=True)
class Headers:
    """A wheel's include folder, and where it comes from."""

    include: Path
    version: str
    origin: str


def checkout_version(checkout: Path) -> str:
    """``2.14.1`` or ``2.15.0rc1`` from the checkout's version header; empty when it says none."""
    for name in ("tensorflow/core/public/version.h", "tensorflow/core/public/release_version.h"):
        path = checkout / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        numbers = re.findall(r"#define\s+TF_(?:MAJOR|MINOR|PATCH)_VERSION\s+(\d+)", text)
        suffix = re.search(r'#define\s+TF_VERSION_SUFFIX\s+"([^"]*)"', text)
        if len(numbers) == 3:
            return ".".join(numbers) + (suffix[1].lstrip("-").replace(".", "") if suffix else "")
    return ""


def find_headers(version: str, cache_dir: str | os.PathLike[str], log: Log = lambda message: None) -> Headers:
    """The headers of TensorFlow ``version``; of another patch release of it, with a warning, where there are none.

    Raises
    ------
    CompileDatabaseError
        They are nowhere and cannot be fetched, or the cache cannot be written.
    """
    found = headers_at_hand(version, cache_dir)
    if found is not None:
        return found
    given = [path for path in wheels_given() if version_of_wheel(path) == version]
    if given:
        return _unpacked(given[0], version, cache_dir, log)
    minor = ".".join(version.split(".")[:2])
    refusals: list[str] = []
    for wanted in (version, f"{minor}.*"):
        if wanted != version:
            log(f"no wheel of TensorFlow {version} was found: looking for another release of {minor}")
            near = [path for path in wheels_given() if version_of_wheel(path).startswith(f"{minor}.")]
            if near:
                return _warned(_unpacked(near[-1], version_of_wheel(near[-1]), cache_dir, log), version, log)
        with tempfile.TemporaryDirectory(prefix="opscanner-wheel-") as folder:
            wheel = _download(wanted, Path(folder), log, refusals)
            if wheel is not None:
                return _warned(_unpacked(wheel, version_of_wheel(wheel), cache_dir, log), version, log)
    raise CompileDatabaseError(
        f"the headers of TensorFlow {version} are not there, and pip could not fetch tensorflow-cpu=={version}:\n    "
        + (refusals[0] if refusals else "no wheel"),
        hint=f"fetch the wheel elsewhere (`pip download --no-deps --only-binary :all: tensorflow-cpu=={version}`), and"
        f" name the file in {WHEEL_VARIABLE}",
    )


def headers_at_hand(version: str, cache_dir: str | os.PathLike[str]) -> Headers | None:
    """Headers of this version that need no fetching: installed, or unpacked into the cache earlier."""
    installed = installed_tensorflow()
    if installed is not None and installed.version.split("+")[0] == version:
        return installed
    kept = Path(os.path.abspath(cache_dir), cache_name(version))
    return Headers(kept / "include", version, "the cache") if kept.is_dir() else None


def cache_name(version: str) -> str:
    """The folder of the cache that holds this version's headers."""
    return f"tensorflow-headers-{version}"


def installed_tensorflow() -> Headers | None:
    """The installed tensorflow, when it has headers; it is not imported."""
    spec = importlib.util.find_spec("tensorflow")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        include = Path(place, "include")
        if all((include / proof).is_file() for proof in PROOFS):
            return Headers(include, _installed_version(Path(place).parent), "the installed tensorflow")
    return None


def _installed_version(site_packages: Path) -> str:
    names = {name.replace("-", "_") for name in DISTRIBUTIONS}
    for distribution in importlib.metadata.distributions(path=[str(site_packages)]):
        if (distribution.metadata["Name"] or "").replace("-", "_") in names:
            return distribution.version
    return ""


def wheels_given() -> list[Path]:
    """Wheels of tensorflow that ``OPSCANNER_TENSORFLOW_WHEEL`` names, by version."""
    place = Path(os.environ.get(WHEEL_VARIABLE, "") or os.devnull)
    files = sorted(place.glob("tensorflow*.whl")) if place.is_dir() else [place] if place.is_file() else []
    return sorted(files, key=lambda path: [int(part) for part in re.findall(r"\d+", version_of_wheel(path))])


def version_of_wheel(path: Path) -> str:
    """``2.14.1`` of ``tensorflow_cpu-2.14.1-cp311-cp311-manylinux_2_17_x86_64.whl``; empty for another name."""
    parts = path.name.split("-")
    return parts[1] if path.suffix == ".whl" and len(parts) >= 5 and parts[0].startswith("tensorflow") else ""


def _warned(headers: Headers, version: str, log: Log) -> Headers:
    if headers.version != version:
        log(
            f"warning: headers of TensorFlow {headers.version} stand in for those of {version}:"
            " units that use what changed between them have errors"
        )
    return headers


def _download(wanted: str, folder: Path, log: Log, refusals: list[str]) -> Path | None:
    """The wheel that pip fetched into ``folder``; why not is added to ``refusals``."""
    requirement = f"tensorflow-cpu=={wanted}"
    log(f"fetching {requirement} with pip, for its headers (about 200 MB, once)")
    base = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--progress-bar=off",
            "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]  # fmt: skip
    platforms = [part for platform in OTHER_PLATFORMS for part in ("--platform", platform)]
    attempts: list[list[str]] = [[]]
    attempts += [
        ["--python-version", python, "--implementation", "cp", "--abi", f"cp{python.replace('.', '')}", *platforms]
        for python in OTHER_INTERPRETERS
    ]
    for more in attempts:
        started = time.monotonic()
        try:
            done = subprocess.run(
                [*base, *more, requirement], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except (subprocess.TimeoutExpired, OSError) as error:
            refusals.append(str(error))
            return None
        wheels = sorted(folder.glob("tensorflow*.whl"))
        if done.returncode == 0 and wheels:
            size = wheels[0].stat().st_size / 1e6
            log(f"{wheels[0].name}: {size:.0f} MB in {time.monotonic() - started:.0f} s")
            return wheels[0]
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        refusals.append(lines[-1].strip() if lines else f"pip ended with {done.returncode}")
        if "No matching distribution" not in done.stderr:  # no network, no room: another interpreter changes nothing
            return None
    return None


def _unpacked(wheel: Path, version: str, cache_dir: str | os.PathLike[str], log: Log) -> Headers:
    def make(folder: Path) -> None:
        files, size = unpack_headers(wheel, folder / "include")
        if not all((folder / "include" / proof).is_file() for proof in PROOFS):
            raise CompileDatabaseError("holds no tensorflow/include", where=str(wheel), hint="give another wheel")
        log(f"{files} headers of TensorFlow {version} unpacked into {cache_dir} ({size / 1e6:.0f} MB)")

    return Headers(generated(cache_dir, cache_name(version), make) / "include", version, wheel.name)


def unpack_headers(wheel: Path, folder: Path) -> tuple[int, int]:
    """Writes ``tensorflow/include`` of a wheel to ``folder``; the number of files, and their bytes.

    What stands in the archive is data of others: an entry whose name leads elsewhere, a link or a file too large to be
    a header is an error, libraries are left out.

    Raises
    ------
    CompileDatabaseError
        The file is no wheel, or holds such an entry.
    """
    files = size = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry, relative in _entries(archive, wheel):
                files, size = files + 1, size + entry.file_size
                if entry.file_size > LARGEST_FILE_BYTES or size > LARGEST_TREE_BYTES or files > MOST_FILES:
                    raise CompileDatabaseError(f"{entry.filename} is too large for a header", where=str(wheel))
                target = folder.joinpath(*relative.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(entry))  # zipfile stops at the size that the entry states
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise CompileDatabaseError(f"is no wheel that can be read: {error}", where=str(wheel)) from error
    return files, size


def _entries(archive: zipfile.ZipFile, wheel: Path) -> Iterator[tuple[zipfile.ZipInfo, PurePosixPath]]:
    for entry in archive.infolist():
        name = PurePosixPath(entry.filename)
        if entry.is_dir() or name.parts[:2] != INSIDE.parts or name.suffix in NOT_HEADERS:
            continue
        is_link = stat.S_ISLNK(entry.external_attr >> 16)
        if is_link or ".." in name.parts or "\\" in entry.filename or "\0" in entry.filename:
            raise CompileDatabaseError(f"entry {entry.filename!r} leads out of its folder", where=str(wheel))
        yield entry, name.relative_to(INSIDE)


def fingerprint(parts: Sequence[str]) -> str:
    """Twelve hex digits over texts that generated files depend on."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def describe_headers(cache_dir: str | os.PathLike[str]) -> list[str]:
    """Versions whose headers are at hand, with where they are: ``2.14.1 in the cache``."""
    installed = installed_tensorflow()
    found = [f"{installed.version} installed"] if installed is not None else []
    kept = sorted(Path(os.path.abspath(cache_dir)).glob(cache_name("*")))
    found += [f"{folder.name.removeprefix(cache_name(''))} in the cache" for folder in kept]
    return [*found, *(f"{version_of_wheel(path)} as {path.name}" for path in wheels_given())]
