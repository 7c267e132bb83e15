"""The documentation says what is there, and what it says is true."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

command_line = importlib.import_module("opscanner.cli.main")

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "data" / "README.md"])
COMMANDS_PAGE = REPOSITORY / "docs" / "commands.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*$", re.MULTILINE)


def commands(command: click.Command = command_line.cli, name: str = "opscanner") -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            child = command.get_command(context, word)
            assert child is not None
            yield from commands(child, f"{name} {word}")


def section(page: str, heading: str) -> str:
    """Text under ``## heading`` up to the next heading of that level."""
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, f"docs/commands.md has no section '## {heading}'"
    return found[1]


@pytest.mark.parametrize(("name", "command"), [pair for pair in commands() if pair[0] != "opscanner"])
def test_every_command_has_a_section_that_names_each_option(name: str, command: click.Command) -> None:
    text = section(COMMANDS_PAGE.read_text(encoding="utf-8"), f"`{name}`")
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            longest = max(parameter.opts, key=len)
            assert f"`{longest}" in text, f"docs/commands.md, {name}: {longest} is not documented"
        elif isinstance(parameter, click.Argument):
            word = parameter.make_metavar(click.Context(command)).strip("[].")
            assert word in text, f"docs/commands.md, {name}: {word} is not documented"


def test_no_section_describes_a_command_that_is_gone() -> None:
    headings = re.findall(r"^## `(opscanner[^`]*)`$", COMMANDS_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(headings) <= {name for name, _ in commands()}


def test_every_exit_code_is_in_the_table() -> None:
    codes = {value for name, value in vars(command_line).items() if name.startswith("EXIT_")}
    table = COMMANDS_PAGE.read_text(encoding="utf-8").split("\n\n")[2]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == codes


def test_every_environment_variable_of_ours_is_documented() -> None:
    page = COMMANDS_PAGE.read_text(encoding="utf-8")
    for top in ("opscanner", "compile_db"):
        for file in (REPOSITORY / top).rglob("*.py"):
            for name in re.findall(r"\bOPSCANNER_[A-Z_]+\b", file.read_text(encoding="utf-8")):
                assert f"`{name}`" in page, f"{name} in {file.name} is not documented"


def test_the_schema_page_is_what_the_command_prints() -> None:
    program = "import sys; from opscanner.cli import main; sys.exit(main(['schema', '--markdown']))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    page = (REPOSITORY / "docs" / "schema.md").read_text(encoding="utf-8")
    assert page == done.stdout, "accept with: opscanner schema --markdown > docs/schema.md"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_link_between_documents_leads_somewhere(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (document.parent / target).resolve()
        assert path.exists(), f"{document.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(path), f"{document.name} links to {target}#{anchor}: no such heading"


def anchors(path: Path) -> set[str]:
    """Headings of a page as a browser's fragment names them."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {target for target, _ in LINK.findall(index)}
    for page in (REPOSITORY / "docs").glob("*.md"):
        assert page.name == "index.md" or page.name in linked, f"docs/index.md does not link to {page.name}"


def test_every_make_target_is_documented() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets
    written = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    written += (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for target in set(targets[1].split()) - {"help", "clean"}:
        assert f"make {target}" in written, f"make {target} stands in no document"
