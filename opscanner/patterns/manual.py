"""Manual pages of the rules, made from their files."""

from __future__ import annotations

import re

from opscanner.patterns.catalog import RuleModule, all_rules

_HEADING = re.compile(r"^(?P<heading>[A-Z][\w ]+)\n(?=    \S)", re.MULTILINE)


def page(module: RuleModule) -> str:
    """A rule's manual page as plain text."""
    rule = module.rule
    parts = [f"{rule.id}: {rule.title} (judges {module.judges}; precedence {rule.precedence})", module.manual]
    parts += [f"Reported, in the lines marked `expect`:\n\n{_indented(text)}" for text in module.examples]
    parts += [f"Not reported:\n\n{_indented(text)}" for text in module.counterexamples]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def markdown() -> str:
    """All manual pages as ``docs/patterns.md``."""
    rules = all_rules()
    head = f"""# Patterns of precision tuning

This page is made from the files of `opscanner/patterns/rules`, one rule a file: `opscanner patterns --markdown >
docs/patterns.md`. `opscanner patterns explain ID` prints a rule's part in a terminal. There are {len(rules)} rules.

A rule judges every cast (or operation) of every function instance that is not constant and not in a branch that
constants rule out. What it finds is stored once for each place, with the chain of values that the rule followed and its
confidence: *high* when the flow of values in the graph shows it, *medium* when the flow allows it and names or unseen
functions speak for it, *low* when names alone do or the effect is one rounding at most. Where several rules find
something at one place, the one with the smallest precedence gives the place its category (`is_primary`). In helpers
that only convert (`c10::convert`, `fetch_and_cast`) no rule but format-conversion judges: the calls are places of their
own.

| ID | judges | what is seen |
| --- | --- | --- |
"""
    rows = "".join(f"| [`{one.rule.id}`](#{one.rule.id}) | {one.judges} | {one.rule.title} |\n" for one in rules)
    return head + rows + "".join(_section(one) for one in rules)


def _section(module: RuleModule) -> str:
    text = _HEADING.sub(lambda found: f"**{found['heading']}.**\n", module.manual)
    text = re.sub(r"^    ", "", text, flags=re.MULTILINE).replace("``", "`")
    examples = "".join(f"\n```cuda\n{example}```\n" for example in module.examples)
    counter = "".join(f"\n```cuda\n{example}```\n" for example in module.counterexamples)
    return (
        f"\n## {module.rule.id}\n\n*{module.rule.title}; precedence {module.rule.precedence}*\n\n{text.strip()}\n"
        f"\nReported:\n{examples}\nNot reported:\n{counter}"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.rstrip().splitlines())
