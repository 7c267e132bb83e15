"""Every rule's own examples hold: the file of a rule is its specification."""

from __future__ import annotations

import re

import pytest

from opscanner.patterns.catalog import RuleModule, all_rules
from tests.patterns.conftest import EXPECT, Classify, expected_lines

RULES = all_rules()
EXAMPLES = [pytest.param(one, text, id=f"{one.rule.id}-{i}") for one in RULES for i, text in enumerate(one.examples)]
COUNTEREXAMPLES = [
    pytest.param(one, text, id=f"{one.rule.id}-{i}") for one in RULES for i, text in enumerate(one.counterexamples)
]


@pytest.mark.parametrize(("one", "text"), EXAMPLES)
def test_an_example_is_reported_at_the_lines_that_say_so_and_at_no_other(
    one: RuleModule, text: str, classified: Classify
) -> None:
    wanted = expected_lines(text, one.rule.id)
    assert wanted, "the example expects nothing"
    found = classified(text)
    lines = found.lines(one.rule.id)
    assert lines == wanted, f"found at {sorted(lines)}, expected at {sorted(wanted)}\n{found.findings}"


@pytest.mark.parametrize(("one", "text"), COUNTEREXAMPLES)
def test_a_counterexample_is_not_reported(one: RuleModule, text: str, classified: Classify) -> None:
    assert not any(EXPECT.search(line) for line in text.splitlines()), "a counterexample expects nothing"
    found = classified(text)
    assert found.lines(one.rule.id) == set(), found.findings


@pytest.mark.parametrize("one", RULES, ids=lambda one: one.rule.id)
def test_a_rule_is_whole(one: RuleModule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", one.rule.id)
    assert len(one.rule.id) <= 64
    assert one.examples
    assert one.counterexamples
    for heading in ("Why it matters", "How it decides", "What it cannot see", "Source"):
        assert re.search(rf"^{heading}\n    \S", one.manual, re.MULTILINE), f"{one.rule.id}: no {heading!r}"
    for text in one.examples:
        for line in text.splitlines():
            comment = EXPECT.search(line)
            assert comment is None or comment[1] == one.rule.id


def test_ids_and_precedences_are_unique() -> None:
    assert len({one.rule.id for one in RULES}) == len(RULES)
    assert len({(one.judges, one.rule.precedence) for one in RULES}) == len(RULES)
