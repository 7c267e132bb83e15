"""What the rules see in PyTorch 2.6.0, where reading the source tells what there is to see.

Lines are those of the release. A rule that finds more at other lines is not wrong for these tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from opscanner import api
from opscanner.results import FindingRow

pytestmark = [pytest.mark.real_sources, pytest.mark.slow]
NATIVE = "aten/src/ATen/native/cuda"
UNITS = (
    "ActivationEluKernel.cu", "ActivationSoftplusKernel.cu", "ActivationGeluKernel.cu", "LogcumsumexpKernel.cu",
    "SoftMax.cu", "layer_norm_kernel.cu", "Indexing.cu", "UpSampleBilinear2d.cu", "Dropout.cu", "fused_adam_impl.cu",
)  # fmt: skip


@pytest.fixture(scope="module")
def findings(pytorch_root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[FindingRow]:
    database = str(tmp_path_factory.mktemp("patterns") / "real.sqlite")
    api.scan(str(pytorch_root), only=[f"{NATIVE}/{unit}" for unit in UNITS], db=database)
    return api.findings(db=database)


def at(findings: list[FindingRow], file: str, line: int, from_format: str = "float16") -> dict[str, str]:
    """Confidence of each pattern found at a line of a file for values of a format, the surest one."""
    ranks = ("low", "medium", "high")
    found: dict[str, str] = {}
    for row in findings:
        if (row.file, row.line, row.from_format) == (f"{NATIVE}/{file}", line, from_format):
            found[row.pattern] = max(found.get(row.pattern, "low"), row.confidence, key=ranks.index)
    return found


@pytest.mark.parametrize("format_", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("file", "line"),
    [
        # opmath_t aop = static_cast<opmath_t>(a); ... std::expm1(aop * negiptcoef) * negcoef
        ("ActivationEluKernel.cu", 40),
        # opmath_t aop = static_cast<opmath_t>(a); ... ::log1p(std::exp(aop * beta)) / beta
        ("ActivationSoftplusKernel.cu", 36),
        # x_cube of static_cast<opmath_t>(x), for tanh; and the argument of erf
        ("ActivationGeluKernel.cu", 28),
        ("ActivationGeluKernel.cu", 38),
        # const opmath_t x{x_}, y{y_}; return _log_add_exp_helper(x, y): log1p(exp(min - max)) + max
        ("LogcumsumexpKernel.cu", 117),
        # elements[i][it] = src[...], of which exp is taken
        ("PersistentSoftmax.cuh", 108),
    ],
)
def test_elu_selu_softplus_gelu_logcumsumexp_and_log_softmax_widen_for_their_functions(
    findings: list[FindingRow], file: str, line: int, format_: str
) -> None:
    assert at(findings, file, line, format_)["widened-math"] == "high"


def test_selu_is_served_by_the_widening_elu_kernel_and_leaves_no_arithmetic_in_16_bit(
    findings: list[FindingRow],
) -> None:
    in_16_bit = [row for row in findings if row.file.endswith("ActivationEluKernel.cu") and "untuned" in row.pattern]
    assert in_16_bit == []


def test_softmax_sums_exponentials_in_float32(findings: list[FindingRow]) -> None:
    # sum[i] += std::exp(elements[i][it] - max_value[i]): the loop over it comes back to the same sum[i].
    assert at(findings, "PersistentSoftmax.cuh", 108)["widened-accumulation"] == "high"


def test_layer_norm_widens_for_welford_moments_and_for_the_scale(findings: list[FindingRow]) -> None:
    # val = welford_op.reduce(val, static_cast<T_ACC>(X[index]), index);
    assert at(findings, "layer_norm_kernel.cu", 75)["statistics"] == "high"
    # Y[index] = (static_cast<T_ACC>(X[index]) - static_cast<T_ACC>(mean[i])) * static_cast<T_ACC>(rstd[i]) * gamma_v
    assert at(findings, "layer_norm_kernel.cu", 108)["normalization-scale"] == "high"


def test_index_add_adds_atomically_in_the_tensors_own_format(findings: list[FindingRow]) -> None:
    # (void)fastAtomicAdd<scalar_t>(self_data_start, index, numel, *src_data, true) in ReduceAdd
    assert at(findings, "Indexing.cu", 366)["untuned-accumulation"] == "high"
    assert at(findings, "Indexing.cu", 366, "bfloat16")["untuned-accumulation"] == "high"


def test_index_put_with_accumulation_sums_in_float32(findings: list[FindingRow]) -> None:
    # gradient += static_cast<opmath_t>(grad_output[grad_row]) * scale;
    assert at(findings, "Indexing.cu", 231)["widened-accumulation"] == "high"


def test_bilinear_upsampling_weighs_pixels_in_float32(findings: list[FindingRow]) -> None:
    # w0lambda * idata[n][c][h1][w1], w0lambda an accscalar_t
    assert at(findings, "UpSampleBilinear2d.cu", 71)["interpolation"] == "high"
    # const accscalar_t h1lambda = h1r - h1;
    assert at(findings, "UpSampleBilinear2d.cu", 58, "int32")["interpolation"] == "high"


def test_bilinear_upsampling_adds_gradients_atomically_in_the_tensors_own_format(findings: list[FindingRow]) -> None:
    # fastAtomicAdd(idata, ..., static_cast<scalar_t>(h0lambda * w0lambda * d2val), true), narrowed before it is added
    assert at(findings, "UpSampleBilinear2d.cu", 169)["untuned-accumulation"] == "high"
    assert at(findings, "UpSampleBilinear2d.cu", 173, "float32")["premature-narrowing"] == "high"


def test_dropout_scales_with_random_numbers_in_float32(findings: list[FindingRow]) -> None:
    # r[ii] = src[ii]*(&rand.x)[ii]*scale;
    assert at(findings, "Dropout.cu", 111)["random-numbers"] == "high"


def test_adam_updates_its_moments_in_float32_and_computes_in_double_on_the_way(findings: list[FindingRow]) -> None:
    # opmath_t exp_avg = static_cast<opmath_t>(r_args[kExpAvgIdx][ii]);
    assert at(findings, "fused_adam_utils.cuh", 51)["optimizer-state"] == "high"
    # exp_avg = beta1 * exp_avg + (1 - beta1) * grad; beta1 is a double
    assert at(findings, "fused_adam_utils.cuh", 67, "float32")["double-promotion"] == "high"
