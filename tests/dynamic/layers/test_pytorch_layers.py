"""Fuzz and Check layers for torch: what they find, and that a model computes the same bits with them."""

from __future__ import annotations

import copy
import io
import warnings
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pytest

from opscanner.errors import UsageError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from opscanner.dynamic.layers import (  # noqa: E402
    CheckLayer,
    FuzzCheck,
    FuzzLayer,
    NotDeterministic,
    PrecisionAlert,
    add_fuzz_checks,
    fuzz_checks,
    remove_fuzz_checks,
)

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionAlert)
        warnings.simplefilter("error", NotDeterministic)
        yield


def cancels(x: Any) -> Any:
    """What of a number next to 1 is left without the 1, and with it the noise that was little beside it."""
    return x - 1.0


# -- The layers alone ------------------------------------------------------------------------------------------------


def test_a_layer_under_test_between_fuzz_and_check() -> None:
    fuzz, check = FuzzLayer(seed=1), CheckLayer(name="exp")
    same, moved = fuzz(torch.full((100,), 2.0))
    result = check(torch.exp(same), torch.exp(moved))
    assert torch.equal(result, torch.exp(torch.full((100,), 2.0)))
    record = check.records[""]
    # 2 is followed by 2 + 2**-22 and preceded by 2 - 2**-23; exp's relative change is that of its argument, absolutely,
    # and FuMi's metric halves it. Roundings of exp(2) in [4, 8) are at most 2**-22 / 7.4 each way.
    assert 2.0**-24 <= record.max_relative_error <= 2.0**-23 + 2.0**-23 / 7.3
    assert (record.layer, record.format, record.shape, record.count, record.checked) == ("exp", "float32", (100,), 1, 1)
    assert record.alerts == record.first_failing_call == 0


def test_fuzz_keeps_the_form_of_its_inputs_and_moves_floats_alone() -> None:
    Point = namedtuple("Point", ["x", "label"])
    x = torch.ones(4, requires_grad=True)
    inputs = (Point(x, torch.tensor([1, 2])), {"same": x, "none": None}, [x * 2, "text"])
    same, moved = FuzzLayer(seed=3)(*inputs)
    assert same is inputs or same[0] is inputs[0]
    assert isinstance(moved[0], Point)
    assert moved[0].label.tolist() == [1, 2]
    assert moved[1]["same"] is moved[0].x  # one input stays one input
    assert not moved[0].x.requires_grad
    assert torch.all(moved[0].x != x)
    assert moved[2][1] == "text"
    assert torch.all(moved[2][0] != 2)
    assert torch.equal(x, torch.ones(4))


def test_check_gives_on_the_very_object_and_alerts_past_the_tolerance() -> None:
    check = CheckLayer(tolerance=0.2, on_alert="raise", name="made")
    first = {"a": torch.tensor([1.0, 4.0]), "b": [torch.tensor([1])]}
    assert check(first, {"a": torch.tensor([1.0, 5.0]), "b": [torch.tensor([2])]}) is first  # 1 / 9
    with pytest.raises(PrecisionAlert, match=r"output a of made, call 2.*at least 0.333.*past 0.2.*4 and 8 at \[1\]"):
        check(first, {"a": torch.tensor([1.0, 8.0]), "b": [torch.tensor([1])]})  # 4 / 12
    record = check.records["a"]
    assert record.max_relative_error == pytest.approx(1 / 3)
    assert (record.worst, record.worst_index) == ((4.0, 8.0), (1,))
    assert (record.alerts, record.first_failing_call) == (1, 2)
    assert check.records["b.0"].notes == ["integers are not compared"]


@pytest.mark.parametrize(("format_", "tolerance"), [("float32", 1e-4), ("bfloat16", 1e-2), ("float64", 1e-8)])
def test_the_default_tolerance_is_that_of_the_format(format_: str, tolerance: float) -> None:
    check = CheckLayer(on_alert="raise")
    first = torch.full((3,), 1.0, dtype=getattr(torch, format_))
    check(first, (first.double() * (1 + 1.5 * tolerance)).to(first.dtype))  # about 0.75 of it: |a + b| is twice a
    with pytest.raises(PrecisionAlert):
        check(first, (first.double() * (1 + 2.6 * tolerance)).to(first.dtype))


def test_nan_and_infinity_on_one_side_alert_whatever_the_tolerance() -> None:
    told: list[PrecisionAlert] = []
    check = CheckLayer(tolerance=1e9, on_alert=told.append)
    check(torch.tensor([1.0, NAN, INF]), torch.tensor([1.0, NAN, INF]))
    assert told == []
    check(torch.tensor([1.0, NAN, 2.0]), torch.tensor([1.0, 3.0, INF]))
    assert len(told) == 1
    assert told[0].record is check.records[""]
    assert (told[0].record.nan_mismatches, told[0].record.infinity_mismatches) == (1, 1)
    assert "1 elements are NaN and 1 infinite" in str(told[0])


def test_a_warning_comes_once_for_each_output_and_all_calls_are_counted() -> None:
    check = CheckLayer()
    first, second = (torch.ones(1), torch.ones(1)), (torch.ones(1) * 2, torch.ones(1) * 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            check(first, second)
    assert [type(one.message) for one in caught] == [PrecisionAlert, PrecisionAlert]
    assert [record.alerts for record in check.records.values()] == [3, 3]


def test_a_later_smaller_error_leaves_the_record_and_a_larger_one_replaces_it() -> None:
    check = CheckLayer(tolerance=1.0)
    one = torch.ones(5)
    for factor, expected in ((1.5, 0.2), (1.25, 0.2), (3.0, 0.5)):
        check(one, one * factor)
        assert check.records[""].max_relative_error == expected
    assert check.records[""].worst == (1.0, 3.0)
    assert check.records[""].checked == 3


def test_results_of_another_form_are_noted_and_given_on() -> None:
    check = CheckLayer()
    first = torch.ones(2)
    assert check(first, torch.ones(3)) is first
    assert check.records[""].notes == ["the second result has another form"]
    assert check.records[""].checked == 0


# -- FuzzCheck finds what it is for ----------------------------------------------------------------------------------


def test_a_function_that_cancels_alerts_and_one_that_does_not_is_silent() -> None:
    x = torch.full((500,), 1 + 2.0**-12)
    FuzzCheck(torch.sin, on_alert="raise")(x)
    bad = FuzzCheck(cancels)
    with pytest.raises(PrecisionAlert, match="cancels, call 1: the maximal relative error is at least"):
        bad(x)
    # A step of float32 is 2**-23: 2**-12 against 2**-12 - 2**-23, over their sum.
    record = bad.records[""]
    assert record.max_relative_error == 2.0**-23 / (2.0**-11 - 2.0**-23)
    # At the largest of them, 2**-12 + 2**-23, a step is 2**-35.
    assert record.max_scaled_ulp == 2.0**12
    assert record.first_failing_call == 1


def test_noise_of_the_published_kind_is_there_for_comparison() -> None:
    # Above 1/4, float32 does not see 1e-8.
    check = FuzzCheck(torch.sin, noise="fumi")
    check(torch.linspace(0.3, 1.0, 500))
    assert check.records[""].max_relative_error == 0.0
    check(torch.linspace(0.01, 0.2, 500))
    assert check.records[""].max_relative_error > 0.0


def test_a_substitute_is_held_against_the_layer() -> None:
    x = torch.linspace(0.5, 1.0, 100)
    told: list[PrecisionAlert] = []
    check = FuzzCheck(torch.exp, "substitute", substitute=lambda x: 1 + x + x * x / 2, on_alert=told.append)
    assert torch.equal(check(x), torch.exp(x))
    # At 1: e = 2.71828 against 2.5.
    assert check.records[""].max_relative_error == pytest.approx((2.718281828 - 2.5) / (2.718281828 + 2.5), rel=1e-6)
    assert len(told) == 1


def test_upcast_shows_what_a_sum_in_float16_loses() -> None:
    def summed(x: Any) -> Any:
        total = torch.zeros((), dtype=x.dtype)
        for one in x:
            total = total + one
        return total

    # From 2048 on, float16 does not see 1: 3000 ones sum to 2048.
    told: list[PrecisionAlert] = []
    check = FuzzCheck(summed, "upcast", on_alert=told.append)
    assert check(torch.ones(3000, dtype=torch.float16)).item() == 2048.0
    assert check.records[""].worst == (2048.0, 3000.0)
    assert check.records[""].max_relative_error == 952 / 5048
    assert len(told) == 1


def test_upcast_runs_a_module_with_wide_parameters() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(64, 8).bfloat16()
    check = FuzzCheck(layer, "upcast", on_alert=lambda _: None)
    x = torch.randn(16, 64, dtype=torch.bfloat16)
    result = check(x)
    assert layer.weight.dtype == torch.bfloat16
    exact = functional.linear(x.double(), layer.weight.double(), layer.bias.double())
    # Against the float32 run, which for 64 terms is exact next to bfloat16's step of 2**-8.
    expected = ((result.double() - exact).abs() / exact.abs().max()).max().item() * 2.0**8
    assert check.records[""].max_scaled_ulp == pytest.approx(expected, rel=0.5)
    assert check.records[""].max_scaled_ulp <= 1.0


# -- The same bits ---------------------------------------------------------------------------------------------------


class Model(nn.Module):
    """Convolution, running statistics, dropout, an in-place activation, recurrence, attention, tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.3)
        self.rnn = nn.LSTM(8, 8, batch_first=True, dropout=0.2, num_layers=2)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(8, 8)
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.head.weight

    def forward(self, x: Any) -> Any:
        x = self.drop(self.act(self.norm(self.conv(x)))).mean(-1).transpose(1, 2)
        x, (hidden, _) = self.rnn(x)
        x, weights = self.attention(x, x, x)
        return self.tied(self.head(x)).sum() + hidden.sum() + weights.square().sum()


NAMES = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Dropout, nn.LSTM, nn.MultiheadAttention, nn.Linear)


def trained(model: Any, steps: int = 3, autocast: bool = False) -> tuple[list[Any], dict[str, Any], Any]:
    """Losses and gradients, the state, and the random state after a few steps."""
    torch.manual_seed(11)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = model(torch.randn(4, 3, 6, 5))
        loss.backward()
        seen += [loss.detach().clone(), *(one.grad.clone() for one in model.parameters())]
        optimizer.step()
    return seen, model.state_dict(), torch.get_rng_state()


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("mode", ["perturb", "upcast"])
def test_outputs_gradients_statistics_and_random_state_are_those_of_the_plain_model(mode: str, autocast: bool) -> None:
    torch.manual_seed(5)
    plain = Model()
    checked = add_fuzz_checks(copy.deepcopy(plain), NAMES, mode=mode, on_alert=lambda _: None)
    assert len(fuzz_checks(checked)) == 8
    expected, state, random_state = trained(plain, autocast=autocast)
    found, checked_state, checked_random_state = trained(checked, autocast=autocast)
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert list(state) == list(checked_state)
    assert all(torch.equal(state[key], checked_state[key]) for key in state)
    assert torch.equal(random_state, checked_random_state)
    for path, check in fuzz_checks(checked).items():
        assert check.deterministic, path
        for record in check.records.values():
            assert (record.count, record.checked, record.notes) == (3, 3, []), (path, record)
            assert record.layer == path


def test_dropout_draws_the_same_mask_in_both_runs() -> None:
    check = FuzzCheck(nn.Dropout(0.5), on_alert="raise")
    result = check(torch.ones(1000))
    assert 300 < (result == 0).sum() < 700
    # Another mask would put 2 against 0: an ULP in the differing elements is all there is.
    assert check.records[""].max_scaled_ulp <= 1.0
    assert check.records[""].max_ulp > 0


def test_running_statistics_move_once() -> None:
    check = FuzzCheck(nn.BatchNorm1d(2, momentum=0.5))
    check(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    # Halfway from 0 to the means 2 and 4.
    assert check.layer.running_mean.tolist() == [1.0, 2.0]
    assert check.layer.num_batches_tracked.item() == 1


def test_a_layer_that_writes_to_its_input_writes_once_and_is_compared() -> None:
    def doubles(x: Any) -> Any:
        return x.mul_(2.0)

    x = torch.tensor([1.0, 3.0])
    check = FuzzCheck(doubles, on_alert="raise")
    assert check(x) is x
    assert x.tolist() == [2.0, 6.0]
    assert check.records[""].checked == 1
    assert 0 < check.records[""].max_ulp <= 1.0


def test_gradients_flow_through_the_first_run_alone() -> None:
    runs = []

    def function(x: Any) -> Any:
        runs.append((torch.is_grad_enabled(), x.requires_grad))
        return x**3

    x = torch.tensor([2.0], requires_grad=True)
    FuzzCheck(function)(x).backward()
    assert x.grad.item() == 12.0
    assert runs == [(True, True), (False, False), (False, False)]  # as asked for, once for determinism, perturbed


def test_a_weight_cast_in_the_second_run_keeps_its_gradient_under_autocast() -> None:
    layer = nn.Linear(4, 4)
    x = torch.randn(2, 4)
    check = FuzzCheck(torch.relu, "substitute", substitute=lambda x: layer(x) * 0 + torch.relu(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(x)
        layer(x).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("training", [True, False])
def test_a_checkpointed_layer_is_recomputed_with_the_same_numbers(training: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    def gradient(layer: Any) -> Any:
        torch.manual_seed(2)
        x = torch.randn(8, 4, requires_grad=True)
        checkpoint(layer, x, use_reentrant=False).sum().backward()
        return x.grad

    plain = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train(training)
    expected = gradient(plain)
    assert torch.equal(gradient(FuzzCheck(plain)), expected)


# -- What is no layer under test -------------------------------------------------------------------------------------


def test_a_layer_that_is_not_deterministic_is_said_so_and_not_compared() -> None:
    calls = iter(range(100))
    check = FuzzCheck(lambda x: x + next(calls))
    with pytest.warns(NotDeterministic, match="two results for equal inputs"):
        result = check(torch.ones(2))
    assert result.tolist() == [1.0, 1.0]
    assert check(torch.ones(2)).tolist() == [4.0, 4.0]  # 1 and 2 went to the test of determinism; now it runs alone
    record = check.records[""]
    assert (record.count, record.checked) == (2, 0)
    assert record.notes == ["it gives two results for equal inputs"]


@pytest.mark.parametrize("trained_first", [True, False])
def test_a_layer_whose_kernels_differ_with_gradients_is_compared_among_like_kernels(trained_first: bool) -> None:
    def two_kernels(x: Any) -> Any:
        return x * 2 if torch.is_grad_enabled() else x * 2.5

    check = FuzzCheck(two_kernels, on_alert="raise")
    for enabled in (trained_first, not trained_first, True, False):
        with torch.set_grad_enabled(enabled):
            assert check(torch.ones(3)).tolist() == [2.0 if enabled else 2.5] * 3
    assert check.deterministic
    assert (check.records[""].count, check.records[""].checked) == (4, 4)
    # 2.5 times a step of 1 is 1.25 steps of 2.5, which rounds to one.
    assert check.records[""].max_scaled_ulp == 1.0


def test_a_second_run_that_fails_leaves_the_model_running_and_is_noted() -> None:
    def picky(x: Any) -> Any:
        if not torch.equal(x, torch.ones(2)):
            raise ValueError("ones only")
        return x * 2

    check = FuzzCheck(picky)
    with pytest.warns(UserWarning, match="second run failed: ValueError: ones only"):
        assert check(torch.ones(2)).tolist() == [2.0, 2.0]
    assert check.records[""].notes == ["the second run failed: ValueError: ones only"]
    with pytest.raises(ValueError, match="ones only"):
        check(torch.zeros(2))  # the layer's own error is the caller's


def test_every_so_many_calls_are_checked_after_the_first_ones() -> None:
    runs = []
    check = FuzzCheck(lambda x: runs.append(1) or x * 2, every=4, first=2)
    for _ in range(10):
        check(torch.ones(1))
    # Calls 1, 2, 5 and 9, and one run for determinism.
    assert check.records[""].checked == 4
    assert check.records[""].count == 10
    assert len(runs) == 10 + 4 + 1


def test_a_check_within_a_layer_under_test_sleeps_in_the_second_run() -> None:
    inner = FuzzCheck(nn.Linear(3, 3))
    outer = FuzzCheck(nn.Sequential(inner, nn.Tanh()))
    outer(torch.randn(2, 3))
    assert inner.records[""].count == outer.records[""].count == 1


def test_settings_that_mean_nothing_are_refused() -> None:
    for make in (
        lambda: FuzzCheck(torch.exp, "shuffle"),
        lambda: FuzzCheck(torch.exp, "substitute"),
        lambda: FuzzCheck(torch.exp, substitute=torch.sin),
        lambda: FuzzCheck(torch.exp, every=0),
        lambda: FuzzCheck(3),
        lambda: CheckLayer(on_alert="shout"),
        lambda: FuzzLayer("gaussian"),
    ):
        with pytest.raises(UsageError):
            make()


# -- In models: saved, copied, removed, compiled ---------------------------------------------------------------------


def small() -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 2))


def test_the_state_dict_is_the_plain_one_and_loads_both_ways() -> None:
    plain, checked = small(), add_fuzz_checks(small(), (nn.Linear, nn.BatchNorm1d))
    plain(torch.randn(8, 4))
    buffer = io.BytesIO()
    torch.save(plain.state_dict(), buffer)
    buffer.seek(0)
    checked.load_state_dict(torch.load(buffer, weights_only=True), strict=True)
    assert list(checked.state_dict()) == list(plain.state_dict())
    assert torch.equal(checked[0].weight, plain[0].weight)
    assert torch.equal(checked[1].running_mean, plain[1].running_mean)
    other = small()
    with torch.no_grad():
        checked[3].weight.fill_(7.0)
    other.load_state_dict(checked.state_dict(), strict=True)
    assert torch.all(other[3].weight == 7.0)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        checked.load_state_dict(plain.state_dict() | {"0.surplus": torch.ones(1)})
    with pytest.raises(RuntimeError, match="Missing key"):
        checked.load_state_dict({key: value for key, value in plain.state_dict().items() if key != "0.weight"})


def test_a_lone_check_loads_its_layers_state() -> None:
    layer = nn.Linear(2, 2)
    check = FuzzCheck(nn.Linear(2, 2))
    check.load_state_dict(layer.state_dict())
    assert torch.equal(check.weight, layer.weight)
    assert list(check.state_dict()) == ["weight", "bias"]


def test_a_model_with_checks_is_copied_and_saved_whole_with_its_records() -> None:
    model = add_fuzz_checks(small(), nn.Linear)
    x = torch.randn(8, 4)
    expected = model.eval()(x)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    for again in (copy.deepcopy(model), torch.load(buffer, weights_only=False)):
        assert torch.equal(again(x), expected)
        assert [check.records[""].count for check in fuzz_checks(again).values()] == [2, 2]
        with torch.no_grad():
            again[0].weight.zero_()
    assert torch.equal(model(x), expected)  # none of the copies shares weights
    assert [check.records[""].count for check in fuzz_checks(model).values()] == [2, 2]


def test_removing_the_checks_gives_the_plain_model_back() -> None:
    plain = small()
    layers = list(plain)
    model = add_fuzz_checks(plain, lambda path, module: path in {"0", "2"})
    assert [type(one) for one in model] == [FuzzCheck, nn.BatchNorm1d, FuzzCheck, nn.Linear]
    assert remove_fuzz_checks(model) is model
    assert all(one is layer for one, layer in zip(model, layers, strict=True))
    lone = FuzzCheck(FuzzCheck(layers[0]))
    assert remove_fuzz_checks(lone) is layers[0]


def test_removing_reaches_functions_shared_modules_and_nested_ones() -> None:
    class Owner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = FuzzCheck(torch.tanh)
            self.one = nn.Linear(2, 2)
            self.other = self.one
            self.inner = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), FuzzCheck(torch.sin))

    owner = Owner()
    one = owner.one
    add_fuzz_checks(owner, nn.Linear)
    assert owner.one is owner.other
    assert set(fuzz_checks(owner)) == {"function", "one", "inner.0.0", "inner.1"}
    remove_fuzz_checks(owner)
    assert owner.function is torch.tanh
    assert owner.one is owner.other is one
    assert isinstance(owner.inner[0][0], nn.Linear)
    assert not owner.inner[1].enabled  # a Sequential holds modules alone
    assert owner.inner[1](torch.ones(1)) == torch.sin(torch.ones(1))
    assert owner.inner[1].records == {}


def test_a_disabled_check_runs_the_layer_alone() -> None:
    runs = []
    check = FuzzCheck(lambda x: runs.append(1) or x)
    check.enabled = False
    check(torch.ones(1))
    assert (len(runs), check.records) == (1, {})


def test_attributes_and_items_are_the_layers() -> None:
    check = FuzzCheck(nn.Sequential(nn.Linear(3, 5), nn.ReLU()))
    assert (len(check), check[0].out_features, [type(one) for one in check]) == (2, 5, [nn.Linear, nn.ReLU])
    assert FuzzCheck(nn.Linear(3, 5)).in_features == 3
    assert bool(FuzzCheck(nn.Sequential()))
    with pytest.raises(AttributeError):
        _ = check.no_such_thing
    with pytest.raises(AttributeError):
        _ = FuzzCheck(lambda x: x).no_such_thing


def test_the_fast_path_of_a_transformer_is_no_error() -> None:
    torch.manual_seed(0)
    plain = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    expected = plain(x)
    checked = add_fuzz_checks(copy.deepcopy(plain), nn.Linear)
    with torch.no_grad():
        assert torch.equal(checked(x), plain(x))
    assert torch.equal(checked(x), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_under_compile_the_graph_breaks_at_the_check_and_the_rest_is_compiled() -> None:
    class Surrounded(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            y = self.layer(torch.cos(x))
            return torch.exp(y)

    graphs: list[str] = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph.code)
        return graph

    torch.manual_seed(1)
    layer = nn.Linear(3, 3)
    x = torch.randn(4, 3)
    model = Surrounded(FuzzCheck(layer))
    result = torch.compile(model, backend=backend)(x)
    assert torch.equal(result, Surrounded(layer)(x))
    assert model.layer.records[""].checked == 1
    assert len(graphs) == 2
    assert "cos" in graphs[0]
    assert "exp" in graphs[1]
    assert "linear" not in "".join(graphs)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"FuzzCheck\.run"):
        torch.compile(model, backend="eager", fullgraph=True)(x)
