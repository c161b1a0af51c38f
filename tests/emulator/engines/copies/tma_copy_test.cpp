// Copies of tensor boxes through the instructions: loads, stores, reductions, gather and scatter, multicast, and maps
// that kernels change.
#include "emulator/engines/copies/tensor_map.hpp"
#include "fixtures/kernel_run.hpp"

namespace stagecraft::emulator::machine {
namespace {

using machine::FaultKind;

/// The fields that the tests vary in a map of 16-bit elements, 64 in a row of 128 bytes.
struct Shape {
  uint64_t columns = 64, rows = 64;
  uint32_t box_columns = 16, box_rows = 8, row_stride = 1;
  int swizzle = 0;
  int data_type = 1;
};

class TensorCopyTest : public ::testing::Test {
 protected:
  TensorCopyTest() {
    std::vector<uint16_t> values(64 * 64);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
    tensor_ = kernel_.upload(values);
  }

  /// Address of a map in device memory.
  uint64_t map(const Shape& shape, uint64_t address = 0) {
    alignas(64) TensorMap map;
    const uint64_t dims[2] = {shape.columns, shape.rows}, strides[1] = {128};
    const uint32_t box[2] = {shape.box_columns, shape.box_rows}, steps[2] = {1, shape.row_stride};
    const EncodeResult result = encode_tiled({&map, shape.data_type, 2, address != 0 ? address : tensor_, dims, strides,
                                              box, steps, 0, shape.swizzle, 0, 0});
    EXPECT_EQ(result.code, 0) << result.message;
    return kernel_.upload(std::vector<TensorMap>{map});
  }

  static std::string load(int column, int row, uint32_t bytes) {
    return "mbarrier.init.shared::cta.b64 [bar], 1;\nfence.proxy.async;\n"
           "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " +
           std::to_string(bytes) +
           ";\ncp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd1, {" +
           std::to_string(column) + ", " + std::to_string(row) +
           "}], [bar];\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\n@!%p1 bra again;\n";
  }
  /// Copies the first `bytes` of tile to out.
  static std::string show(uint32_t bytes) {
    return "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], " + std::to_string(bytes) +
           ";\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
  }
  /// Runs `line` and the end of its group with %rd1 = map, after tile has been filled with a 16-bit value.
  machine::LaunchResult store(const std::string& line, uint64_t map, uint16_t value = 1) {
    const uint64_t values = kernel_.upload(std::vector<uint16_t>(2048, value));
    return kernel_.run(R"(
      mbarrier.init.shared::cta.b64 [bar], 1;
      mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;
      cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd2], 4096, [bar];
    again:
      mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
      @!%p1 bra again;
    )" + line + "\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
                       {map, values});
  }
  static std::string store_at(int column, int row) {
    return "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {" + std::to_string(column) + ", " +
           std::to_string(row) + "}], [tile];";
  }

  KernelRun kernel_;
  uint64_t tensor_ = 0;
};

TEST_F(TensorCopyTest, LoadsABoxAndSignalsItsBytes) {
  expect_success(kernel_.run(load(48, 3, 256) + show(256), {map({})}));
  for (uint32_t row = 0; row < 8; ++row) {
    for (uint32_t column = 0; column < 16; ++column) {
      EXPECT_EQ(kernel_.out<uint16_t>()[row * 16 + column], (row + 3) * 64 + column + 48);
    }
  }
}

TEST_F(TensorCopyTest, CountsBytesAsTheChipDoes) {
  // Measured on an H200: shape, box start, bytes.
  struct Case {
    Shape shape;
    int column, row;
    uint32_t bytes;
  };
  const Case cases[] = {
      {{64, 64, 32, 8}, 0, 0, 512},       {{64, 64, 32, 8, 1, 3}, 0, 0, 512}, {{64, 64, 8, 8, 1, 3}, 0, 0, 128},
      {{64, 64, 16, 8, 1, 2}, 0, 0, 256}, {{60, 6, 16, 8}, 48, 2, 256},       {{60, 6, 16, 8}, 48, 4, 256},
      {{64, 64, 16, 8}, 1000, 1000, 256}, {{64, 64, 16, 8, 2}, 0, 1, 128},    {{64, 64, 16, 7, 3}, 0, 1, 96},
  };
  for (const Case& each : cases) {
    expect_success(kernel_.run(load(each.column, each.row, each.bytes), {map(each.shape)}));
    const auto result = kernel_.run(load(each.column, each.row, each.bytes + 16), {map(each.shape)});
    ASSERT_TRUE(result.fault.has_value());
    EXPECT_EQ(*result.fault, FaultKind::deadlock);
  }
}

TEST_F(TensorCopyTest, StopsBoxesThatBeginOffA16ByteBoundary) {
  for (const int column : {4, 52, -4}) {
    expect_fault(kernel_.run(load(column, 0, 256), {map({60, 6})}), FaultKind::illegal_instruction, "16-byte boundary");
  }
  for (const int column : {48, -8, 1000}) expect_success(kernel_.run(load(column, 0, 256), {map({60, 6})}));
  expect_fault(store(store_at(4, 0), map({})), FaultKind::illegal_instruction, "multiple of 8");
}

TEST_F(TensorCopyTest, StopsTilesThatLeaveSharedMemory) {
  expect_fault(kernel_.run(load(0, 0, 131072), {map({64, 64, 256, 256})}), FaultKind::illegal_address,
               "not in the block's shared memory");
  expect_fault(kernel_.run("mbarrier.init.shared::cta.b64 [bar], 1;\ncp.async.bulk.tensor.2d.shared::cta.global."
                           "mbarrier::complete_tx::bytes [tile+64], [%rd1, {0, 0}], [bar];",
                           {map({})}),
               FaultKind::misaligned_address, "not a multiple of 128");
}

TEST_F(TensorCopyTest, StopsMapsThatAreNone) {
  expect_fault(kernel_.run(load(0, 0, 256), {kernel_.upload(std::vector<uint64_t>(16))}),
               FaultKind::illegal_instruction, "no tensor map");
  expect_fault(kernel_.run(load(0, 0, 256), {0}), FaultKind::illegal_address, "the pointer is null");
  expect_fault(kernel_.run(load(0, 0, 256), {map({}) + 16}), FaultKind::misaligned_address, "64-byte aligned");
  expect_fault(kernel_.run("mbarrier.init.shared::cta.b64 [bar], 1;\ncp.async.bulk.tensor.3d.shared::cta.global."
                           "mbarrier::complete_tx::bytes [tile], [%rd1, {0, 0, 0}], [bar];",
                           {map({})}),
               FaultKind::illegal_instruction, "for 3 dimension(s), the tensor map has 2");
  expect_fault(kernel_.run(load(0, 0, 256), {map({64, 64, 16, 8}, 0x2fff'0000'0000)}), FaultKind::illegal_address,
               "not in allocated memory");
  expect_fault(kernel_.run(load(0, 60, 256), {map({64, 128})}), FaultKind::illegal_address, "row 4 of the box");
}

TEST_F(TensorCopyTest, StoresABoxAndCutsItAtTheEdge) {
  // Measured: elements written for a box of 16x6 at (48, 2) of a tensor of 60x6, its last piece to its end.
  const uint64_t target = kernel_.upload(std::vector<uint16_t>(64 * 64, 0));
  expect_success(store(store_at(48, 2), map({60, 6, 16, 6}, target)));
  const uint16_t* values = kernel_.host<uint16_t>(target);
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t column = 0; column < 64; ++column) {
      EXPECT_EQ(values[row * 64 + column], column >= 48 && row >= 2 && row < 6 ? 1 : 0) << row << " " << column;
    }
  }
}

TEST_F(TensorCopyTest, StopsStoresThatBeginBeforeTheTensor) {
  expect_fault(store(store_at(-8, -2), map({60, 6, 16, 6})), FaultKind::illegal_instruction,
               "negative coordinate in {-8, -2}");
}

TEST_F(TensorCopyTest, UndoesTheSwizzleOnStores) {
  const uint64_t target = kernel_.upload(std::vector<uint16_t>(64 * 64, 0));
  const Shape swizzled{64, 64, 64, 8, 1, 3};
  expect_success(kernel_.run(load(0, 8, 1024) +
                                 "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {0, 8}], [tile];\n"
                                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
                             {map(swizzled), map(swizzled, target)}));
  for (uint32_t i = 8 * 64; i < 16 * 64; ++i) EXPECT_EQ(kernel_.host<uint16_t>(target)[i], i);
}

TEST_F(TensorCopyTest, ReducesABox) {
  const uint64_t target = kernel_.upload(std::vector<uint16_t>(64 * 64, 0x3c00));
  expect_success(
      store("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {16, "
            "60}], [tile];",
            map({64, 64, 16, 8, 1, 0, 6}, target), 0x3c00));
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t column = 0; column < 64; ++column) {
      const bool inside = row >= 60 && column >= 16 && column < 32;
      EXPECT_EQ(kernel_.host<uint16_t>(target)[row * 64 + column], inside ? 0x4000 : 0x3c00);
    }
  }
  expect_fault(store("cp.reduce.async.bulk.tensor.2d.global.shared::cta.inc.bulk_group [%rd1, {0, 0}], "
                     "[tile];",
                     map({64, 64, 16, 8, 1, 0, 6}, target)),
               FaultKind::illegal_instruction, "there is no .inc of CU_TENSOR_MAP_DATA_TYPE_FLOAT16");
}

TEST_F(TensorCopyTest, GathersAndScattersFourRows) {
  const uint64_t source = map({64, 64, 64, 1, 1, 3});
  expect_success(kernel_.run(R"(
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
    cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [tile], [%rd1, {0, 9, 3, -1, 63}], [bar];
  again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra again;
  )" + show(512),
                             {source}));
  const uint16_t* tile = kernel_.out<uint16_t>();
  for (uint32_t piece = 0; piece < 8; ++piece) {
    EXPECT_EQ(tile[piece * 8], 9 * 64 + piece * 8);
    EXPECT_EQ(tile[64 + (piece ^ 1) * 8], 3 * 64 + piece * 8) << "the second line is swizzled";
    EXPECT_EQ(tile[128 + piece * 8], 0) << "row -1 does not exist";
    EXPECT_EQ(tile[192 + (piece ^ 3) * 8], 63 * 64 + piece * 8);
  }
  const uint64_t target = kernel_.upload(std::vector<uint16_t>(64 * 64, 0));
  expect_success(
      store("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {0, 9, "
            "3, 7, 64}], [tile];",
            map({64, 64, 64, 1}, target)));
  for (uint32_t row = 0; row < 64; ++row) {
    EXPECT_EQ(kernel_.host<uint16_t>(target)[row * 64 + 5], row == 9 || row == 3 || row == 7 ? 1 : 0) << row;
  }
  expect_fault(store("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {0, 9, "
                     "3, 7, 64}], [tile];",
                     map({64, 64, 64, 2}, target)),
               FaultKind::illegal_instruction, "boxDim[1] = 1");
}

/// Both blocks of a pair expect `bytes`; rank 1 issues `line`. Returns what each rank found: bit 0 is set if its phase
/// ended, bits 8 and up are the first element of its tile.
std::vector<uint32_t> pair(KernelRun& kernel, const std::string& line, uint64_t map, uint32_t bytes0, uint32_t bytes1) {
  const auto result = kernel.run(R"(
    mov.u32 %r1, %cluster_ctarank;
    setp.eq.u32 %p2, %r1, 1;
    mov.u32 %r2, )" + std::to_string(bytes0) +
                                     ";\n@%p2 mov.u32 %r2, " + std::to_string(bytes1) + R"(;
    mov.u32 %r3, 0;
    st.shared.u32 [tile], %r3;
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [bar], %r2;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.u32 %r10, bar;
    mov.u32 %r11, 0;
    mapa.shared::cluster.u32 %r12, %r10, %r11;
    mov.b16 %h1, 3;
    @%p2 )" + line + R"(
    nanosleep.u32 20000;
    mul.wide.u32 %rd10, %r1, 8;
    add.s64 %rd11, %rd0, %rd10;
    ld.shared.u32 %r4, [tile];
    st.global.u32 [%rd11], %r4;
    mov.u32 %r5, 1;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [bar], 0;
    @%p3 st.global.u32 [%rd11+4], %r5;
    barrier.cluster.arrive;
    barrier.cluster.wait;
  )",
                                 {map}, {2, 1, 2});
  expect_success(result);
  return {kernel.out()[0], kernel.out()[1], kernel.out()[2], kernel.out()[3]};
}

TEST_F(TensorCopyTest, SignalsTheLeaderOfAPair) {
  const std::string form = "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes";
  // Not multicast: the copy goes to the issuer, and signals the peer.
  EXPECT_EQ(pair(kernel_, form + " [tile], [%rd1, {0, 1}], [%r12];", map({}), 256, 256),
            (std::vector<uint32_t>{0, 1, 0x00410040, 0}));
  // Multicast to both, with the even block's barrier: it gets the bytes of both.
  kernel_.out()[1] = 0;
  EXPECT_EQ(pair(kernel_, form + ".multicast::cluster [tile], [%rd1, {0, 1}], [%r12], %h1;", map({}), 512, 256),
            (std::vector<uint32_t>{0x00410040, 1, 0x00410040, 0}));
}

TEST_F(TensorCopyTest, MulticastsABox) {
  EXPECT_EQ(pair(kernel_,
                 "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[tile], [%rd1, {0, 1}], [bar], %h1;",
                 map({}), 256, 256),
            (std::vector<uint32_t>{0x00410040, 1, 0x00410040, 1}));
}

TEST_F(TensorCopyTest, WantsTheBarrierBesideTheTile) {
  expect_fault(kernel_.run(R"(
    mbarrier.init.shared::cta.b64 [bar], 1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.u32 %r10, bar;
    mov.u32 %r11, 1;
    mapa.shared::cluster.u32 %r12, %r10, %r11;
    mov.u32 %r10, tile;
    mov.u32 %r11, 0;
    mapa.shared::cluster.u32 %r13, %r10, %r11;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r13], [%rd1, {0, 1}], [%r12];
    barrier.cluster.arrive;
    barrier.cluster.wait;
  )",
                           {map({})}, {2, 1, 2}),
               FaultKind::illegal_instruction, "are in different blocks");
}

TEST_F(TensorCopyTest, LetsKernelsChangeMaps) {
  const uint64_t changed = map({});
  expect_success(kernel_.run(R"(
    tensormap.replace.tile.global_address.global.b1024.b64 [%rd1], %rd2;
    mov.u32 %r1, 8;
    tensormap.replace.tile.box_dim.global.b1024.b32 [%rd1], 1, %r1;
    tensormap.replace.tile.elemtype.global.b1024.b32 [%rd1], 1;
    tensormap.replace.tile.swizzle_mode.global.b1024.b32 [%rd1], 1;
    tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 1, 6;
  )" + load(0, 0, 256) + show(256),
                             {changed, tensor_ + 1024}));
  const TensorMap& map = *kernel_.host<TensorMap>(changed);
  EXPECT_EQ(map.address, tensor_ + 1024);
  EXPECT_EQ(map.swizzle, TensorSwizzle::span_32);
  EXPECT_EQ(map.extent(1), 6u);
  EXPECT_EQ(kernel_.out<uint16_t>()[0], 512);
  EXPECT_EQ(kernel_.out<uint16_t>()[6 * 16], 0) << "row 6 is out of bounds now";
  expect_fault(kernel_.run("mov.u32 %r1, 9;\ntensormap.replace.tile.rank.global.b1024.b32 [%rd1], %r1;", {changed}),
               FaultKind::illegal_instruction, "rank cannot be 9");
}

/// Sets every field that a blank map of two dimensions needs, as map({}) has them, except the one named.
std::string fill_blank_map(const std::string& except = "none") {
  std::string code;
  for (const char* field :
       {"global_address.global.b1024.b64 [%rd1], %rd2", "rank.global.b1024.b32 [%rd1], 1",
        "box_dim.global.b1024.b32 [%rd1], 0, 16", "box_dim.global.b1024.b32 [%rd1], 1, 8",
        "global_dim.global.b1024.b32 [%rd1], 0, 64", "global_dim.global.b1024.b32 [%rd1], 1, 64",
        "global_stride.global.b1024.b64 [%rd1], 0, 128", "element_stride.global.b1024.b32 [%rd1], 0, 1",
        "element_stride.global.b1024.b32 [%rd1], 1, 1", "elemtype.global.b1024.b32 [%rd1], 1",
        "interleave_layout.global.b1024.b32 [%rd1], 0", "swizzle_mode.global.b1024.b32 [%rd1], 1",
        "fill_mode.global.b1024.b32 [%rd1], 0"}) {
    if (std::string(field).find(except) == std::string::npos) {
      code += std::string("tensormap.replace.tile.") + field + ";\n";
    }
  }
  return code;
}

TEST_F(TensorCopyTest, TakesAMapThatAKernelMakesOfZeros) {
  // Recorded on an H100: what follows from 128 bytes of zeros when a field is left out.
  Shape as_bytes;
  as_bytes.columns = 64, as_bytes.data_type = 0, as_bytes.swizzle = 1;
  const std::pair<const char*, Shape> cases[] = {
      {"none", {64, 64, 16, 8, 1, 1}},         {"element_stride", {64, 64, 16, 8, 1, 1}},
      {"interleave", {64, 64, 16, 8, 1, 1}},   {"fill_mode", {64, 64, 16, 8, 1, 1}},
      {"swizzle_mode", {64, 64, 16, 8, 1, 0}}, {"elemtype", as_bytes},
  };
  for (const auto& [left_out, shape] : cases) {
    const uint64_t blank = kernel_.upload(std::vector<uint8_t>(128));
    const uint32_t bytes = shape.data_type == 0 ? 128 : 256;
    expect_success(kernel_.run(fill_blank_map(left_out) + load(0, 3, bytes) + show(bytes), {blank, tensor_}));
    const std::vector<uint16_t> found(kernel_.out<uint16_t>(), kernel_.out<uint16_t>() + bytes / 2);
    expect_success(kernel_.run(load(0, 3, bytes) + show(bytes), {map(shape)}));
    EXPECT_EQ(found, std::vector<uint16_t>(kernel_.out<uint16_t>(), kernel_.out<uint16_t>() + bytes / 2)) << left_out;
  }
}

TEST_F(TensorCopyTest, NamesWhatABlankMapLacks) {
  const std::pair<const char*, const char*> cases[] = {
      {"rank", "has not set rank: a map of rank n needs"},
      {"global_address", "has not set global_address: a map of rank 2"},
      {"box_dim", "has not set box_dim 0, box_dim 1:"},
      {"global_dim.global.b1024.b32 [%rd1], 1", "has not set global_dim 1:"},
      {"global_stride", "has not set global_stride 0:"},
  };
  for (const auto& [left_out, said] : cases) {
    const uint64_t blank = kernel_.upload(std::vector<uint8_t>(128));
    expect_fault(kernel_.run(fill_blank_map(left_out) + load(0, 0, 256), {blank, tensor_}),
                 FaultKind::illegal_instruction, said);
  }
  std::vector<uint8_t> nearly_blank(128);
  nearly_blank[100] = 1;
  expect_fault(kernel_.run(fill_blank_map(), {kernel_.upload(nearly_blank), tensor_}), FaultKind::illegal_instruction,
               "these 128 bytes are no tensor map");
}

TEST_F(TensorCopyTest, CopiesAChangedMapOutOfSharedMemory) {
  const uint64_t target = kernel_.allocate(128);
  std::memset(kernel_.host<char>(target), 0, 128);
  expect_success(kernel_.run(R"(
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p2, %r1, 0;
    @!%p2 bra copied;
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd1], 128, [bar];
  again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra again;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [tile], %rd0;
  copied:
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [tile], 128;
  )",
                             {map({}), target}, {1, 32, 1}));
  EXPECT_EQ(kernel_.host<TensorMap>(target)->mark, kTensorMapMark);
  EXPECT_NE(kernel_.host<TensorMap>(target)->address, tensor_);
}

TEST_F(TensorCopyTest, OrdersChangedMapsWithAFence) {
  expect_success(
      kernel_.run("fence.proxy.tensormap::generic.release.gpu;\n"
                  "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n" +
                      load(0, 0, 256),
                  {map({})}));
  EXPECT_THROW(kernel_.run("fence.proxy.tensormap::generic.acquire.gpu [%rd0], 64;"), ptx::Error);
}

TEST(TensorCopyOnHopperTest, RefusesWhatCameWithBlackwell) {
  KernelRun hopper(machine::h200());
  const auto refuses = [&](const std::string& line) {
    try {
      hopper.run(line);
      ADD_FAILURE() << line;
    } catch (const ptx::Error& error) {
      EXPECT_NE(std::string(error.what()).find("needs sm_100"), std::string::npos) << error.what();
    }
  };
  refuses(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [tile], [%rd0, {0, 0, 1, "
      "2, 3}], [bar];");
  refuses(
      "cp.async.bulk.tensor.2d.cta_group::1.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0, {0, 0}], "
      "[bar];");
  refuses("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [tile], 16, %h1;");
}

TEST_F(TensorCopyTest, RefusesByNameWhatItDoesNotDo) {
  const auto refuses = [&](const std::string& line, const std::string& words) {
    try {
      kernel_.run(line);
      ADD_FAILURE() << line;
    } catch (const ptx::Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refuses(
      "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [tile], [%rd0, {0, 0}], "
      "[bar], {%h1};",
      ".im2col is for three, four or five dimensions");
  refuses(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [tile], [%rd0, {0, 0, 0, "
      "0}], [bar], {%h1};",
      "operand 4 must be 2 im2col offset(s) in braces, of W first");
  refuses(
      "cp.async.bulk.tensor.2d.shared::cta.global.multicast::cluster.mbarrier::complete_tx::bytes [tile], [%rd0, "
      "{0, 0}], [bar], %h1;",
      "multicast::cluster");
  refuses("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd0, {0}], [bar];",
          "2 coordinate(s)");
  refuses(
      "cp.async.bulk.tensor.3d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [tile], [%rd0, {0, 0, "
      "0, 0, 0}], [bar];",
      "for two dimensions");
}

}  // namespace
}  // namespace stagecraft::emulator::machine
