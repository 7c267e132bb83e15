"""Which format a type holds, and the direction of a change."""

from __future__ import annotations

import pytest
from snippets import Scan

from opscanner.ir import NodeKind


@pytest.mark.parametrize(
    ("spelled", "format"),
    [
        ("c10::Half", "float16"),
        ("c10::BFloat16", "bfloat16"),
        ("c10::Float8_e4m3fn", "float8_e4m3fn"),
        ("c10::Float8_e5m2", "float8_e5m2"),
        ("c10::Float8_e4m3fnuz", "float8_e4m3fnuz"),
        ("c10::Float8_e5m2fnuz", "float8_e5m2fnuz"),
    ],
)
def test_a_class_of_c10_has_its_format(golden: Scan, spelled: str, format: str) -> None:
    golden(f"""
    void f({spelled} x, float f) {{
      f = x;  // cast: {format} -> float32 conversion_function
      x = f;  // cast: float32 -> {format} converting_constructor
    }}
    """)


def test_a_16_bit_class_goes_to_another_through_float32(golden: Scan) -> None:
    golden("""
    void f(c10::Half h, c10::BFloat16 b, c10::Float8_e5m2 e) {
      b = static_cast<c10::BFloat16>(h);  // cast: float16 -> float32 conversion_function; float32 -> bfloat16 static_cast as c10::BFloat16
      h = static_cast<c10::Half>(e);      // cast: float8_e5m2 -> float32 conversion_function; float32 -> float16 static_cast as c10::Half
    }
    """)  # noqa: E501


def test_builtin_16_bit_types(golden: Scan) -> None:
    """L1 and L2: ``_Float16`` and ``__bf16`` have type kinds that older bindings stumble over."""
    golden(
        """
        void f(_Float16 h, __bf16 b, float f, double d) {
          f = h;            // cast: float16 -> float32 implicit
          h = f;            // cast: float32 -> float16 implicit
          h = (_Float16)d;  // cast: float64 -> float16 c_style as _Float16
          f = b;            // cast: bfloat16 -> float32 implicit
          b = (__bf16)f;    // cast: float32 -> bfloat16 c_style as __bf16
        }
        """,
        name="unit.cpp",
    )


def test_builtin_wide_types(golden: Scan) -> None:
    golden(
        """
        void f(double d, long double l, __float128 q) {
          l = d;  // cast: float64 -> float80 implicit
          d = l;  // cast: float80 -> float64 implicit
          q = d;  // cast: float64 -> float128 implicit
        }
        """,
        name="unit.cpp",
    )


def test_complex_numbers_are_named_by_their_width(golden: Scan) -> None:
    golden("""
    void f(c10::complex<float> a, c10::complex<double> b, c10::complex<c10::Half> c) {
      b = static_cast<c10::complex<double>>(a);  // cast: complex64 -> complex128 static_cast as c10::complex<double>
      a = static_cast<c10::complex<float>>(b);   // cast: complex128 -> complex64 static_cast as c10::complex<float>
      a = c10::complex<float>(c);                // cast: complex32 -> complex64 functional as c10::complex<float>
      c = c10::complex<c10::Half>(a);            // cast: complex64 -> complex32 functional as c10::complex<c10::Half>
      a = a + a;
    }
    """)


def test_a_real_number_that_becomes_complex_is_cast_only_when_its_format_changes(golden: Scan) -> None:
    golden("""
    void f(c10::complex<float> a, c10::complex<double> b, float f, double d) {
      a = c10::complex<float>(f, f);
      a = c10::complex<float>(d, f);  // cast: float64 -> float32 implicit
      b = f;                          // cast: float32 -> float64 implicit
      d = a.real();                   // cast: float32 -> float64 implicit
    }
    """)


def test_c_complex_numbers(golden: Scan) -> None:
    golden(
        """
        void f(float _Complex a, double _Complex b) {
          a = b;  // cast: complex128 -> complex64 implicit
          b = a;  // cast: complex64 -> complex128 implicit
        }
        """,
        name="unit.cpp",
    )


def test_vector_types_have_the_format_of_their_parts(golden: Scan) -> None:
    scanned = golden("""
    __device__ void f(__half2 a, float2 b, float4 c, double2 d, double x, float y) {
      b.x = x;                     // cast: float64 -> float32 implicit
      c = make_float4(x, y, y, y); // cast: float64 -> float32 implicit
      d.x = c.w;                   // cast: float32 -> float64 implicit
      b = {(float)x, y};           // cast: float64 -> float32 c_style as float
      a = a + a;
    }
    """)
    (added,) = scanned.nodes(NodeKind.ARITHMETIC)
    assert (added.format, added.lanes) == ("float16", 2)


def test_integers_become_floats_and_back(golden: Scan) -> None:
    golden("""
    void f(int n, unsigned u, long l, short s, unsigned char c, char k, float f, double d) {
      f = n;                     // cast: int32 -> float32 implicit
      d = u;                     // cast: uint32 -> float64 implicit
      f = l;                     // cast: int64 -> float32 implicit
      d = s;                     // cast: int16 -> float64 implicit
      f = k;                     // cast: int8 -> float32 implicit
      n = f;                     // cast: float32 -> int32 implicit
      u = d;                     // cast: float64 -> uint32 implicit
      c = f;                     // cast: float32 -> uint8 implicit
      l = static_cast<long>(d);  // cast: float64 -> int64 static_cast as long
      d = n / 2;                 // cast: int32 -> float64 implicit
    }
    """)


def test_integers_reach_a_class_through_float32(golden: Scan) -> None:
    golden("""
    void f(int n, c10::Half h) {
      h = n;                    // cast: int32 -> float32 implicit; float32 -> float16 converting_constructor
      n = h;                    // cast: float16 -> float32 conversion_function; float32 -> int32 implicit
      n = static_cast<int>(h);  // cast: float16 -> float32 conversion_function; float32 -> int32 static_cast as int
    }
    """)


def test_a_bool_is_an_integer_as_a_source_and_a_question_as_a_target(golden: Scan) -> None:
    golden("""
    void f(bool b, float f) {
      f = b;  // cast: bool -> float32 implicit
      b = f;
      if (f) return;
    }
    """)


def test_an_enumeration_is_an_integer(golden: Scan) -> None:
    golden("""
    enum E { A, B };
    enum class F : long { C };
    void f(E e, F g, float x) {
      x = e;                       // cast: uint32 -> float32 implicit
      x = static_cast<float>(g);   // cast: int64 -> float32 static_cast as float
    }
    """)


def test_size_t_is_an_integer_also_where_builtins_return_it(golden: Scan) -> None:
    """L20: clang 22 gives ``size_t`` of builtins no kind of its own."""
    golden("""
    typedef decltype(sizeof(0)) size_type;
    void f(const char* s, float f, double d, size_type n) {
      f = n;                    // cast: uint64 -> float32 implicit
      d = __builtin_strlen(s);  // cast: uint64 -> float64 implicit
      n = d;                    // cast: float64 -> uint64 implicit as size_type
    }
    """)


def test_qualifiers_and_references_change_no_format(golden: Scan) -> None:
    golden("""
    void f(const float& a, volatile float b, float&& c) {
      float x = a;
      x = b;
      const float& y = c;
      const float z = static_cast<const float&>(y);
    }
    """)


def test_a_reference_to_another_format_binds_to_a_temporary(golden: Scan) -> None:
    golden("""
    void take(const float&);
    void f(double d, c10::Half h) {
      take(d);             // cast: float64 -> float32 implicit
      take(h);             // cast: float16 -> float32 conversion_function
      const float& r = d;  // cast: float64 -> float32 implicit
    }
    """)
