"""Released sources, nothing built: synthesized commands parse without an error, and the sources stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import errors_of

from compile_db import CompileDatabase, Toolchain, detect, synthesize, translate


def state_of(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*")}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def pytorch(pytorch_root: Path, cache: Path, toolchain: Toolchain) -> CompileDatabase:
    before = state_of(pytorch_root / "aten")
    database = synthesize(pytorch_root, cache, toolchain)
    assert state_of(pytorch_root / "aten") == before
    return database


def test_every_cuda_source_below_native_gets_a_command(pytorch: CompileDatabase, pytorch_root: Path) -> None:
    sources = {str(path) for path in (pytorch_root / "aten/src/ATen/native").rglob("*.cu")}
    assert len(sources) == 328
    assert sources <= {command.file for command in pytorch.commands}


def test_all_cuda_commands_are_equal_so_that_one_precompiled_header_serves(
    pytorch: CompileDatabase, toolchain: Toolchain
) -> None:
    cuda = [command for command in pytorch.commands if command.file.endswith(".cu")]
    assert len({translate(command, toolchain).arguments for command in cuda}) == 1


def test_cpu_kernels_come_once_for_each_capability(pytorch: CompileDatabase) -> None:
    found = pytorch.select(["native/cpu/SoftMaxKernel.cpp"]).commands
    assert [command.configuration for command in found] == ["DEFAULT", "AVX2"]
    assert "-DCPU_CAPABILITY_AVX2" in found[1].arguments


@pytest.mark.parametrize(
    "name",
    [
        "native/cuda/ActivationEluKernel.cu",
        "native/cuda/LogcumsumexpKernel.cu",  # CUB
        "native/cuda/SpectralOps.cu",  # cuFFT, which stand-ins replace
        "native/cpu/SoftMaxKernel.cpp",
    ],
)
def test_pytorch_2_6_units_parse_without_an_error(pytorch: CompileDatabase, toolchain: Toolchain, name: str) -> None:
    for command in pytorch.select([name]).commands:
        assert errors_of(translate(command, toolchain)) == []


def test_an_older_checkout_is_served_by_a_newer_torchgen(
    pytorch_1_13_root: Path, cache: Path, toolchain: Toolchain
) -> None:
    database = synthesize(pytorch_1_13_root, cache, toolchain)
    for name in ("native/cuda/ActivationEluKernel.cu", "native/cuda/CrossKernel.cu"):
        (command,) = database.select([name]).commands
        assert errors_of(translate(command, toolchain)) == []


def test_a_torch_extension_parses_without_an_error(torch_scatter_root: Path, cache: Path, toolchain: Toolchain) -> None:
    assert detect(torch_scatter_root) == "torch_extension"
    database = synthesize(torch_scatter_root, cache, toolchain)
    cuda = [command for command in database.commands if command.file.endswith(".cu")]
    assert sorted(Path(command.file).name for command in cuda) == [
        "scatter_cuda.cu",
        "segment_coo_cuda.cu",
        "segment_csr_cuda.cu",
    ]
    assert len({translate(command, toolchain).arguments for command in cuda}) == 1
    assert errors_of(translate(cuda[0], toolchain)) == []


@pytest.fixture(scope="session")
def tensorflow(tensorflow_root: Path, tensorflow_cache: Path, toolchain: Toolchain) -> CompileDatabase:
    before = state_of(tensorflow_root / "tensorflow/core")
    database = synthesize(tensorflow_root, tensorflow_cache, toolchain)
    assert state_of(tensorflow_root / "tensorflow/core") == before
    return database


def test_every_cu_cc_of_tensorflow_gets_a_command_but_tests_and_rocms(
    tensorflow: CompileDatabase, tensorflow_root: Path
) -> None:
    sources = {str(path) for path in tensorflow_root.rglob("*.cu.cc")}
    assert len(sources) == 280
    left_out = {Path(path).name for path in sources - {command.file for command in tensorflow.commands}}
    assert left_out == {
        "gpu_prim_helpers_test.cu.cc", "gpu_kernel_helper_test.cu.cc", "cuda_test.cu.cc", "rocm_helpers.cu.cc",
    }  # fmt: skip


def test_all_of_tensorflows_commands_of_a_kind_are_equal(tensorflow: CompileDatabase, toolchain: Toolchain) -> None:
    clang = [translate(command, toolchain) for command in tensorflow.commands]
    for language in ("cuda", "c++"):
        assert len({command.arguments for command in clang if command.language == language}) == 1


@pytest.mark.parametrize(
    "name",
    [
        "kernels/softplus_op_gpu.cu.cc",
        "kernels/tensor_to_hash_bucket_op_gpu.cu.cc",  # FarmHash, which a stand-in replaces
        "kernels/conv_grad_input_ops_double.cc",  # a message without a .pb.h, made from its .proto
        "kernels/mlir_generated/gpu_op_sqrt.cc",  # LLVM's vectors, which stand-ins replace
        "kernels/sparse/conj_op.cc",  # cuSPARSE, likewise
    ],
)
def test_tensorflow_2_14_units_parse_without_an_error(
    tensorflow: CompileDatabase, toolchain: Toolchain, name: str
) -> None:
    (command,) = tensorflow.select([name]).commands
    assert errors_of(translate(command, toolchain)) == []
