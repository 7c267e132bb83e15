"""Instances: which bodies are found, for which formats, and how often they are walked."""

from __future__ import annotations

from snippets import Scan, Scanned


def bindings(scanned: Scanned, name: str) -> set[str]:
    """Bindings of the instances of a name, each in alphabetical order."""
    return {", ".join(sorted(instance.bindings.split(", "))) for instance in scanned.instances(name)}


def test_a_called_template_is_seen_with_its_concrete_formats(golden: Scan) -> None:
    """L15: walking the template itself would show ``T``, ``A`` and dependent types."""
    scanned = golden("""
    template <typename T, typename acc_t> acc_t sum(const T* p, int n) {
      acc_t s = acc_t(0);             // cast: int32 -> float32 functional as acc_t constant
      for (int i = 0; i < n; i++)
        s += static_cast<acc_t>(p[i]);  // cast: float16 -> float32 static_cast as acc_t
      return s;
    }
    float f(c10::Half* h, float* p) { return sum<c10::Half, float>(h, 2) + sum<float, float>(p, 2); }
    """)
    assert bindings(scanned, "sum") == {"T=float16, acc_t=float32", "T=float32, acc_t=float32"}


def test_a_template_that_nothing_instantiates_gives_nothing(golden: Scan) -> None:
    scanned = golden("""
    template <class T> float unused(T t, double d) { return d; }
    template <class T> struct Unused { float f(double d) { return d; } };
    """)
    assert scanned.result.instances == ()


def test_kernels_are_followed_through_their_launch(golden: Scan) -> None:
    scanned = golden("""
    template <typename scalar_t> __global__ void kernel(scalar_t* p, float f) {
      p[0] = static_cast<scalar_t>(f);  // cast: float32 -> float16 static_cast as scalar_t; float32 -> float64 static_cast as scalar_t
    }
    void launch(c10::Half* h, double* d) {
      kernel<c10::Half><<<1, 2>>>(h, 1.0f);
      kernel<<<1, 2>>>(d, 1.0f);
    }
    """)  # noqa: E501
    assert bindings(scanned, "kernel") == {"scalar_t=float16", "scalar_t=float64"}
    assert all(instance.is_kernel for instance in scanned.instances("kernel"))


def test_functors_are_followed_into_their_call_operator(golden: Scan) -> None:
    scanned = golden("""
    template <class T> struct Mul {
      float scale;
      __device__ T operator()(T x) const {
        return static_cast<float>(x) * scale;  // cast: float16 -> float32 static_cast as float; float32 -> float16 converting_constructor
      }
    };
    template <class F, class T> __global__ void apply(F f, T* p) { p[0] = f(p[1]); }
    void launch(c10::Half* h) { apply<<<1, 1>>>(Mul<c10::Half>{2.0f}, h); }
    """)  # noqa: E501
    assert bindings(scanned, "Mul::operator()") == {"T=float16"}
    assert "Mul::operator()" in scanned.device()


def test_generic_lambdas_are_seen_once_for_each_type_they_are_called_with(golden: Scan) -> None:
    golden("""
    void f(c10::Half h, double d) {
      auto widen = [](auto x) { return (float)x; };  // cast: float64 -> float32 c_style as float; float16 -> float32 c_style as float
      widen(d);  // cast: float64 -> float32 helper_call
      widen(h);  // cast: float16 -> float32 helper_call
    }
    """)  # noqa: E501


def test_a_lambda_with_its_own_template_parameters_is_seen_for_each_binding(golden: Scan) -> None:
    golden(
        """
        void f(void* p) {
          auto load = []<class T>(const void* p) -> float {
            return *static_cast<const T*>(p);  // cast: float64 -> float32 implicit; float16 -> float32 conversion_function
          };
          load.operator()<double>(p);
          load.operator()<c10::Half>(p);
        }
        """,  # noqa: E501
        standard="c++20",
    )


def test_a_generic_device_lambda_mixes_formats(golden: Scan) -> None:
    golden("""
    template <class F> __global__ void apply(F f, c10::Half* p) {
      p[0] = f(p[1], 1.0f);  // cast: float32 -> float16 converting_constructor
    }
    void launch(c10::Half* h, double d) {
      apply<<<1, 1>>>([=] __device__(auto x, auto y) -> float {
        return x * y * d;  // cast: float16 -> float32 mixed_operator; float32 -> float64 implicit; float64 -> float32 implicit
      }, h);
    }
    """)  # noqa: E501


DISPATCH = """
#define CASE(T, ...) case sizeof(T): { using scalar_t = T; return __VA_ARGS__(); }
#define DISPATCH(n, ...) \\
  switch (n) { \\
    CASE(double, __VA_ARGS__) \\
    CASE(c10::Half, __VA_ARGS__) \\
    CASE(float, __VA_ARGS__) \\
  }
"""


def test_a_lambda_in_a_dispatch_macro_keeps_its_own_lines(golden: Scan) -> None:
    """L16, and the lines that libclang's expansion location would put on the macro's."""
    golden(
        """
        #include "dispatch.h"
        void run(int n, const void* p, float* q) {
          DISPATCH(n, [&] {
            auto x = static_cast<const scalar_t*>(p)[0];
            float y = x;                    // cast: float64 -> float32 implicit; float16 -> float32 conversion_function
            q[0] = static_cast<float>(x);   // cast: float64 -> float32 static_cast as float; float16 -> float32 static_cast as float
          });
        }
        """,  # noqa: E501
        files={"dispatch.h": DISPATCH},
    )


def test_a_dispatch_macro_gives_one_instance_of_its_lambda_a_format(scan: Scan) -> None:
    scanned = scan(
        """
        #include "dispatch.h"
        template <class T> __global__ void kernel(T* p, float f) { *p = f; }
        void run(int n, void* p) { DISPATCH(n, [&] { kernel<<<1, 1>>>(static_cast<scalar_t*>(p), 1.f); }); }
        """,
        files={"dispatch.h": DISPATCH},
    )
    assert bindings(scanned, "kernel") == {"T=float64", "T=float16", "T=float32"}
    lambdas = [i for i in scanned.result.instances if i.is_lambda]
    assert len({i.key for i in lambdas}) == 3


def test_code_in_a_macros_body_keeps_both_places(golden: Scan) -> None:
    scanned = golden("""
    #define NARROW(x) \\
      float y = 0.f;  \\
      y = (x) * 1.5
    float f(float v) {
      NARROW(v);  // cast: float32 -> float64 implicit; float64 -> float32 implicit
      return y;
    }
    """)
    narrowed = next(n for n in scanned.nodes() if n.form and n.format == "float32")
    assert (narrowed.line, narrowed.macro_file, narrowed.macro_line) == (5, "unit.cu", 3)


def test_a_macros_argument_has_a_place_of_its_own(golden: Scan) -> None:
    scanned = golden("""
    #define SQUARE(x) ((x) * (x))
    float f(double d) {
      return SQUARE(
          static_cast<float>(d));  // cast: float64 -> float32 static_cast as float; float64 -> float32 static_cast as float
    }
    """)  # noqa: E501
    assert {n.macro_line for n in scanned.nodes() if n.form} == {0}


def test_explicit_instantiations_of_functions_are_walked(golden: Scan) -> None:
    golden("""
    template <typename T> float fun(T x) { return x; }  // cast: float16 -> float32 conversion_function
    template float fun<c10::Half>(c10::Half);
    template <typename T> __global__ void kernel(T* p, float f) {
      *p = f;  // cast: float32 -> float64 implicit
    }
    template __global__ void kernel<double>(double*, float);
    """)


def test_explicit_instantiations_of_classes_are_walked_and_emitted(golden: Scan) -> None:
    scanned = golden("""
    template <typename T> struct Selu {
      __device__ T operator()(T x) {
        return static_cast<T>(static_cast<float>(x));  // cast: float16 -> float32 static_cast as float; float32 -> float16 static_cast as T
      }
      static float widen(T x) { return x; }  // cast: float16 -> float32 conversion_function
    };
    template struct Selu<c10::Half>;
    """)  # noqa: E501
    assert scanned.device() == {"Selu::operator()"}


def test_explicit_specializations_are_plain_functions(golden: Scan) -> None:
    golden("""
    template <class T> float f(T t) { return t; }
    template <> float f<double>(double t) { return t; }  // cast: float64 -> float32 implicit
    """)


def test_methods_of_classes_in_the_source_are_walked(golden: Scan) -> None:
    golden("""
    namespace ns {
    class K {
     public:
      float a(double d) { return d; }  // cast: float64 -> float32 implicit
     private:
      struct Inner { float b(double d) { return d; } };  // cast: float64 -> float32 implicit
    };
    }
    """)


def test_methods_defined_outside_of_their_class_are_walked_once(golden: Scan) -> None:
    scanned = golden("""
    struct S { float f(double d); };
    float S::f(double d) { return d; }  // cast: float64 -> float32 implicit
    float g(S s, double d) { return s.f(d); }
    """)
    assert len(scanned.instances("S::f")) == 1


def test_member_templates_are_seen_for_each_binding(golden: Scan) -> None:
    """libclang tells no template arguments of methods: the type of ``load`` is the same for every ``T``."""
    golden("""
    struct S {
      template <class T> float load(const void* p) {
        return *static_cast<const T*>(p);  // cast: float64 -> float32 implicit; float16 -> float32 conversion_function
      }
    };
    float f(S s, void* p) { return s.load<double>(p) + s.load<c10::Half>(p) + s.load<float>(p); }
    """)


def test_member_templates_tell_their_binding(scan: Scan) -> None:
    scanned = scan("""
    struct S { template <class T> float load(T x) { return x; } };
    float f(S s, double d) { return s.load<double>(d); }
    """)
    assert bindings(scanned, "S::load") == {"T=float64"}


def test_parameter_packs_are_part_of_an_instance(golden: Scan) -> None:
    golden("""
    template <class... T> float sum(const void* p) {
      return (... + static_cast<float>(*static_cast<const T*>(p)));  // cast: float64 -> float32 static_cast as float; float16 -> float32 static_cast as float
    }
    float f(void* p) { return sum<double>(p) + sum<c10::Half, float>(p); }
    """)  # noqa: E501


def test_nested_templates_are_seen_with_the_formats_of_every_level(golden: Scan) -> None:
    scanned = golden("""
    template <class T> struct Outer {
      template <class U> struct Inner {
        template <class V> V go(T t, U u) {
          return static_cast<V>(t) + static_cast<V>(u);  // cast: float16 -> float32 static_cast as V; float64 -> float32 static_cast as V
        }
      };
    };
    float f(c10::Half h, double d) { return Outer<c10::Half>::Inner<double>().go<float>(h, d); }
    """)  # noqa: E501
    (instance,) = scanned.instances("Outer::Inner::go")
    assert {"T=float16", "U=float64"} <= set(instance.bindings.split(", "))


def test_integer_template_arguments_do_not_multiply_instances(golden: Scan) -> None:
    scanned = golden("""
    template <typename T, int N> __global__ void k(T* p) {
      for (int i = 0; i < N; i++)
        p[i] = static_cast<float>(p[i]);  // cast: float16 -> float32 static_cast as float; float32 -> float16 converting_constructor
    }
    void launch(c10::Half* h) {
      k<c10::Half, 2><<<1, 1>>>(h);
      k<c10::Half, 4><<<1, 1>>>(h);
      k<c10::Half, 8><<<1, 1>>>(h);
    }
    """)  # noqa: E501
    assert len(scanned.instances("k")) == 1


def test_enumerators_as_template_arguments_are_told_apart_because_they_choose_what_is_called(golden: Scan) -> None:
    scanned = golden("""
    enum class Op { kAssign, kAdd, kMul, kMax };
    template <Op op> struct Body;
    template <> struct Body<Op::kMul> {
      __device__ static float apply(double x) { return static_cast<float>(x); }  // cast: float64 -> float32 static_cast as float
    };
    template <> struct Body<Op::kMax> {
      __device__ static float apply(double x) { return (float)x; }  // cast: float64 -> float32 c_style as float
    };
    template <Op op> __global__ void scatter(float* out) { *out = Body<op>::apply(out[1]); }  // cast: float32 -> float64 implicit; float64 -> float32 helper_call
    void launch(float* p) {
      scatter<Op::kMul><<<1, 1>>>(p);
      scatter<Op::kMax><<<1, 1>>>(p);
    }
    """)  # noqa: E501
    called = {call.callee for instance in scanned.instances("scatter") for call in instance.calls}
    assert called == {instance.key for instance in scanned.instances("apply")}
    assert len(called) == 2


def test_integers_are_told_apart_where_the_body_asks_constexpr_questions(golden: Scan) -> None:
    scanned = golden("""
    template <int N> float f(double x) {
      if constexpr (N == 2) {
        return x;  // cast: float64 -> float32 implicit
      } else {
        return (float)x;  // cast: float64 -> float32 c_style as float
      }
    }
    float g(double d) { return f<2>(d) + f<3>(d); }  // cast: float64 -> float32 helper_call; float64 -> float32 helper_call
    """)  # noqa: E501
    assert len(scanned.instances("f")) == 2


def test_if_constexpr_leaves_one_branch_of_a_template(golden: Scan) -> None:
    golden("""
    template <class T> float f(T x, double d) {
      if constexpr (sizeof(T) == 2) {
        return static_cast<float>(x) + 1.f;  // cast: float16 -> float32 static_cast as float
      } else {
        return d;  // cast: float64 -> float32 implicit
      }
    }
    float g(c10::Half h, double d) { return f(h, d) + f(d, d); }
    """)


def test_the_name_of_the_type_is_kept_as_written(golden: Scan) -> None:
    golden("""
    template <class T> struct OpMath { using type = T; };
    template <> struct OpMath<c10::Half> { using type = float; };
    template <typename scalar_t, typename accscalar_t> void f(scalar_t* p, double d) {
      using opmath_t = typename OpMath<scalar_t>::type;
      auto a = static_cast<opmath_t>(p[0]);  // cast: float16 -> float32 static_cast as opmath_t
      auto b = (opmath_t)p[0];               // cast: float16 -> float32 c_style as opmath_t
      auto c = opmath_t(p[0]);               // cast: float16 -> float32 functional as opmath_t
      auto e = static_cast<typename OpMath<scalar_t>::type>(p[0]);  // cast: float16 -> float32 static_cast as OpMath<scalar_t>::type
      opmath_t g = d;                        // cast: float64 -> float32 implicit as opmath_t
      p[0] = static_cast<scalar_t>(a);       // cast: float32 -> float16 static_cast as scalar_t
      auto h = static_cast<accscalar_t>(a);  // cast: float32 -> float64 static_cast as accscalar_t
    }
    void run(c10::Half* h, double d) { f<c10::Half, double>(h, d); }
    """)  # noqa: E501


def test_functions_named_in_a_table_are_followed(golden: Scan) -> None:
    golden("""
    template <class T> float narrow(T t) { return t; }  // cast: float64 -> float32 implicit
    float (*table[])(double) = {narrow<double>};
    """)


def test_headers_below_the_root_are_followed_and_others_are_not(scan: Scan) -> None:
    scanned = scan(
        """
        #include "kernels/inner.h"
        float f(double d) { return inner(d); }
        """,
        files={
            "kernels/inner.h": """
            inline float inner(double d) { return d * 0.5; }
            inline float uncalled(double d) { return d; }
            """
        },
    )
    (inner,) = scanned.instances("inner")
    assert (inner.file, inner.line) == ("kernels/inner.h", 1)
    assert scanned.instances("uncalled") == []
    assert scanned.result.dependencies == ("kernels/inner.h", "unit.cu")
