// Runs one wgmma.mma_async of a warpgroup on random matrices, and compares D with a reference in double precision.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "fixtures/kernel_run.hpp"
#include "fixtures/tensor_fixture.hpp"
#include "fragment_layout.hpp"

namespace stagecraft::emulator::machine::testing {

inline constexpr uint32_t kThreads = 128;
inline constexpr uint32_t kTileStart = 1024;  // of `tile` in the shared memory of KernelRun
inline constexpr uint32_t kTileBytes = 32768;
inline constexpr uint32_t kStartOfB = kTileStart + 12288;

/// Converts an sm_100 descriptor, which the fixtures make, to one of wgmma, whose swizzle is elsewhere.
inline uint64_t warpgroup_descriptor(uint64_t sm_100_descriptor) {
  const uint64_t code = sm_100_descriptor >> 61;
  const uint64_t swizzle = code == 2 ? 1 : code == 4 ? 2 : code == 6 ? 3 : 0;
  return (sm_100_descriptor & 0x3fffffffffffu) | swizzle << 62;
}

/// Returns PTX that copies the 32 KiB at %rd1 to `tile`.
inline std::string fill_tile() {
  return R"(
    mov.u32 %r0, %tid.x;
    shl.b32 %r2, %r0, 4;
    cvt.u64.u32 %rd10, %r2;
    add.s64 %rd11, %rd1, %rd10;
    mov.u32 %r1, tile;
    add.u32 %r3, %r1, %r2;
    mov.u32 %r4, 0;
  fill:
    ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd11];
    st.shared.v4.b32 [%r3], {%r5, %r6, %r7, %r8};
    add.s64 %rd11, %rd11, 2048;
    add.u32 %r3, %r3, 2048;
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p1, %r4, 16;
    @%p1 bra fill;
    fence.proxy.async;
    bar.sync 0;
    mul.wide.u32 %rd12, %r0, 4;
    .reg .b32 %d<128>, %a<4>;
  )";
}

/// Returns PTX that loads the registers of all threads, [register][thread], from the parameter `base`, or stores them.
inline std::string move_registers(bool load, const char* name, uint32_t count, const char* base) {
  std::string text = fmt::format("add.s64 %rd13, {}, %rd12;\n", base);
  for (uint32_t i = 0; i < count; ++i) {
    text += load ? fmt::format("ld.global.b32 {}{}, [%rd13+{}];\n", name, i, 4 * kThreads * i)
                 : fmt::format("st.global.b32 [%rd13+{}], {}{};\n", 4 * kThreads * i, name, i);
  }
  return text;
}

inline std::string list(const char* name, uint32_t count, uint32_t first = 0) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) text += fmt::format("{}{}{}", i == 0 ? "" : ", ", name, first + i);
  return text + "}";
}

/// Where elements of D and of A are. Source: CUTLASS, mma_traits_sm90_gmma.hpp, CLayout_64xN and ALayout_64x{8,16,32}.
inline FragmentLayout layout_of_d(uint32_t n) { return {{{4, 128}, {8, 1}, {4, 16}}, {{2, 64}, {2, 8}, {n / 8, 512}}}; }
inline FragmentLayout layout_of_a(uint32_t bits) {
  if (bits == 32) return {{{4, 64}, {8, 1}, {4, 16}}, {{2, 8}, {2, 256}}};
  if (bits == 16) return {{{4, 128}, {8, 1}, {4, 16}}, {{2, 64}, {2, 8}, {2, 512}}};
  return {{{4, 256}, {8, 1}, {4, 16}}, {{4, 64}, {2, 8}, {2, 1024}}};
}

struct Trial {
  ElementFormat a = ElementFormat::bf16, b = ElementFormat::bf16;
  std::string d = "f32", a_name = "bf16", b_name = "bf16";
  uint32_t n = 64;
  uint32_t a_swizzle = 2, b_swizzle = 2;  // codes of sm_100
  bool a_in_registers = false;
  bool a_mn = false, b_mn = false;
  bool negate_a = false, negate_b = false;
  bool accumulate = true;
  bool saturate = false;
};

inline void run(const Trial& trial, uint32_t seed = 1) {
  std::mt19937 random(seed);
  const uint32_t k = 256 / bits_of(trial.a), n = trial.n;
  const bool integer = trial.d == "s32", half = trial.d == "f16";
  SCOPED_TRACE(fmt::format("m64n{}k{}.{}.{}.{}, swizzles {} {}, A {}{}, B {}, {}{}{}", n, k, trial.d, trial.a_name,
                           trial.b_name, trial.a_swizzle, trial.b_swizzle,
                           trial.a_in_registers ? "in registers" : "in shared memory", trial.a_mn ? " MN-major" : "",
                           trial.b_mn ? "MN-major" : "K-major", trial.negate_a ? "-a " : "",
                           trial.negate_b ? "-b " : "", trial.accumulate ? "added" : "stored"));
  const Matrix a(trial.a, 64, k, random), b(trial.b, n, k, random);
  TensorBlock bench;
  const uint64_t a_bits = trial.a_mn ? put_mn_major(bench, a, kTileStart, trial.a_swizzle)
                                     : put_k_major(bench, a, kTileStart, trial.a_swizzle);
  const uint64_t b_bits = trial.b_mn ? put_mn_major(bench, b, kStartOfB, trial.b_swizzle)
                                     : put_k_major(bench, b, kStartOfB, trial.b_swizzle);
  std::vector<uint8_t> tile(kTileBytes);
  std::memcpy(tile.data(), bench.block.shared.data() + kTileStart, kTileBytes);

  std::vector<uint32_t> a_words(4 * kThreads);
  const FragmentLayout a_layout = layout_of_a(bits_of(trial.a));
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    for (uint32_t i = 0; i < a_layout.value_count(); ++i) {
      const uint32_t index = a_layout.index(thread, i), place = i * bits_of(trial.a);
      a_words[place / 32 * kThreads + thread] |= a.code(index % 64, index / 64) << place % 32;
    }
  }
  const FragmentLayout d_layout = layout_of_d(n);
  const uint32_t d_count = n / (half ? 4 : 2);
  std::vector<uint32_t> d_words(d_count * kThreads);
  for (uint32_t& word : d_words) {
    if (half) {
      word = to_f16((static_cast<int>(random() % 2001) - 1000) / 8.0f) |
             to_f16((static_cast<int>(random() % 2001) - 1000) / 8.0f) << 16;
    } else if (integer) {
      word = random() % 2 == 0 ? random() : 0x7fffff00u + random() % 512;  // both ends of the range
    } else {
      word = std::bit_cast<uint32_t>((static_cast<int>(random() % 2001) - 1000) / 8.0f);
    }
  }

  KernelRun kernel(machine::h200());
  const uint64_t tile_address = kernel.upload(tile), d_address = kernel.upload(d_words);
  const uint64_t a_address = kernel.upload(a_words);
  std::string body = fill_tile() + move_registers(true, "%d", d_count, "%rd2") + move_registers(true, "%a", 4, "%rd3");
  body += fmt::format("mov.b64 %rd20, {};\nmov.b64 %rd21, {};\nsetp.eq.u32 %p2, {}, 1;\n", warpgroup_descriptor(a_bits),
                      warpgroup_descriptor(b_bits), trial.accumulate ? 1 : 0);
  body += "wgmma.fence.sync.aligned;\n";
  body += fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{}{} {}, {}, %rd21, %p2", n, k, trial.d,
                      trial.a_name, trial.b_name, trial.saturate ? ".satfinite" : "", list("%d", d_count),
                      trial.a_in_registers ? list("%a", 4) : "%rd20");
  if (!integer) {
    body += fmt::format(", {}, {}", trial.negate_a ? -1 : 1, trial.negate_b ? -1 : 1);
    if (bits_of(trial.a) == 16) {
      if (!trial.a_in_registers) body += fmt::format(", {}", int{trial.a_mn});
      body += fmt::format(", {}", int{trial.b_mn});
    }
  }
  body += ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
  body += move_registers(false, "%d", d_count, "%rd0");
  expect_success(kernel.run(body, {tile_address, d_address, a_address}, {.threads = kThreads}));

  const auto value_at = [&](const uint32_t* words, uint32_t thread, uint32_t i) -> double {
    if (half) return worth(words[i / 2 * kThreads + thread] >> 16 * (i % 2) & 0xffff, 5, 10, 15);
    const uint32_t word = words[i * kThreads + thread];
    return integer ? static_cast<int32_t>(word) : double{std::bit_cast<float>(word)};
  };
  uint32_t wrong = 0;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    for (uint32_t i = 0; i < d_layout.value_count(); ++i) {
      const uint32_t index = d_layout.index(thread, i), row = index % 64, column = index / 64;
      double sum = trial.accumulate ? value_at(d_words.data(), thread, i) : 0, magnitude = std::abs(sum);
      for (uint32_t step = 0; step < k; ++step) {
        const double product = a.value(row, step) * b.value(column, step) * (trial.negate_a != trial.negate_b ? -1 : 1);
        sum += product;
        magnitude += std::abs(product);
      }
      // The chip keeps 13 bits of 8-bit floats, whose K is 32, and 25 of others (fused_sum_test.cpp has the exact
      // sums).
      double tolerance = magnitude * std::ldexp(k + 1, k == 32 ? -13 : -24);
      if (half) tolerance += std::abs(sum) * 0x1p-11 + 0x1p-25;
      if (integer) {
        tolerance = 0;
        sum = trial.saturate ? std::clamp(sum, -0x1p31, 0x1p31 - 1)
                             : static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum)));
      }
      const double found = value_at(kernel.out(), thread, i);
      if (!(std::abs(found - sum) <= tolerance) && ++wrong < 4) {
        ADD_FAILURE() << "element (" << row << ", " << column << ") is " << found << ", not " << sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

}  // namespace stagecraft::emulator::machine::testing
