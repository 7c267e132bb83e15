"""Perturbed tensors: how far each element moves, what stays, and what is left untouched around them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opscanner.errors import UsageError
from opscanner.precision.layout import layout_of
from opscanner.precision.ulp import ulp_distance

torch = pytest.importorskip("torch")
from opscanner.dynamic.running.noise import NoiseSource  # noqa: E402

FORMATS = ("float16", "bfloat16", "float32", "float64")
FLOAT8 = ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz")


def wide_range(format_: str, number: int = 3000) -> Any:
    """Finite numbers of every binade of a format, none of them zero or the largest, with both signs."""
    layout = layout_of(format_)
    generator = np.random.default_rng(3)
    exponents = generator.integers(layout.emin, layout.emax, number)
    values = generator.choice([-1.0, 1.0], number) * np.ldexp(generator.uniform(1, 2, number), exponents)
    return torch.from_numpy(values).to(getattr(torch, format_))


def distances(before: Any, after: Any, format_: str) -> np.ndarray:
    return ulp_distance(before.to(torch.float64).numpy(), after.to(torch.float64).numpy(), format_)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("amount", [1, 5])
def test_each_number_moves_by_exactly_that_many_representable_values(format_: str, amount: int) -> None:
    before = wide_range(format_)
    after = NoiseSource(7, amount=amount).perturbed(before)
    assert after.dtype == before.dtype
    assert np.all(distances(before, after, format_) == amount)


@pytest.mark.parametrize("format_", FLOAT8)
def test_float8_moves_by_one_representable_value_too(format_: str) -> None:
    codes = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(getattr(torch, format_))
    values = codes.to(torch.float64).numpy()
    after = NoiseSource(1).perturbed(codes)
    moved = np.isfinite(values) & (values != 0)
    assert np.all(ulp_distance(values[moved], after.to(torch.float64).numpy()[moved], format_) == 1)
    assert after.view(torch.uint8)[~moved].tolist() == codes.view(torch.uint8)[~moved].tolist()


@pytest.mark.parametrize("format_", FORMATS)
def test_about_half_of_the_numbers_move_up_whatever_their_sign(format_: str) -> None:
    before = wide_range(format_)
    up = NoiseSource(7).perturbed(before) > before
    for sign in (before > 0, before < 0):
        # 5 standard deviations of a fair coin thrown 1,400 times are 7 %.
        assert 0.43 < up[sign].double().mean().item() < 0.57


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("amount", [1, 2])
def test_zeros_infinities_and_nan_stay_and_the_largest_does_not_become_infinite(format_: str, amount: int) -> None:
    dtype = getattr(torch, format_)
    largest = torch.finfo(dtype).max
    specials = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")] * 20, dtype=dtype)
    after = NoiseSource(5, amount=amount).perturbed(specials)
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[specials.element_size()]
    assert torch.equal(after.view(integer), specials.view(integer))  # the sign of zero too
    extremes = torch.tensor([largest, -largest, 1.0] * 20, dtype=dtype)
    after = NoiseSource(5, amount=amount).perturbed(extremes)
    assert torch.isfinite(after).all()
    assert np.all(distances(extremes[2::3], after[2::3], format_) == amount)


def test_from_a_power_of_two_down_is_half_the_step_up() -> None:
    # float16 has 1024 steps from 1 to 2, and as many from 1/2 to 1.
    after = NoiseSource(1).perturbed(torch.ones(100, dtype=torch.float16)).double()
    assert sorted(set(after.tolist())) == [1 - 1 / 2048, 1 + 1 / 1024]


def test_the_smallest_subnormal_moves_to_zero_or_to_twice_itself() -> None:
    smallest = 2.0**-24
    after = NoiseSource(1).perturbed(torch.full((100,), smallest, dtype=torch.float16)).double()
    assert sorted(set(after.tolist())) == [0.0, 2 * smallest]


def test_every_chunk_of_a_large_tensor_is_moved_by_other_signs() -> None:
    before = torch.ones(300_001)
    before[200_000] = float("-inf")  # one chunk is treated apart
    after = NoiseSource(2).perturbed(before)
    assert after[200_000] == -float("inf")
    after[200_000] = before[200_000] = 1.5
    assert np.all(np.delete(distances(before, after, "float32"), 200_000) == 1)
    chunks = [(part > 1).tolist() for part in after.split(65536)]
    assert chunks[0] != chunks[1] != chunks[2]


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.permute(0, 3, 1, 2),
        lambda x: x[:, 1:, ::2],
        lambda x: x.transpose(1, 2),
        lambda x: x[:1, :, :1].expand(4, 6, 8, 16),
        lambda x: x[0, 0, 0, 0],
        lambda x: x[:, :0],
    ],
    ids=["channels last", "slices", "transposed", "expanded", "scalar", "empty"],
)
def test_any_layout_keeps_its_elements_in_their_places(change: Any) -> None:
    before = change(torch.arange(1, 4 * 6 * 8 * 16 + 1, dtype=torch.float32).reshape(4, 6, 8, 16))
    after = NoiseSource(1).perturbed(before)
    assert after.shape == before.shape
    assert after.stride() == torch.empty_like(before).stride()
    assert np.all(distances(before.contiguous(), after.contiguous(), "float32") == 1)


def test_a_large_tensor_of_another_order_of_memory_keeps_its_elements_in_their_places() -> None:
    before = torch.arange(1, 2 * 64 * 64 * 64 + 1, dtype=torch.float32).reshape(2, 64, 64, 64)
    before = before.to(memory_format=torch.channels_last)
    after = NoiseSource(1).perturbed(before)
    assert after.stride() == before.stride()
    assert np.all(distances(before.contiguous(), after.contiguous(), "float32") == 1)


def test_complex_numbers_move_in_both_parts() -> None:
    before = torch.tensor([1 + 2j, -3 + 4j], dtype=torch.complex64).conj()
    after = NoiseSource(1).perturbed(before)
    assert after.dtype == torch.complex64
    for part in (torch.real, torch.imag):
        assert distances(part(before.resolve_conj()), part(after), "float32").tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_integers_come_back_as_a_copy(dtype: Any) -> None:
    before = torch.ones(3, dtype=dtype)
    after = NoiseSource().perturbed(before)
    assert torch.equal(before, after)
    assert after.data_ptr() != before.data_ptr()
    assert not NoiseSource().perturbs(dtype)


def test_the_source_and_the_global_generator_are_left_alone() -> None:
    before = torch.randn(1000, requires_grad=True)
    copy, state = before.detach().clone(), torch.get_rng_state()
    after = NoiseSource().perturbed(before)
    assert torch.equal(before, copy)
    assert torch.equal(torch.get_rng_state(), state)
    assert not after.requires_grad


def test_equal_seeds_and_calls_give_equal_noise_and_others_do_not() -> None:
    before = torch.ones(200)
    one, again, other = NoiseSource(3), NoiseSource(3), NoiseSource(4)
    first = one.perturbed(before)
    assert torch.equal(first, again.perturbed(before))
    assert not torch.equal(first, other.perturbed(before))
    assert not torch.equal(first, one.perturbed(before))  # the next call takes other signs
    assert torch.equal(one.perturbed(before), (again.perturbed(before), again.perturbed(before))[1])


def test_noise_of_the_published_kind_is_lost_in_large_and_negative_numbers() -> None:
    # float32: 1e-8 is added above sqrt(1e-8) = 1e-4. Next to 0.2 numbers lie 2**-26 = 1.5e-8 apart, so that 1e-8 rounds
    # to one step; next to 0.3 they lie 3e-8 apart, so that it rounds to none.
    before = torch.tensor([0.2, 0.3, 1.0, 0.0, 5e-5, -0.2])
    after = NoiseSource(kind="fumi").perturbed(before)
    assert distances(before, after, "float32").tolist() == [1, 0, 0, 0, 0, 0]
    assert after[0] > before[0]


@pytest.mark.parametrize(
    ("format_", "moved", "kept"),
    # The constants 1e-16, 1e-6 and 1e-4; half of a step is 2**-55 = 2.8e-17 above 1/4 and 5.6e-17 above 1/2 in
    # float64 and 1.1e-16 above 1; 2**-20 = 9.5e-7 above 1/512 and twice that above 1/256 in float16; 2**-14 = 6.1e-5
    # above 1/64 and twice that above 1/32 in bfloat16.
    [("float64", 0.7, 1.1), ("float16", 0.0025, 0.005), ("bfloat16", 0.0234375, 0.0390625)],
)
def test_published_constants_by_format(format_: str, moved: float, kept: float) -> None:
    before = torch.tensor([moved, kept], dtype=torch.float64).to(getattr(torch, format_))
    after = NoiseSource(kind="fumi").perturbed(before)
    assert distances(before, after, format_).tolist() == [1, 0]


def test_noise_that_means_nothing_is_refused() -> None:
    for arguments in ({"kind": "gaussian"}, {"amount": 0.5}, {"amount": 0}, {"kind": "fumi", "amount": -1}):
        with pytest.raises(UsageError):
            NoiseSource(**arguments)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_quick_noise_moves_every_normal_number_by_one_step(dtype):
    """From a power of two, the numbers below lie half as far apart: there a step down may be two."""
    generator = torch.Generator().manual_seed(0)
    exponents = torch.randint(-12, 13, (1 << 18,), generator=generator)
    x = torch.ldexp(torch.rand(1 << 18, generator=generator, dtype=torch.float64) + 1, exponents).to(dtype)
    x = x * (torch.randint(0, 2, x.shape, generator=generator) * 2 - 1)
    moved = NoiseSource(5).perturbed_quickly(x)
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    steps = (moved.view(integer) - x.view(integer)).abs()
    is_power = torch.frexp(x).mantissa.abs() == 0.5
    assert set(steps[~is_power].tolist()) == {1}
    assert set(steps[is_power].tolist()) <= {1, 2}
    grew = moved.abs() > x.abs()
    assert 0.49 < grew.double().mean() < 0.51


def test_quick_noise_leaves_zeros_and_integers_and_is_the_same_for_the_same_seed():
    x = torch.tensor([0.0, 1.0, -0.0])
    assert NoiseSource(1).perturbed_quickly(x)[[0, 2]].tolist() == [0.0, 0.0]
    assert torch.equal(NoiseSource(1).perturbed_quickly(torch.arange(3)), torch.arange(3))
    y = torch.randn(1000)
    assert torch.equal(NoiseSource(2).perturbed_quickly(y), NoiseSource(2).perturbed_quickly(y))
    assert torch.equal(
        NoiseSource(2).perturbed_quickly(y.expand(3, 1000))[0], NoiseSource(2).perturbed(y.expand(3, 1000))[0]
    )
