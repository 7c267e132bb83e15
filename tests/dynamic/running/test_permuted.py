"""Sums of small whole numbers are exact in any order: a permuted call must give the very result."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from opscanner.dynamic.running.permuted import Permuted  # noqa: E402

aten = torch.ops.aten


def whole(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).float()


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.sum.default, (whole(3, 5),)),
        (aten.sum.dim_IntList, (whole(3, 5), [1], True)),
        (aten.mean.dim, (whole(3, 4), [0, 1])),
        (aten.mm.default, (whole(3, 6), whole(6, 2, seed=1))),
        (aten.bmm.default, (whole(2, 3, 6), whole(2, 6, 2, seed=1))),
        (aten.mv.default, (whole(3, 6), whole(6, seed=1))),
        (aten.addmm.default, (whole(2), whole(3, 6, seed=1), whole(6, 2, seed=2))),
        (
            aten.convolution.default,
            (whole(2, 6, 5, 5), whole(3, 6, 3, 3, seed=1), whole(3, seed=2), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
        ),
    ],
    ids=lambda value: str(value) if hasattr(value, "_schema") else "",
)
def test_order_does_not_matter_where_nothing_is_rounded(operator, args):
    again = Permuted(seed=3).arrange(operator, args, {})
    assert again is not None
    assert torch.equal(again(), operator(*args))


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten._softmax.default, (whole(3, 7), -1, False)),
        (aten.native_layer_norm.default, (whole(3, 7), [7], whole(7, seed=1), whole(7, seed=2), 1e-5)),
        (
            aten._scaled_dot_product_flash_attention_for_cpu.default,
            (whole(1, 2, 4, 8), whole(1, 2, 6, 8, seed=1), whole(1, 2, 6, 8, seed=2)),
        ),
    ],
    ids=lambda value: str(value) if hasattr(value, "_schema") else "",
)
def test_results_come_back_in_their_own_order(operator, args):
    again = Permuted(seed=3).arrange(operator, args, {})
    assert again is not None
    torch.testing.assert_close(again()[0], operator(*args)[0], rtol=1e-5, atol=1e-6)


def test_causal_attention_depends_on_order():
    q = whole(1, 2, 4, 8)
    operator = aten._scaled_dot_product_flash_attention_for_cpu.default
    assert Permuted().arrange(operator, (q, q, q, 0.0, True), {}) is None


def test_elementwise_operators_have_no_order():
    assert Permuted().arrange(aten.exp.default, (whole(3),), {}) is None
