// Stands in for c10/util/Half.h: the same names, conversions and operators (Half-inl.h), few lines.
#pragma once
#include "c10/util/stand_in.h"
C10_SIXTEEN_BIT(Half)
