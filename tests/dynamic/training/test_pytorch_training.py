"""Trainings of torch models with one operator changed: what is changed, what is not, and repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="NEEDS torch: IT TRAINS")

from opscanner.dynamic.training import deviation  # noqa: E402
from opscanner.dynamic.training.deviation import Change  # noqa: E402
from opscanner.dynamic.training.pytorch import ComputedIn, TorchTrainer, move_one_weight  # noqa: E402
from opscanner.errors import UsageError  # noqa: E402


def quiet(text: str) -> None:
    pass


def run(model: str = "cnn", operators: tuple[str, ...] = ("selu",), **options: Any) -> list[deviation.Course]:
    settings: dict[str, Any] = {
        "format_": "bfloat16", "upcast": False, "steps": 3, "seeds": [0], "save": None, "progress": quiet,
    }  # fmt: skip
    return [
        course
        for of_seed in deviation.deviations(TorchTrainer(model), operators=operators, **(settings | options))
        for course in of_seed
    ]


def rounded(values: Any) -> Any:
    """float32 with a significand of 8 bits, half to even, by arithmetic on the encoding (no infinities here)."""
    bits = values.detach().numpy().view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return torch.from_numpy(bits.astype(np.uint32).view(np.float32))


@pytest.mark.parametrize(("operator", "call"), [("tanh", torch.tanh), ("softplus", torch.nn.functional.softplus)])
def test_inputs_and_results_are_rounded_forward_and_backward(operator: str, call: Callable[[Any], Any]) -> None:
    x = torch.linspace(-2, 2, 41, requires_grad=True)
    upstream = torch.linspace(0.5, 1.5, 41)
    with ComputedIn(Change(operator, "bfloat16", "float32")) as mode:
        y = call(x)
        y.backward(upstream)
    assert mode.calls == 2
    assert y.dtype == torch.float32
    assert torch.equal(y, rounded(call(rounded(x))))
    assert x.grad is not None
    assert torch.equal(x.grad, rounded(x.grad))
    # tanh' = 1 - y^2 of the rounded result; softplus' is the logistic function of the rounded input.
    slope = 1 - y.detach() ** 2 if operator == "tanh" else torch.sigmoid(rounded(x))
    assert torch.equal(x.grad, rounded(rounded(upstream) * slope))


def test_other_operators_stay_as_they_are() -> None:
    x = torch.linspace(-2, 2, 41)
    with ComputedIn(Change("tanh", "bfloat16", "bfloat16")) as mode:
        y = torch.sigmoid(x)
    assert mode.calls == 0
    assert torch.equal(y, torch.sigmoid(x))


def test_running_statistics_are_written_through_batch_norm_in_another_format() -> None:
    norm = torch.nn.BatchNorm2d(2)
    x = torch.arange(16.0).reshape(2, 2, 2, 2)
    with ComputedIn(Change("batch_norm", "bfloat16", "bfloat16")):
        norm(x)
    # Channel 0 holds 0..3 and 8..11, channel 1 4..7 and 12..15: means 5.5 and 9.5, a tenth of which is kept.
    assert norm.running_mean.dtype == torch.float32
    assert norm.running_mean.tolist() == pytest.approx([0.55, 0.95], rel=2**-8)


def test_an_operator_called_in_its_own_format_changes_no_bit() -> None:
    changed, _, _ = run("cnn", ("conv2d",), format_="float32")
    assert changed.deviation == (0.0, 0.0, 0.0)
    assert changed.loss == changed.loss_as_it_is


def test_repeats_give_the_same_bits_and_seeds_differ() -> None:
    first, again = run(seeds=[0, 1]), run(seeds=[0, 1])
    assert first == again
    assert first[0].deviation != first[3].deviation
    assert first[0].loss_as_it_is != first[3].loss_as_it_is


def test_bfloat16_deviates_far_more_than_float64_and_that_more_than_one_ulp_in_early_steps() -> None:
    changed, float64, one_ulp = run(operators=("conv2d",), steps=5)
    assert changed.deviation[4] > 100 * float64.deviation[4] > 100 * one_ulp.deviation[4] > 0


def test_operators_rank_by_early_steps_as_in_the_measured_facts() -> None:
    # Another network of the same layers, measured before: conv2d 6.9e-4, linear 1.5e-4, softplus 7.6e-5 at step 5.
    conv, linear, softplus, *_ = run(operators=("conv2d", "linear", "softplus"), steps=5)
    assert conv.deviation[4] > linear.deviation[4] > softplus.deviation[4]
    for course, measured in ((conv, 6.9e-4), (linear, 1.5e-4), (softplus, 7.6e-5)):
        assert measured / 10 < course.deviation[4] < measured * 10


def test_torch_s_selu_upcasts_in_bfloat16_so_that_computing_it_wider_changes_nothing() -> None:
    # aten/src/ATen/native/cpu/Elu.h computes reduced types in float.
    own, upcast, *_ = run(upcast=True)
    assert (own.computed_in, upcast.computed_in) == ("bfloat16", "float32")
    assert own.deviation == upcast.deviation


def test_one_weight_is_moved_by_one_ulp_and_no_other() -> None:
    model, moved = torch.nn.Linear(30, 30), torch.nn.Linear(30, 30)
    with torch.no_grad():
        model.bias.zero_()
    moved.load_state_dict(model.state_dict())
    name, place = move_one_weight(moved, 3)
    assert name == "weight"
    before, after = model.weight.detach().flatten().numpy(), moved.weight.detach().flatten().numpy()
    assert np.flatnonzero(before != after).tolist() == [place]
    assert after[place] == np.nextafter(before[place], np.float32(np.inf))


@pytest.mark.parametrize("model", ["resnet", "vae", "lstm", "transformer", "mnist-cnn", "gcn", "llama"])
def test_every_operator_that_is_named_for_a_model_can_be_changed(model: str) -> None:
    courses = run(model, (), steps=2)
    assert len(courses) > 3
    for course in courses:
        assert all(np.isfinite(course.deviation)), course.operator
        assert course.layers.keys() == courses[0].layers.keys()


def test_operators_without_a_kernel_for_the_format_are_left_out_unless_they_are_named() -> None:
    # torch 2.13: mkldnn_rnn_layer, "get_mkldnn_dtype: unsupported data type".
    said: list[str] = []
    courses = run("lstm", (), format_="float64", steps=1, progress=said.append)
    operators = {course.operator for course in courses}
    if "lstm" in TorchTrainer("lstm").operators():
        assert "lstm" not in operators
        assert any("left out: aten.mkldnn_rnn_layer" in line for line in said)
        with pytest.raises(UsageError, match="does not run in"):
            run("lstm", ("lstm",), format_="float64", steps=1)
    assert "linear" in operators


def test_an_operator_that_the_model_does_not_call_is_answered_with_those_it_does() -> None:
    with pytest.raises(UsageError, match="gcn calls no operator 'conv2d'") as error:
        run("gcn", ("conv2d",))
    assert "linear" in str(error.value)
    with pytest.raises(UsageError, match="do not compute in 'float8_e5m2'"):
        run("gcn", ("linear",), format_="float8_e5m2")


def test_torch_s_random_state_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    run(steps=1)
    assert torch.equal(torch.get_rng_state(), before)
