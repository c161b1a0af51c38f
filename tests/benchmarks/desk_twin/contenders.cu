// The steps of chapter 19 among the contenders of the benchmark: those that a Hopper can run too.
#include <steps_launch.cuh>

#include "../hopper_gemm/contenders.hpp"
#include "harness/device.hpp"

namespace stagecraft {
namespace {

template <typename Element>
constexpr OperandType kOperands = OperandType::bf16;
template <>
constexpr OperandType kOperands<__nv_fp8_e4m3> = OperandType::e4m3;

/// Starts a step, with panels of so many tiles.
template <typename Element>
using Start = void (*)(const Element* a, const Element* b, __nv_bfloat16* d, int m, int n, int k, uint32_t width,
                       cudaStream_t stream);

template <typename Config>
void one_role(const typename Config::Element* a, const typename Config::Element* b, __nv_bfloat16* d, int m, int n,
              int k, uint32_t width, cudaStream_t stream) {
  start_one_role<Config>(a, b, Epilogue<>{}, d, m, n, k, width, stream);
}

/// With roles: a tile for each block, or as many blocks as multiprocessors.
template <typename Element, bool Persistent>
void roles(const Element* a, const Element* b, __nv_bfloat16* d, int m, int n, int k, uint32_t width,
           cudaStream_t stream) {
  static const auto multiprocessors = static_cast<uint32_t>(harness::current_device().multiProcessorCount);
  start_gemm<Config<Element>, StaticScheduler<WholeTiles<>>>(a, b, Epilogue<>{}, d, m, n, k,
                                                             Persistent ? multiprocessors : UINT32_MAX, width, stream);
}

template <typename Element>
AddContender add(const char* name, Start<Element> start, uint32_t width = 8) {
  const auto takes = [](const MatrixProduct& p) {
    constexpr int64_t kPieces = 16 / sizeof(Element);  // TMA wants rows of whole pieces of 16 bytes
    return p.type == kOperands<Element> && p.k % kPieces == 0 && p.n % 8 == 0;
  };
  return AddContender({.name = name, .takes = takes, .prepare = [start, width](const MatrixProduct& p) -> Launch {
                         return [start, width, p](cudaStream_t stream) {
                           start(static_cast<const Element*>(p.a), static_cast<const Element*>(p.b), p.c,
                                 static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), width, stream);
                         };
                       }});
}

template <typename Element>
struct Steps {
  AddContender fragments =
      add<Element>("19_1_fragments", one_role<Config<Element, /*RegisterStages=*/1, /*Swizzled=*/false>>);
  AddContender swizzle = add<Element>("19_2_swizzle", one_role<Config<Element, /*RegisterStages=*/1>>);
  AddContender register_stages = add<Element>("19_3_register_stages", one_role<Config<Element>>);
  AddContender one_tile_each = add<Element>("19_4_roles", roles<Element, false>);
  AddContender persistent = add<Element>("19_5_persistent", roles<Element, true>);
  AddContender narrow_panels = add<Element>("19_5_panels_of_4", roles<Element, true>, 4);
  AddContender wide_panels = add<Element>("19_5_panels_of_16", roles<Element, true>, 16);
};

const Steps<__nv_bfloat16> bf16;
const Steps<__nv_fp8_e4m3> e4m3;

}  // namespace
}  // namespace stagecraft
