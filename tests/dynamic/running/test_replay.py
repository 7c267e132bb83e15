"""Saved calls are made again, held against others and the exact result, made small, and shown by a script."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch")

import opscanner  # noqa: E402
from opscanner import api  # noqa: E402
from opscanner.dynamic.fault_script import run_script  # noqa: E402
from opscanner.dynamic.running.calls import floats_of  # noqa: E402
from opscanner.dynamic.running.named_call import NamedCall, operator_of  # noqa: E402
from opscanner.dynamic.running.saving import SavedCall, read_call, write_call  # noqa: E402
from opscanner.dynamic.running.smallest_call import may_be_cut  # noqa: E402
from opscanner.dynamic.running.true_error import true_errors  # noqa: E402
from opscanner.dynamic.running.truth import _EXPRESSIONS, NoTruthError  # noqa: E402
from opscanner.errors import OpscannerError, UsageError  # noqa: E402
from opscanner.report.replayed import rows  # noqa: E402

aten = torch.ops.aten


def saved(folder, run, **options):
    """The file of the only alert of a piece of code."""
    with opscanner.watch(save=folder, **options) as report:
        run()
    [alert] = report.alerts
    return alert.saved


def variance(x):
    mean = x.mean(-1, keepdim=True)
    return (x * x).mean(-1, keepdim=True) - mean * mean


def test_an_overflow_is_the_formats_fault(tmp_path):
    found = api.replay(saved(tmp_path, lambda: torch.exp(torch.tensor([[1.0, 2.5], [0.3, 97.25]]))))
    assert found.same_bits is True
    assert found.alert.startswith("made non-finite: 1 elements")
    # exp(97.25) in 20 digits is 1.7194e42; the largest number of float32 is 3.4e38.
    assert found.conclusion.startswith("The format is too narrow: the exact result at [1, 1] is 1.7")
    assert found.truths[0].within_budget
    small = found.smallest.call.arrays()["x"]
    assert small.shape == (1, 1)
    assert small.item() > math.log(torch.finfo(torch.float32).max)
    assert (found.smallest.got, found.smallest.index) == (math.inf, (0, 0))


def test_a_difference_that_cancels_is_its_inputs_fault(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(8, 64) + 100.0
    found = api.replay(saved(tmp_path, lambda: variance(x)))
    assert found.operator == "aten.sub.Tensor"
    # By Sterbenz's lemma the difference of numbers within a factor of two of each other is exact.
    assert found.truths[0].difference.max_ulp == 0
    assert found.conclusion.startswith("The operator is right")
    assert "look at what makes the inputs" in found.conclusion
    assert {name: array.size for name, array in found.smallest.call.arrays().items()} == {"x": 1, "other": 1}
    ran = run_script(api.replay_script(found))
    assert ran.code == 0, ran.output
    result, moved = (line.split("[")[1] for line in ran.output.splitlines()[-2:])
    assert result != moved


def test_digits_that_are_lost_next_to_zero_are_said_so(tmp_path):
    # GELU's tail in float32: x/2 * (1 + erf(x / sqrt(2))) cancels, about 1000 ULP of an element of 1e-4 at x = -4.
    x = torch.tensor([3.0, -4.0])
    path = tmp_path / "call.safetensors"
    write_call(path, "aten.gelu.default", (x,), {}, {"mode": "upcast", "kind": "deviation", "tolerance_ulp": 0.1})
    found = api.replay(path)
    assert found.truths[0].difference.max_ulp > 100
    assert found.conclusion.startswith("The operator loses precision where it does not show")
    assert "ULP of the largest element" in found.conclusion


def test_softmax_of_rows_that_are_masked_has_no_exact_result():
    x = torch.tensor([[1.0, 2.0], [-math.inf, -math.inf]])
    call = NamedCall(aten._safe_softmax.default, SavedCall("", (x, -1), {}, {}))
    with pytest.raises(NoTruthError, match="minus infinity"):
        true_errors(call, [aten._safe_softmax.default(x, -1)])


def test_an_operator_that_overflows_on_its_way_is_wrong(tmp_path):
    # The norm of two numbers of 1e30 is 1.414e30; their squares leave float32.
    x = torch.tensor([1e30, 1e30])
    path = tmp_path / "call.safetensors"
    write_call(path, "aten.linalg_vector_norm.default", (x, 2), {}, {"mode": "upcast", "kind": "overflow"})
    found = api.replay(path)
    assert found.alert.startswith("overflow")
    assert found.conclusion.startswith(
        "The operator is wrong: it gives inf at [], where the exact result is 1.41421e+30"
    )
    script = api.replay_script(found)
    ran = run_script(script)
    assert ran.code == 1, ran.output
    assert "(0x7F800000)" in ran.output
    assert "wrong" in ran.output


def test_what_the_watch_left_unmoved_stays_so(tmp_path):
    layer = torch.nn.Linear(4, 4, bias=False)
    with opscanner.watch(layer, save=tmp_path, tolerance_ulp=0.25) as report:
        layer(torch.rand(3, 4))
    assert read_call(report.alerts[0].saved).seen["unmoved"] == [1]  # the weight
    path = tmp_path / "call.safetensors"
    seen = {"mode": "perturb", "kind": "deviation", "tolerance_ulp": 0.25}
    factors = (torch.rand(8) + 1, torch.rand(8) + 1)
    write_call(path, "aten.mul.Tensor", factors, {}, {**seen, "unmoved": []})
    assert api.replay(path).alert
    write_call(path, "aten.mul.Tensor", factors, {}, {**seen, "unmoved": [0, 1]})
    assert not api.replay(path).alert


def test_dropout_is_replayed_with_its_mask(tmp_path):
    torch.manual_seed(3)
    x = torch.full((64,), 3e38)
    found = api.replay(saved(tmp_path, lambda: torch.ops.aten.native_dropout.default(x, 0.5, True)))
    assert found.draws_random
    assert found.same_bits is True
    assert found.why_no_truth == "it drew random numbers"
    with pytest.raises(OpscannerError, match="draws random numbers"):
        api.replay_script(found)


def test_a_replay_leaves_the_random_state_alone(tmp_path):
    path = saved(tmp_path, lambda: torch.exp(torch.tensor([100.0])))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    api.replay(path)
    assert torch.equal(torch.rand(1), expected)


def test_smallest_inputs_are_written_and_replayed(tmp_path):
    found = api.replay(saved(tmp_path, lambda: torch.exp(torch.tensor([[1.0, 97.25]], dtype=torch.float16).float())))
    api.write_smallest(found, tmp_path / "small.safetensors")
    again = api.replay(tmp_path / "small.safetensors")
    assert again.inputs == ["x float32 [1, 1]"]
    assert again.same_bits is None
    assert again.alert == found.smallest.message


def test_the_same_file_gives_the_same_inputs_and_figures(tmp_path):
    torch.manual_seed(1)
    x = torch.randn(8, 64) + 100.0
    path = saved(tmp_path, lambda: variance(x))
    one, other = api.replay(path), api.replay(path)
    assert one.beside == other.beside
    assert api.replay_script(one) == api.replay_script(other)


def test_more_seeds_give_no_smaller_bound(tmp_path):
    torch.manual_seed(1)
    x = torch.randn(8, 64) + 100.0
    path = saved(tmp_path, lambda: variance(x))
    few, many = (api.replay(path, seeds=seeds, trials=0).beside[0] for seeds in (1, 16))
    assert many.comparison.max_relative_error >= few.comparison.max_relative_error > 0
    assert api.replay(path, trials=0).smallest is None


def test_an_operator_without_a_reference_says_so(tmp_path):
    path = saved(tmp_path, lambda: torch.special.entr(torch.tensor([3e38])))
    found = api.replay(path)
    assert "no row of the catalog" in found.why_no_truth
    assert "float64 run" in found.conclusion


def test_shapes_are_kept_of_operators_that_may_not_check_them(tmp_path):
    assert may_be_cut(aten.mm.default)
    assert may_be_cut(aten.special_entr.default)
    assert not may_be_cut(aten.mkldnn_rnn_layer_backward.default)
    # Distances of 6e38 times 2 leave float32.
    path = tmp_path / "call.safetensors"
    x = torch.full((3, 4), 3e38)
    write_call(path, "aten._cdist_forward.default", (x, -x, 2.0, None), {}, {"mode": "upcast", "kind": "overflow"})
    found = api.replay(path)
    assert {name: array.shape for name, array in found.smallest.call.arrays().items()} == {"x1": (3, 4), "x2": (3, 4)}


def test_a_format_that_the_operator_refuses_is_a_row_with_the_reason(tmp_path):
    # On the CPU a layer norm of bfloat16 takes weights of float32; one of float32 takes none of float64.
    path = tmp_path / "call.safetensors"
    x, weight = torch.rand(3, 4).bfloat16(), torch.rand(4)
    write_call(path, "aten.native_layer_norm.default", (x, [4], weight, weight, 1e-5), {}, {})
    found = api.replay(path)
    wider = next(one for one in found.beside if one.against.startswith("one format wider"))
    assert wider.comparison is None
    assert wider.why_not.startswith("RuntimeError: mixed dtype")
    assert wider.why_not in {row[-1] for row in rows(found)}
    assert found.truths[0].within_budget


def test_numbers_beside_tensors_count_as_kernels_hold_them(tmp_path):
    path = tmp_path / "call.safetensors"
    write_call(path, "aten.mul.Tensor", (torch.rand(1000), 0.1), {}, {})
    # One product, rounded once; 0.1 itself is off by 0.3 ULP in float32.
    assert api.replay(path).truths[0].difference.max_ulp <= 0.5


def test_complex_results_are_compared_and_left_as_they_are(tmp_path):
    path = saved(tmp_path, lambda: torch.fft.fft(torch.ones(8)), tolerance_ulp=0.1)
    found = api.replay(path)
    assert found.why_not_smaller == "complex results are not made small"
    assert found.beside[0].comparison.max_scaled_ulp > 0
    with pytest.raises(OpscannerError, match="complex"):
        api.replay_script(found)


def test_another_implementation_is_not_in_the_file(tmp_path):
    x = torch.tensor([1.0, 2.0])
    path = saved(
        tmp_path, lambda: torch.exp(x), mode="substitute", substitute={"aten.exp": lambda one: torch.exp(one) * 1.5}
    )
    found = api.replay(path)
    assert found.why_not_smaller == "the other implementation is not in the file"
    assert found.conclusion.startswith("The operator is right")


#: Arguments for the operators whose references have attributes: exact results are known from float64 alone.
CALLS = {
    "add": ("Tensor", [(3, 4), (4,)], {"alpha": 0.5}),
    "sub": ("Tensor", [(3, 4), (3, 1)], {"alpha": 2}),
    "rsub": ("Scalar", [(3, 4)], (2.5,)),
    "mul": ("Tensor", [(3, 4), ()], ()),
    "div": ("Tensor", [(3, 4), (3, 4)], ()),
    "pow": ("Tensor_Scalar", [(3, 4)], (3,)),
    "atan2": ("default", [(3, 4), (3, 4)], ()),
    "hypot": ("default", [(3, 4), (3, 4)], ()),
    "logaddexp": ("default", [(3, 4), (3, 4)], ()),
    "xlogy": ("Tensor", [(3, 4), (3, 4)], ()),
    "fmod": ("Tensor", [(3, 4), (3, 4)], ()),
    "addcmul": ("default", [(3, 4), (3, 4), (4,)], {"value": 0.5}),
    "addcdiv": ("default", [(3, 4), (3, 4), (3, 4)], {"value": 0.5}),
    "gelu": ("default", [(3, 4)], {"approximate": "tanh"}),
    "elu": ("default", [(3, 4)], ()),
    "softplus": ("default", [(3, 4)], ()),
    "leaky_relu": ("default", [(3, 4)], (0.25,)),
    "sigmoid_backward": ("default", [(3, 4), (3, 4)], ()),
    "tanh_backward": ("default", [(3, 4), (3, 4)], ()),
    "silu_backward": ("default", [(3, 4), (3, 4)], ()),
    "gelu_backward": ("default", [(3, 4), (3, 4)], ()),
    "_softmax": ("default", [(3, 4, 5)], (1, False)),
    "_log_softmax": ("default", [(3, 4, 5)], (-1, False)),
    "_softmax_backward_data": ("default", [(3, 4), (3, 4)], (-1, torch.float32)),
    "logsumexp": ("default", [(3, 4)], ([1],)),
    "sum": ("dim_IntList", [(3, 4, 5)], ([0, 2], True)),
    "mean": ("dim", [(3, 4, 5)], ([1],)),
    "prod": ("dim_int", [(3, 4)], (1,)),
    "var": ("correction", [(3, 4)], ([1],)),
    "std": ("correction", [(3, 4)], {"dim": [0], "correction": 0}),
    "cumsum": ("default", [(3, 4)], (0,)),
    "linalg_vector_norm": ("default", [(3, 4)], (2, [1])),
    "dot": ("default", [(5,), (5,)], ()),
    "mv": ("default", [(3, 5), (5,)], ()),
    "mm": ("default", [(3, 5), (5, 2)], ()),
    "bmm": ("default", [(2, 3, 5), (2, 5, 2)], ()),
    "addmm": ("default", [(2,), (3, 5), (5, 2)], {"beta": 0.5, "alpha": 2}),
    "baddbmm": ("default", [(2, 3, 2), (2, 3, 5), (2, 5, 2)], {"beta": 0.5}),
    "convolution": ("default", [(2, 4, 6, 5), (6, 2, 3, 3), (6,)], ([2, 1], [1, 1], [1, 1], False, [0, 0], 2)),
    "convolution_backward": (
        "default",
        [(2, 6, 3, 5), (2, 4, 6, 5), (6, 2, 3, 3)],
        ([6], [2, 1], [1, 1], [1, 1], False, [0, 0], 2, [True, True, True]),
    ),
    "_native_batch_norm_legit_no_training": ("default", [(5, 4), (4,), (4,), (4,), (4,)], (0.1, 1e-5)),
    "_fused_rms_norm": ("default", [(3, 4)], ([4], torch.ones(4), 1e-5)),
    "native_group_norm": ("default", [(2, 4, 3), (4,), (4,)], (2, 4, 3, 2, 1e-5)),
    "native_batch_norm": ("default", [(5, 4), (4,), (4,)], (None, None, True, 0.1, 1e-5)),
    "_scaled_dot_product_flash_attention_for_cpu": ("default", [(1, 2, 5, 4)] * 3, (0.0, True)),
}  # fmt: skip


def call_of(name, dtype):
    overload, shapes, rest = CALLS[name]
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.rand(shape, generator=generator).add(0.125).to(dtype) for shape in shapes]
    args, kwargs = ((), rest) if isinstance(rest, dict) else (rest, {})
    operator = operator_of(f"aten.{name}.{overload}", "test")
    return NamedCall(operator, SavedCall(str(operator), (*tensors, *args), kwargs, {}))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_references_of_operators_agree_with_torchs_own_float64(name):
    call = call_of(name, torch.float32)
    result = call.operator(*call.args, **call.kwargs)
    results = floats_of((result,))
    truths = true_errors(call, results)
    wide = [
        one.double() if isinstance(one, torch.Tensor) else torch.float64 if one is torch.float32 else one
        for one in call.args
    ]
    for truth, expected in zip(truths, floats_of((call.operator(*wide, **call.kwargs),)), strict=False):
        torch.testing.assert_close(torch.from_numpy(truth.values), expected, rtol=1e-12, atol=1e-12)
        assert truth.difference.max_scaled_ulp < 16
    assert len(truths) == (3 if name == "convolution_backward" else 1)


def test_every_reference_with_attributes_is_tried():
    assert set(_EXPRESSIONS) - set(CALLS) == {"native_layer_norm"}  # by itself below: its sizes come second


def test_a_layer_normalization_has_a_reference():
    x, weight, bias = torch.rand(3, 2, 4), torch.rand(2, 4), torch.rand(2, 4)
    call = NamedCall(aten.native_layer_norm.default, SavedCall("", (x, [2, 4], weight, bias, 1e-5), {}, {}))
    expected = torch.nn.functional.layer_norm(x.double(), (2, 4), weight.double(), bias.double(), 1e-5)
    truth = true_errors(call, [aten.native_layer_norm.default(*call.args)[0]])[0]
    torch.testing.assert_close(torch.from_numpy(truth.values), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.elu.default, (torch.ones(2), 0.5)),
        (aten.div.Tensor_mode, (torch.ones(2), torch.ones(2))),
        (aten.softplus.default, (torch.ones(2), 2)),
    ],
)
def test_forms_that_a_reference_does_not_know_are_refused(operator, args):
    kwargs = {"rounding_mode": "floor"} if operator is aten.div.Tensor_mode else {}
    call = NamedCall(operator, SavedCall("", args, kwargs, {}))
    with pytest.raises(NoTruthError, match="does not know this form"):
        true_errors(call, [operator(*args, **kwargs)])


@pytest.mark.parametrize(
    ("operator", "args", "told"),
    [
        ("aten.gone_in_this_release.default", (torch.ones(2),), "does not have"),
        ("mylibrary.op.default", (torch.ones(2),), "import the library"),
        ("aten.from_file.default", ("/etc/passwd",), "floating point"),
        ("aten.clone.default", (torch.ones(2),), "a watch saves none of"),
        ("aten.mm.default", (torch.ones(2), torch.ones(2)), "refuses the saved inputs"),
        ("aten.upsample_nearest1d_backward.default", (torch.ones(1, 1, 2), [2], [1, 1, 1 << 50]), "memory"),
    ],
)
def test_calls_that_cannot_be_made_are_said_so(tmp_path, operator, args, told):
    path = tmp_path / "call.safetensors"
    write_call(path, operator, args, {}, {})
    with pytest.raises(OpscannerError, match=told) as raised:
        api.replay(path)
    assert str(path) in str(raised.value)


def test_a_device_that_is_not_there_is_wrong_usage(tmp_path):
    path = saved(tmp_path, lambda: torch.exp(torch.tensor([100.0])))
    with pytest.raises(UsageError, match="there is no device cuda:77"):
        api.replay(path, device="cuda:77")
