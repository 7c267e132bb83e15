"""Deviations by hand, and seeds that are kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from opscanner.dynamic.training import deviation
from opscanner.dynamic.training.deviation import Change, Course, Weights
from opscanner.errors import OpscannerError


class Counter:
    """Two layers of one weight, 3 and 4; each step adds 1 to the first, a change adds what its name says besides."""

    def __init__(self, extra: float) -> None:
        self._first, self._extra = 3.0, extra

    def step(self, index: int) -> float:
        loss = self._first
        self._first += 1 + self._extra
        return loss

    def weights(self) -> Weights:
        return {"one.weight": np.array([self._first]), "two.weight": np.array([4.0])}

    def score(self) -> float | None:
        return None


class Counters:
    framework, versions, model = "none", "1", "counter"

    def __init__(self, stop_at: int | None = None) -> None:
        self.seeds: list[int] = []
        self._stop_at = stop_at

    def operators(self) -> Sequence[str]:
        return ("half", "two")

    def learner(self, seed: int, change: Change | None) -> Counter:
        if seed == self._stop_at:
            raise KeyboardInterrupt
        self.seeds.append(seed)
        return Counter({None: 0.0, "half": 0.5, "two": 2.0}.get(change and change.operator, 0.0))


def run(trainer: Counters, seeds: Sequence[int], save: Path | None, steps: int = 2) -> list[Course]:
    found: list[Course] = []
    try:
        for of_seed in deviation.deviations(
            trainer, operators=("half", "two"), format_="bfloat16", upcast=False, steps=steps, seeds=seeds, save=save,
            progress=lambda text: None,
        ):  # fmt: skip
            found += of_seed
    except KeyboardInterrupt:
        pass
    return found


def test_the_deviation_is_the_norm_of_the_difference_over_that_of_the_weights() -> None:
    half, two, *baselines = run(Counters(), [0], None)
    # After step 1 as it is: (4, 4); after step 2: (5, 4).
    assert half.deviation == pytest.approx((0.5 / math.hypot(4, 4), 1.0 / math.hypot(5, 4)))
    assert two.layers["one"] == pytest.approx((2 / 4, 4 / 5))
    assert two.layers["two"] == (0.0, 0.0)
    assert [course.deviation for course in baselines] == [(0.0, 0.0)] * 2
    assert (half.loss, half.loss_as_it_is) == ((3.0, 4.5), (3.0, 4.0))


def test_weights_of_zero_and_nan_are_not_hidden() -> None:
    zero, nan, one = ({"a": np.array([value])} for value in (0.0, math.nan, 1.0))
    assert deviation.relative_l2(one, zero) == math.inf
    assert deviation.relative_l2(zero, zero) == 0.0
    assert math.isnan(deviation.relative_l2(nan, one))


def test_finished_seeds_survive_an_interruption_and_are_not_trained_again(tmp_path: Path) -> None:
    file = tmp_path / "courses.jsonl"
    finished = run(Counters(stop_at=2), [0, 1, 2], file)
    assert {course.seed for course in finished} == {0, 1}
    trainer = Counters()
    every = run(trainer, [0, 1, 2], file)
    assert set(trainer.seeds) == {2}
    assert every == run(Counters(), [0, 1, 2], None)


def test_another_number_of_steps_is_another_training(tmp_path: Path) -> None:
    file = tmp_path / "courses.jsonl"
    run(Counters(), [0], file)
    trainer = Counters()
    assert len(run(trainer, [0], file, steps=3)[0].deviation) == 3
    assert trainer.seeds


def test_a_line_that_was_cut_short_is_trained_again(tmp_path: Path) -> None:
    file = tmp_path / "courses.jsonl"
    whole = run(Counters(), [0], file)
    file.write_text(file.read_text()[:-10])
    assert run(Counters(), [0], file) == whole
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == len(whole)


def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my notes\n")
    with pytest.raises(OpscannerError, match=r"notes\.txt:1 is no course"):
        run(Counters(), [0], file)
    assert file.read_text() == "my notes\n"
