// STAGECRAFT_PTX: a program runs with the PTX of a file in place of the image that has the same kernels.
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

using testing::AllOf;
using testing::ExitedWithCode;
using testing::HasSubstr;

/// A kernel that writes the number to where its parameter points.
std::string writing(const std::string& name, int number) {
  return ".visible .entry " + name + "(.param .u64 target) {\n.reg .b64 %target;\nld.param.u64 %target, [target];\n" +
         "cvta.to.global.u64 %target, %target;\nst.global.u32 [%target], " + std::to_string(number) + ";\nret;\n}\n";
}

/// The name of a kernel in an anonymous namespace, as nvcc makes it from the file's name and two hashes.
std::string anonymous(const std::string& file, const std::string& hash) {
  const std::string part = "_GLOBAL__N__" + hash + "_" + std::to_string(file.size()) + "_" + file + "_3c7ab8be";
  return "_ZN" + std::to_string(part.size()) + part + "4copyEPi";
}

/// Each case is a process of its own: a process asks for the variants once.
class PtxVariantsTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& body, const std::string& target = "sm_100a") const {
    std::ofstream(path(name)) << ".version 9.0\n.target " << target << "\n.address_size 64\n" << body;
    return path(name);
  }

 private:
  // The process of a death test starts the test again, and finds the same name.
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
};

/// A program with several images, each of which has kernels that write numbers.
class Images {
 public:
  explicit Images(const std::string& files) { setenv("STAGECRAFT_PTX", files.c_str(), 1); }

  void add(const std::vector<std::pair<std::string, int>>& kernels) {
    std::string body;
    for (const auto& [name, number] : kernels) body += writing(name, number);
    fatbin::ContainerBuilder builder;
    builder.add(fatbin::EntryKind::ptx, kSm100a, ".version 9.0\n.target sm_100a\n.address_size 64\n" + body);
    Image& image = *images_.emplace_back(std::make_unique<Image>());
    image.container = builder.build();
    image.wrapper.data = image.container.data();
    void** handle = __cudaRegisterFatBinary(&image.wrapper);
    for (const auto& [name, number] : kernels) {
      image.names.push_back(std::make_unique<std::string>(name));
      const char* stub = image.names.back()->c_str();
      __cudaRegisterFunction(handle, stub, nullptr, stub, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    }
  }

  /// Launches all kernels, prints what they write, and ends the process, with 1 if a call failed.
  [[noreturn]] void run_and_exit() const {
    bool failed = false;
    for (const auto& image : images_) {
      for (const auto& name : image->names) {
        int* target = nullptr;
        int number = 0;
        failed |= cudaMalloc(reinterpret_cast<void**>(&target), sizeof *target) != cudaSuccess;
        void* arguments[] = {&target};
        failed |= cudaLaunchKernel(name->c_str(), 1, 1, arguments, 0, nullptr) != cudaSuccess;
        failed |= cudaMemcpy(&number, target, sizeof number, cudaMemcpyDeviceToHost) != cudaSuccess;
        std::fprintf(stderr, "%d;", number);
      }
    }
    std::exit(failed ? 1 : 0);
  }

 private:
  struct Image {
    struct {
      uint32_t magic = fatbin::kWrapperMagic, version = 1;
      const void* data = nullptr;
      void* more = nullptr;
    } wrapper;
    std::string container;
    std::vector<std::unique_ptr<std::string>> names;
  };
  std::vector<std::unique_ptr<Image>> images_;
};

TEST_F(PtxVariantsTest, ReplaceTheImagesThatHaveTheirKernels) {
  const auto run = [&] {
    Images images(write("a.ptx", writing("one", 11) + writing("two", 12)) + ":" +
                  write("b.ptx", writing("unknown", 0) + writing("four", 14)));
    images.add({{"one", 1}, {"two", 2}});
    images.add({{"three", 3}});
    images.add({{"four", 4}});
    images.run_and_exit();
  };
  EXPECT_EXIT(run(), ExitedWithCode(0), "^11;12;3;14;$");
}

TEST_F(PtxVariantsTest, StayAfterAReset) {
  const auto run = [&] {
    Images images(write("a.ptx", writing("one", 11)));
    images.add({{"one", 1}});
    cudaFree(nullptr);
    cudaDeviceReset();
    images.run_and_exit();
  };
  EXPECT_EXIT(run(), ExitedWithCode(0), "^11;$");
}

// The hashes are those of the file's path and options.
TEST_F(PtxVariantsTest, MayComeFromAnotherFileThanKernelsOfAnAnonymousNamespace) {
  const auto run = [&] {
    Images images(write("a.ptx", writing(anonymous("changed_cu", "ea93d887"), 11)));
    images.add({{anonymous("k_cu", "33047fa9"), 1}});
    images.run_and_exit();
  };
  EXPECT_EXIT(run(), ExitedWithCode(0), "^11;$");
}

TEST_F(PtxVariantsTest, OfAllKernelsOfAnImageBelongToItAndNotToOneWithSomeOfThem) {
  const auto run = [&] {
    Images images(write("a.ptx", writing("one", 11) + writing("two", 12)));
    images.add({{"one", 1}});
    images.add({{"one", 1}, {"two", 2}});
    images.run_and_exit();
  };
  EXPECT_EXIT(run(), ExitedWithCode(0), "^1;11;12;$");
}

// ---- What is refused: then no kernel runs, neither the old nor the new ----

TEST_F(PtxVariantsTest, OfOtherKernelsAreRefusedWithAListOfTheImages) {
  const auto run = [&] {
    Images images(write("right.ptx", writing("_Z3oneILi1EEvPi", 11)) + ":" + write("wrong.ptx", writing("five", 15)));
    images.add({{"three", 3}});
    images.add({{"_Z3oneILi1EEvPi", 1}, {"two", 2}});
    images.run_and_exit();
  };
  EXPECT_EXIT(run(), ExitedWithCode(1),
              "right.ptx lacks two, which the program has in the same image: void one<1>\\(int\\*\\), two");
  const auto run_other = [&] {
    Images images(write("wrong.ptx", writing("five", 15)));
    images.add({{"three", 3}});
    images.add({{"one", 1}, {"two", 2}});
    images.run_and_exit();
  };
  EXPECT_EXIT(run_other(), ExitedWithCode(1),
              AllOf(HasSubstr("stagecraft: cudaMalloc: STAGECRAFT_PTX: "),
                    HasSubstr("wrong.ptx fits no image of the program: it defines five; the program's images have one, "
                              "two; three [cudaErrorInvalidKernelImage]\n0;0;0;")));
}

TEST_F(PtxVariantsTest, ThatFitTwoImagesAreRefused) {
  const auto run = [&] {
    Images images(write("a.ptx", writing("one", 11) + writing("two", 12)));
    images.add({{"one", 1}});
    images.add({{"two", 2}});
    images.run_and_exit();
  };
  EXPECT_EXIT(run(), ExitedWithCode(1), "a.ptx fits several images of the program, .*: one; two \\[");
}

TEST_F(PtxVariantsTest, AreRefusedWhereTwoAreForOneImage) {
  const auto run = [&] {
    Images images(write("a.ptx", writing("one", 11)) + ":" + write("b.ptx", writing("one", 12)));
    images.add({{"one", 1}});
    images.run_and_exit();
  };
  EXPECT_EXIT(run(), ExitedWithCode(1), "a.ptx and .*b.ptx are both for the image of one \\[");
}

TEST_F(PtxVariantsTest, ThatAreNoPtxForTheChipAreRefused) {
  std::ofstream(path("source.cu")) << "__global__ void one() {}";
  const std::string missing = path("none.ptx"), source = path("source.cu");
  const std::string broken = write("broken.ptx", ".visible .entry one() { mov.u32 %a, 1; }");
  const std::string hopper = write("hopper.ptx", writing("one", 11), "sm_90a");
  const std::vector<std::pair<std::string, std::string>> said_of = {
      {missing, "none.ptx cannot be opened \\[cudaErrorFileNotFound"},
      {testing::TempDir(), "is a directory \\[cudaErrorFileNotFound"},
      {source, "source.cu is no PTX, which begins with .version: nvcc -ptx writes it"},
      {broken, "broken.ptx: line 4, column .*: register `%a` is not declared"},
      {hopper, "hopper.ptx: the PTX is for sm_90a, but the NVIDIA B200 .emulated. runs sm_100a; run it on"},
  };
  for (const auto& [file, said] : said_of) {
    const auto run = [&file = file] {
      Images images(file);
      images.add({{"one", 1}});
      images.run_and_exit();
    };
    EXPECT_EXIT(run(), ExitedWithCode(1), "STAGECRAFT_PTX: .*" + said);
  }
}

// As a program whose kernel was diagnosed.
TEST_F(PtxVariantsTest, ThatAreRefusedFailAProgramThatLooksAtNoError) {
  const auto run = [&] {
    setenv("STAGECRAFT_EXIT_STATUS", "strict", 1);
    Images images(path("none.ptx"));
    images.add({{"one", 1}});
    cudaFree(nullptr);
    std::exit(0);
  };
  EXPECT_EXIT(run(), ExitedWithCode(1), "stagecraft: exit status 1, because of what was reported");
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
