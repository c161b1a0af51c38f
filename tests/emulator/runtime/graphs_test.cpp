// Graphs: built by nodes or by capturing, changed, launched.
#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <vector>

#include "program.hpp"

namespace stagecraft::emulator::runtime {
namespace {

/// Does *where += what.
const char* const kAddWhat = R"(
.visible .entry kernel(.param .u64 where, .param .u32 what) {
  .reg .b64 %rd<2>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where]; ld.param.u32 %r1, [what];
  red.global.add.u32 [%rd1], %r1;
  ret;
})";

/// Does *where -= 1; the condition is the result.
const char* const kCountDown = R"(
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry kernel(.param .u64 where, .param .u64 handle) {
  .reg .b64 %rd<4>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [where]; ld.param.u64 %rd2, [handle];
  ld.global.u32 %r1, [%rd1]; sub.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;
  { .param .b64 a; .param .b32 b; st.param.b64 [a], %rd2; st.param.b32 [b], %r1;
    call.uni cudaGraphSetConditional, (a, b); }
  ret;
})";

class GraphTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_EQ(cudaMallocManaged(reinterpret_cast<void**>(&value), 64 * sizeof *value, cudaMemAttachGlobal),
              cudaSuccess);
    ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  }
  /// A launch that adds `amount` to `*where`; the arguments live as long as the test.
  cudaKernelNodeParams adding(uint32_t* where, uint32_t amount) {
    places.push_back(std::make_unique<uint32_t*>(where));
    amounts.push_back(std::make_unique<uint32_t>(amount));
    arguments.push_back({places.back().get(), amounts.back().get()});
    cudaKernelNodeParams parameters{};
    parameters.func = program.kernel;
    parameters.gridDim = parameters.blockDim = {1, 1, 1};
    parameters.kernelParams = arguments.back().data();
    return parameters;
  }
  cudaGraphNode_t add_kernel(const cudaKernelNodeParams& parameters, std::vector<cudaGraphNode_t> after = {}) {
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &parameters), cudaSuccess);
    return node;
  }
  cudaGraphExec_t instantiate(unsigned long long flags = 0) {
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, flags), cudaSuccess);
    return executable;
  }

  Program program{Program::with_ptx(kAddWhat)};
  uint32_t* value = nullptr;
  cudaGraph_t graph = nullptr;
  std::vector<std::unique_ptr<uint32_t*>> places;
  std::vector<std::unique_ptr<uint32_t>> amounts;
  std::list<std::vector<void*>> arguments;
};

TEST_F(GraphTest, RunsItsNodesInTheOrderOfTheirDependencies) {
  // The nodes are made in the wrong order: first the kernel, then the fill that it depends on.
  const cudaGraphNode_t kernel = add_kernel(adding(value, 5));
  const cudaMemsetParams fill{value, 0, 100, 4, 1, 1};
  cudaGraphNode_t filled = nullptr, copied = nullptr, called = nullptr;
  ASSERT_EQ(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill), cudaSuccess);
  ASSERT_EQ(cudaGraphAddDependencies(graph, &filled, &kernel, nullptr, 1), cudaSuccess);
  ASSERT_EQ(cudaGraphAddMemcpyNode1D(&copied, graph, &kernel, 1, value + 1, value, 4, cudaMemcpyDefault), cudaSuccess);
  const cudaHostNodeParams call{[](void* data) { static_cast<uint32_t*>(data)[2] = static_cast<uint32_t*>(data)[1]; },
                                value};
  ASSERT_EQ(cudaGraphAddHostNode(&called, graph, &copied, 1, &call), cudaSuccess);
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(cudaGraphGetRootNodes(graph, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 3u);
  const cudaGraphExec_t executable = instantiate();
  EXPECT_EQ(value[0], 0u);
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
    EXPECT_EQ(value[2], 105u);
    value[2] = 0;
  }
  // With a circle the graph could not run.
  ASSERT_EQ(cudaGraphAddDependencies(graph, &called, &filled, nullptr, 1), cudaSuccess);
  cudaGraphExec_t none = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&none, graph, 0), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "depend on each other in a circle", said());
  EXPECT_EQ(cudaGraphInstantiate(&none, graph, cudaGraphInstantiateFlagDeviceLaunch), cudaErrorNotSupported);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "the body of a conditional node", said());
}

TEST_F(GraphTest, AnExecutableKeepsWhatItWasMadeOf) {
  const cudaGraphNode_t node = add_kernel(adding(value, 1));
  const cudaGraphExec_t executable = instantiate();
  const cudaKernelNodeParams more = adding(value, 10);
  ASSERT_EQ(cudaGraphKernelNodeSetParams(node, &more), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  EXPECT_EQ(value[0], 1u);
  cudaGraphExecUpdateResultInfo info{};
  ASSERT_EQ(cudaGraphExecUpdate(executable, graph, &info), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  EXPECT_EQ(value[0], 11u);
  const cudaKernelNodeParams most = adding(value, 100);
  ASSERT_EQ(cudaGraphExecKernelNodeSetParams(executable, node, &most), cudaSuccess);
  ASSERT_EQ(cudaGraphNodeSetEnabled(executable, node, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  EXPECT_EQ(value[0], 11u);
  ASSERT_EQ(cudaGraphNodeSetEnabled(executable, node, 1), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  EXPECT_EQ(value[0], 111u);
}

TEST_F(GraphTest, TellsWhyAnUpdateDoesNotFit) {
  add_kernel(adding(value, 1));
  const cudaGraphExec_t executable = instantiate();
  cudaGraphNode_t empty = nullptr;
  ASSERT_EQ(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0), cudaSuccess);
  cudaGraphExecUpdateResultInfo info{};
  EXPECT_EQ(cudaGraphExecUpdate(executable, graph, &info), cudaErrorGraphExecUpdateFailure);
  EXPECT_EQ(info.result, cudaGraphExecUpdateErrorTopologyChanged);
}

TEST_F(GraphTest, CapturesSeveralStreams) {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  ASSERT_EQ(cudaStreamCreate(&first), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&second), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&fork), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&join), cudaSuccess);
  const auto add = [&](uint32_t* where, uint32_t amount, cudaStream_t stream) {
    void* both[] = {&where, &amount};
    ASSERT_EQ(cudaLaunchKernel(program.kernel, {1}, {1}, both, 0, stream), cudaSuccess);
  };
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), cudaSuccess);
  add(value, 1, first);
  ASSERT_EQ(cudaEventRecord(fork, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  add(value + 1, 2, second);
  add(value + 2, 3, first);
  ASSERT_EQ(cudaEventRecord(join, second), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(second), cudaSuccess);  // the program waits for its work below
  ASSERT_EQ(cudaStreamWaitEvent(first, join, 0), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(value + 3, value + 1, 4, cudaMemcpyDefault, first), cudaSuccess);
  EXPECT_EQ(value[0], 0u);
  cudaGraph_t captured = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(first, &captured), cudaSuccess);
  size_t edges = 0;
  EXPECT_EQ(cudaGraphGetEdges(captured, nullptr, nullptr, nullptr, &edges), cudaSuccess);
  EXPECT_EQ(edges, 4u);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, captured, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(captured), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, first), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, first), cudaSuccess);
  EXPECT_EQ(std::vector<uint32_t>(value, value + 4), (std::vector<uint32_t>{2, 4, 6, 4}));
}

TEST_F(GraphTest, HoldsGraphsAndClones) {
  const cudaGraphNode_t kernel = add_kernel(adding(value, 1));
  cudaGraph_t outer = nullptr, clone = nullptr;
  ASSERT_EQ(cudaGraphCreate(&outer, 0), cudaSuccess);
  cudaGraphNode_t child[2] = {};
  ASSERT_EQ(cudaGraphAddChildGraphNode(&child[0], outer, nullptr, 0, graph), cudaSuccess);
  ASSERT_EQ(cudaGraphAddChildGraphNode(&child[1], outer, child, 1, graph), cudaSuccess);
  ASSERT_EQ(cudaGraphClone(&clone, graph), cudaSuccess);
  cudaGraphNode_t cloned = nullptr;
  ASSERT_EQ(cudaGraphNodeFindInClone(&cloned, kernel, clone), cudaSuccess);
  const cudaKernelNodeParams more = adding(value, 10);
  ASSERT_EQ(cudaGraphKernelNodeSetParams(cloned, &more), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, outer, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  EXPECT_EQ(value[0], 2u);
  ASSERT_EQ(cudaGraphInstantiate(&executable, clone, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  EXPECT_EQ(value[0], 12u);
}

TEST_F(GraphTest, AllocatesAndFrees) {
  cudaMemAllocNodeParams allocation{};
  allocation.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.poolProps.location = {cudaMemLocationTypeDevice, 0};
  allocation.bytesize = 4096;
  cudaGraphNode_t node = nullptr, fill = nullptr;
  ASSERT_EQ(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation), cudaSuccess);
  ASSERT_NE(allocation.dptr, nullptr);
  const cudaMemsetParams sevens{allocation.dptr, 0, 7, 1, 4096, 1};
  ASSERT_EQ(cudaGraphAddMemsetNode(&fill, graph, &node, 1, &sevens), cudaSuccess);
  const cudaGraphExec_t executable = instantiate(), freeing = instantiate(cudaGraphInstantiateFlagAutoFreeOnLaunch);
  ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, nullptr), cudaErrorInvalidValue);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "an earlier launch allocated", said());
  EXPECT_EQ(cudaGraphLaunch(freeing, nullptr), cudaSuccess);
  unsigned char last = 0;
  EXPECT_EQ(cudaMemcpy(&last, static_cast<char*>(allocation.dptr) + 4095, 1, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(last, 7);
  EXPECT_EQ(cudaFree(allocation.dptr), cudaSuccess);
  EXPECT_EQ(cudaFree(allocation.dptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
}

TEST_F(GraphTest, RepeatsWhileAKernelSaysSo) {
  Program count_down(Program::with_ptx(kCountDown));
  cudaGraphConditionalHandle handle = 0;
  ASSERT_EQ(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault), cudaSuccess);
  cudaGraphNodeParams loop{};
  loop.type = cudaGraphNodeTypeConditional;
  loop.conditional.handle = handle;
  loop.conditional.type = cudaGraphCondTypeWhile;
  loop.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  ASSERT_EQ(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &loop), cudaSuccess);
  void* both[] = {&value, &handle};
  cudaGraphNodeParams step{};
  step.type = cudaGraphNodeTypeKernel;
  step.kernel.func = count_down.kernel;
  step.kernel.gridDim = step.kernel.blockDim = {1, 1, 1};
  step.kernel.kernelParams = both;
  ASSERT_EQ(cudaGraphAddNode(&node, loop.conditional.phGraph_out[0], nullptr, nullptr, 0, &step), cudaSuccess);
  const cudaKernelNodeParams counting = adding(value + 1, 1);
  ASSERT_EQ(cudaGraphAddKernelNode(&node, loop.conditional.phGraph_out[0], nullptr, 0, &counting), cudaSuccess);
  const cudaGraphExec_t executable = instantiate();
  for (uint32_t launch = 1; launch <= 2; ++launch) {
    value[0] = 5;
    ASSERT_EQ(cudaGraphLaunch(executable, nullptr), cudaSuccess);
    EXPECT_EQ(value[0], 0u);
    EXPECT_EQ(value[1], 5 * launch);
  }
}

TEST_F(GraphTest, KeepsUserObjectsAsLongAsAnyoneRefersToThem) {
  static int destroyed = 0;
  destroyed = 0;
  cudaUserObject_t object = nullptr;
  ASSERT_EQ(cudaUserObjectCreate(
                &object, nullptr, [](void*) { ++destroyed; }, 1, cudaUserObjectNoDestructorSync),
            cudaSuccess);
  ASSERT_EQ(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove), cudaSuccess);
  const cudaGraphExec_t executable = instantiate();
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(destroyed, 0);
  ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(destroyed, 1);
}

TEST_F(GraphTest, TheDriverHasTheSame) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS fill{};
  fill.dst = reinterpret_cast<CUdeviceptr>(value);
  fill.value = 42;
  fill.elementSize = 4;
  fill.width = fill.height = 1;
  CUgraphNode node = nullptr;
  ASSERT_EQ(cuGraphAddMemsetNode(&node, graph, nullptr, 0, &fill, nullptr), CUDA_SUCCESS);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(value);
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(value + 1);
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  ASSERT_EQ(cuGraphAddMemcpyNode(&node, graph, &node, 1, &copy, nullptr), CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(value[1], 42u);
  EXPECT_EQ(cuGraphLaunch(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "stagecraft: cuGraphLaunch:", said());
}

}  // namespace
}  // namespace stagecraft::emulator::runtime
