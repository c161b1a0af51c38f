// Memory pools, from which cudaMallocAsync takes memory, and their figures.
//
// Freed memory is returned to the device at once, whatever the pool keeps; the figures are those that a pool would
// show.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "emulator/runtime/model/errors.hpp"

namespace stagecraft::emulator::runtime {

struct MemoryPool {
  uint64_t release_threshold = 0;  ///< bytes that it keeps
  uint64_t used = 0, used_high = 0;
  uint64_t reserved = 0, reserved_high = 0;
  uint64_t most = 0;  ///< bytes that it can grow to; 0 for all of the device
  int reuse_follow_events = 1, reuse_opportunistic = 1, reuse_internal_dependencies = 1;
};

/// Owner of all pools. Every function that throws throws ApiError (cudaErrorInvalidValue).
class MemoryPools {
 public:
  MemoryPool& create(uint64_t most);
  MemoryPool& require(cudaMemPool_t pool);
  /// Throws for the device's default pool.
  void destroy(cudaMemPool_t pool);
  MemoryPool& of_device() { return default_; }
  MemoryPool& current() { return *current_; }
  void make_current(MemoryPool& pool) { current_ = &pool; }

  /// Counts an allocation. Throws (cudaErrorMemoryAllocation), and counts nothing, when the pool is full.
  void check_room(const MemoryPool& pool, uint64_t bytes) const;
  void allocated(MemoryPool& pool, uint64_t address, uint64_t bytes);
  void freed(uint64_t address);
  void trim(MemoryPool& pool, uint64_t keep);

  void reset();

 private:
  struct Piece {
    MemoryPool* pool = nullptr;
    uint64_t bytes = 0;
  };
  MemoryPool default_;
  MemoryPool* current_ = &default_;
  std::unordered_map<const MemoryPool*, std::unique_ptr<MemoryPool>> pools_;
  std::unordered_map<uint64_t, Piece> pieces_;  ///< by address
};

}  // namespace stagecraft::emulator::runtime
