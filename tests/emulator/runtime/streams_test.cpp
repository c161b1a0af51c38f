// Streams, events and the virtual clock; capturing, as an H200 (driver 580) answers each mistake.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "emulator/runtime/exports/driver_functions.hpp"
#include "program.hpp"

// The functions that programs call when built with nvcc --default-stream per-thread.
extern "C" {
cudaError_t cudaMemcpyAsync_ptsz(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy_ptds(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaMemsetAsync_ptsz(void*, int, size_t, cudaStream_t);
cudaError_t cudaEventRecord_ptsz(cudaEvent_t, cudaStream_t);
cudaError_t cudaStreamGetId_ptsz(cudaStream_t, unsigned long long*);
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t, cudaGraph_t*);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
}

namespace stagecraft::emulator::runtime {
namespace {

constexpr size_t kBytes = 1 << 20;

class StreamTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_EQ(cudaMalloc(&device, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&host, kBytes), cudaSuccess);
  }
  cudaStream_t stream(unsigned flags = cudaStreamDefault) {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, flags), cudaSuccess);
    return made;
  }
  cudaEvent_t recorded(cudaStream_t in) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, in), cudaSuccess);
    return event;
  }
  void copy_up(cudaStream_t in) {
    EXPECT_EQ(cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, in), cudaSuccess);
  }
  void copy_down(cudaStream_t in) {
    EXPECT_EQ(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, in), cudaSuccess);
  }
  static float between(cudaEvent_t start, cudaEvent_t end) {
    float milliseconds = -1;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
    return milliseconds;
  }
  /// Begins a capture, puts a node into it, makes the call, and ends the capture.
  void expect_in_capture(unsigned flags, cudaStreamCaptureMode mode, cudaError_t expected, bool survives,
                         const std::function<cudaError_t(cudaStream_t)>& call) {
    const cudaStream_t captured = stream(flags);
    ASSERT_EQ(cudaStreamBeginCapture(captured, mode), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(device, 1, 8, captured), cudaSuccess);
    EXPECT_EQ(call(captured), expected);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(captured, &status), cudaSuccess);
    EXPECT_EQ(status, survives ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(captured, &graph), survives ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph != nullptr, survives);
    cudaStreamDestroy(captured);
  }

  void* device = nullptr;
  void* host = nullptr;
};

TEST_F(StreamTest, CopiesOfOneDirectionFollowEachOtherAndThoseOfTheOtherOverlap) {
  const cudaStream_t up = stream(), down = stream(), up_too = stream();
  const cudaEvent_t start = recorded(up);
  copy_up(up);
  copy_down(down);
  copy_up(up_too);
  const float one = between(start, recorded(up));
  EXPECT_FLOAT_EQ(between(start, recorded(down)), one);
  EXPECT_FLOAT_EQ(between(start, recorded(up_too)), 2 * one);
}

TEST_F(StreamTest, WaitsForAnEventInAnotherStream) {
  const cudaStream_t first = stream(cudaStreamNonBlocking), second = stream(cudaStreamNonBlocking);
  const cudaEvent_t start = recorded(first);
  copy_up(first);
  const cudaEvent_t end = recorded(first);
  ASSERT_EQ(cudaStreamWaitEvent(second, end, 0), cudaSuccess);
  copy_down(second);
  EXPECT_FLOAT_EQ(between(start, recorded(second)), 2 * between(start, end));
}

TEST_F(StreamTest, TheLegacyStreamKeepsTheOrderWithBlockingStreamsOnly) {
  const cudaStream_t blocking = stream(), other = stream(cudaStreamNonBlocking);
  const cudaEvent_t start = recorded(blocking);
  copy_up(blocking);
  copy_down(nullptr);
  const cudaEvent_t both = recorded(nullptr);
  // recorded() in the blocking stream comes after the legacy stream's copy in its turn
  EXPECT_FLOAT_EQ(between(start, recorded(blocking)), between(start, both));
  ASSERT_EQ(cudaMemsetAsync(device, 1, 8, other), cudaSuccess);
  EXPECT_LT(between(start, recorded(other)), between(start, both));
}

TEST_F(StreamTest, TheHostMovesOnWhenItWaits) {
  const cudaStream_t worker = stream(), idle = stream(cudaStreamNonBlocking);
  const cudaEvent_t start = recorded(worker);
  copy_up(worker);
  EXPECT_EQ(between(start, recorded(idle)), 0);
  ASSERT_EQ(cudaStreamSynchronize(worker), cudaSuccess);
  EXPECT_FLOAT_EQ(between(start, recorded(idle)), between(start, recorded(worker)));
}

TEST_F(StreamTest, CapturesWhatIsForbiddenAsTheChipDoes) {
  const auto wait = [](cudaStream_t captured) { return cudaStreamSynchronize(captured); };
  const auto ask = [](cudaStream_t captured) { return cudaStreamQuery(captured); };
  const auto wait_for_all = [](cudaStream_t) { return cudaDeviceSynchronize(); };
  void* memory = nullptr;
  const auto allocate = [&](cudaStream_t) { return cudaMalloc(&memory, 64); };
  const auto use_legacy = [&](cudaStream_t) { return cudaMemsetAsync(device, 1, 8, nullptr); };
  const auto use_synchronous = [&](cudaStream_t) { return cudaMemset(device, 1, 8); };
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const bool relaxed = mode == cudaStreamCaptureModeRelaxed;
    expect_in_capture(0, mode, cudaErrorStreamCaptureUnsupported, false, wait);
    expect_in_capture(0, mode, cudaErrorStreamCaptureUnsupported, false, ask);
    expect_in_capture(0, mode, cudaErrorStreamCaptureUnsupported, false, wait_for_all);
    expect_in_capture(0, mode, relaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported, relaxed, allocate);
    expect_in_capture(0, mode, cudaErrorStreamCaptureImplicit, false, use_legacy);
    expect_in_capture(0, mode, cudaErrorStreamCaptureImplicit, false, use_synchronous);
    expect_in_capture(cudaStreamNonBlocking, mode, cudaSuccess, true, use_legacy);
    expect_in_capture(cudaStreamNonBlocking, mode, cudaSuccess, true, use_synchronous);
  }
  const cudaEvent_t outside = recorded(nullptr);
  expect_in_capture(0, cudaStreamCaptureModeGlobal, cudaErrorStreamCaptureIsolation, false,
                    [&](cudaStream_t captured) { return cudaStreamWaitEvent(captured, outside, 0); });
  expect_in_capture(0, cudaStreamCaptureModeGlobal, cudaErrorCapturedEvent, false,
                    [&](cudaStream_t captured) { return cudaEventQuery(recorded(captured)); });
  expect_in_capture(0, cudaStreamCaptureModeGlobal, cudaErrorIllegalState, true, [](cudaStream_t captured) {
    return cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal);
  });
}

TEST_F(StreamTest, CapturesNoLegacyStreamButThatOfTheThread) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(cudaStreamPerThread, &graph), cudaErrorIllegalState);
  ASSERT_EQ(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaStreamEndCapture(cudaStreamPerThread, &graph), cudaSuccess);
}

TEST_F(StreamTest, AThreadMayPermitUnsafeCallsForItself) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  void* memory = nullptr;
  expect_in_capture(0, cudaStreamCaptureModeGlobal, cudaSuccess, true,
                    [&](cudaStream_t) { return cudaMalloc(&memory, 64); });
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
}

TEST_F(StreamTest, ACaptureIsJoinedBeforeItEnds) {
  const cudaStream_t first = stream(), second = stream();
  cudaGraph_t graph = nullptr;
  for (const bool joins : {false, true}) {
    ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second, recorded(first), 0), cudaSuccess);
    ASSERT_EQ(cudaMemsetAsync(device, 1, 8, second), cudaSuccess);
    if (joins) {
      ASSERT_EQ(cudaStreamWaitEvent(first, recorded(second), 0), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamEndCapture(first, &graph), joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    EXPECT_EQ(cudaStreamIsCapturing(second, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  }
}

TEST_F(StreamTest, AHostFunctionMayWaitForAnotherThread) {
  // The driver's function does the same; neither may hold the lock that the other thread needs.
  const auto function = [](void* result) {
    std::thread([&] { *static_cast<cudaError_t*>(result) = cudaStreamQuery(nullptr); }).join();
  };
  cudaError_t result = cudaErrorUnknown;
  EXPECT_EQ(cudaLaunchHostFunc(nullptr, function, &result), cudaSuccess);
  EXPECT_EQ(result, cudaSuccess);
  result = cudaErrorUnknown;
  EXPECT_EQ(cuLaunchHostFunc(nullptr, function, &result), CUDA_SUCCESS);
  EXPECT_EQ(result, cudaSuccess);
}

/// What calls of CUDA return inside a host function.
struct CallsInside {
  int entered = 0;
  cudaError_t launch = cudaSuccess, allocate = cudaSuccess;
  CUresult driver = CUDA_SUCCESS;
};
void call_cuda(void* data) {
  auto& calls = *static_cast<CallsInside*>(data);
  ++calls.entered;
  void* pointer = nullptr;
  calls.launch = cudaLaunchHostFunc(nullptr, call_cuda, data);
  calls.allocate = cudaMalloc(&pointer, 4);
  calls.driver = cuStreamSynchronize(nullptr);
}

TEST_F(StreamTest, AHostFunctionMayNotCallCuda) {
  const auto expect_refused = [&](const CallsInside& calls) {
    EXPECT_EQ(calls.entered, 1);
    EXPECT_EQ(calls.launch, cudaErrorNotPermitted);
    EXPECT_EQ(calls.allocate, cudaErrorNotPermitted);
    EXPECT_EQ(calls.driver, CUDA_ERROR_NOT_PERMITTED);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "cudaMalloc: a function that a stream or a graph calls", said());
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // outside it may
  };
  CallsInside in_function, in_callback, in_driver, in_graph;
  EXPECT_EQ(cudaLaunchHostFunc(nullptr, call_cuda, &in_function), cudaSuccess);
  expect_refused(in_function);
  const auto callback = [](cudaStream_t, cudaError_t, void* data) { call_cuda(data); };
  EXPECT_EQ(cudaStreamAddCallback(nullptr, callback, &in_callback, 0), cudaSuccess);
  expect_refused(in_callback);
  EXPECT_EQ(cuLaunchHostFunc(nullptr, call_cuda, &in_driver), CUDA_SUCCESS);
  expect_refused(in_driver);

  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t executable = nullptr;
  const cudaHostNodeParams parameters{call_cuda, &in_graph};
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphAddHostNode(&node, graph, nullptr, 0, &parameters), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  expect_refused(in_graph);
}

TEST_F(StreamTest, TakesANullStreamForTheThreadsOwnWhereTheProgramWasCompiledSo) {
  unsigned long long id = 0;
  EXPECT_EQ(cudaStreamGetId_ptsz(nullptr, &id), cudaSuccess);
  EXPECT_EQ(id, 2u);
  EXPECT_EQ(cudaStreamGetId_ptsz(cudaStreamLegacy, &id), cudaSuccess);
  EXPECT_EQ(id, 1u);
  EXPECT_EQ(cudaStreamGetId(nullptr, &id), cudaSuccess);
  EXPECT_EQ(id, 1u);
}

TEST_F(StreamTest, GivesThreadsTheirOwnStreamThroughTheDriverToo) {
  const auto id_by = [](const char* name, cuuint64_t flags) {
    void* function = nullptr;
    EXPECT_EQ(cuGetProcAddress_v2(name, &function, 12000, flags, nullptr), CUDA_SUCCESS);
    unsigned long long id = 0;
    if (function != nullptr) reinterpret_cast<decltype(&cuStreamGetId)>(function)(nullptr, &id);
    return id;
  };
  EXPECT_EQ(id_by("cuStreamGetId", CU_GET_PROC_ADDRESS_LEGACY_STREAM), 1u);
  EXPECT_EQ(id_by("cuStreamGetId", CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM), 2u);
  EXPECT_EQ(id_by("cuStreamGetId_ptsz", 0), 2u);
  void *own = nullptr, *plain = nullptr;
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuStreamGetId", &own, 12000, cudaEnablePerThreadDefaultStream, nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaGetDriverEntryPointByVersion("cuStreamGetId", &plain, 12000, cudaEnableDefault, nullptr), cudaSuccess);
  EXPECT_NE(own, plain);
  // A function without a stream has one form.
  EXPECT_EQ(find_driver_function("cuMemAlloc", 13000, true), find_driver_function("cuMemAlloc", 13000));
}

TEST_F(StreamTest, OrdersTheThreadsOwnStreamWithTheLegacyOneAndNoOther) {
  const cudaStream_t other = stream(cudaStreamNonBlocking);
  const auto recorded_in_own = [&] {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    EXPECT_EQ(cudaEventRecord_ptsz(event, nullptr), cudaSuccess);
    return event;
  };
  const cudaEvent_t start = recorded_in_own();
  copy_up(other);
  EXPECT_EQ(between(start, recorded_in_own()), 0);  // the copy of the other thread does not delay it
  EXPECT_EQ(cudaMemcpyAsync_ptsz(host, device, kBytes, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
  const cudaEvent_t copied = recorded_in_own();
  EXPECT_GT(between(start, copied), 0);
  EXPECT_GE(between(copied, recorded(nullptr)), 0);  // the legacy stream waits for it
  copy_up(nullptr);
  EXPECT_GT(between(copied, recorded_in_own()), 0);  // and it for the legacy stream
}

TEST_F(StreamTest, CapturesTheThreadsOwnStreamAsTheNullStream) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  ASSERT_EQ(cudaStreamBeginCapture_ptsz(nullptr, cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync_ptsz(device, 1, 8, nullptr), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture_ptsz(nullptr, &graph), cudaSuccess);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 1u);
}

// cudaLaunchKernel has more arguments than registers to pass them in.
TEST_F(StreamTest, PassesAllArgumentsOnToTheThreadsOwnStream) {
  const Program program(Program::with_ptx(R"(
    .visible .entry kernel(.param .u64 pointer) {
      .reg .b64 %rd<2>; .reg .b32 %r<2>;
      ld.param.u64 %rd1, [pointer]; mov.u32 %r1, %ntid.y; st.global.u32 [%rd1], %r1; ret;
    })"));
  cudaFunction_t kernel = nullptr;
  ASSERT_EQ(cudaGetFuncBySymbol(&kernel, program.kernel), cudaSuccess);
  void* arguments[] = {&device};
  EXPECT_EQ(__cudaLaunchKernel_ptsz(reinterpret_cast<cudaKernel_t>(kernel), {1}, {2, 5}, arguments, 0, nullptr),
            cudaSuccess);
  unsigned rows = 0;
  EXPECT_EQ(cudaMemcpy_ptds(&rows, device, sizeof rows, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(rows, 5u);
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
