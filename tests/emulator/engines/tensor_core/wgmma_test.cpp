// wgmma.mma_async: every type, shape and layout of operands against a reference in double precision.
#include "wgmma_fixture.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

struct Types {
  ElementFormat a, b;
  const char *a_name, *b_name, *d;
};
constexpr Types kTypes[] = {
    {ElementFormat::f16, ElementFormat::f16, "f16", "f16", "f32"},
    {ElementFormat::f16, ElementFormat::f16, "f16", "f16", "f16"},
    {ElementFormat::bf16, ElementFormat::bf16, "bf16", "bf16", "f32"},
    {ElementFormat::tf32, ElementFormat::tf32, "tf32", "tf32", "f32"},
    {ElementFormat::e4m3, ElementFormat::e4m3, "e4m3", "e4m3", "f32"},
    {ElementFormat::e4m3, ElementFormat::e5m2, "e4m3", "e5m2", "f16"},
    {ElementFormat::e5m2, ElementFormat::e4m3, "e5m2", "e4m3", "f32"},
    {ElementFormat::e5m2, ElementFormat::e5m2, "e5m2", "e5m2", "f16"},
    {ElementFormat::s8, ElementFormat::s8, "s8", "s8", "s32"},
    {ElementFormat::s8, ElementFormat::u8, "s8", "u8", "s32"},
    {ElementFormat::u8, ElementFormat::s8, "u8", "s8", "s32"},
    {ElementFormat::u8, ElementFormat::u8, "u8", "u8", "s32"},
};

Trial trial_of(const Types& types) {
  Trial trial;
  trial.a = types.a;
  trial.b = types.b;
  trial.a_name = types.a_name;
  trial.b_name = types.b_name;
  trial.d = types.d;
  return trial;
}

TEST(Wgmma, MultipliesEveryTypeFromSharedMemory) {
  for (const Types& types : kTypes) {
    Trial trial = trial_of(types);
    for (const bool accumulate : {true, false}) {
      trial.accumulate = accumulate;
      run(trial);
    }
  }
}

TEST(Wgmma, MultipliesEveryTypeWithAInRegisters) {
  for (const Types& types : kTypes) {
    Trial trial = trial_of(types);
    trial.a_in_registers = true;
    run(trial);
  }
}

TEST(Wgmma, HasEveryWidth) {
  Trial trial;
  trial.b_swizzle = 6;
  for (uint32_t n = 8; n <= 256; n += 8) {
    trial.n = n;
    run(trial, n);
  }
  trial = trial_of(kTypes[8]);
  trial.b_swizzle = 0;
  for (const uint32_t n : {8, 16, 24, 32, 48, 240, 256}) {
    trial.n = n;
    run(trial, n);
  }
}

TEST(Wgmma, ReadsEverySwizzleInBothMajors) {
  for (const uint32_t swizzle : {0, 6, 4, 2}) {
    for (const bool mn_major : {false, true}) {
      Trial trial;
      trial.n = 96;
      trial.a_swizzle = swizzle;
      trial.a_mn = mn_major;
      run(trial);
      trial.b_swizzle = swizzle;
      trial.b_mn = mn_major;
      run(trial);
      trial.a_swizzle = 2;
      trial.a_mn = false;
      run(trial);
      trial.a_in_registers = true;
      run(trial);
    }
    for (const Types& types : kTypes) {
      Trial trial = trial_of(types);
      trial.n = 32;
      trial.a_swizzle = trial.b_swizzle = swizzle;
      run(trial);
    }
  }
}

TEST(Wgmma, NegatesItsOperands) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const bool in_registers : {false, true}) {
        Trial trial;
        trial.negate_a = a;
        trial.negate_b = b;
        trial.a_in_registers = in_registers;
        run(trial);
      }
    }
  }
}

TEST(Wgmma, SaturatesIntegersWhenAsked) {
  for (const Types& types : kTypes) {
    if (types.d != std::string("s32")) continue;
    Trial trial = trial_of(types);
    trial.saturate = true;
    run(trial);
  }
}

// D = D + popcount(A & B) over 256 bits.
TEST(Wgmma, CountsSingleBits) {
  for (const bool in_registers : {false, true}) {
    std::mt19937 random(3);
    const Matrix a(ElementFormat::u8, 64, 32, random), b(ElementFormat::u8, 24, 32, random);
    TensorBlock bench;
    const uint64_t a_bits = put_k_major(bench, a, kTileStart, 4), b_bits = put_k_major(bench, b, kStartOfB, 0);
    std::vector<uint8_t> tile(kTileBytes);
    std::memcpy(tile.data(), bench.block.shared.data() + kTileStart, kTileBytes);
    // Registers hold 32 bits in the places of one tf32 element.
    std::vector<uint32_t> a_words(4 * kThreads), d_words(12 * kThreads);
    const FragmentLayout a_layout = layout_of_a(32), d_layout = layout_of_d(24);
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t index = a_layout.index(thread, i);
        for (uint32_t byte = 0; byte < 4; ++byte) {
          a_words[i * kThreads + thread] |= a.code(index % 64, index / 64 * 4 + byte) << 8 * byte;
        }
      }
    }
    for (uint32_t& word : d_words) word = random();
    KernelRun kernel(machine::h200());
    std::string body = fill_tile() + move_registers(true, "%d", 12, "%rd2") + move_registers(true, "%a", 4, "%rd3");
    body += fmt::format("mov.b64 %rd20, {};\nmov.b64 %rd21, {};\n", warpgroup_descriptor(a_bits),
                        warpgroup_descriptor(b_bits));
    body += fmt::format(
        "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n24k256.s32.b1.b1.and.popc {}, {}, "
        "%rd21, 1;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
        list("%d", 12), in_registers ? list("%a", 4) : "%rd20");
    body += move_registers(false, "%d", 12, "%rd0");
    const std::vector<uint64_t> parameters{kernel.upload(tile), kernel.upload(d_words), kernel.upload(a_words)};
    expect_success(kernel.run(body, parameters, {.threads = kThreads}));
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      for (uint32_t i = 0; i < 12; ++i) {
        const uint32_t index = d_layout.index(thread, i);
        uint32_t sum = d_words[i * kThreads + thread];
        for (uint32_t byte = 0; byte < 32; ++byte) {
          sum += static_cast<uint32_t>(std::popcount(a.code(index % 64, byte) & b.code(index / 64, byte)));
        }
        ASSERT_EQ(kernel.out()[i * kThreads + thread], sum) << "thread " << thread << ", register " << i;
      }
    }
  }
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
