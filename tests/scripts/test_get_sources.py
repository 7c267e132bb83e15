"""scripts/get_sources.sh where nothing can be fetched: what it says, and what it leaves behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "get_sources.sh"


def run(*arguments: object, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run(
        ["/bin/bash", SCRIPT, *map(str, arguments)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def tools_without_apt(folder: Path) -> str:
    folder.mkdir()
    for name in ("dirname", "mkdir", "touch", "sed"):
        (folder / name).symlink_to(next(p for p in (Path("/usr/bin", name), Path("/bin", name)) if p.exists()))
    return str(folder)


def test_without_arguments_it_says_how_it_is_used() -> None:
    done = run()
    assert done.returncode == 2
    assert "scripts/get_sources.sh DEST NAME..." in done.stderr


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path / "sources", "pytorch-0.1")
    assert done.returncode == 1
    assert "unknown source: pytorch-0.1" in done.stderr


def test_sources_that_are_there_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".pytorch-2.6.0").touch()
    done = run(tmp_path, "pytorch-2.6.0", path=tools_without_apt(tmp_path / "bin"))
    assert (done.returncode, done.stderr) == (0, "")


def test_without_apt_it_says_what_to_do_by_hand(tmp_path: Path) -> None:
    destination = tmp_path / "sources"
    done = run(destination, "pytorch-2.6.0", path=tools_without_apt(tmp_path / "bin"))
    assert done.returncode == 1
    assert "this machine has no apt" in done.stderr
    assert f"git clone --depth 1 --branch v2.6.0 https://github.com/pytorch/pytorch '{destination}/pytorch-v2.6.0'" in (
        done.stderr
    )
    assert not (destination / ".pytorch-2.6.0").exists()
