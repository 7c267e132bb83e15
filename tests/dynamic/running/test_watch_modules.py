"""``watch(mode="upcast")``: planted faults are found where they are, and models done right are let be."""

from __future__ import annotations

import copy
import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

import opscanner  # noqa: E402
from opscanner.watched import AlertKind  # noqa: E402
from tests.dynamic.running.planted import Attention, Loss, transformer  # noqa: E402

nn = torch.nn
functional = torch.nn.functional
FORMATS = [torch.float32, torch.float16, torch.bfloat16]


def watched(model, *inputs, **options):
    torch.manual_seed(0)
    with opscanner.watch(model, mode="upcast", **options) as report:
        model(*inputs)
    return report


def sequence(length: int, dtype) -> torch.Tensor:
    return torch.randn(1, length, 8, generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_no_alert_on_a_transformer_done_right(dtype, offset):
    report = watched(transformer(offset=offset).to(dtype), sequence(256, dtype))
    assert [alert.message for alert in report.alerts] == []
    assert {site.module for site in report} >= {"1.before", "1.attention", "2.feed.1"}
    assert report.unchecked == {}


@pytest.mark.parametrize(
    ("wrong", "dtype", "options", "guilty"),
    [
        ("sum", torch.float32, {}, ".attention"),
        ("rotation", torch.float32, {}, ".attention"),
        ("rotation", torch.float16, {"scale": 2.0}, ".attention"),
        ("rotation", torch.bfloat16, {"scale": 2.0}, ".attention"),
        ("norm", torch.float32, {"offset": 100.0}, ".before"),
        ("norm", torch.float16, {"offset": 100.0}, ".before"),
        ("norm", torch.bfloat16, {"offset": 100.0}, ".before"),
        ("maximum", torch.float32, {"scale": 16.0}, ".attention"),
        ("maximum", torch.float16, {"scale": 6.0}, ".attention"),
        ("gelu", torch.float16, {}, ".feed.1"),
        ("gelu", torch.bfloat16, {}, ".feed.1"),
    ],
)
def test_a_planted_fault_is_found_in_its_own_module(wrong, dtype, options, guilty):
    length = 32 if wrong == "maximum" else 256  # short: large scores would show how float32 rounds angles
    report = watched(transformer(wrong, **options).to(dtype), sequence(length, dtype))
    assert report.failing
    assert all(site.module.endswith((guilty, ".between")) for site in report.failing)
    right = watched(transformer(**options).to(dtype), sequence(length, dtype))
    assert [alert.message for alert in right.alerts] == []


def test_a_softmax_that_adds_in_float16_is_found_in_a_float16_model():
    """From 2048 on, terms of 1 are lost."""
    torch.manual_seed(0)
    x = 0.1 * torch.randn(1, 4096, 32, dtype=torch.float16)
    for wrong, alerts in (("sum", 1), ("", 0)):
        model = Attention(wrong).half()
        module = nn.Module()
        module.forward = lambda scores, model=model: model.weights(scores)
        scores = x[:, :4] @ x.transpose(1, 2)
        with opscanner.watch(module, mode="upcast") as report:
            module(scores)
        assert len(report.alerts) == alerts


@pytest.mark.parametrize("wrong", [True, False])
def test_a_loss_that_averages_in_float16_over_70000_rows_overflows(wrong):
    model = Loss(wrong)
    report = watched(model, torch.zeros(70000, 2), torch.ones(70000, 2))
    kinds = [alert.kind for alert in report.alerts]
    assert kinds == ([AlertKind.OVERFLOW] if wrong else [])
    if wrong:
        assert "the wider result is 1 " in report.alerts[0].message


def training_step(model, x):
    torch.manual_seed(1)
    output = model(x)
    output.float().pow(2).mean().backward()
    found = {"output": output.detach().clone(), "next": torch.rand(3)}
    found |= {f"gradient of {name}": one.grad.clone() for name, one in model.named_parameters()}
    return found | {f"buffer {name}": one.clone() for name, one in model.named_buffers()}


class Residual(nn.Module):
    """Adds in place to what a submodule returned, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.seen: list[int] = []
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.seen.append(self.calls)
        y = functional.dropout(self.body(x), 0.3, self.training)
        y += x
        return y


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(6, 5, batch_first=True, num_layers=2, dropout=0.2)

    def forward(self, x):
        return self.cells(x)[0]


MODELS = {
    "residual": (lambda: nn.Sequential(Residual(), Residual()), (2, 4, 6, 6)),
    "recurrent": (Recurrent, (2, 7, 6)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (2, 5, 16)),
    "planted": (transformer, (2, 5, 8)),
}


@pytest.mark.parametrize("mode", ["upcast", "perturb"])
@pytest.mark.parametrize("name", MODELS)
def test_a_watched_model_computes_the_same_bits(name, mode):
    build, shape = MODELS[name]
    torch.manual_seed(0)
    model = build()
    x = torch.randn(shape)
    plain = training_step(copy.deepcopy(model), x)
    with opscanner.watch(model, mode=mode, level="module") as report:
        again = training_step(model, x)
    assert [key for key in plain if not torch.equal(plain[key], again[key])] == []
    assert [alert.message for alert in report.alerts] == []
    assert report.unchecked.keys() <= {"of modules that write over tensors, in their first call"}


def test_what_a_module_keeps_of_its_calls_is_kept_once():
    model = Residual()
    with opscanner.watch(model, mode="upcast"):
        for _ in range(3):
            model(torch.randn(1, 4, 6, 6))
    assert model.calls == 3
    assert model.seen == [1, 2, 3]


def test_results_that_are_written_over_are_checked_from_the_second_call_on():
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))

    class Adds(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x):
            y = self.inner(x)
            y += x
            return y

    outer = Adds()
    with opscanner.watch(outer, mode="upcast") as report:
        for _ in range(3):
            outer(torch.ones(2, 3))
    [site] = [site for site in report if site.operator == "Adds"]
    assert (site.count, site.checked) == (3, 2)
    assert report.unchecked == {"of modules that write over tensors, in their first call": 1}


def test_dropout_drops_the_same_elements_in_the_second_run():
    """Else the worst error would be whole elements."""
    model = Residual()
    x = torch.randn(8, 4, 6, 6)
    with opscanner.watch(model, mode="upcast") as report:
        model(x)
        model(x)
    site = next(site for site in report if site.operator == "Residual")
    assert site.checked == 2
    assert 0 < site.max_scaled_ulp < 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_rounds_inputs_and_is_no_fault_of_layers(dtype):
    model = transformer()
    with torch.autocast("cpu", dtype=dtype):
        report = watched(model, sequence(64, torch.float32))
    assert [alert.message for alert in report.alerts] == []
    assert max(site.max_ulp for site in report) > 1


def test_a_module_that_goes_another_way_when_it_is_wide_is_said_so():
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(x) if x.dtype is torch.float32 else x

    report = watched(Looks(), torch.ones(1, 2))
    [site] = [site for site in report if site.operator == "Looks"]
    assert "calls fewer modules than the first run did" in site.notes[0]
    assert report.unchecked == {"of modules whose second run raised": 1}


def test_a_model_that_raises_leaves_no_hook_behind():
    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = nn.Sequential(nn.Linear(2, 2), Raises())
    with pytest.raises(ValueError, match="no"):
        watched(model, torch.ones(1, 2))
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert watched(nn.Linear(2, 2), torch.ones(1, 2)).alerts == []


class Cache:
    def __init__(self) -> None:
        self.keys = torch.zeros(1, 0, 4)

    def update(self, keys):
        self.keys = torch.cat((self.keys, keys), 1)
        return self.keys


class Keeps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Linear(4, 4)

    def forward(self, x, cache):
        if isinstance(cache, dict):
            cache["keys"] = torch.cat((cache["keys"], self.keys(x)), 1)
            return cache["keys"].sum(1)
        return cache.update(self.keys(x)).sum(1)


@pytest.mark.parametrize("mode", ["upcast", "perturb"])
@pytest.mark.parametrize("word", [False, True])
@pytest.mark.parametrize("build", [Cache, lambda: {"keys": torch.zeros(1, 0, 4)}], ids=["object", "dictionary"])
def test_a_cache_that_is_an_argument_is_not_filled_twice(build, word, mode):
    torch.manual_seed(0)
    model, x = Keeps(), torch.randn(1, 1, 4)

    def run():
        cache = build()
        results = [model(x, cache=cache) if word else model(x, cache) for _ in range(3)]
        return torch.stack(results)

    plain = run()
    with opscanner.watch(model, mode=mode, level="module") as report:
        watched_run = run()
    assert torch.equal(plain, watched_run)
    assert report.alerts == []
    assert sum(report.unchecked.values()) == 3


@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:.*ScriptModule")
def test_torchscript_and_what_torch_func_runs_go_on():
    plain = nn.Linear(4, 4)
    scripted = torch.jit.script(plain)
    with opscanner.watch(mode="upcast") as report:
        assert torch.equal(scripted(torch.ones(2, 4)), plain(torch.ones(2, 4)))
        torch.func.vmap(plain)(torch.ones(3, 4))
    assert report.alerts == []
    assert report.unchecked["of modules inside of torch.func"] == 1


class Rotation(nn.Module):
    """Angles, their cosines and the rotation in one module, pairs of neighbours."""

    def forward(self, x):
        frequencies = 1e4 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
        angles = torch.arange(x.shape[-2]).float()[:, None] * frequencies
        cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_a_rotation_done_right_is_let_be_at_far_positions(dtype):
    """Where its two products cancel, one ULP of each may cancel too, six times in a row."""
    x = torch.randn(2, 2048, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert [alert.message for alert in watched(Rotation(), x).alerts] == []


def test_a_buffer_that_a_module_writes_to_is_read_as_it_was():
    class Accumulates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.total.mul_(0.9).add_(0.1 * x.mean(0))
            return x - self.total

    model = Accumulates()
    with opscanner.watch(model, mode="upcast") as report:
        for _ in range(3):
            model(torch.randn(8, 4))
    assert [alert.message for alert in report.alerts] == []
    assert report.sites[0].checked == 3


def test_other_threads_run_the_same_model_unwatched():
    model = transformer()
    x = sequence(64, torch.float32)
    model.eval()
    expected = model(x)
    results: list[torch.Tensor] = []
    with opscanner.watch(nn.Linear(2, 2), mode="upcast") as report:
        thread = threading.Thread(target=lambda: results.append(model(x)))
        thread.start()
        thread.join()
    assert torch.equal(results[0], expected)
    assert report.sites == []
    assert report.steps == 0


def test_a_watch_inside_a_watch_is_not_checked_by_it():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    with opscanner.watch(model) as outer, opscanner.watch(model, mode="upcast") as inner:
        model(torch.ones(2, 4))
    assert [(site.operator, site.count) for site in outer] == [("aten.addmm.default", 1), ("aten.tanh.default", 1)]
    assert all(site.count == 1 for site in inner)
