#include "emulator/state/module_image.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "emulator/ptx/diagnostics.hpp"
#include "emulator/ptx/parser.hpp"

namespace stagecraft::emulator::machine {
namespace {

class ModuleImageTest : public ::testing::Test {
 protected:
  ModuleImage& place(const std::string& text) {
    image = std::make_unique<ModuleImage>(
        std::make_shared<ptx::Module>(ptx::parse(".version 9.0\n.target sm_100a\n.address_size 64\n" + text)), memory);
    return *image;
  }
  uint64_t address_of(std::string_view name) {
    const int64_t index = image->find_variable(name);
    EXPECT_GE(index, 0) << name;
    return image->address_of(static_cast<uint32_t>(index));
  }
  template <typename T>
  T value(uint64_t address) {
    T result;
    std::memcpy(&result, DeviceMemory::host(address), sizeof result);
    return result;
  }

  DeviceMemory memory{1ull << 30};
  std::unique_ptr<ModuleImage> image;
};

TEST_F(ModuleImageTest, PlacesVariablesWithTheirValues) {
  place(R"(
    .visible .global .align 4 .u32 counter = 7;
    .const .align 4 .f32 table[3] = {0f3F800000, 0f40000000, 0f40400000};
    .global .align 256 .b8 buffer[1000];
  )");
  EXPECT_EQ(value<uint32_t>(address_of("counter")), 7u);
  EXPECT_EQ(value<float>(address_of("table") + 8), 3.0f);
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(value<uint8_t>(address_of("buffer") + i), 0u);
  EXPECT_EQ(memory.find(address_of("counter"))->label, "variable `counter`");
  EXPECT_EQ(memory.find(address_of("counter"))->kind, AllocationKind::module);
}

TEST_F(ModuleImageTest, LetsKernelsOnlyReadConstants) {
  place(".global .u32 a; .const .u32 b = 1;");
  EXPECT_TRUE(memory.find(address_of("a"))->writable_by_kernels);
  EXPECT_FALSE(memory.find(address_of("b"))->writable_by_kernels);
}

TEST_F(ModuleImageTest, FillsInAddressesOfVariablesAndFunctions) {
  place(R"(
    .func first() { ret; }
    .func second() { ret; }
    .global .align 4 .u32 data[4] = {1, 2, 3, 4};
    .global .align 8 .u64 pointers[2] = {data+4, generic(data)+12};
    .global .align 8 .u64 functions[2] = {second, first};
  )");
  EXPECT_EQ(value<uint64_t>(address_of("pointers")), address_of("data") + 4);
  EXPECT_EQ(value<uint64_t>(address_of("pointers") + 8), address_of("data") + 12);
  EXPECT_EQ(value<uint64_t>(address_of("functions")), kFunctionWindow + 16);
  EXPECT_EQ(value<uint64_t>(address_of("functions") + 8), kFunctionWindow);
}

TEST_F(ModuleImageTest, LeavesSharedVariablesToTheBlocks) {
  place(".shared .align 16 .b8 tile[64]; .extern .shared .align 16 .b8 dynamic[];");
  EXPECT_EQ(address_of("tile"), 0u);
  EXPECT_EQ(address_of("dynamic"), 0u);
}

TEST_F(ModuleImageTest, ReportsAnExternVariableThatNothingDefines) {
  try {
    place(".extern .global .u32 elsewhere;");
    FAIL() << "nothing was thrown";
  } catch (const ptx::Error& error) {
    EXPECT_EQ(error.message(),
              "variable `elsewhere` is declared extern, and nothing that it was linked with defines it");
    EXPECT_EQ(error.position().line, 4u);
  }
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(ModuleImageTest, ReportsMemoryThatDoesNotSuffice) {
  EXPECT_THROW(place(".global .u32 small; .global .align 4 .b8 huge[2147483648];"), std::bad_alloc);
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(ModuleImageTest, FreesItsVariables) {
  place(".global .u32 a; .const .u32 b;");
  EXPECT_NE(memory.used(), 0u);
  image.reset();
  EXPECT_EQ(memory.used(), 0u);
}

TEST_F(ModuleImageTest, FindsNoVariableOfAnotherName) {
  place(".global .u32 a;");
  EXPECT_EQ(image->find_variable("b"), -1);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
