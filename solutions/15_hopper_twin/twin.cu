// The kernel's configurations, compiled.
#include <cuda_runtime.h>

#include <algorithm>

#include "configurations.cuh"
#include "launch.cuh"
#include "twin.hpp"

namespace stagecraft {

namespace {

/// A configuration for operands of another type.
template <typename Config, typename Type>
struct Of : Config {
  using Element = Type;
};

template <typename Config, typename Element>
Launch prepare_of(const MatrixProduct& p, const TwinLaunchOptions& options) {
  return [launch = TwinLaunch<Of<Config, Element>>(static_cast<const Element*>(p.a), static_cast<const Element*>(p.b),
                                                   p.c, p.m, p.n, p.k, options)](cudaStream_t stream) mutable {
    launch(stream);
  };
}

template <typename Config>
Launch prepare(const MatrixProduct& p, const TwinLaunchOptions& options) {
  return p.type == OperandType::e4m3 ? prepare_of<Config, __nv_fp8_e4m3>(p, options)
                                     : prepare_of<Config, __nv_bfloat16>(p, options);
}

}  // namespace

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

Launch prepare_twin(TwinKind kind, const MatrixProduct& product) {
  // The start of a kernel overlaps with the end of the one before. That is worth it where both are a large part.
  const double operations = 2. * static_cast<double>(product.m) * static_cast<double>(product.n) * product.k;
  TwinLaunchOptions options{.dependent_launch = operations < 1e11};
  switch (kind) {
    case TwinKind::halved: return prepare<TwinHalved>(product, options);
    case TwinKind::large: {
      // Bands of equal height, of about 11 clusters.
      const int rows = static_cast<int>((product.m + 255) / 256), bands = std::max(1, (2 * rows + 11) / 22);
      options.band = (rows + bands - 1) / bands;
      return prepare<TwinLarge>(product, options);
    }
    case TwinKind::thin: return prepare<TwinThin>(product, options);
    case TwinKind::flat: options.promotion = L2Promotion::bytes_256; return prepare<TwinFlat>(product, options);
    case TwinKind::by_threads: return prepare<TwinByThreads>(product, options);
    case TwinKind::standard: break;
  }
  return prepare<TwinDefaults>(product, options);
}

namespace {

/// Bytes of a row of A or B.
int64_t k_bytes(const MatrixProduct& p) { return p.k * (p.type == OperandType::e4m3 ? 1 : 2); }

bool takes(TwinKind kind, const MatrixProduct& p) {
  return k_bytes(p) % 16 == 0 && (p.n % 8 == 0 || kind == TwinKind::by_threads);
}

const AddContender chosen({.name = "twin",
                           .takes = [](const MatrixProduct& p) { return takes(TwinKind::by_threads, p); },
                           .prepare =
                               [](const MatrixProduct& p) {
                                 int multiprocessors = 0;
                                 harness::check(
                                     cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                                     "ask the device for its multiprocessors");
                                 return prepare_twin(choose_twin(p.m, p.n, k_bytes(p) / 128, multiprocessors), p);
                               }});

AddContender add(const char* name, TwinKind kind) {
  return AddContender({.name = name,
                       .takes = [kind](const MatrixProduct& p) { return takes(kind, p); },
                       .prepare = [kind](const MatrixProduct& p) { return prepare_twin(kind, p); }});
}
const AddContender standard = add("standard", TwinKind::standard), halved = add("halved", TwinKind::halved),
                   large = add("large", TwinKind::large), thin = add("thin", TwinKind::thin),
                   flat = add("flat", TwinKind::flat), by_threads = add("by_threads", TwinKind::by_threads);

}  // namespace
}  // namespace stagecraft
