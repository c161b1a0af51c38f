// How a configuration of the kernel is prepared for a product. Each configuration is compiled in one of the files
// twin_*.cu, so that they can be compiled at the same time.
#pragma once

#include "stagecraft/hopper_gemm/configurations.cuh"
#include "stagecraft/hopper_gemm/launch.cuh"
#include "stagecraft/hopper_gemm/product.hpp"

namespace stagecraft {

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

/// Prepares a product by a configuration, for the type of its operands.
/// @throws TensorMapError for sizes that TMA cannot take.
template <typename Config>
Launch prepare(const MatrixProduct& p, const TwinLaunchOptions& options) {
  return p.type == OperandType::e4m3 ? prepare_of<Config, __nv_fp8_e4m3>(p, options)
                                     : prepare_of<Config, __nv_bfloat16>(p, options);
}

}  // namespace stagecraft
