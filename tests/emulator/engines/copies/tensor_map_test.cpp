// The rules of cuTensorMapEncodeTiled, row by row.
#include "emulator/engines/copies/tensor_map.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace stagecraft::emulator::machine {
namespace {

/// Arguments that are legal, to break one at a time: a 64x64 tensor of 16-bit integers, boxes of 64x8.
struct Arguments {
  alignas(64) TensorMap map;
  uint64_t dims[5] = {64, 64, 4, 4, 4};
  uint64_t strides[4] = {128, 8192, 32768, 131072};
  uint32_t box[5] = {64, 8, 1, 1, 1};
  uint32_t element_strides[5] = {1, 1, 1, 1, 1};
  TiledArguments tiled{&map, 1, 2, 0x2000'0000'0000, dims, strides, box, element_strides, 0, 0, 0, 0};

  EncodeResult encode(uint32_t major = 10) { return encode_tiled(tiled, major); }
};

template <typename Break>
void refuses(const char* words, Break&& change, int code = kEncodeInvalidValue, uint32_t major = 10) {
  Arguments arguments;
  change(arguments);
  const EncodeResult result = arguments.encode(major);
  EXPECT_EQ(result.code, code) << words;
  EXPECT_NE(result.message.find(words), std::string::npos) << "expected: " << words << "\nin: " << result.message;
  EXPECT_NE(arguments.map.mark, kTensorMapMark) << "a refused map is not written: " << words;
}

template <typename Change>
void accepts(Change&& change, uint32_t major = 10) {
  Arguments arguments;
  change(arguments);
  const EncodeResult result = arguments.encode(major);
  EXPECT_EQ(result.code, kEncodeSuccess) << result.message;
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(find_flaw(arguments.map), "");
}

TEST(TensorMapTest, EncodesLegalMaps) {
  accepts([](Arguments&) {});
  accepts([](Arguments& a) { a.tiled.rank = 5; });
  accepts([](Arguments& a) { a.tiled.rank = 1; });
  accepts([](Arguments& a) { a.tiled.global_address = 0; });  // filled in later with tensormap.replace
  accepts([](Arguments& a) { a.dims[1] = uint64_t{1} << 32; });
  accepts([](Arguments& a) { a.box[0] = a.box[1] = 256; });
  accepts([](Arguments& a) { a.element_strides[0] = 0; });  // not used without interleave
  accepts([](Arguments& a) { a.element_strides[1] = 8; });
  accepts([](Arguments& a) { a.tiled.swizzle = 3; });
  accepts([](Arguments& a) { a.tiled.swizzle = 6; });
  accepts([](Arguments& a) { a.tiled.data_type = 9, a.tiled.oob_fill = 1; });
  accepts([](Arguments& a) { a.tiled.data_type = 13; });
  accepts([](Arguments& a) { a.tiled.data_type = 14, a.box[0] = 128, a.dims[0] = 128; });
}

// CUTLASS clears bit 21 of the second word after every cuTensorMapEncodeTiled for a small tensor, if the driver's
// version is at most 13.1.
TEST(TensorMapTest, SurvivesWhatCutlassChanges) {
  Arguments arguments;
  arguments.tiled.rank = 5;
  arguments.tiled.global_address = 0x2000'0060'0000;
  ASSERT_EQ(arguments.encode().code, kEncodeSuccess);
  std::array<uint64_t, 16> words{};
  std::memcpy(words.data(), &arguments.map, sizeof words);
  EXPECT_EQ(words[1] >> 21 & 1, 0u);
  EXPECT_EQ(words[0], 0x2000'0060'0000u) << "the address is where the chip has it";
}

TEST(TensorMapTest, NamesTheArgumentThatBreaksARule) {
  refuses("tensorMap is null", [](Arguments& a) { a.tiled.tensor_map = nullptr; });
  refuses("not 64-byte aligned", [](Arguments& a) { a.tiled.tensor_map = reinterpret_cast<std::byte*>(&a.map) + 16; });
  refuses("tensorDataType is 16", [](Arguments& a) { a.tiled.data_type = 16; });
  refuses("tensorRank is 0", [](Arguments& a) { a.tiled.rank = 0; });
  refuses("tensorRank is 6", [](Arguments& a) { a.tiled.rank = 6; });
  refuses("globalAddress 0x200000000008 is not a multiple of 16", [](Arguments& a) { a.tiled.global_address += 8; });
  refuses("globalDim is null", [](Arguments& a) { a.tiled.global_dim = nullptr; });
  refuses("globalStrides is null", [](Arguments& a) { a.tiled.global_strides = nullptr; });
  refuses("globalStrides is null", [](Arguments& a) { a.tiled.rank = 1, a.tiled.global_strides = nullptr; });
  refuses("boxDim is null", [](Arguments& a) { a.tiled.box_dim = nullptr; });
  refuses("elementStrides is null", [](Arguments& a) { a.tiled.element_strides = nullptr; });
  refuses("globalDim[1] is 0", [](Arguments& a) { a.dims[1] = 0; });
  refuses("globalDim[0] is 4294967297", [](Arguments& a) { a.dims[0] = (uint64_t{1} << 32) + 1; });
  refuses("globalStrides[0] is 120 bytes, not a multiple of 16", [](Arguments& a) { a.strides[0] = 120; });
  refuses("less than 2^40", [](Arguments& a) { a.strides[0] = uint64_t{1} << 40; });
  refuses("boxDim[1] is 0", [](Arguments& a) { a.box[1] = 0; });
  refuses("boxDim[1] is 257", [](Arguments& a) { a.box[1] = 257; });
  refuses("24 bytes", [](Arguments& a) { a.box[0] = 12; });  // as on an H200
  refuses("elementStrides[1] is 0", [](Arguments& a) { a.element_strides[1] = 0; });
  refuses("elementStrides[1] is 9", [](Arguments& a) { a.element_strides[1] = 9; });
  refuses("interleave is 3", [](Arguments& a) { a.tiled.interleave = 3; });
  refuses("swizzle is 7", [](Arguments& a) { a.tiled.swizzle = 7; });
  refuses("l2Promotion is 4", [](Arguments& a) { a.tiled.l2_promotion = 4; });
  refuses("oobFill is 2", [](Arguments& a) { a.tiled.oob_fill = 2; });
  refuses("inner box of at most 32 bytes", [](Arguments& a) { a.tiled.swizzle = 1; });
  refuses("inner box of at most 64 bytes", [](Arguments& a) { a.tiled.swizzle = 2; });
  refuses("inner box of at most 128 bytes", [](Arguments& a) { a.tiled.swizzle = 3, a.box[0] = 72; });
  refuses("needs a floating-point data type", [](Arguments& a) { a.tiled.oob_fill = 1; });  // as on an H200
}

TEST(TensorMapTest, HasRulesOfItsOwnForElementsBelowAByte) {
  const auto padded = [](Arguments& a) { a.tiled.data_type = 14, a.box[0] = 128, a.dims[0] = 128; };
  refuses("must be a multiple of 128", [&](Arguments& a) { padded(a), a.dims[0] = 192; });
  refuses("it must be 128", [&](Arguments& a) { padded(a), a.box[0] = 64; });
  refuses("not a multiple of 32", [&](Arguments& a) { padded(a), a.tiled.global_address += 16; });
  refuses("not a multiple of 32", [&](Arguments& a) { padded(a), a.strides[0] = 144; });
  refuses("cannot have", [&](Arguments& a) { padded(a), a.tiled.swizzle = 6; });
  refuses("must be even", [](Arguments& a) { a.tiled.data_type = 13, a.dims[0] = 63; });
}

TEST(TensorMapTest, RefusesOnHopperWhatHopperDoesNotHave) {
  for (const int swizzle : {4, 5}) {  // measured on an H200
    refuses(
        "compute capability 10.0", [&](Arguments& a) { a.tiled.swizzle = swizzle; }, kEncodeInvalidValue, 9);
  }
  refuses(
      "compute capability 10.0", [](Arguments& a) { a.tiled.data_type = 13; }, kEncodeInvalidValue, 9);
}

TEST(TensorMapTest, NamesWhatIsNotImplemented) {
  refuses("at least 3", [](Arguments& a) { a.tiled.interleave = 1; });
  refuses("needs CU_TENSOR_MAP_SWIZZLE_32B", [](Arguments& a) { a.tiled.interleave = 2, a.tiled.rank = 3; });
  refuses(
      "not implemented", [](Arguments& a) { a.tiled.interleave = 1, a.tiled.rank = 3; }, kEncodeNotSupported);
}

TEST(TensorMapTest, RecognisesBytesThatAreNoMap) {
  alignas(64) TensorMap map;
  std::memset(static_cast<void*>(&map), 0, sizeof map);
  EXPECT_NE(find_flaw(map).find("no tensor map"), std::string::npos);
  Arguments arguments;
  ASSERT_EQ(arguments.encode().code, 0);
  arguments.map.swizzle = static_cast<TensorSwizzle>(200);
  EXPECT_NE(find_flaw(arguments.map).find("does not exist"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
