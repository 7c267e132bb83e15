// scale.cu
#include <cuda_fp16.h>

__global__ void scale(const __half* x, __half* y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float value = __half2float(x[i]);
    y[i] = __float2half(value * factor * 0.5);
  }
}
