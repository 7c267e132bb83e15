// Stands in for the table of direction numbers that Bazel fetches: integers. The sizes are not the real ones.
#pragma once

namespace sobol_data {
constexpr int kMaxSobolDim = 1111;
constexpr int kMaxSobolDegree = 13;
extern const int kPolynomialCoefficients[kMaxSobolDim];
extern const int kDirectionNumbers[kMaxSobolDim][kMaxSobolDegree];
}  // namespace sobol_data
