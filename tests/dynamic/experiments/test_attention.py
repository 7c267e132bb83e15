"""Attention against attention: a planted fault comes first, and the metrics are what they say."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from opscanner.dynamic.experiments import attention  # noqa: E402
from opscanner.dynamic.experiments.figures import AttentionFigures, Errors, over_pairs  # noqa: E402
from opscanner.dynamic.experiments.models import MODELS  # noqa: E402
from opscanner.dynamic.experiments.networks import written_attention  # noqa: E402
from opscanner.errors import UsageError  # noqa: E402

SMALL = {"lengths": [16], "steps": 1, "fuzz": 2}


def rounded(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention in bfloat16, whatever it is given."""
    return written_attention(query.bfloat16(), key.bfloat16(), value.bfloat16()).to(query.dtype)


def test_a_planted_worse_attention_is_ranked_first_in_every_setting() -> None:
    candidates = {**attention.IMPLEMENTATIONS, "planted": rounded}
    found = attention.measure_attention(formats=["float32"], implementations=candidates, **SMALL)
    for scale in (1.0, 4.0):
        rows = [row for row in found.figures if row.scale == scale]
        assert len(rows) == 10, "each pair of four, and each against float64"
        planted, others = rows[:4], rows[4:]
        assert all("planted" in (row.first, row.second) for row in planted)
        assert min(row.in_model.relative for row in planted) > 10 * max(row.in_model.relative for row in others)
        # bfloat16 holds 8 digits, and values here are rounded to nearest before and after.
        assert all(2**-9 < row.in_model.scaled < 2**-3 and 2**-9 < row.random.scaled < 2**-5 for row in planted)


def test_evaluations_are_calls_of_the_model_times_fuzz() -> None:
    found = attention.measure_attention(formats=["bfloat16"], scales=[1.0], lengths=[16], steps=3, fuzz=4)
    # Two layers at three steps.
    assert {row.evaluations for row in found.figures} == {24}


def test_a_seed_gives_the_same_figures_and_another_seed_others() -> None:
    first = attention.measure_attention(seed=1, **SMALL)
    assert attention.measure_attention(seed=1, **SMALL) == first
    assert attention.measure_attention(seed=2, **SMALL).figures != first.figures


def test_queries_and_keys_are_scaled_by_the_weights_and_values_are_not() -> None:
    experiment = MODELS["llama"].build(0, length=16, batch_size=1)
    states = [experiment.model.state_dict()]
    plain, _ = attention._inputs_in_model(experiment, states, torch.float32, 1.0)
    scaled, _ = attention._inputs_in_model(experiment, states, torch.float32, 4.0)
    # Of the first layer; a power of two rounds nothing.
    assert [torch.equal(factor * one, other) for factor, one, other in zip((4, 4, 1), plain, scaled, strict=True)] == [
        True, True, True,
    ]  # fmt: skip


def test_the_formats_see_the_models_own_inputs_in_their_format() -> None:
    experiment = MODELS["llama"].build(0, length=16, batch_size=1)
    inputs = attention._inputs_in_model(experiment, [experiment.model.state_dict()], torch.bfloat16, 1.0)
    shapes = [(one.dtype, tuple(one.shape)) for call in inputs for one in call]
    assert shapes == [(torch.bfloat16, (1, 4, 16, 16))] * 6


def test_the_three_metrics_of_two_tensors() -> None:
    one, other = torch.tensor([1.0, 4.0, 5e-5]), torch.tensor([3.0, 8.0, -5e-5])
    # |1 - 3| / |1 + 3| = 1/2; the third is below 1e-4; |4 - 8| = 4, by the largest, 8.
    assert attention.errors_between(one, other, "float32") == Errors(0.5, 0.5, 4.0, 0)


def test_elements_that_are_nan_in_one_result_alone_are_counted_and_hide_nothing() -> None:
    one, other = torch.tensor([math.nan, 1.0, math.inf]), torch.tensor([1.0, 2.0, 3.0])
    assert attention.errors_between(one, other, "float32") == Errors(1 / 3, 0.5, 1.0, 2)


def test_an_attention_that_overflows_shows_in_the_figures() -> None:
    def without_maximum(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-2, -1)
        weights = torch.tril(torch.exp(1000 * scores.abs()))
        return weights / weights.sum(-1, keepdim=True) @ value

    candidates = {"written": written_attention, "planted": without_maximum}
    found = attention.measure_attention(formats=["float32"], implementations=candidates, scales=[4.0], **SMALL)
    counts = {(row.first, row.second): row.in_model.non_finite for row in found.figures}
    assert counts["written", "float64"] == 0
    assert counts["planted", "float64"] > 0
    assert counts["written", "planted"] == counts["planted", "float64"]


def figures(first: str, second: str, relative: float, absolute: float, random: float) -> AttentionFigures:
    return AttentionFigures(
        "float32", 8, 1.0, first, second, 4, Errors(relative, 0.0, absolute), Errors(random, 0.0, 2 * random)
    )


def test_a_factor_is_of_one_metric_and_the_largest_of_all_pairs_is_of_each_by_itself() -> None:
    rows = [figures("a", "b", 0.02, 0.1, 0.01), figures("a", "c", 0.01, 0.4, 0.0), figures("a", "float64", 9, 9, 9)]
    assert (rows[0].factor("relative"), rows[0].factor("absolute"), rows[0].factor("scaled")) == (2.0, 5.0, None)
    (whole,) = over_pairs(rows)
    assert (whole.first, whole.second, whole.in_model) == ("a", "b", Errors(0.02, 0.0, 0.4))
    assert whole.factor("absolute") == 20.0


@pytest.mark.parametrize(
    "given", [{"formats": ["int8"]}, {"noise": "white"}, {"implementations": {"a": written_attention}}]
)
def test_settings_that_mean_nothing_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        attention.measure_attention(**given)
