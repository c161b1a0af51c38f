// The kernel's configurations, and which of them suits a product.
#pragma once

#include <cstdint>

#include "contenders.hpp"

namespace stagecraft {

/// A configuration of the kernel.
enum class TwinKind {
  standard,    ///< tiles of 128 x 256, pairs of blocks share a tile of B
  large,       ///< tiles of 256 x 192, which move fewer bytes for each sum
  thin,        ///< tiles of 128 x 128, cut along K where there are few: for products that are small or have few rows
  by_threads,  ///< as standard, but the threads store C: for rows that do not start on 16-byte boundaries
};

/// The configuration that is expected to be the fastest.
///
/// It counts how much of C a multiprocessor computes at most, rounds of tiles times the area of a tile. Where large
/// tiles do not need more than standard ones they are better by one to three per cent, because the chip's clock is
/// bound by its power and they use less of it.
/// @param multiprocessors  of the device.
TwinKind choose_twin(int64_t m, int64_t n, int64_t k, int multiprocessors);

/// Prepares a product by this configuration, on the current device.
/// @throws TensorMapError for sizes that the copy engine cannot take: rows of A and B, and of C unless the threads store
///         it, must be multiples of 16 bytes.
Launch prepare_twin(TwinKind kind, const MatrixProduct& product);

}  // namespace stagecraft
