// The shape of Eigen's tensor expressions, enough of it for the snippets: the types are what the scan reads.
// Bodies do what Eigen's do: an assignment runs a kernel that calls the functor.
#pragma once
#include "Eigen/src/Core/arch/Default/Half.h"

namespace Eigen {

struct GpuDevice {};
struct ThreadPoolDevice {};

namespace internal {
template <typename T> struct scalar_sum_op {
  __host__ __device__ T operator()(const T& a, const T& b) const { return a; }
};
template <typename T> struct scalar_product_op {
  __host__ __device__ T operator()(const T& a, const T& b) const { return a * b; }
};
template <typename T> struct scalar_exp_op {
  __host__ __device__ T operator()(const T& a) const { return a; }
};
template <typename T> struct scalar_constant_op {
  __host__ __device__ T operator()() const { return T(); }
};
template <typename T> struct SumReducer {};
}  // namespace internal

template <typename Derived> struct TensorBase;

template <typename F, typename L, typename R> struct TensorCwiseBinaryOp : TensorBase<TensorCwiseBinaryOp<F, L, R>> {
  using Scalar = typename L::Scalar;
  F functor;
  __host__ __device__ Scalar coeff() const { return functor(Scalar(), Scalar()); }
};
template <typename F, typename X> struct TensorCwiseUnaryOp : TensorBase<TensorCwiseUnaryOp<F, X>> {
  using Scalar = typename X::Scalar;
  F functor;
  __host__ __device__ Scalar coeff() const { return functor(Scalar()); }
};
template <typename F, typename X> struct TensorCwiseNullaryOp : TensorBase<TensorCwiseNullaryOp<F, X>> {
  using Scalar = typename X::Scalar;
};
template <typename T, typename X> struct TensorConversionOp : TensorBase<TensorConversionOp<T, X>> {
  using Scalar = T;
  __host__ __device__ T coeff() const { return T(); }
};
template <typename Op, typename Dims, typename X> struct TensorReductionOp : TensorBase<TensorReductionOp<Op, Dims, X>> {
  using Scalar = typename X::Scalar;
  __host__ __device__ Scalar coeff() const { return Scalar(); }
};

template <typename Evaluated> __global__ void EigenMetaKernel(Evaluated evaluated) { evaluated.coeff(); }

template <typename X, typename Device> struct TensorDevice {
  template <typename Other> TensorDevice& operator=(const Other& other) {
    EigenMetaKernel<<<1, 1>>>(other);
    return *this;
  }
  template <typename Other> TensorDevice& operator+=(const Other& other) {
    EigenMetaKernel<<<1, 1>>>(other);
    return *this;
  }
};

template <typename Derived> struct TensorBase {
  const Derived& derived() const { return static_cast<const Derived&>(*this); }
  template <typename O> TensorCwiseBinaryOp<internal::scalar_sum_op<typename O::Scalar>, Derived, O> operator+(const O& o) const { return {}; }
  template <typename O> TensorCwiseBinaryOp<internal::scalar_product_op<typename O::Scalar>, Derived, O> operator*(const O& o) const { return {}; }
  template <typename D = Derived> TensorCwiseUnaryOp<internal::scalar_exp_op<typename D::Scalar>, D> exp() const { return {}; }
  template <typename D = Derived> TensorCwiseNullaryOp<internal::scalar_constant_op<typename D::Scalar>, D> constant(typename D::Scalar value) const { return {}; }
  template <typename T> TensorConversionOp<T, Derived> cast() const { return {}; }
  template <typename D = Derived> TensorReductionOp<internal::SumReducer<typename D::Scalar>, int, D> sum(int axis) const { return {}; }
  template <typename F> TensorCwiseUnaryOp<F, Derived> unaryExpr(const F& f) const { return {}; }
};

template <typename T> struct Tensor : TensorBase<Tensor<T>> {
  using Scalar = T;
  T* data;
  template <typename Device> TensorDevice<Tensor<T>, Device> device(const Device& d) { return {}; }
};

}  // namespace Eigen
