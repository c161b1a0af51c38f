// What a build without an optimiser (-G) does where an optimised one would not build: the kernel says what is wrong and
// stops.
#include <unistd.h>

#include <string>

#include "harness/device.hpp"
#include "ring_test.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"

namespace stagecraft::tests {
namespace {

enum class Fault { none, drop, overwrite, use_after_release, release_twice };

__global__ void misuse(Fault fault, uint32_t* out) {
  __shared__ uint64_t barriers[4];
  ProducerConsumerPipeline<2> ring{barriers};
  ring.init_mbars(1, 1);
  fence_barrier_init();
  auto stage = ring.acquire_producer();
  arrive(stage.mbar());
  if (fault == Fault::drop) return;
  if (fault == Fault::overwrite) stage = ring.acquire_producer();
  *out = stage.index();
  auto moved = std::move(stage);
  if (fault == Fault::use_after_release) *out = stage.index();
  std::move(moved).release();
  if (fault == Fault::release_twice) std::move(moved).release();
}

/// The kernel's verdict on a fault, in a process of its own, because a trap ends the context.
cudaError_t run(Fault fault) {
  const harness::DeviceBuffer<uint32_t> out(1, "a word");
  misuse<<<1, 1>>>(fault, out.data());
  return cudaDeviceSynchronize();
}

void run_and_leave(Fault fault) {
  dup2(STDERR_FILENO, STDOUT_FILENO);  // where the kernel prints, and a death test does not look
  const cudaError_t error = run(fault);
  fflush(stdout);
  fprintf(stderr, "%s\n", cudaGetErrorName(error));
  _exit(error == cudaSuccess ? 0 : 1);
}

/// What a stopped kernel leaves: an error, and before it what it printed, which a chip may lose with the kernel.
std::string stopped_with(const std::string& fault) {
  const bool emulated = std::string(harness::current_device().name).find("emulated") != std::string::npos;
  return (emulated ? "the ProducerStage acquired at .*stage_faults.cu:[0-9]+ is " + fault + "\n.*" : "") + "cudaError";
}

class StageFaultTest : public testing::Test {
 protected:
  StageFaultTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};
using StageFaultDeathTest = StageFaultTest;

TEST_F(StageFaultDeathTest, RightUseIsSilent) {
  EXPECT_EXIT(run_and_leave(Fault::none), testing::ExitedWithCode(0), "cudaSuccess");
}
TEST_F(StageFaultDeathTest, ADroppedHandleStopsTheKernel) {
  EXPECT_EXIT(run_and_leave(Fault::drop), testing::ExitedWithCode(1), stopped_with("dropped without release[(][)]"));
}
TEST_F(StageFaultDeathTest, AnOverwrittenHandleStopsTheKernel) {
  EXPECT_EXIT(run_and_leave(Fault::overwrite), testing::ExitedWithCode(1),
              stopped_with("dropped without release[(][)]"));
}
TEST_F(StageFaultDeathTest, AMovedFromHandleStopsTheKernel) {
  EXPECT_EXIT(run_and_leave(Fault::use_after_release), testing::ExitedWithCode(1),
              stopped_with("used after its release or move"));
}
TEST_F(StageFaultDeathTest, ASecondReleaseStopsTheKernel) {
  EXPECT_EXIT(run_and_leave(Fault::release_twice), testing::ExitedWithCode(1),
              stopped_with("used after its release or move"));
}

}  // namespace
}  // namespace stagecraft::tests
