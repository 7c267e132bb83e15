"""Calls that were told of are kept, bounded, and read again as they were."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

import opscanner  # noqa: E402
from opscanner.dynamic.running.saving import read_call, write_call  # noqa: E402
from opscanner.errors import OpscannerError  # noqa: E402


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


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "other"])
def test_files_that_are_no_saved_calls_are_named(tmp_path, damage):
    path = tmp_path / "call.safetensors"
    if damage == "other":
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
