"""Trainings of TensorFlow models: the same model and data as torch's, and its SELU in bfloat16."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="NEEDS torch: DATA AND FIRST WEIGHTS ARE ITS")
pytest.importorskip("tensorflow", reason="NEEDS tensorflow: IT TRAINS")

from opscanner.dynamic.training.deviation import Course, deviations, relative_l2
from opscanner.dynamic.training.pytorch import TorchTrainer
from opscanner.dynamic.training.tensorflow import MODELS, TensorFlowTrainer
from opscanner.errors import UsageError


def run(steps: int = 3) -> list[Course]:
    (courses,) = deviations(
        TensorFlowTrainer("cnn"), operators=("selu",), format_="bfloat16", upcast=True, steps=steps, seeds=[0],
        save=None, progress=lambda text: None,
    )  # fmt: skip
    return courses


@pytest.mark.parametrize("model", MODELS)
def test_both_frameworks_train_the_same_model_on_the_same_data(model: str) -> None:
    ours, torchs = TensorFlowTrainer(model).learner(0, None), TorchTrainer(model).learner(0, None)
    assert ours.weights().keys() == torchs.weights().keys()
    assert relative_l2(ours.weights(), torchs.weights()) == 0
    for step in range(3):
        assert ours.step(step) == pytest.approx(torchs.step(step), rel=1e-5)
    # Both are float32: what is between them is rounding.
    assert 0 < relative_l2(ours.weights(), torchs.weights()) < 1e-6


def test_repeats_give_the_same_bits() -> None:
    assert run() == run()


def test_tensorflow_s_selu_drifts_further_in_bfloat16_than_one_that_upcasts() -> None:
    own, upcast, float64, one_ulp = run(steps=5)
    assert (own.computed_in, upcast.computed_in) == ("bfloat16", "float32")
    assert own.deviation[4] > 1.05 * upcast.deviation[4] > 100 * float64.deviation[4]
    assert float64.deviation[4] > one_ulp.deviation[4] > 0


def test_operators_of_both_frameworks_have_the_same_names() -> None:
    assert set(TensorFlowTrainer("cnn").operators()) == set(TorchTrainer("cnn").operators())


def test_a_model_that_is_not_written_in_tensorflow_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no model named 'llama'"):
        TensorFlowTrainer("llama")


def test_every_operator_can_be_changed() -> None:
    (courses,) = deviations(
        TensorFlowTrainer("mnist-mlp"), operators=(), format_="float16", upcast=False, steps=2, seeds=[0], save=None,
        progress=lambda text: None,
    )  # fmt: skip
    assert all(np.isfinite(course.deviation).all() for course in courses)
    assert [course.operator for course in courses] == ["linear", "gelu", "log_softmax", "whole model", "one weight"]
