// Stands in for c10/util/BFloat16.h and BFloat16-inl.h.
#pragma once
#include "c10/util/stand_in.h"
C10_SIXTEEN_BIT(BFloat16)
