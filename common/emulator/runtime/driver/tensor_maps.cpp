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

CUresult cuTensorMapEncodeIm2col(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  return encode("cuTensorMapEncodeIm2col", [](State&) { return machine::encode_im2col(); });
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                     const cuuint64_t*, int, int, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                     CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle,
                                     CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return encode("cuTensorMapEncodeIm2colWide", [](State&) { return machine::encode_im2col(); });
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
