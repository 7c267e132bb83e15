// Stands in where cuFFT's headers are missing. Names only.
#pragma once
#include "cufft.h"

OPSCANNER_FUNCTION(cufftResult, cufftXtMakePlanMany)
OPSCANNER_FUNCTION(cufftResult, cufftXtExec)
