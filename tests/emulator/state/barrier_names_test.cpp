// Names of mbarriers from the lines that initialise them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

constexpr const char* kSource = R"(struct Ring {
  void init() const {
    for (int i = 0; i < kStages; ++i) {
      init_barrier(full_ + i, 1);
      init_barrier(empty_ + i, 32);
    }
  }
};
void init_barrier(uint64_t* barrier, uint32_t count) {
  raw_init(barrier, count);
}
__global__ void k() {
  Ring{bars}.init();
  init_barrier<Scope<1>>(&storage.done, 1);
  for (int i = 0; i < 2; ++i) init_barrier(&storage.slots[i].full, 1);
  for (int i = 1; i < 2; ++i) init_barrier(&storage.late[i], 1);
  for (int r = 0; r < 2; ++r) init_barrier(&storage.one, 1);
  init_barrier(&storage.a, 1), init_barrier(&storage.b, 1);
}
void raw_init(uint64_t* object, uint32_t n) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address_of(object)), "r"(n));
}
)";

/// The initialisation of a barrier, inlined through two functions into a line.
std::string init_in(const std::string& line, int offset) {
  return fmt::format(
      ".loc 1 10 3, function_name init_barrier, inlined_at 1 {}\n"
      ".loc 1 21 3, function_name raw_init, inlined_at 1 10 3\n mbarrier.init.shared.b64 [{}], 1;\n",
      line, offset < 64 ? fmt::format("bars+{}", offset) : fmt::format("storage+{}", offset - 64));
}

class BarrierNamesTest : public KernelTest {
 protected:
  void SetUp() override { std::ofstream(path_) << kSource; }
  void TearDown() override { std::filesystem::remove(path_); }

  /// Names of barriers that a kernel has initialised, by the order of these offsets; `bars` is at 0, `storage` at 64.
  std::vector<std::string> names(const std::string& body, const std::vector<uint32_t>& offsets,
                                 bool source_is_newer = false) {
    const std::string text = fmt::format(
        ".version 9.0\n.target {}\n.address_size 64\n.visible .entry k() {{ .shared .align 64 .b8 bars[64]; "
        ".shared .align 64 .b8 storage[128];\n.loc 1 12 1\n{} ret; }}\n.file 1 \"{}\"\n.section .debug_str {{\n"
        "init_barrier:\n.b8 105,110,105,116,95,98,97,114,114,105,101,114,0\nraw_init:\n.b8 "
        "114,97,119,95,105,110,105,116,0\ninit:\n.b8 105,110,105,116,0\n}}\n",
        machine.architecture().target, body, path_.string());
    auto module = std::make_shared<ptx::Module>(ptx::parse(text));
    module->written = std::filesystem::last_write_time(path_) - std::chrono::seconds(source_is_newer ? 1 : 0);
    images.push_back(std::make_unique<ModuleImage>(module, machine.memory()));
    kernels.push_back(machine.translate(*images.back(), module->functions.front()));
    launch(*kernels.back(), {1, 1, 1}, {1, 1, 1});
    std::vector<std::string> result;
    for (const uint32_t offset : offsets) {
      for (const SharedVariable& variable : kernels.back()->shared_variables) {  // those that the kernel uses
        if ((variable.name == "bars") != (offset < 64)) continue;
        result.push_back(kernels.back()->name_of_barrier(variable.offset + offset % 64));
      }
    }
    return result;
  }

  const std::filesystem::path path_ = std::filesystem::temp_directory_path() / fmt::format("names_{}.cu", getpid());
};

using Names = std::vector<std::string>;

TEST_F(BarrierNamesTest, AreThoseOfMembersInTheSource) {
  EXPECT_EQ(names(init_in("14 3", 64) + init_in("15 3", 72) + init_in("15 3", 88), {64, 72, 88}),
            (Names{"storage.done", "storage.slots[0].full", "storage.slots[1].full"}));
}

// The compiler names the line of a call once: in a loop that is unrolled, later barriers seem to be of the last one.
TEST_F(BarrierNamesTest, FollowAnArrayThroughAnUnrolledLoop) {
  const std::string again = ".loc 1 21 3, function_name raw_init, inlined_at 1 10 3\n mbarrier.init.shared.b64 [bars+";
  const std::string body = ".loc 1 13 3\n.loc 1 4 7, function_name init, inlined_at 1 13 3\n" + init_in("4 7", 0) +
                           ".loc 1 5 7, function_name init, inlined_at 1 13 3\n" + init_in("5 7", 16) + again +
                           "8], 1;\n" + again + "24], 1;\n";
  EXPECT_EQ(names(body, {0, 8, 16, 24}), (Names{"full[0]", "full[1]", "empty[0]", "empty[1]"}));
  EXPECT_EQ(names(body + init_in("14 3", 64), {8, 24, 64}), (Names{"bars.full[1]", "bars.empty[1]", "storage.done"}));
  // One more than the arrays can explain, so that they are not what they seem.
  EXPECT_EQ(names(body + again + "48], 1;\n", {0, 8, 48}), (Names{"bars[0]", "bars[1]", "bars[6]"}));
}

TEST_F(BarrierNamesTest, AreOffsetsWhereTheSourceLeavesAChoice) {
  EXPECT_EQ(names(init_in("16 3", 72), {72}), (Names{"storage[1]"})) << "the loop begins at 1";
  EXPECT_EQ(names(init_in("17 3", 72) + init_in("17 3", 80), {72, 80}), (Names{"storage[1]", "storage[2]"}))
      << "one name, two barriers";
  EXPECT_EQ(names(init_in("18 3", 72), {72}), (Names{"storage[1]"})) << "two calls in the line";
  EXPECT_EQ(names(init_in("14 3", 72) + init_in("14 3", 80), {72, 80}), (Names{"storage[1]", "storage[2]"}))
      << "one line, two barriers";
  EXPECT_EQ(names(init_in("14 3", 64), {64}, /*source_is_newer=*/true), (Names{"storage[0]"}));
  EXPECT_EQ(names(init_in("99 3", 64), {64}), (Names{"storage[0]"})) << "no such line";
}

}  // namespace
}  // namespace stagecraft::emulator::machine
