// The driver API: tensor maps.
#include <bit>

#include "emulator/engines/copies/tensor_map.hpp"
#include "emulator/runtime/model/api_call.hpp"

namespace stagecraft::emulator::runtime {
namespace {

CUresult encode(const char* name, const std::function<machine::EncodeResult(State&)>& body) {
  return run_driver_call(name, Needs::nothing, [&](State& state) {
    const machine::EncodeResult result = body(state);
    if (result.code != machine::kEncodeSuccess) throw ApiError(static_cast<cudaError_t>(result.code), result.message);
  });
}

}  // namespace
}  // namespace stagecraft::emulator::runtime

using namespace stagecraft::emulator::runtime;
namespace machine = stagecraft::emulator::machine;

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank, void* address,
                                const cuuint64_t* dimensions, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  return encode("cuTensorMapEncodeTiled", [&](State& state) {
    static_assert(sizeof(cuuint64_t) == sizeof(uint64_t) && sizeof(cuuint32_t) == sizeof(uint32_t));
    machine::TiledArguments arguments;
    arguments.tensor_map = map;
    arguments.data_type = data_type;
    arguments.rank = rank;
    arguments.global_address = reinterpret_cast<uint64_t>(address);
    arguments.global_dim = dimensions;
    arguments.global_strides = strides;
    arguments.box_dim = box;
    arguments.element_strides = element_strides;
    arguments.interleave = interleave;
    arguments.swizzle = swizzle;
    arguments.l2_promotion = promotion;
    arguments.oob_fill = fill;
    return machine::encode_tiled(arguments, state.architecture().major);
  });
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dimensions, const cuuint64_t* strides, const int* lower_corner,
                                 const int* upper_corner, cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
  return encode("cuTensorMapEncodeIm2col", [&](State& state) {
    return machine::encode_im2col({{map, data_type, rank, reinterpret_cast<uint64_t>(address), dimensions, strides,
                                    nullptr, element_strides, interleave, swizzle, promotion, fill},
                                   lower_corner,
                                   upper_corner,
                                   channels,
                                   pixels},
                                  state.architecture().major);
  });
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap* map, CUtensorMapDataType data_type, cuuint32_t rank, void* address,
                                     const cuuint64_t* dimensions, const cuuint64_t* strides, int lower_corner,
                                     int upper_corner, cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  return encode("cuTensorMapEncodeIm2colWide", [&](State& state) -> machine::EncodeResult {
    if (mode != CU_TENSOR_MAP_IM2COL_WIDE_MODE_W && mode != CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128) {
      return {machine::kEncodeInvalidValue, "mode is none of CU_TENSOR_MAP_IM2COL_WIDE_MODE_W and _W128"};
    }
    return machine::encode_im2col(
        {{map, data_type, rank, reinterpret_cast<uint64_t>(address), dimensions, strides, nullptr, element_strides,
          interleave, swizzle, promotion, fill},
         &lower_corner,
         &upper_corner,
         channels,
         pixels,
         mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W ? machine::TensorMode::wide : machine::TensorMode::wide_128},
        state.architecture().major);
  });
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  return run_driver_call("cuTensorMapReplaceAddress", Needs::nothing, [&](State&) {
    auto changed = std::bit_cast<machine::TensorMap>(*required(map, "tensorMap"));
    changed.address = reinterpret_cast<uint64_t>(address);
    const std::string flaw = machine::find_flaw(changed);
    if (!flaw.empty()) throw ApiError(cudaErrorInvalidValue, flaw);
    *map = std::bit_cast<CUtensorMap>(changed);
  });
}

}  // extern "C"
