"""What TensorFlow states about its operators: on a checkout in miniature, and on the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscanner.frameworks.declarations import Declarations, DeclaredRegistration
from opscanner.frameworks.tensorflow import adapter
from tests.frameworks.checkouts import KERNELS, write_tensorflow


@pytest.fixture
def small(tmp_path: Path) -> Declarations:
    return adapter.read(write_tensorflow(tmp_path))


@pytest.fixture(scope="session")
def real(tensorflow_root: Path) -> Declarations:
    return adapter.read(tensorflow_root)


def of(found: Declarations, operator: str, device: str) -> list[DeclaredRegistration]:
    return [one for one in found.registrations if one.operator == operator and one.device == device]


def classes(found: Declarations, operator: str, device: str) -> set[tuple[str, str]]:
    """(class, file) of what registrations begin with, and of what these classes name."""
    reached: set[int] = set()
    todo = [place for one in of(found, operator, device) for place in one.places]
    while todo:
        index = todo.pop()
        if index not in reached:
            reached.add(index)
            todo += [mention.target for mention in found.places[index].mentions]
    return {(found.places[index].name, found.places[index].file) for index in reached}


def test_operators_and_gradients_are_those_that_are_declared(small: Declarations) -> None:
    assert {one.name: (one.forward_name, one.direction, one.line) for one in small.operators} == {
        "Act": ("Act", "forward", 2),
        "ActGrad": ("Act", "backward", 4),
        "Tanh": ("Tanh", "forward", 5),
        "Rsqrt": ("Rsqrt", "forward", 6),
    }


def test_a_macro_over_types_registers_all_formats_at_the_line_that_uses_it(small: Declarations) -> None:
    (one,) = of(small, "Act", "cuda")
    assert (one.target, one.formats, one.file, one.line) == (
        "ActOp<GPUDevice, T>",
        ("float16", "float32"),
        f"{KERNELS}/act_op.cc",
        27,
    )
    (other,) = of(small, "Act", "cpu")
    assert (other.formats, other.line) == (("bfloat16",), 29)


def test_a_macro_of_a_header_registers_and_of_two_definitions_the_longer_counts(small: Declarations) -> None:
    (one,) = of(small, "Tanh", "cuda")
    assert (one.target, one.formats, one.arguments) == (
        "UnaryOp<GPUDevice, functor::tanh<T>>",
        ("float16", "float32"),
        ("tanh",),
    )


def test_a_class_leads_to_the_functor_that_it_uses_and_to_no_other(small: Declarations) -> None:
    assert classes(small, "Act", "cuda") == {
        ("ActOp", f"{KERNELS}/act_op.cc"),
        ("Act", f"{KERNELS}/act_op_functor.h"),
    }


def test_a_method_outside_of_its_class_belongs_to_it(small: Declarations) -> None:
    assert ("ActGrad", f"{KERNELS}/act_op_functor.h") in classes(small, "ActGrad", "cuda")


def test_of_functions_and_classes_of_one_name_those_are_meant_whose_header_is_included(tmp_path: Path) -> None:
    root = write_tensorflow(tmp_path)
    kernels = root / KERNELS
    for header in ("near", "far"):
        (kernels / f"{header}.h").write_text(
            "struct Sum { int operator()(int a) { return a; } };\ninline void Split(int a) { a; }\n"
        )
    (kernels / "far.h").open("a").write("inline void Only(int a) { a; }\n")
    special = "template <> struct Sum<GPUDevice> { int operator()(int a) { return a; } };\n"
    for header in ("near", "far"):
        include = f'#include "tensorflow/core/kernels/{header}.h"\n'
        (kernels / f"{header}_gpu.cu.h").write_text(include + special)
    (kernels / "user_op.cc").write_text(
        '#include "tensorflow/core/kernels/near.h"\n'
        "class UserOp { void Compute() { Sum<T>()(1); Split(2); Only(3); } };\n"
    )
    found = adapter.read(root)
    (user,) = (place for place in found.places if place.name == "UserOp")
    named = {(found.places[one.target].name, found.places[one.target].file.rpartition("/")[2]) for one in user.mentions}
    assert named == {("Sum", "near.h"), ("Sum", "near_gpu.cu.h"), ("Split", "near.h")}


def test_an_enumerator_that_a_kernel_itself_names_tells_its_instances(tmp_path: Path) -> None:
    root = write_tensorflow(tmp_path)
    (root / KERNELS / "nd_op.h").write_text("namespace nd { enum class Op { ASSIGN, ADD, SUB }; }\n")
    (root / KERNELS / "nd_op.cc").write_text(
        "template <typename D> class NdOp { void Compute() { DoNd<D, nd::Op::ADD>(); } };\n"
        "template <typename D, nd::Op op> class UpdateOp { void Compute() { DoNd<D, nd::Op::ADD>(); } };\n"
        'REGISTER_KERNEL_BUILDER(Name("Nd").Device(DEVICE_GPU), NdOp<GPUDevice>);\n'
        'REGISTER_KERNEL_BUILDER(Name("Update").Device(DEVICE_GPU), UpdateOp<GPUDevice, nd::Op::SUB>);\n'
    )
    found = adapter.read(root)
    assert [one.arguments for name in ("Nd", "Update") for one in of(found, name, "cuda")] == [("ADD",), ("SUB",)]


def test_enumerations_are_known_by_value_in_their_namespace() -> None:
    text = "namespace a { enum Mode : int { ON = 2, OFF, }; namespace b { enum class Op { ADD = 1 << 2, SUB }; } }"
    assert adapter.enumerations(text) == {"a::Mode": {2: "ON", 3: "OFF"}}  # computed values are nobody's guess


def test_a_kernel_is_named_by_those_whose_file_includes_it_and_are_classes(tmp_path: Path) -> None:
    root = write_tensorflow(tmp_path)
    kernels = root / KERNELS
    (kernels / "base_op.h").write_text("template <typename D, typename F> class BaseOp { void Compute() {} };\n")
    (kernels / "base_op.cc").write_text(
        '#include "tensorflow/core/kernels/base_op.h"\n'
        'REGISTER_KERNEL_BUILDER(Name("Base").Device(DEVICE_GPU), BaseOp<GPUDevice, functor::base<float>>);\n'
        "class FirstOp : public BaseOp<D, F> { void Compute() {} };\n"
        "void function() { BaseOp<D, F> base; }\n"
    )
    # BaseOp is a class of the framework here.
    (kernels / "other_op.cc").write_text("class OtherOp : public BaseOp<T> { void Compute() {} };\n")
    found = adapter.read(root)
    named = {
        place.name
        for place in found.places
        for mention in place.mentions
        if found.places[mention.target].name == "BaseOp"
    }
    assert named == {"FirstOp"}


def test_of_installed_headers_a_note_says_that_they_name_no_operators(tmp_path: Path) -> None:
    (tmp_path / "core/framework").mkdir(parents=True)
    (tmp_path / "core/framework/types.pb.h").touch()
    found = adapter.read(tmp_path)
    assert (found.operators, found.warnings) == ([], [])
    assert "installed headers name none" in found.notes[0]


@pytest.mark.parametrize(
    ("operator", "functor", "file"),
    [
        ("Selu", "Selu", "relu_op_functor.h"),
        ("SeluGrad", "SeluGrad", "relu_op_functor.h"),
        ("Elu", "Elu", "relu_op_functor.h"),
        ("LeakyRelu", "LeakyRelu", "relu_op_functor.h"),
        ("Cumsum", "Scan", "scan_ops_gpu.h"),
    ],
)
def test_known_operators_of_tensorflow_lead_to_their_functors(
    real: Declarations, operator: str, functor: str, file: str
) -> None:
    found = classes(real, operator, "cuda")
    assert (functor, f"{KERNELS}/{file}") in found
    assert "float16" in {format_ for one in of(real, operator, "cuda") for format_ in one.formats}


def test_forward_and_backward_of_tensorflow_use_different_functors(real: Declarations) -> None:
    declared = {one.name: one for one in real.operators}
    for forward, backward in (("Elu", "EluGrad"), ("Selu", "SeluGrad"), ("LeakyRelu", "LeakyReluGrad")):
        assert (declared[backward].forward_name, declared[backward].direction) == (forward, "backward")
        assert (backward, f"{KERNELS}/relu_op_functor.h") not in classes(real, forward, "cuda")
        assert (forward, f"{KERNELS}/relu_op_functor.h") not in classes(real, backward, "cuda")


def test_kernels_that_a_compiler_generates_lead_to_no_functor(real: Declarations) -> None:
    generated = [one for one in of(real, "Tanh", "cuda") if "mlir_generated" in one.file]
    assert generated
    named = {
        real.places[mention.target].name
        for one in generated
        for place in one.places
        for mention in real.places[place].mentions
    }
    assert named == {"MLIROpKernel", "UnrankedMemRef"}  # what calls the code that MLIR makes, and its argument


def test_known_enumerations_of_tensorflow_have_their_values(real: Declarations) -> None:
    assert real.enumerations["scatter_op::UpdateOp"][6] == "MAX"
    assert real.enumerations["scatter_nd_op::UpdateOp"][4] == "MAX"
    assert real.enumerations["tensorflow::DenseUpdateType"] == {0: "ADD", 1: "SUB", 2: "ASSIGN"}
