// Stands in where LLVM's headers are missing: what TensorFlow's MLIR-generated kernels hold their arguments in.
#pragma once
#include <vector>

namespace llvm {
template <class T>
class SmallVectorImpl : public std::vector<T> {
 public:
  using std::vector<T>::vector;
};
template <class T, unsigned N = 4>
class SmallVector : public SmallVectorImpl<T> {
 public:
  using SmallVectorImpl<T>::SmallVectorImpl;
};
}  // namespace llvm
