"""What compilers emit nothing for: literals, unevaluated operands, branches that constants rule out, uncalled code."""

from __future__ import annotations

import pytest
from snippets import Scan

from opscanner.ir import NodeKind


def test_casts_of_literals_are_marked_constant(golden: Scan) -> None:
    golden("""
    void f(float f) {
      float a = 1.0;                                // cast: float64 -> float32 implicit constant
      float b = 1;                                  // cast: int32 -> float32 implicit constant
      double c = 1.f;                               // cast: float32 -> float64 implicit constant
      c10::Half d = 0.5f;                           // cast: float32 -> float16 converting_constructor constant
      float e = -1;                                 // cast: int32 -> float32 implicit constant
      float g = 1 + 2;                              // cast: int32 -> float32 implicit constant
      float h = (float)0.5;                         // cast: float64 -> float32 c_style as float constant
      float i = sizeof(int);                        // cast: uint64 -> float32 implicit constant
      f = true ? 1.0 : 2.0;                         // cast: float64 -> float32 implicit constant
    }
    """)


def test_a_constexpr_name_is_constant_and_a_variable_is_not(golden: Scan) -> None:
    golden("""
    constexpr double K = 0.5;
    void f(double v) {
      float a = K;  // cast: float64 -> float32 implicit constant
      float b = v;  // cast: float64 -> float32 implicit
      float c = a * K;  // cast: float32 -> float64 implicit; float64 -> float32 implicit
    }
    """)


def test_an_integer_template_argument_is_constant(golden: Scan) -> None:
    golden("""
    template <int N> float f(float x) {
      return x * N;  // cast: int32 -> float32 implicit constant
    }
    float g(float x) { return f<3>(x); }
    """)


@pytest.mark.parametrize(
    "operand",
    ["sizeof(g(f))", "alignof(decltype(f * d))", "noexcept(g(f))", "sizeof(f * d)", "sizeof(decltype(g(f)))"],
)
def test_unevaluated_operands_cast_nothing(golden: Scan, operand: str) -> None:
    golden(f"""
    float g(double);
    void f(float f, double d) {{
      auto n = {operand};
    }}
    """)


def test_the_operand_of_decltype_casts_nothing_but_its_variable_does(golden: Scan) -> None:
    golden("""
    double g(double);
    void f(float f) {
      decltype(g(f)) x = f;  // cast: float32 -> float64 implicit as decltype(g(f))
      static_assert(sizeof(g(f)) == 8, "");
    }
    """)


def test_branches_that_constants_rule_out_are_marked_unreached(golden: Scan) -> None:
    golden("""
    constexpr bool wide = false;
    void f(float f, double d, bool c) {
      if (false) f = d;                // cast: float64 -> float32 implicit unreached
      if (wide) f = d;                 // cast: float64 -> float32 implicit unreached
      if (sizeof(float) == 8) f = d;   // cast: float64 -> float32 implicit unreached
      if (true) {
        f = d;                         // cast: float64 -> float32 implicit
      } else {
        f = d;                         // cast: float64 -> float32 implicit unreached
      }
      if (c) f = d;                    // cast: float64 -> float32 implicit
    }
    """)


def test_the_branch_of_a_conditional_that_a_constant_rules_out_is_unreached(golden: Scan) -> None:
    golden("""
    constexpr bool wide = false;
    void f(float f, double d) {
      d = wide ? f : d;   // cast: float32 -> float64 implicit unreached
      d = !wide ? f : d;  // cast: float32 -> float64 implicit
    }
    """)


def test_what_a_trait_of_a_bound_type_rules_out_is_unreached_in_that_instance(golden: Scan) -> None:
    scanned = golden("""
    template <class T> struct is_wide { static constexpr bool value = sizeof(T) == 8; };
    template <class T> float f(double d) {
      if (is_wide<T>::value) {
        return d;  // cast: float64 -> float32 implicit; float64 -> float32 implicit unreached
      }
      return 0.f;
    }
    float g(double d) { return f<double>(d) + f<float>(d); }
    """)
    reached = {i.bindings: [n.reached for n in i.nodes if n.form] for i in scanned.instances("f")}
    assert reached == {"T=float64": [True], "T=float32": [False]}


def test_host_functions_are_not_reached_by_device_code(scan: Scan) -> None:
    scanned = scan("""
    float host_only(double d) { return d; }
    void launch(double d) { host_only(d); }
    """)
    assert scanned.device() == set()


def test_kernels_and_device_functions_of_external_linkage_are_emitted(scan: Scan) -> None:
    scanned = scan("""
    __global__ void kernel(float* p, double d) { *p = d; }
    __device__ float visible(double d) { return d; }
    __host__ __device__ float both(double d) { return d; }
    """)
    assert scanned.device() == {"kernel", "visible", "both"}


def test_device_functions_that_nothing_calls_are_not_emitted(scan: Scan) -> None:
    scanned = scan("""
    static __device__ float hidden(double d) { return d; }
    __device__ inline float inlined(double d) { return d; }
    namespace { __device__ float anonymous(double d) { return d; } }
    """)
    assert {i.name for i in scanned.result.instances} == {"hidden", "inlined", "(anonymous namespace)::anonymous"}
    assert scanned.device() == set()


def test_what_a_kernel_calls_is_device_code(scan: Scan) -> None:
    scanned = scan("""
    static __device__ float inner(double d) { return d; }
    template <class T> __device__ T outer(T x) { return inner(x); }
    __global__ void kernel(double* p) { *p = outer(p[1]); }
    """)
    assert scanned.device() == {"kernel", "outer", "inner"}


def test_a_device_lambda_is_reached_through_the_kernel_that_it_is_given_to(scan: Scan) -> None:
    scanned = scan("""
    template <class F> __global__ void kernel(F f, float* p) { p[0] = f(p[1]); }
    void launch(float* p) {
      kernel<<<1, 1>>>([] __device__(double d) -> float { return d; }, p);
      auto on_host = [](double d) -> float { return d; };
      on_host(1);
    }
    """)
    reached = {reach.key for reach in scanned.result.reach if reach.device}
    lambdas = {i.line: i.key in reached for i in scanned.result.instances if i.is_lambda}
    assert lambdas == {3: True, 4: False}


def test_the_host_pass_and_the_device_pass_see_different_code(scan: Scan) -> None:
    """L21: ``__CUDA_ARCH__`` is set in one of clang's two compilations."""
    text = """
    __host__ __device__ float f(double d, float x) {
    #ifdef __CUDA_ARCH__
      return d;
    #else
      return x * 2.0;
    #endif
    }
    """
    device, host = scan(text), scan(text, cuda_pass="host")
    assert {c.line for c in device.casts()} == {3}
    assert {c.line for c in host.casts()} == {5}
    assert (device.result.cuda_pass.value, host.result.cuda_pass.value) == ("device", "host")


def test_a_unit_of_plain_cpp_has_no_pass_and_no_device_code(scan: Scan) -> None:
    scanned = scan("float f(double d) { return d; }\n", name="unit.cpp")
    assert scanned.result.cuda_pass.value == "none"
    assert scanned.device() == set()


def test_literals_are_nodes_and_constant(scan: Scan) -> None:
    scanned = scan("float f(float x) { return x + 1.5f; }\n")
    (literal,) = scanned.nodes(NodeKind.LITERAL)
    assert (literal.format, literal.constant) == ("float32", True)
