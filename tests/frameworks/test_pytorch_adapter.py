"""What PyTorch states about its operators: on a checkout in miniature, and on the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscanner.frameworks.declarations import Declarations, PlaceKind
from opscanner.frameworks.pytorch import adapter
from tests.frameworks.checkouts import DERIVATIVES, NATIVE, NATIVE_FUNCTIONS, write_pytorch


@pytest.fixture
def small(tmp_path: Path) -> Declarations:
    return adapter.read(write_pytorch(tmp_path))


@pytest.fixture(scope="session")
def real(pytorch_root: Path) -> Declarations:
    return adapter.read(pytorch_root)


def ways(found: Declarations, operator: str, device: str) -> set[tuple[str, str, int]]:
    """(name, file, line) of every function that text alone leads to from an operator's registrations on a device."""
    todo = [
        place
        for registration in found.registrations
        if registration.operator == operator and registration.device in (device, "any")
        for place in registration.places
    ]
    seen: set[int] = set()
    while todo:
        index = todo.pop()
        place = found.places[index]
        if index in seen or place.device not in ("any", device) or place.kind is PlaceKind.OPERATOR:
            continue
        seen.add(index)
        todo += [mention.target for mention in place.mentions]
    return {(p.name, p.file, p.line) for p in (found.places[index] for index in seen) if p.kind is PlaceKind.FUNCTION}


def test_overloads_and_in_place_variants_are_one_operator_and_a_gradient_another(small: Declarations) -> None:
    assert {one.name: (one.forward_name, one.direction) for one in small.operators} == {
        "act": ("act", "forward"),
        "act_backward": ("act", "backward"),
        "my_layer": ("my_layer", "forward"),
        "round_it": ("round_it", "forward"),
    }


def test_a_registration_names_its_line_and_devices_that_are_not_scanned_have_none(small: Declarations) -> None:
    found = [(r.device, r.target, r.line) for r in small.registrations if r.operator == "act"]
    assert found == [("cpu", "act.out CPU: act_out", 4), ("cuda", "act.out CUDA: act_out", 4)]


def test_a_stub_leads_to_the_kernel_of_each_device(small: Declarations) -> None:
    assert ways(small, "act", "cuda") == {
        ("act_out", f"{NATIVE}/Activation.cpp", 3),
        ("act_kernel", f"{NATIVE}/cuda/Act.cu", 3),
    }
    assert ways(small, "act", "cpu") == {
        ("act_out", f"{NATIVE}/Activation.cpp", 3),
        ("act_kernel", f"{NATIVE}/cpu/Act.cpp", 2),
    }


def test_a_function_of_another_unit_is_found_by_its_name(small: Declarations) -> None:
    assert ("launch_act_backward", f"{NATIVE}/cuda/Launch.cu", 2) in ways(small, "act_backward", "cuda")


def test_an_implementation_that_a_macro_writes_leads_to_its_stub(small: Declarations) -> None:
    assert ("round_it_kernel", f"{NATIVE}/cuda/Act.cu", 6) in ways(small, "round_it", "cuda")


def test_a_composite_function_names_the_operator_that_it_calls(small: Declarations) -> None:
    (place,) = [place for place in small.places if place.name == "my_layer" and place.kind is PlaceKind.FUNCTION]
    (mention,) = place.mentions
    assert (small.places[mention.target].kind, small.places[mention.target].name) == (PlaceKind.OPERATOR, "act")
    assert (mention.file, mention.line) == (f"{NATIVE}/Activation.cpp", 7)


def test_a_list_that_is_no_yaml_is_a_warning(tmp_path: Path) -> None:
    root = write_pytorch(tmp_path)
    (root / NATIVE / "native_functions.yaml").write_text("- func: [")
    found = adapter.read(root)
    assert not found.operators
    assert "native_functions.yaml: cannot be read" in found.warnings[0]


def test_operators_of_an_installed_torch_are_those_of_the_torchgen_beside_it(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    (packages / "torch/include/ATen/native").mkdir(parents=True)
    packaged = packages / "torchgen/packaged"
    (packaged / "ATen/native").mkdir(parents=True)
    (packaged / "autograd").mkdir()
    (packaged / "ATen/native/native_functions.yaml").write_text(NATIVE_FUNCTIONS)
    (packaged / "autograd/derivatives.yaml").write_text(DERIVATIVES)
    found = adapter.read(packages / "torch/include")
    assert found.warnings == []
    assert {(one.name, one.forward_name, one.file) for one in found.operators} == {
        (name, name.removesuffix("_backward"), str(packaged / "ATen/native/native_functions.yaml"))
        for name in ("act", "act_backward", "my_layer", "round_it")
    }


@pytest.mark.parametrize(
    ("operator", "kernel", "file"),
    [
        ("elu", "elu_kernel", "cuda/ActivationEluKernel.cu"),
        ("elu_backward", "elu_backward_kernel", "cuda/ActivationEluKernel.cu"),
        ("gelu", "GeluCUDAKernelImpl", "cuda/ActivationGeluKernel.cu"),
        ("gelu_backward", "GeluBackwardCUDAKernelImpl", "cuda/ActivationGeluKernel.cu"),
        ("native_layer_norm", "layer_norm_cuda", "cuda/layer_norm_kernel.cu"),
        ("_log_softmax", "log_softmax_cuda_out", "cuda/SoftMax.cu"),
        ("index_add", "index_add_cuda_out", "cuda/Indexing.cu"),
        ("_logcumsumexp", "launch_logcumsumexp_cuda_kernel", "cuda/LogcumsumexpKernel.cu"),
    ],
)
def test_known_operators_of_pytorch_lead_to_their_kernels(
    real: Declarations, operator: str, kernel: str, file: str
) -> None:
    assert (kernel, f"{NATIVE}/{file}") in {(name, path) for name, path, _ in ways(real, operator, "cuda")}


@pytest.mark.parametrize(
    ("forward", "backward"),
    [("elu", "elu_backward"), ("gelu", "gelu_backward"), ("softplus", "softplus_backward")],
)
def test_gradients_of_pytorch_know_their_operator_and_share_no_kernel_with_it(
    real: Declarations, forward: str, backward: str
) -> None:
    declared = {one.name: one for one in real.operators}
    assert (declared[backward].forward_name, declared[backward].direction) == (forward, "backward")
    kernels = [{way for way in ways(real, name, "cuda") if way[1].endswith(".cu")} for name in (forward, backward)]
    assert kernels[0]
    assert kernels[1]
    assert not kernels[0] & kernels[1]
