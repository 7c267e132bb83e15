"""nvcc's options: each that ``nvcc --help`` of CUDA 13.0 and 11.8 names is in the table, in all its forms."""

from __future__ import annotations

import pytest

from compile_db.nvcc import ROWS, Becomes, read_nvcc_arguments

# From the help texts: long name, short name, v where a value follows.
HELP = """
cuda cuda | cubin cubin | fatbin fatbin | ptx ptx | optix-ir optix-ir | ltoir ltoir | preprocess E | compile c
generate-dependencies M | generate-nonsystem-dependencies MM | generate-dependencies-with-compile MD
generate-nonsystem-dependencies-with-compile MMD | dependency-output MF v | generate-dependency-targets MP | device-c dc
device-w dw | device-link dlink | link link | lib lib | run run | output-file o v | pre-include include v
objdir-as-tempdir objtemp | library l v | define-macro D v | undefine-macro U v | include-path I v
system-include isystem v | library-path L v | output-directory odir v | compiler-bindir ccbin v
allow-unsupported-compiler allow-unsupported-compiler | archiver-binary arbin v | cudart cudart v
cudadevrt cudadevrt v | libdevice-directory ldir v | target-directory target-dir v
use-local-env use-local-env | profile pg | debug g
device-debug G | generate-line-info lineinfo | optimization-info opt-info v | optimize O v | dopt dopt v
dlink-time-opt dlto | gen-opt-lto gen-opt-lto | ftemplate-depth ftemplate-depth v | no-exceptions noeh | shared shared
x x v | std std v | no-host-device-initializer-list nohdinitlist | no-host-device-move-forward nohdmoveforward
expt-relaxed-constexpr expt-relaxed-constexpr | extended-lambda extended-lambda
expt-extended-lambda expt-extended-lambda | machine m v | m64 m64 | compiler-options Xcompiler v
linker-options Xlinker v | archive-options Xarchive v | ptxas-options Xptxas v | nvlink-options Xnvlink v
forward-unknown-to-host-compiler forward-unknown-to-host-compiler
forward-unknown-to-host-linker forward-unknown-to-host-linker | dont-use-profile noprof | dryrun dryrun | verbose v
threads t v | keep keep | keep-dir keep-dir v | save-temps save-temps | clean-targets clean | time time v
run-args run-args v | input-drive-prefix idp v | dependency-drive-prefix ddp v | drive-prefix dp v
dependency-target-name MT v | no-device-link nodlink | gpu-architecture arch v | gpu-code code v
generate-code gencode v | relocatable-device-code rdc v | entries e v | maxrregcount maxrregcount v
use_fast_math use_fast_math | ftz ftz v | prec-div prec-div v | prec-sqrt prec-sqrt v | fmad fmad v
extra-device-vectorization extra-device-vectorization | default-stream default-stream v | disable-warnings w
keep-device-functions keep-device-functions | source-in-ptx src-in-ptx | restrict restrict | Wreorder Wreorder
Werror Werror v | resource-usage res-usage | extensible-whole-program ewp | no-compress no-compress
host-linker-script hls v | augment-host-linker-script aug-hls | relocatable-link r | diag-error diag-error v
diag-suppress diag-suppress v | diag-warn diag-warn v | brief-diagnostics brief-diag v | options-file optf v
frandom-seed frandom-seed v | split-compile split-compile v | jump-table-density jtd v
device-entity-has-hidden-visibility device-entity-has-hidden-visibility v | compress-mode compress-mode v
"""
OPTIONS = [row.split() for line in HELP.strip().splitlines() for row in line.split(" | ")]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option[0])
def test_every_option_of_nvcc_is_a_row_with_its_value(option: list[str]) -> None:
    long, short = f"--{option[0]}", f"-{option[1]}"
    rows = [row for row in ROWS if {long, short} & {*row.names}]
    assert len(rows) == 1
    assert {long, short} <= {*rows[0].names}
    assert rows[0].takes_value == (len(option) == 3)


@pytest.mark.parametrize("option", [option for option in OPTIONS if len(option) == 3], ids=lambda option: option[0])
def test_a_value_may_be_joined_or_stand_apart_after_either_name(option: list[str]) -> None:
    answers = []
    for name in (f"--{option[0]}", f"-{option[1]}"):
        for given in ((name, "sm_80"), (f"{name}=sm_80",)):
            read = read_nvcc_arguments((*given, "-DAFTER"))
            assert read.host[-1] == "-DAFTER"
            answers.append((read.host, read.architectures, [item.reason for item in read.dropped]))
    assert all(answer == answers[0] for answer in answers)


def test_every_row_that_drops_says_why() -> None:
    assert all(row.reason for row in ROWS if row.becomes is Becomes.NOTHING)


@pytest.mark.parametrize(
    ("given", "host"),
    [
        (("-O3",), []),
        (("-Iinc", "-I", "a,b"), ["-I", "inc", "-I", "a", "-I", "b"]),
        (("-DA=f(1,2)", "-D", "B,C=1"), ["-DA=f(1,2)", "-DB", "-DC=1"]),
        (("-std=c++17",), ["-std=c++17"]),
        (("-std", "c++20"), ["-std=c++20"]),
        (("-xcu",), ["-x", "cu"]),
        (("-m64", "-m", "64", "-mavx2"), ["-m64", "-m64", "-mavx2"]),
        (("-Xcompiler", "-fPIC,-Wall", "-Xcompiler=-DX"), ["-fPIC", "-Wall", "-DX"]),
        (("-Xcompiler", "-DX=a\\,b"), ["-DX=a,b"]),
        (("-Xcompiler",), []),
        (("--use_fast_math",), ["-fgpu-approx-transcendentals"]),
        (("--use_fast_math=false",), []),
        (("--fmad=false",), ["-ffp-contract=off"]),
        (("-fmad", "true"), []),
        (("--default-stream=legacy",), []),
        (("-fvisibility=hidden", "-Wno-unused"), ["-fvisibility=hidden", "-Wno-unused"]),
    ],
    ids=str,
)
def test_nvccs_arguments_as_host_arguments(given: tuple[str, ...], host: list[str]) -> None:
    assert read_nvcc_arguments(given).host == host
