// What the lanes of a warp tell each other: shuffles, votes, matches, reductions, election; whole and diverged warps.
#include "report.hpp"

using namespace stagecraft::conformance;

constexpr int kThreads = 64;
constexpr int kResults = 48;

struct Results {
  uint32_t* at;
  int next = 0;
  __device__ void add(uint32_t value) { at[next++ * kThreads + threadIdx.x] = value; }
  __device__ void add(uint64_t value) {
    add(static_cast<uint32_t>(value));
    add(static_cast<uint32_t>(value >> 32));
  }
};

/// A shuffle with its predicate, which says whether the source lane was in range.
#define SHUFFLE(MODE, VALUE, LANE, CLAMP)                 \
  [&] {                                                   \
    uint32_t taken, in_range;                             \
    asm volatile("{\n\t.reg .pred p;\n\tshfl.sync." MODE  \
                 ".b32 %0|p, %2, %3, %4, 0xffffffff;\n\t" \
                 "selp.u32 %1, 1, 0, p;\n\t}"             \
                 : "=r"(taken), "=r"(in_range)            \
                 : "r"(VALUE), "r"(LANE), "r"(CLAMP));    \
    return taken * 2 + in_range;                          \
  }()

__global__ void whole_warp(const uint32_t* in, uint32_t* out) {
  Results results{out};
  const uint32_t value = in[threadIdx.x], lane = threadIdx.x % 32;
  results.add(SHUFFLE("idx", value, value, 31));
  results.add(SHUFFLE("idx", value, value, 0x181f));
  results.add(SHUFFLE("up", value, 3, 0));
  results.add(SHUFFLE("up", value, lane % 5, 0x1800));
  results.add(SHUFFLE("down", value, 7, 31));
  results.add(SHUFFLE("down", value, value % 9, 0x181f));
  results.add(SHUFFLE("bfly", value, 21, 31));
  results.add(SHUFFLE("bfly", value, 12, 0x1c1f));
  results.add(__shfl_sync(0xffffffff, value, 9, 16));
  results.add(static_cast<uint64_t>(__shfl_xor_sync(0xffffffff, static_cast<unsigned long long>(value) << 17, 8)));
  results.add(__ballot_sync(0xffffffff, value % 3 == 0));
  results.add(static_cast<uint32_t>(__any_sync(0xffffffff, value == 7)));
  results.add(static_cast<uint32_t>(__all_sync(0xffffffff, value > 7)));
  uint32_t uniform;
  asm volatile(
      "{\n\t.reg .pred p, q;\n\tsetp.gt.u32 p, %1, 7;\n\tvote.sync.uni.pred q, p, 0xffffffff;\n\tselp.u32 %0, 1, 0, "
      "q;\n\t}"
      : "=r"(uniform)
      : "r"(value));
  results.add(uniform);
  results.add(__match_any_sync(0xffffffff, value % 5));
  results.add(__match_any_sync(0xffffffff, static_cast<unsigned long long>(value % 3) << 40));
  int same;
  results.add(__match_all_sync(0xffffffff, value / 0x80000000u * 0 + 4, &same));
  results.add(static_cast<uint32_t>(same));
  results.add(__match_all_sync(0xffffffff, value, &same));
  results.add(static_cast<uint32_t>(same));
  results.add(__reduce_add_sync(0xffffffff, value));
  results.add(static_cast<uint32_t>(__reduce_add_sync(0xffffffff, static_cast<int>(value))));
  results.add(__reduce_min_sync(0xffffffff, value));
  results.add(static_cast<uint32_t>(__reduce_max_sync(0xffffffff, static_cast<int>(value))));
  results.add(__reduce_and_sync(0xffffffff, value | 0xff));
  results.add(__reduce_or_sync(0xffffffff, value & 0xff00));
  results.add(__reduce_xor_sync(0xffffffff, value));
  results.add(__activemask());
  uint32_t elected, leader;
  asm volatile("{\n\t.reg .pred p;\n\telect.sync %0|p, 0xffffffff;\n\tselp.u32 %1, 1, 0, p;\n\t}"
               : "=r"(leader), "=r"(elected));
  results.add(leader * 2 + elected);
  uint32_t masks;
  asm volatile(
      "{\n\t.reg .b32 a, b;\n\tmov.u32 a, %%lanemask_lt;\n\tmov.u32 b, %%lanemask_ge;\n\txor.b32 a, a, b;\n\tmov.u32 "
      "b, %%lanemask_gt;\n\tadd.u32 a, a, b;\n\tmov.u32 b, %%lanemask_le;\n\tmul.lo.u32 a, a, b;\n\tmov.u32 b, "
      "%%lanemask_eq;\n\tadd.u32 %0, a, b;\n\t}"
      : "=r"(masks));
  results.add(masks);
}

/// Only some lanes take part: those of a mask, in branches of their own.
__global__ void diverged_warp(const uint32_t* in, uint32_t* out) {
  Results results{out};
  const uint32_t value = in[threadIdx.x], lane = threadIdx.x % 32;
  if (lane % 2 == 0) {
    results.add(__shfl_sync(0x55555555, value, (lane + 6) % 32));
    results.add(__ballot_sync(0x55555555, value % 3 == 0));
    results.add(__reduce_add_sync(0x55555555, value));
  } else {
    results.add(__shfl_xor_sync(0xaaaaaaaa, value, 2));
    results.add(__ballot_sync(0xaaaaaaaa, value % 3 != 0));
    results.add(__reduce_max_sync(0xaaaaaaaa, value));
  }
  if (lane >= 12 && lane < 29) {
    const uint32_t mask = 0x1ffff000;
    results.add(__match_any_sync(mask, value % 4));
    uint32_t elected, leader;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync %0|p, %2;\n\tselp.u32 %1, 1, 0, p;\n\t}"
                 : "=r"(leader), "=r"(elected)
                 : "r"(mask));
    results.add(leader * 2 + elected);
  } else {
    results.add(__reduce_xor_sync(0xe0000fff, value));
    results.add(static_cast<uint32_t>(__all_sync(0xe0000fff, value != 1)));
  }
  __syncwarp();
  uint32_t product = 1;
  for (uint32_t i = 0; i < lane % 7; ++i) product = product * value + i;  // every lane leaves the loop at its own time
  __syncwarp();
  results.add(product + __shfl_sync(0xffffffff, product, 31 - lane));
  switch (value % 6) {
    case 0: product += 5; break;
    case 1: product ^= value; [[fallthrough]];
    case 2: product *= 3; break;
    case 3:
      if (lane < 16) break;
      product = ~product;
      break;
    default: product -= lane; break;
  }
  results.add(product);
}

int main(int argc, char** argv) {
  return run(argc, argv, [](Report& report) {
    std::vector<uint32_t> values;
    Random random(report.seed());
    for (int i = 0; i < kThreads; ++i) values.push_back(static_cast<uint32_t>(random.bits()));
    const DeviceBuffer<uint32_t> in(values, "the input");
    DeviceBuffer<uint32_t> out(kThreads * kResults, "the output");
    const auto show = [&](const std::string& name, int count) {
      const std::vector<uint32_t> all = out.to_host();
      for (int i = 0; i < count; ++i) {
        report.section(name + ", result " + std::to_string(i),
                       std::vector<uint32_t>(all.begin() + i * kThreads, all.begin() + (i + 1) * kThreads));
      }
    };
    out.poison();
    whole_warp<<<1, kThreads>>>(in.data(), out.data());
    finish_kernel("whole_warp");
    show("whole warp", 31);
    out.poison();
    diverged_warp<<<1, kThreads>>>(in.data(), out.data());
    finish_kernel("diverged_warp");
    show("diverged warp", 7);
  });
}
