"""What every adapter of a framework holds to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opscanner.frameworks.declarations import Declarations, PlaceKind, adapters
from tests.frameworks.checkouts import write_pytorch, write_tensorflow

SMALL: dict[str, Callable[[Path], Path]] = {"pytorch": write_pytorch, "tensorflow": write_tensorflow}


@pytest.fixture(params=sorted(adapters()))
def read(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Declarations, Path]:
    root = SMALL[request.param](tmp_path)
    return adapters()[request.param](root), root


def test_every_adapter_finds_operators_registrations_and_gradients(read: tuple[Declarations, Path]) -> None:
    found, _ = read
    assert found.operators
    assert found.registrations
    assert not found.warnings
    assert {one.direction for one in found.operators} == {"forward", "backward"}


def test_operators_are_declared_once(read: tuple[Declarations, Path]) -> None:
    names = [one.name for one in read[0].operators]
    assert len(names) == len(set(names))


def test_registrations_are_of_declared_operators_and_begin_at_places(read: tuple[Declarations, Path]) -> None:
    found, _ = read
    names = {one.name for one in found.operators}
    for registration in found.registrations:
        assert registration.operator in names
        assert registration.places
        assert all(0 <= place < len(found.places) for place in registration.places)


def test_what_is_registered_is_named_at_the_registration_or_in_the_macro_before_it(
    read: tuple[Declarations, Path],
) -> None:
    found, root = read
    for registration in found.registrations:
        lines = (root / registration.file).read_text().splitlines()
        around = " ".join(lines[max(0, registration.line - 12) : registration.line + 4])
        assert registration.target.partition("<")[0].rpartition(" ")[2] in around


def test_a_gradient_belongs_to_a_declared_operator(read: tuple[Declarations, Path]) -> None:
    found, _ = read
    names = {one.name for one in found.operators}
    assert all(one.forward_name in names for one in found.operators if one.direction == "backward")


def test_places_name_others_and_stand_in_files_that_are_there(read: tuple[Declarations, Path]) -> None:
    found, root = read
    for place in found.places:
        assert all(0 <= mention.target < len(found.places) for mention in place.mentions)
        if place.file and place.kind is not PlaceKind.OPERATOR:
            assert place.name.rpartition("::")[2] in (root / place.file).read_text()


def test_a_checkout_without_the_framework_is_told_and_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for read_checkout in adapters().values():
        found = read_checkout(tmp_path / "empty")
        assert not found.operators
        assert found.warnings
