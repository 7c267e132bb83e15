"""Which operators fail: the figures of one call recomputed by hand, and what is counted over many."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from opscanner.dynamic.experiments import operators  # noqa: E402
from opscanner.dynamic.experiments.figures import OperatorExperiment, OperatorFigures, RankedOperator  # noqa: E402
from opscanner.dynamic.experiments.models import Experiment  # noqa: E402
from opscanner.errors import UsageError  # noqa: E402


def linear_on(inputs: list[float], weight: list[float], bias: float) -> Experiment:
    """A lone linear layer of one output."""
    model = torch.nn.Linear(len(weight), 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([weight]))
        model.bias.fill_(bias)
    return Experiment(
        "lone", 0, model, lambda step: (torch.tensor([inputs]),), lambda model, batch: model(*batch).sum()
    )


def forward_linear(experiment: Experiment, noise: str) -> OperatorFigures:
    calls = operators._calls_of(experiment, torch.float32, noise, 1, 0, 0.1)
    (row,) = [row for row in calls.figures("lone", "float32", noise) if row.operator == "linear"][:1]
    assert row.direction == "forward"
    return row


def test_a_linear_layer_has_fumis_relative_error() -> None:
    # The published noise adds 1e-8 to numbers above 1e-4: to 0.011, and not to the negative one.
    up, down = np.float32(0.011), np.float32(-0.0108)
    plain, moved = up + down, (up + np.float32(1e-8)) + down
    expected = abs(float(plain) - float(moved)) / abs(float(plain) + float(moved))
    assert 2.3e-5 < expected < 2.7e-5, "1e-8 over twice 0.0002"
    row = forward_linear(linear_on([0.011, -0.0108], [1.0, 1.0], 0.0), "fumi")
    assert row.max_relative_error == expected
    assert (row.calls, row.over_tolerance, row.over_percent) == (1, 0, 0)


def test_results_up_to_the_absolute_tolerance_do_not_count() -> None:
    # 0.011 - 0.01095 is 5e-5, below the 1e-4 of float32, however far it moves.
    assert forward_linear(linear_on([0.011, -0.01095], [1.0, 1.0], 0.0), "ulp").max_relative_error == 0


def test_past_the_tolerance_and_past_one_percent_are_counted_apart() -> None:
    # 8 moves by 2^-20 (2^-21 downwards), and the result is near 2^-13: 1/128 of it, or half of that, over twice that.
    row = forward_linear(linear_on([8.0 + 2.0**-13], [1.0], -8.0), "ulp")
    assert 1e-4 < row.max_relative_error < 0.01
    assert (row.over_tolerance, row.over_percent) == (1, 0)
    # 4096 moves by 2^-11 (2^-12 downwards), of 2^-8 an eighth, or a sixteenth: that is past 1 %.
    assert forward_linear(linear_on([4096.0 + 2.0**-8], [1.0], -4096.0), "ulp").over_percent == 1


def test_parameters_are_left_as_they_are() -> None:
    # Zeros cannot be moved, so that only the bias and the weights could.
    row = forward_linear(linear_on([0.0, 0.0], [3.0, 0.3], 0.7), "ulp")
    assert (row.calls, row.max_relative_error, row.max_scaled_ulp) == (1, 0.0, 0.0)


def test_products_with_a_linear_layers_weight_are_told_from_others() -> None:
    found = operators.measure_operators(["gcn"], formats=["float32"], noises=["ulp"], steps=1)
    calls = {row.operator: row.calls for row in found.figures if row.direction == "forward"}
    # Two linear layers, and two products with the adjacency.
    assert (calls["linear"], calls["mm"]) == (2, 2)
    # Back: the weights' gradients of both layers and the inputs' of the second; through both adjacencies.
    back = {row.operator: row.calls for row in found.figures if row.direction == "backward"}
    assert (back["linear"], back["mm"]) == (3, 2)


def test_a_seed_gives_the_same_figures_and_another_seed_others() -> None:
    def figures(seed: int) -> OperatorExperiment:
        return operators.measure_operators(["mnist-cnn"], formats=["float32", "bfloat16"], steps=2, seed=seed)

    first = figures(3)
    assert figures(3) == first
    assert figures(4).figures != first.figures


def test_torchs_random_state_is_left_as_it_was() -> None:
    before = torch.get_rng_state()
    operators.measure_operators(["cart-pole"], formats=["float32"], noises=["fumi"], steps=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_that_does_not_run_in_a_format_is_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise RuntimeError('"addmm" not implemented for Half\nmore')

    monkeypatch.setattr(operators, "_calls_of", refuse)
    found = operators.measure_operators(["gcn"], formats=["float16"])
    assert found.figures == ()
    assert [(run.model, run.format, run.reason) for run in found.skipped] == [
        ("gcn", "float16", 'RuntimeError: "addmm" not implemented for Half')
    ]


@pytest.mark.parametrize("given", [{"models": ["alexnet"]}, {"formats": ["int8"]}, {"noises": ["white"]}])
def test_words_without_a_meaning_are_refused(given: dict[str, list[str]]) -> None:
    with pytest.raises(UsageError, match="named"):
        operators.measure_operators(**given)


def row(model: str, operator: str, calls: int, past: int, error: float, direction: str = "forward") -> OperatorFigures:
    return OperatorFigures(model, "float32", "fumi", operator, direction, calls, error, 1.0, past, 0, 0, "")


def test_operators_are_ranked_by_the_calls_that_fail_over_all_models() -> None:
    rows = (
        row("a", "conv2d", 4, 3, 0.01), row("b", "conv2d", 4, 0, 0.02), row("a", "linear", 9, 4, 0.005),
        row("b", "mul", 90, 0, 5.0), row("b", "conv2d", 9, 9, 0.5, "backward"),
    )  # fmt: skip
    ranked = OperatorExperiment({}, rows, ()).ranking("float32", "fumi")
    assert [one.operator for one in ranked] == ["linear", "conv2d", "mul"]
    assert ranked[1] == RankedOperator("conv2d", "float32", "fumi", "forward", 2, ("a",), 8, 3, 0, 0, 0.02, "b")
    assert ranked[1].share == 3 / 8
