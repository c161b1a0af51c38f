// How the lanes of an epilogue's warps use the banks of shared memory: with the fewest wavefronts that 16 bytes per
// lane can take, whichever swizzle a slice has. The emulated GPU counts them, and its report goes to a file.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "epilogue_test.hpp"

namespace stagecraft::tests {
namespace {

/// Where the emulated GPU's counts go; asked for before anything is launched.
const std::string& report_file() {
  static const std::string name = testing::TempDir() + "writer_banks." + std::to_string(getpid()) + ".txt";
  return name;
}
const bool kCounts = setenv("STAGECRAFT_COUNTERS", "bank_conflicts", 1) == 0 &&
                     setenv("STAGECRAFT_REPORT_FILE", report_file().c_str(), 1) == 0;

/// What the emulated GPU reports about a kernel that adds `Element`s to sums, and writes them as `Element`s.
template <typename Accumulator, typename Element>
struct Case {
  using Writer = TileWriter<Accumulator, Element>;
  using Input = EpilogueInputPipeline<Writer, Element, 2>;
  struct Shared {
    typename Writer::Storage c;
    typename Input::Storage input;
    typename Input::BarrierArray barriers;
  };
};

template <typename Case>
__global__ void __launch_bounds__(kEpilogueTestThreads)
    add_input(const __grid_constant__ typename Case::Writer::Map c,
              const __grid_constant__ typename Case::Input::Map input, Sums sums) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<typename Case::Shared*>(dynamic_shared_memory);
  if (threadIdx.x == 0) {
    Case::Input::init_barriers(shared.barriers);
    fence_barrier_init();
  }
  typename Case::Input ring{shared.barriers, shared.input};
  run_epilogue<typename Case::Writer::Accumulator>(
      sums,
      [&](auto& accumulators) {
        typename Case::Writer writer{shared.c, c};
        Epilogue epilogue{AddInput{ring, 1.f}};
        write_tiles(accumulators, sums, writer, epilogue);
        writer.drain();
      },
      [&] {
        for (Tiles<typename Case::Writer::Accumulator> tiles{sums}; tiles.exist(); tiles.next())
          ring.load(input, tiles.place());
        ring.drain();
      });
}

template <typename Accumulator, typename Element>
void expect_fewest_wavefronts() {
  std::remove(report_file().c_str());
  using C = Case<Accumulator, Element>;
  const int rows = WarpPart<Accumulator>::block_rows, columns = Accumulator::columns;
  const auto sums = random_sums(rows, columns, 1, 1);
  const harness::DeviceBuffer<unsigned char> device_sums(sums.bytes, "the sums");
  const Matrices<Element> c(rows, columns, 1);
  const harness::DeviceBuffer<unsigned char> device_c(c.bytes, "C");
  launch_epilogue(add_input<C>, 1, sizeof(typename C::Shared), map_of<typename C::Writer::SliceTile>(device_c, c),
                  map_of<typename C::Input::SliceTile>(device_c, c),
                  Sums{reinterpret_cast<const float*>(device_sums.data()), rows, columns, 1});

  std::ifstream file(report_file());
  if (!file) GTEST_SKIP() << "only the emulated GPU counts wavefronts";
  int writes = 0, reads = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find(".hpp:") == std::string::npos || line.find("requests") == std::string::npos) continue;
    writes += line.find("st.shared") != std::string::npos && line.find("tile_writer.hpp") != std::string::npos;
    reads += line.find("ld.shared") != std::string::npos && line.find("epilogue_input.hpp") != std::string::npos;
    EXPECT_EQ(line.find("without conflicts"), std::string::npos) << line;
  }
  std::remove(report_file().c_str());
  ASSERT_TRUE(kCounts);
  EXPECT_GE(writes, 1);
  EXPECT_GE(reads, 1);
}

TEST(WriterBanksTest, LinesOf128BytesTakeTheFewestWavefronts) {
  expect_fewest_wavefronts<TmemTensor<128, 64>, float>();
  expect_fewest_wavefronts<TmemTensor<128, 64>, __nv_bfloat16>();
  expect_fewest_wavefronts<TmemTensor<64, 64>, __nv_bfloat16>();
  expect_fewest_wavefronts<TmemTensor<128, 128, 2>, __nv_bfloat16>();
}
TEST(WriterBanksTest, NarrowerLinesTakeTheFewestWavefronts) {
  expect_fewest_wavefronts<TmemTensor<128, 32>, __nv_bfloat16>();
  expect_fewest_wavefronts<TmemTensor<128, 16>, __nv_bfloat16>();
  expect_fewest_wavefronts<TmemTensor<64, 8>, __nv_bfloat16>();
}

}  // namespace
}  // namespace stagecraft::tests
