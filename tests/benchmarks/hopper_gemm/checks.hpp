// Random matrices on the device, and whether a product of them is right, found there too: on the host, the large ones
// would take minutes.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "contenders.hpp"

namespace stagecraft {

/// Standard normal values, rounded to the type.
void fill_normal(OperandType type, void* values, int64_t size, uint64_t seed);

/// What a comparison found.
struct Mismatch {
  int64_t compared = 0;  ///< elements
  int64_t wrong = 0;     ///< further off than allowed; NaN counts
  float worst = 0;       ///< the largest error, divided by what is allowed there
};

/// Compares C with dot products in double: all elements, or about `most` of them where there are more.
Mismatch compare_with_double(const MatrixProduct& product, int64_t most);

/// Compares all of C with another product of the same matrices, rounded to bf16 too.
Mismatch compare_with_product(const MatrixProduct& product, const __nv_bfloat16* other);

}  // namespace stagecraft
