// What the types of an epilogue refuse, one mistake in each marked line; the others are legal.
#include "stagecraft/block_scaled_output.hpp"
#include "stagecraft/epilogue_input.hpp"
#include "stagecraft/row_writer.hpp"
#include "stagecraft/tile_writer.hpp"

using namespace stagecraft;
using Bf16 = __nv_bfloat16;
using E4m3 = __nv_fp8_e4m3;
using Fp4 = __nv_fp4_e2m1;

// clang-format off
template class stagecraft::TileWriter<TmemTensor<128, 16>, E4m3>;
template class stagecraft::TileWriter<TmemTensor<128, 16, 2>, E4m3>;              // refused: must be a multiple of 16 bytes
template class stagecraft::TileWriter<TmemTensor<64, 24>, E4m3>;                  // refused: must be a multiple of 16 bytes
template class stagecraft::TileWriter<TmemTensor<128, 16>, E4m3, 2>;              // refused: must be a multiple of 16 bytes
template class stagecraft::TileWriter<TmemTensor<128, 16>, Fp4>;                  // refused: must be a multiple of 16 bytes
template class stagecraft::TileWriter<TmemTensor<128, 64>, Bf16, 1, 5>;           // refused: NumBuffers must be 1 to 4
template class stagecraft::TileWriter<TmemTensor<128, 64>, Bf16, 1, 2, 48>;       // refused: MaxColumns must be 32, 64, 128 or 256
template class stagecraft::RowWriter<TmemTensor<128, 64>, Fp4>;

using Writer = TileWriter<TmemTensor<128, 64>, Bf16>;
template class stagecraft::EpilogueInputPipeline<Writer, float, 2>;
template class stagecraft::EpilogueInputPipeline<Writer, float, 0>;               // refused: NumStages must be at least 1
