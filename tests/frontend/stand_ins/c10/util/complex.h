// Stands in for c10/util/complex.h.
#pragma once
#include "c10/util/Half.h"

namespace c10 {
template <typename T>
struct alignas(sizeof(T) * 2) complex {
  using value_type = T;
  T real_ = T(0);
  T imag_ = T(0);
  constexpr complex() = default;
  C10_HD constexpr complex(const T& re, const T& im = T()) : real_(re), imag_(im) {}
  template <typename U>
  C10_HD explicit constexpr complex(const complex<U>& other) : complex(other.real(), other.imag()) {}
  C10_HD constexpr T real() const { return real_; }
  C10_HD constexpr T imag() const { return imag_; }
  C10_HD complex& operator+=(const complex& other) {
    real_ += other.real_;
    imag_ += other.imag_;
    return *this;
  }
};
template <typename T>
C10_HD constexpr complex<T> operator+(const complex<T>& a, const complex<T>& b) {
  return complex<T>(a.real() + b.real(), a.imag() + b.imag());
}
template <typename T>
C10_HD constexpr complex<T> operator*(const complex<T>& a, const complex<T>& b) {
  return complex<T>(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
}
}  // namespace c10
