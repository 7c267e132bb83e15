"""How far two results are apart: FuMi's metric, ULP, kinds and places, and the quick figures beside the full ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from opscanner.errors import UsageError
from opscanner.precision.metrics import summarize_errors
from opscanner.precision.ulp import ulp_error

torch = pytest.importorskip("torch")
from opscanner.dynamic.running.compare import (  # noqa: E402
    FUMI_TOLERANCE,
    absolute_tolerance,
    compare,
    quick_errors,
    quick_relative_error,
)

FORMATS = ("float16", "bfloat16", "float32", "float64")
INF, NAN = float("inf"), float("nan")


def fumi(first: list[float], second: list[float], floor: float) -> float:
    """The metric as it is defined, an element at a time."""
    worst = 0.0
    for a, b in zip(first, second, strict=True):
        if min(abs(a), abs(b)) > floor:
            worst = max(worst, abs(a - b) / abs(a + b) if a + b else INF)
    return worst


def pair(format_: str, number: int = 50_000, noise: float = 4.0, seed: int = 1) -> tuple[Any, Any]:
    """Random numbers of several magnitudes, and others some ULP off."""
    generator = np.random.default_rng(seed)
    reference = generator.standard_normal(number) * 10.0 ** generator.integers(-4, 3, number)
    dtype = getattr(torch, format_)
    eps = torch.finfo(dtype).eps
    result = reference * (1 + noise * eps * generator.standard_normal(number))
    return torch.from_numpy(result).to(dtype), torch.from_numpy(reference).to(dtype)


def test_worked_by_hand() -> None:
    # 1 against 3: 2 / 4, 2 / 3, and in float32 numbers lie 2**-22 apart at 3: 2**23 ULP.
    # 2 against 1: 1 / 3, 1 / 1, and 2**-23 apart at 1: 2**23 ULP. 1e-5 is below 1e-4 and is not compared.
    found = compare(torch.tensor([1.0, 2.0, 1e-5]), torch.tensor([3.0, 1.0, 1.0]), tolerance=0.4)
    assert (found.format, found.elements) == ("float32", 3)
    assert found.max_relative_error == 0.5
    assert found.max_relative_to_reference == 1.0
    assert found.max_ulp == 2.0**23
    assert found.max_scaled_ulp == 2.0**23  # the largest reference is 3
    assert (found.worst_index, found.worst) == ((0,), (1.0, 3.0))
    assert found.over == 1
    assert (found.nan_mismatches, found.infinity_mismatches) == (0, 0)


@pytest.mark.parametrize("format_", FORMATS)
def test_the_relative_error_is_that_of_the_publication(format_: str) -> None:
    first, second = pair(format_)
    floor = {"float64": 1e-8, "float32": 1e-4, "float16": 1e-3, "bfloat16": 1e-2}[format_]
    expected = fumi(first.double().tolist(), second.double().tolist(), floor)
    assert expected > 0
    assert compare(first, second).max_relative_error == expected


@pytest.mark.parametrize(("format_", "floor"), FUMI_TOLERANCE.items())
def test_an_element_at_the_absolute_tolerance_is_left_out_and_one_above_it_is_not(format_: str, floor: float) -> None:
    dtype = getattr(torch, format_)
    above = torch.tensor([floor * 1.1], dtype=dtype)
    below = torch.tensor([floor * 0.9], dtype=dtype)
    one = torch.ones(1, dtype=dtype)
    assert compare(below, one).max_relative_error == compare(one, below).max_relative_error == 0.0
    small = above.double().item()
    assert compare(above, one).max_relative_error == compare(one, above).max_relative_error
    assert compare(above, one).max_relative_error == (1 - small) / (1 + small)


def test_opposite_numbers_are_infinitely_far_apart_in_the_relative_error() -> None:
    found = compare(torch.tensor([1.0, 5.0]), torch.tensor([-1.0, 5.0]))
    assert found.max_relative_error == INF
    assert (found.worst_index, found.max_relative_to_reference) == ((0,), 2.0)
    tiny = compare(torch.tensor([1e-30]), torch.tensor([-1e-30]))
    assert tiny.max_relative_error == 0.0


@pytest.mark.parametrize("format_", FORMATS)
def test_ulp_are_those_of_the_precision_room(format_: str) -> None:
    first, second = pair(format_, seed=2)
    judged = ulp_error(first.double().numpy(), second.double().numpy(), format_)
    summary = summarize_errors(first.double().numpy(), second.double().numpy(), format_)
    found = compare(first, second)
    assert found.max_ulp == judged.max() > 1
    assert found.max_scaled_ulp == summary.max_scaled_ulp  # one row: the largest reference is that of all
    assert found.max_scaled_ulp < found.max_ulp


def test_ulp_of_a_wider_reference_are_those_of_the_format_under_test() -> None:
    first = torch.tensor([1.0, 6e-8], dtype=torch.float16)
    second = torch.tensor([1 + 2.0**-11, 0.0], dtype=torch.float32)
    found = compare(first, second)
    # Half of float16's step at 1, and its smallest subnormal at 0.
    assert (found.format, found.max_ulp, found.max_scaled_ulp) == ("float16", 1.0, 0.5)
    assert compare(first, second, "bfloat16").max_scaled_ulp == 2.0**-4


def test_kinds_apart_are_counted_and_hide_nothing() -> None:
    first = torch.tensor([[1.0, NAN, NAN, INF], [INF, -INF, 2.0, 4.0]])
    second = torch.tensor([[1.0, NAN, 1.0, INF], [1.0, INF, NAN, 6.0]])
    found = compare(first, second, tolerance=0.1)
    assert (found.nan_mismatches, found.infinity_mismatches) == (2, 2)
    assert found.max_relative_error == 0.2  # 4 against 6: 2 / 10
    assert found.worst_index == (0, 2)  # the first that differs in kind
    assert math.isnan(found.worst[0])
    assert found.worst[1] == 1.0
    assert found.over == 5


def test_nan_beside_an_element_too_small_to_compare_is_told() -> None:
    found = compare(torch.tensor([NAN]), torch.tensor([0.0]))
    assert (found.nan_mismatches, found.over, found.worst_index) == (1, 1, (0,))


@pytest.mark.parametrize("format_", FORMATS)
def test_mismatches_in_many_chunks_are_those_of_the_precision_room(format_: str) -> None:
    first, second = pair(format_, number=100_000, seed=5)
    generator = torch.Generator().manual_seed(1)
    for tensor in (first, second):
        for value in (NAN, INF, -INF):
            tensor[torch.randint(0, tensor.numel(), (200,), generator=generator)] = value
    summary = summarize_errors(first.double().numpy(), second.double().numpy(), format_)
    found = compare(first, second)
    assert (found.nan_mismatches, found.infinity_mismatches) == (summary.nan_mismatches, summary.infinity_mismatches)
    finite = (first.isfinite() & second.isfinite()).numpy()
    assert found.max_ulp == ulp_error(first.double().numpy(), second.double().numpy(), format_)[finite].max()


def test_the_worst_element_is_found_in_the_last_chunk_and_in_any_layout() -> None:
    second = torch.full((40, 50, 60), 1.0).transpose(0, 2)
    first = second.clone()
    first[59, 49, 38] = 1.25
    found = compare(first, second)
    assert (found.worst_index, found.worst) == ((59, 49, 38), (1.25, 1.0))
    assert found.max_relative_error == 0.25 / 2.25
    assert found.over == 1


def test_without_a_relative_error_the_worst_is_the_largest_difference() -> None:
    found = compare(torch.tensor([0.0, 1e-6, 3e-6]), torch.tensor([0.0, 2e-6, 1e-6]))
    assert (found.max_relative_error, found.worst_index) == (0.0, (2,))


def test_equal_tensors_differ_in_nothing() -> None:
    values = torch.tensor([0.0, -0.0, 1.0, NAN, INF, -INF])
    found = compare(values, torch.tensor([-0.0, 0.0, 1.0, NAN, INF, -INF]))
    assert (found.max_relative_error, found.max_ulp, found.max_scaled_ulp, found.over) == (0, 0, 0, 0)
    assert (found.nan_mismatches, found.infinity_mismatches) == (0, 0)


def test_scalars_empty_tensors_and_integers() -> None:
    scalar = compare(torch.tensor(2.0), torch.tensor(1.0))
    assert (scalar.worst_index, scalar.worst, scalar.over) == ((), (2.0, 1.0), 1)
    empty = compare(torch.empty(0, 3), torch.empty(0, 3))
    assert (empty.elements, empty.max_ulp, empty.over, empty.worst_index) == (0, 0.0, 0, ())
    counts = compare(torch.tensor([3, 7]), torch.tensor([3, 9]))
    assert (counts.format, counts.max_ulp, counts.max_relative_error, counts.over) == ("int64", 2.0, 0.125, 1)
    flags = compare(torch.tensor([True, False]), torch.tensor([True, True]))
    assert (flags.max_ulp, flags.worst_index) == (1.0, (1,))


def test_complex_numbers_are_compared_by_their_parts() -> None:
    found = compare(torch.tensor([[1 + 2j, 3 + 4j]]), torch.tensor([[1 + 2j, 3 + 5j]]))
    assert (found.format, found.elements, found.worst_index, found.worst) == ("float32", 4, (0, 1), (4.0, 5.0))


def test_the_largest_float64_are_compared_without_overflow() -> None:
    largest = torch.finfo(torch.float64).max
    found = compare(
        torch.tensor([largest, 1.0], dtype=torch.float64), torch.tensor([-largest, 1.0], dtype=torch.float64)
    )
    assert (found.nan_mismatches, found.infinity_mismatches) == (0, 0)
    assert found.max_relative_error == INF
    assert found.worst_index == (0,)


def test_other_shapes_are_refused() -> None:
    for function in (compare, quick_errors):
        with pytest.raises(UsageError, match="shape"):
            function(torch.ones(2), torch.ones(3))


def test_formats_that_the_publication_does_not_name_have_a_tolerance_of_their_own() -> None:
    assert absolute_tolerance("complex64") == 1e-4
    assert absolute_tolerance("float8_e5m2") == 0.5  # the square root of 2**-2
    assert absolute_tolerance("int64") == 0.0


# -- quick figures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("noise", [0.6, 4.0, 30.0])
@pytest.mark.parametrize("number", [50, 300_000])
def test_the_quick_error_is_at_least_the_full_one_and_near_it(format_: str, noise: float, number: int) -> None:
    first, second = pair(format_, number, noise, seed=3)
    exact = compare(first, second)
    quick = quick_errors(first, second)
    assert quick.relative >= exact.max_relative_error
    assert quick_relative_error(first, second) == quick.relative
    if exact.max_relative_error < 0.01:
        # Elements that only the reference lifts above the tolerance, and roundings: a few per cent.
        assert quick.relative <= exact.max_relative_error * 1.1 + 1e-30
    reference = second.double().abs().max().item()
    farthest = (first.double() - second.double()).abs().max().item()
    assert quick.largest == reference
    assert quick.absolute == pytest.approx(farthest, rel=2.0 * torch.finfo(first.dtype).eps)


@pytest.mark.parametrize("format_", FORMATS)
def test_the_quick_error_of_equal_tensors_is_next_to_nothing(format_: str) -> None:
    first, _ = pair(format_)
    first[::3] = 0.0
    assert quick_errors(first, first).relative <= torch.finfo(first.dtype).smallest_normal
    assert quick_errors(first, first).absolute == 0.0


@pytest.mark.parametrize("place", [0, 99_999])
@pytest.mark.parametrize(("one", "other"), [(NAN, 1.0), (1.0, NAN), (INF, 1.0), (1.0, -INF), (NAN, NAN), (INF, INF)])
def test_what_is_not_finite_is_never_quickly_said_to_agree(place: int, one: float, other: float) -> None:
    first, second = torch.ones(100_000), torch.ones(100_000)
    first[place], second[place] = one, other
    quick = quick_errors(first, second)
    assert math.isnan(quick.relative)
    assert math.isnan(quick.absolute)


def test_opposite_signs_are_never_quickly_said_to_agree() -> None:
    assert quick_relative_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, -2.0])) == INF


def test_elements_below_the_tolerance_are_left_out_quickly_too() -> None:
    first, second = torch.tensor([1.0, 0.0, 9e-5]), torch.tensor([1.0, 1e-5, 1e-5])
    assert quick_relative_error(first, second) < 1e-30
    assert quick_errors(first, second).absolute == pytest.approx(8e-5)


@pytest.mark.parametrize(
    "change",
    [lambda x: x.permute(0, 3, 1, 2), lambda x: x.transpose(1, 3), lambda x: x[:, ::2]],
    ids=["channels last", "transposed", "sliced"],
)
def test_quick_figures_pair_elements_by_index_in_any_layout(change: Any) -> None:
    base = torch.arange(1, 4 * 32 * 32 * 32 + 1, dtype=torch.float32).reshape(4, 32, 32, 32)
    second = change(base)
    for first in (second.clone(memory_format=torch.contiguous_format), second.clone()):
        assert quick_errors(first, second).absolute == 0.0
        first[3, 1, 2, 3] += 1024
        assert quick_errors(first, second).absolute == 1024.0


def test_quick_figures_of_unlike_formats_are_in_the_wider_one_with_the_tolerance_of_the_first() -> None:
    first = torch.tensor([1.0, 0.5], dtype=torch.float16)
    second = torch.tensor([1.0, 0.5 + 2.0**-13])
    quick = quick_errors(first, second)
    assert quick.absolute == 2.0**-13
    assert quick.relative == pytest.approx(2.0**-13 / (1.0 + 2.0**-13), rel=1e-3)
    assert quick_relative_error(torch.tensor([9e-4], dtype=torch.float16), torch.tensor([8e-4])) < 1e-30
    assert quick_errors(torch.tensor([1 + 2j]), torch.tensor([1 + 4j])).absolute == 2.0
    assert quick_errors(torch.tensor([3, 4]), torch.tensor([3, 6])).absolute == 2.0
