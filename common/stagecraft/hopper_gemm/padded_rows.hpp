// Rows that TMA can address, for matrices whose own it cannot.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "harness/device_buffer.hpp"
#include "stagecraft/hopper_gemm/product.hpp"

namespace stagecraft {

/// Copies of A and B whose rows start on boundaries of 128 bytes, with zeros behind each: they add nothing to a
/// product.
///
/// TMA takes rows on boundaries of 16 bytes only, so K must be a multiple of eight bf16 or 16 e4m3. For
/// others, each product begins with these copies.
class PaddedRows {
 public:
  /// Allocates the copies, or takes those of another preparation of the same product, which then must be started on the
  /// same stream.
  explicit PaddedRows(const MatrixProduct& product);

  /// Whether a product needs them.
  static bool are_needed(const MatrixProduct& product);

  /// The same product of the copies, which hold anything until `copy` has run.
  MatrixProduct product() const;
  /// Starts the copies. Throws CudaError when that fails.
  void copy(cudaStream_t stream) const;

 private:
  MatrixProduct product_;
  int64_t pitch_;                                               // elements from one row to the next
  std::shared_ptr<harness::DeviceBuffer<unsigned char>> rows_;  // those of A, then those of B
};

}  // namespace stagecraft
