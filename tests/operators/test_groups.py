"""The table of module groups."""

from __future__ import annotations

import pytest

from opscanner.operators.groups import OTHER, ROWS, module_group


@pytest.mark.parametrize(("group", "name"), [(row.group, name) for row in ROWS for name in row.examples])
def test_every_example_of_a_row_is_put_in_its_group(group: str, name: str) -> None:
    assert module_group(name) == group


def test_every_group_of_the_study_has_a_row() -> None:
    assert {row.group for row in ROWS} == {
        "normalization", "activation", "cnn", "rnn", "loss", "optimizer", "distribution", "image_processing",
        "transformer", "math",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["copy", "Cast", "embedding_dense_backward", "GatherV2", "_to_copy", "sort"])
def test_operators_that_move_data_are_in_no_group(name: str) -> None:
    assert module_group(name) == OTHER


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("softmax_backward", "activation"),  # not math, which has log and max
        ("conv_transpose2d", "cnn"),
        ("convert_boxes", OTHER),  # conv is no convolution there
        ("upsample_nearest2d", "image_processing"),  # sample draws nothing there
        ("igamma", "math"),
        ("clamp_min", "math"),
    ],
)
def test_names_that_two_groups_could_claim(name: str, group: str) -> None:
    assert module_group(name) == group
