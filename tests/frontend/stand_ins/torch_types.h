// Every float type of c10, for the snippets: included before each of them.
#pragma once
#include "c10/util/BFloat16.h"
#include "c10/util/Float8_e4m3fn.h"
#include "c10/util/Float8_e4m3fnuz.h"
#include "c10/util/Float8_e5m2.h"
#include "c10/util/Float8_e5m2fnuz.h"
#include "c10/util/Half.h"
#include "c10/util/complex.h"
