// Arrays, texture and surface objects. Filtered values are those of an H200 (2026-11-21).
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// out[0..3] = the texel that `instruction` fetches into {r1, r2, r3, r4}; `x` and `y` are f1 and f2, as bits r5 and
/// r6.
std::string kernel_with(const std::string& instruction) {
  return R"(
.visible .entry kernel(.param .u64 out, .param .u64 object, .param .f32 x, .param .f32 y) {
  .reg .b64 %rd<3>; .reg .b32 %r<7>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [object];
  ld.param.f32 %f1, [x];
  ld.param.f32 %f2, [y];
  ld.param.b32 %r5, [x];
  ld.param.b32 %r6, [y];
  mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
  )" + instruction +
         R"(
  st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};
  ret;
})";
}

class TextureTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&out_), 16), cudaSuccess);
  }
  /// A row of floats, or several.
  cudaArray_t array_of(const std::vector<float>& values, size_t width, size_t height, unsigned flags = 0) {
    const cudaChannelFormatDesc format{32, 0, 0, 0, cudaChannelFormatKindFloat};
    cudaArray_t array = nullptr;
    EXPECT_EQ(cudaMallocArray(&array, &format, width, height, flags), cudaSuccess);
    EXPECT_EQ(cudaMemcpy2DToArray(array, 0, 0, values.data(), width * 4, width * 4, height == 0 ? 1 : height,
                                  cudaMemcpyHostToDevice),
              cudaSuccess);
    return array;
  }
  static cudaResourceDesc resource_of(cudaArray_t array) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    return resource;
  }
  static cudaTextureObject_t texture_of(const cudaResourceDesc& resource, const cudaTextureDesc& how) {
    cudaTextureObject_t texture = 0;
    EXPECT_EQ(cudaCreateTextureObject(&texture, &resource, &how, nullptr), cudaSuccess);
    return texture;
  }
  cudaError_t launch(const Program& program, uint64_t object, float x, float y = 0) {
    void* arguments[] = {&out_, &object, &x, &y};
    const cudaError_t error = cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr);
    return error != cudaSuccess ? error : cudaDeviceSynchronize();
  }
  float fetch(const Program& program, cudaTextureObject_t texture, float x, float y = 0) {
    EXPECT_EQ(launch(program, texture, x, y), cudaSuccess);
    return out_[0];
  }

  float* out_ = nullptr;
};

constexpr const char* kFetch1d = "tex.1d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%rd2, {%f1}];";
constexpr const char* kFetch2d = "tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%rd2, {%f1, %f2}];";

TEST_F(TextureTest, WeighsNeighboursWithEightBits) {
  const Program program(Program::with_ptx(kernel_with(kFetch1d)));
  cudaTextureDesc how{};
  how.filterMode = cudaFilterModeLinear;
  how.addressMode[0] = cudaAddressModeClamp;
  const cudaTextureObject_t texture = texture_of(resource_of(array_of({0, 1, 0, 0}, 4, 0)), how);
  EXPECT_EQ(fetch(program, texture, 0.7f), 0x1.98p-3f);
  EXPECT_EQ(fetch(program, texture, 0.8f), 0x1.34p-2f);
  EXPECT_EQ(fetch(program, texture, 0.5f + 3 / 2048.0f), 0);
  EXPECT_EQ(fetch(program, texture, 0.5f + 4 / 2048.0f), 1 / 256.0f);  // half of a step is rounded up
  EXPECT_EQ(fetch(program, texture, -3), 0);
}

TEST_F(TextureTest, FiltersInTwoDimensions) {
  const Program program(Program::with_ptx(kernel_with(kFetch2d)));
  std::vector<float> values;
  for (int i = 0; i < 16; ++i) values.push_back(0.1f * i * i + 0.37f * i);
  cudaTextureDesc how{};
  how.filterMode = cudaFilterModeLinear;
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  const cudaTextureObject_t texture = texture_of(resource_of(array_of(values, 4, 4)), how);
  EXPECT_FLOAT_EQ(fetch(program, texture, 1.3f, 1.7f), 0x1.5e7a3ep+2f);
  EXPECT_FLOAT_EQ(fetch(program, texture, 0.1f, 0.9f), 0x1.3a28f6p+0f);
  EXPECT_FLOAT_EQ(fetch(program, texture, -3.0f, 2.2f), 0x1.de2668p+2f);
}

TEST_F(TextureTest, AddressesWhatIsOutsideAsAsked) {
  const Program program(Program::with_ptx(kernel_with(kFetch1d)));
  const cudaResourceDesc resource = resource_of(array_of({10, 11, 12, 13}, 4, 0));
  cudaTextureDesc how{};
  how.normalizedCoords = 1;
  how.addressMode[0] = cudaAddressModeWrap;
  EXPECT_EQ(fetch(program, texture_of(resource, how), 1.30f), 11);
  EXPECT_EQ(fetch(program, texture_of(resource, how), -0.1f), 13);
  how.addressMode[0] = cudaAddressModeMirror;
  EXPECT_EQ(fetch(program, texture_of(resource, how), 1.30f), 12);
  EXPECT_EQ(fetch(program, texture_of(resource, how), -0.1f), 10);
  how.addressMode[0] = cudaAddressModeBorder;
  how.borderColor[0] = 7;
  EXPECT_EQ(fetch(program, texture_of(resource, how), 1.30f), 7);
  how.addressMode[0] = cudaAddressModeClamp;
  EXPECT_EQ(fetch(program, texture_of(resource, how), 1.30f), 13);
}

TEST_F(TextureTest, ReadsLinearMemoryByIndexAndBytesAsFractions) {
  uint8_t* memory = nullptr;
  ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&memory), 8), cudaSuccess);
  for (int i = 0; i < 8; ++i) memory[i] = static_cast<uint8_t>(250 + i % 4);
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = memory;
  resource.res.linear.desc = {8, 8, 8, 8, cudaChannelFormatKindUnsigned};
  resource.res.linear.sizeInBytes = 8;
  cudaTextureDesc how{};
  const Program integers(Program::with_ptx(kernel_with("tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [%rd2, {%r5}];")));
  const float one = std::bit_cast<float>(1);
  EXPECT_EQ(std::bit_cast<int>(fetch(integers, texture_of(resource, how), one)), 250);
  EXPECT_EQ(std::bit_cast<int>(out_[3]), 253);
  how.readMode = cudaReadModeNormalizedFloat;
  const Program fractions(Program::with_ptx(kernel_with("tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%rd2, {%r5}];")));
  EXPECT_EQ(fetch(fractions, texture_of(resource, how), one), 250 / 255.0f);
}

TEST_F(TextureTest, WritesAndReadsSurfaces) {
  const cudaArray_t array = array_of({0, 1, 2, 3, 4, 5, 6, 7}, 4, 2, cudaArraySurfaceLoadStore);
  const cudaResourceDesc resource = resource_of(array);
  cudaSurfaceObject_t surface = 0;
  ASSERT_EQ(cudaCreateSurfaceObject(&surface, &resource), cudaSuccess);
  const Program program(Program::with_ptx(kernel_with(R"(
    suld.b.2d.b32.trap %r1, [%rd2, {%r5, %r6}];
    sust.b.2d.v2.b32.trap [%rd2, {0, %r6}], {%r1, %r1};
    suld.b.2d.b32.zero %r2, [%rd2, {400, %r6}];)")));
  EXPECT_EQ(fetch(program, surface, std::bit_cast<float>(12), std::bit_cast<float>(1)), 7);
  EXPECT_EQ(out_[1], 0);
  float row[4] = {};
  ASSERT_EQ(cudaMemcpy2DFromArray(row, 16, array, 0, 1, 16, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::vector<float>(row, row + 4), (std::vector<float>{7, 7, 6, 7}));
  EXPECT_EQ(launch(program, surface, std::bit_cast<float>(16)), cudaErrorIllegalAddress);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "outside of the surface, which has 16 bytes by 2", said());
}

TEST_F(TextureTest, RefusesWhatCannotBeRead) {
  const cudaArray_t array = array_of({1, 2, 3, 4}, 4, 0);
  const cudaResourceDesc resource = resource_of(array);
  const cudaTextureDesc how{};
  const cudaTextureObject_t texture = texture_of(resource, how);
  cudaSurfaceObject_t surface = 0;
  EXPECT_EQ(cudaCreateSurfaceObject(&surface, &resource), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy2DToArray(array, 4, 0, out_, 16, 16, 1, cudaMemcpyDefault), cudaErrorInvalidValue);
  const Program program(Program::with_ptx(kernel_with(kFetch1d)));
  EXPECT_EQ(fetch(program, texture, 2.5f), 3);
  EXPECT_EQ(cudaDestroyTextureObject(texture), cudaSuccess);
  EXPECT_EQ(cudaDestroyTextureObject(texture), cudaErrorInvalidValue);
  said();
  EXPECT_EQ(launch(program, texture, 2.5f), cudaErrorIllegalAddress);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "is no texture object", said());
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
