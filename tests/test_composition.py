"""Calls that are put together of several of a framework's, told by eye."""

from __future__ import annotations

import dataclasses

import pytest

from opscanner.composition import is_composite
from opscanner.measurements import Measurement, Status, Verdict
from opscanner.operators.catalog import load_catalog
from opscanner.report import measurements as report


@pytest.mark.parametrize(
    "call",
    [
        "raw.Softplus(features=x)",
        "F.elu(x, alpha=1.0)",
        "torch.flip(torch.cumsum(torch.flip(x, [1]), dim=1), [1])",  # moves round nothing
        "grad(lambda x: F.softmax(x, dim=-1), x, dy)",
        "raw.Polygamma(a=2 * tf.ones_like(x), x=x)",
        "raw.Neg(x=raw.Mean(input=raw.GatherNd(params=x, indices=i), axis=[0], keep_dims=False))",
        "(lambda r: r[0])(raw.BlockLSTMGradV2(x=x, i=raw.BlockLSTMV2(x=x)[0]))",  # a gradient of what was saved
        "updated(lambda p: aten._fused_adam_([p], eps=0.25 / np.sqrt(1 - 0.9375**4)), p)",
        "F.ctc_loss(x, t - 1, n, m)",  # an index
        "",
    ],
)
def test_one_call_is_the_frameworks_own(call: str) -> None:
    assert not is_composite(call)


@pytest.mark.parametrize(
    "call",
    [
        "torch.sum(torch.mul(x, x)) * 0.5",
        "torch.add(torch.add(x, y, alpha=1), z, alpha=1)",
        "raw.Sqrt(x=raw.AddV2(x=raw.Square(x=x), y=raw.Square(x=y)))",
        "grad(lambda x: raw.Mul(x=x, y=raw.Tanh(x=raw.Softplus(features=x))), x, dy)",
        "torch.exp(x) + 1.0",
    ],
)
def test_several_calls_that_round_are_composite(call: str) -> None:
    assert is_composite(call)


def test_the_catalog_knows_which_framework_lacks_an_operator() -> None:
    found = {one.id: one.composite for one in load_catalog()}
    for name in ("logaddexp", "logit", "hypot", "kl_div", "mish", "hardswish", "huber_loss", "smooth_l1_loss", "glu"):
        assert found[name] == ("tensorflow",), name
    for name in ("group_norm", "rms_norm", "addcmul", "addcdiv", "addmm", "baddbmm", "scaled_dot_product_attention"):
        assert found[name] == ("tensorflow",), name
    for name in ("l2_loss", "adjust_contrast", "add_n"):
        assert found[name] == ("pytorch",), name
    for name in (
        "softmax",
        "elu",
        "conv2d",
        "conv2d_grad.input",
        "cumsum.reverse",
        "batch_norm_grad",
        "adam",
        "lstm_grad",
    ):
        assert found[name] == (), name


def test_a_composite_measurement_says_so_and_is_no_fault_of_the_framework() -> None:
    one = Measurement(
        operator="hypot", direction="forward", framework="tensorflow", version="2.21.0", format="float16", device="cpu",
        layout="contiguous", strategy="boundary", seed=0, status=Status.RAN, verdict=Verdict.CLASS_MISMATCH,
        expression="raw.Sqrt(x=raw.AddV2(x=raw.Square(x=x), y=raw.Square(x=y)))",
    )  # fmt: skip
    assert one.composite
    assert not one.is_fault
    assert one.as_json()["composite"] is True
    assert next(iter(report.rows([one])))[-1] == "class mismatch, composite"
    (texts,) = report.texts([one])
    row = dict(zip(report.FIELDS, texts, strict=True))
    assert row["composite"] == "True"
    assert Measurement.from_texts(row) == one
    own = dataclasses.replace(one, framework="pytorch", expression="torch.hypot(x, y)")
    assert (own.composite, own.is_fault) == (False, True)
