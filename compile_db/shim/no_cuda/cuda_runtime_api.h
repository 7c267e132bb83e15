// Stands in where there is no CUDA; what it declares stands in cuda_shim.h, included before every source.
#pragma once
#ifdef __CUDA__
#include "../cuda_shim.h"
#endif
