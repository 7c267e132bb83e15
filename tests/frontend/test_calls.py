"""Calls between instances, launches, lambdas, and functions whose name tells what they compute."""

from __future__ import annotations

import pytest
from snippets import Scan, Scanned

from opscanner.ir import EdgeKind, FunctionInstance, Node, NodeKind


def argument_names(scanned: Scanned, caller: FunctionInstance, callee: FunctionInstance) -> set[tuple[str, str]]:
    """(``line operation`` of the argument's node, name of the parameter or captured variable) of the calls."""
    found = set()
    for call in caller.calls:
        if call.callee == callee.key:
            for node, position in call.arguments:
                slot = callee.nodes[callee.parameters[position]].operation
                found.add((f"{caller.nodes[node].line} {caller.nodes[node].operation}", slot))
    return found


def only(nodes: list[Node]) -> Node:
    assert len(nodes) == 1, nodes
    return nodes[0]


def test_arguments_are_joined_to_the_parameters_of_their_position(golden: Scan) -> None:
    scanned = golden("""
    float callee(int n, float x, double y) { return x * n; }  // cast: int32 -> float32 implicit
    float caller(float a, c10::Half h) {
      return callee(3, h, a);  // cast: float16 -> float32 conversion_function; float32 -> float64 implicit
    }
    """)
    (call,) = scanned.calls("caller", "callee")
    assert [position for _, position in call.arguments] == [1, 2]
    assert argument_names(scanned, scanned.instance("caller"), scanned.instance("callee")) == {
        ("3 conversion_function", "x"),
        ("3 implicit", "y"),
    }
    assert call.kind is EdgeKind.ARGUMENT


def test_the_calls_node_is_what_the_callee_returns(scan: Scan) -> None:
    scanned = scan("""
    float callee(float x, float y) {
      if (x > y) return x;
      return y;
    }
    float caller(float a) { return callee(a, a); }
    """)
    caller, callee = scanned.instance("caller"), scanned.instance("callee")
    (call,) = scanned.calls("caller", "callee")
    assert caller.nodes[call.node].kind is NodeKind.CALL
    assert caller.nodes[call.node].format == "float32"
    assert [callee.nodes[index].line for index in callee.returns] == [2, 3]
    assert call.line == 5


def test_the_object_that_a_method_reads_from_comes_behind_its_parameters(scan: Scan) -> None:
    scanned = scan("""
    struct S { float m; float method(float x) const { return m * x; } };
    float caller(S s, float x) { return s.method(x); }
    """)
    names = argument_names(scanned, scanned.instance("caller"), scanned.instance("S::method"))
    assert names == {("2 s", "this"), ("2 x", "x")}
    (call,) = scanned.calls("caller", "S::method")
    assert sorted(position for _, position in call.arguments) == [0, 1]


def test_a_method_that_reads_no_member_is_not_given_the_object(scan: Scan) -> None:
    scanned = scan("""
    struct S { float m; float method(float x) const { return x * 2.f; } };
    float caller(S s, float x) { return s.method(x); }
    """)
    names = argument_names(scanned, scanned.instance("caller"), scanned.instance("S::method"))
    assert names == {("2 x", "x")}


def test_a_launch_joins_arguments_to_the_kernels_parameters(scan: Scan) -> None:
    scanned = scan("""
    __global__ void kernel(float* p, int n, double x) { p[n] = x; }
    void host(float* p, float f, int blocks) { kernel<<<blocks, 128>>>(p, 3, f); }
    """)
    (call,) = scanned.calls("host", "kernel")
    assert call.kind is EdgeKind.LAUNCH
    assert sorted(position for _, position in call.arguments) == [0, 2]
    names = argument_names(scanned, scanned.instance("host"), scanned.instance("kernel"))
    assert names == {("2 p", "p"), ("2 implicit", "x")}


def test_a_launch_that_leaves_out_defaulted_arguments_is_joined_by_position(scan: Scan) -> None:
    scanned = scan("""
    __global__ void kernel(float* p, double x, int n = 3, double y = 0.5) { p[n] = x + y; }
    void host(float* p, double d) { kernel<<<1, 128>>>(p, d); }
    """)
    names = argument_names(scanned, scanned.instance("host"), scanned.instance("kernel"))
    assert {("2 p", "p"), ("2 d", "x")} <= names
    assert {slot for source, slot in names if source.startswith(("2 p", "2 d"))} == {"p", "x"}


def test_the_configuration_of_a_launch_is_host_code_that_calls_and_casts(golden: Scan) -> None:
    scanned = golden("""
    int blocks_for(double n) { return n * 0.5; }  // cast: float64 -> int32 implicit
    __global__ void kernel(float* p) { p[0] = 1.f; }
    void host(float* p, float n) {
      kernel<<<blocks_for(n), 128>>>(p);  // cast: float32 -> float64 implicit
    }
    """)
    assert len(scanned.calls("host", "blocks_for")) == 1
    (launch,) = scanned.calls("host", "kernel")
    assert [position for _, position in launch.arguments] == [0]


def test_a_call_of_a_function_that_takes_no_float_still_reaches_it(scan: Scan) -> None:
    scanned = scan("""
    void callee(int n) { volatile float x = n; }
    void caller() { callee(1); }
    """)
    (call,) = scanned.calls("caller", "callee")
    assert (call.node, call.arguments) == (-1, ())


def test_recursion_ends(scan: Scan) -> None:
    scanned = scan("""
    float b(double d, int n);
    float a(float f, int n) { return n ? b(f, n - 1) : f; }
    float b(double d, int n) { return n ? a(d, n - 1) : d; }
    float c(float f) { return f > 1.f ? c(f / 2.f) : f; }
    template <int N> float t(float x) { return N > 0 ? t<N - 1>(x) : x; }
    template <> float t<-1>(float x) { return x; }
    float d(float x) { return t<4>(x); }
    """)
    assert len(scanned.calls("a", "b")) == len(scanned.calls("b", "a")) == len(scanned.calls("c", "c")) == 1
    assert {"a", "b", "c", "d", "t"} == {i.name for i in scanned.result.instances}


# -- lambdas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", ["[=]", "[&]", "[scale]", "[&scale]"])
def test_a_captured_variable_comes_from_the_enclosing_definition(scan: Scan, capture: str) -> None:
    scanned = scan(f"""
    float host(double d) {{
      float scale = d;
      auto f = {capture}(float x) {{ return x * scale; }};
      return f(2.f);
    }}
    """)
    inner = scanned.lambda_(line=3)
    assert [n.operation for n in scanned.nodes_of(inner, NodeKind.CAPTURE)] == ["scale"]
    assert ("2 scale", "scale") in argument_names(scanned, scanned.instance("host"), inner)
    kinds = {call.kind for call in scanned.instance("host").calls if call.callee == inner.key}
    assert EdgeKind.CAPTURE in kinds


def test_a_device_lambda_takes_the_hosts_value_along(scan: Scan) -> None:
    scanned = scan("""
    template <class F> __global__ void run(F f, float* p) { p[0] = f(p[1]); }
    void host(float* p, float scale) {
      run<<<1, 1>>>([=] __device__(float x) { return x * scale; }, p);
    }
    """)
    assert ("2 scale", "scale") in argument_names(scanned, scanned.instance("host"), scanned.lambda_(line=3))


def test_a_definition_after_the_lambda_is_not_what_it_captured(scan: Scan) -> None:
    scanned = scan("""
    float host(float scale) {
      auto f = [=](float x) { return x * scale; };
      scale = 3.f;
      return f(scale);
    }
    """)
    names = argument_names(scanned, scanned.instance("host"), scanned.lambda_(line=2))
    assert {source for source, slot in names if slot == "scale"} == {"1 scale"}


def test_a_lambda_in_a_lambda_is_linked_through_both(scan: Scan) -> None:
    scanned = scan("""
    float host(float bias) {
      auto outer = [=](float x) {
        auto inner = [=](float y) { return y * bias + x; };
        return inner(x);
      };
      return outer(2.f);
    }
    """)
    host, outer, inner = scanned.instance("host"), scanned.lambda_(line=2), scanned.lambda_(line=3)
    assert {slot for _, slot in argument_names(scanned, outer, inner)} >= {"x", "y", "bias"}
    assert {slot for _, slot in argument_names(scanned, host, outer)} >= {"bias", "x"}


def test_the_initializer_of_a_capture_casts_in_the_enclosing_function(golden: Scan) -> None:
    scanned = golden("""
    float host(double d) {
      auto f = [b = (float)d](float x) { return x * b; };  // cast: float64 -> float32 c_style as float
      return f(2.f);
    }
    """)
    names = argument_names(scanned, scanned.instance("host"), scanned.lambda_(line=2))
    assert {int(source.split()[0]) for source, slot in names if slot == "b"} == {2}


def test_lambdas_are_named_after_the_function_around_them(scan: Scan) -> None:
    scanned = scan("""
    namespace at { float host(float s) { auto f = [](float x) { return x; }; return f(s); } }
    """)
    assert sorted((i.name, i.is_lambda) for i in scanned.result.instances) == [("at::host", False), ("at::host", True)]


# -- functions known by name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "operation", "format"),
    [
        ("expf(x)", "exp", "float32"),
        ("__expf(x)", "exp", "float32"),
        ("exp(x)", "exp", "float32"),
        ("exp(d)", "exp", "float64"),
        ("hexp(h)", "exp", "float16"),
        ("::pow(x, 2.f)", "pow", "float32"),
        ("powf(x, x)", "pow", "float32"),
        ("rsqrtf(x)", "rsqrt", "float32"),
        ("__logf(x)", "log", "float32"),
        ("tanhf(x)", "tanh", "float32"),
    ],
)
def test_math_names_are_normalised(scan: Scan, call: str, operation: str, format: str) -> None:
    scanned = scan(f"""
    __device__ float f(float x, double d, __half h) {{
      auto r = {call};
      return x;
    }}
    """)
    node = only(scanned.nodes(NodeKind.MATH_CALL))
    assert (node.operation, node.format, node.category) == (operation, format, "math")


@pytest.mark.parametrize(("call", "format"), [("std::exp(f)", "float32"), ("std::exp(d)", "float64")])
def test_math_of_std_is_computed_in_its_arguments_format(scan: Scan, call: str, format: str) -> None:
    scanned = scan(f"#include <cmath>\ndouble f(float f, double d) {{ return {call}; }}\n", name="unit.cpp")
    node = only(scanned.nodes(NodeKind.MATH_CALL))
    assert (node.operation, node.format) == ("exp", format)


def test_std_pow_of_mixed_formats_computes_in_float64(golden: Scan) -> None:
    golden(
        """
        #include <cmath>
        float f(float f, double d) {
          return std::pow(f, d);  // cast: float32 -> float64 library_call; float64 -> float32 implicit
        }
        """,
        name="unit.cpp",
    )


def test_atomics_are_nodes_with_the_format_of_their_target(golden: Scan) -> None:
    scanned = golden("""
    __global__ void k(float* p, double* q, __half* h, float x, double y) {
      atomicAdd(p, x);
      atomicAdd(p, y);                 // cast: float64 -> float32 implicit
      atomicAdd(q, x);                 // cast: float32 -> float64 implicit
      atomicAdd(h, __float2half(x));   // cast: float32 -> float16 intrinsic
      atomicMax((int*)p, 3);
    }
    """)
    found = [(n.line, n.operation, n.format, n.accumulator) for n in scanned.nodes(NodeKind.ATOMIC)]
    assert found == [
        (2, "add", "float32", "float32"),
        (3, "add", "float32", "float32"),
        (4, "add", "float64", "float64"),
        (5, "add", "float16", "float16"),
    ]


def test_a_frameworks_own_atomic_is_an_atomic_and_followed(scan: Scan) -> None:
    scanned = scan("""
    template <class T> __device__ void gpuAtomicAddNoReturn(T* p, T v) { atomicAdd(p, v); }
    __global__ void k(float* p, float x) { gpuAtomicAddNoReturn(p, x); }
    """)
    assert [n.line for n in scanned.nodes_of(scanned.instance("k"), NodeKind.ATOMIC)] == [2]
    (call,) = scanned.calls("k", "gpuAtomicAddNoReturn")
    assert [position for _, position in call.arguments] == [0, 1]


def test_comparisons_are_made_in_the_wider_format(golden: Scan) -> None:
    scanned = golden("""
    bool f(float x, double d, c10::Half h, int n) {
      bool a = x > d;   // cast: float32 -> float64 implicit
      bool b = h == x;  // cast: float16 -> float32 conversion_function
      bool c = n < 3;
      return a && b && c;
    }
    """)
    found = [(n.line, n.operation, n.format, n.category) for n in scanned.nodes(NodeKind.COMPARISON)]
    assert found == [(2, ">", "float64", "compare"), (3, "==", "float32", "compare")]


def test_max_and_min_choose_and_compute_nothing(scan: Scan) -> None:
    scanned = scan("__global__ void k(float* p) { p[0] = max(p[1], p[2]); p[1] = min(p[0], 1.f); }\n")
    found = [(n.operation, n.format, n.category) for n in scanned.nodes(NodeKind.SELECTION)]
    assert found == [("max", "float32", "select"), ("min", "float32", "select")]


def test_arithmetic_intrinsics_are_arithmetic(scan: Scan) -> None:
    scanned = scan("__device__ __half f(__half a, __half b) { return __hadd(__hmul(a, b), b); }\n")
    found = [(n.operation, n.format) for n in scanned.nodes(NodeKind.ARITHMETIC)]
    assert found == [("*", "float16"), ("+", "float16")]


def test_a_call_through_a_pointer_is_a_call_of_unknown_end(scan: Scan) -> None:
    scanned = scan("float f(float (*g)(double), float x) { return g(x); }\n")
    assert [(n.operation, n.format) for n in scanned.nodes(NodeKind.CALL)] == [("g", "float32")]
    assert scanned.instance("f").calls == ()
