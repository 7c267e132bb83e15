// Stands in for FarmHash on the GPU, which Bazel fetches: a hash of bytes, without floating point.
#pragma once
#include <cstddef>
#include <cstdint>

namespace util_gpu {
__device__ uint64_t Fingerprint64(const char* bytes, size_t length);
}  // namespace util_gpu
