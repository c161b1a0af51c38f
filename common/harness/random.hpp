// Random numbers that are the same on every machine: the standard library's distributions are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace stagecraft::harness {

/// SplitMix64: 2^64 values, any seed is good. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014.
class Random {
 public:
  /// The same seed gives the same numbers, everywhere.
  explicit Random(uint64_t seed) : state_(seed) {}

  /// 64 random bits.
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  /// Uniform in [-1, 1), a multiple of 2^-23.
  float uniform() { return static_cast<float>(static_cast<int64_t>(bits() >> 40) - (1 << 23)) * 0x1p-23f; }

 private:
  uint64_t state_;
};

/// A seed that differs in each run of the program, and stays the same in it: a test that fails prints it.
inline uint64_t fresh_seed() {
  static const uint64_t seed = std::random_device{}();
  return seed;
}

/// `size` values uniform in [-1, 1), rounded to T.
template <typename T>
std::vector<T> random_values(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<T> values(size);
  for (T& value : values) value = T(random.uniform());
  return values;
}

}  // namespace stagecraft::harness
