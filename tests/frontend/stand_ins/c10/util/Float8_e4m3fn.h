// Stands in for c10/util/Float8_e4m3fn.h.
#pragma once
#include "c10/util/stand_in.h"
C10_EIGHT_BIT(Float8_e4m3fn)
