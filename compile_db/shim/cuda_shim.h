// Stands in for CUDA's headers where there are none: enough for small kernels to parse, in the host and the device pass.
// Included before the source. Declarations only; the numbers of bits and conversions are those of CUDA.
#pragma once
#ifndef OPSCANNER_CUDA_SHIM_H
#define OPSCANNER_CUDA_SHIM_H

#include <stddef.h>
#include <stdlib.h>  // the CUDA wrapper of <new> wants malloc and free

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_CB
#ifndef CUDA_VERSION
#define CUDA_VERSION 12000
#endif
#define CUDART_VERSION CUDA_VERSION
#define OPSCANNER_HD __attribute__((host)) __attribute__((device))
#define OPSCANNER_D __attribute__((device))

// Launches, streams, memory -------------------------------------------------------------------------------------------
struct dim3 {
  unsigned x, y, z;
  OPSCANNER_HD constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 { unsigned x, y, z; };

typedef enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorNotReady = 600 } cudaError_t;
typedef enum cudaMemcpyKind {
  cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault
} cudaMemcpyKind;
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

extern "C" {
cudaError_t cudaConfigureCall(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemset(void* pointer, int value, size_t bytes);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
const char* cudaGetErrorString(cudaError_t error);
}
#ifdef __cplusplus
extern "C" cudaError_t cudaMalloc(void** pointer, size_t bytes);
template <class T> cudaError_t cudaMalloc(T** pointer, size_t bytes) { return cudaMalloc((void**)(void*)pointer, bytes); }
#endif

extern const OPSCANNER_D __attribute__((weak)) uint3 threadIdx, blockIdx;
extern const OPSCANNER_D __attribute__((weak)) dim3 blockDim, gridDim;
extern const OPSCANNER_D __attribute__((weak)) int warpSize;

// Vectors -------------------------------------------------------------------------------------------------------------
#define OPSCANNER_VECTORS(base, name)                                                          \
  struct name##1 { base x; };                                                                  \
  struct __attribute__((aligned(2 * sizeof(base)))) name##2 { base x, y; };                    \
  struct name##3 { base x, y, z; };                                                            \
  struct __attribute__((aligned(sizeof(base) > 4 ? 16 : 4 * sizeof(base)))) name##4 { base x, y, z, w; };
OPSCANNER_VECTORS(signed char, char)
OPSCANNER_VECTORS(unsigned char, uchar)
OPSCANNER_VECTORS(short, short)
OPSCANNER_VECTORS(unsigned short, ushort)
OPSCANNER_VECTORS(int, int)
OPSCANNER_VECTORS(long long, longlong)
OPSCANNER_VECTORS(float, float)
OPSCANNER_VECTORS(double, double)
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
OPSCANNER_HD inline float2 make_float2(float x, float y) { return float2{x, y}; }
OPSCANNER_HD inline float3 make_float3(float x, float y, float z) { return float3{x, y, z}; }
OPSCANNER_HD inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
OPSCANNER_HD inline double2 make_double2(double x, double y) { return double2{x, y}; }
OPSCANNER_HD inline int2 make_int2(int x, int y) { return int2{x, y}; }

// Synchronisation, shuffles, atomics ----------------------------------------------------------------------------------
OPSCANNER_D void __syncthreads();
OPSCANNER_D void __syncwarp(unsigned mask = 0xffffffff);
OPSCANNER_D void __threadfence();
OPSCANNER_D void __threadfence_block();
template <class T> OPSCANNER_D T __shfl_sync(unsigned mask, T value, int lane, int width = 32);
template <class T> OPSCANNER_D T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32);
template <class T> OPSCANNER_D T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32);
template <class T> OPSCANNER_D T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32);
template <class T> OPSCANNER_D T __ldg(const T* address);
OPSCANNER_D unsigned __ballot_sync(unsigned mask, int predicate);
OPSCANNER_D int __any_sync(unsigned mask, int predicate);
OPSCANNER_D int __all_sync(unsigned mask, int predicate);

struct __half;
struct __half2;
struct __nv_bfloat16;
struct __nv_bfloat162;
#define OPSCANNER_ATOMICS(T) OPSCANNER_D T atomicAdd(T* address, T value); OPSCANNER_D T atomicExch(T* address, T value);
OPSCANNER_ATOMICS(int)
OPSCANNER_ATOMICS(unsigned)
OPSCANNER_ATOMICS(unsigned long long)
OPSCANNER_ATOMICS(float)
OPSCANNER_D double atomicAdd(double* address, double value);
OPSCANNER_D __half atomicAdd(__half* address, __half value);
OPSCANNER_D __half2 atomicAdd(__half2* address, __half2 value);
OPSCANNER_D __nv_bfloat16 atomicAdd(__nv_bfloat16* address, __nv_bfloat16 value);
OPSCANNER_D __nv_bfloat162 atomicAdd(__nv_bfloat162* address, __nv_bfloat162 value);
#define OPSCANNER_INTEGER_ATOMICS(T)                 \
  OPSCANNER_D T atomicMax(T* address, T value);      \
  OPSCANNER_D T atomicMin(T* address, T value);      \
  OPSCANNER_D T atomicAnd(T* address, T value);      \
  OPSCANNER_D T atomicOr(T* address, T value);       \
  OPSCANNER_D T atomicCAS(T* address, T compare, T value);
OPSCANNER_INTEGER_ATOMICS(int)
OPSCANNER_INTEGER_ATOMICS(unsigned)
OPSCANNER_INTEGER_ATOMICS(unsigned long long)

// Reinterpretation and conversion between built-in types --------------------------------------------------------------
OPSCANNER_D float __int_as_float(int x);
OPSCANNER_D int __float_as_int(float x);
OPSCANNER_D float __uint_as_float(unsigned x);
OPSCANNER_D unsigned __float_as_uint(float x);
OPSCANNER_D double __longlong_as_double(long long x);
OPSCANNER_D long long __double_as_longlong(double x);
OPSCANNER_D float __int2float_rn(int x);
OPSCANNER_D float __uint2float_rn(unsigned x);
OPSCANNER_D int __float2int_rn(float x);
OPSCANNER_D int __float2int_rz(float x);
OPSCANNER_D float __double2float_rn(double x);
OPSCANNER_D float __fdividef(float x, float y);
OPSCANNER_D float __expf(float x);
OPSCANNER_D float __logf(float x);
OPSCANNER_D float __powf(float x, float y);
OPSCANNER_D float __frcp_rn(float x);
OPSCANNER_D float __fsqrt_rn(float x);
OPSCANNER_D float __fmaf_rn(float x, float y, float z);
OPSCANNER_D float __saturatef(float x);

// Mathematics: device overloads beside the C library's host functions -------------------------------------------------
#define OPSCANNER_MATH1(name) OPSCANNER_D float name##f(float x); OPSCANNER_D double name(double x); OPSCANNER_D float name(float x);
OPSCANNER_MATH1(exp)
OPSCANNER_MATH1(exp2)
OPSCANNER_MATH1(expm1)
OPSCANNER_MATH1(log)
OPSCANNER_MATH1(log2)
OPSCANNER_MATH1(log10)
OPSCANNER_MATH1(log1p)
OPSCANNER_MATH1(sqrt)
OPSCANNER_MATH1(cbrt)
OPSCANNER_MATH1(sin)
OPSCANNER_MATH1(cos)
OPSCANNER_MATH1(tan)
OPSCANNER_MATH1(asin)
OPSCANNER_MATH1(acos)
OPSCANNER_MATH1(atan)
OPSCANNER_MATH1(sinh)
OPSCANNER_MATH1(cosh)
OPSCANNER_MATH1(tanh)
OPSCANNER_MATH1(erf)
OPSCANNER_MATH1(erfc)
OPSCANNER_MATH1(lgamma)
OPSCANNER_MATH1(tgamma)
OPSCANNER_MATH1(floor)
OPSCANNER_MATH1(ceil)
OPSCANNER_MATH1(round)
OPSCANNER_MATH1(trunc)
OPSCANNER_MATH1(rint)
OPSCANNER_MATH1(fabs)
OPSCANNER_D float rsqrtf(float x);
OPSCANNER_D double rsqrt(double x);
OPSCANNER_D float rsqrt(float x);
#define OPSCANNER_MATH2(name)                  \
  OPSCANNER_D float name##f(float x, float y); \
  OPSCANNER_D double name(double x, double y); \
  OPSCANNER_D float name(float x, float y);
OPSCANNER_MATH2(pow)
OPSCANNER_MATH2(fmod)
OPSCANNER_MATH2(atan2)
OPSCANNER_MATH2(fmax)
OPSCANNER_MATH2(fmin)
OPSCANNER_MATH2(hypot)
OPSCANNER_MATH2(copysign)
OPSCANNER_D float fmaf(float x, float y, float z);
OPSCANNER_D double fma(double x, double y, double z);
OPSCANNER_D float fma(float x, float y, float z);
#define OPSCANNER_MIN_MAX(T) OPSCANNER_HD inline T min(T x, T y) { return y < x ? y : x; } OPSCANNER_HD inline T max(T x, T y) { return x < y ? y : x; }
OPSCANNER_MIN_MAX(int)
OPSCANNER_MIN_MAX(unsigned)
OPSCANNER_MIN_MAX(long)
OPSCANNER_MIN_MAX(unsigned long)
OPSCANNER_MIN_MAX(long long)
OPSCANNER_MIN_MAX(unsigned long long)
OPSCANNER_MIN_MAX(float)
OPSCANNER_MIN_MAX(double)
OPSCANNER_D inline int abs(int x) { return x < 0 ? -x : x; }
OPSCANNER_D inline float abs(float x) { return x < 0 ? -x : x; }
OPSCANNER_D inline double abs(double x) { return x < 0 ? -x : x; }
OPSCANNER_D bool isnan(float x);
OPSCANNER_D bool isnan(double x);
OPSCANNER_D bool isinf(float x);
OPSCANNER_D bool isinf(double x);

#include "no_cuda/opscanner_half.h"
#endif
