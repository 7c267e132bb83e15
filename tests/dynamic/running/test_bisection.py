"""Which layers must be upcast: planted ones are found, and runs with upcast layers equal what is written by hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from opscanner.errors import UsageError

torch = pytest.importorskip("torch")
from opscanner.dynamic.running.bisection import bisect_precision  # noqa: E402
from opscanner.dynamic.running.selective import SelectiveModel, calls_of  # noqa: E402

functional = torch.nn.functional
BFLOAT16 = torch.bfloat16


class NormByDifference(torch.nn.Module):
    """A layer norm whose variance is E[x^2] - E[x]^2, which cancels where the mean is large."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight


class Rotary(torch.nn.Module):
    """Rotary embedding; positions and angles in the format of x, or in float32 as they should be."""

    def __init__(self, is_careful: bool) -> None:
        super().__init__()
        self.is_careful = is_careful

    def forward(self, x: Any) -> Any:
        dtype = torch.float32 if self.is_careful else x.dtype
        frequencies = 10000 ** (-torch.arange(0, x.shape[-1], 2, dtype=dtype) / x.shape[-1])
        angles = torch.arange(x.shape[-2], dtype=dtype)[:, None] * frequencies
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)


class Attention(torch.nn.Module):
    def __init__(self, width: int, heads: int, is_careful: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.rotary = Rotary(is_careful)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(self.rotary(query), self.rotary(key), value)
        return self.out(seen.transpose(1, 2).reshape(batch, length, width))


class Block(torch.nn.Module):
    def __init__(self, norm: Any, is_careful: bool, width: int = 64) -> None:
        super().__init__()
        self.norm1 = norm(width)
        self.attention = Attention(width, 4, is_careful)
        self.norm2 = torch.nn.LayerNorm(width)
        self.feed = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.feed(self.norm2(x))


def block(norm: Any = torch.nn.LayerNorm, is_careful: bool = True) -> tuple[Any, Any]:
    """A block in bfloat16, and 400 rows around 8: positions past 256 are no bfloat16 numbers."""
    torch.manual_seed(0)
    model = Block(norm, is_careful).to(BFLOAT16).eval()
    with torch.no_grad():
        model.attention.qkv.weight *= 2
        model.attention.out.weight *= 2
    return model, (torch.randn(1, 400, 64) + 8).to(BFLOAT16)


@pytest.mark.parametrize(
    ("norm", "is_careful", "planted"),
    [
        (torch.nn.LayerNorm, True, ()),
        (NormByDifference, True, ("norm1",)),
        (torch.nn.LayerNorm, False, ("attention.rotary",)),
        (NormByDifference, False, ("norm1", "attention.rotary")),
    ],
)
def test_planted_layers_are_the_smallest_set_and_lead_the_ranking(
    norm: Any, is_careful: bool, planted: tuple[str, ...]
) -> None:
    model, x = block(norm, is_careful)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    found = bisect_precision(model, x, metric="norm", tolerance=0.004)
    assert found.smallest == planted
    assert found.is_proven_smallest
    assert found.is_minimal
    assert (found.format, found.to) == ("bfloat16", "float32")
    assert tuple(layer.path for layer in found.layers[: len(planted)]) == planted
    assert found.error_smallest is not None
    assert found.error_smallest <= 0.004
    assert (found.error > 0.004) == bool(planted)
    # float32 computes this block so well that the rounding of the output is all that is left.
    assert found.error_everything == pytest.approx(found.error_rounding, rel=1e-3)
    costs = [layer.cost for layer in found.layers[len(planted) :]]
    assert costs == sorted(costs, key=lambda cost: -(cost or 0))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert all("forward" not in module.__dict__ for module in model.modules())
    assert torch.get_default_dtype() is torch.float32


def test_the_same_question_gets_the_same_answer() -> None:
    assert bisect_precision(*block(NormByDifference)) == bisect_precision(*block(NormByDifference))


def test_layers_are_modules_with_code_that_computes() -> None:
    found = bisect_precision(*block(), metric="norm", tolerance=0.1)
    own_code = {layer.path: layer.is_own_code for layer in found.layers}
    # feed is an nn.Sequential, which only calls.
    assert own_code == {
        "": True, "norm1": False, "attention": True, "attention.qkv": False, "attention.rotary": False,
        "attention.out": False, "norm2": False, "feed.0": False, "feed.1": False, "feed.2": False,
    }  # fmt: skip
    assert {layer.path: layer.calls for layer in found.layers}["attention.rotary"] == 2
    assert {layer.path: layer.parameters for layer in found.layers}["attention.qkv"] == 64 * 192 + 192


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_modules_that_are_not_called_are_part_of_the_one_above() -> None:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to(BFLOAT16)
    x = torch.randn(2, 5, 16).to(BFLOAT16)
    slow = {layer.path: layer for layer in bisect_precision(model.train(), x, metric="norm", tolerance=0.1).layers}
    # Attention does not call its out_proj, but takes its weights: 3 * 16 * 16 + 3 * 16 and 16 * 16 + 16.
    assert not slow["self_attn"].is_own_code
    assert slow["self_attn"].parameters == 1088
    assert slow[""].is_own_code
    (fast,) = bisect_precision(model.eval(), x, metric="norm", tolerance=0.1).layers
    assert not fast.is_own_code
    assert fast.parameters == sum(one.numel() for one in model.parameters())


def test_modules_below_the_depth_belong_to_those_above() -> None:
    model, x = block(NormByDifference, False)
    found = bisect_precision(model, x, metric="norm", tolerance=0.004, depth=1)
    assert {layer.path for layer in found.layers} == {"", "norm1", "attention", "norm2", "feed"}
    assert found.smallest == ("norm1", "attention")


def test_a_tolerance_below_the_rounding_of_the_output_is_not_reached() -> None:
    found = bisect_precision(*block(), metric="norm", tolerance=1e-4)
    assert found.smallest is None
    assert found.error_smallest is None
    assert found.error_everything > 1e-4
    assert found.error_rounding > 1e-4


def test_the_largest_error_of_several_inputs_counts() -> None:
    model, bad = block(NormByDifference)
    good = bad - 8
    errors = [bisect_precision(model, one, metric="norm", tolerance=1.0).error for one in (good, bad, [good, bad])]
    assert errors[2] == errors[1] > errors[0]


def chain() -> tuple[Any, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)).to(BFLOAT16)
    return model, torch.randn(5, 16).to(BFLOAT16)


def test_an_upcast_layer_is_rounded_where_one_that_is_not_takes_it() -> None:
    model, x = chain()
    runner, call = SelectiveModel(model, torch.float32), calls_of(x)[0]
    plain = runner.plain(call)
    assert torch.equal(plain, model(x))
    wide = copy.deepcopy(model).float()
    with torch.no_grad():
        assert torch.equal(runner.upcast(call, ["0"]), model[2](model[1](wide[0](x.float()).to(BFLOAT16))))
        assert torch.equal(runner.upcast(call, ["1"]), model[2](wide[1](model[0](x).float()).to(BFLOAT16)))
        # Between neighbours nothing is rounded.
        assert torch.equal(runner.upcast(call, ["0", "1"]), model[2](wide[1](wide[0](x.float())).to(BFLOAT16)))
        assert torch.equal(runner.upcast(call, ["0", "1", "2"]), wide(x.float()).to(BFLOAT16))


def test_everything_upcast_to_float64_is_the_float64_run_rounded_once() -> None:
    model, x = block(NormByDifference, False)
    runner, call = SelectiveModel(model, torch.float64), calls_of(x)[0]
    runner.plain(call)
    reference = runner.reference(call)
    assert reference.dtype is torch.float64
    assert torch.equal(runner.upcast(call, runner.units), reference.to(BFLOAT16))


def test_a_recurrent_layer_can_be_upcast() -> None:
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(6, 6)
            self.lstm = torch.nn.LSTM(6, 5)

        def forward(self, x: Any) -> Any:
            return self.lstm(self.first(x))[0]

    torch.manual_seed(0)
    model, x = Recurrent().to(BFLOAT16), torch.randn(7, 2, 6).to(BFLOAT16)
    runner, call = SelectiveModel(model, torch.float32), calls_of(x)[0]
    runner.plain(call)
    wide = copy.deepcopy(model).float()
    with torch.no_grad():
        assert torch.equal(runner.upcast(call, ["lstm"]), wide.lstm(model.first(x).float())[0].to(BFLOAT16))
        assert torch.equal(runner.upcast(call, ["first", "lstm"]), wide(x.float()).to(BFLOAT16))


def test_dropout_has_the_same_mask_in_each_run_and_running_statistics_stay() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)).to(BFLOAT16)
    x = torch.randn(16, 8).to(BFLOAT16)
    before = copy.deepcopy(model.state_dict())
    found = bisect_precision(model, x, metric="norm", tolerance=0.05)
    # Other masks would make an error of about 1.
    assert all((layer.error_alone or 0) < 0.05 for layer in found.layers)
    assert not found.notes
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())


def test_a_layer_under_autocast_is_found() -> None:
    class Cast(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Linear(32, 32)
            self.second = torch.nn.Linear(32, 32)

        def forward(self, x: Any) -> Any:
            with torch.autocast("cpu", dtype=BFLOAT16):
                x = self.first(x)
            return self.second(x.float())

    torch.manual_seed(0)
    found = bisect_precision(Cast(), torch.randn(4, 32), metric="norm", tolerance=1e-6, to="float32")
    assert found.format == "bfloat16"
    # The model's own code is the cast of first's result, which is rounded for it otherwise.
    assert found.smallest == ("first", "")
    assert found.error > 1e-4


def test_a_model_that_draws_by_itself_is_told_of() -> None:
    numbers = iter(range(1000))

    class Drifting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            return x * self.weight * next(numbers)

    found = bisect_precision(Drifting(), torch.ones(3), metric="norm", tolerance=0.1)
    assert "other results each time" in found.notes[0]


@torch.library.custom_op("opscanner_tests::not_in_float32", mutates_args=())
def not_in_float32(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is torch.float32:
        raise NotImplementedError("no kernel for float32")
    return x * 2


def test_a_layer_whose_operator_refuses_the_wide_format_is_skipped_with_its_reason() -> None:
    class Custom(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return not_in_float32(x)

    model, x = chain()
    model.append(Custom())
    found = bisect_precision(model, x, metric="norm", tolerance=0.1)
    skipped = found.layers[-1]
    assert skipped.path == "3"
    assert "opscanner_tests.not_in_float32.default failed in float32" in skipped.refused
    assert "no kernel for float32" in skipped.refused
    assert (skipped.gain, skipped.cost, skipped.error_alone, skipped.error_without) == (None,) * 4
    assert [layer.refused for layer in found.layers[:-1]] == [""] * 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "mse"}, "mse"),
        ({"metric": "norm"}, "tolerance must be given"),
        ({"tolerance": 0.0}, "tolerance of 0"),
        ({"to": "float33"}, "float33"),
        ({"to": "bfloat16"}, "narrower than bfloat16"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        bisect_precision(*chain(), **options)


def test_outputs_without_numbers_are_refused() -> None:
    class Picks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.layer(x).argmax(-1)

    with pytest.raises(UsageError, match="floating-point"):
        bisect_precision(Picks(), torch.ones(2, 4))


def test_inputs_are_positional_named_or_several() -> None:
    one = torch.ones(1)
    assert [call.args for call in calls_of(one)] == [(one,)]
    assert [call.args for call in calls_of((one, one))] == [(one, one)]
    assert [call.kwargs for call in calls_of({"x": one})] == [{"x": one}]
    assert [(call.args, dict(call.kwargs)) for call in calls_of([one, {"x": one}])] == [((one,), {}), ((), {"x": one})]
    with pytest.raises(UsageError, match="empty"):
        calls_of([])
