"""The rules that there are: every module of ``rules``, with its manual page and its examples."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import pkgutil
import textwrap
from dataclasses import dataclass

from opscanner.errors import UsageError
from opscanner.patterns import rules
from opscanner.patterns.base import AnyRule, CastRule, OperationRule


@dataclass(frozen=True)
class RuleModule:
    """A rule with what its file says of it.

    Parameters
    ----------
    rule : CastRule or OperationRule
    manual : str
        The file's docstring.
    examples, counterexamples : tuple of str
        CUDA or C++ text; in examples, lines that the rule must report end in ``// expect: ID``.
    """

    rule: AnyRule
    manual: str
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...]

    @property
    def judges(self) -> str:
        """What the rule judges: casts or operations."""
        return "casts" if isinstance(self.rule, CastRule) else "operations"


@functools.cache
def all_rules() -> tuple[RuleModule, ...]:
    """Every rule: those of casts first, in the order of their precedence."""
    found = []
    for place in sorted(pkgutil.iter_modules(rules.__path__), key=lambda place: place.name):
        module = importlib.import_module(f"{rules.__name__}.{place.name}")
        rule = module.RULE
        assert isinstance(rule, (CastRule, OperationRule)), f"{place.name}.RULE is no rule"
        found.append(
            RuleModule(
                rule, inspect.cleandoc(module.__doc__ or ""), _texts(module.EXAMPLES), _texts(module.COUNTEREXAMPLES)
            )
        )
    return tuple(sorted(found, key=lambda one: (isinstance(one.rule, OperationRule), one.rule.precedence, one.rule.id)))


def _texts(examples: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(textwrap.dedent(text).strip("\n") + "\n" for text in examples)


def find_rule(name: str) -> RuleModule:
    """The rule of an ID.

    Raises
    ------
    UsageError
        When there is none.
    """
    known = {one.rule.id: one for one in all_rules()}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or sorted(known)
        raise UsageError(f"there is no pattern {name!r}", f"opscanner patterns lists them; near: {', '.join(near)}")
    return known[name]
