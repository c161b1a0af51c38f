#include "emulator/runtime/model/memory_pools.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagecraft::emulator::runtime {
namespace {

/// A pool grows by multiples of this.
constexpr uint64_t kGrowth = 32ull << 20;

uint64_t grown(uint64_t bytes) { return (bytes + kGrowth - 1) / kGrowth * kGrowth; }

}  // namespace

MemoryPool& MemoryPools::create(uint64_t most) {
  auto made = std::make_unique<MemoryPool>();
  made->most = most;
  const MemoryPool* key = made.get();
  return *pools_.emplace(key, std::move(made)).first->second;
}

MemoryPool& MemoryPools::require(cudaMemPool_t pool) {
  auto* found = reinterpret_cast<MemoryPool*>(pool);
  if (found != &default_ && !pools_.contains(found)) {
    throw ApiError(cudaErrorInvalidValue,
                   fmt::format("{} is no memory pool: it was never created, or is already destroyed", fmt::ptr(pool)));
  }
  return *found;
}

void MemoryPools::destroy(cudaMemPool_t pool) {
  MemoryPool& found = require(pool);
  if (&found == &default_) throw ApiError(cudaErrorInvalidValue, "the device's default pool cannot be destroyed");
  if (current_ == &found) current_ = &default_;
  std::erase_if(pieces_, [&](const auto& piece) { return piece.second.pool == &found; });
  pools_.erase(&found);
}

void MemoryPools::check_room(const MemoryPool& pool, uint64_t bytes) const {
  if (pool.most != 0 && bytes > pool.most - std::min(pool.used, pool.most)) {
    throw ApiError(cudaErrorMemoryAllocation, fmt::format("{} bytes do not fit in the pool: {} of its {} are in use",
                                                          bytes, pool.used, pool.most));
  }
}

void MemoryPools::allocated(MemoryPool& pool, uint64_t address, uint64_t bytes) {
  pieces_[address] = {&pool, bytes};
  pool.used += bytes;
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved = std::max(pool.reserved, grown(pool.used));
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
}

void MemoryPools::freed(uint64_t address) {
  const auto found = pieces_.find(address);
  if (found == pieces_.end()) return;
  MemoryPool& pool = *found->second.pool;
  pool.used -= found->second.bytes;
  pieces_.erase(found);
  if (pool.reserved > pool.release_threshold) trim(pool, pool.release_threshold);
}

void MemoryPools::trim(MemoryPool& pool, uint64_t keep) {
  pool.reserved = std::min(pool.reserved, std::max(grown(pool.used), grown(keep)));
}

void MemoryPools::reset() {
  pools_.clear();
  pieces_.clear();
  default_ = {};
  current_ = &default_;
}

}  // namespace stagecraft::emulator::runtime
