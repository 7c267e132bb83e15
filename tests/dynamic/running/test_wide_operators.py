"""Every operator that PyTorch tests itself: run wide, it gives what it gives for inputs that are wide already."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # OpInfo imports it
from torch.utils import _pytree  # noqa: E402

from opscanner.dynamic.running.wide import run_wide, widened, widened_dtype  # noqa: E402

#: Random in the narrow run's way, which float64 is not; casts, whose float64 run is narrow; memory as it was found.
LEFT_OUT = frozenset({
    "bernoulli", "cauchy", "exponential", "log_normal", "normal", "uniform", "randn", "randn_like", "rand_like",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
    "bfloat16", "half", "chalf", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
    "new_empty_strided", "resize_", "resize_as_",
})  # fmt: skip


def tensors(value: Any) -> list[Any]:
    return [one for one in _pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]


def changed(value: Any, change: Any) -> Any:
    return _pytree.tree_map_only(torch.Tensor, change, value)


def wide(value: Any) -> Any:
    def cast(one: Any) -> Any:
        if isinstance(one, torch.dtype):
            return widened_dtype(one, torch.float64)
        return one.to(widened_dtype(one.dtype, torch.float64)) if isinstance(one, torch.Tensor) else one

    return _pytree.tree_map(cast, value)


def cases(dtype: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Operators and inputs that the operator takes in a format and in float64."""
    from torch.testing._internal.common_methods_invocations import op_db

    for entry in op_db:
        if dtype not in entry.dtypes or entry.name in LEFT_OUT or entry.name.startswith("jiterator"):
            continue
        torch.manual_seed(0)
        # Not sample_inputs, which looks through the stack for a test to note each sample in: 30 ms a sample here.
        samples = entry.sample_inputs_func(entry, torch.device("cpu"), dtype, requires_grad=False)
        for sample in itertools.islice(samples, 2):
            yield entry, (sample.input, *sample.args), sample.kwargs


def is_same(got: Any, expected: Any) -> bool:
    """The same shapes and numbers: float64 rounds, and sums have an order."""
    pairs = list(itertools.zip_longest(tensors(got), tensors(expected)))
    return all(
        one is not None and other is not None and one.shape == other.shape
        and torch.allclose(one.to(torch.complex128), other.to(torch.complex128), 1e-9, 1e-12, equal_nan=True)
        for one, other in pairs
        if one is None or (one.layout is torch.strided and not one.is_nested)
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_every_operator_gives_in_a_wide_run_what_wide_inputs_give(dtype: Any) -> None:
    tried, wrong = 0, []
    for entry, args, kwargs in cases(dtype):
        state = torch.get_rng_state()
        try:
            expected = entry.op(*changed(wide(args), torch.clone), **wide(kwargs))
        except RuntimeError:
            continue  # it has no kernel for float64
        torch.set_rng_state(state)
        cast_before = run_wide(entry.op, args, kwargs, torch.float64)
        with torch.no_grad(), widened(torch.float64):
            cast_where_used = entry.op(*changed(args, torch.clone), **changed(kwargs, torch.clone))
        tried += 1
        wrong += [entry.name for got in (cast_before, cast_where_used) if not is_same(got, expected)]
        wrong += [f"{entry.name} is narrow" for one in tensors(cast_before) if one.dtype is dtype]
    assert wrong == []
    assert tried > 900
