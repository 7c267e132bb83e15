// Stands in where cuSPARSE's headers are missing. Names only: the values are not NVIDIA's.
#pragma once
#include <cuda_runtime_api.h>
#include <cuComplex.h>
#include "opscanner_stand_in.h"

#define CUSPARSE_VERSION 12300
#define CUSPARSE_VER_MAJOR 12
#define CUSPARSE_VER_MINOR 3
#define CUSPARSE_VER_PATCH 0
#define CUSPARSEAPI

typedef struct cusparseContext* cusparseHandle_t;
typedef struct cusparseMatDescr* cusparseMatDescr_t;
typedef struct bsrsv2Info* bsrsv2Info_t;
typedef struct bsrsm2Info* bsrsm2Info_t;
typedef struct csrgemm2Info* csrgemm2Info_t;
typedef struct csru2csrInfo* csru2csrInfo_t;
typedef struct cusparseSpVecDescr* cusparseSpVecDescr_t;
typedef struct cusparseDnVecDescr* cusparseDnVecDescr_t;
typedef struct cusparseSpMatDescr* cusparseSpMatDescr_t;
typedef struct cusparseDnMatDescr* cusparseDnMatDescr_t;
typedef struct cusparseSpMatDescr const* cusparseConstSpMatDescr_t;
typedef struct cusparseDnMatDescr const* cusparseConstDnMatDescr_t;
typedef struct cusparseDnVecDescr const* cusparseConstDnVecDescr_t;
typedef struct cusparseSpGEMMDescr* cusparseSpGEMMDescr_t;
typedef struct cusparseSpSVDescr* cusparseSpSVDescr_t;
typedef struct cusparseSpSMDescr* cusparseSpSMDescr_t;
typedef enum {
  CUSPARSE_STATUS_SUCCESS, CUSPARSE_STATUS_NOT_INITIALIZED, CUSPARSE_STATUS_ALLOC_FAILED,
  CUSPARSE_STATUS_INVALID_VALUE, CUSPARSE_STATUS_ARCH_MISMATCH, CUSPARSE_STATUS_MAPPING_ERROR,
  CUSPARSE_STATUS_EXECUTION_FAILED, CUSPARSE_STATUS_INTERNAL_ERROR, CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED,
  CUSPARSE_STATUS_ZERO_PIVOT, CUSPARSE_STATUS_NOT_SUPPORTED, CUSPARSE_STATUS_INSUFFICIENT_RESOURCES
} cusparseStatus_t;
typedef enum { CUSPARSE_POINTER_MODE_HOST, CUSPARSE_POINTER_MODE_DEVICE } cusparsePointerMode_t;
typedef enum {
  CUSPARSE_MATRIX_TYPE_GENERAL, CUSPARSE_MATRIX_TYPE_SYMMETRIC, CUSPARSE_MATRIX_TYPE_HERMITIAN,
  CUSPARSE_MATRIX_TYPE_TRIANGULAR
} cusparseMatrixType_t;
typedef enum { CUSPARSE_FILL_MODE_LOWER, CUSPARSE_FILL_MODE_UPPER } cusparseFillMode_t;
typedef enum { CUSPARSE_DIAG_TYPE_NON_UNIT, CUSPARSE_DIAG_TYPE_UNIT } cusparseDiagType_t;
typedef enum { CUSPARSE_INDEX_BASE_ZERO, CUSPARSE_INDEX_BASE_ONE } cusparseIndexBase_t;
typedef enum {
  CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_TRANSPOSE, CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE
} cusparseOperation_t;
typedef enum { CUSPARSE_ACTION_SYMBOLIC, CUSPARSE_ACTION_NUMERIC } cusparseAction_t;
typedef enum { CUSPARSE_CSR2CSC_ALG_DEFAULT = 1, CUSPARSE_CSR2CSC_ALG1 = 1, CUSPARSE_CSR2CSC_ALG2 } cusparseCsr2CscAlg_t;
typedef enum { CUSPARSE_DIRECTION_ROW, CUSPARSE_DIRECTION_COLUMN } cusparseDirection_t;
typedef enum { CUSPARSE_SOLVE_POLICY_NO_LEVEL, CUSPARSE_SOLVE_POLICY_USE_LEVEL } cusparseSolvePolicy_t;
typedef enum { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3 } cusparseIndexType_t;
typedef enum { CUSPARSE_ORDER_COL = 1, CUSPARSE_ORDER_ROW = 2 } cusparseOrder_t;
typedef enum { CUSPARSE_SPMAT_FILL_MODE, CUSPARSE_SPMAT_DIAG_TYPE } cusparseSpMatAttribute_t;
typedef enum { CUSPARSE_SPMV_ALG_DEFAULT, CUSPARSE_SPMV_COO_ALG1, CUSPARSE_SPMV_CSR_ALG1, CUSPARSE_SPMV_CSR_ALG2 } cusparseSpMVAlg_t;
typedef enum {
  CUSPARSE_SPMM_ALG_DEFAULT, CUSPARSE_SPMM_COO_ALG1, CUSPARSE_SPMM_COO_ALG2, CUSPARSE_SPMM_COO_ALG3,
  CUSPARSE_SPMM_COO_ALG4, CUSPARSE_SPMM_CSR_ALG1, CUSPARSE_SPMM_CSR_ALG2, CUSPARSE_SPMM_CSR_ALG3
} cusparseSpMMAlg_t;
typedef enum { CUSPARSE_SPGEMM_DEFAULT, CUSPARSE_SPGEMM_CSR_ALG_DETERMINITIC, CUSPARSE_SPGEMM_ALG1 } cusparseSpGEMMAlg_t;
typedef enum { CUSPARSE_SPSV_ALG_DEFAULT } cusparseSpSVAlg_t;
typedef enum { CUSPARSE_SPSM_ALG_DEFAULT } cusparseSpSMAlg_t;
typedef enum { CUSPARSE_SDDMM_ALG_DEFAULT } cusparseSDDMMAlg_t;

OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreate)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDestroy)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSetStream)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSetPointerMode)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcoo2csr)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcsr2coo)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcoosort_bufferSizeExt)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcoosortByRow)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcsrsort)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcsrsort_bufferSizeExt)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateIdentityPermutation)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateMatDescr)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDestroyMatDescr)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSetMatType)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSetMatIndexBase)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSetMatFillMode)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSetMatDiagType)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateBsrsv2Info)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDestroyBsrsv2Info)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateBsrsm2Info)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDestroyBsrsm2Info)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateCsrgemm2Info)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDestroyCsrgemm2Info)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateCsr)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateConstCsr)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateCsru2csrInfo)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDestroyCsru2csrInfo)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCsr2cscEx2)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCsr2cscEx2_bufferSize)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateCoo)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateDnMat)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCreateDnVec)
inline cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSpGEMM_destroyDescr(cusparseSpGEMMDescr_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSpGEMM_createDescr(cusparseSpGEMMDescr_t*) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t*) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSpSM_destroyDescr(cusparseSpSMDescr_t) { return CUSPARSE_STATUS_SUCCESS; }
inline cusparseStatus_t cusparseSpSM_createDescr(cusparseSpSMDescr_t*) { return CUSPARSE_STATUS_SUCCESS; }
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseCsrSetPointers)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpMatGetSize)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpMatSetAttribute)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpMM)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpMM_bufferSize)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpMV)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpMV_bufferSize)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSDDMM)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSDDMM_bufferSize)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpGEMM_workEstimation)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpGEMM_compute)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpGEMM_copy)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpSV_bufferSize)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpSV_analysis)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpSV_solve)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpSM_bufferSize)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpSM_analysis)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseSpSM_solve)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcsrgeam2Nnz)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseXcsrgemm2Nnz)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseScsrgemm2_bufferSizeExt)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDcsrgemm2_bufferSizeExt)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseScsrgemm2)
OPSCANNER_FUNCTION(cusparseStatus_t, cusparseDcsrgemm2)
OPSCANNER_FUNCTION(const char*, cusparseGetErrorString)
