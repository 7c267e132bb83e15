// Stands in where LLVM's headers are missing.
#pragma once
#include <cstddef>
#include <vector>
#include "llvm/ADT/SmallVector.h"

namespace llvm {
template <class T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T* data, size_t size);
  ArrayRef(const std::vector<T>& items);
  const T* begin() const;
  const T* end() const;
  const T* data() const;
  size_t size() const;
  bool empty() const;
  const T& operator[](size_t index) const;
};
}  // namespace llvm
