"""The study's experiment: its tensors, its figures, and ours recomputed by plain formulas in float64."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscanner.dynamic.study import StudyRow, draw_tensors, run_study
from opscanner.dynamic.study_operators import published_figures, study_operators
from opscanner.errors import OpscannerError, UsageError
from opscanner.frameworks.runners import is_installed

both = pytest.mark.skipif(
    not (is_installed("pytorch") and is_installed("tensorflow")),
    reason="NEEDS torch AND tensorflow: THE STUDY COMPARES THEM",
)
Array = np.ndarray

SCALE, ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def operator(name: str, as_published: bool = False) -> Any:
    return next(one for one in study_operators(as_published) if one.id == name)


def of(rows: list[StudyRow], framework: str) -> StudyRow:
    return next(row for row in rows if row.framework == framework)


def test_the_study_has_seven_operators_and_six_gradients() -> None:
    names = [one.id for one in study_operators()]
    assert names == [
        *("selu", "elu", "softplus", "leaky_relu", "log_softmax", "logcumsumexp", "floor_divide"),
        *("selu_grad", "elu_grad", "softplus_grad", "leaky_relu_grad", "log_softmax_grad", "logcumsumexp_grad"),
    ]
    assert {one.width for one in study_operators()} == {5}


def test_a_seed_gives_the_same_tensors_again_and_another_seed_others() -> None:
    first, again = (draw_tensors(operator("selu_grad"), "bfloat16", 40, 3) for _ in range(2))
    other = draw_tensors(operator("selu_grad"), "bfloat16", 40, 4)
    assert list(first) == ["x", "dy"]
    assert all(np.array_equal(first[name], again[name]) and first[name].shape == (40, 5) for name in first)
    assert not np.array_equal(first["x"], other["x"])
    assert not np.array_equal(first["x"], first["dy"])


@pytest.mark.parametrize("format_", ["bfloat16", "float16", "float32"])
def test_tensors_hold_normal_numbers_times_ten_in_the_format(format_: str) -> None:
    x = draw_tensors(operator("selu"), format_, 4000, 0)["x"]
    assert np.array_equal(x, x.astype(np.dtype(format_) if format_ != "bfloat16" else ml_dtypes.bfloat16).astype(float))
    assert 9.8 < x.std() < 10.2
    assert abs(x.mean()) < 0.2


def test_published_tensors_are_those_that_the_scripts_of_the_study_drew() -> None:
    # numpy.random.seed(42), then randn(1) for the input and randn(1) for the gradient, rounded, times 10 in bfloat16.
    np.random.seed(42)
    expected = []
    for _ in range(30):
        pair = [np.random.randn(1).astype(ml_dtypes.bfloat16) * ml_dtypes.bfloat16(10) for _ in range(2)]
        expected.append(np.concatenate(pair).astype(float))
    drawn = draw_tensors(operator("selu_grad", True), "bfloat16", 30, 0, as_published=True)
    assert np.array_equal(np.hstack([drawn["x"], drawn["dy"]]), expected)


def _log_softmax(x: Array) -> Array:
    # The largest term is 1: log1p of the others' sum keeps results next to 0.
    with np.errstate(under="ignore"):
        shifted = x - x.max(axis=-1, keepdims=True)
        others = np.where(np.arange(5) == x.argmax(axis=-1)[:, None], 0, np.exp(shifted))
        result: Array = shifted - np.log1p(others.sum(axis=-1, keepdims=True))
    return result


FORMULAS: dict[str, Callable[..., Array]] = {
    "selu": lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(np.minimum(x, 0))),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(0, x),
    "leaky_relu": lambda x: np.where(x > 0, x, x * 0.2),
    "log_softmax": _log_softmax,
    "logcumsumexp": lambda x: np.logaddexp.accumulate(x, axis=-1),
    "floor_divide": lambda x, y: np.floor(x / y),
    "selu_grad": lambda x, dy: dy * SCALE * np.where(x > 0, 1, ALPHA * np.exp(np.minimum(x, 0))),
    "elu_grad": lambda x, dy: dy * np.exp(np.minimum(x, 0)),
    "softplus_grad": lambda x, dy: dy / (1 + np.exp(-x)),
    "leaky_relu_grad": lambda x, dy: np.where(x > 0, dy, dy * 0.2),
    "log_softmax_grad": lambda x, dy: dy - np.exp(_log_softmax(x)) * dy.sum(axis=-1, keepdims=True),
    "logcumsumexp_grad": lambda x, dy: (
        np.exp(x[:, :, None] - np.logaddexp.accumulate(x, axis=-1)[:, None, :])
        * dy[:, None, :]
        * np.tri(x.shape[-1]).T[None]
    ).sum(axis=-1),
}


def with_torch(name: str, x: Array, second: Array | None) -> Array:
    """The operator as a user of torch calls it."""
    import torch
    from torch.nn import functional

    def tensor(array: Array) -> Any:
        return torch.from_numpy(array).to(torch.bfloat16)

    functions: dict[str, Any] = {
        "selu": functional.selu, "elu": functional.elu, "softplus": functional.softplus,
        "leaky_relu": lambda x: functional.leaky_relu(x, 0.2),
        "log_softmax": lambda x: functional.log_softmax(x, -1), "logcumsumexp": lambda x: torch.logcumsumexp(x, 1),
    }  # fmt: skip
    leaf = tensor(x).requires_grad_()
    if name == "floor_divide":
        assert second is not None
        result = torch.floor_divide(tensor(x), tensor(second))
    elif name.endswith("_grad"):
        assert second is not None
        functions[name.removesuffix("_grad")](leaf).backward(tensor(second))
        result = leaf.grad
    else:
        result = functions[name](leaf)
    array: Array = result.detach().to(torch.float64).numpy()
    return array


def with_tensorflow(name: str, x: Array, second: Array | None) -> Array:
    """The operator as a user of TensorFlow calls it."""
    import tensorflow as tf

    def tensor(array: Array) -> Any:
        return tf.constant(array.astype(ml_dtypes.bfloat16))

    functions: dict[str, Any] = {
        "selu": tf.nn.selu, "elu": tf.nn.elu, "softplus": tf.nn.softplus,
        "leaky_relu": lambda x: tf.nn.leaky_relu(x, 0.2), "log_softmax": tf.nn.log_softmax,
        "logcumsumexp": lambda x: tf.math.cumulative_logsumexp(x, axis=1),
    }  # fmt: skip
    given = tensor(x)
    if name == "floor_divide":
        assert second is not None
        result = tensor(x) // tensor(second)
    elif name.endswith("_grad"):
        assert second is not None
        with tf.GradientTape() as tape:
            tape.watch(given)
            value = functions[name.removesuffix("_grad")](given)
        result = tape.gradient(value, given, output_gradients=tensor(second))
    else:
        result = functions[name](given)
    array: Array = result.numpy().astype(float)
    return array


@both
@pytest.mark.parametrize("name", FORMULAS)
def test_errors_are_those_of_a_plain_formula_and_a_users_call(name: str) -> None:
    rows = run_study(tensors=300, seeds=[5], operators=[name], alone=3)
    assert [row.framework for row in rows] == ["tensorflow", "pytorch"]
    inputs = list(draw_tensors(operator(name), "bfloat16", 300, 5).values())
    exact = FORMULAS[name](*inputs)
    for row, run in zip(rows, (with_tensorflow, with_torch), strict=True):
        got = run(name, inputs[0], inputs[1] if len(inputs) > 1 else None)
        (measured,) = row.measurements
        assert measured.count == exact.size
        assert measured.undecided == measured.class_mismatches == 0
        assert measured.max_absolute_error == pytest.approx(np.max(np.abs(got - exact)), rel=1e-9)
        some = exact != 0
        assert measured.max_relative_error == pytest.approx(np.max(np.abs((got - exact)[some] / exact[some])), rel=1e-6)
        # bfloat16 has 8 bits, the hidden one too; its smallest number is 2**-133.
        exponent = np.floor(np.log2(np.abs(exact), where=some, out=np.full(exact.shape, -126.0)))
        ulp = np.ldexp(1.0, np.maximum(exponent, -126).astype(int) - 7)
        errors = np.abs(got - exact) / ulp
        assert measured.max_ulp == pytest.approx(errors.max(), rel=1e-6)
        assert measured.mean_ulp == pytest.approx(errors.mean(), rel=1e-6)
        assert measured.over_1_ulp == np.count_nonzero(errors > 1)


@both
def test_the_published_measure_is_the_difference_to_the_same_frameworks_float32() -> None:
    import torch

    row = of(run_study(tensors=200, seeds=[1], operators=["softplus"], frameworks=["pytorch"]), "pytorch")
    x = torch.from_numpy(draw_tensors(operator("softplus"), "bfloat16", 200, 1)["x"])
    wide = torch.nn.functional.softplus(x.float()).double()
    narrow = torch.nn.functional.softplus(x.bfloat16()).double()
    assert row.measurements[0].wider_difference == float((wide - narrow).abs().max())


@both
@pytest.mark.parametrize("name", ["elu", "softplus", "selu_grad", "elu_grad", "softplus_grad"])
def test_the_studys_own_figures_reappear_to_the_last_digit(name: str) -> None:
    # Its results are of a GPU: these operators do the same arithmetic on a CPU.
    for row in run_study(tensors=20000, seeds=[0], operators=[name], as_published=True, alone=0):
        published = published_figures(name, row.framework)
        assert published.absolute_error is not None
        assert row.published == published
        assert row.measurements[0].max_absolute_error == pytest.approx(published.absolute_error, rel=1e-9)
        assert row.measurements[0].max_relative_error == pytest.approx(published.relative_error, rel=1e-9)


@both
def test_equal_alphas_take_the_factor_of_twenty_out_of_leaky_relu() -> None:
    def ratio(as_published: bool) -> float:
        rows = run_study(tensors=3000, seeds=[0], operators=["leaky_relu"], as_published=as_published, alone=0)
        tensorflow, pytorch = (of(rows, name).measurements[0].max_absolute_error for name in ("tensorflow", "pytorch"))
        return tensorflow / pytorch

    assert 15 < ratio(as_published=True) < 25
    assert 1 <= ratio(as_published=False) < 2


@both
def test_random_numbers_in_place_of_outputs_do_not_give_the_published_figure() -> None:
    names = ["selu_grad", "selu_grad.random_outputs"]
    rows = run_study(tensors=20000, seeds=[0], operators=names, frameworks=["tensorflow"], as_published=True, alone=0)
    outputs, random = (row.measurements[0].max_absolute_error for row in rows)
    assert outputs > 10
    assert random < 3


@both
def test_tensors_run_one_by_one_are_compared_with_the_batch() -> None:
    rows = run_study(tensors=30, seeds=[0], operators=["log_softmax", "selu"], alone=30)
    for row in rows:
        assert (row.alone, row.differ_alone) == (30, 0)
        assert row.alone_max_absolute_error == row.measurements[0].max_absolute_error
    none = run_study(tensors=3, seeds=[0], operators=["selu"], alone=0)[0]
    assert (none.alone, none.alone_max_absolute_error) == (0, None)


@both
def test_several_seeds_give_a_spread_and_rows_are_json() -> None:
    row = run_study(tensors=50, seeds=[0, 1, 2], operators=["selu"], formats=["float16"])[0]
    values = sorted(one.max_absolute_error for one in row.measurements)
    spread = row.spread("max_absolute_error")
    assert [spread.low, spread.median, spread.high] == values
    assert row.total("count") == 750
    assert row.published.difference is None, "the study published bfloat16 alone"
    found = json.loads(json.dumps(row.as_json()))
    assert found["measurements"][1]["seed"] == 1
    assert math.isfinite(found["measurements"][1]["max_ulp"])


@both
def test_an_operator_that_a_framework_cannot_run_is_an_error_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = dataclasses.replace(operator("selu"), calls={"pytorch": "F.selu(x.to_sparse())", "tensorflow": "x"})
    monkeypatch.setattr("opscanner.dynamic.study.study_operators", lambda as_published: (broken,))
    with pytest.raises(OpscannerError, match="selu of pytorch in bfloat16 on cpu: ") as refused:
        run_study(tensors=2, seeds=[0], frameworks=["pytorch"])
    assert "leave out" in refused.value.hint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"operators": ["gelu"]}, "'gelu' is no operator of the study"),
        ({"formats": ["float64"]}, "does not run in 'float64'"),
        ({"tensors": 0}, "at least one tensor"),
        ({"seeds": []}, "at least one tensor and one seed"),
        ({"frameworks": ["jax"]}, "no framework 'jax'"),
    ],
)
def test_what_the_study_cannot_do_is_refused_with_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        run_study(**options)
    assert refused.value.hint
