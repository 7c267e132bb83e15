"""``watch`` at the level of operators: what it changes (nothing), what it sees, and what it tells of."""

from __future__ import annotations

import copy
import inspect

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

import opscanner  # noqa: E402
from opscanner.errors import UsageError  # noqa: E402
from opscanner.watched import AlertKind, Direction  # noqa: E402

nn = torch.nn
functional = torch.nn.functional

MODES = [("perturb", "operator"), ("permute", "operator"), ("upcast", "operator")]


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(8 * 36, 5),
    )


def trained_step(model: nn.Module) -> dict[str, torch.Tensor]:
    """Everything that a step computes: output, gradients, buffers, and the random number that comes next."""
    torch.manual_seed(1)
    output = model(torch.randn(4, 3, 6, 6))
    functional.cross_entropy(output, torch.arange(4)).backward()
    found = {"output": output.detach().clone(), "next": torch.rand(3)}
    found |= {f"gradient of {name}": one.grad.clone() for name, one in model.named_parameters()}
    return found | {f"buffer {name}": one.clone() for name, one in model.named_buffers()}


@pytest.mark.parametrize(("mode", "level"), MODES)
def test_a_watched_model_computes_the_same_bits(mode, level):
    model = convolutional()
    plain = trained_step(copy.deepcopy(model))
    with opscanner.watch(model, mode=mode, level=level) as report:
        watched = trained_step(model)
    assert plain.keys() == watched.keys()
    assert [name for name in plain if not torch.equal(plain[name], watched[name])] == []
    assert sum(site.checked for site in report) > 5


def test_running_statistics_are_not_updated_twice():
    """native_batch_norm's schema does not say that it writes to its running statistics."""
    model = nn.BatchNorm1d(3, momentum=0.5)
    with opscanner.watch(model):
        model(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    assert model.running_mean.tolist() == [1.0, 1.0, 1.0]


def test_the_fast_path_of_the_transformer_encoder_stays_on():
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.inference_mode():
        plain = model(x)
        with opscanner.watch(model) as report:
            watched = model(x)
    assert torch.equal(plain, watched)
    assert [site.operator for site in report] == ["aten._transformer_encoder_layer_fwd.default"]


def test_calls_belong_to_the_module_that_makes_them_in_both_passes():
    model = convolutional()
    with opscanner.watch(model) as report:
        trained_step(model)
    found = {(site.module, site.operator, site.direction) for site in report}
    assert ("0", "aten.convolution.default", Direction.FORWARD) in found
    assert ("0", "aten.convolution_backward.default", Direction.BACKWARD) in found
    assert ("1", "aten.native_batch_norm_backward.default", Direction.BACKWARD) in found
    assert ("5", "aten.addmm.default", Direction.FORWARD) in found
    assert ("5", "aten.mm.default", Direction.BACKWARD) in found
    assert ("", "aten.nll_loss_forward.default", Direction.FORWARD) in found


def test_what_checkpointing_computes_again_is_forward_code_of_its_module():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(3, 4, requires_grad=True)
    with opscanner.watch(model) as report:
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()
    tanh = [site for site in report if site.operator == "aten.tanh.default"]
    assert [(site.module, site.direction, site.count) for site in tanh] == [("1", Direction.FORWARD, 2)]


def test_autocast_is_seen_as_the_formats_that_kernels_get():
    model = nn.Linear(4, 4)
    with opscanner.watch(model) as report, torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.randn(3, 4))
    [site] = [site for site in report if "addmm" in site.operator]
    assert site.formats == ("bfloat16",)
    assert report.unchecked["casts"] >= 2


def test_attention_is_seen_as_the_kernel_that_was_chosen():
    q = torch.randn(1, 2, 8, 16, requires_grad=True)
    with opscanner.watch() as report:
        functional.scaled_dot_product_attention(q, q, q).sum().backward()
    names = {site.operator for site in report}
    assert "aten._scaled_dot_product_flash_attention_for_cpu.default" in names
    assert "aten._scaled_dot_product_flash_attention_for_cpu_backward.default" in names


def test_sampling_checks_every_twentieth_call_of_each_site_and_sites_take_turns():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    with opscanner.watch(model, every=20) as report:
        for step in range(40):
            model(torch.ones(2, 4))
            if step == 0:
                assert [site.checked for site in report] == [1, 0, 0]
    assert [(site.count, site.checked) for site in report] == [(40, 2), (40, 2), (40, 2)]


def test_first_and_no_more():
    model = nn.Linear(4, 4)
    with opscanner.watch(model, first=3, every=0) as report:
        for _ in range(10):
            model(torch.ones(2, 4))
    assert [(site.count, site.checked) for site in report] == [(10, 3)]


def test_an_overflow_names_the_line_that_makes_it():
    class Scores(nn.Module):
        def forward(self, x):
            return x.exp()

    with opscanner.watch(Scores()) as report:
        Scores()(torch.tensor([1.0, 100.0]))
    [alert] = report.alerts
    assert alert.kind is AlertKind.NON_FINITE
    assert alert.site.location == f"{__file__}:{inspect.getsourcelines(Scores.forward)[1] + 1}"


def test_the_variance_that_cancels_is_told_of_and_the_one_that_does_not_is_not():
    x = 1000 + torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    with opscanner.watch() as report:
        (x * x).mean(-1) - x.mean(-1) ** 2
    assert [alert.site.operator for alert in report.alerts] == ["aten.sub.Tensor"]
    with opscanner.watch() as report:
        ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1)
    assert report.alerts == []


def test_gradients_that_are_zero_but_for_rounding_are_not_told_of():
    """A bias before a batch normalization, and a layer norm before a loss that depends on nothing but its weight."""
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.LayerNorm(6, elementwise_affine=False))
    torch.manual_seed(0)
    with opscanner.watch(model) as report:
        model(torch.randn(32, 6)).pow(2).mean().backward()
    assert report.alerts == []
    noted = {site.operator for site in report if site.notes}
    assert "aten.native_layer_norm_backward.default" in noted


def test_what_optimizers_compute_is_counted_and_checked_when_asked_for():
    def steps(**options):
        parameter = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, foreach=False)
        with opscanner.watch(**options) as report:
            for _ in range(2):
                (parameter * 2).sum().backward()
                optimizer.step()
        return parameter.detach(), report

    plain, unasked = steps()
    asked_for, asked = steps(optimizers=True)
    assert torch.equal(plain, asked_for)
    assert unasked.unchecked["of an optimizer"] > 0
    assert "aten.add_.Tensor" in {site.operator for site in asked}


def test_a_substitute_is_held_against_the_operator():
    def without_maximum(x, dim, half_to_float):
        return x.exp() / x.exp().sum(dim, keepdim=True)

    x = torch.tensor([[1.0, 2.0], [1.0, 90.0]])
    with opscanner.watch(mode="substitute", substitute={"aten._softmax": without_maximum}) as report:
        result = torch.softmax(x, -1)
    assert float(result[1, 1]) == 1.0
    [alert] = report.alerts
    assert alert.kind is AlertKind.NAN
    assert alert.site.worst_index == (1, 1)


def test_a_second_run_that_a_kernel_refuses_is_a_note_and_the_model_goes_on():
    def refuses(*args):
        raise RuntimeError("no such layout")

    with opscanner.watch(mode="substitute", substitute={"tanh": refuses}) as report:
        result = torch.tanh(torch.zeros(2))
    assert result.tolist() == [0.0, 0.0]
    [site] = report
    assert site.notes == ["the second run raised RuntimeError: no such layout"]
    assert report.unchecked["whose second run raised"] == 1


def test_a_compiled_model_is_said_to_run_operator_by_operator():
    model = torch.compile(nn.Linear(4, 4), backend="eager")
    with opscanner.watch(model) as report:
        model(torch.ones(2, 4))
    assert any("aten.addmm.default" in site.operator for site in report)
    assert "is compiled" in report.notes[0]


def test_relative_errors_are_those_of_fumi_where_its_mode_is_chosen():
    """Its constant for float32 is 1e-8: of these, an element of 0.25 moves by half an ULP, and 1 does not move."""
    x = torch.tensor([1.0, 0.1, 3.0e-3])
    with opscanner.watch(noise="fumi", tolerance=1e-9) as report:
        x * 1.0
    moved = x + torch.tensor(1e-8)
    counted = torch.minimum(x.abs(), moved.abs()) > 1e-4
    expected = ((x.double() - moved.double()).abs() / (x.double() + moved.double()).abs())[counted].max()
    [site] = report
    assert site.max_relative_error == pytest.approx(float(expected), rel=1e-12)
    assert site.alerts == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "shake"}, "there is no mode 'shake'"),
        ({"level": "line"}, "there is no level 'line'"),
        ({"every": 0}, "checks no call"),
        ({"noise": "white"}, "there is no noise 'white'"),
        ({"mode": "substitute"}, "mode substitute and candidates go together"),
        ({"mode": "permute", "level": "module"}, "mode permute works on operators"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, words):
    with pytest.raises(UsageError, match=words), opscanner.watch(**options):
        pass


def test_infinities_among_the_inputs_are_no_fault():
    """Quick noise would make NaN of them: infinity plus a share of it taken away."""
    mask = torch.tensor([[0.0, -float("inf")], [0.0, 0.0]])
    with opscanner.watch() as report:
        torch.softmax(torch.ones(2, 2) + mask, -1) @ torch.ones(2, 2)
    assert report.alerts == []
    assert [site.nan_mismatches for site in report] == [0, 0, 0]


def test_parameters_are_moved_when_asked_for():
    torch.manual_seed(0)
    layer = nn.Linear(64, 64)
    with opscanner.watch(layer) as report:
        layer.weight * 3
    assert report.sites[0].max_ulp == 0
    with opscanner.watch(layer, parameters=True) as report:
        layer.weight * 3
    assert report.sites[0].max_ulp > 0


def test_a_loop_outside_of_modules_is_one_site_for_each_line():
    with opscanner.watch() as report:
        for _ in range(5):
            x = torch.ones(3).exp()
            x.exp()
    assert [site.count for site in report] == [5, 5]


def test_of_large_elementwise_results_each_part_has_its_turn():
    """The first check is of all elements; an element that is worse later is found when its part is looked at."""
    x = torch.ones(8, 1 << 14)
    worse = x.clone()
    worse[5, 3] = 80.0
    exp = torch.ops.aten.exp.default
    with opscanner.watch(tolerance_ulp=0.5) as report:
        for number in range(9):
            exp(worse if number else x)
            if number == 4:
                assert report.sites[0].worst[0] < 3
    [site] = report
    assert (site.count, site.checked) == (9, 9)
    assert site.worst_index == (5, 3)
    assert site.worst[0] == pytest.approx(5.54e34, rel=1e-3)
    assert site.shapes == ((8, 1 << 14),)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor")
@pytest.mark.parametrize("level", ["operator", "module"])
@pytest.mark.parametrize("mode", ["upcast", "perturb"])
def test_nested_tensors_are_counted_and_the_encoder_goes_on(mode, level):
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False, False, True, True, True]])
    with torch.no_grad():
        plain = model(x, src_key_padding_mask=padding)
        with opscanner.watch(model, mode=mode, level=level) as report:
            watched = model(x, src_key_padding_mask=padding)
    assert torch.equal(plain, watched)
    assert report.unchecked["on nested tensors" if level == "operator" else "of modules on nested tensors"] == 2


def test_an_input_in_a_narrower_format_may_move_a_result_by_its_own_ulp():
    with opscanner.watch() as report:
        torch.rand(8, 16, generator=torch.Generator().manual_seed(0)).bfloat16().mean(-1, dtype=torch.float32)
    assert report.alerts == []


def test_gradients_that_read_a_workspace_are_not_run_in_another_format():
    torch.manual_seed(0)
    model = nn.LSTM(16, 24, bidirectional=True).bfloat16()
    with opscanner.watch(model, mode="upcast", level="operator") as report:
        model(torch.randn(10, 4, 16).bfloat16())[0].sum().backward()
    gradients = [site for site in report if "rnn_layer_backward" in site.operator]
    assert [site.checked for site in gradients] == [0] * len(gradients)


@pytest.mark.parametrize("mode", ["perturb", "permute"])
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_the_mean_of_what_is_normalized_already_is_zero_but_for_rounding(norm, mode):
    torch.manual_seed(0)
    model = nn.Sequential(norm(32), norm(32))
    with opscanner.watch(model, mode=mode) as report:
        model(torch.randn(64, 32))
    assert report.alerts == []


def test_what_an_alert_raises_ends_the_run_and_what_a_check_raises_does_not(monkeypatch):
    def refuse(alert):
        raise RuntimeError("stop at the first alert")

    with pytest.raises(RuntimeError, match="stop at the first alert"), opscanner.watch(on_alert=refuse):
        torch.exp(torch.tensor([100.0]))

    from opscanner.dynamic.running import examine

    monkeypatch.setattr(examine, "screen", lambda one, other: 1 / 0)
    with opscanner.watch() as report:
        assert float(torch.exp(torch.zeros(()))) == 1.0
    assert report.sites[0].notes == ["the second run raised ZeroDivisionError: division by zero"]


def test_limits_below_zero_are_refused():
    for name in ("tolerance", "tolerance_ulp", "save_limit"):
        with pytest.raises(UsageError, match=f"{name}=-1 is below 0"), opscanner.watch(**{name: -1}):
            pass
