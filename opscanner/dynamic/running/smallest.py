"""A smallest set that brings an error within a tolerance, found in few tries. Numbers only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SmallestSet:
    """What the search ended with.

    Parameters
    ----------
    items : tuple of str
        In the order of the first ranking given.
    is_minimal : bool
        True when taking away any one of them was tried, and is too much.
    is_proven : bool
        True when all sets of fewer items were tried, and none suffices.
    """

    items: tuple[str, ...]
    is_minimal: bool
    is_proven: bool


class Tries:
    """Errors of sets, each tried once.

    Parameters
    ----------
    error : callable
        The error of a set of items.
    most : int
        Tries after which :attr:`is_spent`.
    """

    def __init__(self, error: Callable[[frozenset[str]], float], most: int) -> None:
        self._error = error
        self._most = most
        self._known: dict[frozenset[str], float] = {}

    def __call__(self, items: Iterable[str]) -> float:
        chosen = frozenset(items)
        if chosen not in self._known:
            self._known[chosen] = self._error(chosen)
        return self._known[chosen]

    @property
    def count(self) -> int:
        """Sets tried."""
        return len(self._known)

    @property
    def left(self) -> int:
        """Tries that remain; negative where more were made than were meant."""
        return self._most - self.count

    @property
    def is_spent(self) -> bool:
        """True when no further set should be tried."""
        return self.left <= 0

    def know(self, items: Iterable[str]) -> bool:
        """True when a set was tried."""
        return frozenset(items) in self._known


def smallest_set(tries: Tries, rankings: Sequence[Sequence[str]], tolerance: float) -> SmallestSet | None:
    """A set of items whose error is at most the tolerance; None when not even that of all items is.

    From each ranking, a shortest beginning that suffices is cut by :func:`minimized`. Where tries remain, all smaller
    sets are tried, a size at a time.

    Parameters
    ----------
    rankings : sequence of sequences
        Orders of the same items, the likeliest first.
    """
    items = rankings[0]
    if tries(()) <= tolerance:
        return SmallestSet((), True, True)
    if not items or not tries(items) <= tolerance:
        return None
    found = []
    for ranking in rankings:
        cut, is_minimal = minimized(tries, _beginning(tries, ranking, tolerance), tolerance)
        found.append((len(cut), tries(cut), not is_minimal, cut))
    size, _, not_minimal, best = min(found, key=lambda one: one[:3])
    smaller, is_proven = _smaller(tries, items, size, tolerance)
    if smaller is not None:
        best, not_minimal = smaller, False
    place = {item: at for at, item in enumerate(items)}
    return SmallestSet(tuple(sorted(best, key=place.__getitem__)), not not_minimal or is_proven, is_proven)


def _beginning(tries: Tries, ranking: Sequence[str], tolerance: float) -> list[str]:
    """The first items of a ranking, as many as suffice, by halving: one less does not, or was not tried."""
    low, high = 0, len(ranking)
    while high - low > 1 and not tries.is_spent:
        middle = (low + high) // 2
        if tries(ranking[:middle]) <= tolerance:
            high = middle
        else:
            low = middle
    return list(ranking[:high])


def minimized(tries: Tries, items: Sequence[str], tolerance: float) -> tuple[list[str], bool]:
    """A part of a set that suffices, of which no single item can be taken away, and whether that was shown.

    Delta debugging by complements: take away ever smaller parts (algorithm ddmin, without its test of the parts
    themselves, of which all single ones are known before). The error need not be monotone.

    References
    ----------
    Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002, figure 2.
    """
    kept, parts = list(items), 2
    while len(kept) > 1:
        parts = min(parts, len(kept))
        bounds = [len(kept) * at // parts for at in range(parts + 1)]
        # Parts from the end first: what the ranking thinks least of.
        for start, end in reversed(list(itertools.pairwise(bounds))):
            rest = kept[:start] + kept[end:]
            if tries.is_spent and not tries.know(rest):
                return kept, False
            if tries(rest) <= tolerance:
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts == len(kept):
                break
            parts *= 2
    return kept, True


def _smaller(tries: Tries, items: Sequence[str], size: int, tolerance: float) -> tuple[list[str] | None, bool]:
    """The best set of the fewest items below ``size`` that suffices, and whether all sets smaller than it failed."""
    for fewer in range(1, size):
        if math.comb(len(items), fewer) > max(tries.left, 0) + tries.count:  # before they are listed
            return None, False
        untried = [chosen for chosen in itertools.combinations(items, fewer) if not tries.know(chosen)]
        if len(untried) > max(tries.left, 0):
            return None, False
        best = min(itertools.combinations(items, fewer), key=tries)
        if tries(best) <= tolerance:
            return list(best), True
    return None, True
