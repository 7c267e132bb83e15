// __half and __nv_bfloat16 as classes with CUDA's conversions. The macros that switch CUDA's operators off hold here too.
#pragma once

#define OPSCANNER_SIXTEEN_BITS(T, T2, RAW)                                                     \
  struct __attribute__((aligned(2))) RAW { unsigned short x; };                                \
  struct __attribute__((aligned(2))) T {                                                       \
    unsigned short __x;                                                                        \
    T() = default;                                                                             \
    OPSCANNER_HD T(const RAW& raw);                                                            \
    OPSCANNER_CONVERSIONS(T)                                                                   \
  };                                                                                           \
  struct __attribute__((aligned(4))) T2 {                                                      \
    T x, y;                                                                                    \
    T2() = default;                                                                            \
    OPSCANNER_HD T2(const T& low, const T& high);                                              \
  };

#ifndef __CUDA_NO_HALF_CONVERSIONS__
#define OPSCANNER_CONVERSIONS(T)      \
  OPSCANNER_HD T(float value);        \
  OPSCANNER_HD T(double value);       \
  OPSCANNER_HD T(int value);          \
  OPSCANNER_HD operator float() const;
#else
#define OPSCANNER_CONVERSIONS(T)        \
  OPSCANNER_HD explicit T(float value); \
  OPSCANNER_HD explicit T(double value);
#endif
OPSCANNER_SIXTEEN_BITS(__half, __half2, __half_raw)
#undef OPSCANNER_CONVERSIONS
#ifndef __CUDA_NO_BFLOAT16_CONVERSIONS__
#define OPSCANNER_CONVERSIONS(T)      \
  OPSCANNER_HD T(float value);        \
  OPSCANNER_HD T(double value);       \
  OPSCANNER_HD T(int value);          \
  OPSCANNER_HD operator float() const;
#else
#define OPSCANNER_CONVERSIONS(T)        \
  OPSCANNER_HD explicit T(float value); \
  OPSCANNER_HD explicit T(double value);
#endif
OPSCANNER_SIXTEEN_BITS(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw)
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

#define OPSCANNER_OPERATORS(T)                                      \
  OPSCANNER_D T operator+(const T& x, const T& y);                  \
  OPSCANNER_D T operator-(const T& x, const T& y);                  \
  OPSCANNER_D T operator*(const T& x, const T& y);                  \
  OPSCANNER_D T operator/(const T& x, const T& y);                  \
  OPSCANNER_D T operator-(const T& x);                              \
  OPSCANNER_D T& operator+=(T& x, const T& y);                      \
  OPSCANNER_D T& operator-=(T& x, const T& y);                      \
  OPSCANNER_D T& operator*=(T& x, const T& y);                      \
  OPSCANNER_D T& operator/=(T& x, const T& y);                      \
  OPSCANNER_D bool operator==(const T& x, const T& y);              \
  OPSCANNER_D bool operator!=(const T& x, const T& y);              \
  OPSCANNER_D bool operator<(const T& x, const T& y);               \
  OPSCANNER_D bool operator<=(const T& x, const T& y);              \
  OPSCANNER_D bool operator>(const T& x, const T& y);               \
  OPSCANNER_D bool operator>=(const T& x, const T& y);
#ifndef __CUDA_NO_HALF_OPERATORS__
OPSCANNER_OPERATORS(__half)
#endif
#ifndef __CUDA_NO_BFLOAT16_OPERATORS__
OPSCANNER_OPERATORS(__nv_bfloat16)
#endif
#ifndef __CUDA_NO_HALF2_OPERATORS__
OPSCANNER_D __half2 operator+(const __half2& x, const __half2& y);
OPSCANNER_D __half2 operator-(const __half2& x, const __half2& y);
OPSCANNER_D __half2 operator*(const __half2& x, const __half2& y);
OPSCANNER_D __half2 operator/(const __half2& x, const __half2& y);
#endif

OPSCANNER_HD float __half2float(__half x);
OPSCANNER_HD __half __float2half(float x);
OPSCANNER_HD __half __float2half_rn(float x);
OPSCANNER_HD __half __float2half_rz(float x);
OPSCANNER_HD __half __double2half(double x);
OPSCANNER_HD __half2 __float2half2_rn(float x);
OPSCANNER_HD __half2 __floats2half2_rn(float x, float y);
OPSCANNER_HD __half2 __float22half2_rn(float2 x);
OPSCANNER_HD float2 __half22float2(__half2 x);
OPSCANNER_HD float __low2float(__half2 x);
OPSCANNER_HD float __high2float(__half2 x);
OPSCANNER_HD __half __low2half(__half2 x);
OPSCANNER_HD __half __high2half(__half2 x);
OPSCANNER_HD __half2 __half2half2(__half x);
OPSCANNER_HD __half2 __halves2half2(__half x, __half y);
OPSCANNER_HD __half __ushort_as_half(unsigned short x);
OPSCANNER_HD unsigned short __half_as_ushort(__half x);
OPSCANNER_HD __half __int2half_rn(int x);
OPSCANNER_HD int __half2int_rn(__half x);
OPSCANNER_HD float __bfloat162float(__nv_bfloat16 x);
OPSCANNER_HD __nv_bfloat16 __float2bfloat16(float x);
OPSCANNER_HD __nv_bfloat16 __float2bfloat16_rn(float x);
OPSCANNER_HD __nv_bfloat16 __double2bfloat16(double x);
OPSCANNER_HD __nv_bfloat162 __floats2bfloat162_rn(float x, float y);
OPSCANNER_HD __nv_bfloat162 __float22bfloat162_rn(float2 x);
OPSCANNER_HD float2 __bfloat1622float2(__nv_bfloat162 x);
OPSCANNER_HD __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x);
OPSCANNER_HD __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y);

#define OPSCANNER_ARITHMETIC(T)               \
  OPSCANNER_D T __hadd(T x, T y);             \
  OPSCANNER_D T __hsub(T x, T y);             \
  OPSCANNER_D T __hmul(T x, T y);             \
  OPSCANNER_D T __hdiv(T x, T y);             \
  OPSCANNER_D T __hfma(T x, T y, T z);        \
  OPSCANNER_D T __hneg(T x);                  \
  OPSCANNER_D T __hmax(T x, T y);             \
  OPSCANNER_D T __hmin(T x, T y);             \
  OPSCANNER_D bool __hlt(T x, T y);           \
  OPSCANNER_D bool __hgt(T x, T y);           \
  OPSCANNER_D bool __heq(T x, T y);           \
  OPSCANNER_D bool __hisnan(T x);             \
  OPSCANNER_D T hexp(T x);                    \
  OPSCANNER_D T hlog(T x);                    \
  OPSCANNER_D T hsqrt(T x);                   \
  OPSCANNER_D T hrsqrt(T x);                  \
  OPSCANNER_D T hrcp(T x);                    \
  OPSCANNER_D T htanh(T x);
OPSCANNER_ARITHMETIC(__half)
OPSCANNER_ARITHMETIC(__nv_bfloat16)
OPSCANNER_D __half2 __hadd2(__half2 x, __half2 y);
OPSCANNER_D __half2 __hmul2(__half2 x, __half2 y);
OPSCANNER_D __half2 __hfma2(__half2 x, __half2 y, __half2 z);
OPSCANNER_D __nv_bfloat162 __hadd2(__nv_bfloat162 x, __nv_bfloat162 y);
OPSCANNER_D __nv_bfloat162 __hmul2(__nv_bfloat162 x, __nv_bfloat162 y);
OPSCANNER_D __nv_bfloat162 __hfma2(__nv_bfloat162 x, __nv_bfloat162 y, __nv_bfloat162 z);
