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
