"""The README's example is run: a fenced block under ``<!-- run -->`` must print what stands there.

``cuda`` blocks are written to the file that their first line names, ``console`` blocks are run line by line (``$ ``)
and compared, ``python`` blocks are run and compared with the ``text`` block that follows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from multiprocessing import spawn
from pathlib import Path

import pytest

README = Path(__file__).resolve().parent.parent.parent / "README.md"
BLOCK = re.compile(
    r"^<!-- run -->\n+```(?P<language>\w+)\n(?P<text>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


def blocks() -> list[tuple[str, str, str]]:
    found = BLOCK.finditer(README.read_text(encoding="utf-8"))
    return [(block["language"], block["text"], block["output"] or "") for block in found]


def printed_by(command: list[str], folder: Path) -> str:
    """Standard output without trailing blanks; a terminal of 120 columns, no colour."""
    scripts = str(Path(sys.executable).parent)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OPSCANNER_")},
        "PATH": scripts + os.pathsep + os.environ["PATH"],
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "OPSCANNER_CACHE": str(folder / "cache"),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stderr}"
    return trimmed(done.stdout)


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@pytest.mark.slow
def test_the_readme_example_prints_what_it_says(tmp_path: Path) -> None:
    ran = set()
    for language, text, output in blocks():
        ran.add(language)
        if language == "cuda":
            name = re.match(r"// (\S+\.cu)\b", text)
            assert name, "a cuda block starts with // NAME.cu"
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
        elif language == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                assert printed_by(["bash", "-c", command], tmp_path) == trimmed(expected), f"$ {command}"
        else:
            assert language == "python"
            (tmp_path / "example.py").write_text(text, encoding="utf-8")
            assert printed_by([sys.executable, "example.py"], tmp_path) == trimmed(output)
    assert ran == {"cuda", "console", "python"}, "the README lacks a block to run"


def test_the_demo_shows_the_kernel_of_the_readme() -> None:
    (kernel,) = (text for language, text, _ in blocks() if language == "cuda")
    assert (README.parent / "demo" / "scale.cu").read_text(encoding="utf-8") == kernel


def test_troubleshooting_is_headed_by_messages_that_exist() -> None:
    """Each word between the dots of a heading stands in some message of ours or of Python's own."""
    text = README.read_text(encoding="utf-8").split("## Troubleshooting")[1].split("\n## ")[0]
    headings = re.findall(r"^\*\*`(.+?)`\*\*", text, re.MULTILINE)
    assert headings
    root = README.parent
    files = [file for top in ("opscanner", "compile_db") for file in (root / top).rglob("*.py")]
    files += [root / "tests" / "conftest.py", Path(spawn.__file__)]
    said = re.sub(r"\s+", " ", " ".join(file.read_text(encoding="utf-8") for file in files))
    for heading in headings:
        for part in filter(None, (part.strip() for part in heading.split("..."))):
            assert part in said, f"no message says {part!r}"
