from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compile_db.command import ClangCommand
from opscanner import scanning
from opscanner.errors import UsageError


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_pytorch_checkout_is_known_by_its_functions_and_its_version(tmp_path: Path) -> None:
    write(tmp_path / "aten/src/ATen/native/native_functions.yaml")
    assert scanning.detect_framework(tmp_path) == ("pytorch", "")
    write(tmp_path / "version.txt", "2.6.0a0\n")
    assert scanning.detect_framework(tmp_path) == ("pytorch", "2.6.0a0")


def test_a_tensorflow_checkout_is_known_by_its_version_header(tmp_path: Path) -> None:
    lines = ("#define TF_MAJOR_VERSION 2", "#define TF_MINOR_VERSION 14", "#define TF_PATCH_VERSION 1")
    write(tmp_path / "tensorflow/core/public/version.h", "\n".join(lines))
    assert scanning.detect_framework(tmp_path) == ("tensorflow", "2.14.1")


def test_an_installed_packages_headers_are_known_by_what_only_a_build_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "torch/version.py", "__version__ = '2.13.0+cpu'\n")
    write(tmp_path / "torch/include/ATen/core/TensorBody.h")
    write(tmp_path / "torch/include/ATen/native/Activation.h")
    assert scanning.detect_framework(tmp_path / "torch/include") == ("pytorch", "2.13.0+cpu")
    tensorflow = tmp_path / "tensorflow/include/tensorflow"
    write(tensorflow / "core/framework/types.pb.h")
    write(tensorflow / "core/kernels/relu_op_functor.h")
    lines = ("#define TF_MAJOR_VERSION 2", "#define TF_MINOR_VERSION 21", "#define TF_PATCH_VERSION 0")
    write(tensorflow / "core/public/release_version.h", "\n".join(lines))
    assert scanning.detect_framework(tensorflow) == ("tensorflow", "2.21.0")
    write(tmp_path / "tensorflow/__init__.py", "raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)  # another test may have imported the real one
    assert scanning.check_root("installed:tensorflow") == tensorflow


def test_other_sources_are_of_no_framework(tmp_path: Path) -> None:
    assert scanning.detect_framework(tmp_path) == ("none", "")


def test_a_file_outside_of_the_root_keeps_its_absolute_name(tmp_path: Path) -> None:
    assert scanning.relative(str(tmp_path / "a" / "b.cu"), tmp_path) == "a/b.cu"
    assert scanning.relative("/elsewhere/b.cu", tmp_path) == "/elsewhere/b.cu"


def test_the_hash_of_a_command_changes_with_everything_that_clang_is_given() -> None:
    command = ClangCommand("/a.cu", "/", ("-DX",), "cuda", "device", "", ())
    others = [
        ClangCommand("/b.cu", "/", ("-DX",), "cuda", "device", "", ()),
        ClangCommand("/a.cu", "/b", ("-DX",), "cuda", "device", "", ()),
        ClangCommand("/a.cu", "/", ("-DX", "-DY"), "cuda", "device", "", ()),
        ClangCommand("/a.cu", "/", ("-DX",), "cuda", "host", "", ()),
        ClangCommand("/a.cu", "/", ("-DX",), "c++", "device", "", ()),
    ]
    hashes = {scanning.arguments_hash(one) for one in (command, *others)}
    assert len(hashes) == 6


def test_the_root_may_be_a_link_and_is_named_by_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert scanning.check_root(str(tmp_path / "link")) == (tmp_path / "real").resolve()


def test_a_missing_root_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        scanning.check_root(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("// __CUDA_ARCH__ in a comment\n", ("device",)),
        ("#if __CUDA_ARCH__ >= 350\n__launch_bounds__(256)\n#endif\n#if X\n#else\n#endif\n", ("device",)),
        ("#ifndef __CUDA_ARCH__\n#endif\n", ("device", "host")),
        ("#if X && !defined(__CUDA_ARCH__)\n#endif\n", ("device", "host")),
        ("#ifdef __CUDA_ARCH__\nfloat x;\n#else\ndouble x;\n#endif\n", ("device", "host")),
    ],
)
def test_auto_adds_the_host_pass_where_the_file_has_code_for_the_host_alone(
    tmp_path: Path, text: str, passes: tuple[str, ...]
) -> None:
    file = tmp_path / "unit.cu"
    file.write_text(text)
    assert scanning.wanted_passes("auto", str(file)) == passes
    assert scanning.wanted_passes("host", str(file)) == ("host",)
