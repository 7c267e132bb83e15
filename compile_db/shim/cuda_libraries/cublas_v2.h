// Stands in where cuBLAS's headers are missing. Names only: the values are not NVIDIA's.
#pragma once
#include <cuda_runtime_api.h>
#include <cuComplex.h>
#include "opscanner_stand_in.h"

#define CUBLAS_VERSION 120400
#define CUBLAS_VER_MAJOR 12
#define CUBLAS_VER_MINOR 4
#define CUBLASAPI
#define CUBLASWINAPI

typedef struct cublasContext* cublasHandle_t;
typedef enum {
  CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_INVALID_VALUE,
  CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_MAPPING_ERROR, CUBLAS_STATUS_EXECUTION_FAILED,
  CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_LICENSE_ERROR
} cublasStatus_t;
typedef enum { CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER, CUBLAS_FILL_MODE_FULL } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT } cublasSideMode_t;
typedef enum { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C, CUBLAS_OP_CONJG } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED, CUBLAS_ATOMICS_ALLOWED } cublasAtomicsMode_t;
typedef enum {
  CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32I = 72
} cublasComputeType_t;
typedef cudaDataType cublasDataType_t;

OPSCANNER_FUNCTION(cublasStatus_t, cublasCreate)
OPSCANNER_FUNCTION(cublasStatus_t, cublasDestroy)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSetStream)
OPSCANNER_FUNCTION(cublasStatus_t, cublasGetStream)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSetWorkspace)
OPSCANNER_FUNCTION(cublasStatus_t, cublasGetMathMode)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSetMathMode)
OPSCANNER_FUNCTION(cublasStatus_t, cublasGetPointerMode)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSetPointerMode)
OPSCANNER_FUNCTION(cublasStatus_t, cublasGemmEx)
OPSCANNER_FUNCTION(cublasStatus_t, cublasGemmBatchedEx)
OPSCANNER_FUNCTION(cublasStatus_t, cublasGemmStridedBatchedEx)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSgemmEx)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSgemm)
OPSCANNER_FUNCTION(cublasStatus_t, cublasDgemm)
OPSCANNER_FUNCTION(cublasStatus_t, cublasHgemm)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSgemv)
OPSCANNER_FUNCTION(cublasStatus_t, cublasDgemv)
OPSCANNER_FUNCTION(cublasStatus_t, cublasSgemmStridedBatched)
OPSCANNER_FUNCTION(cublasStatus_t, cublasDgemmStridedBatched)
OPSCANNER_FUNCTION(cublasStatus_t, cublasHgemmStridedBatched)
OPSCANNER_FUNCTION(const char*, cublasGetStatusName)
OPSCANNER_FUNCTION(const char*, cublasGetStatusString)
