"""Operators whose kernels were read by eye, from a scan of their unit: sources, clang and registrations together."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscanner import api

pytestmark = [pytest.mark.real_sources, pytest.mark.slow]
ELU = "aten/src/ATen/native/cuda/ActivationEluKernel.cu"
RELU = "tensorflow/core/kernels/relu_op_functor.h"


@pytest.fixture(scope="module")
def pytorch(pytorch_root: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("pytorch") / "graph.sqlite")
    api.scan(str(pytorch_root), only=(ELU,), db=found, passes="device", jobs=1)
    return found


@pytest.fixture(scope="module")
def tensorflow(tensorflow_root: Path, tensorflow_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("tensorflow") / "graph.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPSCANNER_CACHE", str(tensorflow_cache))
        api.scan(
            str(tensorflow_root),
            only=("tensorflow/core/kernels/relu_op_gpu.cu.cc",),
            db=found,
            passes="device",
            jobs=1,
        )
    return found


def functions(db: str, operator: str) -> set[tuple[str, int]]:
    """Files and lines of what serves an operator on the GPU, in the unit's own file and the functors' header."""
    (found,) = api.operator(operator, db=db)
    return {(row.file, row.line) for row in found.functions if row.device == "cuda" and row.file in (ELU, RELU)}


def test_elu_and_its_gradient_are_served_by_the_kernels_of_their_stubs(pytorch: str) -> None:
    # The lambdas of dispatch and of gpu_kernel in elu_kernel (from line 22) and in elu_backward_kernel (from line 47).
    assert functions(pytorch, "elu") == {(ELU, 32), (ELU, 39)}
    assert functions(pytorch, "elu_backward") == {(ELU, 58), (ELU, 65)}


def test_the_path_to_elus_kernel_leads_from_the_list_of_operators_through_its_stub(pytorch: str) -> None:
    (found,) = api.operator("elu", db=pytorch)
    (kernel,) = [row for row in found.functions if (row.file, row.line) == (ELU, 39)]
    steps = [(step.what.rpartition("::")[2], step.file.rpartition("/")[2]) for step in kernel.path]
    assert steps[:4] == [
        ("native_functions elu.out CUDA: elu_out", "native_functions.yaml"),
        ("elu_out", "Activation.cpp"),
        ("elu_stub", "Activation.cpp"),
        ("elu_kernel", "ActivationEluKernel.cu"),
    ]
    assert 40 in kernel.casts  # static_cast<opmath_t>(a)


def test_forward_and_backward_of_tensorflow_are_served_by_a_functor_each(tensorflow: str) -> None:
    # SeluGrad::operator() begins at line 201, Selu's at 179; likewise for the other activations of this header.
    assert functions(tensorflow, "SeluGrad") == {(RELU, 201)}
    assert functions(tensorflow, "Selu") == {(RELU, 179)}
    assert functions(tensorflow, "EluGrad").isdisjoint(functions(tensorflow, "Elu"))
    (found,) = api.operator("SeluGrad", db=tensorflow)
    assert {(one.kind, one.target) for one in found.registrations if one.device == "cuda"} == {
        ("register_kernel_builder", "SeluGradOp<GPUDevice, T>")
    }
