"""What pyproject.toml, constraints.txt and the folders promise each other."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parent.parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins() -> list[Requirement]:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]


def wanted() -> list[Requirement]:
    extras = project()["optional-dependencies"].values()
    return [Requirement(text) for texts in (project()["dependencies"], *extras) for text in texts]


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_one_pinned_release_that_satisfies_it(python: str) -> None:
    environment = {"python_version": python}
    pinned: dict[str, str] = {}
    for pin in pins():
        if pin.marker is None or pin.marker.evaluate(environment):
            name = canonicalize_name(pin.name)
            assert name not in pinned, f"{name} is pinned twice for Python {python}"
            (specifier,) = pin.specifier
            assert specifier.operator == "=="
            pinned[name] = specifier.version
    for requirement in wanted():
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"


def test_the_core_needs_neither_torch_nor_tensorflow() -> None:
    core = {canonicalize_name(Requirement(text).name) for text in project()["dependencies"]}
    assert core == {"libclang-ng", "networkx", "sqlalchemy", "click", "rich", "pyyaml"}


def test_help_runs_where_neither_torch_nor_tensorflow_nor_libclang_can_be_imported() -> None:
    blocked = "import sys; sys.modules.update(dict.fromkeys(['torch', 'torchgen', 'tensorflow', 'clang']))"
    program = f"{blocked}; sys.argv = ['opscanner', '--help']; from opscanner.cli import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "scan" in done.stdout


def test_every_folder_of_code_is_a_package() -> None:
    """A folder without ``__init__.py`` is left out of the wheel."""
    for top in ("opscanner", "compile_db"):
        for file in (REPOSITORY / top).rglob("*.py"):
            assert (file.parent / "__init__.py").exists(), f"{file.parent.relative_to(REPOSITORY)} has no __init__.py"


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    tops = ("opscanner", "compile_db")
    copy = tmp_path / "copy"
    for top in tops:
        shutil.copytree(REPOSITORY / top, copy / top, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPOSITORY / "data", copy / "data")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ".",
    ]
    subprocess.run(command, cwd=copy, check=True, stdin=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = {str(file.relative_to(copy)) for top in tops for file in (copy / top).rglob("*") if file.is_file()}
    missing = {name for name in files if name not in packed and not name.startswith("build/")}
    assert not missing
    assert any(name.endswith("licenses/LICENSE") for name in packed)
    assert any(name.endswith("data/share/opscanner/data/operator_pairs.csv") for name in packed)
    assert any(name.endswith("data/share/opscanner/data/summary.sqlite.xz") for name in packed)
