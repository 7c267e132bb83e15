"""Each way to write a cast, one row each: the comments of the snippets say what has to be found (see snippets.py)."""

from __future__ import annotations

from pathlib import Path

from snippets import TORCH_TYPES, Scan

LIBRARY = """
#pragma once
namespace std {
inline float fmod(c10::Half a, float b) { return static_cast<double>(a) + b; }
}
"""


def test_explicit_casts_of_builtin_types_keep_the_way_they_are_written(golden: Scan) -> None:
    golden("""
    float a(double d) { return static_cast<float>(d); }  // cast: float64 -> float32 static_cast as float
    float b(double d) { return (float)d; }               // cast: float64 -> float32 c_style as float
    float c(double d) { return float(d); }               // cast: float64 -> float32 functional as float
    float d(double d) { return (static_cast<const float>((d))); }  // cast: float64 -> float32 static_cast as float
    """)


def test_an_explicit_cast_of_a_class_is_one_cast_not_three(golden: Scan) -> None:
    """L14: clang has a static cast, an implicit cast and a call of ``operator float``."""
    golden("""
    float a(c10::Half h) { return static_cast<float>(h); }  // cast: float16 -> float32 static_cast as float
    float b(c10::Half h) { return (float)h; }               // cast: float16 -> float32 c_style as float
    float c(c10::Half h) { return float(h); }               // cast: float16 -> float32 functional as float
    float d(c10::Half h) { return static_cast<float>(static_cast<float>(h)); }  // cast: float16 -> float32 static_cast as float
    """)  # noqa: E501


def test_an_explicit_cast_to_a_class_is_one_cast(golden: Scan) -> None:
    golden("""
    c10::Half a(float f) { return static_cast<c10::Half>(f); }  // cast: float32 -> float16 static_cast as c10::Half
    c10::Half b(float f) { return (c10::Half)f; }               // cast: float32 -> float16 c_style as c10::Half
    c10::Half c(float f) { return c10::Half(f); }               // cast: float32 -> float16 functional as c10::Half
    """)


def test_a_cast_written_with_braces_is_functional(golden: Scan) -> None:
    """``acc_t{x}``: the list is the cast's operand for a builtin type, and a class's constructor has no cast at all."""
    golden("""
    double a(float f) { return double{f}; }        // cast: float32 -> float64 functional as double
    float b(c10::Half h) { return float{h}; }      // cast: float16 -> float32 functional as float
    c10::Half c(float f) { return c10::Half{f}; }  // cast: float32 -> float16 functional as c10::Half
    """)


def test_a_class_goes_to_other_formats_by_way_of_float32(golden: Scan) -> None:
    golden("""
    double a(c10::Half h) {
      return static_cast<double>(h);  // cast: float16 -> float32 conversion_function; float32 -> float64 static_cast as double
    }
    c10::Half b(double d) {
      return static_cast<c10::Half>(d);  // cast: float64 -> float32 implicit; float32 -> float16 static_cast as c10::Half
    }
    c10::Half c(c10::BFloat16 b) {
      return static_cast<c10::Half>(b);  // cast: bfloat16 -> float32 conversion_function; float32 -> float16 static_cast as c10::Half
    }
    """)  # noqa: E501


def test_braced_initializers_cast_although_clang_shows_no_cast_there(golden: Scan) -> None:
    golden("""
    struct Pair { float a; double b; };
    Pair f(c10::Half h, float f, double d) {
      float x{h};            // cast: float16 -> float32 conversion_function
      float y = {h};         // cast: float16 -> float32 conversion_function
      double z{f};           // cast: float32 -> float64 implicit
      c10::Half w{f};        // cast: float32 -> float16 converting_constructor
      float u[2] = {h, h};   // cast: float16 -> float32 conversion_function; float16 -> float32 conversion_function
      float2 t{h, f};        // cast: float16 -> float32 conversion_function
      const float s{static_cast<float>(d)};  // cast: float64 -> float32 static_cast as float
      return {f, f};         // cast: float32 -> float64 implicit
    }
    """)


def test_parenthesized_initializers_are_conversions(golden: Scan) -> None:
    golden("""
    void f(c10::Half h, float f) {
      float r(h);      // cast: float16 -> float32 conversion_function
      c10::Half q(f);  // cast: float32 -> float16 converting_constructor
      double s(h);     // cast: float16 -> float32 conversion_function; float32 -> float64 implicit
      float* p = new float(s);  // cast: float64 -> float32 implicit
    }
    """)


def test_implicit_narrowing_on_assignment_is_a_cast(golden: Scan) -> None:
    golden("""
    struct S { float m; };
    void f(float f, double d, S* s, float* p) {
      f = d;         // cast: float64 -> float32 implicit
      s->m = d;      // cast: float64 -> float32 implicit
      p[0] = d;      // cast: float64 -> float32 implicit
      *p = d;        // cast: float64 -> float32 implicit
      float x = d;   // cast: float64 -> float32 implicit
    }
    """)


def test_implicit_casts_of_arguments_and_returned_values(golden: Scan) -> None:
    """L12: clang names no kind for them, only the types differ."""
    golden("""
    void take(float);
    struct S { void set(float); };
    float f(double d, c10::Half h, S s) {
      take(d);   // cast: float64 -> float32 implicit
      take(h);   // cast: float16 -> float32 conversion_function
      s.set(d);  // cast: float64 -> float32 implicit
      return d;  // cast: float64 -> float32 implicit
    }
    double g(float x) { return x; }  // cast: float32 -> float64 implicit
    """)


def test_a_conditional_brings_its_branches_to_one_format(golden: Scan) -> None:
    golden("""
    double f(bool c, float f, double d) {
      return c ? f : d;  // cast: float32 -> float64 implicit
    }
    """)


def test_conversion_functions_and_converting_constructors_are_called_without_a_word(golden: Scan) -> None:
    golden("""
    void f(c10::Half h, float f, double d) {
      f = h;             // cast: float16 -> float32 conversion_function
      h = f;             // cast: float32 -> float16 converting_constructor
      h = d;             // cast: float64 -> float32 implicit; float32 -> float16 converting_constructor
      c10::Half v = f;   // cast: float32 -> float16 converting_constructor
      double y = h;      // cast: float16 -> float32 conversion_function; float32 -> float64 implicit
    }
    """)


def test_a_conversion_function_of_another_class_is_a_call_with_its_own_cast_inside(golden: Scan) -> None:
    scanned = golden("""
    struct C { double d; operator float() const { return d; } };  // cast: float64 -> float32 implicit
    float f(C c) { return c; }
    double g(C c) { return static_cast<double>(c); }  // cast: float32 -> float64 static_cast as double
    """)
    assert len(scanned.calls("f", "C::operator float")) == 1


def test_member_initializers_of_constructors_cast(golden: Scan) -> None:
    golden("""
    struct A {
      float m; double d; c10::Half h;
      A(double x, float y)
          : m(x),  // cast: float64 -> float32 implicit
            d{y},  // cast: float32 -> float64 implicit
            h(y) {}  // cast: float32 -> float16 converting_constructor
    };
    struct B : A { B(double q) : A(q, q) {} };  // cast: float64 -> float32 implicit
    """)


def test_a_mixed_operator_casts_its_narrower_operand_on_either_side(golden: Scan) -> None:
    golden("""
    float a(c10::Half h, float f) { return h * f; }    // cast: float16 -> float32 mixed_operator
    float b(c10::Half h, float f) { return f - h; }    // cast: float16 -> float32 mixed_operator
    double c(c10::Half h, double d) { return h / d; }  // cast: float16 -> float64 mixed_operator
    double d(c10::Half h, double d) { return d + h; }  // cast: float16 -> float64 mixed_operator
    """)


def test_a_mixed_operator_with_an_integer_computes_in_the_class(golden: Scan) -> None:
    scanned = golden("""
    c10::Half a(c10::Half h, int n) { return h + n; }  // cast: int32 -> float16 mixed_operator
    c10::Half b(c10::Half h, int n) { return n / h; }  // cast: int32 -> float16 mixed_operator
    c10::Half c(c10::Half h) { return h * 2; }         // cast: int32 -> float16 mixed_operator constant
    """)
    assert [(n.operation, n.format) for n in scanned.nodes() if n.category == "arith"] == [
        ("+", "float16"),
        ("/", "float16"),
        ("*", "float16"),
    ]


def test_mixed_builtin_operands_are_implicit_casts(golden: Scan) -> None:
    golden("""
    double a(float f, double d) { return f * d; }  // cast: float32 -> float64 implicit
    double b(float f, double d) { return d / f; }  // cast: float32 -> float64 implicit
    float c(float f, int n) { return n * f; }      // cast: int32 -> float32 implicit
    """)


def test_a_double_literal_widens_half_arithmetic_and_narrows_it_back(golden: Scan) -> None:
    golden("""
    c10::Half f(c10::Half h) {
      return h * 0.5;  // cast: float16 -> float64 mixed_operator; float64 -> float32 implicit; float32 -> float16 converting_constructor
    }
    """)  # noqa: E501


def test_scalar_intrinsics_are_casts(golden: Scan) -> None:
    golden("""
    __device__ void f(__half h, float x, double d, __nv_bfloat16 b, int n, __half* p) {
      x = __half2float(h);         // cast: float16 -> float32 intrinsic
      h = __float2half(x);         // cast: float32 -> float16 intrinsic
      h = __float2half_rn(d);      // cast: float64 -> float32 implicit; float32 -> float16 intrinsic
      x = __bfloat162float(b);     // cast: bfloat16 -> float32 intrinsic
      b = __float2bfloat16_rn(x);  // cast: float32 -> bfloat16 intrinsic
      n = __float2int_rn(x);       // cast: float32 -> int32 intrinsic
      x = __int2float_rn(n);       // cast: int32 -> float32 intrinsic
      x = __double2float_rn(d);    // cast: float64 -> float32 intrinsic
      *p = __float2half(1.0f);     // cast: float32 -> float16 intrinsic constant
    }
    """)


def test_vector_intrinsics_cast_two_lanes(golden: Scan) -> None:
    scanned = golden("""
    __device__ void f(__half2 h, float2 f, float x) {
      f = __half22float2(h);         // cast: float16 -> float32 intrinsic
      h = __float22half2_rn(f);      // cast: float32 -> float16 intrinsic
      h = __floats2half2_rn(x, x);   // cast: float32 -> float16 intrinsic
      x = __low2float(h);            // cast: float16 -> float32 intrinsic
    }
    """)
    assert {node.lanes for node in scanned.nodes() if node.form and node.line < 5} == {2}


def test_cuda_classes_convert_as_those_of_c10(golden: Scan) -> None:
    golden("""
    __device__ float f(__half h, __nv_bfloat16 b, float x) {
      x = h;              // cast: float16 -> float32 conversion_function
      h = x;              // cast: float32 -> float16 converting_constructor
      x = float(b) * x;   // cast: bfloat16 -> float32 functional as float
      h = h + h;
      return x;
    }
    """)


def test_the_call_of_a_function_that_only_casts_is_a_cast(golden: Scan) -> None:
    golden("""
    template <class T, class F> T convert(F f) {
      return static_cast<T>(f);  // cast: float32 -> float16 static_cast as T; float16 -> float32 static_cast as T
    }
    float through(c10::Half h) { return convert<float>(h); }  // cast: float16 -> float32 helper_call
    void f(c10::Half* p, float f) {
      p[0] = convert<c10::Half>(f);  // cast: float32 -> float16 helper_call
      f = convert<float>(p[1]);      // cast: float16 -> float32 helper_call
      f = through(p[2]);             // cast: float16 -> float32 helper_call
      f = convert<float>(f);
    }
    """)


def test_a_method_with_a_name_of_its_own_means_more_than_a_cast(golden: Scan) -> None:
    scanned = golden("""
    struct Op { float project(double d) { return d; } };  // cast: float64 -> float32 implicit
    float f(Op op, double d) { return op.project(d); }
    """)
    assert len(scanned.calls("f", "Op::project")) == 1


def test_a_function_that_computes_too_is_no_cast_helper(golden: Scan) -> None:
    scanned = golden("""
    float half_of(c10::Half h) { return static_cast<float>(h) * 0.5f; }  // cast: float16 -> float32 static_cast as float
    float f(c10::Half h) { return half_of(h); }
    """)  # noqa: E501
    assert len(scanned.calls("f", "half_of")) == 1


def test_casts_inside_a_library_function_stand_at_its_call_once_each(scan: Scan, tmp_path: Path) -> None:
    """A library is what lies outside of the scanned root."""
    (tmp_path / "library.h").write_text(LIBRARY)
    scanned = scan(
        """
        #include <library.h>
        float f(c10::Half h, float f) { return std::fmod(h, f); }
        """,
        arguments=("-I", str(tmp_path), *TORCH_TYPES),
    )
    rows = {(c.line, c.from_format, c.to_format, c.form) for c in scanned.casts()}
    assert rows == {
        (2, "float16", "float32", "library_call"),
        (2, "float32", "float64", "library_call"),
        (2, "float64", "float32", "library_call"),
    }


def test_a_compound_assignment_computes_in_the_wider_format_and_narrows(golden: Scan) -> None:
    scanned = golden("""
    void f(float f, double d, float* p) {
      f += d;      // cast: float32 -> float64 compound_assignment; float64 -> float32 compound_assignment
      f *= 0.5;    // cast: float32 -> float64 compound_assignment; float64 -> float32 compound_assignment
      p[1] -= d;   // cast: float32 -> float64 compound_assignment; float64 -> float32 compound_assignment
      d += f;      // cast: float32 -> float64 implicit
      f *= 2;      // cast: int32 -> float32 implicit constant
      f -= 1.0f;
    }
    """)
    computed = [(node.line, node.format) for node in scanned.nodes() if node.category == "arith"]
    assert computed == [(2, "float64"), (3, "float64"), (4, "float64"), (5, "float64"), (6, "float32"), (7, "float32")]


def test_a_compound_assignment_to_an_integer_goes_through_the_float(golden: Scan) -> None:
    golden("""
    void f(int n, float f) {
      n += f;    // cast: int32 -> float32 compound_assignment; float32 -> int32 compound_assignment
      n *= 0.5;  // cast: int32 -> float64 compound_assignment; float64 -> int32 compound_assignment
      f += n;    // cast: int32 -> float32 implicit
    }
    """)


def test_compound_assignments_of_classes(golden: Scan) -> None:
    golden("""
    void f(c10::Half h, float f, double d) {
      h += f;      // cast: float32 -> float16 converting_constructor
      h += h;
      h *= 2.0f;   // cast: float32 -> float16 converting_constructor constant
      f += h;      // cast: float16 -> float32 mixed_operator
      d += h;      // cast: float16 -> float32 conversion_function; float32 -> float64 implicit
    }
    """)


def test_a_compound_assignment_through_a_pointer_is_told_from_one_to_the_pointer(golden: Scan) -> None:
    golden("""
    float f(double* p, int n) {
      p += n;
      return *p++;  // cast: float64 -> float32 implicit
    }
    """)
