// Stands in where NCCL's headers are missing. Names only: the values are not NVIDIA's.
#pragma once
#include <cuda_runtime_api.h>
#include "opscanner_stand_in.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 16
#define NCCL_VERSION_CODE 21605
#define NCCL_UNIQUE_ID_BYTES 128

typedef struct ncclComm* ncclComm_t;
typedef struct { char internal[NCCL_UNIQUE_ID_BYTES]; } ncclUniqueId;
typedef enum { ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError } ncclResult_t;
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg } ncclRedOp_t;
typedef enum {
  ncclInt8, ncclChar = 0, ncclUint8, ncclInt32, ncclInt = 2, ncclUint32, ncclInt64, ncclUint64, ncclFloat16,
  ncclHalf = 6, ncclFloat32, ncclFloat = 7, ncclFloat64, ncclDouble = 8, ncclBfloat16
} ncclDataType_t;

OPSCANNER_FUNCTION(const char*, ncclGetErrorString)
OPSCANNER_FUNCTION(ncclResult_t, ncclGetUniqueId)
OPSCANNER_FUNCTION(ncclResult_t, ncclCommInitAll)
OPSCANNER_FUNCTION(ncclResult_t, ncclCommInitRank)
OPSCANNER_FUNCTION(ncclResult_t, ncclCommDestroy)
OPSCANNER_FUNCTION(ncclResult_t, ncclCommAbort)
OPSCANNER_FUNCTION(ncclResult_t, ncclCommGetAsyncError)
OPSCANNER_FUNCTION(ncclResult_t, ncclGroupStart)
OPSCANNER_FUNCTION(ncclResult_t, ncclGroupEnd)
OPSCANNER_FUNCTION(ncclResult_t, ncclAllReduce)
OPSCANNER_FUNCTION(ncclResult_t, ncclAllGather)
OPSCANNER_FUNCTION(ncclResult_t, ncclReduceScatter)
OPSCANNER_FUNCTION(ncclResult_t, ncclBroadcast)
OPSCANNER_FUNCTION(ncclResult_t, ncclReduce)
OPSCANNER_FUNCTION(ncclResult_t, ncclSend)
OPSCANNER_FUNCTION(ncclResult_t, ncclRecv)
