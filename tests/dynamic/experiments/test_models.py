"""Small models: the same for a seed, trainable in any format, and of the sizes that are said."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch", reason="NEEDS torch: SMALL MODELS ARE TORCH'S")

from opscanner.dynamic.experiments import data, networks  # noqa: E402
from opscanner.dynamic.experiments.models import MODELS, model_named  # noqa: E402
from opscanner.errors import UsageError  # noqa: E402

by_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_every_kind_of_the_study_is_there() -> None:
    kinds = {"cnn", "resnet", "vae", "lstm", "transformer", "mnist-mlp", "mnist-cnn", "gcn", "super-resolution"}
    assert kinds | {"cart-pole", "llama"} == set(MODELS)


@by_model
def test_a_seed_gives_the_same_weights_and_data_and_leaves_torch_s_random_state(name: str) -> None:
    before = torch.get_rng_state()
    first, second, other = MODELS[name].build(3), MODELS[name].build(3), MODELS[name].build(4)
    assert torch.equal(torch.get_rng_state(), before)
    for one, two in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, two)
    assert any(
        not torch.equal(one, two) for one, two in zip(first.model.parameters(), other.model.parameters(), strict=True)
    )
    first.batch(1)
    for one, two in zip(first.batch(5), second.batch(5), strict=True):
        assert torch.equal(one, two)
    assert any(not torch.equal(one, two) for one, two in zip(first.batch(5), first.batch(6), strict=True))
    assert torch.equal(torch.get_rng_state(), before)


@by_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_training_step_gives_finite_gradients_of_the_model_s_format_everywhere(name: str, dtype: torch.dtype) -> None:
    experiment = MODELS[name].build(0)
    experiment.model.to(dtype)
    batch = tuple(part.to(dtype) if part.is_floating_point() else part for part in experiment.batch(0))
    loss = experiment.loss(experiment.model, batch)
    loss.backward()
    assert loss.dtype == dtype
    for label, parameter in experiment.model.named_parameters():
        assert parameter.grad is not None, label
        assert parameter.grad.dtype == dtype, label
        assert parameter.grad.isfinite().all(), label


@pytest.mark.parametrize("name", ["cnn", "lstm", "transformer", "mnist-mlp", "gcn"])
def test_training_learns_what_the_data_has_in_it(name: str) -> None:
    row = MODELS[name]
    experiment = row.build(0)
    optimizer = torch.optim.SGD(experiment.model.parameters(), lr=row.learning_rate, momentum=0.9)
    for step in range(100):
        optimizer.zero_grad()
        experiment.loss(experiment.model, experiment.batch(step)).backward()
        optimizer.step()
    assert experiment.score is not None
    classes = 10 if name in ("cnn", "mnist-mlp") else 4
    scores = [experiment.score(experiment.model, experiment.batch(-step)) for step in (1, 2, 3)]
    assert sum(scores) / 3 > 2 / classes


@by_model
def test_scale_makes_layers_larger_and_keeps_the_data(name: str) -> None:
    small, large = MODELS[name].build(0), MODELS[name].build(0, scale=2)
    weights = [sum(part.numel() for part in one.model.parameters()) for one in (small, large)]
    assert weights[1] > 1.5 * weights[0]
    for one, two in zip(small.batch(0), large.batch(0), strict=True):
        assert torch.equal(one, two)


def test_both_attentions_of_the_decoder_are_the_same_function() -> None:
    one, two = (MODELS["llama"].build(0, attention=name) for name in ("sdpa", "written"))
    losses = [experiment.loss(experiment.model.double(), experiment.batch(0)).item() for experiment in (one, two)]
    assert math.isclose(*losses, rel_tol=1e-12)


def test_rotary_positions_turn_pairs_by_angles_that_grow_along_the_sequence() -> None:
    # Size 4: pairs (0, 2) at 1 rad and (1, 3) at 10000^-0.5 = 0.01 rad a place.
    turned = networks.rotated(torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64).expand(1, 1, 3, 4))[0, 0, 2]
    expected = [math.cos(2.0), math.cos(0.02), math.sin(2.0), math.sin(0.02)]
    assert turned.tolist() == pytest.approx(expected, rel=1e-12)


def test_the_cart_accelerates_as_the_equations_say() -> None:
    # Upright and at rest, pushed with 10 N: hand-worked from Barto, Sutton and Anderson (1983), appendix.
    # a = 10/1.1; angular = -a / (0.5 * (4/3 - 0.1/1.1)); cart = a - 0.05 * angular / 1.1.
    after = data.push(torch.zeros(1, 4, dtype=torch.float64), torch.tensor([1]))[0]
    angular = -(10 / 1.1) / (0.5 * (4 / 3 - 0.1 / 1.1))
    assert after.tolist() == pytest.approx([0, 0.02 * (10 / 1.1 - 0.05 * angular / 1.1), 0, 0.02 * angular], rel=1e-6)


def test_a_model_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no model is named 'gpt'"):
        model_named("gpt")
