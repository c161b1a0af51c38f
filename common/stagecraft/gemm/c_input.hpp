// C on its way to the epilogue, unless its factor is 0: then nobody reads it, as in BLAS.
#pragma once

#include <cstdint>

#include "stagecraft/epilogue_input.hpp"

namespace stagecraft {

/// The ring that brings C, which may be told not to.
template <typename Writer, TileElement Element>
class CInputPipeline : public EpilogueInputPipeline<Writer, Element, /*NumStages=*/2> {
  using Ring = EpilogueInputPipeline<Writer, Element, /*NumStages=*/2>;

 public:
  /// Where C is, and whether the launch reads it.
  struct Map {
    typename Ring::Map map;  ///< made only where C is read
    bool is_read;            ///< its factor is not 0
  };

  /// As of EpilogueInputPipeline.
  __device__ __forceinline__ CInputPipeline(uint64_t (&barriers)[4], typename Ring::Storage& storage)
      : Ring(barriers, storage) {}

  /// As of EpilogueInputPipeline.
  __device__ __forceinline__ void load(const Map& c, const TilePlace& tile) { Ring::load(c.map, tile, c.is_read); }
};

}  // namespace stagecraft
