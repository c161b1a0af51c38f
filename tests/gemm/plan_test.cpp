// What a plan refuses, in which words, and what it chooses.
#include "stagecraft/gemm/plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "stagecraft/gemm/chooser.hpp"
#include "stagecraft/gemm/legal.hpp"
#include "verification.hpp"

namespace stagecraft {
namespace {

GemmProblem product(int64_t m, int64_t n, int64_t k) { return {.m = m, .n = n, .k = k}; }

class GemmPlans : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = harness::reason_without_tcgen05(harness::current_device());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  static std::string refusal(const GemmProblem& problem, const GemmRequest& request = {}) {
    const auto plan = GemmPlan::choose(problem, request);
    return plan ? "accepted" : plan.error().message;
  }
};

TEST_F(GemmPlans, RefuseExtentsThatAreTooSmallOrTooLarge) {
  EXPECT_EQ(refusal(product(0, 16, 8)), "M = 0 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal(product(16, -1, 8)), "N = -1 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal(product(16, 16, 0)), "K = 0 is too small. Legal are 1 to 8388480.");
  EXPECT_EQ(refusal(product(INT64_MAX, 16, 8)), "M = 9223372036854775807 is too large. Legal are 1 to 8388480.");
  GemmProblem many = product(16, 16, 8);
  many.batches = 65536;
  EXPECT_EQ(refusal(many), "batches = 65536 is too large. Legal are 1 to 65535.");
}

TEST_F(GemmPlans, RefuseStridesThatTheTensorMapCannotAddress) {
  EXPECT_EQ(refusal(product(16, 16, 7)),
            "the pitch of A, 7 bf16 elements, is not a multiple of 8: the next would start off a 16-byte boundary, "
            "which the tensor map cannot address. Pad it to 8.");
  GemmProblem padded = product(16, 16, 7);
  padded.a.pitch = padded.b.pitch = 8;
  EXPECT_EQ(refusal(padded), "accepted");
  GemmProblem narrow = product(16, 16, 32);
  narrow.b.pitch = 24;
  EXPECT_EQ(refusal(narrow), "the pitch of B, 24 bf16 elements, is less than the 32 of a line.");
  GemmProblem overlapping = product(16, 16, 32);
  overlapping.batches = 2;
  overlapping.d.batch_stride = 255;
  EXPECT_EQ(refusal(overlapping), "the batch stride of D, 255 bf16 elements, is less than the 256 of a matrix.");
  GemmProblem crooked = product(16, 16, 32);
  crooked.batches = 2;
  crooked.a.batch_stride = 513;
  EXPECT_EQ(refusal(crooked),
            "the batch stride of A, 513 bf16 elements, is not a multiple of 8: the next would start off a 16-byte "
            "boundary, which the tensor map cannot address. Pad it to 520.");
  GemmProblem wide = product(16, 16, 32);
  wide.a.pitch = int64_t{1} << 39;
  EXPECT_EQ(refusal(wide),
            "the pitch of A, 549755813888 bf16 elements, is too large: it must be less than 2^40 bytes.");
}

TEST_F(GemmPlans, RefuseTypesThatTheTensorCoreDoesNotHave) {
  GemmProblem mixed = product(16, 16, 32);
  mixed.b.type = DataType::f16;
  EXPECT_EQ(
      refusal(mixed),
      "A of bf16 and B of f16 cannot be multiplied. Legal are bf16, f16, tf32, e4m3, e5m2, mxfp8, mxfp4, nvfp4 and "
      "fp8-blockwise, both the same, and e4m3 with e5m2.");
  GemmProblem transposed = product(16, 16, 32);
  transposed.a = {.type = DataType::nvfp4, .major = Major::mn};
  transposed.b = {.type = DataType::nvfp4};
  EXPECT_EQ(refusal(transposed),
            "A and B of nvfp4 must be contiguous along K: so are the blocks that share a scale factor.");
  GemmProblem odd = product(16, 16, 31);
  odd.a.type = odd.b.type = DataType::mxfp4;
  EXPECT_EQ(refusal(odd), "K = 31 is odd, and two elements of 4 bits share a byte.");
  GemmProblem floats = product(16, 16, 32);
  floats.a.type = floats.b.type = DataType::f32;
  EXPECT_NE(refusal(floats).find("A of f32 and B of f32 cannot be multiplied"), std::string::npos);
  GemmProblem result = product(16, 16, 32);
  result.d.type = DataType::e5m2;
  EXPECT_EQ(refusal(result),
            "a result of e5m2 cannot be stored. Legal are f32, bf16, f16, e4m3, mxfp8, mxfp4 and nvfp4.");
}

TEST_F(GemmPlans, RefuseScalesThatTheKernelCannotUse) {
  GemmProblem blockwise = product(16, 128, 128);
  blockwise.a.type = blockwise.b.type = DataType::fp8_blockwise;
  EXPECT_EQ(refusal(blockwise), "accepted");
  EXPECT_NE(refusal(blockwise, {.swap = true}).find("must not be of fp8-blockwise, because their scales differ"),
            std::string::npos);
  GemmProblem along_m = blockwise;
  along_m.a.major = Major::mn;
  EXPECT_EQ(refusal(along_m),
            "A and B of fp8-blockwise must be contiguous along K: so are the blocks that share a scale factor.");

  const auto plan = GemmPlan::choose(blockwise);
  ASSERT_TRUE(plan) << plan.error().message;
  const harness::DeviceBuffer<unsigned char> memory(1 << 16, "the matrices");
  unsigned char* const at = memory.data();
  const auto message = [&](void* a_scales, void* b_scales) {
    const auto error =
        plan->run({.a = at, .b = at, .d = at, .a_scale_factors = a_scales, .b_scale_factors = b_scales}, nullptr, 0);
    return error ? error->message : "accepted";
  };
  EXPECT_EQ(message(at + 4, at),
            "the address of A's scale factors is not a multiple of 16 bytes, as the tensor map needs.");
  EXPECT_EQ(message(at, at + 2),
            "the address of B's scale factors is not a multiple of 4 bytes, the size of an element.");
  EXPECT_EQ(message(at, nullptr), "the address of B's scale factors is null.");
}

TEST_F(GemmPlans, RefuseABlockScaledResultThatCannotBeAnOperand) {
  GemmProblem odd = product(16, 31, 64);
  odd.d = {.type = DataType::mxfp4, .pitch = 32};
  EXPECT_EQ(refusal(odd), "D has 31 columns, and two elements of 4 bits share a byte. Make it 32.");
  GemmProblem narrow = product(16, 30, 64);
  narrow.d.type = DataType::mxfp4;
  EXPECT_EQ(refusal(narrow),
            "the pitch of D, 30 mxfp4 elements, is not a multiple of 32: the next would start off a 16-byte boundary, "
            "which the tensor map cannot address. Pad it to 32.");
  GemmProblem padded = narrow;
  padded.d.pitch = 32;
  EXPECT_EQ(refusal(padded), "accepted");

  const auto plan = GemmPlan::choose(padded);
  ASSERT_TRUE(plan) << plan.error().message;
  const harness::DeviceBuffer<unsigned char> memory(1 << 16, "the matrices");
  unsigned char* const at = memory.data();
  const auto message = [&](void* d, void* d_scales) {
    const auto error = plan->run({.a = at, .b = at, .d = d, .d_scale_factors = d_scales}, nullptr, 0);
    return error ? error->message : "accepted";
  };
  EXPECT_EQ(message(at + 1, at), "the address of D is not a multiple of 16 bytes, as the tensor map needs.");
  EXPECT_EQ(message(at, nullptr), "the address of D's scale factors is null.");
}

TEST_F(GemmPlans, NameTheKernelsThereAreWhereNoneIsAsRequested) {
  const std::string message = refusal(product(16, 16, 32), {.tile_m = 128, .tile_n = 240});
  EXPECT_NE(message.find("no kernel was compiled for bf16 x bf16 -> bf16 with A contiguous along K and B contiguous "
                         "along K and tile_m 128, tile_n 240. There are:\n"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("\n  tile 128x128, k-group 1, 2 accumulators"), std::string::npos) << message;
  EXPECT_NE(message.find("\nA GemmCompiler compiles others"), std::string::npos) << message;
  GemmProblem halves = product(16, 16, 32);
  halves.a = {.type = DataType::f16, .major = Major::mn};
  halves.b.type = DataType::f16;
  halves.d.type = DataType::f16;
  EXPECT_EQ(refusal(halves),
            "no kernel was compiled for f16 x f16 -> f16 with A contiguous along M and B contiguous along K. There are "
            "kernels for:\n"
            "  f16 x f16 -> f16 with A contiguous along K and B contiguous along K\n"
            "  f16 x f16 -> f16 with A contiguous along K and B contiguous along K, with an epilogue and C\n"
            "  f16 x f16 -> f16 with A contiguous along M and B contiguous along N\n"
            "  f16 x f16 -> f32 with A contiguous along K and B contiguous along K\n"
            "A GemmCompiler compiles others while the program runs.");
  EXPECT_EQ(refusal(product(16, 16, 32), {.blocks = -1}),
            "blocks = -1 is too small. Legal are 0, as many as run at once, and larger.");
  EXPECT_EQ(refusal(product(16, 16, 32), {.split_k = 0}),
            "split_k = 0 is too small. Legal are 1, which divides nothing, and larger.");
  EXPECT_NE(refusal(product(16, 16, 32), {.split_k = 2, .stream_k = true}).find("exclude each other"),
            std::string::npos);
  EXPECT_NE(refusal(product(16, 16, 32), {.schedule = GemmSchedule::one_tile, .stream_k = true})
                .find("it needs a persistent schedule or launch control"),
            std::string::npos);
}

TEST_F(GemmPlans, RefuseNumbersThatAreNoEnumerators) {
  const auto changed = [](auto change) {
    GemmProblem problem = product(100, 16, 32);
    change(problem);
    return refusal(problem);
  };
  EXPECT_EQ(changed([](GemmProblem& problem) { problem.a.type = problem.b.type = DataType{77}; }),
            "a.type = 77 is too large. Legal are 0 to 9.");
  EXPECT_EQ(changed([](GemmProblem& problem) { problem.b.type = DataType{10}; }),
            "b.type = 10 is too large. Legal are 0 to 9.");
  EXPECT_EQ(changed([](GemmProblem& problem) { problem.d.type = DataType{77}; }),
            "d.type = 77 is too large. Legal are 0 to 9.");
  EXPECT_EQ(changed([](GemmProblem& problem) { problem.a.major = Major{9}; }),
            "a.major = 9 is too large. Legal are 0 to 1.");
  EXPECT_EQ(changed([](GemmProblem& problem) { problem.b.major = Major{2}; }),
            "b.major = 2 is too large. Legal are 0 to 1.");
  EXPECT_EQ(changed([](GemmProblem& problem) { problem.fusion.activation = GemmActivation{77}; }),
            "fusion.activation = 77 is too large. Legal are 0 to 5.");
  EXPECT_EQ(refusal(product(16, 16, 32), {.schedule = GemmSchedule{9}}),
            "schedule = 9 is too large. Legal are 0 to 2.");
  EXPECT_EQ(refusal(product(16, 16, 32), {.raster = {.order = RasterOrder{2}}}),
            "raster.order = 2 is too large. Legal are 0 to 1.");
}

TEST_F(GemmPlans, RefuseACompanionOfAnotherType) {
  GemmProblem problem = product(16, 16, 32);
  problem.fusion.c = true;
  problem.c.type = DataType::e4m3;
  EXPECT_EQ(refusal(problem), "C is of e4m3. Legal are f32, bf16 and f16.");
  problem.c.type = DataType::f32;
  EXPECT_NE(refusal(problem).find("B contiguous along K, with an epilogue and C of f32. There are kernels for:"),
            std::string::npos);
  problem.c.type = DataType::bf16;
  EXPECT_EQ(refusal(problem), "accepted");
  problem.c = GemmDestination{.type = DataType::bf16, .pitch = 24};
  EXPECT_EQ(refusal(problem), "accepted");
  problem.fusion = {.second_output = true};
  problem.second.type = DataType::f16;
  EXPECT_EQ(refusal(problem), "the second output is of f16. Legal is bf16.");
  problem.fusion = {.bias = true, .bias_type = DataType::tf32};
  EXPECT_EQ(refusal(problem), "fusion.bias_type = tf32. Legal are f32, bf16 and f16.");
  problem.fusion.bias_type = DataType::bf16;
  EXPECT_NE(refusal(problem).find("with an epilogue, bias of bf16. There are kernels for:"), std::string::npos);
}

TEST_F(GemmPlans, RefuseFallbacksThatAreNone) {
  EXPECT_EQ(refusal(product(16, 16, 32), {.fallback_m = -1, .fallback_n = -1}),
            "fallback_m = -1 is too small. Legal are 0 to 16.");
  EXPECT_EQ(refusal(product(16, 16, 32), {.fallback_n = INT32_MAX}),
            "fallback_n = 2147483647 is too large. Legal are 0 to 16.");
}

TEST_F(GemmPlans, DivideATileIntoNoMorePiecesThanItHas) {
  EXPECT_EQ(refusal(product(4096, 4096, 16), {.split_k = INT32_MAX}), "accepted");
  EXPECT_EQ(
      refusal(product(100000, 100000, 8388480), {.tile_m = 128, .tile_n = 128, .cta_group = 1, .split_k = INT32_MAX}),
      "the result has 611524 tiles of 128x128 in 131070 pieces each, which an index of 32 bits cannot count. Compute "
      "it in parts.");
}

TEST_F(GemmPlans, SayWhatIsLegalWhereNoKernelCanBeCompiled) {
  const auto plan = GemmPlan::choose(product(16, 16, 32), {.tile_m = -5});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().failure, GemmFailure::bad_configuration);
  EXPECT_EQ(plan.error().message, "tile_m must be 64 or 128 for one block.");
}

TEST_F(GemmPlans, RefuseAddressesAndStartNothing) {
  const auto plan = GemmPlan::choose(product(16, 16, 32));
  ASSERT_TRUE(plan);
  harness::DeviceBuffer<unsigned char> memory(4096, "the matrices");
  memory.poison();
  unsigned char* const at = memory.data();
  const auto message = [&](const GemmArguments& arguments) {
    const auto error = plan->run(arguments, nullptr, 0);
    return error ? error->message : "accepted";
  };
  EXPECT_EQ(message({.a = nullptr, .b = at, .d = at}), "the address of A is null.");
  EXPECT_EQ(message({.a = at, .b = at + 8, .d = at}),
            "the address of B is not a multiple of 16 bytes, as the tensor map needs.");
  EXPECT_EQ(message({.a = at, .b = at, .d = at + 1}),
            "the address of D is not a multiple of 2 bytes, the size of an element.");
  harness::check(cudaDeviceSynchronize(), "finish");
  for (const unsigned char byte : memory.to_host()) ASSERT_EQ(byte, 0xff);
}

TEST_F(GemmPlans, RefuseWhatAnEpilogueMisses) {
  GemmProblem odd = product(16, 15, 32);
  odd.fusion.activation = GemmActivation::gated_silu;
  EXPECT_EQ(refusal(odd), "N = 15 is odd, and a gated activation makes one column of two.");
  GemmProblem exchanged = product(16, 16, 32);
  exchanged.fusion.activation = GemmActivation::gated_silu;
  EXPECT_NE(refusal(exchanged, {.swap = true}).find("A and B cannot be exchanged with a gated activation"),
            std::string::npos);
  GemmProblem with_c = product(16, 15, 32);
  with_c.fusion.c = true;
  EXPECT_NE(refusal(with_c).find("and C at any pitch. There are:\n  tile 128x32, k-group 1, 2 accumulators, "
                                 "A and B exchanged\n"),
            std::string::npos);
  with_c.c.pitch = 14;
  EXPECT_EQ(refusal(with_c), "the pitch of C, 14 bf16 elements, is less than the 15 of a line.");

  GemmProblem biased = product(16, 16, 32);
  biased.fusion = {.bias = true};
  const auto plan = GemmPlan::choose(biased);
  ASSERT_TRUE(plan) << plan.error().message;
  const harness::DeviceBuffer<unsigned char> memory(4096, "the matrices");
  const auto error = plan->run({.a = memory.data(), .b = memory.data(), .d = memory.data()}, nullptr, 0);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "the address of the bias is null.");
  const harness::DeviceBuffer<float> factor(1, "a factor");
  const auto unexpected = plan->run({.a = memory.data(),
                                     .b = memory.data(),
                                     .d = memory.data(),
                                     .bias = memory.data(),
                                     .device_alpha = factor.data()},
                                    nullptr, 0);
  ASSERT_TRUE(unexpected);
  EXPECT_EQ(unexpected->message, "device_alpha needs a problem with fusion.device_factors.");
}

// As BLAS does: C may hold anything, or be nowhere.
TEST_F(GemmPlans, DoNotReadCWhereBetaIsZero) {
  const int64_t m = 40, n = 64, k = 72;
  const harness::DeviceBuffer<__nv_bfloat16> ones(std::vector<__nv_bfloat16>(n * k, __nv_bfloat16(1.0f)), "ones");
  const harness::DeviceBuffer<float> nans(std::vector<float>(m * n, NAN), "C");
  for (const bool swap : {false, true}) {
    GemmProblem problem = product(m, n, k);
    problem.d.type = DataType::f32;
    problem.fusion.c = true;
    const auto plan = GemmPlan::choose(problem, {.swap = swap});
    ASSERT_TRUE(plan) << plan.error().message;
    for (const float* const c : {static_cast<const float*>(nans.data()), static_cast<const float*>(nullptr)}) {
      harness::DeviceBuffer<float> d(m * n, "D");
      const auto error =
          plan->run({.a = ones.data(), .b = ones.data(), .d = d.data(), .c = c, .alpha = 2, .beta = 0}, nullptr, 0);
      ASSERT_FALSE(error) << error->message;
      for (const float element : d.to_host()) ASSERT_EQ(element, 2.0f * k);
    }
    const auto missing = plan->run({.a = ones.data(), .b = ones.data(), .d = ones.data(), .beta = 1e-40f}, nullptr, 0);
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->message, "the address of C is null.");
  }
}

TEST_F(GemmPlans, TakeCInPlaceOfD) {
  const int64_t m = 200, n = 136, k = 104;
  const harness::DeviceBuffer<__nv_bfloat16> ones(std::vector<__nv_bfloat16>(m * k, __nv_bfloat16(1.0f)), "ones");
  for (const GemmRequest& request : {GemmRequest{}, {.schedule = GemmSchedule::launch_control, .split_k = 2}}) {
    GemmProblem problem = product(m, n, k);
    problem.fusion.c = true;
    const auto plan = GemmPlan::choose(problem, request);
    ASSERT_TRUE(plan) << plan.error().message;
    std::vector<__nv_bfloat16> there(m * n);
    for (int64_t i = 0; i < m * n; ++i) there[i] = __nv_bfloat16(static_cast<float>(i % 61));
    harness::DeviceBuffer<__nv_bfloat16> d(there, "C and D");
    harness::DeviceBuffer<unsigned char> workspace(plan->workspace_bytes() + 16, "the workspace");
    const auto error = plan->run({.a = ones.data(), .b = ones.data(), .d = d.data(), .c = d.data(), .beta = 2},
                                 workspace.data(), plan->workspace_bytes());
    ASSERT_FALSE(error) << error->message;
    const auto found = d.to_host();
    for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(static_cast<float>(found[i]), static_cast<float>(k + 2 * (i % 61)));
  }
}

TEST_F(GemmPlans, RefuseGroupsThatDoNotAddUp) {
  GemmProblem problem = product(100, 16, 32);
  problem.groups.rows = {60, 0, 30};
  EXPECT_EQ(refusal(problem), "the groups have 90 rows together, and M = 100: they must add up to M.");
  problem.groups.rows = {60, -10, 50};
  EXPECT_EQ(refusal(problem), "groups.rows[1] = -10 is too small. Legal are 0 to 8388480.");
  problem.groups.rows = {INT64_MAX, INT64_MAX, 102};  // whose sum wraps around to M
  EXPECT_EQ(refusal(problem), "groups.rows[0] = 9223372036854775807 is too large. Legal are 0 to 8388480.");
  problem.groups.rows = {int64_t{1} << 32, 100 - (int64_t{1} << 32)};
  EXPECT_EQ(refusal(problem), "groups.rows[0] = 4294967296 is too large. Legal are 0 to 8388480.");
  problem.groups = {.masked = -3};
  EXPECT_EQ(refusal(problem), "groups.masked = -3 is too small. Legal are 0 to 256.");
  problem.groups = {};
  problem.groups.rows = {60, 0, 40};
  EXPECT_EQ(refusal(problem), "accepted");
  problem.a.major = Major::mn;
  problem.a.pitch = 104;
  EXPECT_EQ(
      refusal(problem),
      "a group begins at row 60, which is not a multiple of 8: with A contiguous along M, its bf16 elements would "
      "start off a 16-byte boundary, which the tensor map cannot address. Pad the group before it, or let A be "
      "contiguous along K.");
  problem.a = {};
  EXPECT_NE(refusal(problem, {.stream_k = true}).find("groups are divided by split_k"), std::string::npos);
  EXPECT_NE(refusal(problem, {.swap = true}).find("A and B of groups cannot be exchanged"), std::string::npos);
  problem.batches = 2;
  EXPECT_EQ(refusal(problem), "a problem has batches or groups, not both.");
  problem.batches = 1;
  problem.groups.masked = 2;
  EXPECT_EQ(refusal(problem), "groups are either contiguous or masked.");
  problem.groups = {.masked = 257};
  EXPECT_EQ(refusal(problem), "groups.masked = 257 is too large. Legal are 0 to 256.");
  problem.groups = {.rows = std::vector<int64_t>(257, 1)};
  EXPECT_EQ(refusal(problem), "the number of groups = 257 is too large. Legal are 1 to 256.");
}

TEST_F(GemmPlans, RefuseAWorkspaceThatIsTooSmall) {
  const auto plan = GemmPlan::choose(product(128, 128, 1024), {.split_k = 2});
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_GT(plan->workspace_bytes(), 0u);
  const harness::DeviceBuffer<unsigned char> memory(1 << 20, "the matrices");
  const GemmArguments arguments{.a = memory.data(), .b = memory.data(), .d = memory.data()};
  const auto too_small = plan->run(arguments, memory.data(), plan->workspace_bytes() - 1);
  ASSERT_TRUE(too_small);
  EXPECT_EQ(too_small->failure, GemmFailure::bad_workspace);
  const std::string bytes = std::to_string(plan->workspace_bytes());
  EXPECT_EQ(too_small->message, "the workspace has " + std::to_string(plan->workspace_bytes() - 1) +
                                    " bytes, and the plan needs " + bytes + ": allocate plan.workspace_bytes().");
  const auto missing = plan->run(arguments, nullptr, plan->workspace_bytes());
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->message, "the address of the workspace is null.");
}

// A graph replays the launch, with what the matrices hold then.
TEST_F(GemmPlans, RunOnAnyStreamAndInsideOfAGraph) {
  const int64_t n = 128;
  const auto plan = GemmPlan::choose({.m = n, .n = n, .k = n},
                                     {.schedule = GemmSchedule::persistent, .split_k = 2, .dependent = true});
  ASSERT_TRUE(plan) << plan.error().message;
  const harness::DeviceBuffer<__nv_bfloat16> ones(std::vector<__nv_bfloat16>(n * n, __nv_bfloat16(1.0f)), "ones");
  harness::DeviceBuffer<__nv_bfloat16> product(n * n, "the product");
  harness::DeviceBuffer<unsigned char> workspace(plan->workspace_bytes() + 16, "the workspace");
  workspace.poison();

  cudaStream_t stream;
  harness::check(cudaStreamCreate(&stream), "create a stream");
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  harness::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin to capture");
  const auto error = plan->run({.a = ones.data(), .b = ones.data(), .d = product.data()}, workspace.data(),
                               plan->workspace_bytes(), stream);
  harness::check(cudaStreamEndCapture(stream, &graph), "end the capture");
  ASSERT_FALSE(error) << error->message;
  harness::check(cudaGraphInstantiate(&executable, graph, 0), "instantiate the graph");
  for (int i = 0; i < 2; ++i) {
    product.poison();
    harness::check(cudaGraphLaunch(executable, stream), "launch the graph");
    harness::check(cudaStreamSynchronize(stream), "finish the graph");
    for (const __nv_bfloat16 element : product.to_host()) ASSERT_EQ(static_cast<float>(element), 128.0f);
  }
  harness::check(cudaGraphExecDestroy(executable), "destroy the graph");
  harness::check(cudaGraphDestroy(graph), "destroy the graph");
  harness::check(cudaStreamDestroy(stream), "destroy the stream");
}

// The sum of the pieces does not depend on who arrives last.
TEST_F(GemmPlans, GiveTheSameBitsHoweverManyBlocksShareTheWork) {
  const int64_t m = 200, n = 136, k = 2000;
  harness::Random random(5);
  std::vector<__nv_bfloat16> values(m * k);
  for (auto& value : values) value = __nv_bfloat16(random.uniform());
  const harness::DeviceBuffer<__nv_bfloat16> matrix(values, "A and B");
  const auto run = [&](int blocks) {
    const auto plan = GemmPlan::choose(product(m, n, k), {.split_k = 5, .blocks = blocks});
    if (!plan) throw std::runtime_error(plan.error().message);
    harness::DeviceBuffer<__nv_bfloat16> d(m * n, "D");
    harness::DeviceBuffer<unsigned char> workspace(plan->workspace_bytes(), "the workspace");
    const auto error =
        plan->run({.a = matrix.data(), .b = matrix.data(), .d = d.data()}, workspace.data(), plan->workspace_bytes());
    if (error) throw std::runtime_error(error->message);
    std::vector<__nv_bfloat16> result = d.to_host();
    return std::vector<uint16_t>(reinterpret_cast<uint16_t*>(result.data()),
                                 reinterpret_cast<uint16_t*>(result.data()) + result.size());
  };
  const auto by_all = run(0);
  EXPECT_EQ(by_all, run(1));
  EXPECT_EQ(by_all, run(7));
}

TEST_F(GemmPlans, GoThroughTheOneCallToo) {
  const auto error = gemm(product(16, 16, 0), {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->failure, GemmFailure::bad_problem);
}

TEST(GemmChooser, TakesTheTileWithTheFewestCyclesAndSaysWhy) {
  const GemmConfig candidates[] = {{.tile_n = 256}, {.tile_n = 128}, {.tile_n = 64}};
  // 4 blocks: 128 x 512 is two tiles of 256 columns, four of 128, eight of 64 in two rounds.
  const auto choice = choose_kernel(candidates, product(128, 512, 640), {}, 4);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->index, 1u);
  EXPECT_EQ(choice->reasons.back(),
            "chosen: tile 128x128, k-group 1, 2 accumulators, because it takes the fewest cycles; the runner-up, tile "
            "128x64, k-group 1, 2 accumulators, takes 50 % more.");
}

TEST(GemmChooser, TakesTheFewestBytesWhereTheCyclesAreAboutEqual) {
  const GemmConfig candidates[] = {{}, {.tile_m = 256, .cta_group = 2, .cluster_m = 2}};
  const auto choice = choose_kernel(candidates, product(256, 256, 64), {}, 4);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->index, 1u);
  EXPECT_EQ(choice->reasons.back(),
            "chosen: tile 256x128 of a pair, cluster 2x1, k-group 1, 2 accumulators, because of the 2 with the fewest "
            "cycles, give or take a tenth, it loads the fewest bytes; the runner-up, tile 128x128, k-group 1, 2 "
            "accumulators, loads 33 % more.");
}

// 9 rows fill a small part of 128, but more than half of 16.
TEST(GemmChooser, ExchangesAAndBForFewRowsUnlessTheRequestSaysMore) {
  const GemmConfig candidates[] = {{}, {.tile_m = 64, .tile_n = 16, .transposes_d = true}};
  const auto chosen = [&](int64_t m, int64_t n, const GemmRequest& request, const GemmFusion& fusion = {}) {
    GemmProblem problem = product(m, n, 640);
    problem.fusion = fusion;
    const auto choice = choose_kernel(candidates, problem, request, 148);
    return choice ? std::to_string(choice->index) + ": " + choice->reasons.back() : choice.error().message;
  };
  EXPECT_EQ(
      chosen(9, 4096, {}),
      "1: A and B are exchanged, because D has only 9 rows: a tile has 64 or more rows, but as few as 16 columns.");
  EXPECT_EQ(chosen(9, 4096, {.swap = false}).front(), '0');
  EXPECT_EQ(chosen(9, 4096, {.tile_m = 128}).front(), '0');
  EXPECT_EQ(chosen(4096, 9, {}).front(), '0');
  EXPECT_EQ(chosen(4096, 9, {.swap = true}).front(), '1');
  EXPECT_EQ(chosen(9, 4096, {}, {.bias = true}),
            "no kernel was compiled for bf16 x bf16 -> bf16 with A contiguous along K and B contiguous along K, with "
            "an epilogue. There are kernels for:\n"
            "  bf16 x bf16 -> bf16 with A contiguous along K and B contiguous along K\n"
            "A GemmCompiler compiles others while the program runs.");
}

TEST(GemmChooser, DerivesWhatTheRequestLeavesOut) {
  const auto derived = [](const GemmRequest& request, int64_t n = 512) {
    return describe(derive_config(product(512, n, 512), request));
  };
  EXPECT_EQ(derived({.tile_n = 48}), "bf16 x bf16 -> bf16, tn, tile 128x48, k-group 1, 2 accumulators");
  EXPECT_EQ(derived({.tile_m = 256, .split_k = 2}),
            "bf16 x bf16 -> bf16, tn, tile 256x128 of a pair, cluster 2x1, k-group 1, 2 accumulators, divided along K");
  EXPECT_EQ(derived({.cluster_m = 3}), "bf16 x bf16 -> bf16, tn, tile 128x96, cluster 3x1, k-group 1, 2 accumulators");
  EXPECT_EQ(derived({.k_group = 8}, 20), "bf16 x bf16 -> bf16, tn, tile 128x32, k-group 8, 2 accumulators");
}

TEST(GemmChooser, DerivesALegalKernelForEveryPairOfTypes) {
  for (const DataType a :
       {DataType::bf16, DataType::tf32, DataType::e4m3, DataType::mxfp8, DataType::nvfp4, DataType::fp8_blockwise}) {
    for (const DataType d : {DataType::f32, DataType::bf16, DataType::e4m3, DataType::mxfp8, DataType::mxfp4}) {
      for (const DataType c : {DataType::f32, DataType::f16}) {
        for (const GemmActivation activation : {GemmActivation::relu, GemmActivation::gated_silu}) {
          for (const int64_t n : {16, 128, 1000}) {
            GemmProblem problem = product(300, n, 256);
            problem.a.type = problem.b.type = a;
            problem.d.type = d;
            problem.c = GemmDestination{.type = c, .pitch = 1024};
            problem.fusion = {.c = true, .activation = activation};
            for (const int cta_group : {1, 2}) {
              const GemmConfig config = derive_config(problem, {.cta_group = cta_group});
              EXPECT_EQ(why_illegal(config), nullptr) << describe(config);
            }
          }
        }
      }
    }
  }
}

TEST(GemmChooser, CountsWhatTheBusiestBlockMultiplies) {
  const GemmEstimate found = estimate({.tile_m = 128, .tile_n = 64}, product(300, 200, 130), 5);
  EXPECT_EQ(found.tiles, 12);
  EXPECT_EQ(found.rounds, 3);
  EXPECT_EQ(found.mma_cycles, 3 * 3 * 4 * 48);
  EXPECT_EQ(found.operand_bytes, (300 * 4 + 200 * 3) * 130 * 2);  // A for each column of tiles, B for each row
}

// What is verified is not what the plan computes, as if the kernel had the mistake.
TEST_F(GemmPlans, AreVerifiedAndTheMistakeInAWrongResultIsNamed) {
  const auto said = [](bool bias, auto change) {
    const GemmCase run{.problem = {.m = 256, .n = 256, .k = 256, .fusion = {.bias = bias}}};
    GemmProblem problem = with_strides(run.problem);
    change(problem);
    const auto plan = GemmPlan::choose(problem, run.request);
    return plan ? verify(run, *plan).mistake : plan.error().message;
  };
  EXPECT_EQ(said(true, [](GemmProblem&) {}), "");
  EXPECT_EQ(said(true, [](GemmProblem& problem) { problem.k -= 64; }),
            "D lacks the last k-tile. Does the loop over K end one turn early?\n");
  EXPECT_EQ(said(true, [](GemmProblem& problem) { problem.fusion.bias = false; }),
            "D is the product itself, of which nothing more is made. Are the operations applied?\n");
  EXPECT_EQ(
      said(false, [](GemmProblem& problem) { problem.a.major = Major::mn; }),
      "A is read as if its columns were contiguous, 256 elements long, and its rows are. Which index runs first?\n");
}

}  // namespace
}  // namespace stagecraft
