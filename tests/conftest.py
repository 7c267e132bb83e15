"""Real sources for the tests, and a loud word when they are not there.

Tests that scan released sources take one of the ``*_root`` fixtures. The folder is ``$OPSCANNER_SOURCES``
(``~/.cache/opscanner-sources`` by default), filled on demand by ``scripts/get_sources.sh``. Where that fails, the test
fails with the command to run; with ``OPSCANNER_WITHOUT_SOURCES=1`` it is skipped, and the end of the run says so.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE_FIXTURES = {
    "pytorch_root": ("pytorch-2.6.0", "pytorch-v2.6.0"),
    "pytorch_1_13_root": ("pytorch-1.13.1", "pytorch-1.13.1"),
    "tensorflow_root": ("tensorflow-2.14.1", "tensorflow-2.14.1"),
    "torch_scatter_root": ("torch-scatter-2.1.2", "torch_scatter-2.1.2"),
}
WITHOUT_SOURCES = "OPSCANNER_WITHOUT_SOURCES"
NOT_THERE = "sources not there: "


def sources_folder() -> Path:
    """Where released sources are kept between runs."""
    return Path(os.environ.get("OPSCANNER_SOURCES") or "~/.cache/opscanner-sources").expanduser()


def fetch(name: str, folder: str) -> Path:
    """The unpacked sources of release ``name``; brings them when they are missing, one process at a time."""
    destination = sources_folder()
    root = destination / folder
    if (destination / f".{name}").exists() and root.is_dir():
        return root
    if os.environ.get(WITHOUT_SOURCES) == "1":
        pytest.skip(NOT_THERE + name)
    destination.mkdir(parents=True, exist_ok=True)
    command = [str(REPOSITORY / "scripts" / "get_sources.sh"), str(destination), name]
    with (destination / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if done.returncode != 0 or not root.is_dir():
        pytest.fail(
            f"{NOT_THERE}{name} is needed and could not be brought.\n{done.stdout.strip()}\n"
            f"  by hand: scripts/get_sources.sh {destination} {name}\n"
            f"  or, to run without: {WITHOUT_SOURCES}=1 make test",
            pytrace=False,
        )
    return root


@pytest.fixture(scope="session")
def pytorch_root() -> Path:
    """PyTorch 2.6.0 as released, nothing built."""
    return fetch(*SOURCE_FIXTURES["pytorch_root"])


@pytest.fixture(scope="session")
def pytorch_1_13_root() -> Path:
    """PyTorch 1.13.1 as released: an older layout of the same sources."""
    return fetch(*SOURCE_FIXTURES["pytorch_1_13_root"])


@pytest.fixture(scope="session")
def tensorflow_root() -> Path:
    """TensorFlow 2.14.1 as released, nothing built."""
    return fetch(*SOURCE_FIXTURES["tensorflow_root"])


@pytest.fixture(scope="session")
def torch_scatter_root() -> Path:
    """torch-scatter 2.1.2, a torch extension with three CUDA units."""
    return fetch(*SOURCE_FIXTURES["torch_scatter_root"])


@pytest.fixture(scope="session")
def tensorflow_cache() -> Path:
    """A cache that holds the headers of TensorFlow 2.14.1's wheel (198 MB, fetched once), beside the sources."""
    from compile_db import CompileDatabaseError
    from compile_db.synthesize.tensorflow_headers import find_headers, headers_at_hand

    cache = sources_folder() / "tensorflow-cache"
    if headers_at_hand("2.14.1", cache) is None and os.environ.get(WITHOUT_SOURCES) == "1":
        pytest.skip(NOT_THERE + "the wheel of tensorflow-cpu 2.14.1")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            find_headers("2.14.1", cache)
        except CompileDatabaseError as error:
            pytest.fail(f"{NOT_THERE}{error}\n  or, to run without: {WITHOUT_SOURCES}=1 make test", pytrace=False)
    return cache


@pytest.fixture(scope="session")
def toolchain() -> Any:
    """Where this machine's CUDA and C++ headers are, as a scan finds them."""
    from compile_db import toolchain

    return toolchain.find()


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """URL of an empty PostgreSQL database that the tests may fill."""
    url = os.environ.get("OPSCANNER_TEST_POSTGRES")
    if not url:
        pytest.skip("OPSCANNER_TEST_POSTGRES is not set: nothing was tried on PostgreSQL")
    return url


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if names & SOURCE_FIXTURES.keys():
            item.add_marker("real_sources")
        if "postgres_url" in names:
            item.add_marker("postgres")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in capitals what was not tried; a quiet skip reads like a pass."""
    silent = [r.nodeid for r in terminalreporter.stats.get("skipped", ()) if NOT_THERE in str(r.longrepr)]
    if silent:
        terminalreporter.section("NOT RUN ON REAL SOURCES", sep="!", red=True, bold=True)
        terminalreporter.line(f"{len(silent)} TESTS WERE SKIPPED BECAUSE {WITHOUT_SOURCES}=1 AND SOURCES ARE MISSING:")
        for nodeid in silent:
            terminalreporter.line(f"  {nodeid}")


@pytest.fixture(scope="session")
def ground_truth() -> ModuleType:
    """``benchmarks/ground_truth.py``, which no package holds: the comparison with what LLVM IR shows."""
    spec = importlib.util.spec_from_file_location("ground_truth", REPOSITORY / "benchmarks" / "ground_truth.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
