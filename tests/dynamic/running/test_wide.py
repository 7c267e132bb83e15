"""Code that names narrow formats, run in a wide one: equal to the same code that names the wide one."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest

from opscanner.errors import UsageError

torch = pytest.importorskip("torch")
from opscanner.dynamic.running.wide import WideRefusedError, run_wide, wide_format, widened, widened_dtype  # noqa: E402

functional = torch.nn.functional
WIDE = torch.float64


def numbers(*shape: int, dtype: Any = torch.float32, seed: int = 5) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize(
    ("format_", "wider"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64"), ("complex64", "complex128"),
     ("complex32", "complex64"), ("float8_e4m3fn", "float32")],
)  # fmt: skip
def test_one_wider_than_a_format(format_: str, wider: str) -> None:
    assert wide_format(format_) == wider


@pytest.mark.parametrize("format_", ["float64", "int32", "half"])
def test_where_no_wider_format_is_known_that_is_said(format_: str) -> None:
    with pytest.raises(UsageError, match=format_):
        wide_format(format_)


@pytest.mark.parametrize(
    ("dtype", "to", "becomes"),
    [
        (torch.float16, torch.float64, torch.float64),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float64, torch.float32, torch.float64),
        (torch.float16, torch.bfloat16, torch.float16),
        (torch.float8_e5m2, torch.float16, torch.float16),
        (torch.complex64, torch.float64, torch.complex128),
        (torch.complex64, torch.float32, torch.complex64),
        (torch.int16, torch.float64, torch.int16),
        (torch.bool, torch.float64, torch.bool),
    ],
)
def test_only_formats_that_fit_into_the_wide_one_change(dtype: Any, to: Any, becomes: Any) -> None:
    assert widened_dtype(dtype, to) is becomes


CASTS = {
    "half": lambda x: x.half(),
    "bfloat16": lambda x: x.bfloat16(),
    "float": lambda x: x.float(),
    "to": lambda x: x.to(torch.bfloat16),
    "to with a device": lambda x: x.to("cpu", torch.float16),
    "to another tensor": lambda x: x.to(torch.ones(1, dtype=torch.float16)),
    "type": lambda x: x.type(torch.float16),
    "type_as": lambda x: x.type_as(torch.ones(1).half()),
    "float8": lambda x: x.to(torch.float8_e5m2),
}


@pytest.mark.parametrize("cast", CASTS.values(), ids=CASTS.keys())
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_casts_do_not_narrow(cast: Any, mode: Any) -> None:
    x = numbers(50)
    with mode(), widened(WIDE):
        got = cast(x * 1.1) * 3
    assert got.dtype is WIDE
    assert torch.equal(got, x.double() * 1.1 * 3)


FACTORIES = {
    "zeros": lambda: torch.zeros(3, dtype=torch.float16),
    "ones of no format": lambda: torch.ones(3),
    "full": lambda: torch.full((3,), 0.1, dtype=torch.bfloat16),
    "full of no format": lambda: torch.full((3,), 0.1),
    "arange": lambda: torch.arange(0, 1, 0.1, dtype=torch.float32),
    "linspace": lambda: torch.linspace(0, 1, 7, dtype=torch.float32),
    "empty_like": lambda: torch.empty_like(torch.ones(3), dtype=torch.float16).fill_(0.1),
    "new_full": lambda: torch.ones(3).half().new_full((2,), 0.1),
    "tensor of no format": lambda: torch.tensor([0.1, 0.2]),
    "eye": lambda: torch.eye(3, dtype=torch.bfloat16) * 0.1,
    "integers divided": lambda: torch.arange(7) / 3,
}
EXPECTED = {
    "zeros": [0.0] * 3,
    "ones of no format": [1.0] * 3,
    "full": [0.1] * 3,
    "full of no format": [0.1] * 3,
    "empty_like": [0.1] * 3,
    "new_full": [0.1] * 2,
    "tensor of no format": [0.1, 0.2],
    "integers divided": [number / 3 for number in range(7)],
}


@pytest.mark.parametrize("name", FACTORIES)
def test_new_tensors_are_wide(name: str) -> None:
    with widened(WIDE):
        got = FACTORIES[name]()
    assert got.dtype is WIDE
    if name in EXPECTED:
        assert got.tolist() == EXPECTED[name]


def test_tensors_from_outside_are_computed_with_in_the_wide_format() -> None:
    x, weight = numbers(3, 4, dtype=torch.bfloat16), numbers(5, 4, dtype=torch.bfloat16, seed=6)
    with widened(WIDE):
        got = functional.linear(x, weight)
    assert torch.equal(got, x.double() @ weight.double().T)


def test_autocast_inside_casts_nothing_down() -> None:
    x, weight = numbers(3, 4), numbers(5, 4, seed=6)

    def cast_by_torch(x: Any, weight: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return functional.linear(x, weight)

    assert cast_by_torch(x, weight).dtype is torch.bfloat16
    for to in (torch.float32, torch.float64):
        assert torch.equal(run_wide(cast_by_torch, (x, weight), to=to), x.to(to) @ weight.to(to).T)


def test_weights_that_autocast_has_cast_before_are_not_found_again() -> None:
    x, weight = numbers(3, 4), numbers(5, 4, seed=6).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain = functional.linear(x, weight)
        with widened(torch.float32):
            wide = functional.linear(x, weight)
        again = functional.linear(x, weight)
    assert torch.equal(wide, x @ weight.T)
    assert plain.dtype is torch.bfloat16
    assert torch.equal(plain, again)


def test_masks_of_the_smallest_number_mask() -> None:
    def masked(scores: Any) -> Any:
        mask = torch.tril(torch.ones(4, 4, dtype=torch.bool))
        scores = scores.half().masked_fill(~mask, torch.finfo(torch.float16).min)
        added = scores + torch.zeros(4, 4, dtype=scores.dtype).masked_fill(~mask, torch.finfo(scores.dtype).min).half()
        return torch.softmax(added, -1, dtype=torch.float32).to(torch.float16)

    scores = numbers(4, 4)
    got = run_wide(masked, (scores,), to=WIDE)
    reference = torch.softmax(scores.double().masked_fill(torch.triu(torch.ones(4, 4).bool(), 1), -torch.inf), -1)
    assert torch.equal(got, reference)


@pytest.mark.parametrize("to", [torch.float32, torch.float64])
def test_bits_of_a_wide_number_are_refused_by_name(to: Any) -> None:
    with pytest.raises(WideRefusedError, match=r"aten.view.dtype.*int16"):
        run_wide(lambda x: x.half().view(torch.int16) & 0x7FFF, (numbers(8),), to=to)


def test_bits_that_do_not_depend_on_the_format_are_given() -> None:
    codes = torch.tensor([0x3C00, 0x4000], dtype=torch.int16)
    with widened(WIDE):
        assert codes.view(torch.float16).tolist() == [1.0, 2.0]
        assert codes.view(torch.uint8).tolist() == [0, 0x3C, 0, 0x40]
    x = numbers(8)
    with widened(torch.float32):
        assert torch.equal(x.view(torch.int32), x.clone().view(torch.int32))


def test_integers_stay() -> None:
    def counts(x: Any) -> Any:
        indices = (x * 10).to(torch.int32)
        return indices, indices // 3, x.argmax(), x > 0, torch.arange(5), torch.zeros(2, dtype=torch.int8)

    formats = [one.dtype for one in run_wide(counts, (numbers(8),), to=WIDE)]
    assert formats == [torch.int32, torch.int32, torch.int64, torch.bool, torch.int64, torch.int8]


def test_complex_numbers_have_wide_parts() -> None:
    def rotated(x: Any) -> Any:
        turns = torch.polar(torch.ones(4), torch.arange(4.0))
        return torch.view_as_real(torch.view_as_complex(x.float().reshape(4, 2)) * turns.to(torch.complex64))

    x = numbers(8, dtype=torch.bfloat16)
    turns = torch.polar(torch.ones(4).double(), torch.arange(4.0).double())
    expected = torch.view_as_real(torch.view_as_complex(x.double().reshape(4, 2)) * turns)
    assert torch.equal(run_wide(rotated, (x,), to=WIDE), expected)


def test_a_tensor_from_outside_keeps_its_format_and_takes_what_is_written() -> None:
    total = torch.zeros(4, dtype=torch.float16)
    first_half = torch.full((2,), 0.1, dtype=torch.float64)
    with widened(WIDE):
        total.add_(1 / 3)
        total[:2] = first_half
    assert total.dtype is torch.float16
    assert torch.equal(total, torch.tensor([0.1, 0.1, 1 / 3, 1 / 3], dtype=torch.float64).half())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("to", [torch.float32, torch.float64])
def test_random_numbers_are_those_of_the_plain_run(dtype: Any, to: Any) -> None:
    def draws(x: Any) -> Any:
        return (
            functional.dropout(x, 0.3) != 0,
            torch.randn_like(x),
            torch.rand(40, dtype=x.dtype),
            torch.rand(40),
            torch.empty_like(x).normal_(),
            torch.bernoulli(torch.full_like(x, 0.5)),
            torch.normal(torch.zeros_like(x), 1.0),
            torch.randn(40, out=torch.empty_like(x[0, :40])),
            torch.randint(10, (20,)),
        )

    x = numbers(4, 64, dtype=dtype)
    state = torch.get_rng_state()
    wide = run_wide(draws, (x,), to=to)
    assert torch.equal(torch.get_rng_state(), state)
    plain = draws(x)
    for one, other in zip(wide, plain, strict=True):
        assert torch.equal(one, other.to(one.dtype))
    if to is not dtype:
        assert wide[1].dtype is to


def test_a_module_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(3, 4, 3, bias=False),
        torch.nn.BatchNorm2d(4),
        torch.nn.Dropout(0.2),
    ).to(torch.bfloat16)
    x = numbers(2, 3, 8, 8, dtype=torch.bfloat16)
    before, given, state = copy.deepcopy(model.state_dict()), x.clone(), torch.get_rng_state()
    wide = run_wide(model, (x,), to=WIDE)
    assert wide.dtype is WIDE
    assert not wide.requires_grad
    assert torch.equal(x, given)
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    reference = copy.deepcopy(model).double()
    assert torch.equal(wide, reference(given.double()).detach())


def test_tied_weights_are_one_tensor() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(7, 4)
            self.head = torch.nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Any) -> Any:
            assert self.head.weight is self.embed.weight
            return self.head(self.embed(tokens))

    model = Tied().half()
    tokens = torch.tensor([1, 5])
    weight = model.embed.weight.detach().double()
    assert torch.equal(run_wide(model, (tokens,), to=WIDE), weight[tokens] @ weight.T)


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_layers_run_wide_and_keep_their_weights(layer: Any) -> None:
    torch.manual_seed(0)
    model = layer(4, 5, num_layers=2, bidirectional=True, dtype=torch.bfloat16)
    x = numbers(6, 2, 4, dtype=torch.bfloat16)
    wide = run_wide(model, (x,), to=WIDE)[0]
    reference = copy.deepcopy(model).double()(x.double())[0].detach()
    assert torch.equal(wide, reference)
    assert all(one is other for one, other in zip(model._flat_weights, model.parameters(), strict=True))


def parametrized() -> Any:
    return torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))


def normed_by_hooks() -> Any:
    return torch.nn.utils.weight_norm(torch.nn.Linear(4, 4))


def pruned() -> Any:
    from torch.nn.utils import prune

    return prune.l1_unstructured(torch.nn.Linear(4, 4), "weight", 0.5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [parametrized, normed_by_hooks, pruned])
def test_weights_that_are_computed_are_computed_wide(make: Any) -> None:
    torch.manual_seed(0)
    model = make().to(torch.bfloat16)
    x = numbers(3, 4, dtype=torch.bfloat16)
    plain = model(x)
    wide = run_wide(model, (x,), to=WIDE)
    torch.manual_seed(0)
    reference = make().to(torch.bfloat16).double()
    assert torch.equal(wide, reference(x.double()).detach())
    assert torch.equal(model(x), plain)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_fast_path_of_an_encoder_runs_wide() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).to(torch.bfloat16).eval()
    x, padding = numbers(2, 5, 16, dtype=torch.bfloat16), torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    wide = run_wide(model, (x,), {"src_key_padding_mask": padding}, WIDE)
    # In training mode, without dropout, the slow path runs.
    reference = copy.deepcopy(model).double().train()
    for one in reference.modules():
        if isinstance(one, torch.nn.Dropout):
            one.p = 0.0
        if isinstance(one, torch.nn.MultiheadAttention):
            one.dropout = 0.0
    expected = reference(x.double(), src_key_padding_mask=padding).detach()
    assert torch.allclose(wide[~padding], expected[~padding], rtol=1e-12, atol=1e-12)
    assert torch.all(wide[padding] == 0)  # only the fast path pads with zeros


def test_attention_of_torch_runs_wide() -> None:
    query, key, value = (numbers(2, 3, 5, 8, dtype=torch.float16, seed=seed) for seed in (1, 2, 3))
    wide = run_wide(functional.scaled_dot_product_attention, (query, key, value), {"is_causal": True}, WIDE)
    scores = query.double() @ key.double().mT / 8**0.5
    scores.masked_fill_(torch.triu(torch.ones(5, 5).bool(), 1), -torch.inf)
    assert torch.allclose(wide, torch.softmax(scores, -1) @ value.double(), rtol=1e-13, atol=1e-14)


def test_a_layer_norm_of_two_formats_runs_wide() -> None:
    x, weight = numbers(3, 8, dtype=torch.bfloat16), numbers(8, seed=7)
    with widened(WIDE):
        got = functional.layer_norm(x, (8,), weight, weight)
    assert torch.equal(got, functional.layer_norm(x.double(), (8,), weight.double(), weight.double()))


def test_a_model_in_float8_can_run_in_float16_where_kernels_allow_it() -> None:
    x = numbers(4, 4).to(torch.float8_e5m2)
    with widened(torch.float16):
        assert (x + 1).dtype is torch.float16
        with pytest.raises(WideRefusedError, match=r"aten.linalg_inv_ex.default failed in float16.*Half"):
            torch.linalg.inv(x)


def test_a_format_that_is_no_real_float_is_refused() -> None:
    with pytest.raises(UsageError, match="int32"), widened(torch.int32):
        pass


def test_everything_is_put_back_after_an_error() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        seen = []
        with contextlib.suppress(ZeroDivisionError), widened(WIDE):
            seen = [torch.get_default_dtype(), torch.is_autocast_enabled("cpu")]
            raise ZeroDivisionError
        assert seen == [WIDE, False]
        assert torch.get_default_dtype() is torch.float32
        assert torch.is_autocast_enabled("cpu")


def test_gradients_are_wide_too() -> None:
    weight = numbers(4, 4).double().requires_grad_()
    x = numbers(4, 4, dtype=torch.float16)
    with widened(WIDE):
        (weight.half() @ x).sum().backward()
    assert torch.equal(weight.grad, x.double().sum(1).expand(4, 4))


def test_hooks_for_all_modules_are_not_run_and_own_ones_are() -> None:
    calls = []
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    own = model[0].register_forward_hook(lambda module, inputs, output: calls.append("own"))
    for_all = torch.nn.modules.module.register_module_forward_hook(lambda module, inputs, output: calls.append("all"))
    try:
        run_wide(model, (numbers(2, 3),), to=WIDE)
        assert calls == ["own"]
        run_wide(model, (numbers(2, 3),), to=WIDE, own_hooks=False)
        assert calls == ["own"]
        model(numbers(2, 3))
        assert calls == ["own", "all", "own", "all", "all"]
    finally:
        own.remove()
        for_all.remove()
