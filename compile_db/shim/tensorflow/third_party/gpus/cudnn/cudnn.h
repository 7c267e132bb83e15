// Stands in where cuDNN's headers are missing. TensorFlow's kernels reach cuDNN through StreamExecutor: they only ask
// for the version.
#pragma once
#include <cuda_runtime_api.h>

#define CUDNN_MAJOR 8
#define CUDNN_MINOR 9
#define CUDNN_PATCHLEVEL 0
#define CUDNN_VERSION (CUDNN_MAJOR * 1000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)

typedef struct cudnnContext* cudnnHandle_t;
