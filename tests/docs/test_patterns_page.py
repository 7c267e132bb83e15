"""docs/patterns.md is what the rules' files say."""

from __future__ import annotations

from pathlib import Path

from opscanner.patterns.manual import markdown

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def test_the_patterns_page_is_made_from_the_rules() -> None:
    page = (REPOSITORY / "docs" / "patterns.md").read_text(encoding="utf-8")
    assert page == markdown(), "accept with: opscanner patterns --markdown > docs/patterns.md"
