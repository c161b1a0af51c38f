// Which configuration a product gets: what was measured for it, or else what is expected to be the fastest.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>

#include "harness/cuda_error.hpp"
#include "twin.hpp"

namespace stagecraft {

namespace {

/// A line of the table.
struct Tuned {
  std::string_view device;
  OperandType type;
  int64_t m, n, k;
  TwinChoice choice;
};
constexpr Tuned kTuned[] = {
#include "tuned.inc"
};

/// Bytes of a row of A or B.
int64_t k_bytes(const MatrixProduct& p) { return p.k * (p.type == OperandType::e4m3 ? 1 : 2); }

}  // namespace

std::optional<TwinChoice> find_tuned(std::string_view device, OperandType type, int64_t m, int64_t n, int64_t k) {
  const auto found = std::find_if(std::begin(kTuned), std::end(kTuned), [&](const Tuned& line) {
    return line.device == device && line.type == type && line.m == m && line.n == n && line.k == k;
  });
  return found == std::end(kTuned) ? std::nullopt : std::optional(found->choice);
}

TwinChoice choose_twin(const MatrixProduct& p) {
  cudaDeviceProp device;
  harness::check(cudaGetDeviceProperties(&device, 0), "ask the device for its properties");
  if (const auto tuned = find_tuned(device.name, p.type, p.m, p.n, p.k)) return *tuned;
  return {.kind = choose_twin(p.m, p.n, k_bytes(p) / 128, device.multiProcessorCount)};
}

bool takes(TwinKind kind, const MatrixProduct& p) {
  return k_bytes(p) % 16 == 0 && (p.n % 8 == 0 || kind == TwinKind::by_threads);
}

const char* name_of(TwinKind kind) {
  switch (kind) {
    case TwinKind::standard: return "standard";
    case TwinKind::halved: return "halved";
    case TwinKind::large: return "large";
    case TwinKind::thin: return "thin";
    case TwinKind::flat: return "flat";
    case TwinKind::by_threads: return "by_threads";
  }
  return "";
}

TwinKind choose_twin(int64_t m, int64_t n, int64_t k_tiles, int multiprocessors) {
  if (n % 8 != 0) return TwinKind::by_threads;
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const bool one_round_of_flat = ceil_div(m, 128) * ceil_div(n, 64) <= multiprocessors;
  if (m > 64 && (m <= 128 || one_round_of_flat)) return TwinKind::flat;
  const int64_t clusters = multiprocessors / 2;  // of two blocks
  const bool half_idle_otherwise = ceil_div(m, 128) * ceil_div(n, 2 * 128) <= clusters;
  if (m <= 64 || half_idle_otherwise) return TwinKind::thin;

  // Half rounds that it takes: tiles of the last one are halved if they fit.
  const auto half_rounds = [&](int64_t tiles, bool halves) {
    const int64_t rest = tiles % (2 * clusters);
    return tiles / (2 * clusters) * 2 + (rest == 0 ? 0 : halves && rest <= clusters ? 1 : 2);
  };
  const int64_t standard_tiles = 2 * ceil_div(m, 2 * 128) * ceil_div(n, 256);
  const int64_t whole = half_rounds(standard_tiles, false), halved = half_rounds(standard_tiles, true);
  const int64_t large = half_rounds(ceil_div(m, 256) * ceil_div(n, 192), true);
  if (static_cast<double>(large * 256 * 192) * (static_cast<double>(k_tiles) + 1.5) * 0.98 <
      static_cast<double>(halved * 128 * 256 * k_tiles)) {
    return TwinKind::large;
  }
  return halved < whole ? TwinKind::halved : TwinKind::standard;
}

}  // namespace stagecraft
