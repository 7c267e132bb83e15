// Stands in where cuFFT's headers are missing. Names only: the values are not NVIDIA's.
#pragma once
#include <cuda_runtime_api.h>
#include <cuComplex.h>
#include "opscanner_stand_in.h"

#define CUFFT_VERSION 11200
#define CUFFT_FORWARD -1
#define CUFFT_INVERSE 1

typedef int cufftHandle;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
typedef enum {
  CUFFT_SUCCESS, CUFFT_INVALID_PLAN, CUFFT_ALLOC_FAILED, CUFFT_INVALID_TYPE, CUFFT_INVALID_VALUE,
  CUFFT_INTERNAL_ERROR, CUFFT_EXEC_FAILED, CUFFT_SETUP_FAILED, CUFFT_INVALID_SIZE, CUFFT_UNALIGNED_DATA,
  CUFFT_INCOMPLETE_PARAMETER_LIST, CUFFT_INVALID_DEVICE, CUFFT_PARSE_ERROR, CUFFT_NO_WORKSPACE,
  CUFFT_NOT_IMPLEMENTED, CUFFT_LICENSE_ERROR, CUFFT_NOT_SUPPORTED
} cufftResult;
typedef enum { CUFFT_R2C = 42, CUFFT_C2R, CUFFT_C2C, CUFFT_D2Z, CUFFT_Z2D, CUFFT_Z2Z } cufftType;

OPSCANNER_FUNCTION(cufftResult, cufftCreate)
OPSCANNER_FUNCTION(cufftResult, cufftDestroy)
OPSCANNER_FUNCTION(cufftResult, cufftPlan1d)
OPSCANNER_FUNCTION(cufftResult, cufftPlanMany)
OPSCANNER_FUNCTION(cufftResult, cufftMakePlanMany)
OPSCANNER_FUNCTION(cufftResult, cufftMakePlanMany64)
OPSCANNER_FUNCTION(cufftResult, cufftSetAutoAllocation)
OPSCANNER_FUNCTION(cufftResult, cufftSetStream)
OPSCANNER_FUNCTION(cufftResult, cufftSetWorkArea)
OPSCANNER_FUNCTION(cufftResult, cufftExecR2C)
OPSCANNER_FUNCTION(cufftResult, cufftExecC2R)
OPSCANNER_FUNCTION(cufftResult, cufftExecC2C)
OPSCANNER_FUNCTION(cufftResult, cufftExecD2Z)
OPSCANNER_FUNCTION(cufftResult, cufftExecZ2D)
OPSCANNER_FUNCTION(cufftResult, cufftExecZ2Z)
