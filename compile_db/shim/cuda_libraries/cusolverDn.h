// Stands in where cuSOLVER's headers are missing. Names only.
#pragma once
#include "cusolver_common.h"

typedef struct cusolverDnContext* cusolverDnHandle_t;
typedef struct syevjInfo* syevjInfo_t;
typedef struct gesvdjInfo* gesvdjInfo_t;
typedef struct cusolverDnParams* cusolverDnParams_t;

OPSCANNER_FUNCTION(cusolverStatus_t, cusolverDnCreate)
OPSCANNER_FUNCTION(cusolverStatus_t, cusolverDnDestroy)
OPSCANNER_FUNCTION(cusolverStatus_t, cusolverDnSetStream)
OPSCANNER_FUNCTION(cusolverStatus_t, cusolverDnCreateGesvdjInfo)
OPSCANNER_FUNCTION(cusolverStatus_t, cusolverDnDestroyGesvdjInfo)
