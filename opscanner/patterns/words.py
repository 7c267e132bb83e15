"""The words in names that authors chose: what a variable, a parameter or a function says of its meaning."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@lru_cache(maxsize=65536)
def words_of(name: str) -> frozenset[str]:
    """The words in a name, lower case, and the name itself.

    >>> sorted(words_of("runningMean_acc"))
    ['acc', 'mean', 'running', 'runningmean_acc']
    """
    return frozenset([name.lower(), *(word.lower() for word in _WORD.findall(name))])


def last_parts(function: str) -> list[str]:
    """A qualified name's last two parts that are names: class and method of ``at::native::WelfordOps::combine``."""
    return [part for part in function.split("::") if "(" not in part][-2:]


@lru_cache(maxsize=65536)
def words_of_function(function: str) -> frozenset[str]:
    """The words in the name of a function and of its class or namespace.

    >>> "welford" in words_of_function("at::native::WelfordOps::combine")
    True
    """
    return frozenset().union(*map(words_of, last_parts(function)))
