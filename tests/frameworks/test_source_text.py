"""Reading C++ text without a compiler."""

from __future__ import annotations

from opscanner.frameworks import macros
from opscanner.frameworks.source_text import SourceText, split_arguments

KERNELS = """\
#include <x.h>  // { an open brace in a comment
namespace at::native {
namespace {
const char* text = "} { void not_a_function() {";
template <typename T, std::enable_if_t<(sizeof(T) > 2), int> = 0>
C10_LAUNCH_BOUNDS_1(256)
__global__ void kernel(const T* x) {
  if (x) { call(x); }
}
struct Add : Base<int> {
  __device__ float operator()(float a, float b) const { return a + b; }
};
} // namespace
static int hidden(int a) { return a; }
enum class Kind { A, B };
std::vector<int> table = {1, 2};
TORCH_IMPL_FUNC(elu_out)
(const Tensor& self, const Scalar& alpha) {
  elu_stub(device_type(), *this);
}
REGISTER_DISPATCH(elu_stub, &elu_kernel)
Tensor Foo::bar(int a) : Base(a) {
}
}
"""


def test_functions_and_classes_have_names_scopes_and_lines() -> None:
    source = SourceText(KERNELS)
    found = {made.name: made for made in source.definitions()}
    assert set(found) == {"kernel", "operator()", "Add", "hidden", "TORCH_IMPL_FUNC(elu_out)", "Foo::bar"}
    assert source.line(found["kernel"].begin) == 7
    assert source.line(found["kernel"].end) == 9
    assert found["operator()"].scope == ("at::native", "Add")
    assert found["Add"].is_class
    assert source.line(found["TORCH_IMPL_FUNC(elu_out)"].begin) == 17


def test_static_and_anonymous_functions_are_local_to_their_file() -> None:
    local = {made.name for made in SourceText(KERNELS).definitions() if made.local}
    assert local == {"kernel", "operator()", "Add", "hidden"}


def test_a_registration_without_semicolon_is_found_with_its_arguments() -> None:
    (call,) = SourceText(KERNELS).calls("REGISTER_DISPATCH")
    assert call.arguments == ("elu_stub", "&elu_kernel")
    assert SourceText(KERNELS).line(call.begin) == 21


def test_a_macro_before_a_class_is_no_part_of_it() -> None:
    (made,) = SourceText("CALL(REGISTER)\n\ntemplate <class T>\nclass A<int, T> : public B<T> {\n};\n").definitions()
    assert (made.name, made.header) == ("A", "class A<int, T> : public B<T>")


def test_of_preprocessor_branches_that_share_a_closing_brace_the_first_counts() -> None:
    text = "#if A\nvoid f(int a) {\n#else\nvoid f(long a) {\n#endif\n  g();\n}\nvoid h() {}\n"
    source = SourceText(text)
    assert [(made.name, source.line(made.begin), source.line(made.end)) for made in source.definitions()] == [
        ("f", 2, 7),
        ("h", 8, 8),
    ]


def test_arguments_are_split_outside_of_brackets_and_strings() -> None:
    assert split_arguments('Name("a,b").Device(D), Op<D, half>, f(x, y)') == [
        'Name("a,b").Device(D)',
        "Op<D, half>",
        "f(x, y)",
    ]


def test_a_macro_pastes_and_quotes_and_is_expanded_inside_another() -> None:
    code = (
        "#define MAKE(NAME, T) \\\n  void NAME##_kernel(T x) { use(#NAME); }\n"
        "#define BOTH(NAME) MAKE(NAME, float) MAKE(NAME, half)\n"
    )
    known = {made.name: made.macro for made in macros.definitions(code) if made.macro is not None}
    expanded = macros.expand("BOTH(exp)", known)
    wanted = 'void exp_kernel(float x) { use("exp"); } void exp_kernel(half x) { use("exp"); }'
    assert " ".join(expanded.split()) == wanted


def test_a_macro_given_to_a_macro_is_called_there() -> None:
    known = {
        "TF_CALL_half": macros.Macro(("m",), "m(Eigen::half)"),
        "REGISTER": macros.Macro(("T",), "reg<T>();"),
    }
    assert macros.expand("TF_CALL_half(REGISTER);", known) == "reg<Eigen::half>();;"


def test_a_macro_that_names_itself_is_expanded_once() -> None:
    assert macros.expand("F(1)", {"F": macros.Macro(("x",), "F(x) + x")}) == "F(1) + 1"
