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

Launch prepare_twin(const TwinChoice& choice, const MatrixProduct& product) {
  // The start of a kernel overlaps with the end of the one before. That is worth it where both are a large part.
  const double operations = 2. * static_cast<double>(product.m) * static_cast<double>(product.n) * product.k;
  TwinLaunchOptions options{.dependent_launch = operations < 1e11};
  if (choice.kind == TwinKind::large) {  // bands of equal height, of about 11 clusters
    const int rows = static_cast<int>((product.m + 255) / 256), bands = std::max(1, (2 * rows + 11) / 22);
    options.band = (rows + bands - 1) / bands;
  }
  if (choice.band > 0) options.band = choice.band;
  switch (choice.kind) {
    case TwinKind::halved: return prepare<TwinHalved>(product, options);
    case TwinKind::large: return prepare<TwinLarge>(product, options);
    case TwinKind::thin: return prepare<TwinThin>(product, options);
    case TwinKind::flat: options.promotion = L2Promotion::bytes_256; return prepare<TwinFlat>(product, options);
    case TwinKind::by_threads: return prepare<TwinByThreads>(product, options);
    case TwinKind::standard: break;
  }
  return prepare<TwinDefaults>(product, options);
}

}  // namespace stagecraft
