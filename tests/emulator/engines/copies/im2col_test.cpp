// Columns of pixels (im2col): maps, loads, stores and reductions, against a reference that lists the pixels of a box.
#include <array>
#include <random>

#include "emulator/engines/copies/tensor_map.hpp"
#include "fixtures/kernel_run.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// A tensor of 32-bit elements and what a column is to be of it. Extents and strides are of C, W, H, D, N, as far as
/// the rank goes.
struct Column {
  int rank = 4;
  std::array<uint64_t, 5> extents{8, 4, 4, 2, 1};
  std::array<int, 3> lower{}, upper{};
  uint32_t channels = 8, pixels = 16;
  std::array<uint32_t, 5> steps{1, 1, 1, 1, 1};
  int swizzle = 0, type = 2, fill = 0;
  std::array<int, 5> at{};
  std::array<int, 3> offsets{};
  TensorMode mode = TensorMode::pixels;

  uint64_t pitch() const { return extents[0] * 4 + 16; }
  uint64_t stride(int dimension) const {
    uint64_t bytes = pitch();
    for (int i = 1; i < dimension; ++i) bytes *= extents[i];
    return bytes;
  }
  uint64_t words() const { return stride(rank) / 4; }
  uint32_t span() const { return swizzle == 0 ? channels * 4 : 16u << std::min(swizzle, 3); }
  /// Dimensions with corners: all but C and N, or W alone.
  int corners() const { return mode == TensorMode::pixels ? rank - 2 : 1; }

  EncodeResult encode(TensorMap* map, uint64_t address, uint32_t major = 10) const {
    std::array<uint64_t, 4> strides{};
    for (int i = 1; i < rank; ++i) strides[i - 1] = stride(i);
    return encode_im2col({{map, type, static_cast<uint32_t>(rank), address, extents.data(), strides.data(), nullptr,
                           steps.data(), 0, swizzle, 0, fill},
                          lower.data(),
                          upper.data(),
                          channels,
                          pixels,
                          mode},
                         major);
  }

  /// Where each pixel of the column is in the tensor, in words, or -1 outside of it. This counts through the positions
  /// of the box from the first one on, by division.
  std::vector<int64_t> places() const {
    std::vector<std::vector<int64_t>> positions(4);
    std::array<int64_t, 4> first{};
    for (int i = 0; i < corners(); ++i) {
      const int64_t end = static_cast<int64_t>(extents[i + 1]) - 1 + upper[i] + offsets[i];
      for (int64_t x = lower[i] + offsets[i]; x <= end; x += steps[i + 1]) positions[i].push_back(x);
      first[i] = (at[i + 1] - lower[i]) / static_cast<int>(steps[i + 1]);
    }
    std::vector<int64_t> found;
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      int64_t carried = pixel, word = 0;
      bool inside = true;
      for (int i = 1; i < rank; ++i) {
        int64_t x = at[i];
        if (i <= corners()) {
          const auto& of_dimension = positions[i - 1];
          const auto size = static_cast<int64_t>(of_dimension.size());
          carried += first[i - 1];
          x = of_dimension[carried % size];
          carried /= size;
        } else if (i == rank - 1) {
          x += carried * steps[i];
        }
        inside = inside && x >= 0 && x < static_cast<int64_t>(extents[i]);
        word += x * static_cast<int64_t>(stride(i) / 4);
      }
      found.push_back(inside ? word : -1);
    }
    return found;
  }

  /// The word of shared memory with a channel of a pixel.
  uint32_t shared_word(uint32_t pixel, uint32_t channel) const {
    const uint32_t linear = pixel * span() + channel * 4;
    const uint32_t flips = swizzle == 0 ? 0 : linear >> 3 & (span() - 1) & 0x70;
    return (linear ^ flips) / 4;
  }

  std::string coordinates() const {
    std::string text = std::to_string(at[0]);
    for (int i = 1; i < rank; ++i) text += ", " + std::to_string(at[i]);
    return "{" + text + "}";
  }
  std::string info() const {
    if (mode != TensorMode::pixels) return "{0, " + std::to_string(offsets[0]) + "}";
    std::string text = std::to_string(offsets[0]);
    for (int i = 1; i < corners(); ++i) text += ", " + std::to_string(offsets[i]);
    return "{" + text + "}";
  }
  std::string name() const {
    return mode == TensorMode::pixels ? "im2col" : mode == TensorMode::wide ? "im2col::w" : "im2col::w::128";
  }
  std::string load(const std::string& more = {}, const std::string& operands = {}) const {
    return "cp.async.bulk.tensor." + std::to_string(rank) + "d.shared::cluster.global." + name() +
           ".mbarrier::complete_tx::bytes" + more + " [tile], [%rd1, " + coordinates() + "], [bar], " + info() +
           operands + ";\n";
  }
};

class Im2colTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kUntouched = 0xeeeeeeee;

  /// Puts a map of the tensor at `address` into device memory.
  uint64_t map(const Column& column, uint64_t address) {
    alignas(64) TensorMap map;
    const EncodeResult result = column.encode(&map, address);
    EXPECT_EQ(result.code, kEncodeSuccess) << result.message;
    EXPECT_EQ(find_flaw(map), "");
    return kernel_.upload(std::vector<TensorMap>{map});
  }
  uint64_t tensor(const Column& column) {
    values_.resize(column.words());
    for (uint32_t& value : values_) value = static_cast<uint32_t>(random_());
    return kernel_.upload(values_);
  }
  /// Fills the tile with a pattern, runs `copy` after the barrier expects its bytes, and copies the tile to out.
  LaunchResult load(const Column& column, const std::string& copy, uint64_t map, KernelRun::Shape shape = {}) {
    const uint32_t bytes = column.pixels * column.span() + 16;
    std::memset(kernel_.out(), 0xee, KernelRun::kOutBytes);
    return kernel_.run(R"(
      mov.u32 %r1, %cluster_ctarank;
      setp.eq.u32 %p2, %r1, 0;
      mul.wide.u32 %rd10, %r1, 32768;
      add.s64 %rd11, %rd0, %rd10;
      mbarrier.init.shared::cta.b64 [bar], 2;
      fence.mbarrier_init.release.cluster;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
                           std::to_string(bytes) + R"(;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd11], )" +
                           std::to_string(bytes) +
                           R"(, [bar];
      mbarrier.arrive.shared::cta.b64 _, [bar];
    filled:
      mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
      @!%p1 bra filled;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
                           std::to_string(column.pixels * column.channels * 4) + R"(;
      mbarrier.arrive.shared::cta.b64 _, [bar];
      barrier.cluster.arrive;
      barrier.cluster.wait;
      mov.b16 %h1, 3;
      mov.b64 %rd12, 0;
      @%p2 )" + copy + R"(
    again:
      mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 1;
      @!%p1 bra again;
      cp.async.bulk.global.shared::cta.bulk_group [%rd11], [tile], )" +
                           std::to_string(bytes) + R"(;
      cp.async.bulk.commit_group;
      cp.async.bulk.wait_group 0;
      barrier.cluster.arrive;
      barrier.cluster.wait;)",
                       {map}, shape);
  }
  void expect_column(const Column& column, uint32_t block = 0) {
    std::vector<uint32_t> expected(column.pixels * column.span() / 4 + 4, kUntouched);
    const std::vector<int64_t> places = column.places();
    for (uint32_t pixel = 0; pixel < column.pixels; ++pixel) {
      for (uint32_t c = 0; c < column.channels; ++c) {
        const int64_t channel = column.at[0] + static_cast<int64_t>(c);
        const bool inside = places[pixel] >= 0 && channel >= 0 && channel < static_cast<int64_t>(column.extents[0]);
        expected[column.shared_word(pixel, c)] = inside ? values_[static_cast<size_t>(places[pixel] + channel)]
                                                 : column.fill != 0 ? 0x7ff77ff7
                                                                    : 0;
      }
    }
    const uint32_t* const out = kernel_.out() + block * 8192;
    EXPECT_EQ(std::vector<uint32_t>(out, out + expected.size()), expected);
  }

  /// Stores a column of `values` from the tile to a tensor of zeros, and returns the tensor.
  std::vector<uint32_t> stored(const Column& column, const std::string& copy, const std::vector<uint32_t>& values) {
    const uint64_t target = kernel_.upload(std::vector<uint32_t>(column.words(), 5));
    expect_success(kernel_.run(R"(
      mbarrier.init.shared::cta.b64 [bar], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], )" +
                                   std::to_string(values.size() * 4) + R"(;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd2], )" +
                                   std::to_string(values.size() * 4) + R"(, [bar];
    again:
      mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
      @!%p1 bra again;
    )" + copy + "\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
                               {map(column, target), kernel_.upload(values)}));
    const uint32_t* const found = kernel_.host<uint32_t>(target);
    return {found, found + column.words()};
  }

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  Column draw() {
    Column column;
    column.rank = pick(3, 5);
    column.channels = 4u << pick(0, 2);
    column.swizzle = column.channels == 4 ? pick(0, 3) : column.channels == 8 ? 2 * pick(0, 1) : 3 * pick(0, 1);
    if (column.channels == 8 && pick(0, 1) != 0) column.swizzle = 1;
    column.extents = {column.channels + 4u * static_cast<uint32_t>(pick(0, 2)), 1, 1, 1, 1};
    column.at[0] = 4 * pick(-1, 2);
    column.pixels = static_cast<uint32_t>(pick(1, 60));
    if (pick(0, 3) == 0) column.type = 7, column.fill = 1;
    for (int i = 0; i < column.corners(); ++i) {
      column.extents[i + 1] = static_cast<uint64_t>(pick(2, 5));
      column.lower[i] = pick(-2, 1);
      column.upper[i] = pick(-1, 1);
      column.steps[i + 1] = static_cast<uint32_t>(pick(1, 3));
      const int size = static_cast<int>(column.extents[i + 1]) + column.upper[i] - column.lower[i];
      if (size < 1) return draw();
      column.at[i + 1] = column.lower[i] + static_cast<int>(column.steps[i + 1]) *
                                               pick(0, (size - 1) / static_cast<int>(column.steps[i + 1]));
      column.offsets[i] = pick(0, 3);
    }
    column.extents[column.rank - 1] = static_cast<uint64_t>(pick(1, 3));
    column.steps[column.rank - 1] = static_cast<uint32_t>(pick(1, 2));
    column.at[column.rank - 1] = pick(-1, 1);
    return column;
  }

  KernelRun kernel_;
  std::mt19937 random_{20261127};
  std::vector<uint32_t> values_;
};

TEST_F(Im2colTest, LoadsRandomColumns) {
  for (int round = 0; round < 60; ++round) {
    const Column column = draw();
    SCOPED_TRACE(column.load());
    expect_success(load(column, column.load(), map(column, tensor(column))));
    expect_column(column);
    if (HasFailure()) return;
  }
}

TEST_F(Im2colTest, WalksThroughTheBoxOfEachImage) {
  // The box of the second example of PTX ISA, "im2col mode", with other sizes: it moves with the offsets.
  Column column{.extents = {8, 4, 4, 2, 1}, .upper = {-2, -2}, .pixels = 8, .at = {0, 1, 1, 0}, .offsets = {2, 1}};
  EXPECT_EQ(column.places(), (std::vector<int64_t>{11 * 12, 22 * 12, 23 * 12, 26 * 12, 27 * 12, -1, -1, -1}));
  expect_success(load(column, column.load(), map(column, tensor(column))));
  expect_column(column);
}

TEST_F(Im2colTest, VisitsThePixelsThatAnH200Visits) {
  // Numbers of the pixels in the tensor as an H200 loaded them, "." outside of it (2026-11-27).
  struct Case {
    Column column;
    const char* pixels;
  };
  const Case cases[] = {
      {{.lower = {-1, -1}, .upper = {-1, -1}, .pixels = 20, .at = {0, -1, -1, 0}},
       ". . . . . 0 1 2 . 4 5 6 . 8 9 10 . . . . "},
      {{.lower = {-1, -1}, .upper = {-1, -1}, .pixels = 20, .at = {0, -1, -1, 0}, .offsets = {2, 1}},
       "1 2 3 . 5 6 7 . 9 10 11 . 13 14 15 . 17 18 19 . "},
      {{.extents = {8, 5, 3, 2}, .lower = {-1, 0}, .upper = {0, -1}, .pixels = 24, .at = {0, -1, 0, 0}},
       ". 0 1 2 3 4 . 5 6 7 8 9 . 15 16 17 18 19 . 20 21 22 23 24 "},
      {{.extents = {8, 5, 4, 2}, .upper = {-2, -1}, .pixels = 24, .offsets = {2, 0}},
       "2 3 4 7 8 9 12 13 14 22 23 24 27 28 29 32 33 34 . . . . . . "},
      {{.extents = {8, 6, 5, 2}, .lower = {-1, -1}, .pixels = 24, .steps = {1, 2, 2, 1}, .at = {0, -1, -1, 0}},
       ". . . . . 7 9 11 . 19 21 23 . . . . . 37 39 41 . 49 51 53 "},
      {{.extents = {8, 7, 5, 2}, .pixels = 24, .steps = {1, 3, 2, 1}, .at = {0, 1, 1, 0}},
       "8 11 21 24 27 35 38 41 49 52 55 63 66 69 . . . . . . . . . . "},
      {{.extents = {8, 3, 2, 4}, .pixels = 24, .steps = {1, 1, 1, 2}},
       "0 1 2 3 4 5 12 13 14 15 16 17 . . . . . . . . . . . . "},
      {{.rank = 3, .extents = {8, 7, 3}, .pixels = 12, .steps = {1, 2, 1}, .at = {0, 2, 0}, .offsets = {1}},
       "3 5 . 8 10 12 . 15 17 19 . . "},
      {{.rank = 5,
        .extents = {8, 3, 3, 3, 2},
        .lower = {-1, -1, -1},
        .upper = {-1, -1, -1},
        .pixels = 32,
        .at = {0, -1, 0, 0, 0},
        .offsets = {1, 2, 1}},
       "15 16 17 . . . 21 22 23 24 25 26 . . . 30 31 32 33 34 35 . . . 39 40 41 42 43 44 . . "},
      {{.extents = {8, 3, 2, 2}, .pixels = 12, .at = {0, 0, 0, -1}}, ". . . . . . 0 1 2 3 4 5 "},
  };
  for (const Case& each : cases) {
    const uint64_t of_tensor = map(each.column, tensor(each.column));
    const uint64_t words = each.column.pitch() / 4;
    for (size_t i = 0; i < values_.size(); ++i) {  // the first channel is the number of the pixel plus 1
      kernel_.host<uint32_t>(kernel_.host<TensorMap>(of_tensor)->address)[i] = static_cast<uint32_t>(i / words) + 1;
    }
    expect_success(load(each.column, each.column.load(), of_tensor));
    std::string found;
    for (uint32_t pixel = 0; pixel < each.column.pixels; ++pixel) {
      const uint32_t first = kernel_.out()[each.column.shared_word(pixel, 0)];
      found += (first == 0 ? "." : std::to_string(first - 1)) + " ";
    }
    EXPECT_EQ(found, each.pixels);
  }
}

TEST_F(Im2colTest, LoadsForTheWholeClusterAndWithAHint) {
  Column column{.lower = {-1, -1}, .upper = {0, 1}, .pixels = 20, .at = {0, -1, 0, 0}, .offsets = {1, 0}};
  const uint64_t of_tensor = map(column, tensor(column));
  expect_success(load(column, column.load(".multicast::cluster.L2::cache_hint", ", %h1, %rd12"), of_tensor, {2, 1, 2}));
  expect_column(column, 0);
  expect_column(column, 1);
  expect_success(load(column,
                      "cp.async.bulk.prefetch.tensor.4d.L2.global.im2col [%rd1, " + column.coordinates() + "], " +
                          column.info() + ";\n" + column.load(),
                      of_tensor));
}

TEST_F(Im2colTest, LoadsAlongTheWidthAlone) {
  for (const TensorMode mode : {TensorMode::wide, TensorMode::wide_128}) {
    Column column{.extents = {16, 9, 7, 20, 1}, .lower = {-1}, .upper = {-1}, .channels = 16, .pixels = 128};
    column.swizzle = 2;
    column.at = {0, 2, 3, 1};
    column.offsets = {2};
    column.mode = mode;
    expect_success(load(column, column.load(), map(column, tensor(column))));
    expect_column(column);
    std::string halo = column.load();
    halo.replace(halo.find("{0, 2}"), 6, "{2, 2}");
    expect_fault(load(column, halo, map(column, tensor(column))), FaultKind::illegal_instruction, "wHalo = 2");
  }
}

TEST_F(Im2colTest, StoresAndReducesColumns) {
  for (int round = 0; round < 40; ++round) {
    Column column = draw();
    column.offsets = {};
    for (int& lower : column.lower) lower = std::max(lower, 0);
    for (int i = 0; i < column.corners(); ++i) column.at[i + 1] = column.lower[i];
    column.at[0] = std::max(column.at[0], 0);
    column.type = 2, column.fill = 0;
    const bool adds = round % 2 != 0;
    const std::string form = adds ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.";
    const std::string copy = form + std::to_string(column.rank) + "d.global.shared::cta." + (adds ? "add." : "") +
                             "im2col_no_offs.bulk_group [%rd1, " + column.coordinates() + "], [tile];";
    SCOPED_TRACE(copy);
    std::vector<uint32_t> values(column.pixels * column.span() / 4 + 4);
    for (uint32_t& value : values) value = static_cast<uint32_t>(random_());
    const std::vector<uint32_t> found = stored(column, copy, values);
    std::vector<uint32_t> expected(column.words(), 5);
    const std::vector<int64_t> places = column.places();
    for (uint32_t pixel = 0; pixel < column.pixels; ++pixel) {
      for (uint32_t c = 0; places[pixel] >= 0 && c < column.channels; ++c) {
        if (column.at[0] + c >= column.extents[0]) continue;
        uint32_t& element = expected[static_cast<size_t>(places[pixel]) + static_cast<uint32_t>(column.at[0]) + c];
        element = values[column.shared_word(pixel, c)] + (adds ? element : 0);
      }
    }
    EXPECT_EQ(found, expected);
    if (HasFailure()) return;
  }
}

TEST_F(Im2colTest, StopsCoordinatesAndOffsetsThatPtxDoesNotHave) {
  const Column legal{.lower = {-1, 0}, .upper = {0, -1}};
  const uint64_t of_tensor = map(legal, tensor(legal));
  const auto stops = [&](std::array<int, 5> at, std::array<int, 3> offsets, const std::string& words) {
    Column column = legal;
    column.at = at;
    column.offsets = offsets;
    expect_fault(load(column, column.load(), of_tensor), FaultKind::illegal_instruction, words);
  };
  stops({0, -2, 0, 0}, {}, "coordinate -2 of W is outside of the tensor map's box");
  stops({0, 4, 0, 0}, {}, "legal are -1 to 3");
  stops({0, 0, 3, 0}, {}, "coordinate 3 of H");
  stops({0, 0, 0, 0}, {0, 256}, "offset 256 of H; with 4 dimensions legal are 0 to 255");
  stops({2, 0, 0, 0}, {}, "16-byte boundary");
  expect_fault(kernel_.run("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%rd1, {0, 0, 0, 0}], "
                           "[tile];",
                           {of_tensor}),
               FaultKind::illegal_instruction, "the tensor map's lower corner of W is -1");
}

TEST_F(Im2colTest, WantsTheMapOfItsMode) {
  Column column;
  const uint64_t of_tensor = map(column, tensor(column));
  expect_fault(load(column,
                    "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, "
                    "{0, 0, 0, 0}], [bar];",
                    of_tensor),
               FaultKind::illegal_instruction,
               "one of cuTensorMapEncodeIm2col, and this form needs one of "
               "cuTensorMapEncodeTiled");
  column.mode = TensorMode::wide;
  expect_fault(load(column, column.load(), of_tensor), FaultKind::illegal_instruction, "cuTensorMapEncodeIm2colWide");
  expect_fault(
      kernel_.run(
          "tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd0;",
          {kernel_.upload(std::vector<std::array<uint64_t, 16>>{*kernel_.host<std::array<uint64_t, 16>>(of_tensor)})}),
      FaultKind::illegal_instruction, "replacements in maps of cuTensorMapEncodeTiled only");
}

TEST_F(Im2colTest, StopsColumnsOutsideOfAllocations) {
  const Column column{.pixels = 24};
  const uint64_t of_tensor = map(column, kernel_.allocate(column.words() * 4 / 2));
  expect_fault(load(column, column.load(), of_tensor), FaultKind::illegal_address, "cuTensorMapEncodeIm2col");
}

TEST_F(Im2colTest, EncodesByTheRulesOfTheDriver) {
  const auto refused = [](const char* words, Column column, uint32_t major = 10) {
    alignas(64) TensorMap map;
    map.mark = 0;
    const EncodeResult result = column.encode(&map, 0x2000'0000'0000, major);
    EXPECT_EQ(result.code, kEncodeInvalidValue) << words;
    EXPECT_NE(result.message.find(words), std::string::npos) << words << " is not in " << result.message;
    EXPECT_EQ(map.mark, 0u) << "a refused map is not written";
  };
  const auto accepted = [](Column column, uint32_t major = 10) {
    alignas(64) TensorMap map;
    EXPECT_EQ(column.encode(&map, 0x2000'0000'0000, major).message, "");
  };
  const TensorMode wide = TensorMode::wide;
  accepted({.upper = {127, -3}});
  accepted({.rank = 3, .upper = {32767}}, 9);
  accepted({.rank = 5, .extents = {8, 20, 20, 20, 1}, .lower = {-16, 0, 0}, .upper = {0, 15, -16}});
  accepted({.channels = 8, .pixels = 1024});
  accepted({.channels = 16, .swizzle = 3, .mode = wide});
  refused("tensorRank is 2; im2col needs 3, 4 or 5", {.rank = 2});
  refused("pixelBoxUpperCorner of W is 128; with rank 4 legal are -128 to 127", {.upper = {128}});
  refused("pixelBoxLowerCorner of H is -129", {.lower = {0, -129}});
  refused("pixelBoxUpperCorner of D is 16; with rank 5 legal are -16 to 15", {.rank = 5, .upper = {0, 0, 16}});
  refused("pixelBoxLowerCorner[0] is -32769", {.rank = 3, .lower = {-32769}});
  refused("the box of the pixels has a size of 0 in H", {.upper = {0, -4}});
  refused("channelsPerPixel is 0; legal are 1 to 256", {.channels = 0});
  refused("channelsPerPixel is 260", {.channels = 260});
  refused("channelsPerPixel = 6 elements of 32 bits are 24 bytes", {.channels = 6});
  refused("allows an inner box of at most 32 bytes", {.channels = 16, .swizzle = 1});
  refused("pixelsPerColumn is 0; legal are 1 to 1024", {.pixels = 0});
  refused("pixelsPerColumn is 1025", {.pixels = 1025});
  refused("elementStrides[1] is 9", {.steps = {1, 9, 1, 1, 1}});
  refused("elementStrides[0] is 0", {.steps = {0, 1, 1, 1, 1}});
  refused("needs a floating-point data type", {.fill = 1});
  refused("swizzle is CU_TENSOR_MAP_SWIZZLE_NONE; this mode has 64B", {.mode = wide});
  refused("compute capability 10.0", {.swizzle = 3, .mode = wide}, 9);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
