// Kernels that are compiled while the program runs: which of them are kept, and what is said where none can be made.
#include "stagecraft/gemm/compiler.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/device.hpp"
#include "on_demand.hpp"
#include "verification.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

/// A folder that is deleted in the end.
struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "gemm kernels XXXXXX").string();  // paths may have spaces
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

constexpr GemmConfig kConfig{.tile_n = 48, .accumulators = 3};

TEST(GemmCompiler, KeepsKernelsUntilAHeaderChanges) {
  const std::string reason = harness::reason_without_tcgen05(harness::current_device());
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Folder folder;
  const fs::path header = folder.path / "extra header.hpp", kept = folder.path / "kept";
  std::ofstream(header) << "// one\n";
  const GemmCompiler compiler = gemm_compiler(kept, {"-include", header});
  const auto seconds = [&] {
    const auto compiled = compiler.compile({&kConfig, 1});
    if (!compiled) ADD_FAILURE() << compiled.error().message;
    return compiled ? compiled->seconds : -1;
  };
  // Two at once: neither takes what the other has half finished.
  double one = 0, other = 0;
  {
    std::jthread thread([&] { one = seconds(); });
    other = seconds();
  }
  EXPECT_GT(one + other, 0);
  EXPECT_EQ(seconds(), 0);
  std::ofstream(header) << "// two\n";
  EXPECT_GT(seconds(), 0);
  EXPECT_EQ(seconds(), 0);
  for (const auto& entry : fs::directory_iterator(kept)) {
    EXPECT_TRUE(entry.path().extension() == ".so" || entry.path().extension() == ".inputs") << entry.path();
  }

  const auto compiled = compiler.compile({&kConfig, 1});
  ASSERT_TRUE(compiled);
  const GemmCase run{.problem = with_strides({.m = 200, .n = 100, .k = 300}), .beta = 0};
  const auto plan = GemmPlan::choose(run.problem, {.tile_n = 48}, compiled->kernels);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(verify(run, *plan).wrong, 0u);
}

TEST(GemmCompiler, SaysWhatIsLegalWithoutNvcc) {
  const Folder folder;
  const GemmConfig illegal{.tile_m = 100};
  const auto compiled = GemmCompiler("/nowhere/nvcc", {}, folder.path).compile({&illegal, 1});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().failure, GemmFailure::bad_configuration);
  EXPECT_EQ(compiled.error().message, "tile_m must be 64 or 128 for one block.");
}

TEST(GemmCompiler, SaysWhereItLookedForNvcc) {
  const Folder folder;
  const auto compiled = GemmCompiler("/nowhere/nvcc", {}, folder.path).compile({&kConfig, 1});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().failure, GemmFailure::no_compiler);
  EXPECT_EQ(compiled.error().message, "no kernel can be compiled, because there is no nvcc at /nowhere/nvcc.");
}

TEST(GemmCompiler, AFailureWithoutAWordMayBeAFullDisk) {
  const Folder folder;
  const fs::path nvcc = folder.path / "nvcc";
  std::ofstream(nvcc) << "#!/bin/sh\ntest $1 = --version\n";
  fs::permissions(nvcc, fs::perms::owner_all);
  const auto compiled = GemmCompiler(nvcc, {}, folder.path).compile({&kConfig, 1});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().failure, GemmFailure::no_compiler);
  EXPECT_TRUE(compiled.error().message.starts_with("nvcc failed and could not say why: the disk of " +
                                                   folder.path.string() + " has "));
}

TEST(GemmCompiler, RemovesWhatAnInterruptedProcessHasLeft) {
  const Folder folder;
  for (const char* name : {"work.old", "work.new", "kept.old"}) {
    fs::create_directory(folder.path / name);
    const auto age = std::chrono::hours(std::string_view(name).ends_with("old") ? 2 : 0);
    fs::last_write_time(folder.path / name, fs::file_time_type::clock::now() - age);
  }
  EXPECT_FALSE(GemmCompiler("/nowhere/nvcc", {}, folder.path).compile({&kConfig, 1}));
  EXPECT_FALSE(fs::exists(folder.path / "work.old"));
  EXPECT_TRUE(fs::exists(folder.path / "work.new") && fs::exists(folder.path / "kept.old"));
}

TEST(GemmCompiler, SaysWhereKernelsCannotBeKept) {
  const auto compiled = GemmCompiler("/nowhere/nvcc", {}, "/proc/kernels").compile({&kConfig, 1});
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().message, "kernels cannot be kept: the folder /proc/kernels cannot be written to.");
}

}  // namespace
}  // namespace stagecraft
