"""The runners: values go in and come out exactly, layouts are what they say, and refusals are told from mistakes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from opscanner.errors import UsageError
from opscanner.frameworks.layouts import LAYOUTS, LayoutError, can_take
from opscanner.frameworks.pytorch import refusals as torch_refusals
from opscanner.frameworks.refusals import Refusal, explain, text_of
from opscanner.frameworks.runners import FRAMEWORKS, Runner, check_device, is_installed, runner_of
from opscanner.frameworks.tensorflow import refusals as tensorflow_refusals

TABLES = {"pytorch": torch_refusals.REFUSALS, "tensorflow": tensorflow_refusals.REFUSALS}
IDENTITY = {"pytorch": "torch.clone(x)", "tensorflow": "raw.Identity(input=x)"}


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if not is_installed(name):
        pytest.skip(f"{name.upper()} IS NOT INSTALLED: NOTHING OF ITS RUNNER WAS TRIED")
    return name


@pytest.fixture
def runner(framework: str) -> Runner:
    return runner_of(framework)


def every_bit_pattern(name: str) -> tuple[np.ndarray, np.ndarray]:
    """(bits, values as float64) of all values of a format that are not NaN, from the definition of the format."""
    width, fraction = {"float16": (16, 10), "bfloat16": (16, 7), "float8_e4m3fn": (8, 3), "float8_e5m2": (8, 2)}[name]
    bits = np.arange(1 << width, dtype=np.int64)
    exponent_bits = width - 1 - fraction
    bias = (1 << (exponent_bits - 1)) - 1
    sign = np.where(bits >> (width - 1), -1.0, 1.0)
    exponent = (bits >> fraction) & ((1 << exponent_bits) - 1)
    mantissa = bits & ((1 << fraction) - 1)
    hidden = np.where(exponent == 0, 0, 1 << fraction)
    values = sign * np.ldexp((hidden + mantissa).astype(float), np.maximum(exponent, 1) - bias - fraction)
    last = exponent == (1 << exponent_bits) - 1
    if name == "float8_e4m3fn":  # no infinity; the last mantissa is NaN
        kept = ~(last & (mantissa == (1 << fraction) - 1))
    else:
        values = np.where(last, sign * np.inf, values)
        kept = ~(last & (mantissa != 0))
    return bits[kept], values[kept]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_value_of_a_small_format_goes_in_and_comes_out_exactly(runner: Runner, framework: str, name: str) -> None:
    _, values = every_bit_pattern(name)
    ((format_, got),) = runner.evaluate_named(IDENTITY[framework], {"x": values}, name)
    assert format_ == name
    assert np.array_equal(got.astype(np.float64), values)
    assert np.array_equal(np.signbit(got), np.signbit(values))


def test_subnormals_of_float32_go_in_and_come_out_exactly(runner: Runner, framework: str) -> None:
    values = np.ldexp(1.0, np.arange(-149, -120))
    (got,) = runner.evaluate(IDENTITY[framework], {"x": values}, "float32")
    assert got.dtype == np.float32
    assert np.array_equal(got.astype(np.float64), values)


def test_an_output_says_in_which_format_it_came(runner: Runner, framework: str) -> None:
    call = {"pytorch": "(x + x, x > 0, x.float())", "tensorflow": "(x + x, x > 0, tf.cast(x, tf.float32))"}[framework]
    named = runner.evaluate_named(call, {"x": np.array([1.0, -1.0])}, "bfloat16")
    assert [(name, array.tolist()) for name, array in named] == [
        ("bfloat16", [2.0, -2.0]),
        ("bool", [True, False]),
        ("float32", [1.0, -1.0]),
    ]


@pytest.mark.parametrize(("format_", "width"), [("float16", 16), ("bfloat16", 16), ("float64", 64)])
def test_bits_are_integers_as_wide_as_the_format(runner: Runner, framework: str, format_: str, width: int) -> None:
    call = {"pytorch": "x.view(bits_dtype)", "tensorflow": "raw.Bitcast(input=x, type=bits_dtype)"}[framework]
    ((name, got),) = runner.evaluate_named(call, {"x": np.array([1.0])}, format_)
    assert name == f"int{width}"
    assert got[0] == {"float16": 15 << 10, "bfloat16": 127 << 7, "float64": 1023 << 52}[format_]


def test_only_the_devices_that_are_there_are_taken(runner: Runner, framework: str) -> None:
    assert runner.devices()[0] == "cpu"
    with pytest.raises(UsageError, match="no device 'cuda:63' here"):
        runner.evaluate(IDENTITY[framework], {"x": np.ones(1)}, "float32", device="cuda:63")
    check_device("torch", "cuda", ["cpu", "cuda:0"])
    with pytest.raises(UsageError, match="one of cpu"):
        check_device("torch", "cuda", ["cpu"])


@pytest.mark.gpu
def test_a_result_on_the_gpu_is_that_of_the_cpu_for_exact_operations(runner: Runner, framework: str) -> None:
    if len(runner.devices()) == 1:
        pytest.skip(f"{framework} SEES NO GPU: NOTHING WAS TRIED ON ONE")
    x = np.arange(-8.0, 8.0).reshape(4, 4)
    call = {"pytorch": "x + torch.ones(4, dtype=x.dtype)", "tensorflow": "x + tf.ones(4, x.dtype)"}[framework]
    (got,) = runner.evaluate(call, {"x": x}, "float16", device="cuda")
    assert np.array_equal(got, x + 1)


# Strides, in elements, by hand: (2, 3) row-major is (3, 1), with every second element of the last axis (6, 2).
STRIDES = {
    "contiguous": ((2, 3), (3, 1), 0),
    "strided": ((2, 3), (6, 2), 0),
    "transposed": ((2, 3), (1, 2), 0),
    "offset": ((2, 3), (3, 1), 1),
    "channels_last": ((2, 3, 4, 5), (60, 1, 15, 3), 0),
    "zero_dim": ((1, 1), (), 0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_of_torch_has_the_strides_it_says_and_the_values_it_was_given(layout: str) -> None:
    runner = runner_of("pytorch")
    shape, strides, begin = STRIDES[layout]
    x = np.arange(float(np.prod(shape))).reshape(shape) + 1
    told = "torch.tensor([*x.stride(), x.storage_offset()])"
    (found,) = runner.evaluate(told, {"x": x}, "float16", layout=layout)
    assert tuple(found) == (*strides, begin)
    (values,) = runner.evaluate("x", {"x": x}, "float16", layout=layout)
    assert np.array_equal(values.reshape(shape), x)


@pytest.mark.parametrize("layout", ["strided", "transposed"])
def test_gradients_and_updates_in_place_see_the_layout(layout: str) -> None:
    runner = runner_of("pytorch")
    _, strides, _ = STRIDES[layout]
    x = np.arange(6.0).reshape(2, 3)
    seen = "(strides := [], {}, torch.tensor(strides[0]))[2]"
    for call in (
        seen.format("grad(lambda t: (strides.append(t.stride()), t * t)[1], x, x)"),
        seen.format("updated(lambda t: strides.append(t.stride()), x)"),
    ):
        (found,) = runner.evaluate(call, {"x": x}, "float32", layout=layout)
        assert tuple(found) == strides


def test_a_layout_that_changes_nothing_is_refused(runner: Runner, framework: str) -> None:
    with pytest.raises(LayoutError) as caught:
        runner.evaluate(IDENTITY[framework], {"x": np.ones(4)}, "float32", layout="transposed")
    assert runner.unsupported(caught.value) is not None
    assert not can_take((4, 1), "strided")
    assert not can_take((2, 1, 4, 4), "channels_last")
    assert not can_take((2, 3, 1, 1), "channels_last")
    assert not can_take((2,), "zero_dim")
    assert not can_take((0, 4), "offset")


def test_tensorflow_has_no_strides_but_values_without_axes() -> None:
    if not is_installed("tensorflow"):
        pytest.skip("TENSORFLOW IS NOT INSTALLED: NOTHING OF ITS RUNNER WAS TRIED")
    runner = runner_of("tensorflow")
    for layout in set(LAYOUTS) - {"contiguous", "zero_dim"}:
        with pytest.raises(LayoutError, match="is not offered here"):
            runner.evaluate("x", {"x": np.ones((2, 2, 2, 2))}, "float32", layout=layout)
    (got,) = runner.evaluate("x + x", {"x": np.ones((1, 1))}, "float32", layout="zero_dim")
    assert got.shape == ()


CASES = [(name, row) for name, table in TABLES.items() for row in table]


@pytest.mark.parametrize(("framework", "row"), CASES, ids=[f"{name}-{row.pattern[:30]}" for name, row in CASES])
def test_a_kind_of_refusal_is_known_by_its_row_alone(framework: str, row: Refusal) -> None:
    explained = explain(row.example, TABLES[framework])
    assert explained is not None
    assert explained.startswith(f"no {row.means}: ")
    others = [other for other in TABLES[framework] if other is not row]
    assert explain(row.example, others) is None, "two rows for one kind of message"


REFUSED = {
    "pytorch": [
        ("torch.gcd(x, x)", "float16", "kernel"),
        ("torch.relu(x)", "float8_e5m2", "kernel"),
        ("torch.fft.fft(x)", "bfloat16", "format"),
        ("torch.quantile(x, .5)", "float16", "format"),
        ("torch.linalg.inv(x[:, None] * x)", "float16", "format"),
        ("grad(torch.floor_divide, (x, x), x)", "float16", "gradient"),
        ("grad(lambda t: torch.ones_like(t), x, x)", "float16", "gradient"),
        ("torch.no_such_function(x)", "float16", "symbol"),
        ("x.no_such_method()", "float16", "symbol"),
        ("aten.no_such_operator(x)", "float16", "symbol"),
        ("torch.cumsum(x, 0, no_such_argument=1)", "float16", "symbol"),
    ],
    "tensorflow": [
        ("raw.Erfinv(x=x)", "float16", "kernel"),
        ("raw.Lgamma(x=x)", "bfloat16", "kernel"),
        ("raw.Relu(features=x)", "float8_e5m2", "format"),
        ("raw.Polygamma(a=x, x=x)", "float16", "format"),
        ("raw.FakeQuantWithMinMaxArgs(inputs=x)", "float16", "format"),
        ("tf.cast(x, tf.string)", "float16", "kernel"),
        ("grad(lambda t: raw.IgammaGradA(a=t, x=t), x, x)", "float32", "gradient"),
        ("grad(lambda t: tf.ones(3), x, x)", "float32", "gradient"),
        ("raw.NoSuchOp(x=x)", "float16", "symbol"),
        ("raw.Relu(features=x, no_such_argument=1)", "float16", "symbol"),
    ],
}


def raised_by(runner: Runner, call: str, format_: str = "float16") -> Exception:
    with pytest.raises(Exception) as caught:
        runner.evaluate(call, {"x": np.array([0.5, 0.25, 0.75])}, format_)
    return caught.value


def test_what_a_framework_does_not_have_is_unsupported(runner: Runner, framework: str) -> None:
    found = {}
    for call, format_, _ in REFUSED[framework]:
        explained = runner.unsupported(raised_by(runner, call, format_))
        found[call] = explained and explained.split(":")[0].removeprefix("no ")
    assert found == {call: means for call, _, means in REFUSED[framework]}


def test_a_wrong_call_is_not_unsupported(runner: Runner, framework: str) -> None:
    wrong = {
        "pytorch": [
            "torch.mm(x, x)",
            "x + torch.ones(2)",
            "no_such_name(x)",
            "x.reshape(7)",
            "F.gelu(x, approximate='y')",
        ],
        "tensorflow": ["raw.MatMul(a=x, b=x)", "no_such_name(x)", "raw.Reshape(tensor=x, shape=[7])", "raw.Relu()"],
    }[framework]
    for call in wrong:
        error = raised_by(runner, call)
        assert runner.unsupported(error) is None, text_of(error)
        assert not runner.out_of_memory(error)


def test_want_of_memory_is_known(runner: Runner, framework: str) -> None:
    call = {"pytorch": "torch.empty(1 << 50)", "tensorflow": "tf.zeros([1 << 44])"}[framework]
    error = raised_by(runner, call)
    assert runner.out_of_memory(error)
    assert runner.unsupported(error) is None


def test_an_unknown_framework_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="one of pytorch, tensorflow"):
        runner_of("jax")


def test_the_door_to_the_runners_imports_no_framework() -> None:
    code = (
        "import sys; from opscanner.frameworks import runners;print(sorted({'torch', 'tensorflow'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "[]\n"
