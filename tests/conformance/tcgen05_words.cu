// Dot products whose operands and result were published with the word that a B200 returned, by tcgen05.mma of one block
// and of a pair. Every row of A is the case's A, every column of B its B, every element of D its C, and so is every
// result.
//
//   usage: conformance_tcgen05_words FILE, of lines as README.md says
#include <algorithm>
#include <array>
#include <cstdio>
#include <cuda/ptx>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "report.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/umma_descriptors.hpp"

using namespace stagecraft;
using namespace stagecraft::conformance;

namespace {

constexpr int kThreads = 128, kRows = 128, kColumns = 32;  // of D in each block
constexpr int kRowWords = 8;                               // of an operand: 32 bytes along K
constexpr int kPlanes = 2;                                 // of 16 bytes along K

/// What a launch multiplies. A row of an operand is the one in shared memory.
struct Operands {
  uint32_t a[kRowWords], b[kRowWords], c;
  uint32_t scales_a, scales_b;  ///< bytes from the first on
  uint32_t instruction;         ///< its descriptor
};

/// @tparam ScaleVec  scale factors along K: 0 for a kind without
template <cuda::ptx::dot_kind Kind, int ScaleVec, int CtaGroup>
__device__ void issue(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, uint32_t scales_a, uint32_t scales_b) {
  constexpr cuda::ptx::kind_t<Kind> kind;
  constexpr auto group = ptx::cta_group<CtaGroup>;
  if constexpr (ScaleVec == 0) cuda::ptx::tcgen05_mma(kind, group, d, a, b, instruction, true);
  if constexpr (ScaleVec == 1) {
    cuda::ptx::tcgen05_mma_block_scale_vec_1x(kind, group, d, a, b, instruction, scales_a, scales_b, true);
  }
  if constexpr (ScaleVec == 2) {
    cuda::ptx::tcgen05_mma_block_scale_vec_2x(kind, group, d, a, b, instruction, scales_a, scales_b, true);
  }
  if constexpr (ScaleVec == 4) {
    cuda::ptx::tcgen05_mma_block_scale_vec_4x(kind, group, d, a, b, instruction, scales_a, scales_b, true);
  }
}

template <int CtaGroup>
__device__ void wait_for_blocks() {
  if constexpr (CtaGroup == 1) {
    __syncthreads();
  } else {
    cuda::ptx::barrier_cluster_arrive();
    cuda::ptx::barrier_cluster_wait();
  }
}

/// One instruction. A is K-major without a swizzle: planes of 16 bytes of all rows; a block of a pair has half of B.
template <cuda::ptx::dot_kind Kind, int ScaleVec, int CtaGroup>
__global__ void __launch_bounds__(kThreads) multiply(Operands operands, uint32_t* out) {
  constexpr int kColumnsOfB = kColumns / CtaGroup, kPlaneWords = kRowWords / kPlanes;
  __shared__ alignas(128) uint32_t a[kPlanes][kRows][kPlaneWords], b[kPlanes][kColumnsOfB][kPlaneWords];
  __shared__ uint64_t done;
  __shared__ uint32_t published;
  const TmemAllocation<128, CtaGroup> tensor_memory{&published};
  const uint32_t rank = CtaGroup == 1 ? 0 : cuda::ptx::get_sreg_cluster_ctarank(), warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    init_barrier(&done, 1);
    fence_barrier_init();
  }
  for (int i = 0; i < kRowWords; ++i) {
    a[i / kPlaneWords][threadIdx.x][i % kPlaneWords] = operands.a[i];
    if (threadIdx.x < kColumnsOfB) b[i / kPlaneWords][threadIdx.x][i % kPlaneWords] = operands.b[i];
  }
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  if (warp == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  __syncthreads();

  const uint32_t d = tensor_memory.address(), lanes = d + (warp * 32 << 16);
  constexpr uint32_t kScalesA = 32, kScalesB = 64;
  uint32_t cells[kColumns];
  for (uint32_t& cell : cells) cell = operands.c;
  store_tmem(lanes, cells);
  // All rows have the same factors, so every column of the four that hold them is the same.
  const uint32_t scales_a[4] = {operands.scales_a, operands.scales_a, operands.scales_a, operands.scales_a};
  const uint32_t scales_b[4] = {operands.scales_b, operands.scales_b, operands.scales_b, operands.scales_b};
  store_tmem(lanes + kScalesA, scales_a);
  store_tmem(lanes + kScalesB, scales_b);
  wait_for_tmem_stores();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  wait_for_blocks<CtaGroup>();
  cuda::ptx::tcgen05_fence_after_thread_sync();

  if (rank == 0 && threadIdx.x == 0) {
    const auto descriptor = [](const void* matrix, uint32_t rows) {
      return SharedMemoryDescriptor{.start_address = static_cast<uint32_t>(__cvta_generic_to_shared(matrix)),
                                    .leading_byte_offset = 16 * rows,
                                    .stride_byte_offset = 128}
          .encode();
    };
    issue<Kind, ScaleVec, CtaGroup>(d, descriptor(a, kRows), descriptor(b, kColumnsOfB), operands.instruction,
                                    d + kScalesA, d + kScalesB);
    if constexpr (CtaGroup == 1) {
      cuda::ptx::tcgen05_commit(ptx::cta_group<1>, &done);
    } else {
      cuda::ptx::tcgen05_commit_multicast(ptx::cta_group<2>, &done, uint16_t{3});
    }
  }
  wait(&done, 0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  load_tmem(cells, lanes);
  wait_for_tmem_loads();
  for (int i = 0; i < kColumns; ++i) out[(rank * kRows + threadIdx.x) * kColumns + i] = cells[i];
  cuda::ptx::tcgen05_fence_before_thread_sync();
  wait_for_blocks<CtaGroup>();
  if (warp == 0) tensor_memory.deallocate();
}

using Launch = void (*)(const Operands& operands, uint32_t* out);

template <cuda::ptx::dot_kind Kind, int ScaleVec, int CtaGroup>
void launch(const Operands& operands, uint32_t* out) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {CtaGroup, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = CtaGroup;
  config.blockDim = kThreads;
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, multiply<Kind, ScaleVec, CtaGroup>, operands, out), "launch multiply");
}

/// An instruction, for one block and for a pair.
struct Instruction {
  const char* kind;
  int scale_vec;
  std::array<Launch, 2> launches;
};

template <cuda::ptx::dot_kind Kind, int ScaleVec = 0>
constexpr Instruction instruction(const char* name) {
  return {name, ScaleVec, {launch<Kind, ScaleVec, 1>, launch<Kind, ScaleVec, 2>}};
}

using enum cuda::ptx::dot_kind;
constexpr Instruction kInstructions[] = {instruction<f16>("f16"),
                                         instruction<tf32>("tf32"),
                                         instruction<f8f6f4>("f8f6f4"),
                                         instruction<i8>("i8"),
                                         instruction<mxf8f6f4, 1>("mxf8f6f4"),
                                         instruction<mxf4, 2>("mxf4"),
                                         instruction<mxf4nvf4, 2>("mxf4nvf4"),
                                         instruction<mxf4nvf4, 4>("mxf4nvf4")};

/// An element type: how its codes are in shared memory, and its code in instruction descriptors.
struct Element {
  const char* name;
  const char* kind;  ///< without scale factors
  uint32_t code;
  int bits;   ///< of an element
  int place;  ///< of which each has so many in a chunk of 16 bytes
};
constexpr Element kElements[] = {{"f16", "f16", 0, 16, 8},     {"bf16", "f16", 1, 16, 8},
                                 {"tf32", "tf32", 2, 32, 4},   {"u8", "i8", 0, 8, 16},
                                 {"s8", "i8", 1, 8, 16},       {"e4m3", "f8f6f4", 0, 8, 16},
                                 {"e5m2", "f8f6f4", 1, 8, 16}, {"e2m3", "f8f6f4", 3, 6, 16},
                                 {"e3m2", "f8f6f4", 4, 6, 16}, {"e2m1", "f8f6f4", 5, 4, 16}};

const Element& element_of(const std::string& type) {
  const auto* const found = std::ranges::find(kElements, type, &Element::name);
  if (found == std::end(kElements)) throw std::runtime_error("no such type: " + type);
  return *found;
}

uint32_t word_of(const nlohmann::json& text) {
  return static_cast<uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

/// Writes a row of codes the way shared memory holds them: packed, and where a chunk of 16 bytes holds 16 elements of
/// 4 or 6 bits, from its beginning. The file has bf16 as the upper half of an f32.
void pack(const nlohmann::json& codes, const Element& element, bool dense, uint32_t (&row)[kRowWords]) {
  const int in_chunk = dense ? 128 / element.bits : element.place;
  for (size_t k = 0; k < codes.size(); ++k) {
    const uint32_t code = word_of(codes[k]) >> (element.name == std::string("bf16") ? 16 : 0);
    for (int bit = 0; bit < element.bits; ++bit) {
      const size_t at = k / in_chunk * 128 + k % in_chunk * element.bits + bit;
      row[at / 32] |= (code >> bit & 1) << at % 32;
    }
  }
}

uint32_t scales_of(const nlohmann::json& codes) {
  uint32_t word = 0;
  for (size_t i = 0; i < codes.size(); ++i) word |= word_of(codes[i]) << 8 * i;
  return word;
}

/// Runs a case with `group` blocks; returns the distinct words of D.
std::vector<uint32_t> results(const nlohmann::json& one, int group) {
  const Element a = element_of(one["a_type"]), b = element_of(one["b_type"]);
  const std::string kind = one.value("kind", a.kind), d_type = one["d_type"];
  const bool four_bits = kind == "mxf4" || kind == "mxf4nvf4";
  const int scale_vec = one.value("scale_vec", 0);
  Operands operands{};
  pack(one["a"], a, four_bits, operands.a);
  pack(one["b"], b, four_bits, operands.b);
  operands.c = word_of(one["c"]);
  const uint32_t rows = kRows * group;
  const uint32_t sizes = uint32_t{kColumns} / 8 << 17 | rows / 16 << 24;
  if (scale_vec == 0) {
    const uint32_t d_code = d_type == "f16" ? 0 : d_type == "f32" ? 1 : 2;
    operands.instruction =
        uint32_t{one.value("saturate", false)} << 3 | d_code << 4 | a.code << 7 | b.code << 10 | sizes;
  } else {
    const uint32_t a_code = four_bits ? 1 : a.code, b_code = four_bits ? 1 : b.code;
    const uint32_t powers_of_two = one["scale_type"] == "ue8m0";
    operands.scales_a = scales_of(one["scale_a"]);
    operands.scales_b = scales_of(one["scale_b"]);
    operands.instruction = a_code << 7 | b_code << 10 | powers_of_two << 23 | sizes;
  }
  DeviceBuffer<uint32_t> out(rows * kColumns, "D");
  const auto* const chosen = std::ranges::find_if(kInstructions, [&](const Instruction& instruction) {
    return instruction.kind == kind && instruction.scale_vec == scale_vec;
  });
  if (chosen == std::end(kInstructions)) throw std::runtime_error("no such kind: " + kind);
  chosen->launches[group - 1](operands, out.data());
  finish_kernel(one["name"]);
  std::vector<uint32_t> words = out.to_host();
  // D of f16 is in the lower halves; PTX leaves the upper ones open.
  if (d_type == "f16") std::ranges::for_each(words, [](uint32_t& word) { word &= 0xffff; });
  std::ranges::sort(words);
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

int compare(const char* path) {
  std::ifstream file(path);
  int cases = 0, wrong = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const nlohmann::json one = nlohmann::json::parse(line);
    for (const int group : {1, 2}) {
      const std::vector<uint32_t> words = results(one, group);
      if (words == std::vector{word_of(one["d"])}) continue;
      ++wrong;
      std::printf("%s with cta_group::%d: a B200 gave %08x, here it is", one["name"].get<std::string>().c_str(), group,
                  word_of(one["d"]));
      for (size_t i = 0; i < std::min<size_t>(words.size(), 4); ++i) std::printf(" %08x", words[i]);
      std::puts(words.size() > 4 ? " ..." : "");
    }
  }
  std::printf("%d cases, each by one block and by a pair: %d differ from a B200\n", cases, wrong);
  return cases != 0 && wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  try {
    return compare(argv[1]);
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
