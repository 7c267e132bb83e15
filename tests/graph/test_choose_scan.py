"""Which scan a word of the command line means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opscanner.errors import UsageError
from opscanner.graph.queries import reading
from opscanner.graph.serving import choose_scan
from opscanner.graph.store import Store


@pytest.fixture
def chosen(database: str) -> Callable[[str], Any]:
    with Store(database) as store:
        for version, root in (("1.13.0a0", "/a"), ("2.10.1", "/b"), ("2.6.0a0", "/c"), ("2.6.0a0", "/d")):
            store.finish_scan(store.begin_scan("pytorch", version, root).id, complete=True)

    def choose(word: str) -> Any:
        with reading(database) as connection:
            return choose_scan(connection, word)

    return choose


def test_of_several_versions_the_newest_is_meant(chosen: Callable[[str], Any]) -> None:
    assert chosen("pytorch").version == "2.10.1"


def test_the_beginning_of_a_version_names_it(chosen: Callable[[str], Any]) -> None:
    assert chosen("pytorch@1.13").root == "/a"


def test_two_trees_of_one_version_cannot_be_told_apart(chosen: Callable[[str], Any]) -> None:
    with pytest.raises(UsageError, match=r"may be pytorch@2\.6\.0a0 of /c, pytorch@2\.6\.0a0 of /d"):
        chosen("pytorch@2.6")
