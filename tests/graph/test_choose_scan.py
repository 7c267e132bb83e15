"""Which scan a word of the command line means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from opscanner.errors import UsageError
from opscanner.graph.queries import reading
from opscanner.graph.serving import choose_scan, newest_scans
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


def test_a_version_that_is_not_there_names_those_that_are_and_what_to_type(chosen: Callable[[str], Any]) -> None:
    with pytest.raises(UsageError) as caught:
        chosen("pytorch@1.13.1")
    assert "pytorch@1.13.0a0, pytorch@2.10.1, pytorch@2.6.0a0, pytorch@2.6.0a0" in caught.value.what
    assert caught.value.hint.startswith("pytorch@1.13.0a0,")
    with pytest.raises(UsageError) as caught:
        chosen("pytorch@2.10.0")
    assert caught.value.hint.startswith("pytorch@2.10.1,")


def test_a_framework_that_was_not_scanned_is_told_from_one_that_there_is_not(chosen: Callable[[str], Any]) -> None:
    with pytest.raises(UsageError, match=r"no scan of tensorflow, but pytorch@1\.13\.0a0"):
        chosen("tensorflow")
    with pytest.raises(UsageError, match="no framework 'onnx'"):
        chosen("onnx")


def test_the_newest_of_each_framework_is_never_two_versions_of_one(database: str) -> None:
    with Store(database) as store:
        for framework, version, root in (
            ("none", "", "/own"),
            ("pytorch", "2.6.0", "/b"),
            ("tensorflow", "2.14.1", "/c"),
            ("pytorch", "1.13.1", "/a"),
        ):
            store.finish_scan(store.begin_scan(framework, version, root).id, complete=True)
    with reading(database) as connection:
        assert [one.root for one in newest_scans(connection)] == ["/b", "/c"]


def test_sources_of_no_framework_have_no_newest_scan(database: str) -> None:
    with Store(database) as store:
        store.finish_scan(store.begin_scan("none", "", "/own").id, complete=True)
    with reading(database) as connection, pytest.raises(UsageError, match=r"no scan of a framework.*: /own"):
        newest_scans(connection)
