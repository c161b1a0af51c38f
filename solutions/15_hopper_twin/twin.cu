// The kernel's configurations, compiled.
#include <cuda_runtime.h>

#include <algorithm>

#include "launch.cuh"
#include "twin.hpp"

namespace stagecraft {

struct TwinLarge : TwinDefaults {
  static constexpr int tile_m = 256;
  static constexpr int tile_n = 192;
  static constexpr int stages = 3;
  static constexpr int slabs = 3;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
};

struct TwinThin : TwinDefaults {
  static constexpr int tile_n = 128;
  static constexpr int stages = 3;
  static constexpr int k_group = 2;
  static constexpr int cluster_m = 1;
  static constexpr int cluster_n = 2;
  static constexpr LastRound last_round = LastRound::cut;
  static constexpr auto a_hint = ptx::CacheHint::evict_last;   // all blocks read it
  static constexpr auto b_hint = ptx::CacheHint::evict_first;  // read once
};

struct TwinByThreads : TwinDefaults {
  static constexpr bool by_copy_engine = false;
};

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

TwinKind choose_twin(int64_t m, int64_t n, int64_t, int multiprocessors) {
  if (n % 8 != 0) return TwinKind::by_threads;
  const int64_t clusters = multiprocessors / 2;  // of two blocks, as all configurations have them
  const auto tiles = [m, n](int64_t cluster_m, int64_t cluster_n) {
    return ((m + cluster_m - 1) / cluster_m) * ((n + cluster_n - 1) / cluster_n);
  };
  const auto cost = [&](int64_t cluster_m, int64_t cluster_n) {
    const int64_t rounds = (tiles(cluster_m, cluster_n) + clusters - 1) / clusters;
    return rounds * cluster_m * cluster_n;
  };
  if (tiles(128, 2 * 128) <= clusters) return TwinKind::thin;  // larger tiles would leave half of the chip idle
  return cost(256, 2 * 192) <= cost(2 * 128, 256) ? TwinKind::large : TwinKind::standard;
}

Launch prepare_twin(TwinKind kind, const MatrixProduct& product) {
  // The start of a kernel overlaps with the end of the one before. That is worth it where both are a large part.
  const double operations = 2. * static_cast<double>(product.m) * static_cast<double>(product.n) * product.k;
  const bool dependent = operations < 1e11;
  switch (kind) {
    case TwinKind::large: return prepare<TwinLarge>(product, {.band = 8, .dependent_launch = dependent});
    case TwinKind::thin: return prepare<TwinThin>(product, {.band = 8, .dependent_launch = dependent});
    case TwinKind::by_threads: return prepare<TwinByThreads>(product, {.band = 8, .dependent_launch = dependent});
    case TwinKind::standard: break;
  }
  return prepare<TwinDefaults>(product, {.band = 8, .dependent_launch = dependent});
}

namespace {

bool takes(TwinKind kind, const MatrixProduct& p) {
  const int64_t bytes = p.type == OperandType::e4m3 ? 1 : 2;
  return p.k * bytes % 16 == 0 && (p.n % 8 == 0 || kind == TwinKind::by_threads);
}

const AddContender chosen({.name = "twin",
                           .takes = [](const MatrixProduct& p) { return takes(TwinKind::by_threads, p); },
                           .prepare =
                               [](const MatrixProduct& p) {
                                 int multiprocessors = 0;
                                 harness::check(
                                     cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
                                     "ask the device for its multiprocessors");
                                 return prepare_twin(choose_twin(p.m, p.n, p.k, multiprocessors), p);
                               }});

AddContender add(const char* name, TwinKind kind) {
  return AddContender({.name = name,
                       .takes = [kind](const MatrixProduct& p) { return takes(kind, p); },
                       .prepare = [kind](const MatrixProduct& p) { return prepare_twin(kind, p); }});
}
const AddContender standard = add("standard", TwinKind::standard), large = add("large", TwinKind::large),
                   thin = add("thin", TwinKind::thin), by_threads = add("by_threads", TwinKind::by_threads);

}  // namespace
}  // namespace stagecraft
