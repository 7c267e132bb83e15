"""The search for a smallest set, on errors that are made up so that the answer is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from opscanner.dynamic.running.smallest import SmallestSet, Tries, minimized, smallest_set

ITEMS = tuple("abcdefghij")


def needs(*wanted: str) -> Callable[[frozenset[str]], float]:
    """The largest of what the missing ones cost: one each."""
    return lambda chosen: float(len(set(wanted) - chosen))


@pytest.mark.parametrize("wanted", ["c", "cj", "aei"])
def test_what_is_needed_is_found_and_nothing_else(wanted: str) -> None:
    tries = Tries(needs(*wanted), 1000)
    for ranking in (ITEMS, ITEMS[::-1]):
        found = smallest_set(tries, [ranking], 0.5)
        assert found is not None
        assert sorted(found.items) == list(wanted)
        assert found.is_proven
        assert found.is_minimal


def test_nothing_is_needed_where_the_error_is_small_already() -> None:
    assert smallest_set(Tries(needs("a"), 10), [ITEMS], 1.0) == SmallestSet((), True, True)


def test_no_set_is_given_where_all_do_not_suffice() -> None:
    assert smallest_set(Tries(lambda chosen: 1.0, 10), [ITEMS], 0.5) is None
    assert smallest_set(Tries(lambda chosen: float("nan"), 10), [ITEMS], 0.5) is None


def test_a_set_is_cut_until_none_can_be_left_out_also_where_the_error_is_not_monotone() -> None:
    # "b" makes up for the harm that "a" does: {c} suffices, {a, c} does not, {a, b, c} does.
    def error(chosen: frozenset[str]) -> float:
        return 0.0 if "c" in chosen and ("a" not in chosen or "b" in chosen) else 1.0

    kept, is_minimal = minimized(Tries(error, 100), "abc", 0.5)
    assert is_minimal
    assert kept == ["c"]


def test_a_smaller_set_than_the_ranking_leads_to_is_found_by_trying_all() -> None:
    # {a, b, c} suffices and no part of it; {i, j} does as well, which the ranking puts last.
    def error(chosen: frozenset[str]) -> float:
        return 0.0 if {"a", "b", "c"} <= chosen or {"i", "j"} <= chosen else 1.0

    found = smallest_set(Tries(error, 1000), [ITEMS], 0.5)
    assert found == SmallestSet(("i", "j"), True, True)
    # 10 singles and 45 pairs are more than are left of 20.
    hasty = smallest_set(Tries(error, 20), [ITEMS], 0.5)
    assert hasty == SmallestSet(("a", "b", "c"), True, False)


def test_a_second_ranking_helps() -> None:
    def error(chosen: frozenset[str]) -> float:
        return 0.0 if {"a", "b", "c"} <= chosen or {"i", "j"} <= chosen else 1.0

    found = smallest_set(Tries(error, 40), [ITEMS, ITEMS[::-1]], 0.5)
    assert found is not None
    assert found.items == ("i", "j")


def test_what_is_spent_ends_the_search_with_a_set_that_suffices() -> None:
    wanted = "acegi"
    found = smallest_set(Tries(needs(*wanted), 4), [ITEMS], 0.5)
    assert found is not None
    assert set(wanted) <= set(found.items)
    assert not found.is_minimal
    assert not found.is_proven


def test_each_set_is_tried_once() -> None:
    seen: list[frozenset[str]] = []
    error = needs("b", "g", "h")

    def counted(chosen: frozenset[str]) -> float:
        seen.append(chosen)
        return error(chosen)

    tries = Tries(counted, 1000)
    smallest_set(tries, [ITEMS, ITEMS[::-1]], 0.5)
    assert len(seen) == len(set(seen)) == tries.count


def test_every_pair_and_triple_of_eight_is_found_from_any_ranking() -> None:
    items = ITEMS[:8]
    for size in (1, 2, 3):
        for wanted in itertools.combinations(items, size):
            found = smallest_set(Tries(needs(*wanted), 1000), [items], 0.5)
            assert found is not None
            assert found.items == wanted
