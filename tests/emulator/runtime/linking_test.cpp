// Programs of several modules: nvcc -rdc=true, and cuLink*.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

const std::string kHead = ".version 9.0\n.target sm_100a\n.address_size 64\n";
/// Writes what `answer`, a function of another module, returns.
const std::string kCaller = R"(
.extern .func (.param .b32 result) answer();
.visible .entry kernel(.param .u64 pointer) {
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [pointer];
  { .param .b32 result; call (result), answer; ld.param.b32 %r1, [result]; }
  st.global.b32 [%rd1], %r1;
  ret;
})";
const std::string kAnswer = R"(
.visible .global .align 4 .u32 variable[4] = {42};
.visible .func (.param .b32 result) answer() {
  .reg .b32 %r<2>;
  ld.global.u32 %r1, [variable];
  st.param.b32 [result], %r1;
  ret;
})";

/// The result of nvcc -rdc=true: a wrapper that lists the containers of the objects.
class LinkedProgram {
 public:
  explicit LinkedProgram(std::vector<std::string> containers) : containers_(std::move(containers)) {
    own_ = fatbin::ContainerBuilder().build();
    for (const std::string& container : containers_) list_.push_back(container.data());
    list_.push_back(nullptr);
    wrapper_.data = own_.data();
    wrapper_.linked = list_.data();
    handle_ = __cudaRegisterFatBinary(&wrapper_);
    __cudaRegisterFunction(handle_, kernel, nullptr, "kernel", -1, nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaRegisterVar(handle_, variable, nullptr, "variable", 0, sizeof variable, 0, 0);
  }
  ~LinkedProgram() { __cudaUnregisterFatBinary(handle_); }
  LinkedProgram(const LinkedProgram&) = delete;
  LinkedProgram& operator=(const LinkedProgram&) = delete;

  char kernel[1] = {};
  char variable[16] = {};

 private:
  struct {
    uint32_t magic = fatbin::kWrapperMagic, version = 2;
    const void* data = nullptr;
    const void* linked = nullptr;
  } wrapper_;
  std::string own_;
  std::vector<std::string> containers_;
  std::vector<const void*> list_;
  void** handle_ = nullptr;
};

class LinkingTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&number_), sizeof(int)), cudaSuccess);  // makes the context, too
  }
  int launch(const void* kernel) {
    void* arguments[] = {&number_};
    EXPECT_EQ(cudaLaunchKernel(kernel, {1}, {1}, arguments, 0, nullptr), cudaSuccess);
    int result = 0;
    EXPECT_EQ(cudaMemcpy(&result, number_, sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  }
  static CUresult add(CUlinkState link, const std::string& text, const char* name) {
    return cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char*>(text.c_str()), text.size() + 1, name, 0, nullptr,
                         nullptr);
  }

  int* number_ = nullptr;
};

/// The device runtime's object holds PTX for later chips only.
std::string device_runtime() {
  return fatbin::ContainerBuilder()
      .add(fatbin::EntryKind::ptx, {121, fatbin::TargetKind::generic}, ".version 9.0\n.target sm_121\n")
      .build();
}

TEST_F(LinkingTest, RunsAProgramOfSeveralObjects) {
  const LinkedProgram program({Program::with_ptx(kCaller), device_runtime(), Program::with_ptx(kAnswer)});
  EXPECT_EQ(launch(program.kernel), 42);
  const int changed = 7;
  ASSERT_EQ(cudaMemcpyToSymbol(program.variable, &changed, sizeof changed, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(launch(program.kernel), 7);
  EXPECT_EQ(said(), "");
}

TEST_F(LinkingTest, SaysWhatWasLeftOutWhereSomethingIsMissing) {
  const LinkedProgram program({Program::with_ptx(kCaller), device_runtime()});
  void* arguments[] = {&number_};
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaErrorInvalidPtx);
  const std::string message = said();
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "`answer` is declared but not defined", message);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "object 2: the program holds PTX for sm_121", message);
}

TEST_F(LinkingTest, RefusesAProgramWithoutPtxInAnyObject) {
  const LinkedProgram program({device_runtime()});
  void* arguments[] = {&number_};
  EXPECT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, arguments, 0, nullptr), cudaErrorNoKernelImageForDevice);
}

TEST_F(LinkingTest, LinksWhatTheProgramHandsOver) {
  CUlinkState link = nullptr;
  ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  ASSERT_EQ(add(link, kHead + kCaller, "caller.ptx"), CUDA_SUCCESS);
  std::string container = Program::with_ptx(kAnswer);
  ASSERT_EQ(
      cuLinkAddData(link, CU_JIT_INPUT_FATBINARY, container.data(), container.size(), nullptr, 0, nullptr, nullptr),
      CUDA_SUCCESS);
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
  CUfunction kernel = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&kernel, module, "kernel"), CUDA_SUCCESS);
  EXPECT_EQ(launch(kernel), 42);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
}

TEST_F(LinkingTest, KnowsTheLinksThatThereAre) {
  CUlinkState link = nullptr;
  ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "cuLinkDestroy has destroyed it", said());
  const auto wild = reinterpret_cast<CUlinkState>(0x1000);
  EXPECT_EQ(cuLinkDestroy(wild), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(add(wild, kHead + kAnswer, "answer.ptx"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLinkAddFile(wild, CU_JIT_INPUT_PTX, "answer.ptx", 0, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
  void* image = nullptr;
  EXPECT_EQ(cuLinkComplete(wild, &image, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLinkDestroy(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LinkingTest, FindsThePtxInObjectsAndLibraries) {
  CUlinkState link = nullptr;
  ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  std::string library = "!<arch>\n" + device_runtime() + "between " + Program::with_ptx(kCaller + kAnswer);
  ASSERT_EQ(cuLinkAddData(link, CU_JIT_INPUT_LIBRARY, library.data(), library.size(), "lib.a", 0, nullptr, nullptr),
            CUDA_SUCCESS);
  void* image = nullptr;
  EXPECT_EQ(cuLinkComplete(link, &image, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkAddData(link, CU_JIT_INPUT_OBJECT, library.data(), 8, "none.o", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
}

// The results are those of an H200 (2026-11-21).
TEST_F(LinkingTest, TellsTheProgramsLogWhatIsWrong) {
  char log[200] = "before";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  const auto create = [&](void** values) {
    CUlinkState link = nullptr;
    EXPECT_EQ(cuLinkCreate(2, options, values, &link), CUDA_SUCCESS);
    return link;
  };
  void* image = nullptr;

  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUlinkState link = create(values);
  EXPECT_STREQ(log, "");
  EXPECT_EQ(add(link, kHead + kCaller, "caller.ptx"), CUDA_SUCCESS);
  EXPECT_EQ(cuLinkComplete(link, &image, nullptr), CUDA_ERROR_INVALID_SOURCE);
  EXPECT_STREQ(log, "function `answer` is declared, and no input of the link defines it");
  EXPECT_EQ(reinterpret_cast<size_t>(values[1]), strlen(log));
  EXPECT_EQ(add(link, kHead + kCaller, "again.ptx"), CUDA_ERROR_INVALID_SOURCE);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "function `kernel` is defined in caller.ptx and in again.ptx", log);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);

  void* small[] = {log, reinterpret_cast<void*>(5)};
  link = create(small);
  EXPECT_EQ(add(link, kHead + "garbage", "garbage.ptx"), CUDA_ERROR_INVALID_PTX);
  EXPECT_STREQ(log, "garb");
  EXPECT_EQ(cuLinkAddData(link, CU_JIT_INPUT_CUBIN, log, 4, nullptr, 0, nullptr, nullptr),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);

  CUmodule module = nullptr;
  void* again[] = {log, reinterpret_cast<void*>(sizeof log)};
  EXPECT_EQ(cuModuleLoadDataEx(&module, (kHead + "garbage").c_str(), 2, options, again), CUDA_ERROR_INVALID_PTX);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "unexpected `garbage`", log);
}

TEST_F(LinkingTest, SaysWhatToDoWithMachineCodeOfNvrtc) {
  CUmodule module = nullptr;
  const std::string cubin = fatbin::make_cubin({{"kernel", 8}});
  EXPECT_EQ(cuModuleLoadData(&module, cubin.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "--gpu-architecture=compute_... in place of sm_...", said());
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
