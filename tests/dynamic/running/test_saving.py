"""Calls that were told of are kept, bounded, and read again as they were."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

import opscanner  # noqa: E402
from opscanner.dynamic.running.saving import digest, read_call, write_call  # noqa: E402
from opscanner.errors import OpscannerError, UsageError  # noqa: E402


def test_the_inputs_of_an_alert_can_be_called_again(tmp_path):
    with opscanner.watch(save=tmp_path) as report:
        torch.exp(torch.tensor([1.0, 100.0]))
    [alert] = report.alerts
    call = read_call(alert.saved)
    assert call.operator == "aten.exp.default"
    assert torch.equal(call.args[0], torch.tensor([1.0, 100.0]))
    assert call.seen["kind"] == "made non-finite"


def test_inputs_are_saved_as_they_were_before_the_call_wrote_over_them(tmp_path):
    with opscanner.watch(save=tmp_path) as report:
        torch.tensor([1.0, 100.0]).exp_()
    assert torch.equal(read_call(report.alerts[0].saved).args[0], torch.tensor([1.0, 100.0]))


def test_one_file_a_site_and_no_more_than_the_limit(tmp_path):
    def overflow(x):
        return torch.exp(x), torch.expm1(x), torch.sinh(x)

    with opscanner.watch(save=tmp_path, save_limit=2) as report:
        for _ in range(3):
            overflow(torch.tensor([100.0]))
    assert sum(site.alerts for site in report) == 9
    assert len(list(tmp_path.iterdir())) == 2


def test_large_inputs_are_not_saved_and_the_site_says_so(tmp_path):
    with opscanner.watch(save=tmp_path, save_bytes=1 << 20) as report:
        torch.exp(torch.full((1 << 19,), 100.0))
    assert report.alerts[0].saved == ""
    assert "inputs not saved: 2 MiB" in report.sites[0].notes[0]


def test_every_kind_of_argument_comes_back(tmp_path):
    x = torch.arange(12.0).reshape(3, 4).t()
    args = (x, [x, torch.ones(2, dtype=torch.bfloat16)], 2, 0.5, float("-inf"), None, True, "mean", torch.float16)
    write_call(tmp_path / "call.safetensors", "aten.none.default", args, {"dtype": torch.int64, "dim": [0, 1]}, {})
    call = read_call(tmp_path / "call.safetensors")
    assert torch.equal(call.args[0], x)
    assert call.args[0].stride() == x.stride()
    assert call.args[1][1].dtype is torch.bfloat16
    assert call.args[2:] == args[2:]
    assert call.kwargs == {"dtype": torch.int64, "dim": [0, 1]}


def test_the_random_state_is_kept_of_operators_that_draw_numbers(tmp_path):
    torch.manual_seed(3)
    x = torch.full((1, 64), -1e38)
    with opscanner.watch(save=tmp_path, tolerance_ulp=0.25) as report:
        given = torch.ops.aten.rrelu_with_noise_functional.default(x, torch.zeros_like(x), 0.1, 0.9, True)[0]
    call = read_call(report.alerts[0].saved)
    assert set(call.random) == {"cpu"}
    torch.manual_seed(4)
    torch.set_rng_state(call.random["cpu"])
    again = torch.ops.aten.rrelu_with_noise_functional.default(*call.args, **call.kwargs)
    assert torch.equal(again[0], given)
    assert call.seen["result"] == [digest(again[0]), digest(again[1])]


def test_a_tensor_that_was_given_twice_comes_back_as_one(tmp_path):
    x = torch.ones(3, 4).t()
    write_call(tmp_path / "call.safetensors", "aten.sub.Tensor", (x, x), {}, {})
    call = read_call(tmp_path / "call.safetensors")
    assert call.args[0] is call.args[1]


def test_digests_differ_where_bits_do():
    assert digest(torch.zeros(2)) != digest(-torch.zeros(2))
    assert digest(torch.zeros(2)) != digest(torch.zeros(2, dtype=torch.float16))
    assert digest(torch.arange(6.0).reshape(2, 3).t()) == digest(torch.tensor([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]))


def test_saving_is_refused_where_no_operators_are_watched(tmp_path):
    with (
        pytest.raises(UsageError, match="save keeps the inputs of operators"),
        opscanner.watch(mode="upcast", save=tmp_path),
    ):
        pass


def test_what_cannot_be_saved_does_not_end_the_run(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with opscanner.watch(save=tmp_path / "file") as report:
        given = torch.exp(torch.tensor([100.0]))
    assert given.item() == float("inf")
    assert report.alerts[0].saved == ""
    assert report.sites[0].notes[0].startswith("inputs not saved: FileExistsError")


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "other", "text", "tensors"])
def test_files_that_are_no_saved_calls_are_named(tmp_path, damage):
    path = tmp_path / "call.safetensors"
    if damage in ("text", "tensors"):
        arguments = "[[" if damage == "text" else '[[{"tensor": "t1", "strides": [1]}], {"words": {}}]'
        about = {"operator": "aten.exp.default", "arguments": arguments}
        safetensors.save_file({"t0": torch.ones(2)}, str(path), metadata=about)
    elif damage == "other":
        safetensors.save_file({"weight": torch.ones(2)}, str(path), metadata={"format": "pt"})
    elif damage != "missing":
        write_call(path, "aten.exp.default", (torch.ones(99),), {}, {})
        path.write_bytes(b"" if damage == "empty" else path.read_bytes()[:100])
    with pytest.raises(OpscannerError, match=str(path)):
        read_call(path)


def test_what_is_saved_is_data_and_no_code(tmp_path):
    write_call(tmp_path / "call.safetensors", "aten.exp.default", (torch.ones(2),), {}, {"site": "x"})
    content = (tmp_path / "call.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["t0"]["dtype"] == "F32"
    assert json.loads(header["__metadata__"]["seen"]) == {"site": "x"}


def test_a_folder_is_where_it_was_when_the_watch_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with opscanner.watch(save="alerts") as report:
        monkeypatch.chdir(tmp_path / "elsewhere")
        torch.exp(torch.tensor([1.0, 100.0]))
    assert len(list((tmp_path / "alerts").iterdir())) == 1
    assert report.alerts[0].saved.startswith(str(tmp_path))
