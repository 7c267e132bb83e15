"""Known truths of the frameworks, read in their sources: who widens, who does not, and what versions changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscanner import api
from opscanner.operators.comparison import Comparison, Seen
from opscanner.operators.risk import Cause
from opscanner.operators.version_diff import Change

pytestmark = [pytest.mark.real_sources, pytest.mark.slow]
CUDA = "aten/src/ATen/native/cuda"
PYTORCH = ("ActivationEluKernel", "ActivationSoftplusKernel", "ActivationGeluKernel", "CumsumKernel", "Indexing")
TENSORFLOW = ("relu_op_gpu", "softplus_op_gpu", "scan_ops_gpu_half")
SIXTEEN_BIT = ("float16", "bfloat16")


@pytest.fixture(scope="module")
def database(
    pytorch_root: Path, tensorflow_root: Path, tensorflow_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Eight units of both frameworks, in one database."""
    database = str(tmp_path_factory.mktemp("compare") / "both.sqlite")
    api.scan(str(pytorch_root), only=[f"{CUDA}/{name}.cu" for name in PYTORCH], db=database)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSCANNER_CACHE", str(tensorflow_cache))
        api.scan(str(tensorflow_root), only=[f"core/kernels/{name}.cu.cc" for name in TENSORFLOW], db=database)
    return database


def compare(database: str, operator: str, storage: str) -> Comparison:
    """The first group of pairs that the operator's name means."""
    return api.compare("pytorch", "tensorflow", operator=operator, storage=[storage], db=database)[0]


@pytest.mark.parametrize("storage", SIXTEEN_BIT)
@pytest.mark.parametrize("operator", ["elu", "selu", "softplus"])
def test_pytorch_widens_what_tensorflow_computes_in_t(database: str, operator: str, storage: str) -> None:
    found = compare(database, operator, storage)
    assert found.sides is not None
    wide, narrow = found.sides
    assert (wide.framework, narrow.framework) == ("pytorch", "tensorflow")
    # Every function of PyTorch's kernels is computed in float32, every one of TensorFlow's in T.
    assert {step.format for step in wide.pipeline.steps if step.stage == "function"} == {"float32"}
    assert {step.format for step in narrow.pipeline.steps if step.stage == "function"} == {storage}
    assert narrow.risk.cause is Cause.FUNCTION_CHAIN


@pytest.mark.parametrize("storage", SIXTEEN_BIT)
def test_elu_is_told_step_by_step_with_its_lines(database: str, storage: str) -> None:
    found = compare(database, "elu", storage)
    kernel = [step for step in found.first.pipeline.steps if step.file == f"{CUDA}/ActivationEluKernel.cu"]
    ours = [(step.stage, step.operation, step.format, step.line) for step in kernel]
    # aop = static_cast<opmath_t>(a); return aop > 0 ? aop * poscoef : std::expm1(aop * negiptcoef) * negcoef
    assert ("cast", "static_cast", "float32", 40) in ours
    assert ("function", "expm1", "float32", 42) in ours
    assert ours[-1][2] == storage
    theirs = {(step.operation, step.format, step.file) for step in found.second.pipeline.steps}
    file = "tensorflow/core/kernels/relu_op_functor.h"
    assert {("exp", storage, file), ("-", storage, file)} <= theirs


@pytest.mark.parametrize("storage", SIXTEEN_BIT)
@pytest.mark.parametrize("operator", ["SeluGrad", "LeakyRelu"])
def test_tensorflow_computes_selus_gradient_and_leaky_relu_in_t(database: str, operator: str, storage: str) -> None:
    side = compare(database, operator, storage).second
    assert side.pipeline.narrow
    assert side.pipeline.widened == ()


@pytest.mark.parametrize("storage", SIXTEEN_BIT)
def test_gelu_widens_in_pytorch_and_is_a_composite_in_tensorflow(database: str, storage: str) -> None:
    found = compare(database, "gelu.tanh", storage)
    assert {step.format for step in found.first.pipeline.widened} == {"float32"}
    assert found.first.pipeline.narrow == ()
    assert found.second.risk.cause is Cause.COMPOSITE


def test_tensorflow_scans_in_t_and_so_does_pytorch(database: str) -> None:
    found = compare(database, "cumsum", "float16")
    assert {(step.operation, step.format) for step in found.second.pipeline.narrow} == {("+", "float16")}
    assert found.second.pipeline.widened == ()
    assert found.first.risk.cause is Cause.ACCUMULATION
    assert found.sides is None
    # scan_ops_gpu_bfloat16.cu.cc was not scanned.
    assert compare(database, "cumsum", "bfloat16").second.seen in (Seen.NO_FORMAT, Seen.NOTHING_COMPUTED)


@pytest.mark.parametrize("storage", SIXTEEN_BIT)
def test_index_add_of_pytorch_accumulates_in_scalar_t(database: str, storage: str) -> None:
    side = compare(database, "index_add", storage).first
    assert side.risk.cause is Cause.ACCUMULATION
    # gpuAtomicAddNoReturn / fastAtomicAdd of ReduceAdd.
    assert any(step.file == f"{CUDA}/Indexing.cu" and step.accumulator == storage for step in side.pipeline.steps)


def test_float32_pipelines_are_not_the_16_bit_ones(database: str) -> None:
    pipeline = compare(database, "elu", "float32").first.pipeline
    kernel = [step for step in pipeline.steps if step.file == f"{CUDA}/ActivationEluKernel.cu"]
    assert {step.format for step in kernel} == {"float32"}
    assert [step for step in kernel if step.stage == "cast"] == []


def test_what_was_not_scanned_is_said(database: str) -> None:
    found = compare(database, "log_softmax", "float16")
    assert not found.comparable
    assert found.first.seen is Seen.NOT_SCANNED


def test_suspects_of_tensorflow_are_the_operators_that_widen_nothing(database: str) -> None:
    found = {(one.operator, one.format) for one in api.testlist(framework="tensorflow", db=database)}
    assert {(name, storage) for name in ("Elu", "Selu", "SeluGrad", "Softplus") for storage in SIXTEEN_BIT} <= found
    ours = {one.operator for one in api.testlist(framework="pytorch", db=database)}
    assert "index_add" in ours
    assert ours.isdisjoint(("elu", "softplus", "gelu"))


def test_logaddexp_gained_an_upcast_for_bfloat16(pytorch_1_13_root: Path, pytorch_root: Path, tmp_path: Path) -> None:
    database = str(tmp_path / "versions.sqlite")
    for root in (pytorch_1_13_root, pytorch_root):
        api.scan(
            str(root),
            only=[f"{CUDA}/{name}.cu" for name in ("LogAddExpKernel", "ActivationSoftplusKernel")],
            db=database,
        )
    diff = api.diff("pytorch@1.13", "pytorch@2.6", db=database)
    # 1.13.1, line 26: m + ::log(1.0 + ::exp(-::abs(a - b))) with a and b of scalar_t; 2.6.0: of opmath_t, line 28.
    found = {
        (one.operator, one.format, one.change, one.after.operation, one.before.line, one.after.line)
        for one in diff.changes
    }
    assert ("logaddexp", "bfloat16", Change.GAINED, "-", 26, 28) in found
    assert {(one.operator, one.change) for one in diff.changes} == {
        ("logaddexp", Change.GAINED),
        ("logaddexp2", Change.GAINED),
    }
    # float16 came with a later version; softplus is as it was.
    assert diff.left_out["1.13.0a0 computes nothing for float16"] == 2
