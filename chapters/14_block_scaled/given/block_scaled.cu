// Launches the finished kernels, for each type of operands.
#include "block_scaled.cuh"
#include "block_scaled.hpp"
#include "blockwise.cuh"
#include "launch.cuh"

namespace stagecraft {

namespace {

constexpr int kStages = 4;

template <typename Type, int TileN>
void launch_tiles(const BlockScaledOperand& a, const BlockScaledOperand& b, float* c, int64_t m, int64_t n, int64_t k,
                  int blocks) {
  constexpr int kAccumulators = TileN == 256 ? 1 : 2;  // two of 256 columns would leave none for scale factors
  launch<Payload<Type, TileN, kStages>>(multiply_block_scaled<Type, TileN, kStages, kAccumulators>,
                                        make_problem<Type, TileN>(a, b, c, m, n, k), blocks);
}

}  // namespace

template <typename Type>
void launch_block_scaled(const BlockScaledOperand& a, const BlockScaledOperand& b, float* c, int64_t m, int64_t n,
                         int64_t k, int tile_n, int blocks) {
  switch (tile_n) {
    case 128: return launch_tiles<Type, 128>(a, b, c, m, n, k, blocks);
    case 256: return launch_tiles<Type, 256>(a, b, c, m, n, k, blocks);
    default: throw IllegalProblem("tile_n = %d. Legal are 128 and 256.", tile_n);
  }
}

template void launch_block_scaled<Mxfp8>(const BlockScaledOperand&, const BlockScaledOperand&, float*, int64_t, int64_t,
                                         int64_t, int, int);
template void launch_block_scaled<Mxfp4>(const BlockScaledOperand&, const BlockScaledOperand&, float*, int64_t, int64_t,
                                         int64_t, int, int);
template void launch_block_scaled<Nvfp4>(const BlockScaledOperand&, const BlockScaledOperand&, float*, int64_t, int64_t,
                                         int64_t, int, int);

void launch_blockwise(const BlockwiseOperand& a, const BlockwiseOperand& b, float* c, int64_t m, int64_t n, int64_t k,
                      int blocks) {
  launch<BlockwisePayload<kStages>>(multiply_blockwise<kStages, /*Accumulators=*/4>,
                                    make_blockwise_problem(a, b, c, m, n, k), blocks);
}

}  // namespace stagecraft
