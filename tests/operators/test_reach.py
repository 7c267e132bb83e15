"""Which instances of a class template serve which operator."""

from __future__ import annotations

from opscanner.frameworks.declarations import (
    Declarations,
    DeclaredOperator,
    DeclaredRegistration,
    Mention,
    Place,
    PlaceKind,
)
from opscanner.graph.call_graph import CallGraph, FunctionRow, InstanceRow
from opscanner.operators.reach import Reach

H, CC = "kernels/cwise.h", "kernels/cwise.cc"


def unary(functor: str, device: str) -> str:
    return f"c:@N@functor@S@UnaryFunctor>#$@N@Eigen@S@{device}#$@N@functor@S@{functor}>#f@F@operator()#"


def one_class_for_two_operators() -> Declarations:
    kind, functors = "register_kernel_builder", {"Tanh": "tanh", "Rsqrt": "rsqrt"}
    return Declarations(
        operators=[DeclaredOperator(name, name, "forward", CC, 1) for name in functors],
        registrations=[
            DeclaredRegistration(name, kind, "cuda", (), f"UnaryOp<{functor}>", CC, 3, (0,), (functor,))
            for name, functor in functors.items()
        ],
        places=[
            Place(PlaceKind.CLASS, "UnaryOp", "any", H, 10, 13, [Mention(1, H, 12)]),
            Place(PlaceKind.CLASS, "UnaryFunctor", "any", H, 20, 25),
        ],
    )


def graph(*usrs: str) -> CallGraph:
    """One function, ``UnaryFunctor::operator()``, whose instances each call a function of their own."""
    found = CallGraph(functions={1: FunctionRow(1, "functor::UnaryFunctor::operator()", H, 21)}, telling=set())
    for index, usr in enumerate(usrs):
        caller, callee, function = 10 + index, 20 + index, 100 + index
        found.functions[function] = FunctionRow(function, f"callee_{index}", H, 30 + index)
        found.instances[caller] = InstanceRow(caller, 1, "T=float16", False)
        found.instances[callee] = InstanceRow(callee, function, "", True)
        found.callees[caller] = [(callee, 22)]
        found.usr[caller] = usr
        found.telling.add(function)
    found.only_cuda = set(found.instances)
    return found


def served(usrs: tuple[str, ...], registration: int, device: str = "cuda") -> set[str]:
    calls = graph(*usrs)
    reach = Reach(one_class_for_two_operators(), calls)
    found = reach.served([registration], "cuda" if device == "cuda" else "cpu")
    return {calls.functions[one.function].name for one in found}


def one_kernel_with_two_bodies() -> CallGraph:
    """Op::Compute calls both specializations of Body, at lines 11 and 21."""
    return CallGraph(
        functions={
            1: FunctionRow(1, "Op::Compute", H, 2),
            2: FunctionRow(2, "Body::operator()", H, 11),
            3: FunctionRow(3, "Body::operator()", H, 21),
        },
        instances={id_: InstanceRow(id_, id_, "", True) for id_ in (1, 2, 3)},
        callees={1: [(2, 3), (3, 3)]},
        telling={2, 3},
        only_cuda={1, 2, 3},
    )


def test_an_operator_takes_the_instances_that_its_registration_names() -> None:
    usrs = (unary("tanh", "GpuDevice"), unary("rsqrt", "GpuDevice"))
    assert served(usrs, 0) == {"callee_0"}
    assert served(usrs, 1) == {"callee_1"}


def test_an_operator_whose_instances_were_not_scanned_takes_nobody_elses() -> None:
    assert served((unary("tanh", "GpuDevice"),), 1) == set()


def test_instances_for_the_processor_do_not_serve_the_gpu() -> None:
    assert served((unary("tanh", "ThreadPoolDevice"), unary("tanh", "GpuDevice")), 0) == {"callee_1"}


def test_the_path_names_the_registration_the_class_and_the_functor() -> None:
    reach = Reach(one_class_for_two_operators(), graph(unary("tanh", "GpuDevice")))
    (one,) = reach.served([0], "cuda")
    assert [(step.what, step.file, step.line) for step in one.path] == [
        ("register_kernel_builder UnaryOp<tanh>", CC, 3),
        ("UnaryOp", H, 10),
        ("UnaryFunctor", H, 20),
        ("functor::UnaryFunctor::operator()", H, 21),
        ("callee_0", H, 30),
    ]
    assert not one.certain


def test_a_specialization_for_another_operator_is_not_called_where_there_is_one_for_this() -> None:
    # Instances that differ in an enumerator are one: the caller of Body<ADD> seems to call Body<SUB>, too.
    declared = Declarations(
        operators=[DeclaredOperator("ScatterSub", "ScatterSub", "forward", CC, 1)],
        registrations=[
            DeclaredRegistration("ScatterSub", "register_kernel_builder", "cuda", (), "Op<SUB>", CC, 3, (0,), ("SUB",)),
            DeclaredRegistration("ScatterAdd", "register_kernel_builder", "cuda", (), "Op<ADD>", CC, 4, (0,), ("ADD",)),
        ],
        places=[
            Place(PlaceKind.CLASS, "Op", "any", H, 1, 5),
            Place(PlaceKind.CLASS, "Body", "any", H, 10, 15, arguments=("ADD",)),
            Place(PlaceKind.CLASS, "Body", "any", H, 20, 25, arguments=("SUB",)),
        ],
    )
    calls = one_kernel_with_two_bodies()
    reach = Reach(declared, calls)
    assert [one.function for one in reach.served([0], "cuda")] == [3]
    assert [one.function for one in reach.served([1], "cuda")] == [2]


def reduction(*arguments: str) -> str:
    names = "".join(f"#$@N@functor@S@{name}>#f" for name in arguments)
    return f"c:@N@functor@S@UnaryFunctor>{names}@F@operator()#"


def among_siblings(usrs: tuple[str, ...], *siblings: tuple[str, ...], formats: tuple[str, ...] = ()) -> list[set[str]]:
    """What registrations of one class with these arguments reach, in order."""
    declared = one_class_for_two_operators()
    declared.enumerations["scatter_op::UpdateOp"] = {0: "ASSIGN", 6: "MAX"}
    declared.registrations = [
        DeclaredRegistration(
            f"Op{index}", "register_kernel_builder", "cuda", formats, "UnaryOp", CC, 3, (0,), arguments
        )
        for index, arguments in enumerate(siblings)
    ]
    calls = graph(*usrs)
    reach = Reach(declared, calls)
    return [
        {calls.functions[one.function].name for one in reach.served([index], "cuda")} for index in range(len(siblings))
    ]


def test_one_argument_in_common_does_not_make_an_instance_of_another_operator_ours() -> None:
    usrs = (reduction("Zero", "Sum"), reduction("Zero", "Max"))
    assert among_siblings(usrs, ("Zero", "Sum"), ("Zero", "Max")) == [{"callee_0"}, {"callee_1"}]


def test_an_enumerator_of_a_registration_is_a_number_in_clangs_symbols() -> None:
    # As clang 22 spells ScatterFunctor<GPUDevice, float, int, scatter_op::UpdateOp::MAX>.
    usrs = tuple(
        f"c:@N@functor@S@UnaryFunctor>#$@N@Eigen@S@GpuDevice#f#I#V$@N@tensorflow@N@scatter_op@E@UpdateOp{n}@F@operator()#"
        for n in (0, 6)
    )
    assert among_siblings(usrs, ("ASSIGN",), ("MAX",), ("tanh",)) == [
        {"callee_0"},
        {"callee_1"},
        {"callee_0", "callee_1"},  # whose registration says nothing about the enumeration
    ]


def test_an_operator_without_complex_formats_takes_no_instance_for_complex_numbers() -> None:
    usrs = (unary("tanh", "GpuDevice"), unary("tanh", "GpuDevice").replace("#f@F", "#$@N@std@S@complex>#f@F"))
    assert among_siblings(usrs, ("tanh",), formats=("float32",)) == [{"callee_0"}]
    assert among_siblings(usrs, ("tanh",), formats=("float32", "complex64")) == [{"callee_0", "callee_1"}]
    assert among_siblings(usrs, ("tanh",), ("complex",)) == [{"callee_0", "callee_1"}, set()]


def test_an_operator_whose_enumerator_has_no_specialization_takes_none_of_its_siblings() -> None:
    declared = Declarations(
        registrations=[DeclaredRegistration("Update", "", "cuda", (), "Op<ASSIGN>", CC, 3, (0,), ("ASSIGN",))],
        places=[
            Place(PlaceKind.CLASS, "Op", "any", H, 1, 5),
            Place(PlaceKind.CLASS, "Body", "any", H, 20, 25, arguments=("MAX",)),
        ],
        enumerations={"scatter_op::UpdateOp": {0: "ASSIGN", 6: "MAX"}},
    )
    declared.registrations.append(declared.registrations[0]._replace(operator="Max", arguments=("MAX",)))
    calls = one_kernel_with_two_bodies()
    assert [one.function for one in Reach(declared, calls).served([0], "cuda")] == [2]
