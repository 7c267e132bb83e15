"""Eigen's expression templates: the line that a reader wants is the framework's, the format the functor's."""

from __future__ import annotations

from pathlib import Path

from snippets import STAND_INS, Scan, Scanned

from opscanner.ir import NodeKind

# Outside of the scanned root, as Eigen is.
EIGEN = ("-include", str(Path(STAND_INS) / "eigen" / "tensor.h"))


def computing(scanned: Scanned) -> set[tuple[int, str, str, str]]:
    """(line, operation, format, category) of every operation."""
    return {
        (node.line, node.operation, node.format, node.category)
        for instance in scanned.result.instances
        for node in instance.nodes
        if node.category and node.category != "call"
    }


def test_an_expression_computes_where_the_framework_writes_it_in_the_functors_format(scan: Scan) -> None:
    scanned = scan(
        """
        template <typename Device, typename T> struct SeluGrad {
          void operator()(const Device& d, Eigen::Tensor<T> gradients, Eigen::Tensor<T> activations,
                          Eigen::Tensor<T> backprops) {
            backprops.device(d) =
                gradients *
                (activations + activations.exp());
          }
        };
        template struct SeluGrad<Eigen::GpuDevice, Eigen::half>;
        """,
        arguments=EIGEN,
    ).check()
    assert computing(scanned) == {
        (5, "*", "float16", "arith"),
        (6, "+", "float16", "arith"),
        (6, "exp", "float16", "math"),
    }


def test_what_a_gpu_device_is_assigned_runs_there_and_what_a_thread_pool_is_assigned_does_not(scan: Scan) -> None:
    text = """
    template <typename Device> void scale(const Device& d, Eigen::Tensor<float> in, Eigen::Tensor<float> out) {
      float host = 1.5f;
      out.device(d) = in * in.constant(host + 1.0f);
    }
    template void scale<Eigen::%s>(const Eigen::%s&, Eigen::Tensor<float>, Eigen::Tensor<float>);
    """
    for device, runs in (("GpuDevice", True), ("ThreadPoolDevice", False)):
        scanned = scan(text % (device, device), arguments=EIGEN)
        marks = {n.operation: n.on_device for i in scanned.instances("scale") for n in i.nodes if n.category == "arith"}
        assert marks == {"*": runs, "+": False}


def test_cast_of_an_expression_is_a_cast_of_that_form(golden: Scan) -> None:
    golden(
        """
        void widen(const Eigen::GpuDevice& d, Eigen::Tensor<Eigen::half> in, Eigen::Tensor<Eigen::half> out) {
          out.device(d) = in.cast<float>()  // cast: float16 -> float32 expression
                              .exp()
                              .cast<Eigen::half>();  // cast: float32 -> float16 expression
        }
        """,
        arguments=EIGEN,
    )


def test_a_reduction_accumulates_in_its_reducers_format(scan: Scan) -> None:
    scanned = scan(
        """
        void total(const Eigen::GpuDevice& d, Eigen::Tensor<Eigen::half> in, Eigen::Tensor<Eigen::half> out) {
          out.device(d) += in.sum(0);
        }
        """,
        arguments=EIGEN,
    )
    assert computing(scanned) == {(2, "sum", "float16", "reduction"), (2, "+", "float16", "arith")}
    (reduction,) = scanned.nodes_of(scanned.instance("total"), NodeKind.REDUCTION)
    assert reduction.accumulator == "float16"


def test_a_functor_called_directly_is_what_it_computes(scan: Scan) -> None:
    scanned = scan(
        """
        __global__ void gate(const Eigen::half* x, Eigen::half* y) {
          y[0] = Eigen::internal::scalar_exp_op<Eigen::half>()(x[0]);
          y[1] = Eigen::internal::scalar_product_op<Eigen::half>()(x[0], x[1]);
        }
        """,
        arguments=EIGEN,
    )
    assert computing(scanned) == {(2, "exp", "float16", "functor"), (3, "*", "float16", "functor")}


def test_a_functor_that_an_expression_is_given_stands_at_the_expression(scan: Scan) -> None:
    scanned = scan(
        """
        void apply(const Eigen::GpuDevice& d, Eigen::Tensor<Eigen::half> in, Eigen::Tensor<Eigen::half> out) {
          out.device(d) = in.unaryExpr(Eigen::internal::scalar_exp_op<Eigen::half>());
        }
        """,
        arguments=EIGEN,
    )
    assert computing(scanned) == {(2, "exp", "float16", "functor")}


def test_the_frameworks_functor_is_walked_as_device_code_where_eigens_kernel_calls_it(scan: Scan) -> None:
    scanned = scan(
        """
        template <typename T> struct scalar_tanh_gradient {
          __host__ __device__ T operator()(T x) const { return x * (T(1.f) - x * x); }
        };
        void apply(const Eigen::GpuDevice& d, Eigen::Tensor<Eigen::half> in, Eigen::Tensor<Eigen::half> out) {
          out.device(d) = in.unaryExpr(scalar_tanh_gradient<Eigen::half>());
        }
        """,
        arguments=EIGEN,
    )
    assert {row for row in computing(scanned) if row[0] == 2} == {
        (2, "*", "float16", "arith"),
        (2, "-", "float16", "arith"),
    }
    functor = scanned.instance("scalar_tanh_gradient::operator()")
    assert {reach.device for reach in scanned.result.reach if reach.key == functor.key} == {True}


def test_making_a_constant_and_handing_an_expression_on_compute_nothing(scan: Scan) -> None:
    scanned = scan(
        """
        void fill(const Eigen::GpuDevice& d, Eigen::Tensor<float> in, Eigen::Tensor<float> out) {
          auto product = in * in;
          auto same = product;
          out.device(d) = same.derived();
          out.device(d) = in.constant(1.0f);
        }
        """,
        arguments=EIGEN,
    )
    assert computing(scanned) == {(2, "*", "float32", "arith")}


def test_a_function_template_of_a_header_that_the_source_instantiates_explicitly_is_walked(golden: Scan) -> None:
    golden(
        """
        #include "reduce.h"
        #define INSTANTIATE(T) template void reduce<T>(const T*, float*);
        INSTANTIATE(Eigen::half)
        """,
        files={
            "reduce.h": """
            template <typename T> void reduce(const T* in, float* out) {
              *out = static_cast<float>(*in);  // cast: float16 -> float32 static_cast as float
            }
            template <typename T> void unused(const T* in, float* out) {
              *out = static_cast<float>(*in);
            }
            template <> inline void unused<double>(const double* in, float* out) {
              *out = static_cast<float>(*in);
            }
            """
        },
        arguments=EIGEN,
    )
